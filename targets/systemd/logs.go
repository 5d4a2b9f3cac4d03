package systemd

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/proc"
)

// WriteLogs writes the lines of a unit's processes in the journal of this host. The error is an
// ErrForbidden if hpad cannot read the journal.
func (f *Fleet) WriteLogs(ctx context.Context, _ targets.Ref, id string, query targets.LogQuery, to io.Writer) error {
	field := "_SYSTEMD_UNIT="
	if f.config.Manager == userManager {
		field = "_SYSTEMD_USER_UNIT="
	}
	// Without --quiet, journalctl reports missing permissions. With it, the output can be empty.
	problem, err := journalctl(ctx, io.Discard, "--lines=0")
	switch {
	case strings.Contains(problem, "insufficient permissions") || field == "_SYSTEMD_UNIT=" && strings.Contains(problem, "not seeing messages"):
		return fmt.Errorf("%w: journalctl: %s; hpad's user must be in the group systemd-journal: see the drop-in systemd-units.conf",
			targets.ErrForbidden, problem)
	case err != nil || strings.Contains(problem, "No journal files"):
		return fmt.Errorf("%w: journalctl: %s", targets.ErrForbidden, problem)
	}
	args := []string{"--quiet", "--output=cat", field + id}
	d, known := f.details.get(id)
	switch lines := "--lines=" + strconv.Itoa(query.Lines); {
	case query.Previous && (!known || d.started.IsZero()):
		return fmt.Errorf("%w: the start of the unit is unknown", targets.ErrTransient)
	case query.Previous && d.state != failed:
		since, until := "", fmt.Sprintf("--until=@%d.%06d", d.started.Unix(), d.started.Nanosecond()/1000)
		if since, err = sinceOf(ctx, field+id, lines, until); err != nil || since == "" {
			return err
		}
		args = append(args, since, until)
	case query.Follow:
		args = append(args, lines, "--follow")
	default:
		args = append(args, lines)
	}
	if problem, err = journalctl(ctx, to, args...); err != nil {
		return fmt.Errorf("%w: journalctl: %s", targets.ErrTransient, problem)
	}
	return nil
}

// sinceOf returns the --since argument that selects the last lines before until, or "" if there are
// none. journalctl of systemd 252 has no output if --until and --lines are used without --reverse.
func sinceOf(ctx context.Context, unit, lines, until string) (string, error) {
	var entries tail
	problem, err := journalctl(ctx, &entries, "--quiet", "--reverse", "--output=json", "--output-fields=_PID", unit, lines, until)
	if err != nil {
		return "", fmt.Errorf("%w: journalctl: %s", targets.ErrTransient, problem)
	}
	text := bytes.TrimSpace(entries)
	if len(text) == 0 {
		return "", nil
	}
	var first struct {
		Microseconds int64 `json:"__REALTIME_TIMESTAMP,string"`
	}
	if err := json.Unmarshal(text[bytes.LastIndexByte(text, '\n')+1:], &first); err != nil {
		return "", fmt.Errorf("%w: journalctl: read the time of an entry: %w", targets.ErrTransient, err)
	}
	return fmt.Sprintf("--since=@%d.%06d", first.Microseconds/1e6, first.Microseconds%1e6), nil
}

// tail is a writer that keeps the last 4 KiB.
type tail []byte

func (t *tail) Write(text []byte) (int, error) {
	const size = 4 << 10
	*t = append(*t, text[max(0, len(text)-size):]...)
	*t = append((*t)[:0], (*t)[max(0, len(*t)-size):]...)
	return len(text), nil
}

// journalctl runs journalctl and returns the text of its standard error or of err.
func journalctl(ctx context.Context, to io.Writer, args ...string) (problem string, err error) {
	var messages bytes.Buffer
	cmd := exec.CommandContext(ctx, "journalctl", append(args, "--no-pager")...)
	cmd.Env = append(proc.Environ(), "LC_ALL=C")
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = to, &messages, time.Second
	if err = cmd.Run(); err != nil {
		problem = err.Error()
	}
	return cmp.Or(strings.Join(strings.Fields(messages.String()), " "), problem), err
}
