package config

import "testing"

func TestNearest(t *testing.T) {
	names := []string{"checkout", "search", "käse", "a-b-c-d", "target"}
	for word, want := range map[string]string{
		"chekout":  "checkout",
		"Checkout": "checkout",
		"serach":   "search",
		"kase":     "käse",
		"a-b-c-e":  "a-b-c-d",
		"payments": "",
		// Kubernetes names that contain the key.
		"scaleTargetRef": "target",
		"scaleTargets":   "",
		"":               "",
	} {
		if got := Nearest(word, names); got != want {
			t.Errorf("nearest to %q is %q, want %q", word, got, want)
		}
	}
}
