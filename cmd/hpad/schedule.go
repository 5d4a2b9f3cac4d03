package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/redact"
)

// maxScheduleDays is about ten years.
const maxScheduleDays = 3660

func newScheduleCommand(stream streams) *cobra.Command {
	var file string
	var days int
	var format *outputFormat
	cmd := &cobra.Command{
		Use:        "schedule [NAME]",
		SuggestFor: []string{"schedules", "calendar"},
		Short:      "List the changes that schedules make",
		Long: `List all changes of the bounds and the mode that schedules make. LOCAL TIME is in the
zone of the autoscaler's first schedule. The first row of each autoscaler is its current
state. Without NAME, all autoscalers with schedules are listed.

hpad reads the configuration files, not the daemon. The default is the file in
HPAD_CONFIG, then the file of the daemon on this host, then ` + defaultConfig + `.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, names []string) error {
			if days < 1 || days > maxScheduleDays {
				return wrongUse(fmt.Errorf("--days must be from 1 to %d", maxScheduleDays), helpHint(cmd))
			}
			if file == "" && len(names) > 0 && strings.HasSuffix(names[0], ".toml") {
				return wrongUse(fmt.Errorf("%q is a file, not an autoscaler", names[0]), fmt.Sprintf("use \"hpad schedule --config %s\"", names[0]))
			}
			c, err := config.Load(cmd.Context(), locateConfig(cmd, file, daemonHere()))
			if invalid, ok := err.(config.Errors); ok { //nolint:errorlint // Loading returns nothing else.
				return &checkError{errs: invalid.Unwrap()}
			}
			if err != nil {
				return err
			}
			if len(names) == 0 {
				names = slices.DeleteFunc(slices.Sorted(maps.Keys(c.Autoscalers)), func(name string) bool { return len(c.Autoscalers[name].Schedules) == 0 })
			}
			changes, err := changesOf(cmd.Context(), stream, c, names, days)
			if err != nil {
				return err
			}
			if len(names) == 0 && !slices.Contains(encodings, *format) {
				return errors.New("no autoscaler has schedules")
			}
			return write(stream.out, *format, changes, func(w io.Writer) error { return writeChanges(w, changes) })
		},
	}
	format = addOutputFlag(cmd)
	addConfigFlag(cmd, &file, "configuration `file`")
	cmd.Flags().IntVar(&days, "days", 7, "number of days")
	return cmd
}

// changesOf returns at most maxChanges changes of autoscalers, and prints a warning if there are
// more.
func changesOf(ctx context.Context, stream streams, c *config.Config, names []string, days int) ([]scheduleChange, error) {
	changes := []scheduleChange{}
	for _, name := range names {
		a := c.Autoscalers[name]
		switch {
		case a == nil:
			return nil, fmt.Errorf("autoscaler %q is not in the configuration", name)
		case len(a.Schedules) == 0:
			return nil, fmt.Errorf("autoscaler %q has no schedules", name)
		}
		more, complete := scheduleChanges(ctx, a, time.Now(), days, maxChanges-len(changes))
		changes = append(changes, more...)
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		if !complete {
			notice(stream.err, "warning", "only the first %d changes are listed: use fewer --days, or a NAME", maxChanges)
			break
		}
	}
	return changes, nil
}

// scheduleChange is the state of an autoscaler after a change. The zone of Time is the zone of the
// first schedule.
type scheduleChange struct {
	Autoscaler  string    `json:"autoscaler"`
	Time        time.Time `json:"time"`
	MinReplicas int32     `json:"min_replicas"`
	MaxReplicas int32     `json:"max_replicas"`
	Mode        string    `json:"mode"`
	Schedules   []string  `json:"schedules"`
}

// maxChanges is the maximum number of changes in an output.
const maxChanges = 10_000

// scheduleChanges returns the current state of an autoscaler and its changes in a number of days, at
// most limit entries. complete is false if there are more, or if ctx ends.
func scheduleChanges(ctx context.Context, a *config.Autoscaler, now time.Time, days, limit int) (changes []scheduleChange, complete bool) {
	for at, state := range a.Changes(now, now.AddDate(0, 0, days)) {
		if len(changes) >= limit || ctx.Err() != nil {
			return changes, false
		}
		changes = append(changes, scheduleChange{
			a.Name, at.In(a.Schedules.Zone()), state.Min, state.Max, state.Mode.String(), append([]string{}, state.Active...),
		})
	}
	return changes, true
}

func writeChanges(w io.Writer, changes []scheduleChange) error {
	const format = "Mon 2006-01-02 15:04:05"
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "AUTOSCALER\tLOCAL TIME\tUTC\tMIN\tMAX\tMODE\tSCHEDULES")
	for _, c := range changes {
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%d\t%s\t%s\n", c.Autoscaler, c.Time.Format(format+" MST"), c.Time.UTC().Format(format),
			c.MinReplicas, c.MaxReplicas, c.Mode, cmp.Or(strings.Join(c.Schedules, ", "), "none"))
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("write the table: %w", err)
	}
	return say(w, redact.Text(text.String()))
}
