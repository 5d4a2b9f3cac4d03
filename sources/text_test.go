package sources

import "testing"

func TestShorten(t *testing.T) {
	for _, test := range []struct {
		text string
		most int
		want string
	}{
		{"", 5, ""},
		{"short", 5, "short"},
		{"longer", 5, "long…"},
		{" a\n\tb  c ", 5, "a b c"},
		{"éééééé", 5, "éééé…"},
		{"a\xffb", 5, "a?b"},
		{"\x1b[31mred", 9, "?[31mred"},
	} {
		if got := Shorten(test.text, test.most); got != test.want {
			t.Errorf("Shorten(%q, %d) = %q, want %q", test.text, test.most, got, test.want)
		}
	}
}
