package settings

import (
	"strings"
	"testing"
)

func TestCheckHostPort(t *testing.T) {
	const form = "must be host:port"
	for text, want := range map[string]string{
		"127.0.0.1:80": "", "[::1]:80": "", "[fe80::1%eth0]:80": "", "localhost:1": "", "my_host.internal:65535": "", "bücher.example:80": "", "example.org.:80": "",
		"127.0.0.1:0": form + PortRange, "127.0.0.1:65536": form + PortRange, "127.0.0.1:http": form + PortRange, "127.0.0.1:": form + PortRange,
		"127.0.0.1": form, ":80": form, "a b:80": form, "300.1.1.1:80": form, "1.2.3:80": form, "a..b:80": form, "-a:80": form, "http://a:80": form, strings.Repeat("a", 254) + ":80": form,
		"${HOST}:80": unexpanded, "$HOST:80": unexpanded, "{{ host }}:80": unexpanded, "<host>:80": unexpanded, "127.0.0.1:$PORT": unexpanded, "%s:80": unexpanded,
	} {
		if got := CheckHostPort(text, form); got != want {
			t.Errorf("CheckHostPort(%q) = %q, want %q", text, got, want)
		}
	}
}
