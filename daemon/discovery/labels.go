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

// Labels tracks the labels of all targets. Only Targets and Of are safe for concurrent use.
type Labels struct {
	log     *zap.Logger
	labeled map[targets.Ref]*labeled
	// file is the active configuration from files, without autoscalers from labels.
	file  *config.Config
	shown atomic.Pointer[shown]
}

// New returns a Labels without targets.
func New(log *zap.Logger) *Labels {
	l := &Labels{log: log, labeled: map[targets.Ref]*labeled{}}
	l.shown.Store(&shown{})
	return l
}

// File returns the active configuration from files, or nil before the first Activate.
func (l *Labels) File() *config.Config { return l.file }

// Targets returns the sorted states of all targets with labels.
func (l *Labels) Targets() []api.Discovered { return l.shown.Load().targets }

// Of returns the target whose labels concern an autoscaler, or nil.
func (l *Labels) Of(autoscaler string) *api.Discovered {
	return l.shown.Load().byAutoscaler[autoscaler]
}

// shown is an immutable view for readers.
type shown struct {
	targets []api.Discovered
	// byAutoscaler maps the name of an autoscaler to its target if the labels of the target
	// are invalid, or overridden by the autoscaler.
	byAutoscaler map[string]*api.Discovered
}

// labeled stores the labels of one target.
type labeled struct {
	// labels and problem are the results of the last read. labels
	// is nil if the target is known only from the state store, for example after a restart.
	labels  map[string]string
	problem string
	// aliases lists the target's other names.
	aliases []string
	// lastValid contains the last valid labels. It is nil if no labels were valid, or if the last
	// valid labels do not enable an autoscaler.
	lastValid map[string]string
	// absences is the number of consecutive discoveries without the target.
	absences int
	// read, enabled and err are the result of reading the labels with the configuration
	// readUnder.
	read      *config.Autoscaler
	enabled   bool
	err       error
	readUnder *config.Config
	// placed reports whether the target has an autoscaler. Such a target keeps its autoscaler even
	// if the fleet reaches its limit.
	placed bool
	// logged is the last logged state.
	logged api.Discovered
}

// absencesUntilGone is the number of consecutive discoveries without a target after which its
// autoscaler is removed. A target can be absent briefly, for example while a container is recreated
// or a purged job is registered again.
const absencesUntilGone = 3

// Restore adds a target's labels from the state store, so that its autoscaler works before the
// first discovery.
func (l *Labels) Restore(target targets.Ref, labels map[string]string) {
	l.labeled[target] = &labeled{lastValid: labels, placed: true}
}

// evaluation is the result of evaluating a target's labels.
type evaluation struct {
	api.Discovered
	// Errors lists labels that are invalid or contradict each other.
	Errors config.Errors
	// Over is set if the fleet has reached its maximum number of autoscalers.
	Over bool

	ref targets.Ref
}

// merged is a configuration from files combined with the autoscalers from labels.
type merged struct {
	Config *config.Config
	file   *config.Config
	judged []evaluation
}

// Of returns the result for a target's labels.
func (m *merged) Of(ref targets.Ref) evaluation {
	i, found := slices.BinarySearchFunc(m.judged, ref, func(j evaluation, ref targets.Ref) int { return compareRefs(j.ref, ref) })
	if !found {
		return evaluation{ref: ref}
	}
	return m.judged[i]
}

// Merge adds the autoscalers from labels to a configuration from files. An autoscaler from a file
// takes precedence over labels of the same target. If several fleets on one engine discover the
// same target, the first fleet gets it. If labels are invalid, the last valid labels remain active.
func (l *Labels) Merge(file *config.Config) *merged {
	if len(l.labeled) == 0 {
		return &merged{Config: file, file: file}
	}
	owners := file.Owners()
	whole := *file
	whole.Autoscalers = maps.Clone(file.Autoscalers)
	merged := &merged{Config: &whole, file: file}
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
		view := evaluation{ref: ref, Errors: target.labelErrors(), Discovered: api.Discovered{Reference: ref.String(), Problem: target.errorText()}}
		switch owner := owners.Of(ref, target.aliases); {
		case owner != "" && (ok || view.Problem != ""):
			view.State, view.Autoscaler, view.Problem = api.DiscoveredOverridden, owner, ""
		case ok && count[ref.Fleet] >= limit:
			view.Over = true
			view.Problem = fmt.Sprintf("%d targets of the fleet already have an autoscaler from labels (%s)", limit, config.LabelLimit(ref.Fleet, "autoscalers", limit))
		case ok:
			count[ref.Fleet]++
			view.State, view.Autoscaler = api.DiscoveredActive, a.Name
			whole.Autoscalers[a.Name] = a
			owners.Add(ref, a.Name)
		case view.Problem == "":
			view.State = api.DiscoveredDisabled
		}
		if view.Problem != "" {
			view.State = api.DiscoveredInvalid
		}
		target.placed = view.State == api.DiscoveredActive || target.placed && ok
		merged.judged = append(merged.judged, view)
	}
	slices.SortFunc(merged.judged, func(a, b evaluation) int { return compareRefs(a.ref, b.ref) })
	return merged
}

