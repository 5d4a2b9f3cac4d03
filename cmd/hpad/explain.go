package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/hpad/hpad/cmd/hpad/hint"
	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/explain"
)

func newExplainCommand(stream streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:        "explain NAME",
		SuggestFor: []string{"why"},
		Short:      "Say why one autoscaler wants the count it wants",
		Long: `Show the record of an autoscaler's last decision, every step with its numbers in
the order of the algorithm, and say it in one sentence. The rules in parentheses
are those of docs/algorithm.md.

With --at it is the newest decision that was recorded up to that time; "hpad
history" lists those that are. Times are local, as TZ says.`,
		Example: "  hpad explain checkout\n  hpad explain checkout --at 11:45",
		Args:    oneName,
	}
	format := addOutputFlag(cmd)
	client := addConnectFlags(cmd)
	var at string
	cmd.Flags().StringVar(&at, "at", "", "explain what was decided at this `time`: "+instantForms)
	cmd.ValidArgsFunction = completeNames(client, 1)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		explanation, err := explanationAt(cmd, client(), names[0], at)
		if errors.Is(err, api.ErrNotFound) && at != "" {
			if _, known := client().Autoscaler(cmd.Context(), names[0]); known == nil {
				return hint.With(err, fmt.Sprintf("\"hpad history %s\" lists what is recorded", names[0]))
			}
		}
		if err != nil {
			return suggestName(cmd.Context(), client(), names[0], err)
		}
		return writePage(stream.out, *format, explanation, func(w io.Writer) error {
			return explain.Write(w, explanation, time.Local)
		})
	}
	return cmd
}

// explanationAt returns the explanation of the last decision, or of that at a time
// that is named.
func explanationAt(cmd *cobra.Command, client *api.Client, name, text string) (api.Explanation, error) {
	if text == "" {
		return client.Explain(cmd.Context(), name)
	}
	at, err := parseInstant(text, time.Now())
	if err != nil {
		return api.Explanation{}, wrongUse(fmt.Errorf("--at %w", err), helpHint(cmd))
	}
	return client.ExplainAt(cmd.Context(), name, at)
}

// oneName wants exactly one name.
func oneName(cmd *cobra.Command, args []string) error {
	if len(args) == 1 {
		return nil
	}
	return wrongUse(fmt.Errorf("%s wants the name of one autoscaler, and got %d", cmd.Name(), len(args)),
		"\"hpad get\" lists the autoscalers")
}
