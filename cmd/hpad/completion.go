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

// completions maps each shell to the generator of its completion script.
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
		Long:      "Write a completion script for a shell. The script for bash needs the package bash-completion.",
		Example:   "  hpad completion bash > /etc/bash_completion.d/hpad",
		ValidArgs: shells,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 && slices.Contains(shells, args[0]) {
				return nil
			}
			return wrongUse(fmt.Errorf("completion needs exactly one shell: %s", strings.Join(shells, ", ")),
				"for example \"hpad completion bash > /etc/bash_completion.d/hpad\"")
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := completions[args[0]](cmd.Root(), stream.out); err != nil {
				return fmt.Errorf("write the completion script for %s: %w", args[0], err)
			}
			return nil
		},
	}
}

// completeFlag completes a flag with fixed values. The flag must exist.
func completeFlag(cmd *cobra.Command, name string, values ...string) {
	if err := cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag is missing or already has a completion
	}
}

// plainUsages removes the backquotes from usage texts, because shells would display them.
func plainUsages(cmd *cobra.Command) {
	cmd.LocalFlags().VisitAll(func(flag *pflag.Flag) { flag.Usage = strings.ReplaceAll(flag.Usage, "`", "") })
	for _, child := range cmd.Commands() {
		plainUsages(child)
	}
}

// completeFlagFleets completes the flag --fleet with the fleets of autoscalers. The flag must
// exist.
func completeFlagFleets(cmd *cobra.Command, client func() *api.Client) {
	if err := cmd.RegisterFlagCompletionFunc("fleet", func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		names, err := fleetsOf(cmd.Context(), client())
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}); err != nil {
		panic(err) // the flag is missing or already has a completion
	}
}
