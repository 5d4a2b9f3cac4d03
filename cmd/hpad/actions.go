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

// scopeFlags select a fleet or all autoscalers instead of single names.
type scopeFlags struct {
	fleet string
	all   bool
}

func (f *scopeFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.fleet, "fleet", "", "all autoscalers of this `fleet`, including future ones")
	cmd.Flags().BoolVar(&f.all, "all", false, "all autoscalers, including future ones")
}

func (f *scopeFlags) scopes(cmd *cobra.Command, names []string) ([]policy.Scope, error) {
	ways := 0
	for _, used := range []bool{len(names) > 0, f.fleet != "", f.all} {
		if used {
			ways++
		}
	}
	if ways != 1 {
		return nil, wrongUse(fmt.Errorf("%s needs exactly one of autoscaler names, --fleet and --all, got %d of them", cmd.Name(), ways), helpHint(cmd))
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

// each calls do for each scope and joins the errors.
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

// pauseResult is the output of pause and resume for one scope.
type pauseResult struct {
	policy.Pause
	// Replaced is the previous pause of the scope, or nil.
	Replaced *policy.Pause `json:"replaced,omitempty"`
	text     string
}

// write calls do for each scope and writes the results: text after each call, other formats as one
// list at the end.
func (f *scopeFlags) write(cmd *cobra.Command, stream streams, client *api.Client, names []string, format outputFormat, do func(context.Context, policy.Scope) (pauseResult, error)) error {
	var done []pauseResult
	asText := format == outputTable || format == outputWide
	err := f.each(cmd, client, names, func(ctx context.Context, scope policy.Scope) error {
		result, err := do(ctx, scope)
		if err != nil {
			return err
		}
		done = append(done, result)
		if !asText {
			return nil
		}
		return say(stream.out, fmt.Sprintf("%s: %s\n", scope, result.text))
	})
	if len(done) == 0 || asText {
		return err
	}
	if writeErr := write(stream.out, format, done, nil); writeErr != nil {
		return writeErr
	}
	return err
}

// pauseOf returns the active pause of a scope, or nil if there is none or it cannot be read.
func pauseOf(ctx context.Context, client *api.Client, scope policy.Scope) *policy.Pause {
	active, err := api.Get[[]policy.Pause](ctx, client, api.Path("pauses"), nil)
	if err != nil {
		return nil // the next call will return this error
	}
	if i := slices.IndexFunc(active, func(p policy.Pause) bool { return p.Scope == scope }); i >= 0 {
		return &active[i]
	}
	return nil
}

func newPauseCommand(stream streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:        "pause NAME... | --fleet FLEET | --all",
		SuggestFor: []string{"disable", "stop", "suspend"},
		Short:      "Pause scaling for a while",
		Long: `Pause scaling until "hpad resume" or for a duration. Evaluations continue and record
the counts that they would have written. A pause survives restarts and configuration
changes. It replaces an earlier pause of the same autoscaler, of the same fleet, or of
all autoscalers; the command prints the replaced pause.`,
		Example: "  hpad pause checkout --for 2h --reason \"migration of the database\"\n  hpad pause --fleet prod --direction down",
		Args:    cobra.ArbitraryArgs,
	}
	var scope scopeFlags
	var request api.PauseRequest
	var lasts string
	direction := string(policy.BothDirections)
	scope.add(cmd)
	cmd.Flags().StringVar(&direction, "direction", direction, "the paused `direction`: up, down or both")
	format := addOutputFlag(cmd)
	completeFlag(cmd, "direction", string(policy.Up), string(policy.Down), string(policy.BothDirections))
	cmd.Flags().StringVar(&lasts, "for", "", "`duration` of the pause, for example 2h or 3d (default: until \"hpad resume\")")
	cmd.Flags().StringVar(&request.Reason, "reason", "", "`reason` for the pause, shown to all users")
	client := addConnectFlags(cmd)
	completeFlagFleets(cmd, client)
	cmd.ValidArgsFunction = completeNames(client, 0)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		request.Direction = policy.Direction(direction)
		if !slices.Contains([]policy.Direction{policy.Up, policy.Down, policy.BothDirections}, request.Direction) {
			return wrongUse(fmt.Errorf("--direction %q: must be up, down or both", direction), helpHint(cmd))
		}
		if cmd.Flags().Changed("for") {
			span, ok := parseSpan(lasts)
			if !ok || span <= 0 {
				return wrongUse(fmt.Errorf("--for %q: must be a duration above 0s, for example 2h or 3d", lasts), helpHint(cmd))
			}
			request.For = span.String()
		}
		return scope.write(cmd, stream, client(), names, *format, func(ctx context.Context, scope policy.Scope) (pauseResult, error) {
			replaced := pauseOf(ctx, client(), scope)
			pause, err := api.Post[policy.Pause](ctx, client(), api.PathOf(scope, "pause"), request)
			text := pauseText(pause)
			if replaced != nil {
				text += "; before: " + pauseText(*replaced)
			}
			return pauseResult{pause, replaced, text}, err
		})
	}
	return cmd
}