// inOrder returns the targets with an autoscaler, followed by the other targets. Each part is
// sorted.
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

// autoscaler returns the autoscaler that the current labels define. If they are invalid, it uses
// the last valid labels. It returns false if the labels define no autoscaler.
func (l *labeled) autoscaler(file *config.Config, ref targets.Ref) (*config.Autoscaler, bool) {
	if l.readUnder != file {
		l.readUnder = file
		latest := l.labels
		if latest == nil || l.problem != "" {
			latest = l.lastValid
		}
		l.read, l.enabled, l.err = file.Labeled(ref, latest)
		switch {
		case l.err == nil && !l.enabled:
			l.lastValid = nil
		case l.err == nil:
			l.lastValid = latest
		case l.lastValid != nil && !maps.Equal(latest, l.lastValid):
			var stale error
			if l.read, l.enabled, stale = file.Labeled(ref, l.lastValid); stale != nil {
				l.enabled = false
			}
		default:
			l.enabled = false
		}
	}
	return l.read, l.enabled
}

func (l *labeled) labelErrors() config.Errors {
	labelErrs, _ := errors.AsType[config.Errors](l.err)
	return labelErrs
}

// maxShownErrors is the maximum number of errors shown for one target.
const maxShownErrors = 10

// errorText describes the errors in the current labels, or returns "" if there are none.
func (l *labeled) errorText() string {
	var sentences []string
	if l.problem != "" {
		sentences = append(sentences, l.problem)
	}
	labelErrs := l.labelErrors()
	for _, labelErr := range labelErrs[:min(len(labelErrs), maxShownErrors)] {
		sentences = append(sentences, labelErr.Text())
	}
	if more := len(labelErrs) - maxShownErrors; more > 0 {
		sentences = append(sentences, fmt.Sprintf("and %d more", more))
	}
	if len(sentences) > 0 && l.enabled {
		sentences = append(sentences, "the previous labels stay active")
	}
	return strings.Join(sentences, "; ")
}

// Keep stores a fleet's discovered targets and reports whether they changed.
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

// Activate activates a merged configuration and logs the changes.
func (l *Labels) Activate(merged *merged) {
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
		if target.State == api.DiscoveredOverridden && ofFile || target.State == api.DiscoveredInvalid && target.Autoscaler != "" {
			next.byAutoscaler[target.Autoscaler] = &next.targets[i]
		}
		there[target.Reference] = true
		l.report(target)
	}
	for _, before := range l.shown.Load().targets {
		if scaledByLabels(before) && !there[before.Reference] {
			l.log.Info("labeled target disappeared", zap.String("target", before.Reference))
		}
	}
	l.shown.Store(next)
}

// report logs the state of a target's labels if it changed.
func (l *Labels) report(view evaluation) {
	known := l.labeled[view.ref]
	if known == nil || known.logged == view.Discovered {
		return
	}
	before := known.logged
	known.logged = view.Discovered
	target := zap.String("target", view.Reference)
	switch view.State {
	case api.DiscoveredActive:
		l.log.Info("labels activated", target)
	case api.DiscoveredOverridden:
		l.log.Info("labels overridden by another autoscaler", target, zap.String("autoscaler", view.Autoscaler))
	case api.DiscoveredDisabled:
		if scaledByLabels(before) {
			l.log.Info("autoscaler disabled by labels", target)
		}
	case api.DiscoveredInvalid:
		l.log.Warn("invalid labels", target, zap.String("err", view.Problem))
	}
}

// scaledByLabels reports whether the target has an autoscaler from its own labels.
func scaledByLabels(view api.Discovered) bool {
	return view.Autoscaler != "" && view.State != api.DiscoveredOverridden
}
