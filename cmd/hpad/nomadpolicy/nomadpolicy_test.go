package nomadpolicy_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	diff "github.com/google/go-cmp/cmp"
	"gotest.tools/v3/golden"

	"github.com/hpad/hpad/cmd/hpad/nomadpolicy"
	"github.com/hpad/hpad/cmd/hpad/origin"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/nomad"
	"github.com/hpad/hpad/targets/nomad/scaling"
)

var choices = origin.Choices{Fleet: "prod", Kind: "nomad"}

func read(t *testing.T, file string) []origin.Policy {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	if !(nomadpolicy.Origin{}).Recognizes(text) {
		t.Errorf("%s is not recognized", file)
	}
	policies, _, err := nomadpolicy.Origin{}.Read(file, text)
	if err != nil {
		t.Fatal(err)
	}
	return policies
}

// TestConvert compares converted jobs and policy files with golden files.
func TestConvert(t *testing.T) {
	for _, file := range []string{"job.hcl", "policies.hcl", "job.json"} {
		var page strings.Builder
		for _, a := range origin.Convert(read(t, file), choices) {
			page.WriteString(a.TOML() + "\n")
		}
		golden.Assert(t, page.String(), "golden/"+file+".toml")
	}
}

// TestReadCluster checks that the policies of a cluster give the same autoscalers as the job files.
func TestReadCluster(t *testing.T) {
	responses, stubs := map[string]any{}, []map[string]any{}
	want := map[string]string{}
	for _, file := range []string{"job.hcl", "job.json"} {
		policies := read(t, file)
		for i, a := range origin.Convert(policies, choices) {
			text, err := json.Marshal(policies[i])
			var p scaling.Policy
			if err = errors.Join(err, json.Unmarshal(text, &p)); err != nil {
				t.Fatal(err)
			}
			namespace := cmp.Or(p.Namespace, "default")
			target := map[string]string{"Namespace": namespace, "Job": p.Job, "Group": p.Group}
			stubs = append(stubs, map[string]any{"ID": a.Name, "Type": "horizontal", "Target": target})
			responses["/v1/scaling/policy/"+a.Name] = map[string]any{"Type": "horizontal", "Min": p.Min, "Max": p.Max, "Enabled": p.Enabled, "Policy": p.Body}
			_, want[a.Name], _ = strings.Cut(a.TOML(), "\n")
		}
	}
	responses["/v1/scaling/policies"] = stubs
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewEncoder(w).Encode(responses[r.URL.Path])
	}))
	t.Cleanup(server.Close)
	c := &nomad.Config{Address: server.URL}
	c.SetDefaults()
	policies, errs := nomadpolicy.ReadCluster(t.Context(), c)
	got := map[string]string{}
	for _, a := range origin.Convert(policies, choices) {
		place, rest, _ := strings.Cut(a.TOML(), "\n")
		if place != "# From the scaling policy in "+server.URL+"." {
			t.Errorf("%s has the note %q", a.Name, place)
		}
		got[a.Name] = rest
	}
	if diff := diff.Diff(want, got); len(want) < 3 || len(errs) > 0 || diff != "" {
		t.Errorf("errors %v, difference of the cluster from %d policies in files:\n%s", errs, len(want), diff)
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if policies, errs := nomadpolicy.ReadCluster(ctx, c); len(policies) > 0 || len(errs) != 1 || !errors.Is(errs[0], context.Canceled) {
		t.Errorf("after the end of the context, got %d policies, errors %v", len(policies), errs)
	}
}

const fleets = "[fleets.prod]\nkind = \"nomad\"\n[sources.prometheus]\nkind = \"prometheus\"\nurl = \"http://127.0.0.1:9090\"\n"

