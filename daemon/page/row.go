package page

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/explain"
	"github.com/hpad/hpad/daemon/redact"
	hpa "github.com/hpad/hpad/policy"
)

// state groups autoscalers in the list.
type state string

const (
	// attention means that the autoscaler cannot work or that its target has a problem.
	attention state = "attention"
	// held means that the autoscaler works, but an operator or the platform prevents changes to the
	// count.
	held state = "held"
	// scaling means that the desired count differs from the current count.
	scaling state = "scaling"
	steady  state = "steady"
)

// states lists all states, most urgent first.
var states = []state{attention, held, scaling, steady}

// row describes an autoscaler in the list. It contains no ages, so that it changes only when the
// autoscaler changes.
type row struct {
	Name      string `json:"name"`
	Reference string `json:"reference"`
	Fleet     string `json:"fleet"`
	// Replicas is the count as text, and Count is the number by which rows are sorted.
	Replicas string `json:"replicas"`
	Count    int32  `json:"count"`
	Desired  int32  `json:"desired"`
	Min      int32  `json:"min"`
	Max      int32  `json:"max"`
	Targets  string `json:"targets"`
	State    state  `json:"state"`
	Problem  string `json:"problem,omitempty"`
	// Why is the sentence that describes the last decision.
	Why string `json:"why"`
	// Late is the number of ticks that arrived while the previous pass was still running.
	Late uint64 `json:"late,omitempty"`
}

// rowOf returns the row for an autoscaler, without secrets, because clients can search for any text
// in a row.
func rowOf(view *api.Autoscaler, now time.Time) row {
	fleet, _, _ := strings.Cut(view.Reference, "/")
	r := row{
		Name: view.Name, Reference: redact.Text(view.Reference), Fleet: redact.Text(fleet), Replicas: explain.ReplicasText(*view),
		Count: view.Status.CurrentReplicas, Desired: view.Status.DesiredReplicas, Min: 1, Max: view.Spec.MaxReplicas,
		Targets: explain.TargetsText(view.Spec.Metrics, view.Status.Metrics),
		Problem: redact.Text(explain.Problem(*view, now)), Why: redact.Text(explain.Undecided(view.Evaluation)), Late: view.Evaluation.Late,
	}
	if view.Spec.MinReplicas != nil {
		r.Min = *view.Spec.MinReplicas
	}
	if d := view.Decision; d == nil || d.Case == hpa.CaseUnreadable || d.Case == hpa.CaseMetricsFailed {
		r.Desired = r.Count
	}
	if view.Decision != nil {
		local := *view.Decision
		local.Time = local.Time.In(now.Location())
		r.Why = redact.Text(explain.Sentence(local, view.Evaluation))
	}
	switch {
	case explain.Fails(*view, now):
		r.State = attention
	case len(view.Pauses) > 0, view.Mode != hpa.ModeOn, view.Evaluation.DryRun, view.Evaluation.Hold != nil, view.Status.Disabled():
		r.State = held
	case r.Count != r.Desired:
		r.State = scaling
	default:
		r.State = steady
	}
	return r
}

// A snapshot is cached for snapshotAge, or for snapshotFactor times its creation time if that is
// longer. Therefore, snapshots use at most a tenth of a core.
const (
	snapshotAge    = time.Second
	snapshotFactor = 10
)

// snapshots caches the last snapshot for all clients.
type snapshots struct {
	daemon Daemon

	mu   sync.Mutex
	last *snapshot
	zone *time.Location
	at   time.Time
	took time.Duration
}

// snapshot is the content of the list. It is immutable.
type snapshot struct {
	Total   int      `json:"total"`
	Rows    []row    `json:"rows"`
	Fleets  []string `json:"fleets"`
	Notices []notice `json:"notices"`
}

