package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hpad/hpad/cmd/hpad/hint"
	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/explain"
	"github.com/hpad/hpad/policy"
)

// scopeFlags are the flags by which an act is about more than the autoscalers named.
type scopeFlags struct {
	fleet string
	all   bool
}

func (f *scopeFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.fleet, "fleet", "", "all autoscalers of this `fleet`, also those that are added later")
	cmd.Flags().BoolVar(&f.all, "all", false, "all autoscalers, also those that are added later")
}

// scopes returns what a command is about.
func (f *scopeFlags) scopes(cmd *cobra.Command, names []string) ([]policy.Scope, error) {
	ways := 0
	for _, used := range []bool{len(names) > 0, f.fleet != "", f.all} {
		if used {
			ways++
		}
	}
	if ways != 1 {
		return nil, wrongUse(fmt.Errorf("%s wants names of autoscalers, --fleet or --all, and got %d of them", cmd.Name(), ways), helpHint(cmd))
	}
	if len(names) == 0 {
		return []policy.Scope{{Fleet: f.fleet}}, nil
	}
	var scopes []policy.Scope
	for _, name := range names {
		if scope := (policy.Scope{Autoscaler: name}); !slices.Contains(scopes, scope) {
			scopes = append(scopes, scope)
		}
	}
	return scopes, nil
}

// each does something for each scope, and all that can be done.
func (f *scopeFlags) each(cmd *cobra.Command, client *api.Client, names []string, do func(context.Context, policy.Scope) error) error {
	scopes, err := f.scopes(cmd, names)
	if err != nil {
		return err
	}
	var failed []error
	for _, scope := range scopes {
		err := do(cmd.Context(), scope)
		switch {
		case scope.Autoscaler != "":
			err = suggestName(cmd.Context(), client, scope.Autoscaler, err)
		case scope.Fleet != "":
			err = suggestFleet(cmd.Context(), client, scope.Fleet, err)
		}
		if err != nil {
			failed = append(failed, err)
		}
	}
	if len(failed) == 1 {
		return failed[0]
	}
	return errors.Join(failed...)
}

// pauseAnswer is what pause and resume write of one scope.
type pauseAnswer struct {
	policy.Pause
	// Replaced is the earlier pause in whose place this one is; nil without one.
	Replaced *policy.Pause `json:"replaced,omitempty"`
	// text says it to a person.
	text string
}

// write does something for each scope and writes what came of it: for a person at once,
// else as a list of all that was done.
func (f *scopeFlags) write(cmd *cobra.Command, stream streams, client *api.Client, names []string, format outputFormat, do func(context.Context, policy.Scope) (pauseAnswer, error)) error {
	var done []pauseAnswer
	forPerson := format == outputTable || format == outputWide
	err := f.each(cmd, client, names, func(ctx context.Context, scope policy.Scope) error {
		answer, err := do(ctx, scope)
		if err != nil {
			return err
		}
		done = append(done, answer)
		if !forPerson {
			return nil
		}
		return say(stream.out, fmt.Sprintf("%s: %s\n", scope, answer.text))
	})
	if len(done) == 0 || forPerson {
		return err
	}
	if writeErr := write(stream.out, format, done, nil); writeErr != nil {
		return writeErr
	}
	return err
}

// pauseOf returns the pause of a scope that is in force; nil where there is none, or it
// cannot be read.
func pauseOf(ctx context.Context, client *api.Client, scope policy.Scope) *policy.Pause {
	inForce, err := client.Pauses(ctx)
	if err != nil {
		return nil // what is asked for next fails as well, and says why
	}
	if i := slices.IndexFunc(inForce, func(p policy.Pause) bool { return p.Scope == scope }); i >= 0 {
		return &inForce[i]
	}
	return nil
}

