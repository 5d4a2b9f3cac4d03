package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/hpad/hpad/cmd/hpad/hint"
	"github.com/hpad/hpad/cmd/hpad/show"
	"github.com/hpad/hpad/daemon/api"
)

const rejectedHint = "the previous configuration stays active; \"hpad check\" prints all errors"

func newReloadCommand(stream streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Reload the configuration of the daemon",
		Long: `Reload the configuration of the running daemon and print the changes, including those that
take effect only at the next start. An invalid configuration changes nothing. --dry-run
prints the changes or the errors without a reload.`,
		Example: "  hpad reload --dry-run\n  hpad reload",
		Args:    cobra.NoArgs,
	}
	client := addConnectFlags(cmd)
	format := addOutputFlag(cmd)
	dry := cmd.Flags().Bool("dry-run", false, "print the changes of a reload without making them")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var changes api.ReloadChanges
		var err error
		if *dry {
			changes, err = api.Get[api.ReloadChanges](cmd.Context(), client(), api.Path("status", "reload"), nil)
		} else {
			changes, err = api.Post[api.ReloadChanges](cmd.Context(), client(), api.PathReload, nil)
		}
		var failed *api.Error
		switch {
		case errors.As(err, &failed) && failed.Type == api.ErrorReload:
			return hint.With(fmt.Errorf("reload: %w", err), rejectedHint)
		case err != nil:
			return err
		}
		return write(stream.out, *format, changes, func(w io.Writer) error { return show.Changes(w, changes.Changes, !*dry) })
	}
	return cmd
}