// get returns a snapshot with times in the given zone.
func (s *snapshots) get(zone *time.Location) *snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil || s.zone.String() != zone.String() || time.Since(s.at) > max(snapshotAge, snapshotFactor*s.took) {
		start := time.Now()
		l := &snapshot{Rows: []row{}, Fleets: []string{}}
		for view := range s.daemon.AutoscalersAfter("") {
			r := rowOf(&view, start.In(zone))
			l.Rows, l.Fleets = append(l.Rows, r), append(l.Fleets, r.Fleet)
		}
		slices.Sort(l.Fleets)
		l.Fleets, l.Total = slices.Compact(l.Fleets), len(l.Rows)
		l.Notices = notices(s.daemon, l.Rows)
		s.last, s.zone, s.at, s.took = l, zone, time.Now(), time.Since(start)
	}
	return s.last
}

// notice is a line above the list about a problem that needs an operator's attention.
type notice struct {
	State   state  `json:"state"`
	Subject string `json:"subject"`
	Message string `json:"message,omitempty"`
	// Query is the list filter that shows the affected rows, or empty.
	Query string `json:"query,omitempty"`
}

// maxNotices limits the number of notices about fleets, sources and other subjects.
const maxNotices = 12

// notices returns the problems of hpad itself, the number of autoscalers with problems, and the
// problems of fleets and sources.
func notices(d Daemon, rows []row) []notice {
	health := d.Health()
	all := []notice{}
	if !health.Healthy {
		all = append(all, notice{attention, "hpad", "the scheduler is not ticking", ""})
	}
	if health.Unwritten != "" {
		all = append(all, notice{attention, "the state cannot be written", health.Unwritten, ""})
	}
	if health.RefusedReload != "" {
		all = append(all, notice{attention, "the last reload was rejected", health.RefusedReload, ""})
	}
	counts := map[state]int{}
	for i := range rows {
		counts[rows[i].State]++
	}
	texts := map[state][2]string{
		attention: {"autoscaler needs attention", "autoscalers need attention"},
		held:      {"autoscaler is held", "autoscalers are held"},
	}
	for _, s := range states[:2] {
		if n := counts[s]; n > 0 {
			all = append(all, notice{s, fmt.Sprintf("%d %s", n, texts[s][min(n, 2)-1]), "", "?state=" + string(s)})
		}
	}
	count, more := 0, 0
	for _, problem := range d.Readiness().Problems {
		if strings.HasPrefix(problem.Subject, "autoscaler ") || problem.Subject == "configuration" {
			continue
		}
		if count++; count > maxNotices {
			more++
			continue
		}
		s := attention
		if slices.Contains(health.HeldBack, problem) || problem.Message == api.DryRun {
			s = held
		}
		all = append(all, notice{s, problem.Subject, problem.Message, ""})
	}
	if more > 0 {
		all = append(all, notice{attention, fmt.Sprintf("and %d more", more), `"hpad health" lists all`, ""})
	}
	return all
}

// filter selects and sorts rows and splits them into pages.
type filter struct {
	Text, Fleet, Sort string
	State             state
	Page              int
}

// orders maps the names of orders to their comparison functions.
var orders = map[string]func(a, b row) int{
	"name":     func(_, _ row) int { return 0 },
	"replicas": func(a, b row) int { return cmp.Compare(b.Count, a.Count) },
	"state": func(a, b row) int {
		return cmp.Compare(slices.Index(states, a.State), slices.Index(states, b.State))
	},
	"late": func(a, b row) int { return cmp.Compare(b.Late, a.Late) },
}

func (f *filter) matches(r *row) bool {
	return (f.State == "" || f.State == r.State) && (f.Fleet == "" || f.Fleet == r.Fleet) &&
		(f.Text == "" || strings.Contains(strings.ToLower(r.Name+" "+r.Reference+" "+r.Problem), strings.ToLower(f.Text)))
}

// apply returns the matching rows in the order of the filter.
func (f *filter) apply(rows []row) []row {
	var found []row
	for i := range rows {
		if f.matches(&rows[i]) {
			found = append(found, rows[i])
		}
	}
	slices.SortStableFunc(found, orders[f.Sort]) // rows are sorted by name
	return found
}
