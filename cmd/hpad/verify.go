package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/hpad/hpad/cmd/hpad/hint"
	"github.com/hpad/hpad/cmd/hpad/show"
	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/policy"
)

// verifyHistory makes the daemon recompute recorded decisions. It returns an error if a result
// differs.
func verifyHistory(cmd *cobra.Command, stream streams, client *api.Client, format outputFormat, name string, query api.HistoryQuery) error {
	found, err := api.Get[api.Verification](cmd.Context(), client, api.PathOf(policy.Scope{Autoscaler: name}, "history", "verify"), api.Period{From: query.From, To: query.To})
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
	return hint.With(fmt.Errorf("%d of %d decisions differ from their records or cannot be read", found.Different, found.Checked),
		`"hpad explain NAME --at TIME" shows a record`)
}
