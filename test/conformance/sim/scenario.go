// Package sim simulates fleets and their load: instances start, fail, restart and end, and
// metrics are measured, lost or wrong. The simulation depends only on the scenario, the time
// and the counts that a controller writes, and not on its reads. It uses only the standard
// library, because the upstream program contains it as well.
package sim

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"time"
)

// Dur is a duration, encoded as "1m30s", or an instant, as the time since the start.
type Dur time.Duration

// MarshalJSON encodes d as a string.
func (d Dur) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

// UnmarshalJSON decodes the string of MarshalJSON.
func (d *Dur) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	v, err := time.ParseDuration(s)
	*d = Dur(v)
	return err
}

// D returns d as a time.Duration.
func (d Dur) D() time.Duration { return time.Duration(d) }

// String returns d as in time.Duration.
func (d Dur) String() string { return time.Duration(d).String() }

// Sec returns s seconds, rounded to milliseconds.
func Sec(s float64) Dur { return Dur(math.Round(s*1000)) * Dur(time.Millisecond) }

// Scenario is one simulation.
type Scenario struct {
	Name   string `json:"name"`
	Seed   uint64 `json:"seed"`
	Config Config `json:"config"`
	// Kubernetes is "1.38", or empty for 1.37.
	Kubernetes string `json:"kubernetes,omitempty"`
	// Strict sets compat = "strict".
	Strict bool `json:"strict,omitempty"`
	// Prometheus makes hpad query over HTTP with its source kind "prometheus".
	Prometheus bool `json:"prometheus,omitempty"`
	// Slow delays the reads and writes of hpad. A read returns the values at its start, and
	// a write of upstream takes effect at the same time as the write of hpad.
	Slow bool `json:"slow,omitempty"`
	// Labels defines the autoscalers by labels of their targets, which hpad discovers at
	// its ticks.
	Labels bool `json:"labels,omitempty"`
	// Fleets is the number of fleets, and of sources; 0 is one.
	Fleets int `json:"fleets,omitempty"`
	// Members is the number of members of a cluster; 0 is a single daemon. With members,
	// Acts are "crash" and "leave" of member N, which returns at Until.
	Members int `json:"members,omitempty"`
	// Led makes upstream evaluate at the same instants as hpad. Lead sets Evaluate to them.
	Led      bool   `json:"led,omitempty"`
	Evaluate []Step `json:"evaluate,omitempty"`
	// Steps change the wall clock, at the times when hpad notices them. Notice sets them, so that
	// the samples of upstream have the times that hpad derives from the wall clock.
	Steps []Offset `json:"steps,omitempty"`
	// Relax lists the fields of Line that are not compared, such as "ready". With "times",
	// times are compared to a tenth of a second. See differs for more values.
	Relax []string `json:"relax,omitempty"`
	// Ticks is the duration in sync periods.
	Ticks       int          `json:"ticks"`
	Autoscalers []Autoscaler `json:"autoscalers"`
	// Acts are the actions that concern only hpad.
	Acts []Act `json:"acts,omitempty"`
}

// FleetOf returns the number of the fleet of autoscaler i.
func (s *Scenario) FleetOf(i int) int { return i % max(1, s.Fleets) }

// Config contains the global settings of the controllers.
type Config struct {
	Tolerance   float64 `json:"tolerance"`
	CPUInit     Dur     `json:"cpu_init"`
	ReadyDelay  Dur     `json:"ready_delay"`
	Downscale   Dur     `json:"downscale"`
	Period      Dur     `json:"period"`
	ScaleToZero bool    `json:"scale_to_zero"`
}

// Act is an action that concerns only hpad. Its kinds are:
//
//	restart   stop, then start
//	kill      SIGKILL, then start
//	down      stop, and start at Until
//	dead      SIGKILL, and start at Until
//	reload    reload the same file
//	refit     reload with new, equal fleets and sources
//	reboot    SIGKILL, then start with the clock of a new boot
//	killmid   SIGKILL at the N-th commit from At, after the commit if How is "after", and start
//	full      no commit succeeds until Until
//	step      step the wall clock by By
//	settings  change the global settings to Config, for upstream as well
//	look      read everything that the API shows
type Act struct {
	At    Dur    `json:"at"`
	Kind  string `json:"kind"`
	Until Dur    `json:"until,omitempty"`
	By    Dur    `json:"by,omitempty"`
	N     int    `json:"n,omitempty"`
	How   string `json:"how,omitempty"`
	// Config is set for the kind "settings".
	Config *Config `json:"config,omitempty"`
}

