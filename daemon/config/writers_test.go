package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hpad/hpad/settings/webtest"
)

func TestWriterWarnings(t *testing.T) {
	dir := t.TempDir()
	users := webtest.Write(t, dir, "web.yml", "basic_auth_users:\n  alice: "+webtest.Hash(t, "wonder")+"\n")
	for text, want := range map[string]string{
		fmt.Sprintf("web_config = %q", users):                               `daemon.web_config`,
		fmt.Sprintf("web_config = %q\nwriters = [\"alice\"]", users):        ``,
		fmt.Sprintf("web_config = %q\nwriters = [\"alice\",\"bo\"]", users): `daemon.writers[1] = "bo": is not a user in the web config`,
		`writers = ["alice"]`: `daemon.writers: has no effect without web_config`,
		`listen = ""`:         ``,
	} {
		c, err := Parse("hpad.toml", []byte("[daemon]\n"+text+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprint(c.Warnings())
		if want == "" && got != "[]" || !strings.Contains(got, want) {
			t.Errorf("%s: warnings %s, want %q", text, got, want)
		}
	}
}
