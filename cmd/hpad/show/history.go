package show

import (
	"io"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/explain"
)

// History writes history entries. If several is set, there is a column NAME. Times are formatted in
// zone.
func (p *Table) History(w io.Writer, entries []api.Recorded, several bool, zone *time.Location) error {
	row := func(when, name, replicas, why string) []string {
		if several {
			return []string{when, name, replicas, why}
		}
		return []string{when, replicas, why}
	}
	rows := make([][]string, len(entries))
	for i, entry := range entries {
		rows[i] = row(entry.Time.In(zone).Format(time.DateTime), entry.Autoscaler, explain.Count(entry.Decision, entry.Evaluation()), explain.Why(entry, zone))
	}
	return p.write(w, row("TIME", "NAME", "REPLICAS", "WHY"), rows)
}
