package web_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/hpad/hpad/daemon/web"
)

// A mistake is logged when it is another one, when it is still there after a minute,
// and when it is back after it was mended.
func TestMistakes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.yml")
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zapcore.ErrorLevel)
		mistakes := web.NewMistakes(path, zap.New(core))
		missing, other := web.Check(path), errors.New("other")
		for i, step := range []struct {
			after time.Duration
			err   error
			want  int
		}{
			{0, missing, 1},
			{0, missing, 0},
			{59 * time.Second, missing, 0},
			{time.Second, missing, 1},
			{time.Second, other, 1},
			{time.Second, missing, 1},
		} {
			time.Sleep(step.after)
			if mistakes.Log(step.err); len(logs.TakeAll()) != step.want {
				t.Errorf("step %d: not logged %d times", i, step.want)
			}
		}
		if mistakes.Check(); logs.Len() != 0 {
			t.Error("logged again by a check")
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		mistakes.Check()
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if mistakes.Check(); logs.Len() != 1 {
			t.Errorf("logged %d times when it is back, want once", logs.Len())
		}
	})
}
