package nomad

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hpad/hpad/targets/nomad/scaling"
)

// policyServer serves the responses of Nomad's API for scaling policies by their paths, and requires the token
// of the environment. A response that begins with a digit is a status.
func policyServer(t *testing.T, responses map[string]string) string {
	t.Helper()
	t.Setenv("NOMAD_TOKEN", "secret-token")
	end := make(chan struct{})
	t.Cleanup(func() { close(end) })
	return newHandler(t, func(w http.ResponseWriter, r *http.Request) {
		response, ok := responses[r.URL.Path+" in "+r.URL.Query().Get("namespace")]
		switch {
		case r.Header.Get("X-Nomad-Token") != "secret-token":
			http.Error(w, "ACL token not found", http.StatusForbidden)
		case !ok:
			http.Error(w, "unexpected path "+r.URL.Path, http.StatusNotFound)
		case response == "hang":
			select {
			case <-r.Context().Done():
			case <-end:
			}
		case strings.HasPrefix(response, "4") || strings.HasPrefix(response, "5"):
			status := 0
			_, _ = fmt.Sscan(response, &status)
			http.Error(w, "Permission denied", status)
		default:
			_, _ = io.WriteString(w, response)
		}
	})
}

func readPolicies(t *testing.T, address string) ([]scaling.Policy, []error) {
	t.Helper()
	c := testConfig(t, address)
	c.Timeout = time.Second
	a, err := NewAgent(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a.ScalingPolicies(t.Context())
}

// stubOf returns a policy in a list whose ID consists of the job and the group.
func stubOf(namespace, job, group string) string {
	return fmt.Sprintf(`{"ID":"%s-%s","Enabled":true,"Type":"horizontal","Target":{"Namespace":%q,"Job":%q,"Group":%q}}`, job, group, namespace, job, group)
}

// TestScalingPolicies checks that policies of several namespaces are read, and that a policy that cannot be
// read does not affect the others.
func TestScalingPolicies(t *testing.T) {
	const body = `{"Type":"horizontal","Min":1,"Max":9,"Enabled":%t,"Policy":{"cooldown":"2m","check":[{"cpu":[{"source":"nomad-apm","query":"avg_cpu","strategy":[{"target-value":[{"target":70}]}]}]}]}}`
	policies, errs := readPolicies(t, policyServer(t, map[string]string{
		"/v1/scaling/policies in *": "[" + strings.Join([]string{
			stubOf("shop", "web", "b"), stubOf("shop", "web", "a"), stubOf("default", "web", "a/b"), stubOf("default", "bounds", "a"),
			stubOf("default", "purged", "a"), stubOf("default", "denied", "a"), stubOf("default", "slow", "a"), stubOf("default", "broken", "a"),
			stubOf("default", "failing", "a"),
			`{"ID":"sized","Type":"vertical_cpu","Target":{"Namespace":"default","Job":"sized","Group":"a","Task":"main"}}`,
		}, ",") + "]",
		"/v1/scaling/policy/web-b in shop":        fmt.Sprintf(body, false),
		"/v1/scaling/policy/web-a in shop":        fmt.Sprintf(body, true),
		"/v1/scaling/policy/web-a/b in default":   strings.Replace(fmt.Sprintf(body, true), `"Enabled":true,`, "", 1),
		"/v1/scaling/policy/bounds-a in default":  `{"Type":"horizontal","Min":1,"Max":9,"Enabled":true,"Policy":null}`,
		"/v1/scaling/policy/purged-a in default":  "404",
		"/v1/scaling/policy/denied-a in default":  "403",
		"/v1/scaling/policy/slow-a in default":    "hang",
		"/v1/scaling/policy/broken-a in default":  `{"Max":"many"}`,
		"/v1/scaling/policy/failing-a in default": "500",
		"/v1/scaling/policy/sized in default":     strings.Replace(fmt.Sprintf(body, true), "horizontal", "vertical_cpu", 1),
	}))
	var found []string
	for i := range policies {
		p := &policies[i]
		converted := p.Convert()
		found = append(found, fmt.Sprintf("%s %s/%s/%s %t %d-%d %d open", p.Type, p.Namespace, p.Job, p.Group, p.Enabled, converted.Min, converted.Max, len(converted.Open())))
		if converted.Metrics[0].AverageValue != "0.7" {
			t.Errorf("%s has %+v, want a target of 0.7 cores", p.Job, converted.Metrics)
		}
	}
	if diff := cmp.Diff([]string{
		"vertical_cpu default/sized/a true 1-9 1 open",
		"horizontal default/web/a/b true 1-9 0 open",
		"horizontal shop/web/a true 1-9 0 open",
		"horizontal shop/web/b false 1-9 0 open",
	}, found); diff != "" {
		t.Error(diff)
	}
	for i, words := range []string{
		`read the scaling policy of group "a" of job "broken" in namespace "default": `,
		`read the scaling policy of group "a" of job "denied" in namespace "default": forbidden: nomad returned 403: Permission denied; the token needs the capabilities list-jobs and read-job`,
		`"failing" in namespace "default": `,
		`"slow" in namespace "default": temporary failure: no response within the fleet's timeout of 1s`,
	} {
		if i >= len(errs) || !strings.Contains(errs[i].Error(), words) {
			t.Errorf("errors are %v, want %q", errs, words)
		}
	}
	if len(errs) != 4 {
		t.Errorf("errors are %v, want 4", errs)
	}
}

// TestNoScalingPolicies checks the errors if no policy can be read.
func TestNoScalingPolicies(t *testing.T) {
	for response, want := range map[string]string{
		"403":  "list the scaling policies: forbidden: nomad returned 403: Permission denied; the token needs the capabilities list-jobs and read-job",
		"429":  "list the scaling policies: throttled",
		"hang": "no response within the fleet's timeout of 1s",
		"[]":   "no scaling policy in a namespace that the token may read; the token needs",
		"null": "no scaling policy in a namespace",
		"{}":   "list the scaling policies: ",
		"[" + stubOf("default", "web", "a") + "]": "no scaling policy in a namespace",
	} {
		policies, errs := readPolicies(t, policyServer(t, map[string]string{
			"/v1/scaling/policies in *":           response,
			"/v1/scaling/policy/web-a in default": `{"Max":9}`,
		}))
		if len(policies) > 0 || len(errs) != 1 || !strings.Contains(errs[0].Error(), want) {
			t.Errorf("%s: got %v, %v, want %q", response, policies, errs, want)
		}
	}
}
