package cloud

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/hpad/hpad/targets"
)

// TestConnection checks that a changed file or rejected credentials cause a new client, and that
// an invalid file causes an error while the previous client is still used.
func TestConnection(t *testing.T) {
	type client struct{ secret string }
	path := filepath.Join(t.TempDir(), "secret")
	var dropped []string
	c := &Connection[client]{
		Make: func(context.Context) (*client, error) {
			text, err := os.ReadFile(path)
			return &client{secret: string(text)}, err
		},
		Files: func() []string { return []string{path, ""} },
		Drop:  func(old *client) { dropped = append(dropped, old.secret) },
	}
	if made, err := c.Client(t.Context()); made != nil || !errors.Is(err, targets.ErrForbidden) {
		t.Fatalf("Client() without the file = %v, %v, want nil and ErrForbidden", made, err)
	}
	write := func(text string) *client {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		made, err := c.Client(t.Context())
		if err != nil || made.secret != text {
			t.Fatalf("Client() = %v, %v, want a client for %q", made, err, text)
		}
		return made
	}
	first := write("one")
	if again, err := c.Client(t.Context()); again != first || err != nil {
		t.Errorf("second Client() = %v, %v, want the same client", again, err)
	}
	second := write("other")
	c.Forget(first)
	if again, _ := c.Client(t.Context()); again != second {
		t.Error("Forget() of a replaced client dropped a client")
	}
	c.Forget(second)
	third, err := c.Client(t.Context())
	if err != nil || third == second {
		t.Errorf("Client() after Forget() = %v, %v, want a new client", third, err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if previous, err := c.Client(t.Context()); previous != third || !errors.Is(err, targets.ErrForbidden) || !errors.Is(c.filesError(), targets.ErrForbidden) {
		t.Errorf("Client() after the file was deleted = %v, %v, want the previous client and ErrForbidden", previous, err)
	}
	c.Close()
	if want := []string{"one", "other", "other"}; len(dropped) != 3 || dropped[0] != want[0] || dropped[2] != want[2] {
		t.Errorf("dropped clients = %q, want %q", dropped, want)
	}
}
