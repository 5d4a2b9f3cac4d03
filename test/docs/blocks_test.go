package docs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// block is an example on a page.
type block struct {
	page, language, text string
	line                 int
	// heading precedes the example.
	heading string
	// before contains the earlier examples of the page in the same language.
	before string
}

// first returns the first line, which identifies an example in the tables below.
func (b *block) first() string {
	line, _, _ := strings.Cut(b.text, "\n")
	return strings.TrimSpace(line)
}

// checks maps languages to their checks.
var checks = map[string]func(*testing.T, *block) error{
	"console": checkConsole,
	"hcl":     checkPermissions,
	"ini":     checkListed,
	"json":    checkJSON,
	"promql":  checkPromQL,
	"sh":      checkShell,
	"text":    checkListed,
	"toml":    checkConfig,
	"yaml":    checkCompose,
}

// listed maps the first lines of examples that this package cannot check to the places where they
// are tested.
var listed = map[string]string{
	"apt install ./dist/hpad_1.2.3-1_amd64.deb      # starts hpad, with a configuration that scales nothing":                    "test/packages installs packages",
	"install -m 0755 hpad /usr/bin/ && install -D -m 0644 hpad.toml /etc/hpad/hpad.toml && install -d -m 0755 /etc/hpad/conf.d": "test/packages, from the archive",
	"docker load --input dist/hpad-1.2.3-linux-amd64.image.tar":                                                                 "test/packages runs the image",
	"DOCKER_GID=$(stat -c %g /var/run/docker.sock) docker compose up -d":                                                        "needs Docker Compose and an image",
	"install -d -m 700 /var/lib/hpad":                                                    "TestStateRemoved of test/e2e checks the files",
	"hpad state export --no-history --file /backup/hpad.jsonl":                           "TestPage of cmd/hpad exports",
	"systemctl stop hpad":                                                                "TestFilesBelongToTheOwner of daemon/state imports as root",
	"runuser -u hpad -- hpad check --live":                                               "needs the user that a package creates",
	"hpad completion bash > /etc/bash_completion.d/hpad":                                 "test/packages runs each script in its shell",
	"gcloud iam roles create hpad --project=shop-prod-123 --title=hpad --permissions=\\": "needs a project; checkPermissions compares the permissions",
	"kubectl get hpa -A -o yaml | hpad convert - > hpa.toml   # edit the lines marked DECIDE, then copy the file to conf.d": "needs a cluster; convert.txtar of cmd/hpad",
	"test/install/conformance.sh": "make test runs the script and the tests",
	"go test ./test/conformance -v -run TestConformance -args -file FILE -lines":                                  "needs a scenario that differs",
	"kubectl get scaledobject -A -o yaml | hpad convert - > keda.toml":                                            "needs a cluster; convert.txtar of cmd/hpad",
	"hpad convert --fleet prod > nomad.toml                              # the jobs of a running cluster":         "TestNamespaces of test/nomad",
	"hpad convert policies/ --fleet prod --source prom --output-dir /etc/hpad/conf.d":                             "TestCorpus of cmd/hpad",
	"make scale                                                   # all rows, some 90 minutes":                    "takes about 70 minutes",
	"make test                                                                             # fetches the engines": "takes half an hour",
	"# /etc/systemd/system/worker@.service":                                                                       "test/systemd uses other units",
	"# /etc/containers/systemd/worker@.container":                                                                 "TestQuadlet in test/systemd uses an image of its own",
	"hpad fleet-test --target web --bounds 0-6 /etc/hpad/fleets/lxc.py":                                           "test/adapters runs fleet-test",
	"$ hpad fleet-test --target web --bounds 0-6 /etc/hpad/fleets/lxc.py":                                         "test/adapters runs fleet-test",
	"$ hpad demo": "output of one run; TestIntroduction of cmd/hpad/demo compares its first lines",
	"Instances:              3 ready, 1 pending":                                        "describe.txtar of cmd/hpad",
	"2026-03-01T12:00:00.584Z\tINFO\tstarted\t{\"autoscalers\": 1, \"dry_run\": false}": "output of one run; test/e2e checks the same lines",
	"# /etc/nginx/conf.d/web.conf":                                                      "test/proxy runs nginx",
	"# /etc/haproxy/haproxy.cfg":                                                        "test/proxy runs HAProxy",
	"# /etc/haproxy/haproxy.cfg with all servers of the pool":                           "test/proxy runs HAProxy",
	"#!/bin/sh": "test/proxy and test/adapters run the scripts",
	`EXTRAOPTS="-f /var/cache/hpad/haproxy-web.cfg"`: "takes Debian's unit of HAProxy",
	`- targets: ["10.0.0.7:9100", "10.0.0.8:9100"]`:  "TestDiscovery of test/embedded reads the format",
	"scrape_configs:": "TestEndpoints of daemon/api has the format",
	"# /etc/systemd/system/hpad.service.d/endpoints.conf": "takes the unit of a package",
	"// /etc/polkit-1/rules.d/60-hpad-reload.rules":       "takes polkit",
}

