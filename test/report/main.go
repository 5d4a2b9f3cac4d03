// Command report reads the output of one run of "go test -json" from standard input, or of several
// runs from named pipes. It prints the result line of each package, the output of failed tests,
// and finally a summary of failed and skipped tests.
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

// event is one line of output of "go test -json"; see "go doc test2json". If Action is "note",
// Output describes an additional skipped item.
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
}

// results collects the events of all runs.
type results struct {
	out io.Writer
	// running maps package and test to the output of every running test.
	running map[[2]string][]string
	// tails maps packages to their own output, which ends with the result line.
	tails   map[string][]string
	reasons []string
	skipped []string
	// counts maps actions to the number of tests, including subtests.
	counts map[string]int
	failed bool
}

// report writes the relevant output of several runs to out, and reports whether there was a
// failure.
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

// read sends each line of a run to lines.
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

// endPackage prints the result line of a package. If the package failed, it also prints the output
// of tests that did not end, for example because of a panic.
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

// print prints a test's output without the "===" lines.
func (r *results) print(output []string) {
	for _, line := range output {
		if !strings.HasPrefix(line, "=== ") {
			r.say(line)
		}
	}
}

func (r *results) say(text string) { fmt.Fprint(r.out, text) }

// finish prints the summary.
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
	fmt.Fprintf(r.out, "%d tests passed, %d failed, %d skipped\n", r.counts["pass"], r.counts["fail"], r.counts["skip"])
	if r.failed {
		fmt.Fprintln(r.out, "FAIL")
	}
}

// message matches a line that a test has logged itself.
var message = regexp.MustCompile(`^ *\w+_test\.go:\d+: `)

// assertions returns the first messages that a failed test has logged itself, without other
// output.
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

// reason returns the message of a skipped test.
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
