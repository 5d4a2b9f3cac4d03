package secret

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func write(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRead(t *testing.T) {
	value, err := Read(write(t, " r3ad-From-a/File \r\n"))
	if value != "r3ad-From-a/File" || err != nil {
		t.Errorf("Read = %q, %v", value, err)
	}
	for _, text := range []string{"login with r3ad-From-a/File", "GET /?x=r3ad-From-a%2FFile"} {
		if shown := Hide(text); strings.Contains(shown, "File") || !strings.Contains(shown, Mark) {
			t.Errorf("Hide(%s) = %s", text, shown)
		}
	}
	if _, err := Read(write(t, strings.Repeat("x", maxFile+1))); err == nil {
		t.Error("Read accepts a file of more than 1 MiB")
	}
	if _, err := Read(filepath.Join(t.TempDir(), "missing")); !os.IsNotExist(err) {
		t.Errorf("Read of a missing file = %v", err)
	}
}

func TestHide(t *testing.T) {
	for _, value := range []string{"hunter2hunter2", "hunter2hunter2-and-more", "checkout", "checkout-service", "sh0rt", "http://auth.example:8080", "/run/hpad/k3y"} {
		Keep(value)
	}
	for text, want := range map[string]string{
		"a hunter2hunter2 b":            "a " + Mark + " b",
		"hunter2hunter2-and-more":       Mark,
		"xhunter2hunter2hunter2":        "x" + Mark + "hunter2",
		"checkout and checkout-service": "checkout and checkout-service",
		"sh0rt":                         "sh0rt",
		"http://auth.example:8080":      "http://auth.example:8080",
		"/run/hpad/k3y":                 "/run/hpad/k3y",
	} {
		if got := Hide(text); got != want {
			t.Errorf("Hide(%s) = %s, want %s", text, got, want)
		}
	}
}

// TestKeepIsBounded checks that a secret that changes often replaces its oldest values.
func TestKeepIsBounded(t *testing.T) {
	for n := range maxKept + 1 {
		Keep(fmt.Sprintf("token-%08d", n))
	}
	if oldest, newest := Hide("token-00000000"), Hide(fmt.Sprintf("token-%08d", maxKept)); oldest == Mark || newest != Mark {
		t.Errorf("the oldest value is shown as %s and the newest as %s", oldest, newest)
	}
}