// TestBlocks checks every example on the pages. Examples that it cannot check must be in listed.
func TestBlocks(t *testing.T) {
	used := map[string]bool{}
	for _, page := range handwritten(t) {
		for _, b := range blocksOf(t, page) {
			check := checks[b.language]
			if check == nil {
				t.Errorf("%s:%d: no check for examples in %q", page, b.line, b.language)
				continue
			}
			used[b.first()] = true
			if err := check(t, b); err != nil {
				t.Errorf("%s:%d: %v", page, b.line, err)
			}
		}
	}
	for first := range listed {
		if !used[first] {
			t.Errorf("no page has the listed example %q", first)
		}
	}
}

// handwritten returns the pages, except generated pages and pages that other tests run.
func handwritten(t *testing.T) (pages []string) {
	t.Helper()
	all, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range all {
		if name := filepath.Base(page); name != "config-keys.md" && name != "recipes.md" && !strings.HasPrefix(name, "start-") {
			pages = append(pages, page)
		}
	}
	return pages
}

func blocksOf(t *testing.T, page string) (found []*block) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var open *block
	indent, head, before := "", "", map[string]string{}
	for n, line := range strings.Split(string(text), "\n") {
		trimmed := strings.TrimLeft(line, " ")
		language, fence := strings.CutPrefix(trimmed, "```")
		switch {
		case fence && open == nil:
			indent = line[:len(line)-len(trimmed)]
			open = &block{page: filepath.Base(page), language: language, line: n + 1, heading: head, before: before[language]}
		case fence:
			found = append(found, open)
			before[open.language] += open.text
			open = nil
		case open != nil:
			open.text += strings.TrimPrefix(line, indent) + "\n"
		case strings.HasPrefix(line, "#"):
			head = strings.TrimLeft(line, "# ")
		}
	}
	if open != nil {
		t.Errorf("%s:%d: unterminated example", page, open.line)
	}
	return found
}

func checkListed(_ *testing.T, b *block) error {
	if listed[b.first()] != "" {
		return nil
	}
	return fmt.Errorf("the example %q is neither checked nor listed", b.first())
}

// checkConsole permits console examples only in cli.md and simulate.md. TestPage and TestSimulatePage
// in cmd/hpad run them.
func checkConsole(_ *testing.T, b *block) error {
	if b.page != "cli.md" && b.page != "simulate.md" || !strings.HasPrefix(b.text, "$ ") {
		return errors.New("console examples are only allowed in cli.md and simulate.md")
	}
	return nil
}

// prelude defines the source that examples refer to.
const prelude = `[sources.prom]
kind = "prometheus"
url  = "http://127.0.0.1:9090"
`

