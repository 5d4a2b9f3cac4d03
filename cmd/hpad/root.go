package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hpad/hpad/daemon/explain"
	"github.com/hpad/hpad/daemon/redact"
)

type streams struct {
	in       io.Reader
	out, err io.Writer
}

// run runs a command line and returns its exit code. It writes errors to the error stream.
func run(ctx context.Context, args []string, io streams) int {
	redact.KeepEnvironment(os.Environ())
	root := newRootCommand(io)
	root.SetArgs(args)
	if len(args) > 0 && (args[0] == cobra.ShellCompRequestCmd || args[0] == cobra.ShellCompNoDescRequestCmd) {
		plainUsages(root)
	}
	err := checkCommand(root, args)
	if err == nil {
		err = root.ExecuteContext(ctx)
	}
	if err == nil {
		return exitFine
	}
	report(io.err, err)
	return exitCode(err)
}

func newRootCommand(io streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "hpad",
		Short: "Scale services like the Kubernetes Horizontal Pod Autoscaler, without Kubernetes",
		Long: `hpad is the Kubernetes Horizontal Pod Autoscaler for fleets that do not run on
Kubernetes.

Exit codes: 0 success, 1 failure, 2 wrong usage, 3 "hpad check" found errors.`,
		Args: knownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		// The function run prints the errors.
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	addVersionFlag(root)
	root.SetIn(io.in)
	root.SetOut(io.out)
	root.SetErr(io.err)
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(
		newRunCommand(io),
		newCheckCommand(io),
		newGetCommand(io),
		newDescribeCommand(io),
		newExplainCommand(io),
		newHistoryCommand(io),
		newScheduleCommand(io),
		newSimulateCommand(io),
		newTuneCommand(io),
		newLogsCommand(io),
		newPauseCommand(io),
		newResumeCommand(io),
		newScaleCommand(io),
		newEvaluateCommand(io),
		newRestartCommand(io),
		newAutoscaleCommand(io),
		newDeleteCommand(io),
		newConvertCommand(io),
		newReloadCommand(io),
		newHealthCommand(io),
		newClusterCommand(io),
		newStateCommand(io),
		newHashPasswordCommand(io),
		newDemoCommand(io),
		newFleetTestCommand(io),
		newVersionCommand(io),
		newCompletionCommand(io),
		newManCommand(),
	)
	for _, command := range root.Commands() {
		checkUse(command)
	}
	return root
}

// checkCommand returns an error if the first argument is an unknown command. cobra would report an
// unknown flag first if there is one.
func checkCommand(root *cobra.Command, args []string) error {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") || strings.HasPrefix(args[0], "__") {
		return nil
	}
	if cmd, _, err := root.Find(args); err != nil || cmd != root || args[0] == "help" {
		return nil
	}
	return knownCommand(root, args)
}

// knownCommand rejects arguments of hpad itself, because they are unknown commands.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if text := kubectlHint(args); text != "" {
		return wrongUse(fmt.Errorf("unknown command %q", args[0]), text)
	}
	text := "\"hpad --help\" lists all commands"
	cmd.SuggestionsMinimumDistance = 2
	near := cmd.SuggestionsFor(args[0])
	for _, command := range cmd.Commands() {
		if slices.Contains(command.SuggestFor, args[0]) { // rather than a command with a similar name
			near = []string{command.Name()}
		}
	}
	if len(near) > 0 {
		text = fmt.Sprintf("did you mean \"hpad %s\"?", near[0])
	}
	return wrongUse(fmt.Errorf("unknown command %q", args[0]), text)
}

// checkUse turns errors in a command's arguments into usage errors with a hint.
func checkUse(command *cobra.Command) {
	check := command.Args
	if check == nil {
		check = cobra.NoArgs
	}
	command.Args = func(cmd *cobra.Command, args []string) error {
		err := check(cmd, args)
		if err != nil && len(args) > 1 && isKind(args[0]) && cmd.Name() != "autoscale" {
			return wrongUse(err, withoutKind(args[0], args[1]))
		}
		if _, used := errors.AsType[usageError](err); err == nil || used {
			return err
		}
		if cmd.HasSubCommands() {
			return wrongUse(fmt.Errorf("unknown command \"%s %s\"", cmd.CommandPath(), args[0]), helpHint(cmd))
		}
		_, wanted, _ := strings.Cut(cmd.Use, " ")
		return wrongUse(fmt.Errorf("%s needs %s, got %s", cmd.Name(), cmp.Or(wanted, "no arguments"), explain.Plural(len(args), "argument")), helpHint(cmd))
	}
	for _, child := range command.Commands() {
		checkUse(child)
	}
}

func helpHint(cmd *cobra.Command) string {
	return fmt.Sprintf("usage: %s; see \"%s --help\"", cmd.UseLine(), cmd.CommandPath())
}
