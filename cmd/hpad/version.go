package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/hpad/hpad/daemon/api"
)

func newVersionCommand(stream streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Say which hpad this is",
		Args:  cobra.NoArgs,
	}
	format := addOutputFlag(cmd)
	cmd.RunE = func(*cobra.Command, []string) error {
		build := api.Build()
		return write(stream.out, *format, build, func(w io.Writer) error {
			return writeVersion(w, build)
		})
	}
	return cmd
}

func writeVersion(w io.Writer, build api.BuildInfo) error {
	revision := ""
	if build.Revision != "" {
		revision = ", revision " + build.Revision
		if build.Modified {
			revision += " (modified)"
		}
	}
	_, err := fmt.Fprintf(w, "hpad %s (%s, %s%s)\n", build.Version, build.GoVersion, build.Platform, revision)
	return err
}
