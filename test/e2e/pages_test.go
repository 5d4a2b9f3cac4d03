package e2e

import (
	"flag"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/hpad/hpad/test/internal/guide"
	"github.com/hpad/hpad/test/internal/program"
)

var update = flag.Bool("update", false, "write the image of README.md")

func TestStart(t *testing.T) {
	t.Parallel()
	output := guide.Run(t, &guide.Page{
		Path: "../../docs/start-process.md", Replace: guide.Own(t),
		Environment: []string{"PATH=" + filepath.Dir(program.Binary(t)) + ":" + os.Getenv("PATH")},
	})
	guide.WantScaling(t, output["hpad history worker"])
}

// TestReadme runs the examples in README.md in a copy of the sources and compares
// docs/img/explain.svg with the output of "hpad explain". With -update, it writes the picture.
func TestReadme(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	copied, err := exec.Command("cp", "-r", "../../Makefile", "../../go.mod", "../../go.sum", "../../cmd", "../../daemon",
		"../../guard", "../../policy", "../../schedule", "../../settings", "../../simulate", "../../sources", "../../targets", "../../configs", "../../docs", dir).CombinedOutput()
	if err != nil {
		t.Fatalf("copy the sources: %v: %s", err, copied)
	}
	output := guide.Run(t, &guide.Page{
		Path: "../../README.md", Dir: dir, Replace: guide.Own(t),
		Skip: map[string]string{
			"go run ./cmd/hpad demo   # scales a real worker pool up and down within two minutes, and explains each change": "cmd/hpad runs the demo; make test runs this",
			"make packages ARCHITECTURES=amd64 FORMATS=deb   # into dist/, in one to three minutes":                         "test/packages builds and installs them",
			"[sources.prom]": "it continues the example and needs a Prometheus server",
		},
	})
	guide.WantScaling(t, output["bin/hpad history worker"])
	explained := output["bin/hpad explain worker"]
	const picture = "../../docs/img/explain.svg"
	if *update {
		if err := os.WriteFile(picture, []byte(draw("hpad explain worker", explained)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	drawn, err := os.ReadFile(picture)
	if err != nil {
		t.Fatal(err)
	}
	// Compare only lines that are equal in every run. The line about the next step is missing
	// directly after a write.
	var shown []string
	for _, match := range regexp.MustCompile(`<tspan[^>]*>(.*)</tspan>`).FindAllStringSubmatch(string(drawn), -1) {
		if line := html.UnescapeString(match[1]); heading.MatchString(line) && !strings.HasSuffix(line, ". Next") || strings.Contains(line, "External queue") {
			shown = append(shown, line)
		}
	}
	if missing := guide.Missing(shown, explained); len(missing) > 0 || len(shown) < 8 {
		t.Errorf("the image contains %d lines of explain, and lines that explain does not print: %q; update it with -update", len(shown), missing)
	}
}

// heading matches the lines that "hpad explain" prints in bold.
var heading = regexp.MustCompile(`^(\d\. .*|Autoscaler: .*|Target: .*)$`)

// draw renders a command and its output as an SVG image of a terminal.
func draw(command, printed string) string {
	lines := append([]string{"$ " + command}, strings.Split(strings.TrimSpace(printed), "\n")...)
	width := 0
	var text strings.Builder
	for n, line := range lines {
		width = max(width, utf8.RuneCountInString(line))
		class := ""
		if n == 0 || heading.MatchString(line) {
			class = ` class="b"`
		}
		fmt.Fprintf(&text, "<tspan x=\"12\" y=\"%d\"%s>%s</tspan>\n", 22+n*16, class, html.EscapeString(line))
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="monospace" font-size="13">
<style>.b { fill: #7ee787; font-weight: bold }</style>
<rect width="100%%" height="100%%" rx="8" fill="#0d1117"/>
<text fill="#e6edf3" xml:space="preserve">
%s</text>
</svg>
`, width*8+24, len(lines)*16+20, text.String())
}
