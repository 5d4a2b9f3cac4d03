package monitoring

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
)

// dashboard contains the parts of a Grafana dashboard that the tests check.
type dashboard struct {
	SchemaVersion int `json:"schemaVersion"`
	Panels        []panel
	Templating    struct{ List []variable }
	Annotations   struct{ List []query }
}

type panel struct {
	ID          int
	Type        string
	Title       string
	Targets     []query
	GridPos     struct{ H, W, X, Y int }
	Description string
}

type query struct {
	Expr, LegendFormat string
	RefID              string `json:"refId"`
	Instant            bool
	Datasource         struct{ UID string }
}

type variable struct {
	Name, Type, Definition string
}

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	text, err := os.ReadFile("../../configs/grafana/hpad.json")
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// variables replaces the dashboard's variables in a query.
var variables = strings.NewReplacer("$__rate_interval", "15s", "$job", "hpad", "$instance", ".*", "$autoscaler", ".*")

// TestDashboard checks the structure of the dashboard.
func TestDashboard(t *testing.T) {
	d := readDashboard(t)
	if d.SchemaVersion < 39 {
		t.Errorf("schema version = %d, want a version of Grafana 11 or later", d.SchemaVersion)
	}
	names := map[string]bool{}
	for _, v := range d.Templating.List {
		names[v.Name] = true
	}
	for _, name := range []string{"DS", "job", "instance", "autoscaler"} {
		if !names[name] {
			t.Errorf("missing variable %s", name)
		}
	}
	seen := map[int]bool{}
	cells := map[[2]int]string{}
	for _, p := range d.Panels {
		if seen[p.ID] || p.Title == "" {
			t.Errorf("panel %q has a duplicate ID %d or no title", p.Title, p.ID)
		}
		seen[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := cells[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("panel %q overlaps %q or is outside the grid", p.Title, other)
				}
				cells[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if p.Description == "" || len(p.Targets) == 0 {
			t.Errorf("panel %q has no description or no query", p.Title)
		}
		refs := map[string]bool{}
		for _, q := range p.Targets {
			if q.Datasource.UID != "${DS}" || refs[q.RefID] {
				t.Errorf("panel %q uses datasource %q instead of ${DS}, or contains query %s twice", p.Title, q.Datasource.UID, q.RefID)
			}
			refs[q.RefID] = true
			for _, used := range regexp.MustCompile(`\$(\w+)`).FindAllStringSubmatch(q.Expr, -1) {
				if !names[used[1]] && used[1] != "__rate_interval" {
					t.Errorf("panel %q uses the unknown variable %s", p.Title, used[1])
				}
			}
		}
	}
}

// labelOfLegend matches a label in a legend. labelValues matches the query of a variable.
var (
	labelOfLegend = regexp.MustCompile(`\{\{(\w+)\}\}`)
	labelValues   = regexp.MustCompile(`^label_values\((.*), (\w+)\)$`)
)

// check compares the queries of the dashboard with the exported metrics.
func (d dashboard) check(t reporter, exported map[string]family) {
	t.Helper()
	for _, p := range d.Panels {
		for _, q := range p.Targets {
			checkMentions(t, q.LegendFormat, labelOfLegend, checkQuery(t, exported, variables.Replace(q.Expr)))
		}
	}
	for _, v := range d.Templating.List {
		if v.Type != "query" {
			continue
		}
		parts := labelValues.FindStringSubmatch(v.Definition)
		if parts == nil {
			t.Errorf("variable %s = %q, want label_values(SERIES, LABEL)", v.Name, v.Definition)
			continue
		}
		known := checkQuery(t, exported, variables.Replace(parts[1]))
		if _, there := known[parts[2]]; !there {
			t.Errorf("variable %s: unknown label %q, got %s", v.Name, parts[2], known)
		}
	}
	for _, a := range d.Annotations.List {
		if a.Expr != "" {
			checkQuery(t, exported, variables.Replace(a.Expr))
		}
	}
}
