package compose

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/hpad/hpad/targets"
)

// Discover returns the services that have labels starting with "hpad.", in order, with the
// labels of their newest configuration. A service that hpad scaled to 0 keeps its labels unless
// its project was removed. Other services without containers are not found.
func (f *Fleet) Discover(ctx context.Context) ([]targets.Discovered, error) {
	err := f.base.Usable(ctx)
	if err == nil {
		err = f.load(ctx)
	}
	var l *containerList
	if err == nil {
		l, err = f.list(ctx, "")
	}
	if err != nil {
		return nil, err
	}
	var found []targets.Discovered
	add := func(k key, labels map[string]string) {
		own := map[string]string{}
		for name, value := range labels {
			if strings.HasPrefix(name, targets.LabelPrefix) {
				own[name] = value
			}
		}
		if len(own) > 0 {
			found = append(found, targets.Discovered{Name: k.String(), Labels: own})
		}
	}
	for k, members := range l.services {
		if m := latest(counted(members)); m != nil {
			add(k, m.Labels)
		}
	}
	for _, k := range f.store.services() {
		if t := f.templateOf(k, l); t != nil && len(counted(l.services[k])) == 0 {
			add(k, t.Blueprint.Config.Labels)
		}
	}
	slices.SortFunc(found, func(a, b targets.Discovered) int { return cmp.Compare(a.Name, b.Name) })
	return found, nil
}