func newPauseCommand(stream streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:        "pause NAME... | --fleet FLEET | --all",
		SuggestFor: []string{"disable", "stop", "suspend"},
		Short:      "Keep counts from being changed for a while",
		Long: `Keep counts from being changed, until "hpad resume" or for a time. Passes go on and
record what they would have done. A pause outlives restarts and changes of the
configuration, and takes the place of an earlier one of the same autoscaler, fleet
or all, which is named.`,
		Example: "  hpad pause checkout --for 2h --reason \"migration of the database\"\n  hpad pause --fleet prod --direction down",
		Args:    cobra.ArbitraryArgs,
	}
	var scope scopeFlags
	var asked api.PauseRequest
	var lasts string
	direction := string(policy.BothDirections)
	scope.add(cmd)
	cmd.Flags().StringVar(&direction, "direction", direction, "which changes to keep from: up, down or both")
	format := addOutputFlag(cmd)
	completeFlag(cmd, "direction", string(policy.Up), string(policy.Down), string(policy.BothDirections))
	cmd.Flags().StringVar(&lasts, "for", "", "for how `long`, as 2h or 3d; left out, until \"hpad resume\"")
	cmd.Flags().StringVar(&asked.Reason, "reason", "", "why, for all who look at it")
	client := addConnectFlags(cmd)
	completeFlagFleets(cmd, client)
	cmd.ValidArgsFunction = completeNames(client, 0)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		asked.Direction = policy.Direction(direction)
		if !slices.Contains([]policy.Direction{policy.Up, policy.Down, policy.BothDirections}, asked.Direction) {
			return wrongUse(fmt.Errorf("--direction %q: want up, down or both", direction), helpHint(cmd))
		}
		if cmd.Flags().Changed("for") {
			span, ok := parseSpan(lasts)
			if !ok || span <= 0 {
				return wrongUse(fmt.Errorf("--for %q: want a time longer than 0s, as 2h or 3d", lasts), helpHint(cmd))
			}
			asked.For = span.String()
		}
		return scope.write(cmd, stream, client(), names, *format, func(ctx context.Context, scope policy.Scope) (pauseAnswer, error) {
			replaced := pauseOf(ctx, client(), scope)
			pause, err := client().Pause(ctx, scope, asked)
			text := pauseText(pause)
			if replaced != nil {
				text += "; before: " + pauseText(*replaced)
			}
			return pauseAnswer{pause, replaced, text}, err
		})
	}
	return cmd
}

// pauseText returns a pause in words, beside the name of what is paused.
func pauseText(pause policy.Pause) string {
	return explain.OneLine(strings.Replace(cmp.Or(pause.Message, "the pause is over"), " for "+pause.String(), "", 1))
}

func newResumeCommand(stream streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:        "resume NAME... | --fleet FLEET | --all",
		SuggestFor: []string{"enable", "unpause"},
		Short:      "End a pause",
		Long: `End the pause of autoscalers, of a fleet or of all: each ends only by the same words
that began it. An autoscaler goes on from where it is, by the windows and rates that
it has kept.`,
		Example: "  hpad resume checkout\n  hpad resume --fleet prod",
		Args:    cobra.ArbitraryArgs,
	}
	var scope scopeFlags
	scope.add(cmd)
	format := addOutputFlag(cmd)
	client := addConnectFlags(cmd)
	completeFlagFleets(cmd, client)
	cmd.ValidArgsFunction = completeNames(client, 0)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		return scope.write(cmd, stream, client(), names, *format, func(ctx context.Context, scope policy.Scope) (pauseAnswer, error) {
			ended, err := client().Resume(ctx, scope)
			return pauseAnswer{Pause: ended, text: "resumed; before: " + pauseText(ended)}, err
		})
	}
	return cmd
}

