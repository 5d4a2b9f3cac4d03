package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hpad/hpad/daemon/api"
)

// completions write the completion script of each shell.
var completions = map[string]func(*cobra.Command, io.Writer) error{
	"bash":       func(root *cobra.Command, w io.Writer) error { return root.GenBashCompletionV2(w, true) },
	"zsh":        func(root *cobra.Command, w io.Writer) error { return root.GenZshCompletion(w) },
	"fish":       func(root *cobra.Command, w io.Writer) error { return root.GenFishCompletion(w, true) },
	"powershell": func(root *cobra.Command, w io.Writer) error { return root.GenPowerShellCompletionWithDesc(w) },
}

func newCompletionCommand(stream streams) *cobra.Command {
	shells := slices.Sorted(maps.Keys(completions))
	return &cobra.Command{
		Use:       "completion " + strings.Join(shells, "|"),
		Short:     "Write a completion script for a shell",
		Long:      "Write a completion script for a shell. That of bash needs the package bash-completion.",
		Example:   "  hpad completion bash > /etc/bash_completion.d/hpad",
		ValidArgs: shells,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 && slices.Contains(shells, args[0]) {
				return nil
			}
			return wrongUse(fmt.Errorf("completion wants one shell of %s", strings.Join(shells, ", ")),
				"for example \"hpad completion bash > /etc/bash_completion.d/hpad\"")
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := completions[args[0]](cmd.Root(), stream.out); err != nil {
				return fmt.Errorf("write the script for %s: %w", args[0], err)
			}
			return nil
		},
	}
}

// completeFlag completes a flag that takes one of a few values, which was just added.
func completeFlag(cmd *cobra.Command, name string, values ...string) {
	if err := cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // there is no such flag, or it has one already
	}
}

// plainUsages takes the backquotes out of what flags say of themselves: for help they name
// the value, and shells would show them.
func plainUsages(cmd *cobra.Command) {
	cmd.LocalFlags().VisitAll(func(flag *pflag.Flag) { flag.Usage = strings.ReplaceAll(flag.Usage, "`", "") })
	for _, child := range cmd.Commands() {
		plainUsages(child)
	}
}

// completeFlagFleets completes --fleet, which was just added, with the fleets that the
// daemon's autoscalers have.
func completeFlagFleets(cmd *cobra.Command, client func() *api.Client) {
	if err := cmd.RegisterFlagCompletionFunc("fleet", func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		names, err := fleetsOf(cmd.Context(), client())
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}); err != nil {
		panic(err) // there is no such flag, or it has one already
	}
}

// completeListed completes names of autoscalers and, once there is a slash, their targets.
func completeListed(client func() *api.Client) cobra.CompletionFunc {
	names := completeNames(client, 0)
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		found, directive := names(cmd, args, typed)
		if !strings.Contains(typed, "/") || directive == cobra.ShellCompDirectiveError {
			return found, directive
		}
		for view, err := range client().EachBriefly(cmd.Context()) {
			if err != nil {
				return nil, cobra.ShellCompDirectiveError
			}
			found = append(found, view.Reference)
		}
		slices.Sort(found)
		return slices.Compact(found), directive
	}
}

// completeTargets adds to the fleets of a configuration the targets that the daemon found
// and that no autoscaler scales.
func (c *configuration) completeTargets(cmd *cobra.Command, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	found, directive := completeFleets(c.file)
	if !strings.Contains(typed, "/") || directive == cobra.ShellCompDirectiveError {
		return found, directive
	}
	discovered, err := c.named().Discovered(cmd.Context())
	if err != nil {
		return found, directive // the fleets are known without a daemon
	}
	var free []cobra.Completion
	for _, target := range discovered {
		if target.Autoscaler == "" {
			free = append(free, target.Reference)
		}
	}
	return free, cobra.ShellCompDirectiveNoFileComp
}
