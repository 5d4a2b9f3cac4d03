package nomad

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// TestCompression: responses come compressed, unless the agent is on this
// machine, and are the same; one that is cut, or is none, is an error.
func TestCompression(t *testing.T) {
	whole := []byte(`[{"ID":"web","JobModifyIndex":7},{"ID":"api"}]`)
	zip := func(text []byte) []byte {
		var zipped bytes.Buffer
		w := gzip.NewWriter(&zipped)
		_, _ = w.Write(text)
		_ = w.Close()
		return zipped.Bytes()
	}
	for name, c := range map[string]struct {
		near   bool
		body   []byte
		want   string
		failed bool
	}{
		"far":   {false, zip(whole), "web api", false},
		"near":  {true, whole, "web api", false},
		"none":  {false, zip([]byte("null")), "", false},
		"cut":   {false, zip(whole)[:12], "", true},
		"short": {false, zip(whole[:33]), "web", true},
		"plain": {false, whole, "", true},
		"empty": {false, nil, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			address := newHandler(t, func(w http.ResponseWriter, r *http.Request) {
				if zipped := r.Header.Get("Accept-Encoding") == "gzip"; zipped != !c.near {
					t.Errorf("asked for %q", r.Header.Get("Accept-Encoding"))
				} else if zipped {
					w.Header().Set("Content-Encoding", "gzip")
				}
				_, _ = w.Write(c.body)
			})
			f := openFleet(t, testConfig(t, address), nil)
			if !c.near {
				f.connection.current.transport.near = false
			}
			for range 2 { // with a reader that was used before
				session, err := f.open(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				var got []string
				_, err = session.readJobs(t.Context(), scope{}, "", func(job *jobReader) { got = append(got, string(job.id)) })
				if strings.Join(got, " ") != c.want || (err != nil) != c.failed {
					t.Errorf("read %q, %v, want %q", got, err, c.want)
				}
			}
		})
	}
}

// TestNear: an agent on this machine is known by its address.
func TestNear(t *testing.T) {
	for text, want := range map[string]bool{
		"http://127.0.0.1:4646": true, "https://[::1]:4646": true, "http://localhost:4646": true, "unix:///run/nomad.sock": true,
		"http://10.0.0.1:4646": false, "https://nomad.example:4646": false,
	} {
		address, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := near(address); got != want {
			t.Errorf("near(%s) = %t", text, got)
		}
	}
}

// TestReadList: what is no list is an error, and elements before a mistake were read.
func TestReadList(t *testing.T) {
	for text, want := range map[string]struct {
		read   int
		failed bool
	}{
		`[]`: {0, false}, ` null `: {0, false}, `[{"ID":"a"},{"ID":"b","ID":"c","Name":"` + "\xff" + `"}]`: {2, false},
		`{}`: {0, true}, `"x"`: {0, true}, ``: {0, true}, `[{"ID":"a"},7]`: {1, true}, `[{"ID":"a"}`: {1, true}, `[{"ID":"a"} x`: {1, true},
	} {
		read := 0
		f := openFleet(t, testConfig(t, newHandler(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) })), nil)
		session, err := f.open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, err = each(t.Context(), session, scope{}, "/v1/jobs", nil, "", func(*deploymentStub) { read++ })
		if read != want.read || (err != nil) != want.failed {
			t.Errorf("%s: %d elements, %v, want %+v", text, read, err, want)
		}
	}
}
