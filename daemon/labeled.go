package daemon

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/targets"
)

// discovery keeps what targets themselves ask for by their labels, and makes
// autoscalers of it. The Daemon's reloads guards it, except for what is shown.
type discovery struct {
	labeled map[targets.Ref]*labeled
	// file is the configuration of the files, to which the autoscalers are added.
	file *config.Config
	// shown is what readers see.
	shown atomic.Pointer[shownLabels]
}

// shownLabels is what readers see of the targets with labels. It is never
// changed.
type shownLabels struct {
	targets []api.Discovered
	// byAutoscaler has those that an autoscaler's readers should know of: labels
	// that it overrides, or that have a mistake.
	byAutoscaler map[string]*api.Discovered
}

// labeled is a target with labels.
type labeled struct {
	// labels are those read last; nil for a target that only the state tells of, as
	// after a restart. Problem is why they could not be told.
	labels  map[string]string
	problem string
	// aliases are other names of the target, as its fleet told last.
	aliases []string
	// inForce are the last ones without a mistake, nil when there are none or when
	// these asked for no autoscaler.
	inForce map[string]string
	// absences counts the discoveries in a row that did not find the target.
	absences int
	// read is what labels came to under the configuration readUnder.
	read      config.Autoscaler
	enabled   bool
	mistake   error
	readUnder *config.Config
	// placed says that the target has an autoscaler by its labels, which others that
	// come later do not take from it.
	placed bool
	// told is what the log was told last.
	told api.Discovered
}

// absencesUntilGone is after how many discoveries in a row without its target an
// autoscaler goes: a container that is made anew, or a job between a purge and
// the next registration, is not gone.
const absencesUntilGone = 3

// recallLabels takes from the state what targets asked for before the restart,
// so that their autoscalers work before, and without, the first discovery.
func (d *Daemon) recallLabels() {
	d.discovery.labeled = map[targets.Ref]*labeled{}
	for name, record := range d.restored.Autoscalers {
		if record.Labels != nil && name == config.LabelsName(record.Target) {
			d.discovery.labeled[record.Target] = &labeled{inForce: record.Labels, placed: true}
		}
	}
}

// judged is what was made of a target's labels.
type judged struct {
	ref targets.Ref
	api.Discovered
}

// withDiscovered answers a configuration of files together with the autoscalers
// that targets ask for. One of a file wins over labels of the same target, the first
// of several fleets that are one engine wins over the others, and labels with a
// mistake leave the last ones without in force. The caller holds d.reloads.
func (d *Daemon) withDiscovered(file *config.Config) (*config.Config, []judged) {
	if len(d.discovery.labeled) == 0 {
		return file, nil
	}
	owners := file.Owners()
	whole := *file
	whole.Autoscalers = maps.Clone(file.Autoscalers)
	var shown []judged
	count := map[string]int{}
	for _, ref := range d.discovery.inOrder() {
		l := d.discovery.labeled[ref]
		if !file.Fleets[ref.Fleet].Discover {
			continue
		}
		view := api.Discovered{Reference: ref.String()}
		a, ok := l.autoscaler(file, ref)
		view.Problem = l.trouble()
		switch owner := owners.Of(ref, l.aliases); {
		case owner != "" && (ok || view.Problem != ""):
			view.State, view.Autoscaler, view.Problem = api.DiscoveredOverridden, owner, ""
		case ok && count[ref.Fleet] >= file.LabelLimits(ref.Fleet).Autoscalers:
			limit := file.LabelLimits(ref.Fleet).Autoscalers
			view.Problem = fmt.Sprintf("%d targets of the fleet have an autoscaler by their labels already (%s)", limit, config.LabelLimit(ref.Fleet, "autoscalers", limit))
		case ok:
			count[ref.Fleet]++
			view.State, view.Autoscaler = api.DiscoveredActive, a.Name
			whole.Autoscalers[a.Name] = a
			owners.Add(ref, a.Name)
		case view.Problem == "":
			view.State = api.DiscoveredDisabled
		}
		if view.Problem != "" {
			view.State = api.DiscoveredMistaken
		}
		l.placed = view.State == api.DiscoveredActive || l.placed && ok
		shown = append(shown, judged{ref: ref, Discovered: view})
	}
	slices.SortFunc(shown, func(a, b judged) int { return compareRefs(a.ref, b.ref) })
	return &whole, shown
}

// inOrder returns the targets in the order in which they get their autoscalers:
// first those that have one, and then by name.
func (d *discovery) inOrder() []targets.Ref {
	return slices.SortedFunc(maps.Keys(d.labeled), func(a, b targets.Ref) int {
		if x, y := d.labeled[a].placed, d.labeled[b].placed; x != y {
			if x {
				return -1
			}
			return 1
		}
		return compareRefs(a, b)
	})
}

func compareRefs(a, b targets.Ref) int {
	return cmp.Or(cmp.Compare(a.Fleet, b.Fleet), cmp.Compare(a.Name, b.Name))
}

