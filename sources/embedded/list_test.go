package embedded

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hpad/hpad/settings/httpclient"
	"github.com/hpad/hpad/sources"
)

// replace replaces a file atomically.
func replace(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func readAll(t testing.TB, l *lists) (urls, problems []string) {
	t.Helper()
	endpoints, errs := l.read(t.Context())
	for _, e := range endpoints {
		urls = append(urls, strings.TrimPrefix(e.url, "http://"))
	}
	for _, err := range errs {
		problems = append(problems, err.Error())
	}
	return urls, problems
}

// TestFileSD checks that changes of files take effect, and that the last valid version of an invalid or
// missing file remains in use.
func TestFileSD(t *testing.T) {
	dir := t.TempDir()
	single, pattern := filepath.Join(dir, "single.json"), filepath.Join(dir, "*.yml")
	l := &lists{scrape: &Scrape{FileSD: []string{single, pattern}, Job: "j", Scheme: "http", Path: "/m"}}
	yml := func(name string) string { return filepath.Join(dir, name+".yml") }
	for _, step := range []struct {
		name     string
		change   func()
		want     []string
		problems []string
	}{
		{
			"no files", func() {}, nil,
			[]string{fmt.Sprintf("file_sd %q matches no file", pattern), fmt.Sprintf("file_sd %q: stat %s: no such file or directory", single, single)},
		},
		{"JSON and YAML", func() {
			replace(t, single, `[{"targets": ["a:1", "b:1"], "labels": {"zone": "x"}}, {"targets": []}]`)
			replace(t, yml("y"), "- targets: [c:1]\n  labels: { zone: 1 }\n")
		}, []string{"a:1/m", "b:1/m", "c:1/m"}, nil},
		{"changed file", func() { replace(t, yml("y"), "- targets: [c:1, 'd:1']\n") }, []string{"a:1/m", "b:1/m", "c:1/m", "d:1/m"}, nil},
		{
			"invalid file", func() { replace(t, single, `[{"targets": ["a:1", "b:1"`); replace(t, yml("z"), "- targets: [e:1]\n") },
			[]string{"a:1/m", "b:1/m", "c:1/m", "d:1/m", "e:1/m"},
			[]string{fmt.Sprintf("file_sd %q: yaml: line 1: did not find expected ',' or ']'", single)},
		},
		{"file of a pattern removed", func() { _ = os.Remove(yml("y")) }, []string{"a:1/m", "b:1/m", "e:1/m"}, []string{fmt.Sprintf("file_sd %q: yaml: line 1: did not find expected ',' or ']'", single)}},
		{"truncated file", func() { replace(t, single, "") }, []string{"a:1/m", "b:1/m", "e:1/m"}, []string{fmt.Sprintf("file_sd %q: contains no list; a list without endpoints is []", single)}},
		{
			"all files removed", func() { _, _ = os.Remove(single), os.Remove(yml("z")) },
			[]string{"a:1/m", "b:1/m", "e:1/m"},
			[]string{fmt.Sprintf("file_sd %q matches no file", pattern), fmt.Sprintf("file_sd %q: stat %s: no such file or directory", single, single), fmt.Sprintf("file_sd %q: stat %s: no such file or directory", yml("z"), yml("z"))},
		},
		{"empty list", func() { replace(t, single, "[]"); replace(t, yml("z"), "- targets: [f:1]\n") }, []string{"f:1/m"}, nil},
		{
			"pipe", func() {
				_ = os.Remove(single)
				if err := syscall.Mkfifo(single, 0o600); err != nil {
					t.Fatal(err)
				}
			},
			[]string{"f:1/m"},
			[]string{fmt.Sprintf("file_sd %q: is not a regular file", single)},
		},
		{
			"too many endpoints", func() {
				_ = os.Remove(single)
				replace(t, single, "- targets: ["+strings.Repeat("x:1,", maxListed)+"]\n")
			},
			[]string{"f:1/m"},
			[]string{fmt.Sprintf("the lists contain more than %d endpoints: the last valid lists remain in use", maxListed)},
		},
		{"too many targets", func() { replace(t, single, "- targets: ["+strings.Repeat("xx:1,", maxListed+1)+"]\n") }, []string{"f:1/m"}, []string{fmt.Sprintf("file_sd %q: contains more than %d targets", single, maxListed)}},
		{"too large", func() { replace(t, single, "[]"+strings.Repeat(" ", maxList)) }, []string{"f:1/m"}, []string{fmt.Sprintf("file_sd %q: content is longer than 8 MiB", single)}},
		{"valid again", func() { replace(t, single, "- targets: [g:1]") }, []string{"g:1/m", "f:1/m"}, nil},
	} {
		step.change()
		got, problems := readAll(t, l)
		if again, problemsAgain := readAll(t, l); !slices.Equal(again, got) || !slices.Equal(problemsAgain, problems) {
			t.Errorf("%s: endpoints of unchanged files = %q, problems %q", step.name, again, problemsAgain)
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("%s: endpoints (-want +got):\n%s", step.name, diff)
		}
		if diff := cmp.Diff(step.problems, problems); diff != "" {
			t.Errorf("%s: problems (-want +got):\n%s", step.name, diff)
		}
	}
}

// TestListedEndpoint checks the labels with a special meaning, and the rejected targets and labels.
func TestListedEndpoint(t *testing.T) {
	s := &Scrape{Job: "j", Scheme: "http", Path: "/m?a=b", Labels: map[string]string{"team": "shop"}}
	for _, test := range []struct{ list, want string }{
		{`[{targets: ["h:1"], labels: {zone: x, empty: "", __meta_x: y, team: other}}]`, `http://h:1/m?a=b {instance="h:1", job="j", team="shop", zone="x"}`},
		{
			`[{targets: [h], labels: {job: k, instance: i, __scheme__: https, __metrics_path__: /p, __param_module: "a b"}}]`,
			`https://h/p?module=a+b {instance="i", job="k", team="shop"}`,
		},
		{`[{targets: ["[::1]:9"], labels: {__param_c: d}}]`, `http://[::1]:9/m?a=b&c=d {instance="[::1]:9", job="j", team="shop"}`},
		{`[{targets: ["http://h:1"]}]`, `target "http://h:1": must be host:port, such as "127.0.0.1:9100"`},
		{`[{targets: ["h:99999"]}]`, `target "h:99999": must be host:port, such as "127.0.0.1:9100"; the port must be a number from 1 to 65535`},
		{`[{targets: ["h:1"], labels: {service.name: x}}]`, `http://h:1/m?a=b {instance="h:1", job="j", "service.name"="x", team="shop"}`},
		{`[{targets: ["h:1"], labels: {"": x}}]`, `target "h:1": label "" is invalid: the name must not be empty, and the name and the value must be UTF-8`},
		{`[{targets: ["h:1"], labels: {__scheme__: ftp}}]`, `target "h:1": __scheme__ must be http or https, not "ftp"`},
		{`[{targets: ["h:1"], labels: {__metrics_path__: x}}]`, `target "h:1": __metrics_path__ must be a path such as "/metrics", not "x"`},
		{`{targets: ["h:1"]}`, "invalid list: line 1: cannot unmarshal !!map into []embedded.group"},
		{`[{target: ["h:1"]}]`, "invalid list: line 1: field target not found in type embedded.group"},
		{`null`, "contains no list; a list without endpoints is []"},
		{"a: &a [x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\n", "invalid list: line 1: cannot unmarshal !!map into []embedded.group"},
	} {
		got := ""
		endpoints, err := parseList([]byte(test.list), s)
		if err != nil {
			got = err.Error()
		} else if len(endpoints) == 1 {
			got = endpoints[0].key
		}
		if got != test.want {
			t.Errorf("%s:\n got %s\nwant %s", test.list, got, test.want)
		}
	}
}

// TestHTTPSD checks requests for a list, and that the last valid list remains in use.
func TestHTTPSD(t *testing.T) {
	status, contentType, body := http.StatusOK, "application/json; charset=utf-8", `[{"targets":["a:1"]}]`
	server := newExporter(t, "")
	server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "hpad" || password != "Password-1" || r.URL.RawQuery != "key=x" ||
			r.Header.Get("X-Prometheus-Refresh-Interval-Seconds") != "60" || r.Header.Get("User-Agent") != "hpad" {
			t.Errorf("request %s of %s with %v", r.URL, user, r.Header)
		}
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	})
	password := filepath.Join(t.TempDir(), "password")
	replace(t, password, "Password-1")
	s := &Scrape{Job: "j", Scheme: "http", Path: "/m", HTTPSD: &HTTPSD{
		URL: server.URL + "/list?key=x", RefreshInterval: time.Minute,
		Access: httpclient.Access{BasicAuth: &httpclient.BasicAuth{Username: "hpad", PasswordFile: password}},
	}}
	made, err := newClients("local", s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(made.closeIdle)
	l := &lists{scrape: s, client: made.server}
	want := []string{"a:1/m"}
	for _, step := range []struct {
		status            int
		contentType, body string
		want              string
	}{
		{200, contentType, body, ""},
		{500, "text/plain", "starting", `endpoint returned 500 Internal Server Error: "starting"`},
		{200, "text/html", "<html>", `the content type is "text/html", not application/json`},
		{200, contentType, "[{", "yaml: line 1: "},
		{200, contentType, "", "contains no list; a list without endpoints is []"},
		{200, contentType, strings.Repeat(" ", maxList) + "[]", "content is longer than 8 MiB"},
		{200, contentType, body, ""},
	} {
		status, contentType, body = step.status, step.contentType, step.body
		got, problems := readAll(t, l)
		prefix := fmt.Sprintf("http_sd %q: ", server.URL+"/list")
		if !slices.Equal(got, want) || (step.want == "") != (len(problems) == 0) || step.want != "" && !strings.HasPrefix(problems[0], prefix+step.want) {
			t.Errorf("endpoints with status %d and %.20q = %q, problems %q", step.status, step.body, got, problems)
		}
	}
	server.Close()
	if got, problems := readAll(t, l); !slices.Equal(got, want) || !strings.Contains(problems[0], "connection refused") {
		t.Errorf("endpoints of a stopped server = %q, problems %q", got, problems)
	}
}

