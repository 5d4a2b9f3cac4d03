// Package guide reads sections of documentation pages, runs all examples of a page in order, and
// compares their output with the output shown on the page.
package guide

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hpad/hpad/test/internal/ports"
	"github.com/hpad/hpad/test/wait"
)

// Page is a documentation page with the environment of its commands.
type Page struct {
	// Path leads to the page. Dir is the working directory of its commands; empty means a temporary
	// directory.
	Path, Dir string
	// Environment is added to the environment of the test process.
	Environment []string
	// Replace maps texts on the page to their replacements. Each text must occur on the page.
	Replace map[string]string
	// Skip maps the first lines of examples that are not run to the reasons.
	Skip map[string]string
}

const (
	// limit is the timeout for all commands of a page.
	limit = 8 * time.Minute
	// repeatLimit is the time for which a command runs again until its output is complete.
	repeatLimit  = 3 * time.Minute
	pollInterval = 20 * time.Millisecond
)

// repeatable matches commands that only read, and whose output changes with the fleet.
var repeatable = regexp.MustCompile(`^hpad (describe|explain|get|history|instances|next) ?`)

// mark is the prefix of the line that separates the outputs of two commands.
const mark = "--- guide "

// step is a command with the output lines that the page shows for it.
type step struct {
	command string
	shown   []string
}

