package settings

import "testing"

func TestPlaceholder(t *testing.T) {
	for text, want := range map[string]string{
		"http://${HOST}:9090": "${HOST}", "$HOST:80": "$HOST", "{{ .Values.url }}": "{{ .Values.url }}", "<prometheus-host>:9090": "<prometheus-host>", "$(hostname)": "$(hostname)",
		"http://%s:9090": "%s:", "http://[[host]]": "[[host]]", "%(host)s": "%(host)s", "@HOST@": "@HOST@", "%HOST%": "%HOST%", "#{host}": "#{host}", "<<.Host>>": "<<.Host>>",
		"%NS%": "%NS%", "%ENV_2%": "%ENV_2%", "__NS__": "__NS__", "web-__REGION__.example": "__REGION__", "@@NS@@": "@@NS@@", "<%= host %>": "<%= host %>", "{NAMESPACE}": "{NAMESPACE}",
		"/%E4%BD%A0": "", "/%AB%CD": "", "/a%20%2Fb": "", "__init__": "", "/users/{ID}": "", "a__b": "",
		"http://[::1]:9090": "", "https://a.example/b%20c": "", "user@example.org": "", "a{b}": "", "$5": "", "a < b": "", "50%": "", "": "",
	} {
		if got := Placeholder(text); got != want {
			t.Errorf("Placeholder(%q) = %q, want %q", text, got, want)
		}
	}
}
