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
		Short:      "Explain the desired count of an autoscaler",
		Long: `Show every step of an autoscaler's last decision in the order of the algorithm, with a
summary in one sentence. docs/algorithm.md describes the rules in parentheses.

--at selects the newest decision recorded before a time; "hpad history" lists these
decisions. Times are in the time zone of TZ.`,
		Example: "  hpad explain checkout\n  hpad explain checkout --at 11:45",
		Args:    oneName,
	}
	format := addOutputFlag(cmd)
	client := addConnectFlags(cmd)
	var at string
	cmd.Flags().StringVar(&at, "at", "", "explain the decision at this `time`: "+instantForms)
	cmd.ValidArgsFunction = completeNames(client, 1)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		explanation, err := explanationAt(cmd, client(), names[0], at)
		if errors.Is(err, api.ErrNotFound) && at != "" {
			if _, known := api.Get[api.Autoscaler](cmd.Context(), client(), api.Path("autoscalers", names[0]), nil); known == nil {
				return hint.With(err, fmt.Sprintf("\"hpad history %s\" lists the recorded decisions", names[0]))
			}
		}
		if err != nil {
			return suggestName(cmd.Context(), client(), names[0], err)
		}
		return write(stream.out, *format, explanation, func(w io.Writer) error {
			return explain.Write(w, explanation, time.Local)
		})
	}
	return cmd
}

// explanationAt returns the explanation of the last decision, or of the decision at a time.
func explanationAt(cmd *cobra.Command, client *api.Client, name, text string) (api.Explanation, error) {
	if text == "" {
		return api.Get[api.Explanation](cmd.Context(), client, api.Path("autoscalers", name, "explain"), nil)
	}
	at, err := parseInstant(text, time.Now())
	if err != nil {
		return api.Explanation{}, wrongUse(fmt.Errorf("--at %w", err), helpHint(cmd))
	}
	return api.Get[api.Explanation](cmd.Context(), client, api.Path("autoscalers", name, "explain"), api.ExplainQuery{At: at})
}

// oneName requires exactly one name.
func oneName(cmd *cobra.Command, args []string) error {
	if len(args) == 1 {
		return nil
	}
	return wrongUse(fmt.Errorf("%s needs the name of one autoscaler, got %d", cmd.Name(), len(args)), "\"hpad get\" lists the autoscalers")
}
