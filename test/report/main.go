// Command report reads the events of "go test -json" from its standard input, or those of
// several runs from as many named pipes, and prints what a person wants of them: go test's
// own line for each package as it ends, the output of what failed as it happens, and last
// what failed and was skipped, and why, and how many tests were.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
)

func main() {
	runs := []io.Reader{os.Stdin}
	for i, name := range os.Args[1:] {
		run, err := os.Open(name)
		if err != nil {
			fmt.Fprintf(os.Stderr, "report: %v\n", err)
			os.Exit(1)
		}
		runs = append(runs[:i], run)
	}
	failed, err := report(os.Stdout, runs...)
	if err != nil {
		fmt.Fprintf(os.Stderr, "report: %v\n", err)
	}
	if failed || err != nil {
		os.Exit(1)
	}
}

// event is one line of "go test -json", as "go doc test2json" describes it. One with the
// Action "note" has as its Output something else that was skipped.
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
}

// results gathers the events of a run.
type results struct {
	out io.Writer
	// running has the output so far of every test under way, by package and test.
	running map[[2]string][]string
	// tails has each package's own output, which ends with its verdict.
	tails   map[string][]string
	reasons []string
	skipped []string
	// counts are how many tests, with those inside others, passed, failed or were
	// skipped, by the action.
	counts map[string]int
	failed bool
}

// report copies what matters of the events of several runs to out and says whether a test
// or a package failed.
func report(out io.Writer, runs ...io.Reader) (failed bool, err error) {
	r := results{out: out, running: map[[2]string][]string{}, tails: map[string][]string{}, counts: map[string]int{}}
	lines, errs := make(chan string), make(chan error)
	for _, run := range runs {
		go func() { errs <- read(run, lines) }()
	}
	for open := len(runs); open > 0; {
		select {
		case line := <-lines:
			var e event
			if json.Unmarshal([]byte(line), &e) != nil {
				r.say(line)
			} else {
				r.add(e)
			}
		case ended := <-errs:
			err = errors.Join(err, ended)
			open--
		}
	}
	r.finish()
	return r.failed || err != nil, err
}

// read sends all lines of a run.
func read(run io.Reader, lines chan<- string) error {
	for from := bufio.NewReader(run); ; {
		line, err := from.ReadString('\n')
		if line != "" {
			lines <- line
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read events: %w", err)
		}
	}
}

func (r *results) add(e event) {
	key := [2]string{e.Package, e.Test}
	if e.Test != "" {
		r.counts[e.Action]++
	}
	switch {
	case e.Action == "note":
		r.skipped = append(r.skipped, e.Output)
	case e.Action == "build-output":
		r.say(e.Output)
	case e.Action == "output" && e.Test == "":
		r.tails[e.Package] = append(r.tails[e.Package], e.Output)
	case e.Action == "output":
		r.running[key] = append(r.running[key], e.Output)
	case e.Test == "":
		r.endPackage(e)
	case e.Action == "fail":
		r.failed = true
		r.print(r.running[key])
		r.reasons = append(r.reasons, assertions(e, r.running[key])...)
		delete(r.running, key)
	case e.Action == "skip":
		r.skipped = append(r.skipped, fmt.Sprintf("%s %s: %s", e.Package, e.Test, reason(r.running[key])))
		delete(r.running, key)
	case e.Action == "pass":
		delete(r.running, key)
	}
}

// endPackage prints the verdict of a package, and of one that failed all that is left: a
// panic, or tests that never ended.
func (r *results) endPackage(e event) {
	switch e.Action {
	case "pass", "fail", "skip":
	default:
		return
	}
	failed := e.Action == "fail"
	for key, output := range r.running {
		if key[0] == e.Package {
			if failed {
				r.print(output)
			}
			delete(r.running, key)
		}
	}
	verdict := ""
	for _, line := range r.tails[e.Package] {
		switch {
		case strings.HasPrefix(line, "ok  \t"), strings.HasPrefix(line, "FAIL\t"), strings.HasPrefix(line, "?   \t"):
			verdict = line
		case failed && line != "FAIL\n":
			r.say(line)
		}
	}
	fmt.Fprint(r.out, verdict)
	delete(r.tails, e.Package)
	r.failed = r.failed || failed
}

// print copies a test's output without the marks that say where it starts.
func (r *results) print(output []string) {
	for _, line := range output {
		if !strings.HasPrefix(line, "=== ") {
			r.say(line)
		}
	}
}

// say prints what failed.
func (r *results) say(text string) { fmt.Fprint(r.out, text) }

// finish prints why tests failed, what was skipped, and how many tests there were.
func (r *results) finish() {
	for i, reason := range r.reasons {
		if i == 0 {
			fmt.Fprintln(r.out, "failed:")
		}
		fmt.Fprintln(r.out, "  "+reason)
	}
	for i, skipped := range r.skipped {
		if i == 0 {
			fmt.Fprintln(r.out, "skipped:")
		}
		fmt.Fprintln(r.out, "  "+skipped)
	}
	fmt.Fprintf(r.out, "%d tests passed, %d failed, %d were skipped\n", r.counts["pass"], r.counts["fail"], r.counts["skip"])
	if r.failed {
		fmt.Fprintln(r.out, "FAIL")
	}
}

// message begins what a test said itself, at a line of a file of tests.
var message = regexp.MustCompile(`^ *\w+_test\.go:\d+: `)

// assertions are the beginnings of what a failed test said itself: among what it and
// its helpers dump they are hard to find.
func assertions(e event, output []string) (said []string) {
	const most, longest = 3, 500
	for _, line := range output {
		if line = strings.TrimRight(line, "\n"); message.MatchString(line) && len(said) < most {
			line = strings.TrimSpace(line)
			said = append(said, fmt.Sprintf("%s %s: %s", e.Package, e.Test, strings.ToValidUTF8(line[:min(len(line), longest)], "")))
		}
	}
	return said
}

// reason is what a skipped test said, without the marks around it.
func reason(output []string) string {
	var said []string
	for _, line := range output {
		if !strings.HasPrefix(line, "=== ") && !strings.HasPrefix(strings.TrimSpace(line), "--- SKIP") {
			said = append(said, strings.TrimSpace(line))
		}
	}
	if len(said) == 0 {
		return "no reason given"
	}
	return strings.Join(said, " ")
}
