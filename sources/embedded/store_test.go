package embedded

import (
	"fmt"
	"log/slog"
	"testing"
	"time"
)

func TestTroubleLog(t *testing.T) {
	trouble := &troubleLog{}
	log := slog.New(trouble)
	log.Warn("not worth it")
	if got := trouble.recent(time.Now()); got != "" {
		t.Errorf("recent() after a warning = %q, want nothing", got)
	}
	log.With("component", "tsdb").Error("compaction failed", "err", fmt.Errorf("no space left on device"))
	if got, want := trouble.recent(time.Now()), "compaction failed err=no space left on device"; got != want {
		t.Errorf("recent() = %q, want %q", got, want)
	}
	if got := trouble.recent(time.Now().Add(troubleLifetime + time.Second)); got != "" {
		t.Errorf("recent() later = %q, want nothing", got)
	}
}
