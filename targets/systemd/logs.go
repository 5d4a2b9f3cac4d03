package systemd

import (
	"bytes"
	"cmp"
	"context"
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
	args := []string{"--quiet", "--output=cat", "--lines=" + strconv.Itoa(query.Lines), field + id}
	if query.Follow {
		args = append(args, "--follow")
	}
	if query.Previous {
		d, known := f.details.get(id)
		if !known || d.started.IsZero() {
			return fmt.Errorf("%w: the start of the unit is unknown", targets.ErrTransient)
		}
		if d.state != failed {
			args = append(args, fmt.Sprintf("--until=@%d.%06d", d.started.Unix(), d.started.Nanosecond()/1000))
		}
	}
	if problem, err = journalctl(ctx, to, args...); err != nil {
		return fmt.Errorf("%w: journalctl: %s", targets.ErrTransient, problem)
	}
	return nil
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