// pauseText describes a pause without its scope.
func pauseText(pause policy.Pause) string {
	return explain.OneLine(strings.Replace(cmp.Or(pause.Message, "the pause has ended"), " for "+pause.String(), "", 1))
}

func newResumeCommand(stream streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:        "resume NAME... | --fleet FLEET | --all",
		SuggestFor: []string{"continue", "enable", "unpause", "unsuspend"},
		Short:      "End a pause",
		Long: `End the pause of autoscalers, of a fleet, or of all autoscalers. To end a pause, use the
selection that created it. An autoscaler continues from its current count with its
recorded windows and rates.`,
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
		return scope.write(cmd, stream, client(), names, *format, func(ctx context.Context, scope policy.Scope) (pauseResult, error) {
			ended, err := api.Post[policy.Pause](ctx, client(), api.PathOf(scope, "resume"), nil)
			return pauseResult{Pause: ended, text: "resumed; before: " + pauseText(ended)}, err
		})
	}
	return cmd
}

func newScaleCommand(stream streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "scale NAME COUNT",
		Short: "Set the count of a target once",
		Long: `Set the count of an autoscaler's target once, within the bounds unless --force is set.
Later evaluations continue from this count. The command prints the next change, which
"hpad pause" can prevent. A count of 0 disables autoscaling until it is set to 1 or more.

The change is not a scale event, so rates do not include it. From then on,
on_foreign_change = "restore" restores this count.`,
		Example: "  hpad scale checkout 8\n  hpad scale checkout 0",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 {
				return nil
			}
			return wrongUse(fmt.Errorf("scale needs the name of an autoscaler and a count, got %d arguments", len(args)), helpHint(cmd))
		},
	}
	var force bool
	cmd.Flags().BoolVar(&force, "force", false, "allow a count outside of the bounds")
	format := addOutputFlag(cmd)
	client := addConnectFlags(cmd)
	cmd.ValidArgsFunction = completeNames(client, 1)
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
			if _, notNumber := strconv.Atoi(unknown.GetSpecifiedShortnames()); notNumber == nil {
				return wrongUse(countError("-"+unknown.GetSpecifiedShortnames()), helpHint(cmd)) // a negative count looks like a flag
			}
		}
		return flagError(cmd, err)
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		count, err := strconv.ParseInt(args[1], 10, 64)
		if err != nil || count < 0 || count > math.MaxInt32 {
			return wrongUse(countError(args[1]), helpHint(cmd))
		}
		view, err := api.Post[api.Autoscaler](cmd.Context(), client(), api.Path("autoscalers", args[0], "scale"), api.ScaleRequest{Replicas: new(int32(count)), Force: force})
		var failed *api.Error
		switch {
		case !force && errors.As(err, &failed) && failed.Type == api.ErrorRefused && isOutside(cmd.Context(), client(), args[0], int32(count)):
			return hint.With(err, "\"hpad describe "+args[0]+"\" shows the details; --force allows counts outside of the bounds")
		case err != nil:
			return suggestName(cmd.Context(), client(), args[0], err)
		}
		return write(stream.out, *format, view, func(w io.Writer) error {
			next := "; autoscaling is disabled until the count is 1 or more\n"
			if count != 0 {
				next = "\n" + scaledNext(&view)
			}
			return say(w, fmt.Sprintf("autoscaler %q: set to %s%s", view.Name, explain.Replicas(int32(count)), next))
		})
	}
	return cmd
}

