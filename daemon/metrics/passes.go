package metrics

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/hpad/hpad/daemon/reason"
	"github.com/hpad/hpad/policy"
)

// ErrorKind classifies errors as the HPA controller does.
type ErrorKind uint8

// The kinds of errors.
const (
	// NoError means success.
	NoError ErrorKind = iota
	// SpecError is an error in the configuration or the target. It persists until either changes.
	SpecError
	// InternalError is any other error, such as a source that does not respond.
	InternalError
	errorKinds
)

type action uint8

const (
	noAction action = iota
	scaleUp
	scaleDown
	actions
)

// The label values, indexed by constant.
var (
	errorLabels  = [errorKinds]string{"none", "spec", "internal"}
	actionLabels = [actions]string{"none", "scale_up", "scale_down"}
	metricTypes  = [...]policy.MetricType{
		policy.ResourceMetric, policy.ContainerResourceMetric, policy.InstancesMetric, policy.ObjectMetric, policy.ExternalMetric,
	}
)

func actionOf(from, to int32) action {
	switch {
	case to > from:
		return scaleUp
	case to < from:
		return scaleDown
	default:
		return noAction
	}
}

func newReasons(factory promauto.Factory) *prometheus.CounterVec {
	reasons := factory.NewCounterVec(prometheus.CounterOpts{
		Name: "hpad_passes_total",
		Help: "Number of passes, and of ticks without a pass, by reason.",
	}, []string{"reason"})
	for _, code := range reason.All() {
		reasons.WithLabelValues(code.String())
	}
	return reasons
}

// Reason counts the reason code of a complete pass, or of a tick without a pass.
func (m *Metrics) Reason(code reason.Code) {
	if code != reason.None {
		m.reasons.WithLabelValues(code.String()).Inc()
	}
}

type passes struct {
	total, metrics *prometheus.CounterVec
	duration       *prometheus.HistogramVec
}

func newPasses(factory promauto.Factory) passes {
	p := passes{
		total: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "hpad_reconciliations_total",
			Help: "Complete passes, by direction of the decision and kind of error.",
		}, []string{"action", "error"}),
		duration: factory.NewHistogramVec(prometheus.HistogramOpts{
			Name: "hpad_reconciliation_duration_seconds", Buckets: durationBuckets(),
			Help: "Duration of passes from the tick to their end, including readings and writes.",
		}, []string{"action", "error"}),
		metrics: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "hpad_metric_computation_total",
			Help: "Computed metrics, by direction of the proposal and kind of error.",
		}, []string{"action", "error", "metric_type"}),
	}
	for _, action := range actionLabels {
		for _, failed := range errorLabels {
			p.total.WithLabelValues(action, failed)
			p.duration.WithLabelValues(action, failed)
			for _, metricType := range metricTypes {
				p.metrics.WithLabelValues(action, failed, string(metricType))
			}
		}
	}
	return p
}

// Autoscaler contains the counters for the passes of one autoscaler. It is safe for concurrent use.
type Autoscaler struct {
	passes                         *passes
	late, panics, foreign, doubted atomic.Uint64
	reversals                      atomic.Uint64
	// direction describes the last write of this process. It is noAction before the first write.
	direction atomic.Uint32
}

// Rescaled records a write that changed the count. It counts a reversal if the previous write went
// in the opposite direction. Writes of one autoscaler must be sequential.
func (a *Autoscaler) Rescaled(from, to int32) {
	does := actionOf(from, to)
	if does == noAction {
		return
	}
	if before := action(a.direction.Swap(uint32(does))); before != noAction && before != does {
		a.reversals.Add(1)
	}
}

// Pass counts a complete pass with its decision, error kind and duration. Errors of metrics are
// counted as internal errors.
func (a *Autoscaler) Pass(decision *policy.Decision, failed ErrorKind, duration time.Duration) {
	does := actionLabels[actionOf(decision.CurrentReplicas, decision.DesiredReplicas)]
	a.passes.total.WithLabelValues(does, errorLabels[failed]).Inc()
	a.passes.duration.WithLabelValues(does, errorLabels[failed]).Observe(duration.Seconds())
	for i := range decision.Metrics {
		result := &decision.Metrics[i]
		proposes, failed := actionOf(decision.CurrentReplicas, result.Proposal), NoError
		if result.Error != "" {
			proposes, failed = noAction, InternalError
		}
		a.passes.metrics.WithLabelValues(actionLabels[proposes], errorLabels[failed], string(result.Type)).Inc()
	}
}