// Autoscaler is one autoscaler and its target.
type Autoscaler struct {
	Name     string  `json:"name"`
	Spec     Spec    `json:"spec"`
	Replicas int32   `json:"replicas"`
	Fleet    Fleet   `json:"fleet"`
	Load     []Point `json:"load"`
	Events   []Event `json:"events,omitempty"`
	// Period is the sync period of the autoscaler; 0 is Config.Period.
	Period Dur `json:"period,omitempty"`
	// Idle is set for a target without an autoscaler of its own. The Target of another
	// autoscaler refers to it.
	Idle bool `json:"idle,omitempty"`
}

// Point is the load from an instant on. The unit is the load of one instance at its target
// value.
type Point struct {
	At   Dur     `json:"at"`
	Load float64 `json:"load"`
}

// Event changes a target or its autoscaler. Its kinds are:
//
//	set        an external writer sets the count to N
//	spec       the autoscaler changes to Spec
//	poke       the autoscaler is evaluated immediately
//	delete     the autoscaler is deleted
//	create     the autoscaler is created again with Spec
//	mirror     the autoscaler that refers to this target changes to Spec
//	metric     metric N fails until Until. How is error, empty, nan, inf, negative or hang
//	missing    every N-th instance has no samples until Until
//	stale      no samples are taken until Until
//	unready    the N-th instance is not ready until Until. How is the status: False or Unknown
//	fail       the N-th instance fails and disappears at Until. How is the phase
//	remove     the N-th instance is deleted and disappears at Until
//	unread     reads of the target fail until Until; with How "fleet" reads of its whole fleet
//	unwritten  writes of the target fail until Until
//	refuse     the first write at this instant fails
//	interfere  an external writer sets N just before the next write
//	lost       writes of hpad time out until Until, and take effect if How is "made"
type Event struct {
	At    Dur    `json:"at"`
	Kind  string `json:"kind"`
	Until Dur    `json:"until,omitempty"`
	N     int32  `json:"n,omitempty"`
	How   string `json:"how,omitempty"`
	Spec  *Spec  `json:"spec,omitempty"`
	// done is set if an event of kind interfere or refuse has happened.
	done bool
}

// Fleet describes the instances of a target and their samples.
type Fleet struct {
	Tasks []Task `json:"tasks"`
	// Whole has the requests of a whole instance, in milli-units. With ByConfig hpad has
	// them from its configuration.
	Whole    map[string]int64 `json:"whole,omitempty"`
	ByConfig bool             `json:"by_config,omitempty"`
	// Fresh makes most of the initial instances start with the scenario.
	Fresh bool `json:"fresh,omitempty"`
	// Pending, Startup and Stop are the minimum and maximum durations of these phases.
	Pending [2]Dur `json:"pending"`
	Startup [2]Dur `json:"startup"`
	Stop    [2]Dur `json:"stop"`
	// Every is the sampling period, Offset the time of the first sample, Age the age of
	// samples when they appear, and Window the time that they cover.
	Every  Dur `json:"every"`
	Offset Dur `json:"offset,omitempty"`
	Age    Dur `json:"age,omitempty"`
	Window Dur `json:"window"`
	// Silent is set if the fleet does not report readiness.
	Silent bool `json:"silent,omitempty"`
	// Jitter is the relative difference between instances. Snap rounds their usage to a
	// multiple; 0 does not.
	Jitter float64 `json:"jitter,omitempty"`
	Snap   float64 `json:"snap,omitempty"`
	// Ghosts keeps the samples of ended instances until the next sampling.
	Ghosts bool `json:"ghosts,omitempty"`
}

// Task is one task of each instance, with requests in milli-units.
type Task struct {
	Name     string           `json:"name"`
	Requests map[string]int64 `json:"requests,omitempty"`
}

// Spec is the specification of an autoscaler before defaults are set.
type Spec struct {
	Min      *int32    `json:"min,omitempty"`
	Max      int32     `json:"max"`
	Metrics  []Metric  `json:"metrics,omitempty"`
	Behavior *Behavior `json:"behavior,omitempty"`
	// Target is the name of an Idle target; empty for the target of the autoscaler.
	Target string `json:"target,omitempty"`
}

// Metric is one metric and the origin of its values.
type Metric struct {
	Type   string `json:"type"`
	Name   string `json:"name"`
	Task   string `json:"task,omitempty"`
	Object string `json:"object,omitempty"`
	// Goal is "utilization", with the target in Percent, or "average" or "value", with the
	// target in Amount and, as a number, in Unit.
	Goal    string  `json:"goal"`
	Percent int32   `json:"percent,omitempty"`
	Amount  string  `json:"amount,omitempty"`
	Unit    float64 `json:"unit,omitempty"`
	// Query takes a Resource metric from a query with values that cover Window.
	Query  bool `json:"query,omitempty"`
	Window Dur  `json:"window,omitempty"`
	// Shared makes hpad use one query for all autoscalers, with a select for each.
	Shared bool `json:"shared,omitempty"`
	// Series is the number of series of an External metric. Decimals is the precision of
	// values.
	Series   int `json:"series,omitempty"`
	Decimals int `json:"decimals,omitempty"`
	// Scale multiplies the values, up to maxValue; 0 is 1.
	Scale float64 `json:"scale,omitempty"`
}

