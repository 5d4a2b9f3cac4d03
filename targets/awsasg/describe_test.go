package awsasg

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/test/aws/awstest"
)

// TestPages: AWS may return fewer groups than a call asks for, and the rest on
// further pages.
func TestPages(t *testing.T) {
	c := awstest.New(t)
	c.Page(2)
	var refs []targets.Ref
	for n := range 5 {
		name := fmt.Sprintf("group-%d", n)
		c.Add(awstest.Group{Name: name, Max: 10, Desired: n})
		refs = append(refs, ref(name))
	}
	f := openFleet(t, testConfig(t, c), targets.Env{})
	readings, err := f.Snapshot(t.Context(), refs)
	if err != nil {
		t.Fatal(err)
	}
	for n, ref := range refs {
		if r := readings[ref]; r.Err != nil || r.SpecReplicas != int32(n) || len(r.Instances) != n {
			t.Errorf("%s: %d replicas, %v, want %d", ref, r.SpecReplicas, r.Err, n)
		}
	}
	if n := c.Calls()["DescribeAutoScalingGroups"]; n != 3 {
		t.Errorf("%d calls for three pages", n)
	}
}

// TestNames: a name that AWS does not take, or a target of another fleet, keeps
// nobody else from being read, nor is it written to.
func TestNames(t *testing.T) {
	c, f := open(t, 2, nil)
	odd := []targets.Ref{ref(""), ref(strings.Repeat("x", 256)), {Fleet: "other", Name: "web"}}
	readings, err := f.Snapshot(t.Context(), append(odd, ref("web")))
	if err != nil || readings[ref("web")].Err != nil || readings[ref("web")].SpecReplicas != 2 {
		t.Fatalf("Snapshot() = %v, %v, want the group that there is", readings, err)
	}
	for _, one := range odd {
		if got := readings[one].Err; !errors.Is(got, targets.ErrTargetNotFound) {
			t.Errorf("%s: Err = %v, want ErrTargetNotFound", one, got)
		}
		if err := f.SetReplicas(t.Context(), one, 3, "", ""); !errors.Is(err, targets.ErrTargetNotFound) {
			t.Errorf("SetReplicas(%s) = %v, want ErrTargetNotFound", one, err)
		}
	}
	if calls := c.Calls()["DescribeAutoScalingGroups"]; calls != 1 || c.Writes() != 0 {
		t.Errorf("%d calls and %d writes, want one that reads", calls, c.Writes())
	}
	if known := f.Known(); len(known) != 1 {
		t.Errorf("hpad check would ask about %q", known)
	}
}

// TestNoSizes: a description that lacks a size, or has one that cannot be, is no
// reading of anything, and nothing is written by it.
func TestNoSizes(t *testing.T) {
	for _, size := range []string{"DesiredCapacity", "MinSize", "MaxSize"} {
		for _, value := range []string{"", "-1"} {
			if value != "" && size != "DesiredCapacity" {
				continue
			}
			t.Run(size+value, func(t *testing.T) {
				element := regexp.MustCompile("<" + size + ">[0-9]+</" + size + ">")
				instead := ""
				if value != "" {
					instead = "<" + size + ">" + value + "</" + size + ">"
				}
				c, f := altered(t, func(answer string) string { return element.ReplaceAllString(answer, instead) })
				if _, err := f.Snapshot(t.Context(), []targets.Ref{ref("web")}); !errors.Is(err, targets.ErrTransient) || !strings.Contains(err.Error(), `no sizes for group "web"`) {
					t.Errorf("Snapshot() = %v, want that the sizes are missing", err)
				}
				if err := f.SetReplicas(t.Context(), ref("web"), 3, "", ""); !errors.Is(err, targets.ErrTransient) || c.Writes() != 0 {
					t.Errorf("SetReplicas() = %v after %d writes, want ErrTransient and none", err, c.Writes())
				}
			})
		}
	}
}

// altered returns an imitated cloud with a group "web", and a fleet that gets its
// responses altered.
func altered(t *testing.T, alter func(answer string) string) (*awstest.Cloud, *Fleet) {
	t.Helper()
	c := awstest.New(t)
	c.Add(awstest.Group{Name: "web", Min: 1, Max: 10, Desired: 2})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := httptest.NewRecorder()
		c.ServeHTTP(answer, r)
		w.Header().Set("Content-Type", answer.Header().Get("Content-Type"))
		w.WriteHeader(answer.Code)
		_, _ = w.Write([]byte(alter(answer.Body.String())))
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	config := testConfig(t, c)
	config.Endpoints.AutoScaling = server.URL
	return c, openFleet(t, config, targets.Env{})
}
