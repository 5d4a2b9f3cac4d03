package main

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hpad/hpad/cmd/hpad/simulation"
	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/guard"
	"github.com/hpad/hpad/simulate"
)

// maxCandidates limits the time of a search.
const maxCandidates = 2000

func newTuneCommand(stream streams) *cobra.Command {
	var candidates int
	cmd := &cobra.Command{
		Use:        "tune NAME",
		SuggestFor: []string{"optimize", "suggest"},
		Short:      "Search better settings for an autoscaler",
		Long: `Search target values, a minimum, windows, policies and tolerances that would have been
better with the recorded load. The first half of the data selects the candidates, and the
second half tests them: hpad suggests only settings that are better in both. Nothing is
changed.

There are at most three suggestions: cheaper at the same shortage, less shortage at the same
cost, and fewer changes. Each one is the complete table of the autoscaler in TOML, to replace
the table in the configuration file.

The flags and the data are those of "hpad simulate".`,
		Example: "  hpad tune checkout\n  hpad tune checkout --since 3d --price 0.12",
		Args:    oneName,
	}
	format := addOutputFlag(cmd)
	client := addConnectFlags(cmd)
	input := addSimulationFlags(cmd, client)
	cmd.Flags().IntVar(&candidates, "candidates", 200, fmt.Sprintf("`number` of policies to compare, at most %d", maxCandidates))
	cmd.ValidArgsFunction = completeNames(client, 1)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		if candidates < 1 || candidates > maxCandidates {
			return wrongUse(fmt.Errorf("--candidates = %d: must be from 1 to %d", candidates, maxCandidates), helpHint(cmd))
		}
		data, assume, err := input.load(cmd, names[0], nil)
		if err != nil {
			return err
		}
		tuning, err := simulate.Tune(cmd.Context(), &data.Recording, data.Policies[0], assume, candidates, concurrently)
		if err != nil {
			return err
		}
		for i := range tuning.Suggestions {
			s := &tuning.Suggestions[i]
			if s.TOML, err = input.suggest(cmd, names[0], s); err != nil {
				return err
			}
		}
		return write(stream.out, *format, tuning, func(w io.Writer) error {
			return simulation.Suggestions(w, tuning, assume.Price > 0, time.Local)
		})
	}
	return cmd
}

// concurrently calls a function for 0 to n-1 on all processors.
func concurrently(n int, f func(i int) error) error {
	for _, err := range guard.Each(runtime.GOMAXPROCS(0), slices.Repeat([]struct{}{{}}, n), func(i int, _ struct{}) error { return f(i) }) {
		if err != nil {
			return err
		}
	}
	return nil
}

// suggest returns the table of the autoscaler with the settings of a suggestion. If labels define the
// autoscaler, it returns the settings.
func (f *simulationFlags) suggest(cmd *cobra.Command, name string, s *simulate.Suggestion) (string, error) {
	var set []string
	for _, setting := range s.Settings {
		set = append(set, setting.String())
	}
	active := f.written
	if f.csv == "" {
		lines := f.client().WithCleaning(func(text string) string { return text }) // TOML has several lines
		text, err := api.Get[api.ConfigText](cmd.Context(), lines, api.Path("status", "config"), api.ConfigQuery{TOML: true})
		if err != nil {
			return "", err
		}
		active = text.TOML
	}
	text, ok, err := config.WithSettings(active, name, set)
	if err != nil || ok {
		return text, err
	}
	return strings.Join(set, "\n") + "\n", nil
}
