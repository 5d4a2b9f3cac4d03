package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hpad/hpad/cmd/hpad/live"
	"github.com/hpad/hpad/cmd/hpad/show"
	"github.com/hpad/hpad/daemon/cluster/nomad"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/explain"
	"github.com/hpad/hpad/daemon/redact"
)

type checkError struct{ mistakes []error }

func (e *checkError) Error() string {
	lines := make([]string, len(e.mistakes))
	for i, mistake := range e.mistakes {
		lines[i] = mistake.Error()
	}
	return strings.Join(lines, "\n")
}

func (e *checkError) Unwrap() []error { return e.mistakes }

func newCheckCommand(stream streams) *cobra.Command {
	var tryLive bool
	var named string
	cmd := &cobra.Command{
		Use:        "check [FILE]...",
		SuggestFor: []string{"validate", "lint"},
		Short:      "Validate a configuration without running it",
		Long: `Validate a configuration without running it, and tell all its mistakes.

One FILE is read as "hpad run" reads it: together with conf.d/*.toml beside it. Several
FILEs are read as one configuration. Without any it is that of HPAD_CONFIG, or of the
daemon that runs on this machine, or ` + defaultConfig + `.

With --live, hpad also connects to all fleets and sources, reads every target and
asks every query once, and tells what came back. Nothing is started, scaled or
stored.

What is allowed and hardly meant is a warning on standard error. The exit code is 3
when something is wrong, and 0 with warnings alone. An autoscaler that cannot work as
it is configured is wrong here, though "hpad run" runs the others.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, files []string) error {
			switch {
			case len(files) > 0 && cmd.Flags().Changed("config"):
				return wrongUse(errors.New("--config and FILE both name the configuration"), helpHint(cmd))
			case len(files) == 0:
				files = []string{locateConfig(cmd, named, daemonHere())}
			}
			c, err := loadFiles(files)
			if err != nil {
				return err
			}
			problems, err := writeOffline(stream, c)
			if err == nil && tryLive {
				var found []error
				found, err = writeFindings(stream, live.Check(cmd.Context(), c, daemonHere()))
				problems = append(problems, found...)
			}
			if err == nil && len(problems) > 0 {
				return &checkError{mistakes: problems}
			}
			return err
		},
	}
	addConfigFlag(cmd, &named, "the configuration `file`, as FILE")
	cmd.Flags().BoolVar(&tryLive, "live", false, "also connect to fleets and sources and run every query once")
	return cmd
}

// loadFiles reads a configuration; its mistakes are a checkError.
func loadFiles(files []string) (*config.Config, error) {
	var c *config.Config
	var err error
	switch len(files) {
	case 1:
		c, err = config.Load(files[0])
	default:
		c, err = config.LoadFiles(files...)
	}
	if joined, ok := err.(config.Errors); ok { //nolint:errorlint // Loading returns nothing else.
		return nil, &checkError{mistakes: joined.Unwrap()}
	}
	return c, err
}

// writeOffline writes what a valid configuration says by itself, and returns what cannot
// work in it.
func writeOffline(stream streams, c *config.Config) (problems []error, err error) {
	for _, warning := range c.Warnings() {
		if warning.Unworkable {
			problems = append(problems, warning)
			continue
		}
		notice(stream.err, "warning", "%s", redact.Text(warning.Error()))
	}
	if len(problems) > 0 {
		return problems, nil
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s: fine: %s, %s, %s\n", strings.Join(c.Files, ", "),
		explain.Plural(len(c.Autoscalers), "autoscaler"), explain.Plural(len(c.Fleets), "fleet"), explain.Plural(len(c.Sources), "source"))
	if c.HA != nil {
		if c.HA.Store == "nomad" {
			if err := nomad.Check(c); err != nil {
				return []error{config.Placed(c.Files[0], err)}, nil
			}
		}
		shared, own := c.Movable()
		fmt.Fprintf(&text, "ha: members share %s; of this machine alone: %s\n",
			cmp.Or(strings.Join(shared, ", "), "no fleet"), cmp.Or(strings.Join(own, ", "), "no fleet"))
	}
	return nil, say(stream.out, text.String())
}

// writeFindings writes what a live check found, and returns the problems.
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