// checkConfig checks that an example is a valid configuration, alone or together with the
// examples before it.
func checkConfig(t *testing.T, b *block) error {
	t.Helper()
	web := filepath.Join(t.TempDir(), "web.yml")
	if err := os.WriteFile(web, nil, 0o600); err != nil {
		return err
	}
	texts := []string{b.text, b.before + b.text}
	for _, text := range texts {
		texts = append(texts, prelude+text)
	}
	var first error
	for _, text := range texts {
		c, err := config.Parse(b.page, []byte(strings.ReplaceAll(text, "/etc/hpad/web.yml", web)))
		if err == nil {
			for _, a := range c.Autoscalers {
				for _, warning := range a.Warnings {
					// The request is often in another example, and dates in examples become old.
					if !warning.Unworkable && !strings.Contains(warning.Detail, "is in the past") {
						return warning
					}
				}
			}
			return nil
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// checkCompose checks that the labels of services define autoscalers.
func checkCompose(t *testing.T, b *block) error {
	t.Helper()
	var file struct {
		Services map[string]struct {
			Labels map[string]string
			Deploy struct{ Labels map[string]string }
		}
	}
	if err := yaml.Unmarshal([]byte(b.text), &file); err != nil {
		return err
	}
	for name, service := range file.Services {
		for _, labels := range []map[string]string{service.Labels, service.Deploy.Labels} {
			if err := checkLabels(t, name, labels); err != nil {
				return err
			}
		}
	}
	if len(file.Services) == 0 {
		return errors.New("no service in the example")
	}
	return nil
}

// checkLabels checks that labels, if there are any, define a valid autoscaler.
func checkLabels(t *testing.T, name string, labels map[string]string) error {
	t.Helper()
	if len(labels) == 0 {
		return nil
	}
	c, err := config.Parse("labels", []byte(prelude+"[fleets.prod]\nkind = \"compose\"\ndiscover = true\n"))
	if err != nil {
		t.Fatal(err)
	}
	if _, enabled, err := c.Labeled(targets.Ref{Fleet: "prod", Name: "shop/" + name}, labels); err != nil || !enabled {
		return fmt.Errorf("the labels of %s: enabled %t, %w", name, enabled, err)
	}
	return nil
}

// permissions maps pages to patterns for the permissions in their examples, and to the sources that
// must contain them.
var permissions = map[string]struct{ words, sources string }{
	"aws.md":   {`(?:autoscaling|ec2):[A-Z]\w+`, "../../targets/awsasg/*.go"},
	"azure.md": {`Microsoft\.[\w./]+`, "../../targets/azurevmss/*.go"},
	"gce.md":   {`compute\.[\w.]+\w`, "../../targets/gcemig/*.go"},
	"ha.md":    {`"(?:list|read|write|destroy)"`, "../../test/nomadha/*.go"},
	"nomad.md": {`(?:list|read|scale)-jobs?`, "../../targets/nomad/*.go"},
}

// unchecked lists permissions that the sources do not contain, because the platform checks them
// itself or because they affect only error details.
var unchecked = []string{
	"compute.zoneOperations.get", "compute.regionOperations.get",
	"Microsoft.Network/virtualNetworks/subnets/join/action", "autoscaling:ResourceTag", `"list"`,
}

// checkPermissions compares the permissions in an example with the sources, and checks its
// metadata with the label parser.
func checkPermissions(t *testing.T, b *block) error {
	t.Helper()
	labels := map[string]string{}
	for _, pair := range regexp.MustCompile(`"(hpad\.[\w.]+)"\s*=\s*"((?:\\"|[^"])*)"`).FindAllStringSubmatch(b.text, -1) {
		labels[pair[1]] = strings.ReplaceAll(pair[2], `\"`, `"`)
	}
	if err := checkLabels(t, "meta", labels); err != nil {
		return err
	}
	permission := permissions[b.page]
	files, err := filepath.Glob(permission.sources)
	if err != nil || len(files) == 0 {
		return fmt.Errorf("sources of %s: %d, %w", b.page, len(files), err)
	}
	var code bytes.Buffer
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		code.Write(text)
	}
	for _, word := range regexp.MustCompile(permission.words).FindAllString(b.text, -1) {
		if !bytes.Contains(code.Bytes(), []byte(word)) && !slices.Contains(unchecked, word) {
			return fmt.Errorf("%s does not contain %s", permission.sources, word)
		}
	}
	return nil
}

// responses maps headings in docs/api.md to the types of API responses.
var responses = map[string]any{
	"The envelope": &struct {
		Status, ErrorType, Error string
		Data                     struct{}
	}{},
	"An autoscaler": &data[[]api.Autoscaler]{},
	"A decision":    &policy.Decision{},

	"Service discovery": &[]api.EndpointGroup{},
}

type data[T any] struct {
	Status string
	Data   T
}

// checkJSON checks that an example in api.md is an API response without unknown fields. Examples on
// other pages must be valid JSON, and may contain permissions of a cloud.
func checkJSON(t *testing.T, b *block) error {
	t.Helper()
	if permissions[b.page].words != "" {
		if !json.Valid([]byte(b.text)) {
			return errors.New("the example is not valid JSON")
		}
		return checkPermissions(t, b)
	}
	if b.page == "notifications.md" {
		if !json.Valid([]byte(b.text)) { // test/notify checks the fields
			return errors.New("the example is not valid JSON")
		}
		return nil
	}
	if b.page == "fleets-http.md" { // TestAdapterExamples of daemon/api checks the fields
		return nil
	}
	into := responses[b.heading]
	if b.page != "api.md" || into == nil {
		return fmt.Errorf("no type for the JSON below %q", b.heading)
	}
	decoder := json.NewDecoder(strings.NewReader(b.text))
	decoder.DisallowUnknownFields()
	for {
		if err := decoder.Decode(into); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// checkPromQL checks queries that are separated by empty lines. They must be valid and use only
// metrics in docs/metrics.md.
func checkPromQL(t *testing.T, b *block) error {
	t.Helper()
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	for query := range strings.SplitSeq(strings.TrimSpace(b.text), "\n\n") {
		expr, err := parser.NewParser(parser.Options{}).ParseExpr(query)
		if err != nil {
			return fmt.Errorf("%s: %w", query, err)
		}
		parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
			if selector, ok := node.(*parser.VectorSelector); ok && !bytes.Contains(page, []byte("\n| `"+selector.Name+"` |")) {
				t.Errorf("docs/metrics.md has no metric %s", selector.Name)
			}
			return nil
		})
	}
	return nil
}

// checkShell runs examples that have no dependencies. Other examples must be in listed.
func checkShell(t *testing.T, b *block) error {
	t.Helper()
	switch {
	case strings.HasPrefix(b.text, "openssl "):
		return runOpenSSL(t, b)
	case strings.HasPrefix(b.text, "curl "):
		return checkCurl(b)
	case permissions[b.page].words != "":
		if err := checkPermissions(t, b); err != nil {
			return err
		}
	}
	return checkListed(t, b)
}

// runOpenSSL creates the certificates and verifies them.
func runOpenSSL(t *testing.T, b *block) error {
	t.Helper()
	run := exec.Command("sh", "-euc", b.text+"openssl verify -CAfile ca.crt -purpose sslserver web.crt\nopenssl verify -CAfile ca.crt -purpose sslclient alice.crt")
	run.Dir = t.TempDir()
	if out, err := run.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// checkCurl checks that each path exists in the API.
func checkCurl(b *block) error {
	description, err := os.ReadFile("../../daemon/api/openapi.yaml")
	if err != nil {
		return err
	}
	for line := range strings.Lines(b.text) {
		path := regexp.MustCompile(`http://[^/]+(/\S*)`).FindStringSubmatch(line)
		if path == nil || !bytes.Contains(description, []byte("\n  "+path[1]+":\n")) {
			return fmt.Errorf("the API has no path of %s", line)
		}
	}
	return nil
}

// TestLines checks that lines have at most 120 characters, except in tables and examples.
func TestLines(t *testing.T) {
	all, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(all) == 0 {
		t.Fatalf("glob: %q, %v", all, err)
	}
	for _, page := range append(all, "../../README.md", "../../CONTRIBUTING.md", "../../CHANGELOG.md", "../../SECURITY.md") {
		if filepath.Base(page) == "config-keys.md" {
			continue
		}
		for line := range strings.Lines(read(t, page)) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 120 && !strings.HasPrefix(strings.TrimLeft(line, " "), "|") {
				t.Errorf("%s has a line of %d characters: %s", page, n, line)
			}
		}
	}
}
