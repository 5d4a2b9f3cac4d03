package sim

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// SharedQuery returns the load of every job, with the job ID in the label "service".
const SharedQuery = `sum by (service) (shop_load)`

// Load returns a query for the load of one job.
func Load(number int) string { return `sum(shop_load{service="` + JobID(number) + `"})` }

var loadQuery = regexp.MustCompile(`^sum\(shop_load\{service="shop-(\d+)"\}\)(?: / (\d+))?$`)

// Prometheus returns the HTTP API of the Prometheus server.
func (w *World) Prometheus() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/api/v1/query", w.handleQuery)
	mux.HandleFunc("/api/v1/query_range", w.handleRange)
	mux.HandleFunc("GET /loads", w.handleDocument)
	mux.HandleFunc("GET /api/v1/status/buildinfo", func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		_, _ = rw.Write([]byte(`{"status":"success","data":{"version":"3.15.0","revision":"","branch":"","buildUser":"","buildDate":"","goVersion":"go1.26"}}`))
	})
	return mux
}

func (w *World) handleQuery(rw http.ResponseWriter, r *http.Request) {
	at, err := instant(r.FormValue("time"))
	query := strings.TrimSpace(r.FormValue("query"))
	match := loadQuery.FindStringSubmatch(query)
	rw.Header().Set("Content-Type", "application/json")
	if err != nil || match == nil && query != SharedQuery {
		reject(rw, query, err)
		return
	}
	const begin, end = `{"status":"success","data":{"resultType":"vector","result":[`, `]}}`
	if match != nil {
		number, _ := strconv.Atoi(match[1])
		divisor := max(1, atoi(match[2]))
		_ = send(rw, r, func(yield func(func([]byte) []byte)) {
			yield(func(dst []byte) []byte {
				dst = append(dst, begin...)
				if value, there := w.loadAt(number, at); there {
					dst = sample(append(dst, `{"metric":{},`...), at, value/divisor)
				}
				return append(dst, end...)
			})
		})
		return
	}
	w.mu.RLock()
	values := make([]int, len(w.loads))
	for number := range values {
		values[number] = w.loads[number].at(at)
	}
	w.mu.RUnlock()
	_ = send(rw, r, func(yield func(func([]byte) []byte)) {
		next := begin
		for number, value := range values {
			yield(func(dst []byte) []byte {
				dst = append(append(append(dst, next...), `{"metric":{"service":"`...), JobID(number)...)
				return sample(append(dst, `"},`...), at, value)
			})
			next = ","
		}
		yield(func(dst []byte) []byte { return append(dst, end...) })
	})
}

// DocumentQuery is a JSONPath for the load of every job in the document /loads.
const DocumentQuery = `$.services[*].load`

// LoadInDocument returns a JSONPath for the load of one job in the document /loads.
func LoadInDocument(number int) string { return `$.services[?@.service=="` + JobID(number) + `"].load` }

// handleDocument sends a JSON document with the current load of every job.
func (w *World) handleDocument(rw http.ResponseWriter, r *http.Request) {
	rw.Header().Set("Content-Type", "application/json")
	now := time.Now()
	w.mu.RLock()
	values := make([]int, len(w.loads))
	for number := range values {
		values[number] = w.loads[number].at(now)
	}
	w.mu.RUnlock()
	_ = send(rw, r, func(yield func(func([]byte) []byte)) {
		next := `{"services":[`
		for number, value := range values {
			yield(func(dst []byte) []byte {
				return fmt.Appendf(append(dst, next...), `{"service":%q,"load":%d}`, JobID(number), value)
			})
			next = ","
		}
		yield(func(dst []byte) []byte { return append(dst, `]}`...) })
	})
}

// handleRange handles the range queries that nomad-autoscaler sends.
func (w *World) handleRange(rw http.ResponseWriter, r *http.Request) {
	start, startErr := instant(r.FormValue("start"))
	end, endErr := instant(r.FormValue("end"))
	step, stepErr := strconv.ParseFloat(r.FormValue("step"), 64)
	match := loadQuery.FindStringSubmatch(strings.TrimSpace(r.FormValue("query")))
	rw.Header().Set("Content-Type", "application/json")
	if err := errors.Join(startErr, endErr, stepErr); err != nil || match == nil || step <= 0 {
		reject(rw, r.FormValue("query"), err)
		return
	}
	number, divisor := atoi(match[1]), max(1, atoi(match[2]))
	w.mu.RLock()
	var l load
	if number < len(w.loads) {
		l = w.loads[number]
	}
	w.mu.RUnlock()
	_ = send(rw, r, func(yield func(func([]byte) []byte)) {
		next := `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[`
		for at := start; !at.After(end); at = at.Add(time.Duration(step * float64(time.Second))) {
			yield(func(dst []byte) []byte { return point(append(dst, next...), at, l.at(at)/divisor) })
			next = ","
		}
		yield(func(dst []byte) []byte { return append(dst, `]}]}}`...) })
	})
}

// reject rejects an unknown query.
func reject(rw http.ResponseWriter, query string, err error) {
	rw.WriteHeader(http.StatusBadRequest)
	_, _ = fmt.Fprintf(rw, `{"status":"error","errorType":"bad_data","error":%q}`, fmt.Sprintf("the simulator does not support the query %s, %v", query, err))
}

func atoi(text string) int {
	n, _ := strconv.Atoi(text)
	return n
}

func sample(dst []byte, at time.Time, value int) []byte {
	return append(point(append(dst, `"value":`...), at, value), '}')
}

func point(dst []byte, at time.Time, value int) []byte {
	dst = append(dst, '[')
	dst = strconv.AppendFloat(dst, float64(at.UnixMilli())/1000, 'f', -1, 64)
	dst = append(dst, `,"`...)
	dst = strconv.AppendInt(dst, int64(value), 10)
	return append(dst, `"]`...)
}

// instant parses the time of a query.
func instant(text string) (time.Time, error) {
	if text == "" {
		return time.Now(), nil
	}
	if seconds, err := strconv.ParseFloat(text, 64); err == nil {
		return time.UnixMilli(int64(seconds*1000 + 0.5)), nil
	}
	return time.Parse(time.RFC3339Nano, text)
}

// at returns the load at the given time.
func (l load) at(at time.Time) int {
	if at.Before(l.changed) {
		return l.before
	}
	return l.now
}

func (w *World) loadAt(number int, at time.Time) (int, bool) {
	if number >= w.options.Jobs {
		return 0, false
	}
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.loads[number].at(at), true
}
