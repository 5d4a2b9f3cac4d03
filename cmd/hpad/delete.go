package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hpad/hpad/cmd/hpad/confd"
	"github.com/hpad/hpad/cmd/hpad/hint"
	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/kinds"
)

func newDeleteCommand(stream streams) *cobra.Command {
	var c configuration
	cmd := &cobra.Command{
		Use:   "delete NAME",
		Short: "Remove an autoscaler from the configuration",
		Long: `Remove an autoscaler from the configuration and reload the daemon. The target keeps its
count.

The command removes the file in conf.d that defines the autoscaler, with its comments.
If the file has other content, or is the main file, the command prints the file and line,
and changes nothing.`,
		Example: "  hpad delete checkout\n  hpad delete checkout --dry-run",
		Args:    oneName,
	}
	c.add(cmd)
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		c.locate(cmd)
		return completeConfigured(cmd.Context(), c.file)
	}
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		c.locate(cmd)
		return deleteAutoscaler(cmd, stream, &c, names[0])
	}
	return cmd
}

func deleteAutoscaler(cmd *cobra.Command, stream streams, c *configuration, name string) error {
	loaded, invalid := config.Load(cmd.Context(), c.file) // ignore errors, because the autoscaler to delete may cause them
	if _, err := os.Stat(c.file); errors.Is(err, fs.ErrNotExist) && invalid != nil {
		return hint.With(invalid, namingHint)
	}
	file, err := confd.PlanDeletion(cmd.Context(), c.file, name)
	if errors.Is(err, confd.ErrNotConfigured) {
		return c.notConfigured(cmd, loaded, name)
	}
	if err != nil {
		return err
	}
	if c.dryRun {
		return say(stream.out, fmt.Sprintf("autoscaler %q would be deleted (dry run): %s would be removed\n", name, file))
	}
	consequence := c.consequence(cmd, loaded, name)
	if err := confd.Remove(file); err != nil {
		return err
	}
	if err := say(stream.out, fmt.Sprintf("autoscaler %q deleted: %s is removed\n%s", name, file, consequence)); err != nil {
		return err
	}
	return c.apply(cmd, stream, loaded, name, false)
}

func (c *configuration) consequence(cmd *cobra.Command, loaded *config.Config, name string) string {
	if loaded == nil {
		return ""
	}
	ref := loaded.Autoscalers[name].Target
	if c.discovered(cmd, loaded, ref, api.DiscoveredOverridden) {
		return fmt.Sprintf("%s keeps its count; its labels define its autoscaler from now on.\n", ref)
	}
	return fmt.Sprintf("%s keeps its count and is no longer scaled.\n", ref)
}

// notConfigured explains why no file defines an autoscaler.
func (c *configuration) notConfigured(cmd *cobra.Command, loaded *config.Config, name string) error {
	missing := fmt.Errorf("no autoscaler named %q in %s", name, c.file)
	if loaded == nil {
		_, err := config.Load(cmd.Context(), c.file)
		return errors.Join(missing, err)
	}
	fleet, _, isReference := strings.Cut(name, "/")
	if isReference && loaded.Fleets[fleet].Discover {
		return hint.With(fmt.Errorf("autoscaler %q comes from the labels of its target, not from a file", name), labelsHint(loaded.Fleets[fleet].Kind))
	}
	if kind, rest, _ := strings.Cut(name, "/"); isKind(kind) {
		return hint.With(missing, withoutKind(kind, rest))
	}
	var names []string
	for configured, autoscaler := range loaded.Autoscalers {
		if autoscaler.Target.String() == name {
			return hint.With(missing, fmt.Sprintf("the autoscaler of this target is %q", configured))
		}
		names = append(names, configured)
	}
	slices.Sort(names)
	if near := config.Nearest(name, names); near != "" {
		return hint.With(missing, "did you mean \""+near+"\"?")
	}
	if _, err := api.Get[api.Autoscaler](cmd.Context(), c.client(cmd, loaded), api.Path("autoscalers", name), nil); err == nil {
		return hint.With(missing, "the running daemon loaded it from another configuration: set --config")
	}
	return hint.With(missing, "\"hpad get\" lists the autoscalers")
}

func labelsHint(kind string) string {
	return "remove hpad.enable or set it to \"false\" in " + cmp.Or(kinds.Fleets[kind].LabelPlace, "its labels")
}
