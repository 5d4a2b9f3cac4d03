package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/hpad/hpad/cmd/hpad/hint"
	"github.com/hpad/hpad/daemon/api"
)

func newReloadCommand(stream streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Make the daemon read its configuration again",
		Long: `Make the running daemon read its configuration again. A configuration with a
mistake changes nothing.`,
		Args: cobra.NoArgs,
	}
	client := addConnectFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		err := client().Reload(cmd.Context())
		var answered *api.Error
		switch {
		case errors.As(err, &answered) && answered.Type == api.ErrorReload:
			return hint.With(fmt.Errorf("reload: %w", err), "the old configuration is still in force; \"hpad check\" tells all mistakes")
		case err != nil:
			return err
		}
		return say(stream.out, "The configuration was reloaded.\n")
	}
	return cmd
}
