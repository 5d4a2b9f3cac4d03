package systemd

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hpad/hpad/targets"
)

// TestLogs checks the calls of journalctl, and its errors.
func TestLogs(t *testing.T) {
	dir := t.TempDir()
	script := "#!/bin/sh\ncase \"$*\" in *worker@9*) echo 'No journal files were opened' >&2; exit 1;; esac\necho \"$@\"\n"
	if err := os.WriteFile(filepath.Join(dir, "journalctl"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	for _, test := range []struct {
		manager, unit string
		query         targets.LogQuery
		want          string
		class         error
	}{
		{"system", "worker@1.service", targets.LogQuery{Lines: 5}, "--lines=5 _SYSTEMD_UNIT=worker@1.service\n", nil},
		{userManager, "worker@1.service", targets.LogQuery{Lines: 1, Follow: true}, "--lines=1 _SYSTEMD_USER_UNIT=worker@1.service --follow\n", nil},
		{"system", "worker@9.service", targets.LogQuery{Lines: 1}, "", targets.ErrForbidden},
		{"system", "other@1.service", targets.LogQuery{Lines: 1}, "", targets.ErrTargetNotFound},
	} {
		config := &Config{Manager: test.manager}
		config.SetDefaults()
		f := newFleet("vm", config, targets.Env{}, newFakeManager("worker@.service"))
		var got strings.Builder
		err := f.WriteLogs(t.Context(), workerRef, test.unit, test.query, &got)
		if !errors.Is(err, test.class) || !strings.HasSuffix(got.String(), test.want) || test.class != nil && got.Len() > 0 {
			t.Errorf("%+v: WriteLogs() = %v, %q", test, err, got.String())
		}
		_ = f.Close()
	}
}
