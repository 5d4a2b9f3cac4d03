package show

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/config"
)

// Difference returns the name of a member and the parts in which its configuration of a fleet
// differs from the owner's.
func Difference(f *api.ClusterFleet, member string) string {
	return member + " in " + cmp.Or(config.Difference(f.Differs[member], f.Configuration), "everything")
}

// Cluster writes the members of a cluster and the owners of fleets.
func Cluster(w io.Writer, c *api.Cluster) error {
	members := newTable(w)
	_, _ = fmt.Fprintln(members, "MEMBER\tADDRESS\tFLEETS\tVERSION\tCLOCK\tPROBLEM")
	for _, m := range c.Members {
		name, clock := m.Name, unknown
		if m.Name == c.Member {
			name, clock = m.Name+" (this)", "here"
		} else if m.ClockOffsetSeconds != nil {
			clock = seconds(*m.ClockOffsetSeconds).Round(time.Millisecond).String()
		}
		_, _ = fmt.Fprintf(members, "%s\t%s\t%d\t%s\t%s\t%s\n", name, m.Address, m.Fleets, m.Version, clock, m.Problem)
	}
	if err := members.Flush(); err != nil {
		return err
	}
	absent := none
	if c.LastRead.IsZero() && len(c.Members) == 1 && c.Members[0].Problem != "" { // the member has never read the store
		absent = unknown
	}
	_, _ = fmt.Fprintln(w)
	fleets := newTable(w)
	_, _ = fmt.Fprintln(fleets, "FLEET\tOWNER\tTERM\tLATE\tNEXT\tCONFIGURATION\tDIFFERS")
	for _, f := range c.Fleets {
		next := f.Next
		switch {
		case f.Owner == "" && f.Next == "" && absent == none:
			next = "no candidate"
		case f.Next == f.Owner:
			next = ""
		}
		late := unknown
		if f.LateSeconds != nil {
			late = seconds(*f.LateSeconds).String()
		}
		var differs []string
		for _, member := range slices.Sorted(maps.Keys(f.Differs)) {
			differs = append(differs, Difference(&f, member))
		}
		term := strings.TrimLeft(strconv.FormatUint(f.Term, 10), "0") // empty if it is unknown
		owner := cmp.Or(f.Owner, absent)
		switch {
		case !c.LastRead.IsZero():
			owner += " (at " + c.LastRead.Local().Format(time.TimeOnly) + ")"
		case !f.UnownedSince.IsZero():
			owner += " for " + c.Time.Sub(f.UnownedSince).Round(time.Second).String()
		}
		_, _ = fmt.Fprintf(fleets, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n",
			f.Name, owner, term, late, next, cmp.Or(f.Configuration, absent), strings.Join(differs, ", "))
	}
	if err := fleets.Flush(); err != nil {
		return err
	}
	if c.Problem == "" {
		return nil
	}
	_, err := fmt.Fprintf(w, "\nWarning: %s\n", c.Problem)
	return err
}
