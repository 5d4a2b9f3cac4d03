package httpclient

import "testing"

func TestAddress(t *testing.T) {
	kind := Address{Form: "must be an address", Credentials: "token_file", End: "must end with the path"}
	bare := Address{Form: "must be an address"}
	for _, test := range []struct {
		kind       Address
		text, want string
	}{
		{kind, "http://localhost:9090", ""},
		{kind, "https://[::1]/below/it/", ""},
		{kind, "", kind.Form},
		{kind, "localhost:9090", kind.Form},
		{kind, "ftp://localhost", kind.Form},
		{kind, "http:///path", kind.Form},
		{kind, "http://local host", kind.Form},
		{kind, "http://me:secret@localhost", "must not contain credentials: use token_file"},
		{kind, "http://me@localhost/?a=b", "must not contain credentials: use token_file"},
		{kind, "http://localhost/?a=b", kind.End},
		{kind, "http://localhost/?", kind.End},
		{kind, "http://localhost/#a", kind.End},
		{bare, "http://me:secret@localhost", "must not contain credentials"},
		{bare, "http://localhost/?a=b#c", ""},
	} {
		if got := test.kind.Check(test.text); got != test.want {
			t.Errorf("%+v: Check(%q) = %q, want %q", test.kind, test.text, got, test.want)
		}
	}
}

func TestQuoteAddress(t *testing.T) {
	for text, want := range map[string]string{"": `""`, "local host": `"local host"`, "http://me:secret@localhost": "", "http://x/?key=secret": ""} {
		if got := QuoteAddress(text); got != want {
			t.Errorf("QuoteAddress(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestWithoutSecrets(t *testing.T) {
	for text, want := range map[string]string{
		"http://127.0.0.1:9090/prefix":        "http://127.0.0.1:9090/prefix",
		"https://me:secret@host/p?token=x#y":  "https://host/p",
		"http://me:secret@host:port":          "(invalid URL)",
		"/login":                              "/login",
		"http://me:secret@[::1]:9090/%zz?a=b": "(invalid URL)",
	} {
		if got := WithoutSecrets(text); got != want {
			t.Errorf("WithoutSecrets(%q) = %q, want %q", text, got, want)
		}
	}
}
