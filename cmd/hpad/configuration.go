package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/hpad/hpad/cmd/hpad/hint"
	"github.com/hpad/hpad/cmd/hpad/show"
	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/targets"
)

type configuration struct {
	// file is the main file.
	file string
	// dryRun reports whether nothing is to be changed, reload whether the daemon is to
	// read its configuration again after a change.
	dryRun, reload bool
	// named returns a client of the daemon that flags or environment name.
	named func() *api.Client
}

func (c *configuration) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	addConfigFlag(cmd, &c.file, "the configuration `file`; the others are in conf.d beside it")
	dry := flags.VarPF((*dryRun)(&c.dryRun), "dry-run", "", "say what would be done, and change nothing")
	dry.NoOptDefVal = "true"
	flags.BoolVar(&c.reload, "reload", true, "have the daemon read its configuration again, if there is one")
	c.named = addConnectFlags(cmd)
}

// configVariable is the environment variable that names the configuration when the flag
// does not.
const configVariable = "HPAD_CONFIG"

// namingHint is what to do where there is no configuration.
const namingHint = "--config or " + configVariable + " names the configuration, where no daemon runs here that could say"

// addConfigFlag gives a command the flag --config, which is empty where nobody names a
// configuration.
func addConfigFlag(cmd *cobra.Command, file *string, usage string) {
	cmd.Flags().StringVar(file, "config", os.Getenv(configVariable), usage+"; "+configVariable+" names it too (default: that of the running daemon, else "+defaultConfig+")")
}

// askingTimeout is how long a daemon may take to say where its configuration is.
const askingTimeout = 2 * time.Second

// locate finds the configuration that a command works on.
func (c *configuration) locate(cmd *cobra.Command) { c.file = locateConfig(cmd, c.file, c.named()) }

// locateConfig returns the path of the configuration: the one named, or that of the daemon
// on this machine, or the default.
func locateConfig(cmd *cobra.Command, named string, client *api.Client) string {
	flags := cmd.Flags()
	elsewhere := flags.Changed("server") || os.Getenv(serverVariable) != "" && !flags.Changed("socket")
	if named != "" || elsewhere {
		return cmp.Or(named, defaultConfig)
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), askingTimeout)
	defer cancel()
	file, _ := client.ConfigFile(ctx) // without a daemon it is the default
	return cmp.Or(file, defaultConfig)
}

// dryRun is a truth value that also takes kubectl's words for it.
type dryRun bool

func (d *dryRun) String() string { return fmt.Sprint(bool(*d)) }

func (d *dryRun) Set(text string) error {
	switch text {
	case "true", "client":
		*d = true
	case "false", "none":
		*d = false
	default:
		return errors.New("want true or false")
	}
	return nil
}

func (d *dryRun) Type() string { return "bool" }

// client returns a client of the daemon that runs a configuration: where flags or
// the environment say, or else at the socket of the configuration.
func (c *configuration) client(cmd *cobra.Command, loaded *config.Config) *api.Client {
	named := cmd.Flags().Changed("socket") || cmd.Flags().Changed("server") || os.Getenv(socketVariable) != "" || os.Getenv(serverVariable) != ""
	if named || loaded == nil || loaded.Daemon.Socket == "" {
		return c.named()
	}
	return api.NewClient(loaded.Daemon.Socket)
}

// discovered reports whether the daemon has found a target by its labels, which are in
// that state. Without a daemon nobody knows of labels.
func (c *configuration) discovered(cmd *cobra.Command, loaded *config.Config, ref targets.Ref, state api.DiscoveredState) bool {
	if !loaded.Fleets[ref.Fleet].Discover {
		return false
	}
	all, err := c.client(cmd, loaded).Discovered(cmd.Context())
	return err == nil && slices.ContainsFunc(all, func(target api.Discovered) bool {
		return target.Reference == ref.String() && target.State == state
	})
}

// apply has the daemon read its configuration again after a change, and says what
// came of it. The autoscaler that the change is about is there afterwards, or it
// is not. Only a daemon that refuses the configuration is an error: without one,
// the change is in force at its next start.
func (c *configuration) apply(cmd *cobra.Command, stream streams, loaded *config.Config, name string, there bool) error {
	const later = "\"hpad reload\" puts it into force.\n"
	if !c.reload {
		return say(stream.out, later)
	}
	client := c.client(cmd, loaded)
	_, err := client.Reload(cmd.Context())
	var answered *api.Error
	switch {
	case errors.As(err, &answered) && answered.Type == api.ErrorReload:
		return hint.With(fmt.Errorf("the daemon refuses its configuration: %w", err),
			"the change is written, and the old configuration still in force; \"hpad check\" tells all mistakes")
	case err != nil:
		return say(stream.out, fmt.Sprintf("No daemon was told (%s).\nIt is in force when hpad starts; while it runs, %s", show.Clean(err.Error()), later))
	}
	_, err = client.Autoscaler(cmd.Context(), name)
	switch found := err == nil; {
	case err != nil && !errors.Is(err, api.ErrNotFound):
		return err
	case found != there:
		return say(stream.out, fmt.Sprintf("The daemon has read its configuration again, which is another one than %s.\n", c.file))
	case there:
		return say(stream.out, fmt.Sprintf("In force: \"hpad describe %s\" shows it.\n", name))
	}
	return say(stream.out, "In force.\n")
}

func completeConfigured(file string) ([]cobra.Completion, cobra.ShellCompDirective) {
	c, err := config.Load(file)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []cobra.Completion
	for name := range c.Autoscalers {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, cobra.ShellCompDirectiveNoFileComp
}

func say(w io.Writer, text string) error {
	if _, err := io.WriteString(w, text); err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	return nil
}
