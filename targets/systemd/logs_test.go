package systemd

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/targets"
)

// TestLogs checks the calls of journalctl, and its errors.
func TestLogs(t *testing.T) {
	dir := t.TempDir()
	script := "#!/bin/sh\n[ $1 = --lines=0 ] && echo \"$HINT\" >&2\n[ \"$HINT\" = fail ] && exit 1\n" +
		"case \"$*\" in *--reverse*) echo \"$ENTRIES\" ;; *) echo \"$@\" ;; esac\n"
	if err := os.WriteFile(filepath.Join(dir, "journalctl"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("ENTRIES", strings.Repeat(`{"__REALTIME_TIMESTAMP":"1795913999000000"}`+"\n", 1000)+`{"__REALTIME_TIMESTAMP":"1795913990000021"}`)
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	for _, test := range []struct {
		manager, hint string
		query         targets.LogQuery
		want          string
	}{
		{"system", "", targets.LogQuery{Lines: 5}, "_SYSTEMD_UNIT=worker@1.service --lines=5 --no-pager\n"},
		{userManager, "not seeing messages", targets.LogQuery{Lines: 1, Follow: true}, "_SYSTEMD_USER_UNIT=worker@1.service --lines=1 --follow --no-pager\n"},
		{"system", "", targets.LogQuery{Lines: 5, Previous: true}, "_SYSTEMD_UNIT=worker@1.service --since=@1795913990.000021 --until=@1795914000.000500 --no-pager\n"},
		{"system", "not seeing messages", targets.LogQuery{Lines: 1}, ""},
		{userManager, "No journal files were found.", targets.LogQuery{Lines: 1}, ""},
		{userManager, "No journal files were opened due to insufficient permissions.", targets.LogQuery{Lines: 1}, ""},
		{"system", "fail", targets.LogQuery{Lines: 1}, ""},
	} {
		t.Setenv("HINT", test.hint)
		config := &Config{Manager: test.manager}
		config.SetDefaults()
		f := newFleet("vm", config, targets.Env{}, newFakeManager("worker@.service"))
		f.details.units["worker@1.service"] = details{state: running, started: time.Unix(1795914000, 500_000)}
		var got strings.Builder
		err := f.WriteLogs(t.Context(), workerRef, "worker@1.service", test.query, &got)
		denied := errors.Is(err, targets.ErrForbidden)
		if group := denied && strings.Contains(err.Error(), "systemd-journal"); group != (denied && strings.Contains(test.hint, "not seeing") || strings.Contains(test.hint, "permissions")) {
			t.Errorf("%+v: WriteLogs() = %v", test, err)
		}
		if denied != (test.want == "") || !strings.HasSuffix(got.String(), test.want) || denied && got.Len() > 0 {
			t.Errorf("%+v: WriteLogs() = %v, %q", test, err, got.String())
		}
		_ = f.Close()
	}
}
