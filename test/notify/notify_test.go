// Package notify tests notifications to a real Alertmanager.
package notify

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hpad/hpad/test/internal/child"
	"github.com/hpad/hpad/test/internal/installed"
	"github.com/hpad/hpad/test/internal/program"
	"github.com/hpad/hpad/test/wait"
)

func TestMain(m *testing.M) { program.Exit(m.Run()) }

const patience = 90 * time.Second

// alertmanager starts Alertmanager and returns its address.
func alertmanager(t *testing.T) string {
	t.Helper()
	binary, err := exec.LookPath("alertmanager")
	if err != nil {
		binary = installed.Path(t, filepath.Join("bin", "alertmanager"), "test/install/alertmanager.sh")
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "alertmanager.yml")
	if err := os.WriteFile(config, []byte("route: { receiver: nobody }\nreceivers: [{ name: nobody }]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close()
	command := exec.Command(binary, "--config.file="+config, "--storage.path="+filepath.Join(dir, "data"), "--web.listen-address="+address, "--cluster.listen-address=")
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	command.Stdout, command.Stderr = log, log
	process, err := child.Start(command)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = process.Stop(syscall.SIGTERM, 20*time.Second) })
	wait.For(t, patience, "Alertmanager", func() (string, bool) {
		status, body := get(t, "http://"+address+"/-/ready")
		return body, status == http.StatusOK
	})
	return address
}

func get(t *testing.T, url string) (status int, body string) {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// alerts returns the summaries of the active alerts by subject.
func alerts(t *testing.T, address string) map[string]string {
	t.Helper()
	_, body := get(t, "http://"+address+"/api/v2/alerts?active=true")
	var found []struct {
		Labels, Annotations map[string]string
	}
	if err := json.Unmarshal([]byte(body), &found); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	fire := map[string]string{}
	for _, alert := range found {
		fire[alert.Labels["subject"]] = alert.Annotations["summary"]
	}
	return fire
}

func example(t *testing.T, name string) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/notifications.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?s)```toml\n(\\[notifications\\." + name + "\\]\n.*?)```").FindSubmatch(page)
	if found == nil {
		t.Fatalf("docs/notifications.md has no example %s", name)
	}
	return string(found[1])
}

// TestNotifications runs the examples in docs/notifications.md. A failing source must raise an
// alert, which is cleared later. The chat and the CloudEvents receiver must get their events. A
// receiver that hangs must not delay evaluation.
func TestNotifications(t *testing.T) {
	address := alertmanager(t)
	var mu sync.Mutex
	var chat, events []string
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		switch r.URL.Path {
		case "/secret":
			chat = append(chat, string(body))
		case "/hpad":
			events = append(events, r.Header.Get("Content-Type")+" "+r.Header.Get("Authorization")+" "+string(body))
		}
	}))
	defer receiver.Close()
	hanging := make(chan struct{})
	hangs := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hanging }))
	defer hangs.Close()
	defer close(hanging)
	var works atomic.Bool
	works.Store(true)
	var load atomic.Int64
	load.Store(2)
	source := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !works.Load() {
			http.Error(w, "out of order", http.StatusBadGateway)
			return
		}
		_, _ = fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[%s,"%d"]}]}}`, r.FormValue("time"), load.Load())
	}))
	defer source.Close()

	dir := t.TempDir()
	secret := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	oncall := strings.NewReplacer(
		"https://events.example.com/hpad", receiver.URL+"/hpad", "/etc/hpad/oncall-token", secret("token", "hunter2"),
		`events = ["refused", "failed", "recovered"]`, "", `reasons = ["BreakerOpen", "Paused", "FailedUpdateScale"]`, "").Replace(example(t, "oncall"))
	slack := strings.Replace(example(t, "slack"), "/etc/hpad/slack-url", secret("url", receiver.URL+"/secret"), 1)
	alerting := strings.Replace(example(t, "alertmanager"), "127.0.0.1:9093", address, 1)
	p := program.New(t, fmt.Sprintf(`
[fleets.local]
kind = "process"
services = { web = { command = ["sleep", "1000"] } }
[sources.prom]
kind = "prometheus"
url = %q
[autoscalers.web]
target = { fleet = "local", service = "web" }
min_replicas = 1
max_replicas = 5
metrics = [{ type = "External", name = "queue", source = "prom", query = "queue", average_value = "1" }]
[notifications.hangs]
url = %q
%s%s%s`, source.URL, hangs.URL, oncall, slack, alerting))

	p.Await("web", "AbleToScale", "ReadyForNewScale", "")
	works.Store(false)
	wait.For(t, patience, "alert", func() (string, bool) {
		fire := alerts(t, address)
		return fmt.Sprint(fire), strings.Contains(fire["source/prom"], "502 Bad Gateway")
	})
	works.Store(true)
	wait.For(t, patience, "end of the alert", func() (string, bool) {
		fire := alerts(t, address)
		return fmt.Sprint(fire), len(fire) == 0
	})
	p.Passes("web", 3) // while one receiver hangs
	load.Store(50)
	wait.For(t, patience, "events", func() (string, bool) {
		mu.Lock()
		defer mu.Unlock()
		received := strings.Join(events, "\n")
		return received + strings.Join(chat, "\n"), strings.Contains(received, `"type":"io.hpad.changed","subject":"autoscaler/web"`) &&
			strings.Contains(received, `"type":"io.hpad.recovered","subject":"source/prom"`) &&
			strings.Contains(received, `"type":"io.hpad.refused","subject":"autoscaler/web"`) && strings.Contains(received, `"from":5,"to":50,"reason":"TooManyReplicas","message":"wants 50, max 5"`) &&
			strings.Contains(strings.Join(chat, "\n"), `{"text": "*source/prom* recovered: source has recovered"}`)
	})
	mu.Lock()
	defer mu.Unlock()
	for _, event := range events {
		if !strings.HasPrefix(event, "application/cloudevents+json Bearer hunter2 {") {
			t.Errorf("got event %s, want a CloudEvent with the token", event)
		}
	}
	// A loaded host may delay a few evaluations. A hanging receiver would delay every evaluation.
	if late := p.View("web").Evaluation.Late; late > 10 {
		t.Errorf("got %d late passes, want at most 10", late)
	}
	if sent, waiting := p.Metric("hpad_notifications_sent_total", `receiver="slack"`), p.Metric("hpad_notifications_waiting", `receiver="hangs"`); sent < 2 || waiting < 1 {
		t.Errorf("got %v sent and %v waiting for the hanging receiver", sent, waiting)
	}
	if strings.Contains(p.Said(), "hunter2") || strings.Contains(p.Said(), "/secret") {
		t.Errorf("the log contains a secret:\n%s", p.Said())
	}
}
