package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hpad/hpad/cmd/hpad/live"
	"github.com/hpad/hpad/cmd/hpad/show"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/explain"
	"github.com/hpad/hpad/daemon/redact"
)

type checkError struct{ errs []error }

func (e *checkError) Error() string {
	return errors.Join(e.errs...).Error()
}

func (e *checkError) Unwrap() []error { return e.errs }

func newCheckCommand(stream streams) *cobra.Command {
	var tryLive bool
	var named string
	cmd := &cobra.Command{
		Use:        "check [FILE]...",
		SuggestFor: []string{"validate", "verify", "lint", "test"},
		Short:      "Validate a configuration without running it",
		Long: `Validate a configuration without running it, and print all errors.

If there is one FILE, hpad reads it in the same way as "hpad run", together with
conf.d/*.toml next to it. Several FILEs are one configuration. The default is the file in
HPAD_CONFIG, then the file of the daemon on this host, then ` + defaultConfig + `.

With --live, hpad also connects to all fleets and sources, reads every target and runs
every query once, and prints the results. With [ha] it also connects to the cluster store.
It starts, scales and stores nothing.

Suspicious settings are warnings on standard error. The exit code is 3 if there are
errors, and 0 with warnings only. An autoscaler that can never work is an error here, but
only a warning in "hpad run".`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, files []string) error {
			switch {
			case len(files) > 0 && cmd.Flags().Changed("config"):
				return wrongUse(errors.New("--config and FILE are mutually exclusive"), helpHint(cmd))
			case len(files) == 0:
				files = []string{locateConfig(cmd, named, daemonHere())}
			}
			c, warnings, err := config.Check(cmd.Context(), files...)
			problems := writeWarnings(stream, warnings)
			if c == nil && context.Cause(cmd.Context()) != nil {
				return err
			}
			if invalid, ok := err.(config.Errors); ok { //nolint:errorlint // Loading returns nothing else.
				return &checkError{errs: append(invalid.Unwrap(), problems...)}
			}
			if err == nil && len(problems) == 0 {
				err = writeOffline(stream, c)
			}
			if err == nil && tryLive {
				var found []error
				found, err = writeFindings(stream, append(live.Check(cmd.Context(), c), checkCluster(cmd.Context(), c)...))
				problems = append(problems, found...)
			}
			if err == nil && len(problems) > 0 {
				return &checkError{errs: problems}
			}
			return err
		},
	}
	addConfigFlag(cmd, &named, "configuration `file`, same as FILE")
	cmd.Flags().BoolVar(&tryLive, "live", false, "also connect to fleets and sources and run every query once")
	return cmd
}

// writeWarnings writes the warnings of a configuration. It returns those of autoscalers that cannot
// work, which are errors of "hpad check".
func writeWarnings(stream streams, warnings []config.Error) (problems []error) {
	for _, warning := range warnings {
		if warning.Unworkable {
			problems = append(problems, warning)
			continue
		}
		notice(stream.err, "warning", "%s", redact.Text(warning.Error()))
	}
	return problems
}

// writeOffline writes a summary of a valid configuration.
func writeOffline(stream streams, c *config.Config) error {
	var text strings.Builder
	fmt.Fprintf(&text, "%s: valid: %s, %s, %s\n", strings.Join(c.Files, ", "),
		explain.Plural(len(c.Autoscalers), "autoscaler"), explain.Plural(len(c.Fleets), "fleet"), explain.Plural(len(c.Sources), "source"))
	if c.HA != nil {
		shared, own := c.Movable()
		fmt.Fprintf(&text, "ha: shared fleets: %s; fleets only on this host: %s\n",
			cmp.Or(strings.Join(shared, ", "), "none"), cmp.Or(strings.Join(own, ", "), "none"))
	}
	return say(stream.out, text.String())
}

// writeFindings writes the findings of a live check and returns the problems among them.
func writeFindings(stream streams, findings []live.Finding) (problems []error, err error) {
	var page strings.Builder
	for _, finding := range findings {
		if finding.Problem {
			problems = append(problems, fmt.Errorf("%s: %s", finding.Key, finding.Text))
			continue
		}
		page.WriteString(show.Clean(finding.Key+": "+finding.Text) + "\n")
	}
	return problems, say(stream.out, page.String())
}
