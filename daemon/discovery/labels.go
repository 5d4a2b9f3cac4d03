package discovery

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

// Labels is what targets ask for by their labels. It is for one goroutine at a time,
// but for Targets and Of.
type Labels struct {
	log     *zap.Logger
	labeled map[targets.Ref]*labeled
	// file is the configuration of files in force, to which autoscalers are added.
	file *config.Config
	// shown is what readers see.
	shown atomic.Pointer[shown]
}

// New returns labels of no target.
func New(log *zap.Logger) *Labels {
	l := &Labels{log: log, labeled: map[targets.Ref]*labeled{}}
	l.shown.Store(&shown{})
	return l
}

// File returns the configuration of files in force; nil before the first.
func (l *Labels) File() *config.Config { return l.file }

// Targets returns what was made of each target's labels, in order.
func (l *Labels) Targets() []api.Discovered { return l.shown.Load().targets }

// Of returns what readers of an autoscaler should know of labels; nil for nothing.
func (l *Labels) Of(autoscaler string) *api.Discovered {
	return l.shown.Load().byAutoscaler[autoscaler]
}

// shown is what readers see of the targets with labels. It is never changed.
type shown struct {
	targets []api.Discovered
	// byAutoscaler has those that an autoscaler's readers should know of: labels
	// that it overrides, or that have a mistake.
	byAutoscaler map[string]*api.Discovered
}

// labeled is a target with labels.
type labeled struct {
	// labels are those read last; nil for a target that only the state has, as
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
	read      *config.Autoscaler
	enabled   bool
	mistake   error
	readUnder *config.Config
	// placed reports whether the target has an autoscaler by its labels, which others that
	// come later do not take from it.
	placed bool
	// told is what the log was told last.
	told api.Discovered
}

// absencesUntilGone is after how many discoveries in a row without its target an
// autoscaler goes: a container that is made anew, or a job between a purge and
// the next registration, is not gone.
const absencesUntilGone = 3

// Recall keeps that a target has an autoscaler by labels that were in force before the
// restart, so that it works before, and without, the first discovery.
func (l *Labels) Recall(target targets.Ref, labels map[string]string) {
	l.labeled[target] = &labeled{inForce: labels, placed: true}
}

// Judgement is what was made of a target's labels.
type Judgement struct {
	api.Discovered
	// Mistakes are those in the labels.
	Mistakes config.Errors
	// Over is set where other targets of the fleet have as many autoscalers as there may
	// be.
	Over bool

	ref targets.Ref
}

// Merged is a configuration of files together with the autoscalers that targets ask
// for.
type Merged struct {
	Config *config.Config
	file   *config.Config
	judged []Judgement
}

// Of returns what was made of a target's labels.
func (m *Merged) Of(ref targets.Ref) Judgement {
	i, found := slices.BinarySearchFunc(m.judged, ref, func(j Judgement, ref targets.Ref) int { return compareRefs(j.ref, ref) })
	if !found {
		return Judgement{ref: ref}
	}
	return m.judged[i]
}

