package targets

import (
	"context"
	"errors"
	"testing"
)

func TestLife(t *testing.T) {
	var life Life
	if err := life.Usable(t.Context()); err != nil || life.Ended() {
		t.Errorf("a life that has not ended: Usable() = %v, Ended() = %t", err, life.Ended())
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := life.Usable(canceled); !errors.Is(err, context.Canceled) || errors.Is(err, ErrTransient) {
		t.Errorf("Usable() with a context that ended = %v, want its error alone", err)
	}
	if first, again := life.End(), life.End(); !first || again {
		t.Errorf("End() = %t, then %t, want true, then false", first, again)
	}
	if err := life.Usable(t.Context()); !errors.Is(err, ErrTransient) || !life.Ended() {
		t.Errorf("a life that has ended: Usable() = %v, Ended() = %t", err, life.Ended())
	}
}
