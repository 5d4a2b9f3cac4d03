package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/hpad/hpad/cmd/hpad/hint"
	"github.com/hpad/hpad/cmd/hpad/show"
	"github.com/hpad/hpad/daemon/api"
)

// verifyHistory has the daemon make recorded decisions again, and fails where one of
// them comes out otherwise.
func verifyHistory(cmd *cobra.Command, stream streams, client *api.Client, format outputFormat, name string, query api.HistoryQuery) error {
	found, err := client.VerifyHistory(cmd.Context(), name, query.From, query.To)
	if err != nil {
		return suggestName(cmd.Context(), client, name, err)
	}
	if err := write(stream.out, format, found, func(w io.Writer) error {
		return show.Verification(w, found, time.Local)
	}); err != nil {
		return err
	}
	if found.Different == 0 {
		return nil
	}
	return hint.With(fmt.Errorf("%d of %d decisions come out otherwise than they were recorded, or cannot be read", found.Different, found.Checked),
		`"hpad explain NAME --at TIME" shows what was recorded of one`)
}