// autoscaler answers the autoscaler that the target asks for, or asked for
// before it made a mistake; false when there is none.
func (l *labeled) autoscaler(file *config.Config, ref targets.Ref) (config.Autoscaler, bool) {
	if l.readUnder != file {
		l.readUnder = file
		latest := l.labels
		if latest == nil || l.problem != "" {
			latest = l.inForce
		}
		l.read, l.enabled, l.mistake = file.Labeled(ref, latest)
		switch {
		case l.mistake == nil && !l.enabled:
			l.inForce = nil
		case l.mistake == nil:
			l.inForce = latest
		case l.inForce != nil && !maps.Equal(latest, l.inForce):
			var stale error
			if l.read, l.enabled, stale = file.Labeled(ref, l.inForce); stale != nil {
				l.enabled = false
			}
		default:
			l.enabled = false
		}
	}
	return l.read, l.enabled
}

// trouble says what is wrong with the labels as they are now; empty when nothing
// is.
func (l *labeled) trouble() string {
	var sentences []string
	if l.problem != "" {
		sentences = append(sentences, l.problem)
	}
	mistakes, _ := errors.AsType[config.Errors](l.mistake)
	for _, mistake := range mistakes {
		sentences = append(sentences, mistake.Text())
	}
	if len(sentences) > 0 && l.enabled {
		sentences = append(sentences, "the labels before stay in force")
	}
	return strings.Join(sentences, "; ")
}

// note keeps what a fleet discovered and says whether that is news.
func (d *discovery) note(fleet string, found found) (news bool) {
	seen := make(map[targets.Ref]bool, len(found.targets))
	for _, target := range found.targets {
		ref := targets.Ref{Fleet: fleet, Name: target.Name}
		seen[ref] = true
		l := d.labeled[ref]
		if l == nil {
			l = &labeled{}
			d.labeled[ref] = l
		}
		l.absences = 0
		if l.labels == nil || l.problem != target.Problem || target.Problem == "" && !maps.Equal(l.labels, target.Labels) {
			l.labels, l.problem, l.readUnder = target.Labels, target.Problem, nil
			news = true
		}
		if !slices.Equal(l.aliases, target.Aliases) {
			l.aliases, news = target.Aliases, true
		}
		if l.labels == nil {
			l.labels = map[string]string{}
		}
	}
	for ref, l := range d.labeled {
		if ref.Fleet != fleet || seen[ref] || found.unread != nil && found.unread(ref.Name) {
			continue
		}
		if l.absences++; l.absences >= absencesUntilGone {
			delete(d.labeled, ref)
			news = true
		}
	}
	return news
}

// putInForce makes a configuration of files, together with the autoscalers that
// targets ask for, the one in force. It builds beside what runs, so that the
// scheduler has only to swap; once the swap is asked for it is not given up. An
// error leaves everything as it was. The caller holds d.reloads.
func (d *Daemon) putInForce(file *config.Config) error {
	whole, shown := d.withDiscovered(file)
	ch, err := d.build(whole, d.current.Load())
	if err != nil {
		return err
	}
	swapped := make(chan struct{})
	if d.request(func(s *scheduler) { s.swap(ch); close(swapped) }) {
		<-swapped
		d.settleLabels(file, shown)
		return nil
	}
	err = errStopping
	for _, made := range ch.adapters {
		err = errors.Join(err, closeAdapter(made.adapter))
	}
	return err
}

// settleLabels notes that a configuration of files and what was made of labels
// are in force, and tells of what changed.
func (d *Daemon) settleLabels(file *config.Config, shown []judged) {
	d.discovery.file = file
	for ref := range d.discovery.labeled {
		if !file.Fleets[ref.Fleet].Discover {
			delete(d.discovery.labeled, ref)
		}
	}
	next := &shownLabels{targets: make([]api.Discovered, len(shown)), byAutoscaler: map[string]*api.Discovered{}}
	there := make(map[string]bool, len(shown))
	for i, target := range shown {
		next.targets[i] = target.Discovered
		_, ofFile := file.Autoscalers[target.Autoscaler]
		if target.State == api.DiscoveredOverridden && ofFile || target.State == api.DiscoveredMistaken && target.Autoscaler != "" {
			next.byAutoscaler[target.Autoscaler] = &next.targets[i]
		}
		there[target.Reference] = true
		d.tellLabels(target)
	}
	for _, before := range d.discovery.shown.Load().targets {
		if scaledByLabels(before) && !there[before.Reference] {
			d.log.Info("a target with labels is not found any more; its autoscaler is gone", zap.String("target", before.Reference))
		}
	}
	d.discovery.shown.Store(next)
}

// tellLabels logs what was made of a target's labels where that changed.
func (d *Daemon) tellLabels(view judged) {
	l := d.discovery.labeled[view.ref]
	if l == nil || l.told == view.Discovered {
		return
	}
	before := l.told
	l.told = view.Discovered
	target := zap.String("target", view.Reference)
	switch view.State {
	case api.DiscoveredActive:
		d.log.Info("a target's labels are in force", target)
	case api.DiscoveredOverridden:
		d.log.Info("a target's labels are ignored: another autoscaler scales it", target, zap.String("autoscaler", view.Autoscaler))
	case api.DiscoveredDisabled:
		if scaledByLabels(before) {
			d.log.Info("a target's labels ask for no autoscaler any more; it is gone", target)
		}
	case api.DiscoveredMistaken:
		d.log.Warn("a target's labels have a mistake", target, zap.String("err", view.Problem))
	}
}

// scaledByLabels says whether an autoscaler that the target itself asked for
// scales it.
func scaledByLabels(view api.Discovered) bool {
	return view.Autoscaler != "" && view.State != api.DiscoveredOverridden
}
