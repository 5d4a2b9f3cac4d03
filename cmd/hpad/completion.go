package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
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