func newScaleCommand(stream streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "scale NAME COUNT",
		Short: "Set a count once",
		Long: `Set the count of an autoscaler's target once, within its bounds unless forced. The
passes after it go on from there: the command prints the next change that they will
make, and "hpad pause" prevents it. 0 switches autoscaling off until somebody sets 1 or more.

It makes no scale event, so that rates do not count it, and it is the count that
on_foreign_change = "restore" puts back from then on.`,
		Example: "  hpad scale checkout 8\n  hpad scale checkout 0",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 {
				return nil
			}
			return wrongUse(fmt.Errorf("scale wants the name of one autoscaler and a count, and got %d words", len(args)), helpHint(cmd))
		},
	}
	var force bool
	cmd.Flags().BoolVar(&force, "force", false, "also outside of the bounds")
	format := addOutputFlag(cmd)
	client := addConnectFlags(cmd)
	cmd.ValidArgsFunction = completeNames(client, 1)
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
			if _, notNumber := strconv.Atoi(unknown.GetSpecifiedShortnames()); notNumber == nil {
				err = countError("-" + unknown.GetSpecifiedShortnames()) // it looks like a flag
			}
		}
		return wrongUse(err, helpHint(cmd))
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		count, err := strconv.ParseInt(args[1], 10, 64)
		if err != nil || count < 0 || count > math.MaxInt32 {
			return wrongUse(countError(args[1]), helpHint(cmd))
		}
		view, err := client().Scale(cmd.Context(), args[0], int32(count), force)
		var answered *api.Error
		switch {
		case !force && errors.As(err, &answered) && answered.Type == api.ErrorRefused:
			return hint.With(err, "\"hpad describe "+args[0]+"\" tells more; --force is for counts outside of the bounds")
		case err != nil:
			return suggestName(cmd.Context(), client(), args[0], err)
		}
		return write(stream.out, *format, view, func(w io.Writer) error {
			next := "; autoscaling is off until somebody sets 1 or more\n"
			if count != 0 {
				next = "\n" + scaledNext(&view)
			}
			return say(w, fmt.Sprintf("autoscaler %q: set to %s%s", view.Name, explain.Replicas(int32(count)), next))
		})
	}
	return cmd
}

// scaledNext returns the next change after a count was set, and the command that prevents it.
func scaledNext(view *api.Autoscaler) string {
	text := ""
	for _, line := range explain.Next(view.Next, view.Explanation(), time.Local) {
		text += "next change: " + line + "\n"
	}
	if text == "" {
		text = fmt.Sprintf("next pass: at %s, the metrics decide again\n", view.Evaluation.Next.Local().Format(time.TimeOnly))
	}
	if view.Mode == policy.ModeOff || view.Mode == policy.ModeRecommend || len(view.Pauses) > 0 && (view.Next == nil || view.Next.At.IsZero()) {
		return text // the count is already kept
	}
	return text + fmt.Sprintf("\"hpad pause %s\" keeps the count\n", view.Name)
}

func countError(count string) error {
	return fmt.Errorf("count %q: want a whole number of at least 0", count)
}

func newEvaluateCommand(stream streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "evaluate NAME",
		Short: "Evaluate an autoscaler now",
		Long: `Evaluate an autoscaler now, without waiting for its next tick, and say what came of
it. The pass is one as any other.`,
		Example: "  hpad evaluate checkout",
		Args:    oneName,
	}
	format := addOutputFlag(cmd)
	client := addConnectFlags(cmd)
	cmd.ValidArgsFunction = completeNames(client, 1)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		view, err := client().Evaluate(cmd.Context(), names[0])
		if err != nil {
			return suggestName(cmd.Context(), client(), names[0], err)
		}
		return write(stream.out, *format, view, func(w io.Writer) error {
			if view.Decision == nil {
				return hint.With(fmt.Errorf("autoscaler %q: %s", view.Name, cmp.Or(view.Evaluation.Error, "nothing was decided")), "\"hpad describe\" tells more")
			}
			decision := *view.Decision
			decision.Time = decision.Time.Local()
			return say(w, explain.Sentence(decision, view.Evaluation)+"\n")
		})
	}
	return cmd
}
