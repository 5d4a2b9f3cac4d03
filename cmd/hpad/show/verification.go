package show

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/hpad/hpad/daemon/api"
)

// Verification writes the result of recomputing recorded decisions, with one line for each
// difference. Times are formatted in zone.
func Verification(w io.Writer, v api.Verification, zone *time.Location) error {
	head := []string{"CHECKED", "IDENTICAL", "DIFFERENT", "NOT VERIFIABLE"}
	var counts []string
	for _, count := range []int{v.Checked, v.Identical, v.Different, v.NotVerifiable} {
		counts = append(counts, strconv.Itoa(count))
	}
	if err := new(Table).write(w, head, [][]string{counts}); err != nil || v.Different == 0 {
		return err
	}
	var rows [][]string
	for _, d := range v.Differences {
		at := d.Time.In(zone).Format(time.DateTime)
		if d.Error != "" {
			rows = append(rows, []string{at, d.Autoscaler, d.Error})
		}
		for _, field := range d.Fields {
			rows = append(rows, []string{at, d.Autoscaler, fmt.Sprintf("%s: recorded %s, now %s", field.Field, orNothing(field.Recorded), orNothing(field.Now))})
		}
	}
	if _, err := io.WriteString(w, "\n"); err != nil {
		return err
	}
	if err := new(Table).write(w, []string{"TIME", "NAME", "DIFFERENCE"}, rows); err != nil {
		return err
	}
	if more := v.Different - len(v.Differences); more > 0 {
		_, err := fmt.Fprintf(w, "and %d more\n", more)
		return err
	}
	return nil
}

func orNothing(text string) string {
	if text == "" {
		return "nothing"
	}
	return text
}
