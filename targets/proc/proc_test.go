package proc

import "testing"

func TestParse(t *testing.T) {
	const rest = " S 100 4242 100 0 -1 4194560 1051 2042 3 4 11 7 5 3 20 0 1 0 987654 12345678 321 18446744073709551615 1 1 0"
	want := Stat{Group: 4242, Ticks: 26, Started: 987654, Pages: 321}
	for _, name := range []string{"worker", "a b", "(sd-pam)", "x) R 1 2", "new\nline", ""} {
		if got, err := parse([]byte("4243 (" + name + ")" + rest)); err != nil || got != want {
			t.Errorf("Parse of a program named %q = %+v, %v, want %+v", name, got, err, want)
		}
	}
	for _, text := range []string{"", "4243 (worker", "4243 (worker) S 1 2", "4243 (worker) S 1 x" + rest[len(" S 100 4242"):]} {
		if got, err := parse([]byte(text)); err == nil {
			t.Errorf("Parse(%q) = %+v, want an error", text, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("1 (a) S 1 1 1 0 -1 0 0 0 0 0 1 2 3 4 20 0 1 0 5 6 7 8"))
	f.Add([]byte(")"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if s, err := parse(text); err != nil && s != (Stat{}) {
			t.Errorf("Parse(%q) = %+v with error %v, want the zero Stat", text, s, err)
		}
	})
}
