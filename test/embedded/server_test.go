package embedded

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/api"
	apiv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/util/compression"

	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/test/internal/installed"
	"github.com/hpad/hpad/test/internal/ports"
)

// server is a running Prometheus.
type server struct {
	url string
	api apiv1.API
}

// built returns the server of the embedded source's own version, which
// test/install/promserver.sh builds.
func built(t *testing.T) string {
	t.Helper()
	module, err := os.ReadFile("promserver/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`github.com/prometheus/prometheus (v\S+)`).FindSubmatch(module)
	if version == nil {
		t.Fatal("promserver/go.mod does not require github.com/prometheus/prometheus")
	}
	cache := os.Getenv("HPAD_TEST_CACHE")
	if cache == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			t.Fatal(err)
		}
		cache = filepath.Join(home, ".cache", "hpad-test")
	}
	path := filepath.Join(cache, "prometheus-"+string(version[1]), "prometheus")
	if _, err := os.Stat(path); err != nil {
		installed.Absent(t, "no Prometheus of the embedded version: run test/install/promserver.sh")
	}
	return path
}

// packaged returns the server of the distribution.
func packaged(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("prometheus")
	if err != nil {
		installed.Absent(t, "no prometheus on the PATH: run test/install/prometheus.sh")
	}
	return path
}

// noScrape is a configuration that scrapes nothing.
const noScrape = "global: {}\n"

// startServer runs a server that also takes remote writes.
func startServer(t *testing.T, binary, configuration string) *server {
	t.Helper()
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(config, []byte(configuration), 0o600); err != nil {
		t.Fatal(err)
	}
	address := ports.Free(t)
	var output bytes.Buffer
	command := exec.Command(binary,
		"--config.file="+config,
		"--storage.tsdb.path="+filepath.Join(dir, "data"),
		// The recorded samples are old, and get older.
		"--storage.tsdb.retention.time=50y",
		"--web.listen-address="+address,
		"--web.enable-remote-write-receiver",
		"--log.level=warn")
	command.Dir = dir
	command.Stdout, command.Stderr = &output, &output
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan error, 1)
	go func() { exited <- command.Wait() }()
	t.Cleanup(func() {
		if err := command.Process.Signal(syscall.SIGTERM); err != nil {
			t.Errorf("end %s: %v", binary, err)
		}
		select {
		case <-exited:
		case <-time.After(20 * time.Second):
			t.Errorf("%s did not end within 20s of SIGTERM: killed: %v", binary, command.Process.Kill())
			<-exited
		}
	})
	url := "http://" + address
	client, err := api.NewClient(api.Config{Address: url})
	if err != nil {
		t.Fatal(err)
	}
	waitReady(t, url, exited, &output)
	return &server{url: url, api: apiv1.NewAPI(client)}
}

func waitReady(t *testing.T, url string, exited chan error, output *bytes.Buffer) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		response, err := http.Get(url + "/-/ready")
		if err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return
			}
		}
		select {
		case err := <-exited:
			exited <- err
			t.Fatalf("server ended: %v\n%s", err, output)
		case <-deadline:
			t.Fatalf("server at %s was not ready within 30s: %v", url, err)
		case <-ticker.C:
		}
	}
}

// load writes samples to the server, one request for each time.
func (s *server) load(t *testing.T, samples []sample) {
	t.Helper()
	for start := 0; start < len(samples); {
		end := start
		var request prompb.WriteRequest
		for ; end < len(samples) && samples[end].at == samples[start].at; end++ {
			request.Timeseries = append(request.Timeseries, prompb.TimeSeries{
				Labels:  remoteLabels(samples[end].series),
				Samples: []prompb.Sample{{Value: samples[end].value, Timestamp: samples[end].at}},
			})
		}
		s.write(t, &request)
		start = end
	}
}

func remoteLabels(series labels.Labels) []prompb.Label {
	var list []prompb.Label
	series.Range(func(label labels.Label) {
		list = append(list, prompb.Label{Name: label.Name, Value: label.Value})
	})
	return list
}

func (s *server) write(t *testing.T, message *prompb.WriteRequest) {
	t.Helper()
	raw, err := message.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	body, err := compression.Encode(compression.Snappy, raw, compression.NewSyncEncodeBuffer())
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/api/v1/write", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/x-protobuf")
	request.Header.Set("Content-Encoding", "snappy")
	request.Header.Set("X-Prometheus-Remote-Write-Version", "0.1.0")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode/100 != 2 {
		answer, err := io.ReadAll(response.Body)
		t.Fatalf("remote write: %s: %s (%v)", response.Status, answer, err)
	}
}

// query asks the server and returns in the form of a source.
func (s *server) query(ctx context.Context, text string, at time.Time) (sources.Vector, error) {
	result, _, err := s.api.Query(ctx, text, at)
	if err != nil {
		return sources.Vector{}, err
	}
	switch result := result.(type) {
	case *model.Scalar:
		return sources.Vector{Series: []sources.Series{{Value: float64(result.Value), At: result.Timestamp.Time()}}}, nil
	case model.Vector:
		var vector sources.Vector
		for _, element := range result {
			series := sources.Series{Value: float64(element.Value), At: element.Timestamp.Time()}
			for name, value := range element.Metric {
				series.Labels = append(series.Labels, sources.Label{Name: string(name), Value: string(value)})
			}
			vector.Series = append(vector.Series, series)
		}
		return vector, nil
	default:
		return sources.Vector{}, fmt.Errorf("answer is a %s", strings.ToLower(result.Type().String()))
	}
}
