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
	// file is the path of the main file.
	file string
	// dryRun prevents changes. reload reloads the daemon after a change.
	dryRun, reload bool
	// named returns a client that is configured by the flags and the environment.
	named func() *api.Client
}

func (c *configuration) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	addConfigFlag(cmd, &c.file, "configuration `file`, with conf.d next to it")
	flags.BoolVar(&c.dryRun, "dry-run", false, "print the change without making it")
	flags.BoolVar(&c.reload, "reload", true, "reload the running daemon afterwards")
	c.named = addConnectFlags(cmd)
}

// configVariable is the environment variable that contains the path of the configuration.
const configVariable = "HPAD_CONFIG"

// namingHint is the hint for a missing configuration.
const namingHint = "set --config or " + configVariable + ", or start the daemon on this host"

// addConfigFlag adds the flag --config. It is empty by default.
func addConfigFlag(cmd *cobra.Command, file *string, usage string) {
	cmd.Flags().StringVar(file, "config", os.Getenv(configVariable), usage+"; env "+configVariable+" (default: the configuration of the running daemon, or "+defaultConfig+")")
}

// configTimeout limits the request to the daemon for the path of its configuration. It is long,
// because a busy daemon must not lead to the default path.
const configTimeout = 10 * time.Second

// locate sets the path of the configuration.
func (c *configuration) locate(cmd *cobra.Command) { c.file = locateConfig(cmd, c.file, c.named()) }

// locateConfig returns the given path if there is one, otherwise the path that the daemon on this
// host uses, and otherwise the default path.
func locateConfig(cmd *cobra.Command, named string, client *api.Client) string {
	flags := cmd.Flags()
	remote := flags.Changed("server") || os.Getenv(serverVariable) != "" && !flags.Changed("socket")
	if named != "" || remote {
		return cmp.Or(named, defaultConfig)
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), configTimeout)
	defer cancel()
	text, _ := api.Get[api.ConfigText](ctx, client, api.Path("status", "config"), api.ConfigQuery{}) // without a daemon, the default path applies
	return cmp.Or(text.File, defaultConfig)
}

// client returns a client that is configured by the flags and the environment. Without these, the
// client uses the socket in the configuration.
func (c *configuration) client(cmd *cobra.Command, loaded *config.Config) *api.Client {
	named := cmd.Flags().Changed("socket") || cmd.Flags().Changed("server") || os.Getenv(socketVariable) != "" || os.Getenv(serverVariable) != ""
	if named || loaded == nil || loaded.Daemon.Socket == "" {
		return c.named()
	}
	return api.NewClient(loaded.Daemon.Socket)
}

// discovered reports whether the daemon discovered a target by its labels and the target is in the
// given state. It returns false if no daemon is running.
func (c *configuration) discovered(cmd *cobra.Command, loaded *config.Config, ref targets.Ref, state api.DiscoveredState) bool {
	if !loaded.Fleets[ref.Fleet].Discover {
		return false
	}
	all, err := api.Get[[]api.Discovered](cmd.Context(), c.client(cmd, loaded), api.Path("discovery"), nil)
	return err == nil && slices.ContainsFunc(all, func(target api.Discovered) bool {
		return target.Reference == ref.String() && target.State == state
	})
}

// apply reloads the daemon after a change and prints the result. added reports whether the change
// adds the autoscaler. If no daemon is running, the change takes effect at the next start, which is
// not an error.
func (c *configuration) apply(cmd *cobra.Command, stream streams, loaded *config.Config, name string, added bool) error {
	const later = "\"hpad reload\" activates the change.\n"
	if !c.reload {
		return say(stream.out, later)
	}
	client := c.client(cmd, loaded)
	_, err := api.Post[api.ReloadChanges](cmd.Context(), client, api.PathReload, nil)
	var failed *api.Error
	switch {
	case errors.As(err, &failed) && failed.Type == api.ErrorReload:
		return hint.With(fmt.Errorf("the daemon rejects the configuration: %w", err),
			"the file is written, but the old configuration stays active; \"hpad check\" prints all errors")
	case err != nil:
		return say(stream.out, fmt.Sprintf("The daemon was not reloaded (%s).\nThe change takes effect at the next start of hpad; if hpad is running, %s", show.Clean(err.Error()), later))
	}
	_, err = api.Get[api.Autoscaler](cmd.Context(), client, api.Path("autoscalers", name), nil)
	switch found := err == nil; {
	case err != nil && !errors.Is(err, api.ErrNotFound):
		return err
	case found != added:
		return say(stream.out, fmt.Sprintf("The daemon was reloaded, but it does not use %s.\n", c.file))
	case added:
		return say(stream.out, fmt.Sprintf("Active: \"hpad describe %s\" shows it.\n", name))
	}
	return say(stream.out, "Active.\n")
}

func completeConfigured(ctx context.Context, file string) ([]cobra.Completion, cobra.ShellCompDirective) {
	c, err := config.Load(ctx, file)
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
		return fmt.Errorf("write the output: %w", err)
	}
	return nil
}