// Sampled reports whether the metric uses the samples of the fleet.
func (m *Metric) Sampled() bool { return m.ofResource() && !m.Query }

func (m *Metric) ofResource() bool { return m.Type == "Resource" || m.Type == "ContainerResource" }

// Behavior has the fields of behavior in autoscaling/v2.
type Behavior struct {
	Up   *Rules `json:"up,omitempty"`
	Down *Rules `json:"down,omitempty"`
}

// Rules are the scaling rules of one direction.
type Rules struct {
	Window    *int32   `json:"window,omitempty"`
	Select    string   `json:"select,omitempty"`
	Policies  []Policy `json:"policies,omitempty"`
	Tolerance string   `json:"tolerance,omitempty"`
}

// Policy is a scaling policy.
type Policy struct {
	Type   string `json:"type"`
	Value  int32  `json:"value"`
	Period int32  `json:"period"`
}

// Line is the result of one evaluation of one autoscaler.
type Line struct {
	A string `json:"a"`
	T Dur    `json:"t"`
	// Read is the desired count of the target, -1 if the read failed, and -2 if there was
	// no read.
	Read int32 `json:"read"`
	// Want and Cur are the desired and current replicas of the status.
	Want int32 `json:"want"`
	Cur  int32 `json:"cur"`
	// Wrote lists the counts that the target accepted.
	Wrote []int32 `json:"wrote,omitempty"`
	Last  string  `json:"last,omitempty"`
	// Ready is the number of ready instances.
	Ready      int      `json:"ready"`
	Conditions []string `json:"conditions"`
	Metrics    []string `json:"metrics,omitempty"`
	Recs       []string `json:"recs,omitempty"`
	Ups        []string `json:"ups,omitempty"`
	Downs      []string `json:"downs,omitempty"`
	Events     []string `json:"events,omitempty"`
	Err        bool     `json:"err,omitempty"`
	// Late is the time from T to the write; 0 if the write was immediate.
	Late Dur `json:"late,omitempty"`
	// Said contains messages for the reader. They are not compared.
	Said []string `json:"said,omitempty"`
}

// Played contains the results of a scenario.
type Played struct {
	Name  string `json:"name"`
	Lines []Line `json:"lines"`
	Error string `json:"error,omitempty"`
	// Ghosts are the evaluations that a kill interrupted after a commit.
	Ghosts []Ghost `json:"ghosts,omitempty"`
	// Commits are the times when hpad stored its state.
	Commits []Dur `json:"commits,omitempty"`
}

// Ghost is an evaluation that is stored but was not reported.
type Ghost struct {
	A string `json:"a"`
	T Dur    `json:"t"`
	// Unmade is set if an intention was committed and its write did not happen.
	Unmade bool `json:"unmade,omitempty"`
}

// Each calls f with each value of a file of JSON lines.
func Each[T any](path string, f func(*T) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	in := json.NewDecoder(bufio.NewReaderSize(file, 1<<20))
	for {
		v := new(T)
		if err := in.Decode(v); err == io.EOF {
			return nil
		} else if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if err := f(v); err != nil {
			return err
		}
	}
}

// Writer writes JSON lines.
type Writer struct {
	file *os.File
	buf  *bufio.Writer
}

// Create creates a file of JSON lines.
func Create(path string) (*Writer, error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	return &Writer{file, bufio.NewWriterSize(file, 1<<20)}, nil
}

// Write adds a line.
func (w *Writer) Write(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.buf.Write(append(text, '\n'))
	return err
}

// Close closes the file.
func (w *Writer) Close() error {
	if err := w.buf.Flush(); err != nil {
		return err
	}
	return w.file.Close()
}

// Conditions and Events are the types of conditions and the reasons of events that are
// compared.
var (
	Conditions = map[string]bool{"AbleToScale": true, "ScalingActive": true, "ScalingLimited": true, "ScaledToZero": true}
	Events     = map[string]bool{
		"FailedGetScale": true, "FailedComputeMetricsReplicas": true, "FailedRescale": true, "SuccessfulRescale": true, "FailedUpdateStatus": true,
		"FailedGetResourceMetric": true, "FailedGetContainerResourceMetric": true, "FailedGetPodsMetric": true,
		"FailedGetObjectMetric": true, "FailedGetExternalMetric": true,
	}
)
