package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hpad/hpad/cmd/hpad/fleettest"
	"github.com/hpad/hpad/cmd/hpad/hint"
	"github.com/hpad/hpad/cmd/hpad/show"
	"github.com/hpad/hpad/daemon/explain"
	"github.com/hpad/hpad/daemon/redact"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/adapter"
	"github.com/hpad/hpad/targets/exec"
	"github.com/hpad/hpad/targets/http"
)

// adapterFlags are the flags of "hpad fleet-test" that are not options of the test.
type adapterFlags struct {
	oneshot, yes      bool
	timeout           time.Duration
	token, only, span string
}

func newFleetTestCommand(stream streams) *cobra.Command {
	var flags adapterFlags
	var o fleettest.Options
	cmd := &cobra.Command{
		Use:   "fleet-test --target NAME COMMAND [ARG...] | URL",
		Short: "Test an adapter for a fleet of kind exec or http",
		Long: `Test whether an adapter keeps the promises of a fleet, with real targets that you choose.

The command reads the targets. With --bounds, it also scales them within these bounds, and
finally restores their counts; it asks before it does so. Use targets that serve no users.
Cases that need a count outside of the bounds are skipped. The bounds 0-6 allow all cases.`,
		Example: "  hpad fleet-test --target web --bounds 0-6 /etc/hpad/fleets/lxc.py\n" +
			"  hpad fleet-test --oneshot --target mail /etc/hpad/fleets/workers.sh /srv/workers\n" +
			"  hpad fleet-test --target web --token-file token https://scaling.example.com/hpad",
		Args: cobra.MinimumNArgs(1),
	}
	f := cmd.Flags()
	f.SetInterspersed(false) // the flags of COMMAND follow it
	f.StringSliceVar(&o.Targets, "target", nil, "`name` of a target; can be repeated")
	f.StringVar(&flags.span, "bounds", "", "lowest and highest count, such as `0-6`; by default, the command changes nothing")
	f.BoolVar(&flags.oneshot, "oneshot", false, "run COMMAND for each call, as with mode = \"oneshot\"")
	f.BoolVar(&flags.yes, "yes", false, "do not ask before changes")
	f.StringVar(&flags.only, "run", "", "run only the cases that match a `regexp`")
	f.StringVar(&flags.token, "token-file", "", "`file` with a bearer token for URL")
	f.DurationVar(&flags.timeout, "timeout", 10*time.Second, "timeout of one call")
	f.DurationVar(&o.Patience, "patience", time.Minute, "time until the platform follows a change")
	f.DurationVar(&o.Interval, "interval", time.Second, "time between two readings while the platform follows a change")
	format := addOutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := flags.complete(&o, args, stream.err); err != nil {
			return err
		}
		return testFleet(cmd.Context(), stream, *format, o, flags.yes)
	}
	return cmd
}

// complete validates the flags, and sets the options that depend on them.
func (f *adapterFlags) complete(o *fleettest.Options, args []string, log io.Writer) (err error) {
	if len(o.Targets) == 0 {
		return wrongUse(errors.New("no target"), "set --target to the name of a target that may be scaled")
	}
	if low, high, found := strings.Cut(f.span, "-"); f.span != "" {
		from, err := strconv.ParseInt(low, 10, 32)
		to, errTo := strconv.ParseInt(high, 10, 32)
		if o.Min, o.Max = int32(from), int32(to); !found || err != nil || errTo != nil || from < 0 || to <= from {
			return wrongUse(fmt.Errorf("--bounds: %q is not a lowest and a higher count", f.span), "such as --bounds 0-6")
		}
	}
	if f.only != "" {
		if o.Only, err = regexp.Compile(f.only); err != nil {
			return wrongUse(fmt.Errorf("--run: %w", err), "see https://pkg.go.dev/regexp/syntax")
		}
	}
	config := f.config(args)
	config.SetDefaults()
	if errs := config.Validate(); len(errs) > 0 {
		return wrongUse(errs[0], "\"hpad fleet-test --help\" has examples")
	}
	o.Build = func(name string, store targets.Store) (*adapter.Fleet, error) {
		built, err := config.Build(name, targets.Env{Store: store, Output: func(string, string) io.Writer { return log }})
		if err != nil {
			return nil, err
		}
		return built.(*adapter.Fleet), nil
	}
	return nil
}

// config returns the table of a fleet with the adapter.
func (f *adapterFlags) config(args []string) targets.Config {
	if strings.HasPrefix(args[0], "http://") || strings.HasPrefix(args[0], "https://") {
		c := &http.Config{URL: args[0]}
		c.Timeout, c.ResourceInterval, c.TokenFile = f.timeout, time.Second, f.token
		return c
	}
	c := &exec.Config{Command: args}
	c.Timeout, c.ResourceInterval = f.timeout, time.Second
	if f.oneshot {
		c.Mode = "oneshot"
	}
	return c
}

func testFleet(ctx context.Context, stream streams, format outputFormat, o fleettest.Options, yes bool) (err error) {
	runner, err := fleettest.Open(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, runner.Close()) }()
	if o.Max > 0 && !yes {
		if err := confirm(stream, &o, runner.Counts()); err != nil {
			return err
		}
	}
	results, count := []fleettest.Result{}, map[string]int{}
	err = runner.Run(ctx, func(r fleettest.Result) {
		results = append(results, r)
		if count[r.Outcome]++; format == outputTable || format == outputWide {
			_ = say(stream.out, promiseText(&r))
		}
	})
	if err != nil {
		return err
	}
	err = write(stream.out, format, results, func(w io.Writer) error {
		return say(w, fmt.Sprintf("%s kept, %d broken, %d skipped\n", explain.Plural(count[fleettest.Kept], "promise"), count[fleettest.Broken], count[fleettest.Skipped]))
	})
	if broken := count[fleettest.Broken]; err == nil && broken > 0 {
		err = fmt.Errorf("the adapter breaks %s", explain.Plural(broken, "promise"))
	}
	return err
}

// confirm asks the user whether the command may scale the targets.
func confirm(stream streams, o *fleettest.Options, counts []int32) error {
	for i, name := range o.Targets {
		_, _ = fmt.Fprintf(stream.err, "%s has the count %d. The test sets it to counts from %d to %d, and finally to %d again.\n", show.Clean(name), counts[i], o.Min, o.Max, counts[i])
	}
	_, _ = fmt.Fprint(stream.err, "Continue? [y/N] ")
	answer, _ := bufio.NewReader(stream.in).ReadString('\n') // no input means no
	if strings.ToLower(strings.TrimSpace(answer)) != "y" {
		return hint.With(errors.New("the test was not started, and nothing was changed"), "to start it without this question, add --yes")
	}
	return nil
}

// promiseText returns the lines for a result.
func promiseText(r *fleettest.Result) string {
	text, separator := fmt.Sprintf("%-9s%s", r.Outcome, r.Promise), "\n         "
	if r.Outcome == fleettest.Skipped {
		separator = ": "
	}
	for _, detail := range r.Details {
		text += separator + show.Clean(redact.Text(detail))
	}
	return text + "\n"
}