// Merge adds the autoscalers that targets ask for to a configuration of files. One of
// a file wins over labels of the same target, the first of several fleets that are
// one engine wins over the others, and labels with a mistake leave the last ones
// without in force.
func (l *Labels) Merge(file *config.Config) *Merged {
	if len(l.labeled) == 0 {
		return &Merged{Config: file, file: file}
	}
	owners := file.Owners()
	whole := *file
	whole.Autoscalers = maps.Clone(file.Autoscalers)
	merged := &Merged{Config: &whole, file: file}
	count, limits := map[string]int{}, map[string]int{}
	for name, fleet := range file.Fleets {
		if fleet.Discover {
			limits[name] = file.LabelLimits(name).Autoscalers
		}
	}
	for _, ref := range l.inOrder() {
		target := l.labeled[ref]
		limit, discovers := limits[ref.Fleet]
		if !discovers {
			continue
		}
		a, ok := target.autoscaler(file, ref)
		view := Judgement{ref: ref, Mistakes: target.mistakes(), Discovered: api.Discovered{Reference: ref.String(), Problem: target.trouble()}}
		switch owner := owners.Of(ref, target.aliases); {
		case owner != "" && (ok || view.Problem != ""):
			view.State, view.Autoscaler, view.Problem = api.DiscoveredOverridden, owner, ""
		case ok && count[ref.Fleet] >= limit:
			view.Over = true
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
		target.placed = view.State == api.DiscoveredActive || target.placed && ok
		merged.judged = append(merged.judged, view)
	}
	slices.SortFunc(merged.judged, func(a, b Judgement) int { return compareRefs(a.ref, b.ref) })
	return merged
}

// inOrder returns the targets in the order in which they get their autoscalers:
// first those that have one, and then by name.
func (l *Labels) inOrder() []targets.Ref {
	var placed, others []targets.Ref
	for ref, target := range l.labeled {
		if target.placed {
			placed = append(placed, ref)
		} else {
			others = append(others, ref)
		}
	}
	slices.SortFunc(placed, compareRefs)
	slices.SortFunc(others, compareRefs)
	return append(placed, others...)
}

func compareRefs(a, b targets.Ref) int {
	return cmp.Or(cmp.Compare(a.Fleet, b.Fleet), cmp.Compare(a.Name, b.Name))
}

// autoscaler returns the autoscaler that the target asks for, or asked for
// before it made a mistake; false when there is none.
func (l *labeled) autoscaler(file *config.Config, ref targets.Ref) (*config.Autoscaler, bool) {
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

// mistakes returns those in the labels read last.
func (l *labeled) mistakes() config.Errors {
	mistakes, _ := errors.AsType[config.Errors](l.mistake)
	return mistakes
}

// shownMistakes limits the mistakes of one target that are shown.
const shownMistakes = 10

// trouble says what is wrong with the labels as they are now; empty when nothing
// is.
func (l *labeled) trouble() string {
	var sentences []string
	if l.problem != "" {
		sentences = append(sentences, l.problem)
	}
	mistakes := l.mistakes()
	for _, mistake := range mistakes[:min(len(mistakes), shownMistakes)] {
		sentences = append(sentences, mistake.Text())
	}
	if more := len(mistakes) - shownMistakes; more > 0 {
		sentences = append(sentences, fmt.Sprintf("and %d more", more))
	}
	if len(sentences) > 0 && l.enabled {
		sentences = append(sentences, "the labels before stay in force")
	}
	return strings.Join(sentences, "; ")
}

// Keep keeps what a fleet discovered and reports whether that is news.
func (l *Labels) Keep(fleet string, found Found) (news bool) {
	seen := make(map[targets.Ref]bool, len(found.Targets))
	for _, discovered := range found.Targets {
		ref := targets.Ref{Fleet: fleet, Name: discovered.Name}
		seen[ref] = true
		target := l.labeled[ref]
		if target == nil {
			target = &labeled{}
			l.labeled[ref] = target
		}
		target.absences = 0
		if target.labels == nil || target.problem != discovered.Problem || discovered.Problem == "" && !maps.Equal(target.labels, discovered.Labels) {
			target.labels, target.problem, target.readUnder = discovered.Labels, discovered.Problem, nil
			news = true
		}
		if !slices.Equal(target.aliases, discovered.Aliases) {
			target.aliases, news = discovered.Aliases, true
		}
		if target.labels == nil {
			target.labels = map[string]string{}
		}
	}
	for ref, target := range l.labeled {
		if ref.Fleet != fleet || seen[ref] || found.Unread != nil && found.Unread(ref.Name) {
			continue
		}
		if target.absences++; target.absences >= absencesUntilGone {
			delete(l.labeled, ref)
			news = true
		}
	}
	return news
}

// Settle keeps that a merged configuration is in force, and logs what changed.
func (l *Labels) Settle(merged *Merged) {
	file := merged.file
	l.file = file
	for ref := range l.labeled {
		if !file.Fleets[ref.Fleet].Discover {
			delete(l.labeled, ref)
		}
	}
	next := &shown{targets: make([]api.Discovered, len(merged.judged)), byAutoscaler: map[string]*api.Discovered{}}
	there := make(map[string]bool, len(merged.judged))
	for i, target := range merged.judged {
		next.targets[i] = target.Discovered
		_, ofFile := file.Autoscalers[target.Autoscaler]
		if target.State == api.DiscoveredOverridden && ofFile || target.State == api.DiscoveredMistaken && target.Autoscaler != "" {
			next.byAutoscaler[target.Autoscaler] = &next.targets[i]
		}
		there[target.Reference] = true
		l.report(target)
	}
	for _, before := range l.shown.Load().targets {
		if scaledByLabels(before) && !there[before.Reference] {
			l.log.Info("a target with labels is not found any more; its autoscaler is gone", zap.String("target", before.Reference))
		}
	}
	l.shown.Store(next)
}

// report logs what was made of a target's labels where that changed.
func (l *Labels) report(view Judgement) {
	known := l.labeled[view.ref]
	if known == nil || known.told == view.Discovered {
		return
	}
	before := known.told
	known.told = view.Discovered
	target := zap.String("target", view.Reference)
	switch view.State {
	case api.DiscoveredActive:
		l.log.Info("a target's labels are in force", target)
	case api.DiscoveredOverridden:
		l.log.Info("a target's labels are ignored: another autoscaler scales it", target, zap.String("autoscaler", view.Autoscaler))
	case api.DiscoveredDisabled:
		if scaledByLabels(before) {
			l.log.Info("a target's labels ask for no autoscaler any more; it is gone", target)
		}
	case api.DiscoveredMistaken:
		l.log.Warn("a target's labels have a mistake", target, zap.String("err", view.Problem))
	}
}

// scaledByLabels reports whether an autoscaler that the target itself asked for
// scales it.
func scaledByLabels(view api.Discovered) bool {
	return view.Autoscaler != "" && view.State != api.DiscoveredOverridden
}