// TestValid checks that a policy without open decisions is valid in hpad, and that the labels of the
// same policy define the same autoscaler.
func TestValid(t *testing.T) {
	compared := 0
	for _, file := range []string{"job.hcl", "job.json"} {
		policies := read(t, file)
		for i, a := range origin.Convert(policies, choices) {
			c, err := config.Parse("x.toml", []byte(fleets+a.TOML()))
			converted := policies[i].(interface{ Convert() scaling.Autoscaler }).Convert()
			if open := converted.Open(); len(open) > 0 {
				if err == nil {
					t.Errorf("%s is valid with the open decisions %v", a.Name, open)
				}
				continue
			}
			if err != nil {
				t.Errorf("%v in\n%s", err, a.TOML())
				continue
			}
			labels := map[string]string{}
			for key, value := range converted.Labels() {
				labels[targets.LabelPrefix+key] = value
			}
			live, enabled, err := c.Labeled(targets.Ref{Fleet: "prod", Name: "default/web/api"}, labels)
			if err != nil || !enabled {
				t.Errorf("labels of %s: enabled %v, %v", a.Name, enabled, err)
				continue
			}
			file := c.Autoscalers[a.Name]
			if diff := diff.Diff(file.Spec, live.Spec); diff != "" || file.SyncPeriod != live.SyncPeriod {
				t.Errorf("%s: the labels differ from the file:\n%s", a.Name, diff)
			}
			if diff := diff.Diff(file.Inputs, live.Inputs); diff != "" {
				t.Errorf("%s: the inputs of the labels differ from the file:\n%s", a.Name, diff)
			}
			compared++
		}
	}
	if compared < 2 {
		t.Errorf("compared %d policies, want at least 2", compared)
	}
}

func TestErrors(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"job \"web\" {\n  group \"api\" {\n    scaling {\n      max = \n", "f:4: not valid HCL: Invalid expression"},
		{"job \"web\" {\n  group \"api\" {}\n}\n", "f: contains no scaling block with a policy"},
		{"policy {\n  cooldown = \"2m\"\n}\n", `f:1: the block "policy" is neither a job nor a scaling policy`},
		{"{\n \"Job\": {\"ID\": \"web\",\n \"TaskGroups\": 3}}", "f:1: not valid JSON of Nomad's API"},
		{"{\n \"Job\": {\n", "f:3: not valid JSON of Nomad's API"},
		{"scaling \"x\" " + strings.Repeat("{ a ", 300), "f: has more than 200 nested blocks"},
	} {
		policies, _, err := nomadpolicy.Origin{}.Read("f", []byte(test.text))
		if len(policies) > 0 || err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s: got %d policies, error %v, want %s", test.text, len(policies), err, test.want)
		}
	}
}

// FuzzRead checks that Read does not panic, that errors have a position, and that each policy can be
// converted.
func FuzzRead(f *testing.F) {
	for _, file := range []string{"job.hcl", "policies.hcl", "job.json"} {
		text, err := os.ReadFile(filepath.Join("testdata", file))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		policies, _, err := nomadpolicy.Origin{}.Read("f", text)
		if err != nil && !strings.HasPrefix(err.Error(), "f:") {
			t.Errorf("error %q has no position", err)
		}
		for _, a := range origin.Convert(policies, choices) {
			_, err := config.Parse("f.toml", []byte(fleets+a.TOML()))
			if invalid, ok := errors.AsType[config.Errors](err); err != nil && (!ok || strings.Contains(invalid.Error(), "not valid TOML")) {
				t.Errorf("%v of\n%s", err, a.TOML())
			}
		}
	})
}

// TestBody checks that the generic form of HCL equals the form of Nomad's API.
func TestBody(t *testing.T) {
	hcl := read(t, "job.hcl")[0].(interface {
		Target() (string, map[string]string)
	})
	if label, keys := hcl.Target(); label != "" || len(keys) > 0 {
		t.Errorf("target %q with %v, want none", label, keys)
	}
	text, err := json.Marshal(read(t, "policies.hcl")[0])
	if want := `"strategy":[{"target-value":[{"max_scale_down":1,"max_scale_up":4,"target":"80","threshold":0.05}]}]`; err != nil || !strings.Contains(string(text), want) {
		t.Errorf("%s, %v; want %s", text, err, want)
	}
}
