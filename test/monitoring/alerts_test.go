package monitoring

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/hpad/hpad/test/prometheus/promtest"
)

const configs = "../../configs/prometheus/"

// rule is an alert of alerts.yml.
type rule struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

func rules(t *testing.T) []rule {
	t.Helper()
	var file struct {
		Groups []struct {
			Name  string `json:"name"`
			Rules []rule `json:"rules"`
		} `json:"groups"`
	}
	read(t, "alerts.yml", &file)
	var all []rule
	for _, group := range file.Groups {
		all = append(all, group.Rules...)
	}
	if len(all) == 0 {
		t.Fatal("alerts.yml contains no rules")
	}
	return all
}

func read(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(configs + name)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(text, into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// TestPromtool checks scrape.yml and alerts.yml and runs the alert tests, with the installed
// promtool and with the version in go.mod.
func TestPromtool(t *testing.T) {
	for name, promtool := range promtest.Promtools(t) {
		t.Run(name, func(t *testing.T) {
			for _, arguments := range [][]string{
				{"check", "config", "scrape.yml"},
				{"check", "rules", "alerts.yml"},
				{"test", "rules", "alerts_test.yml", "alerts_days_test.yml"},
			} {
				command := exec.CommandContext(t.Context(), promtool, arguments...)
				command.Dir = configs
				if output, err := command.CombinedOutput(); err != nil {
					t.Errorf("promtool %s: %v\n%s", strings.Join(arguments, " "), err, output)
				}
			}
		})
	}
}

// TestAlertsAreExplained checks the labels and annotations of each alert, and that each alert has
// a section in docs/operations.md.
func TestAlertsAreExplained(t *testing.T) {
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range rules(t) {
		if !slices.Contains([]string{"critical", "warning", "info"}, rule.Labels["severity"]) {
			t.Errorf("%s has the unknown severity %q", rule.Alert, rule.Labels["severity"])
		}
		for _, annotation := range []string{"summary", "description"} {
			if rule.Annotations[annotation] == "" {
				t.Errorf("%s has no %s", rule.Alert, annotation)
			}
		}
		if got, want := rule.Annotations["runbook_url"], "https://github.com/hpad/hpad/blob/main/docs/operations.md#"+strings.ToLower(rule.Alert); got != want {
			t.Errorf("runbook_url of %s = %q, want %q", rule.Alert, got, want)
		}
		if !regexp.MustCompile(`(?m)^#+ ` + rule.Alert + `$`).Match(page) {
			t.Errorf("docs/operations.md contains no section %s", rule.Alert)
		}
	}
}

var labelOfAlert = regexp.MustCompile(`\$labels\.(\w+)`)

// checkAlerts compares the rules with the exported metrics.
func checkAlerts(t reporter, rules []rule, exported map[string]family) {
	t.Helper()
	for _, rule := range rules {
		known := checkQuery(t, exported, rule.Expr)
		for _, text := range rule.Annotations {
			checkMentions(t, text, labelOfAlert, known)
		}
	}
}
