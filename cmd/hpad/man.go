package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/hpad/hpad/daemon/api"
)

func newManCommand() *cobra.Command {
	var date string
	cmd := &cobra.Command{
		Use:     "man DIRECTORY",
		Short:   "Write the manual pages of all commands into a directory",
		Example: "  hpad man --date 2026-03-01 /usr/local/share/man/man1",
		Args:    cobra.ExactArgs(1),
		Hidden:  true,
	}
	cmd.Flags().StringVar(&date, "date", "", "`date` in the pages, for example 2026-03-01 (default: today)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		day := time.Now()
		if date != "" {
			var err error
			if day, err = time.Parse(time.DateOnly, date); err != nil {
				return wrongUse(fmt.Errorf("--date %q: must be a date, for example 2026-03-01", date), helpHint(cmd))
			}
		}
		if err := os.MkdirAll(args[0], 0o755); err != nil {
			return fmt.Errorf("write manual pages: %w", err)
		}
		root := cmd.Root()
		root.DisableAutoGenTag = true
		header := &doc.GenManHeader{Section: "1", Date: &day, Source: "hpad " + api.Build().Version, Manual: "hpad"}
		if err := doc.GenManTree(root, header, args[0]); err != nil {
			return fmt.Errorf("write manual pages: %w", err)
		}
		return nil
	}
	return cmd
}