// Run runs the page and returns the output of each command. It fails the test if a command fails,
// or if a line shown on the page is missing in the output. The output of some commands changes as the
// fleet does: they run again for up to three minutes until it has all lines.
func Run(t *testing.T, p *Page) map[string]string {
	t.Helper()
	text, err := os.ReadFile(p.Path)
	if err != nil {
		t.Fatal(err)
	}
	files, steps := read(t, p, string(text))
	if p.Dir == "" {
		p.Dir = t.TempDir()
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(p.Dir, name), []byte(p.replaced(content)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	said := map[string]string{}
	s := startShell(t, p)
	for _, step := range steps {
		var printed string
		var missing []string
		wait.Until(repeatLimit, func() (string, bool) {
			printed = s.run(p.replaced(step.command))
			missing = Missing(step.shown, printed)
			return "", len(missing) == 0 || !repeatable.MatchString(step.command)
		})
		said[strings.TrimSpace(step.command)] = printed
		if len(missing) > 0 {
			t.Errorf("%s: the output of %s lacks\n%s\ngot\n%s", p.Path, step.command, strings.Join(missing, "\n"), printed)
		}
	}
	s.end()
	return said
}

// replaced returns text with the replacements of p.Replace.
func (p *Page) replaced(text string) string {
	pairs := make([]string, 0, 2*len(p.Replace))
	for old, with := range p.Replace {
		pairs = append(pairs, old, with)
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// shell is a bash that runs the commands of a page one after the other.
type shell struct {
	t      *testing.T
	page   *Page
	script io.WriteCloser
	// log is the file with the output of all commands; the first read bytes belong to earlier ones.
	log   string
	read  int
	steps int
	// ended is closed when bash has exited with err.
	ended chan struct{}
	err   error
}

// startShell starts bash. When the test ends, it kills bash and the background processes of the
// commands.
func startShell(t *testing.T, p *Page) *shell {
	t.Helper()
	s := &shell{t: t, page: p, log: filepath.Join(t.TempDir(), "output"), ended: make(chan struct{})}
	log, err := os.Create(s.log)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	script, pipe, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = script.Close() }()
	s.script = pipe
	// Standard input stays empty, because a command could read the script from it.
	command := exec.Command("bash", "/dev/fd/3")
	command.Dir, command.Env = p.Dir, append(os.Environ(), p.Environment...)
	command.Stdout, command.Stderr, command.ExtraFiles = log, log, []*os.File{script}
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	kill := func() { _ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	timer := time.AfterFunc(limit, kill)
	go func() {
		s.err = command.Wait()
		close(s.ended)
	}()
	t.Cleanup(func() {
		timer.Stop()
		kill()
		<-s.ended
		_ = pipe.Close()
	})
	s.write("exec 3<&-\nset -e -o pipefail\n")
	return s
}

func (s *shell) write(text string) {
	s.t.Helper()
	if _, err := io.WriteString(s.script, text); err != nil && !errors.Is(err, syscall.EPIPE) { // bash has exited
		s.t.Fatal(err)
	}
}

// run runs a command and returns its output. The test fails if bash exits.
func (s *shell) run(command string) string {
	s.t.Helper()
	s.steps++
	end := fmt.Sprintf("\n%s%d\n", mark, s.steps)
	s.write(fmt.Sprintf("%s\nprintf '\\n%s%d\\n'\n", command, mark, s.steps))
	var printed string
	for done := false; !done; {
		select {
		case <-s.ended:
			s.fail()
		case <-time.After(pollInterval):
		}
		text, err := os.ReadFile(s.log)
		if err != nil {
			s.t.Fatal(err)
		}
		if printed, _, done = strings.Cut(string(text[s.read:]), end); done {
			s.read += len(printed) + len(end)
		}
	}
	return printed
}

// end ends bash and its background processes.
func (s *shell) end() {
	s.t.Helper()
	_ = s.script.Close()
	<-s.ended
	if s.err != nil {
		s.fail()
	}
}

func (s *shell) fail() {
	s.t.Helper()
	said, _ := os.ReadFile(s.log)
	daemon, _ := os.ReadFile(filepath.Join(s.page.Dir, "hpad.log"))
	s.t.Fatalf("%s: %v\n%s\nhpad.log:\n%s", s.page.Path, s.err, said, daemon)
}

var (
	example = regexp.MustCompile("(?ms)(?:^([^\n]*)\n\n)?^```(\\w+)\n(.*?)^```$")
	saved   = regexp.MustCompile("as `([^`]+)`:$")
)

// read returns the files that the page tells the reader to save, and the page's commands.
func read(t *testing.T, p *Page, text string) (files map[string]string, steps []step) {
	t.Helper()
	for old := range p.Replace {
		if !strings.Contains(text, old) {
			t.Errorf("%s lacks %q, which has a replacement", p.Path, old)
		}
	}
	files = map[string]string{}
	skipped := 0
	for _, match := range example.FindAllStringSubmatch(text, -1) {
		before, language, content := match[1], match[2], match[3]
		first, _, _ := strings.Cut(content, "\n")
		name := saved.FindStringSubmatch(before)
		switch {
		case p.Skip[first] != "":
			skipped++
		case name != nil:
			files[name[1]] = content
		case language == "sh":
			steps = append(steps, step{command: content})
		case language == "console":
			steps = append(steps, console(content)...)
		default:
			t.Errorf("%s: unknown kind of example: %q", p.Path, first)
		}
	}
	if len(steps) == 0 || skipped != len(p.Skip) {
		t.Errorf("%s: got %d commands and %d of %d skipped examples", p.Path, len(steps), skipped, len(p.Skip))
	}
	return files, steps
}

// console returns the commands, which begin with "$ ", with the output shown after each of them.
func console(text string) (steps []step) {
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if command, is := strings.CutPrefix(line, "$ "); is {
			steps = append(steps, step{command: command})
			continue
		}
		last := &steps[len(steps)-1]
		last.shown = append(last.shown, line)
	}
	return steps
}

// Section returns the text of a page below a heading of level 2, up to the next such heading. It
// fails the test if the page does not contain the heading.
func Section(t testing.TB, path, heading string) string {
	t.Helper()
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(page), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("%s has no section %q", path, heading)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	return text
}

// Block is an example on a page.
type Block struct {
	// Language is the word after the opening fence.
	Language, Text string
}

// Blocks returns the examples in a section of a page.
func Blocks(t testing.TB, path, heading string) (blocks []Block) {
	t.Helper()
	for _, match := range regexp.MustCompile("(?s)```(\\w+)\n(.*?)```").FindAllStringSubmatch(Section(t, path, heading), -1) {
		blocks = append(blocks, Block{match[1], match[2]})
	}
	return blocks
}

// Missing returns the lines of a sample that do not occur in the output. It ignores numbers, times,
// column widths and the part of a history line about earlier evaluations. It skips the line "..."
// of a sample.
func Missing(sample []string, printed string) (missing []string) {
	var have []string
	for line := range strings.Lines(printed) {
		have = append(have, shape(line))
	}
	for _, line := range sample {
		if line != "..." && !slices.Contains(have, shape(line)) {
			missing = append(missing, line)
		}
	}
	return missing
}

var (
	instant = regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d|\d\d:\d\d:\d\d`)
	number  = regexp.MustCompile(`\d+(\.\d+)?`)
	earlier = regexp.MustCompile(` (From [-:\d ]+ until then causes|The cause began) .*`)
	elapsed = regexp.MustCompile(`(N[smhd])+`)
)

func shape(line string) string {
	line = earlier.ReplaceAllString(line, "")
	line = number.ReplaceAllString(instant.ReplaceAllString(line, "T"), "N")
	return strings.Join(strings.Fields(elapsed.ReplaceAllString(line, "D")), " ")
}

// WantScaling fails the test unless a history contains a scale-up and a scale-down.
func WantScaling(t *testing.T, history string) {
	t.Helper()
	if !strings.Contains(history, "Scaled up from") || !strings.Contains(history, "Scaled down from") {
		t.Errorf("want a scale-up and a scale-down:\n%s", history)
	}
}

// Own returns a map for Page.Replace with a directory and an address that only this test uses, so
// that tests can run in parallel.
func Own(t *testing.T) map[string]string {
	t.Helper()
	// The paths of sockets must be short.
	dir, err := os.MkdirTemp("", "hpad-try")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return map[string]string{"/tmp/hpad-try": dir, "127.0.0.1:4721": ports.Free(t)}
}
