package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestPlaced checks that an error about a key gets the key's position, or else the main file.
func TestPlaced(t *testing.T) {
	dir := t.TempDir()
	main, other := filepath.Join(dir, "hpad.toml"), filepath.Join(dir, "conf.d", "daemon.toml")
	if err := os.Mkdir(filepath.Dir(other), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(main, []byte("# nothing\n"), 0o600), os.WriteFile(other, []byte("[daemon]\n\nlisten = \":80\"\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"daemon.listen": other + `:3: daemon.listen = ":80": taken`,
		"daemon.socket": main + `: daemon.socket = ":80": taken`,
	} {
		err := fmt.Errorf("start: %w", Error{Key: key, Value: `":80"`, Detail: "taken"})
		if got := Placed(main, err); got.Error() != want {
			t.Errorf("%v, want %s", got, want)
		}
	}
	if other := errors.New("no key"); !errors.Is(Placed(main, other), other) {
		t.Error("an error of no key is another one")
	}
}
