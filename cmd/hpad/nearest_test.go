package main

import "testing"

func TestNearest(t *testing.T) {
	names := []string{"checkout", "search", "käse"}
	for word, want := range map[string]string{
		"chekout":  "checkout",
		"Checkout": "checkout",
		"serach":   "search",
		"kase":     "käse",
		"payments": "",
		"":         "",
	} {
		if got := nearest(word, names); got != want {
			t.Errorf("nearest to %q is %q, want %q", word, got, want)
		}
	}
}
