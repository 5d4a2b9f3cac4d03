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

const refusedHint = "the old configuration is still in force; \"hpad check\" tells all mistakes"

func newReloadCommand(stream streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Make the daemon read its configuration again",
		Long: `Make the running daemon read its configuration again. A configuration with a
mistake changes nothing. What is different is printed, and what waits for the next
start. --dry-run says what would change, or be refused, and leaves everything as it
is.`,
		Example: "  hpad reload --dry-run\n  hpad reload",
		Args:    cobra.NoArgs,
	}
	client := addConnectFlags(cmd)
	format := addOutputFlag(cmd)
	dry := cmd.Flags().Bool("dry-run", false, "say what a reload would change, and change nothing")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var changes api.ReloadChanges
		var err error
		if *dry {
			changes, err = client().ReloadChanges(cmd.Context())
		} else {
			changes, err = client().Reload(cmd.Context())
		}
		var answered *api.Error
		switch {
		case errors.As(err, &answered) && answered.Type == api.ErrorReload:
			return hint.With(fmt.Errorf("reload: %w", err), refusedHint)
		case err != nil:
			return err
		}
		return write(stream.out, *format, changes, func(w io.Writer) error { return show.Changes(w, changes.Changes, !*dry) })
	}
	return cmd
}