// TestReloadedLists checks that a source scrapes new endpoints, ends the series of removed ones, and
// reports the problems of lists.
func TestReloadedLists(t *testing.T) {
	a, b := newExporter(t, "load 1\n"), newExporter(t, "load 2\n")
	file := filepath.Join(t.TempDir(), "targets.json")
	write := func(addresses ...string) {
		text, err := json.Marshal([]map[string]any{{"targets": addresses, "labels": map[string]string{"zone": "x"}}})
		if err != nil {
			t.Fatal(err)
		}
		replace(t, file, string(text))
	}
	write(a.address())
	cfg := &Config{Scrape: []Scrape{{FileSD: []string{file}, Interval: minInterval}}}
	cfg.SetDefaults()
	source := started(t, cfg, sources.Env{})
	eventually(t, source, "load", fmt.Sprintf(`{__name__="load",instance="%s",job="file_sd",zone="x"} 1`, a.address()))
	write(a.address(), b.address())
	eventually(t, source, "sum(load)", "{} 3")
	replace(t, file, "[")
	poll(t, func() bool { return len(source.Problems()) == 1 }, func() string { return "no problem with the list" })
	if got, want := source.Problems()[0], fmt.Sprintf(`job "file_sd": file_sd %q: yaml: line 1: did not find expected node content`, file); got != want {
		t.Errorf("Problems() = %q, want %q", got, want)
	}
	eventually(t, source, "sum(load)", "{} 3")
	write(b.address())
	eventually(t, source, "sum(load)", "{} 2")
	eventually(t, source, "count(up)", "{} 1")
}
