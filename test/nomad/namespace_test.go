package nomad

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	nomadapi "github.com/hashicorp/nomad/api"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/nomad"
	"github.com/hpad/hpad/test/internal/program"
	"github.com/hpad/hpad/test/internal/world"
	"github.com/hpad/hpad/test/nomad/nomadtest"
	"github.com/hpad/hpad/test/wait"
)

// TestNamespaces checks that jobs of the same name in three namespaces are separate targets. If a
// capability is missing in one namespace, hpad must report it for the jobs in that namespace only.
func TestNamespaces(t *testing.T) {
	t.Parallel()
	agent := nomadtest.Start(t, nomadtest.Options{ACL: true})
	l := world.NewLoad(t)
	in := map[string]*nomadtest.Agent{"default": agent}
	for _, namespace := range []string{"shop", "mail"} {
		if _, err := agent.Client.Namespaces().Register(&nomadapi.Namespace{Name: namespace}, nil); err != nil {
			t.Fatal(err)
		}
		in[namespace] = agent.In(t, namespace)
	}
	var text strings.Builder
	for namespace, agent := range in {
		l.Queue("in-"+namespace, 30)
		agent.Run(t, nomadtest.Job{ID: "web", Count: 1, Alter: func(job *nomadapi.Job) {
			job.Namespace, job.TaskGroups[0].Scaling = &namespace, queuePolicy()
		}})
		agent.AwaitRunning(t, "web", 1, patience)
		text.WriteString(world.Queued("in-"+namespace, fmt.Sprintf(`{ fleet = "prod", job = "web", group = "app", namespace = %q }`, namespace), 1, 5))
	}
	in["mail"].Run(t, nomadtest.Job{ID: "labeled", Count: 1, Alter: func(job *nomadapi.Job) {
		job.Namespace = new("mail")
		job.TaskGroups[0].Meta = map[string]string{"hpad.enable": "true", "hpad.max": "3"}
	}})

	rules, _, _ := strings.Cut(minimal, "node {")
	shop := strings.Replace(rules, `namespace "default"`, `namespace "shop"`, 1)
	mail := strings.Replace(rules, `namespace "default"`, `namespace "mail"`, 1)
	file := filepath.Join(t.TempDir(), "token")
	write := func(name, rules string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(token(t, agent, name, rules).SecretID+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("some", minimal+strings.Replace(shop, `, "scale-job"`, "", 1))
	w := world.New(t, fleet(agent.URL, fmt.Sprintf("discover = true\ndiscover_namespaces = [\"*\"]\ntoken_file = %q", file))+l.Source()+text.String())
	in["default"].AwaitRunning(t, "web", 3, patience)
	w.Await("in-shop", policy.AbleToScale, "FailedUpdateScale", "the token needs the capability scale-job")
	w.Await("in-mail", policy.AbleToScale, "FailedGetScale", `namespace "mail"`)
	w.Await("in-mail", policy.AbleToScale, "FailedGetScale", "the token needs the capabilities list-jobs and read-job")
	for namespace, agent := range map[string]*nomadtest.Agent{"shop": in["shop"], "mail": in["mail"]} {
		if count := agent.Count(t, "web"); count != 1 {
			t.Errorf("count = %d in %s, which the token cannot scale, want 1", count, namespace)
		}
	}
	if found := w.Discovered(); len(found) != 0 {
		t.Errorf("discovered in unreadable namespaces = %+v, want none", found)
	}
	converts(t, agent, file, "web-app", "shop-web-app")
	c := &nomad.Config{Address: agent.URL, TokenFile: file, Timeout: patience}
	c.SetDefaults()
	f, err := nomad.New("prod", c, targets.Env{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if _, err := f.Snapshot(t.Context(), []targets.Ref{{Fleet: "prod", Name: "web/app"}, {Fleet: "prod", Name: "shop/web/app"}, {Fleet: "prod", Name: "mail/web/app"}}); err != nil {
		t.Fatal(err)
	}
	report, err := f.Check(t.Context())
	for _, words := range []string{`lacks scale-job in namespace "shop", for "web"`, `lacks list-jobs, read-job, scale-job in namespace "mail", for "web"`} {
		if err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("Check() = %q, %v, want %q", report, err, words)
		}
	}

	write("all", minimal+shop+mail)
	converts(t, agent, file, "web-app", "mail-web-app", "shop-web-app")
	for _, namespace := range []string{"shop", "mail"} {
		in[namespace].AwaitRunning(t, "web", 3, patience)
	}
	wait.For(t, patience, "autoscaler of the group with meta", func() (string, bool) {
		_, exists := w.Autoscaler("prod/mail/labeled/app")
		return fmt.Sprintf("discovered %+v", w.Discovered()), exists
	})
	if report, err := f.Check(t.Context()); err != nil {
		t.Errorf("Check() with all capabilities = %q, %v", report, err)
	}
}

// queuePolicy returns a scaling block with a policy of nomad-autoscaler.
func queuePolicy() *nomadapi.ScalingPolicy {
	one := func(label string, content map[string]any) []any { return []any{map[string]any{label: []any{content}}} }
	return &nomadapi.ScalingPolicy{Min: new(int64(1)), Max: new(int64(5)), Enabled: new(true), Policy: map[string]any{
		"check": one("queue", map[string]any{"source": "prom", "query": "queue", "strategy": one("pass-through", map[string]any{})}),
	}}
}

// converts checks that "hpad convert" converts the policies in the namespaces that the token of a file may read,
// and that it reports a wrong token.
func converts(t *testing.T, agent *nomadtest.Agent, token string, names ...string) {
	t.Helper()
	config := filepath.Join(t.TempDir(), "hpad.toml")
	if err := os.WriteFile(config, []byte(fleet(agent.URL, fmt.Sprintf("token_file = %q", token))), 0o600); err != nil {
		t.Fatal(err)
	}
	convert := func(arguments ...string) (string, error) {
		command := exec.Command(program.Binary(t), append([]string{"convert", "--config", config}, arguments...)...)
		command.Env = append(os.Environ(), "NOMAD_TOKEN=9f6b6d2c-0000-0000-0000-000000000000")
		text, err := command.CombinedOutput()
		return string(text), err
	}
	text, err := convert("--fleet", "prod")
	var found []string
	for _, header := range regexp.MustCompile(`(?m)^\[autoscalers\.([a-z-]+)\]$`).FindAllStringSubmatch(text, -1) {
		found = append(found, header[1])
	}
	slices.Sort(found)
	slices.Sort(names)
	if err != nil || !slices.Equal(found, names) || strings.Contains(text, "DECIDE") {
		t.Errorf("hpad convert --fleet prod: %v, autoscalers %q, want %q, in\n%s", err, found, names, text)
	}
	if text, err := convert(agent.URL); err == nil || !strings.Contains(text, "nomad returned 403: Permission denied") {
		t.Errorf("hpad convert with a wrong token: %v\n%s", err, text)
	}
}
