package main

import (
	"io"
	"os"
	"strings"
	"testing"
)

// testdata/events.jsonl is what "go test -json" said about five packages: one
// that passes and skips, one that fails, one that does not build, one without
// tests and one that panics. A sixth was tested beside them.
func TestReport(t *testing.T) {
	events, err := os.Open("testdata/events.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = events.Close() }()

	const note = `{"Action":"note","Output":"tests that need nomad: not there"}` + "\n"
	const beside = `{"Action":"pass","Package":"example.org/beside","Test":"TestA"}
{"Action":"output","Package":"example.org/beside","Output":"ok  \texample.org/beside\t0.1s\n"}
{"Action":"pass","Package":"example.org/beside"}
`
	var out strings.Builder
	failed, err := report(&out, io.MultiReader(strings.NewReader(note), events), strings.NewReader(beside))
	if err != nil || !failed {
		t.Fatalf("report = %v, %v, want true, nil", failed, err)
	}
	const end = `failed:
  example.org/rec/bad TestFails/bad: a_test.go:5: got 1, want 2
skipped:
  tests that need nomad: not there
  example.org/rec/good TestSkips/sub: a_test.go:7: no engine found
4 tests passed, 3 failed, 1 were skipped
FAIL
`
	if !strings.HasSuffix(out.String(), end) {
		t.Errorf("report printed\n%s\nwant it to end with\n%s", &out, end)
	}
	for _, want := range []string{
		"\nFAIL	example.org/rec/broken [build failed]\n", "\nFAIL	example.org/rec/bad	0.004s\n", "\nok  	example.org/rec/good	0.002s\n", "ok  	example.org/beside	0.1s\n",
		"\n?   	example.org/rec/none	[no test files]\n", "\nFAIL	example.org/rec/panics	0.005s\n",
		"broken/a_test.go:3:12: undefined: undefined",
		"a_test.go:5: got 1, want 2",
		"--- FAIL: TestFails/bad",
		"panic: boom",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("report left out %q of\n%s", want, &out)
		}
	}
	for _, noise := range []string{"noise nobody wants", "=== RUN", "--- PASS"} {
		if strings.Contains(out.String(), noise) {
			t.Errorf("report printed %q:\n%s", noise, &out)
		}
	}
}

func TestReportOfSuccess(t *testing.T) {
	const events = `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:3: noise\n"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Output":"PASS\n"}
{"Action":"output","Package":"p","Output":"ok  \tp\t0.1s\n"}
{"Action":"pass","Package":"p"}
`
	var out strings.Builder
	failed, err := report(&out, strings.NewReader(events))
	if err != nil || failed || out.String() != "ok  \tp\t0.1s\n1 tests passed, 0 failed, 0 were skipped\n" {
		t.Errorf("report = %v, %v, printed %q, want false, nil, only the verdict and the counts", failed, err, &out)
	}
}

func TestReportOfFullMachine(t *testing.T) {
	for _, line := range []string{
		"    a_test.go:3: fork/exec /usr/bin/true: resource temporarily unavailable",
		"runtime: failed to create new OS thread (have 2 already; errno=11)",
		"test/install/nomad.sh: fork: retry: Resource temporarily unavailable",
	} {
		for name, events := range map[string]string{
			"test":    `{"Action":"output","Package":"p","Test":"TestA","Output":"` + line + `\n"}` + "\n" + `{"Action":"fail","Package":"p","Test":"TestA"}`,
			"package": `{"Action":"output","Package":"p","Output":"` + line + `\n"}` + "\n" + `{"Action":"fail","Package":"p"}`,
			"build":   `{"Action":"build-output","Output":"` + line + `\n"}`,
			"shell":   line,
		} {
			var out strings.Builder
			if _, err := report(&out, strings.NewReader(events+"\n")); err != nil || !strings.Contains(out.String(), "no room for another process") {
				t.Errorf("%s, %q: report = %v, printed %q, want it to say that there is no room", name, line, err, &out)
			}
		}
	}
	const passed = `{"Action":"output","Package":"p","Test":"TestA","Output":"fork/exec x: resource temporarily unavailable\n"}
{"Action":"pass","Package":"p","Test":"TestA"}
`
	var out strings.Builder
	if _, err := report(&out, strings.NewReader(passed)); err != nil || strings.Contains(out.String(), "no room") {
		t.Errorf("report = %v, printed %q, want nothing of what passed", err, &out)
	}
}
