package compose

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hpad/hpad/targets"
)

// Discover returns the services with labels that begin with "hpad.", in order: those of
// the newest configuration of each. A service that hpad scaled to 0 has those it had
// last, unless its project is gone; one that somebody else left without containers is
// not found, as one that is in its Compose file no more.
func (f *Fleet) Discover(ctx context.Context) ([]targets.Discovered, error) {
	err := f.base.Usable(ctx)
	if err == nil {
		err = f.load(ctx)
	}
	var l *listing
	if err == nil {
		l, err = f.list(ctx, "")
	}
	if err != nil {
		return nil, err
	}
	var found []targets.Discovered
	for k, members := range l.services {
		if living := counted(members); len(living) > 0 {
			found = append(found, discovered(k, living))
		}
	}
	for k, t := range f.templates.all() {
		if len(counted(l.services[k])) == 0 && !f.removed(k, t, l) {
			found = append(found, targets.Discovered{Name: k.String(), Labels: ownLabels(t.Blueprint.Config.Labels)})
		}
	}
	found = slices.DeleteFunc(found, func(d targets.Discovered) bool { return len(d.Labels) == 0 && d.Problem == "" })
	slices.SortFunc(found, func(a, b targets.Discovered) int { return cmp.Compare(a.Name, b.Name) })
	return found, nil
}

// discovered returns the labels of a service's newest containers. They differ only where
// somebody made containers by other means than Compose.
func discovered(k key, members []*member) targets.Discovered {
	current := newest(members)
	d := targets.Discovered{Name: k.String()}
	first := ""
	for _, m := range members {
		if m.configuration() != current {
			continue
		}
		labels := ownLabels(m.Labels)
		switch {
		case first == "":
			first, d.Labels = m.name, labels
		case !maps.Equal(d.Labels, labels):
			d.Problem = fmt.Sprintf("containers %s and %s of the same configuration have different labels", first, m.name)
			return d
		}
	}
	return d
}

func ownLabels(labels map[string]string) map[string]string {
	own := map[string]string{}
	for name, value := range labels {
		if strings.HasPrefix(name, targets.LabelPrefix) {
			own[name] = value
		}
	}
	return own
}
