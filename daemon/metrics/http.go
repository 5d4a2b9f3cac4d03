package metrics

import (
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Listener is where a request comes in.
type Listener string

// The listeners.
const (
	TCP    Listener = "tcp"
	Socket Listener = "socket"
)

// requests counts what the HTTP servers answer.
type requests struct {
	answered *prometheus.CounterVec
	refused  prometheus.Counter
}

func newRequests(factory promauto.Factory) requests {
	r := requests{
		answered: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "hpad_http_requests_total",
			Help: "Requests that the HTTP servers answered.",
		}, []string{"listener", "code"}),
		refused: factory.NewCounter(prometheus.CounterOpts{
			Name: "hpad_http_connections_refused_total",
			Help: "Connections over TCP that were closed at once because their client had too many.",
		}),
	}
	// The answers to look for: what is served, and who is refused or told to wait.
	for _, code := range []int{http.StatusOK, http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests} {
		r.answered.WithLabelValues(string(TCP), strconv.Itoa(code))
	}
	r.answered.WithLabelValues(string(Socket), strconv.Itoa(http.StatusOK))
	return r
}

// Requests answers next with the requests counted that come in by a listener.
func (m *Metrics) Requests(by Listener, next http.Handler) http.Handler {
	return promhttp.InstrumentHandlerCounter(m.requests.answered.MustCurryWith(prometheus.Labels{"listener": string(by)}), next)
}

// RefusedConnection counts a connection that was closed because its client had
// too many.
func (m *Metrics) RefusedConnection() { m.requests.refused.Inc() }
