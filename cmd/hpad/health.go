package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hpad/hpad/cmd/hpad/hint"
	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/explain"
)

func newHealthCommand(stream streams) *cobra.Command {
	var strict bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Check whether the daemon is alive",
		Long: `Check whether the daemon responds and its scheduler is ticking. The exit code is 0 if so,
and otherwise 1, for use in health checks.

An autoscaler that is not evaluated, failing passes, a rejected reload, state that cannot be
written, an unreachable cluster store or a fleet without an owner do not make the daemon
unhealthy, because a restart would not help. The command prints them. With --strict the
exit code is then 1.`,
		Example: "  hpad health\n  hpad health --strict --timeout 2s",
		Args:    cobra.NoArgs,
	}
	client := addConnectFlags(cmd)
	cmd.Flags().BoolVar(&strict, "strict", false, "also fail if an autoscaler is not evaluated, every pass fails, the last reload was rejected, the state cannot be written, or the cluster has a problem")
	cmd.Flags().DurationVar(&timeout, "timeout", 10*time.Second, "maximum `duration` of the request")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if timeout <= 0 {
			return wrongUse(fmt.Errorf("--timeout %s: must be above 0", timeout), helpHint(cmd))
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
		defer cancel()
		health, err := client().Health(ctx)
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			return fmt.Errorf("hpad did not respond within %s: %w", timeout, err)
		case err != nil:
			return err
		case !health.Healthy:
			return fmt.Errorf("the scheduler is not ticking; its last tick was at %s", health.LastTick.Format(time.RFC3339))
		}
		if err := strictError(&health); strict && err != nil {
			return err
		}
		return say(stream.out, healthText(&health)+"\n")
	}
	return cmd
}

// strictError returns the first problem that fails "hpad health --strict", or nil.
func strictError(health *api.Health) error {
	switch {
	case len(health.Cluster) > 0:
		return hint.With(errors.New(problemTexts(health.Cluster)), "\"hpad cluster\" shows the members and the owners")
	case len(health.Unevaluated) > 0:
		return hint.With(errors.New("autoscalers are not evaluated: "+problemTexts(health.Unevaluated)), "\"hpad describe NAME\" shows the details")
	case health.AllFailing != "":
		return hint.With(fmt.Errorf("every pass fails: %s", explain.Short(health.AllFailing)), "\"hpad get\" shows the problem of each autoscaler")
	case health.Unwritten != "":
		return errors.New("the state cannot be written, so a restart may lose changes: " + explain.OneLine(health.Unwritten))
	case health.RefusedReload != "":
		return hint.With(fmt.Errorf("the last reload was rejected: %s", health.RefusedReload), rejectedHint)
	}
	return nil
}

func healthText(health *api.Health) string {
	texts := []string{"healthy"}
	for _, part := range []struct{ prefix, text string }{
		{"", problemTexts(health.Cluster)},
		{"not evaluated: ", problemTexts(health.Unevaluated)},
		{"held: ", problemTexts(health.HeldBack)},
		{"failing: ", problemTexts(health.Failing)},
		{"every pass fails: ", explain.Short(health.AllFailing)},
		{"at the maximum: ", problemTexts(health.Shortages)},
		{"instances fail: ", problemTexts(health.FailingInstances)},
		{"the state cannot be written, so a restart may lose changes: ", explain.OneLine(health.Unwritten)},
		{"the last reload was rejected: ", explain.OneLine(health.RefusedReload)},
	} {
		if part.text != "" {
			texts = append(texts, part.prefix+part.text)
		}
	}
	return strings.Join(texts, "; ")
}

// problemTexts formats problems, for example "autoscaler web: not evaluated for 1m".
func problemTexts(problems []api.Problem) string {
	var texts []string
	for _, problem := range problems {
		texts = append(texts, problem.Subject+explain.Because(problem.Message))
	}
	return strings.Join(texts, "; ")
}