// isOutside reports whether a count is outside the bounds of an autoscaler.
func isOutside(ctx context.Context, client *api.Client, name string, count int32) bool {
	view, err := api.Get[api.Autoscaler](ctx, client, api.Path("autoscalers", name), nil)
	low := view.Spec.MinReplicas
	return err == nil && count != 0 && (count > view.Spec.MaxReplicas || low != nil && count < *low)
}

// scaledNext describes the next change after a count was set manually, and the command that
// prevents it.
func scaledNext(view *api.Autoscaler) string {
	text := ""
	for _, line := range explain.Next(view.Next, view.Explanation(), time.Local) {
		text += "next change: " + line + "\n"
	}
	if text == "" {
		text = fmt.Sprintf("next pass: at %s; the metrics determine the count\n", view.Evaluation.Next.Local().Format(time.TimeOnly))
	}
	if view.Mode == policy.ModeOff || view.Mode == policy.ModeRecommend || len(view.Pauses) > 0 && (view.Next == nil || view.Next.At.IsZero()) {
		return text // there is no change to prevent
	}
	return text + fmt.Sprintf("\"hpad pause %s\" keeps the count\n", view.Name)
}

func countError(count string) error {
	return fmt.Errorf("count %q: must be a whole number of at least 0", count)
}

func newRestartCommand(stream streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:        "restart NAME",
		SuggestFor: []string{"rollout", "recreate"},
		Short:      "Replace the instances of a target one after the other",
		Long: `Replace all instances of an autoscaler's target, as after a change of the target: new
instances start first, and old instances are drained and stopped when the new ones are
ready. The command does not wait for the end. It works for processes, systemd units and
Swarm services. For other kinds the error names the platform's own command.`,
		Example: "  hpad restart checkout",
		Args:    oneName,
	}
	format := addOutputFlag(cmd)
	client := addConnectFlags(cmd)
	cmd.ValidArgsFunction = completeNames(client, 1)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		view, err := api.Post[api.Autoscaler](cmd.Context(), client(), api.Path("autoscalers", names[0], "restart"), nil)
		if err != nil {
			return suggestName(cmd.Context(), client(), names[0], err)
		}
		return write(stream.out, *format, view, func(w io.Writer) error {
			return say(w, fmt.Sprintf("autoscaler %q: restart of all instances requested; \"hpad describe %s\" shows the progress\n", view.Name, view.Name))
		})
	}
	return cmd
}

func newEvaluateCommand(stream streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "evaluate NAME",
		Short: "Evaluate an autoscaler now",
		Long: `Evaluate an autoscaler now, without waiting for its next tick, and print the decision.
The pass may change the count.`,
		Example: "  hpad evaluate checkout",
		Args:    oneName,
	}
	format := addOutputFlag(cmd)
	client := addConnectFlags(cmd)
	cmd.ValidArgsFunction = completeNames(client, 1)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		view, err := api.Post[api.Autoscaler](cmd.Context(), client(), api.Path("autoscalers", names[0], "evaluate"), nil)
		if err != nil {
			return suggestName(cmd.Context(), client(), names[0], err)
		}
		return write(stream.out, *format, view, func(w io.Writer) error {
			if view.Decision == nil {
				return hint.With(fmt.Errorf("autoscaler %q: %s", view.Name, cmp.Or(view.Evaluation.Error, "no decision")), "\"hpad describe\" shows the details")
			}
			decision := *view.Decision
			decision.Time = decision.Time.Local()
			return say(w, explain.Sentence(decision, view.Evaluation)+"\n")
		})
	}
	return cmd
}
