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
		Short: "Say whether the daemon is alive",
		Long: `Say whether the daemon is alive: whether it answers, and its scheduler ticks. The
exit code is 0 if so and 1 if not, for what watches over it.

An autoscaler that is not evaluated does not make the daemon unhealthy, because
starting it again would not help, nor do passes that all fail or a reload that was
refused; with --strict they do.`,
		Example: "  hpad health\n  hpad health --strict --timeout 2s",
		Args:    cobra.NoArgs,
	}
	client := addConnectFlags(cmd)
	cmd.Flags().BoolVar(&strict, "strict", false, "also fail while an autoscaler is not being evaluated, every pass fails, or the last reload was refused")
	cmd.Flags().DurationVar(&timeout, "timeout", 10*time.Second, "how long the daemon may take to answer")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if timeout <= 0 {
			return wrongUse(fmt.Errorf("--timeout is %s: it must be above 0", timeout), helpHint(cmd))
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
		defer cancel()
		health, err := client().Health(ctx)
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			return fmt.Errorf("hpad did not answer within %s: %w", timeout, err)
		case err != nil:
			return err
		case !health.Healthy:
			return fmt.Errorf("the scheduler does not tick, the last time was %s", health.LastTick.Format(time.RFC3339))
		}
		unevaluated, shortages := problemTexts(health.Unevaluated), problemTexts(health.Shortages)
		switch {
		case strict && len(unevaluated) > 0:
			return hint.With(fmt.Errorf("autoscalers are not being evaluated: %s", strings.Join(unevaluated, "; ")),
				"\"hpad describe NAME\" says more of one")
		case strict && health.AllFailing != "":
			return hint.With(fmt.Errorf("every pass fails: %s", explain.Short(health.AllFailing)), "\"hpad get\" names the problem of each autoscaler")
		case strict && health.RefusedReload != "":
			return hint.With(fmt.Errorf("the last reload was refused: %s", health.RefusedReload), refusedHint)
		}
		text := "healthy"
		if len(unevaluated) > 0 {
			text += "; not being evaluated: " + strings.Join(unevaluated, "; ")
		}
		if health.AllFailing != "" {
			text += "; every pass fails: " + explain.Short(health.AllFailing)
		}
		if len(shortages) > 0 {
			text += "; at the maximum: " + strings.Join(shortages, "; ")
		}
		if health.RefusedReload != "" {
			text += "; the last reload was refused: " + explain.OneLine(health.RefusedReload)
		}
		return say(stream.out, text+"\n")
	}
	return cmd
}

// problemTexts returns each problem as "autoscaler web: not evaluated for 1m".
func problemTexts(problems []api.Problem) []string {
	var texts []string
	for _, problem := range problems {
		texts = append(texts, problem.Subject+explain.Because(problem.Message))
	}
	return texts
}
