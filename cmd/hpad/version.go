package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hpad/hpad/daemon/api"
)

func newVersionCommand(stream streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of hpad",
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

// addVersionFlag adds the flag --version to the root command. It prints the same as "hpad version".
func addVersionFlag(root *cobra.Command) {
	var text strings.Builder
	_ = writeVersion(&text, api.Build())
	root.Version = strings.TrimSpace(text.String())
	root.SetVersionTemplate("{{.Version}}\n")
	root.Flags().Bool("version", false, "print the version of hpad")
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
