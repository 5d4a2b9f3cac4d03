package systemd

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"time"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/proc"
)

// WriteLogs writes the lines of a unit's processes in the journal of this host. hpad's user must be
// permitted to read the journal.
func (f *Fleet) WriteLogs(ctx context.Context, ref targets.Ref, id string, query targets.LogQuery, to io.Writer) error {
	_, err := targets.CallUnlessClosed(ctx, &f.base, "read the journal of a unit of", func(ctx context.Context) (struct{}, error) {
		t, err := f.base.Target(ref)
		if err != nil {
			return struct{}{}, err
		}
		if _, ok := t.template.index(id); !ok {
			return struct{}{}, fmt.Errorf("%w: %q is not an instance of %s", targets.ErrTargetNotFound, id, t.template.file())
		}
		return struct{}{}, f.writeJournal(ctx, id, query, to)
	})
	return err
}

func (f *Fleet) writeJournal(ctx context.Context, unit string, query targets.LogQuery, to io.Writer) error {
	field := "_SYSTEMD_UNIT="
	if f.config.Manager == userManager {
		field = "_SYSTEMD_USER_UNIT="
	}
	args := []string{"--quiet", "--no-pager", "--output=cat", "--lines=" + strconv.Itoa(query.Lines), field + unit}
	if query.Follow {
		args = append(args, "--follow")
	}
	var problem bytes.Buffer
	cmd := exec.CommandContext(ctx, "journalctl", args...)
	cmd.Env = append(proc.Environ(), "LC_ALL=C")
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = to, &problem, time.Second
	err := cmd.Run()
	if err == nil || ctx.Err() != nil {
		return nil
	}
	text := cmp.Or(string(bytes.TrimSpace(problem.Bytes())), err.Error())
	return fmt.Errorf("%w: journalctl: %s; hpad's user must be in the group systemd-journal", targets.ErrForbidden, text)
}
