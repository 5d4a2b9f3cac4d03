package docker

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/client"

	"github.com/hpad/hpad/targets"
)

// TestLogs checks the output of containers with and without a terminal.
func TestLogs(t *testing.T) {
	output := map[string]string{"plain": "one\ntwo\n", "short": "1", "streams": "\x01\x00\x00\x00\x00\x00\x00\x04one\n\x02\x00\x00\x00\x00\x00\x00\x04two\n"}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.43")
		if _, path, _ := strings.Cut(r.URL.Path, "/containers/"); path != "" {
			if r.URL.Query().Get("tail") != "7" || r.URL.Query().Get("follow") != "1" {
				t.Errorf("the request is %s", r.URL)
			}
			if text, ok := output[strings.TrimSuffix(path, "/logs")]; ok {
				_, _ = io.WriteString(w, text)
				return
			}
			http.Error(w, `{"message":"No such container"}`, http.StatusNotFound)
		}
	}))
	defer server.Close()
	config := &Config{Host: "tcp://" + server.Listener.Addr().String()}
	config.SetDefaults()
	for id, want := range map[string]string{"plain": "one\ntwo\n", "short": "1", "streams": "one\ntwo\n", "missing": ""} {
		var got strings.Builder
		err := WriteLogs(t.Context(), config, (*client.Client).ContainerLogs, nil, id, targets.LogQuery{Lines: 7, Follow: true}, &got)
		if got.String() != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", id, got.String(), err)
		}
	}
}

// TestFollowRestarts checks that followed output contains each line once, although the container
// restarts twice, and that it ends with the container.
func TestFollowRestarts(t *testing.T) {
	frame := func(text string) string { return "\x01\x00\x00\x00\x00\x00\x00" + string(rune(len(text))) + text }
	for name, framed := range map[string]bool{"streams": true, "terminal": false} {
		t.Run(name, func(t *testing.T) {
			lines := []struct{ stamp, text string }{
				{"2026-11-29T01:00:00.000000001Z ", "first run\n"},
				{"2026-11-29T01:00:00.000000002Z ", "2026-11-29T01:00:00Z own time\n"},
				{"2026-11-29T01:00:00.000000003Z ", "second run\n"},
				{"2026-11-29T01:00:00.000000004Z ", "third run\n"},
			}
			ends := []int{2, 3, 3, 4} // the third start wrote nothing
			starts := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Api-Version", "1.43")
				query := r.URL.Query()
				if !strings.HasSuffix(r.URL.Path, "/logs") {
					return
				}
				since := query.Get("since")
				if first := starts == 0; (query.Get("tail") == "7") != first || (since == "") != first {
					t.Errorf("start %d: tail %s since %s", starts, query.Get("tail"), since)
				}
				for _, line := range lines[:ends[starts]] {
					at, err := time.Parse(time.RFC3339Nano, strings.TrimSpace(line.stamp))
					if err != nil {
						t.Error(err)
					}
					if from := fmt.Sprintf("%d.%09d", at.Unix(), at.Nanosecond()); from < since {
						continue
					}
					text := line.stamp + line.text
					if framed {
						text = frame(text)
					}
					_, _ = io.WriteString(w, text)
				}
				starts++
			}))
			defer server.Close()
			config := &Config{Host: "tcp://" + server.Listener.Addr().String()}
			config.SetDefaults()
			var got strings.Builder
			await := func(context.Context, string) (bool, error) { return starts < len(ends), nil }
			err := WriteLogs(t.Context(), config, (*client.Client).ContainerLogs, await, "a", targets.LogQuery{Lines: 7, Follow: true}, &got)
			if want := "first run\n2026-11-29T01:00:00Z own time\nsecond run\nthird run\n"; err != nil || got.String() != want {
				t.Errorf("the output is %q, %v; want %q", got.String(), err, want)
			}
		})
	}
}

// TestMessages checks messages of all sizes, and that a wrong size costs no memory.
func TestMessages(t *testing.T) {
	long := strings.Repeat("x", 3*messagePart) + "\n"
	message := func(stream byte, text string) string {
		return string(binary.BigEndian.AppendUint32([]byte{stream, 0, 0, 0}, uint32(len(text)))) + text
	}
	for _, test := range []struct{ name, from, want, err string }{
		{"streams", message(1, "one\n") + message(2, "") + message(2, "two\n"), "one\ntwo\n", ""},
		{"long", message(1, long) + message(1, "end\n"), long + "end\n", ""},
		{"error of the engine", message(1, "one\n") + message(3, "broken"), "one\n", "the engine reports: broken"},
		{"cut off", message(1, "one\n") + "\x01\x00\x00\x00\x00\x00\x00\x09two", "one\n", "unexpected EOF"},
		{"4 GiB", "\x01\x00\x00\x00\xff\xff\xff\xff" + long, "", "unexpected EOF"},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var got strings.Builder
		err := writeMessages(strings.NewReader(test.from), &got)
		runtime.ReadMemStats(&after)
		if test.want != "" && got.String() != test.want || (err == nil) != (test.err == "") || err != nil && err.Error() != test.err {
			t.Errorf("%s: got %d bytes, %v, want %d bytes and %q", test.name, got.Len(), err, len(test.want), test.err)
		}
		if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 16<<20 {
			t.Errorf("%s: %d bytes of memory", test.name, allocated)
		}
	}
}
