package policy_test

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/settings/quantity"
)

// start is the instant to which a vector's offsets are added.
var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// duration is a time.Duration that is encoded in JSON as a string, such as "15s".
type duration time.Duration

func (d *duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = duration(parsed)
	return err
}

func (d *duration) instant() time.Time {
	if d == nil {
		return time.Time{}
	}
	return start.Add(time.Duration(*d))
}

type vectorScenario struct {
	Name   string   `json:"name"`
	Tags   []string `json:"tags"`
	Config struct {
		SyncPeriod              duration `json:"sync_period"`
		Tolerance               float64  `json:"tolerance"`
		CPUInitializationPeriod duration `json:"cpu_initialization_period"`
		InitialReadinessDelay   duration `json:"initial_readiness_delay"`
		DownscaleStabilization  duration `json:"downscale_stabilization"`
		ScaleToZero             bool     `json:"scale_to_zero"`
	} `json:"config"`
	Spec    vectorSpec    `json:"spec"`
	Initial *vectorStatus `json:"initial"`
	Steps   []vectorStep  `json:"steps"`
}

type vectorSpec struct {
	Min      *int32          `json:"min"`
	Max      int32           `json:"max"`
	Metrics  []vectorMetric  `json:"metrics"`
	Behavior *vectorBehavior `json:"behavior"`
}

type vectorMetric struct {
	Type   string `json:"type"`
	Name   string `json:"name"`
	Task   string `json:"task"`
	Object string `json:"object"`
	Target struct {
		Type               string             `json:"type"`
		Value              *quantity.Quantity `json:"value"`
		AverageValue       *quantity.Quantity `json:"average_value"`
		AverageUtilization *int32             `json:"average_utilization"`
	} `json:"target"`
}

type vectorBehavior struct {
	ScaleUp   *vectorRules `json:"scale_up"`
	ScaleDown *vectorRules `json:"scale_down"`
}

type vectorRules struct {
	StabilizationWindowSeconds *int32             `json:"stabilization_window_seconds"`
	SelectPolicy               string             `json:"select_policy"`
	Policies                   []vectorPolicy     `json:"policies"`
	Tolerance                  *quantity.Quantity `json:"tolerance"`
}

type vectorPolicy struct {
	Type          string `json:"type"`
	Value         int32  `json:"value"`
	PeriodSeconds int32  `json:"period_seconds"`
}

type vectorStep struct {
	At             duration         `json:"at"`
	Spec           *vectorSpec      `json:"spec"`
	Restart        bool             `json:"restart"`
	Replicas       int32            `json:"replicas"`
	StatusReplicas int32            `json:"status_replicas"`
	Set            []vectorInstance `json:"set"`
	Gone           []string         `json:"gone"`
	Metrics        []vectorReading  `json:"metrics"`
	GetError       bool             `json:"get_error"`
	UpdateError    bool             `json:"update_error"`
	StatusError    bool             `json:"status_error"`
	Expect         vectorExpect     `json:"expect"`
}

type vectorInstance struct {
	ID         string                       `json:"id"`
	Phase      string                       `json:"phase"`
	Ready      string                       `json:"ready"`
	ReadySince *duration                    `json:"ready_since"`
	Started    *duration                    `json:"started"`
	Deleting   bool                         `json:"deleting"`
	Requests   map[string]quantity.Quantity `json:"requests"`
	Tasks      []struct {
		Name     string                       `json:"name"`
		Requests map[string]quantity.Quantity `json:"requests"`
		Sidecar  bool                         `json:"sidecar"`
	} `json:"tasks"`
}

type vectorReading struct {
	Error   bool                    `json:"error"`
	Samples map[string]vectorSample `json:"samples"`
	Age     duration                `json:"age"`
	Window  duration                `json:"window"`
	Value   *int64                  `json:"value_milli"`
	Values  []int64                 `json:"values_milli"`
}

type vectorSample struct {
	Value  int64             `json:"value_milli"`
	Tasks  map[string]*int64 `json:"tasks"`
	Age    *duration         `json:"age"`
	Window *duration         `json:"window"`
}

type vectorExpect struct {
	Replicas  int32        `json:"replicas"`
	Rescaled  bool         `json:"rescaled"`
	Reason    string       `json:"reason"`
	Proposals []*int32     `json:"proposals"`
	Raw       *int32       `json:"raw"`
	Winner    *int         `json:"winner"`
	Error     bool         `json:"error"`
	Events    []string     `json:"events"`
	Status    vectorStatus `json:"status"`
}

type vectorStatus struct {
	CurrentReplicas int32                 `json:"current_replicas"`
	DesiredReplicas int32                 `json:"desired_replicas"`
	LastScale       *duration             `json:"last_scale"`
	Metrics         []*vectorMetricStatus `json:"metrics"`
	Conditions      []vectorCondition     `json:"conditions"`
}

type vectorMetricStatus struct {
	Type               string `json:"type"`
	AverageUtilization *int32 `json:"average_utilization"`
	AverageValue       *int64 `json:"average_value_milli"`
	Value              *int64 `json:"value_milli"`
	Unspecified        bool   `json:"unspecified"`
}

type vectorCondition struct {
	Type   string   `json:"type"`
	Status string   `json:"status"`
	Reason string   `json:"reason"`
	Since  duration `json:"since"`
}

// upstreamWord translates an upstream term to hpad's term. Vectors come from upstream, so a vector
// that contains hpad's term is an error.
func upstreamWord(word string) string {
	switch word {
	case "Pods":
		return "Instances"
	case "Instances":
		return "not an upstream term"
	}
	return word
}

func milli(q *quantity.Quantity) *int64 {
	if q == nil {
		return nil
	}
	return new(q.Milli())
}

func (s *vectorSpec) policySpec() policy.Spec {
	spec := policy.Spec{MinReplicas: s.Min, MaxReplicas: s.Max}
	for _, m := range s.Metrics {
		spec.Metrics = append(spec.Metrics, m.policyMetric())
	}
	if s.Behavior != nil {
		spec.Behavior = &policy.Behavior{ScaleUp: s.Behavior.ScaleUp.policyRules(), ScaleDown: s.Behavior.ScaleDown.policyRules()}
	}
	return spec
}

func (m *vectorMetric) policyMetric() policy.MetricSpec {
	object := m.Object
	if object != "" { // upstream stores the object's kind separately
		object = "Service/" + object
	}
	return policy.MetricSpec{
		Type: policy.MetricType(upstreamWord(m.Type)), Name: m.Name, Task: m.Task, Object: object,
		Target: policy.MetricTarget{
			Type:               policy.TargetType(m.Target.Type),
			ValueMilli:         milli(m.Target.Value),
			AverageValueMilli:  milli(m.Target.AverageValue),
			AverageUtilization: m.Target.AverageUtilization,
		},
	}
}

func (r *vectorRules) policyRules() *policy.ScalingRules {
	if r == nil {
		return nil
	}
	rules := &policy.ScalingRules{
		StabilizationWindowSeconds: r.StabilizationWindowSeconds,
		SelectPolicy:               policy.SelectPolicy(r.SelectPolicy),
	}
	if r.Policies != nil {
		rules.Policies = []policy.ScalingPolicy{}
	}
	for _, p := range r.Policies {
		rules.Policies = append(rules.Policies, policy.ScalingPolicy{
			Type: policy.PolicyType(upstreamWord(p.Type)), Value: p.Value, PeriodSeconds: p.PeriodSeconds,
		})
	}
	if r.Tolerance != nil {
		rules.Tolerance = new(r.Tolerance.Float())
	}
	return rules
}

func amounts(requests map[string]quantity.Quantity) []policy.Amount {
	var list []policy.Amount
	for name, q := range requests {
		list = append(list, q.Amount(name))
	}
	slices.SortFunc(list, func(a, b policy.Amount) int { return cmp.Compare(a.Resource, b.Resource) })
	return list
}

func (i *vectorInstance) policyInstance(t *testing.T) policy.Instance {
	phases := map[string]policy.Phase{
		"Pending": policy.PhasePending, "Running": policy.PhaseRunning, "Succeeded": policy.PhaseSucceeded,
		"Failed": policy.PhaseFailed, "Unknown": policy.PhaseUnknown,
	}
	readiness := map[string]policy.Readiness{
		"": policy.ReadinessNotKnown, "True": policy.ReadinessTrue, "False": policy.ReadinessFalse, "Unknown": policy.ReadinessUnknown,
	}
	phase, known := phases[i.Phase]
	ready, knownReady := readiness[i.Ready]
	if !known || !knownReady {
		t.Fatalf("instance %s has the unknown phase %q or readiness %q", i.ID, i.Phase, i.Ready)
	}
	instance := policy.Instance{
		ID: i.ID, Phase: phase, Readiness: ready, Deleting: i.Deleting,
		StartedAt: i.Started.instant(), ReadinessChanged: i.ReadySince.instant(), Requests: amounts(i.Requests),
	}
	for _, task := range i.Tasks {
		instance.Tasks = append(instance.Tasks, policy.Task{Name: task.Name, Requests: amounts(task.Requests)})
	}
	return instance
}

func (r *vectorReading) policyReading(metric *policy.MetricSpec, instances []policy.Instance, at time.Time) policy.Reading {
	if r.Error {
		return policy.Reading{Error: "the source is down"}
	}
	reading := policy.Reading{ValueMilli: r.Value, ValuesMilli: r.Values}
	if len(r.Samples) == 0 {
		return reading
	}
	there := map[string]bool{}
	for _, instance := range instances {
		there[instance.ID] = true
		sample, ok := r.Samples[instance.ID]
		if !ok {
			reading.Samples = append(reading.Samples, policy.Sample{})
			continue
		}
		reading.Samples = append(reading.Samples, r.policySample(&sample, metric, at))
	}
	for id, sample := range r.Samples {
		if !there[id] {
			reading.Samples = append(reading.Samples, r.policySample(&sample, metric, at))
		}
	}
	return reading
}

func (r *vectorReading) policySample(s *vectorSample, metric *policy.MetricSpec, at time.Time) policy.Sample {
	age, window := *cmp.Or(s.Age, &r.Age), *cmp.Or(s.Window, &r.Window)
	sample := policy.Sample{At: at.Add(-time.Duration(age)), Window: time.Duration(window)}
	if metric.Type == policy.InstancesMetric {
		sample.Milli, sample.OK = s.Value, true
		return sample
	}
	var tasks []policy.TaskUsage
	for name, used := range s.Tasks {
		usage := policy.TaskUsage{Task: name}
		if used != nil {
			usage.Usage = []policy.Amount{{Resource: metric.Name, Milli: *used}}
		}
		tasks = append(tasks, usage)
	}
	if metric.Type == policy.ContainerResourceMetric {
		sample.Milli, sample.OK = policy.TaskSample(tasks, metric.Task, metric.Name)
	} else {
		sample.Milli, sample.OK = policy.ResourceSample(tasks, metric.Name)
	}
	return sample
}

func (s *vectorStatus) policyStatus() policy.Status {
	status := policy.Status{CurrentReplicas: s.CurrentReplicas, DesiredReplicas: s.DesiredReplicas, LastScaleTime: s.LastScale.instant()}
	for _, c := range s.Conditions {
		status.Conditions = append(status.Conditions, policy.Condition{
			Type: policy.ConditionType(c.Type), Status: policy.ConditionStatus(c.Status), Reason: c.Reason, Since: c.Since.instant(),
		})
	}
	return status
}

// replay is the state of the simulated autoscaler during a scenario.
type replay struct {
	settings  policy.Settings
	spec      policy.Spec
	memory    policy.Memory
	status    policy.Status
	instances []policy.Instance
	decided   func(*policy.Inputs, policy.Decision)
}

func newReplay(scenario *vectorScenario) *replay {
	config := &scenario.Config
	r := &replay{
		settings: policy.Settings{
			Tolerance:               config.Tolerance,
			DownscaleStabilization:  time.Duration(config.DownscaleStabilization),
			CPUInitializationPeriod: time.Duration(config.CPUInitializationPeriod),
			InitialReadinessDelay:   time.Duration(config.InitialReadinessDelay),
			ScaleToZero:             config.ScaleToZero,
		},
		spec: policy.Default(scenario.Spec.policySpec()),
	}
	if scenario.Initial != nil {
		r.status = scenario.Initial.policyStatus()
	}
	return r
}

func (r *replay) observe(t *testing.T, step *vectorStep) policy.Observation {
	r.instances = slices.DeleteFunc(r.instances, func(i policy.Instance) bool { return slices.Contains(step.Gone, i.ID) })
	for i := range step.Set {
		instance := step.Set[i].policyInstance(t)
		at := slices.IndexFunc(r.instances, func(i policy.Instance) bool { return i.ID == instance.ID })
		if at >= 0 {
			r.instances[at] = instance
		} else {
			r.instances = append(r.instances, instance)
		}
	}
	observation := policy.Observation{SpecReplicas: step.Replicas, StatusReplicas: step.StatusReplicas, Instances: r.instances}
	if step.GetError {
		observation.ReadError = "platform unavailable"
	}
	for i := range step.Metrics {
		reading := step.Metrics[i].policyReading(&r.spec.Metrics[i], r.instances, step.At.instant())
		observation.Metrics = append(observation.Metrics, reading)
	}
	return observation
}

func (r *replay) run(t *testing.T, step *vectorStep) vectorExpect {
	if step.Spec != nil {
		r.spec = policy.Default(step.Spec.policySpec())
	}
	if step.Restart {
		r.memory = policy.Memory{}
	}
	now := step.At.instant()
	inputs := policy.Inputs{Settings: r.settings, Spec: r.spec, Memory: r.memory, Status: r.status, Observation: r.observe(t, step), Now: now}
	decision := inputs.Decide()
	if r.decided != nil {
		r.decided(&inputs, decision)
	}
	outcome := policy.Outcome{}
	switch {
	case decision.Write && step.UpdateError:
		outcome = policy.Outcome{Kind: policy.WriteFailed, Error: "the platform refused"}
	case decision.Write:
		outcome = policy.Outcome{Kind: policy.Written, Reached: decision.DesiredReplicas}
	}
	settlement := policy.Settle(decision, outcome, now)
	got := vectorExpect{
		Replicas: step.Replicas, Rescaled: outcome.Kind == policy.Written,
		Raw: decision.Raw, Winner: decision.Winner, Error: settlement.Error != "",
	}
	if got.Rescaled {
		got.Replicas = decision.DesiredReplicas
		got.Reason = vectorReason(decision.Reason)
	}
	for i := range decision.Metrics {
		if decision.Metrics[i].Error != "" {
			got.Proposals = append(got.Proposals, nil)
		} else {
			got.Proposals = append(got.Proposals, &decision.Metrics[i].Proposal)
		}
	}
	events := settlement.Events
	r.memory = settlement.Memory
	if step.StatusError {
		events = settlement.StatusWriteFailed("the store is down")
		got.Error = got.Error || settlement.StatusChanged
	} else {
		r.status = settlement.Status
	}
	for _, event := range events {
		got.Events = append(got.Events, event.Reason)
	}
	got.Status = vectorStatusOf(r.status)
	return got
}

func vectorReason(reason policy.RescaleReason) string {
	return map[policy.RescaleReason]string{
		policy.NoReason: "none", policy.MetricAboveTarget: "metric_above_target", policy.AllBelowTarget: "all_below_target",
		policy.AboveMax: "above_max", policy.BelowMin: "below_min",
	}[reason]
}

func vectorStatusOf(status policy.Status) vectorStatus {
	got := vectorStatus{CurrentReplicas: status.CurrentReplicas, DesiredReplicas: status.DesiredReplicas}
	if !status.LastScaleTime.IsZero() {
		got.LastScale = new(duration(status.LastScaleTime.Sub(start)))
	}
	for i := range status.Metrics {
		m := &status.Metrics[i]
		if m.Type == "" {
			got.Metrics = append(got.Metrics, nil)
			continue
		}
		kind := string(m.Type)
		if m.Type == policy.InstancesMetric {
			kind = "Pods"
		}
		got.Metrics = append(got.Metrics, &vectorMetricStatus{
			Type: kind, AverageUtilization: m.AverageUtilization, AverageValue: m.AverageValueMilli, Value: m.ValueMilli,
		})
	}
	for _, c := range status.Conditions {
		got.Conditions = append(got.Conditions, vectorCondition{
			Type: string(c.Type), Status: string(c.Status), Reason: c.Reason, Since: duration(c.Since.Sub(start)),
		})
	}
	return got
}

func alignExpectations(got, want *vectorExpect) {
	if want.Winner == nil && want.Raw != nil {
		got.Winner = nil
	}
	for i, m := range want.Status.Metrics {
		if m != nil && m.Unspecified && i < len(got.Status.Metrics) && got.Status.Metrics[i] != nil {
			unspecified := *got.Status.Metrics[i]
			unspecified.AverageValue, unspecified.Unspecified = m.AverageValue, true
			got.Status.Metrics[i] = &unspecified
		}
	}
	for _, e := range []*vectorExpect{got, want} {
		e.Events = slices.Clip(e.Events)
		if len(e.Events) == 0 {
			e.Events = nil
		}
		if len(e.Status.Metrics) == 0 {
			e.Status.Metrics = nil
		}
		if len(e.Status.Conditions) == 0 {
			e.Status.Conditions = nil
		}
	}
}

func TestVectors(t *testing.T) {
	for _, file := range vectorFiles(t, "HPAD_VECTORS", "testdata/hpa-v[0-9]*.jsonl.gz") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			readLines(t, file, func(line []byte) {
				scenario := decodeStrictly[vectorScenario](t, line)
				t.Run(scenario.Name, func(t *testing.T) { testScenario(t, &scenario) })
			})
		})
	}
}

func testScenario(t *testing.T, scenario *vectorScenario) {
	if len(scenario.Steps) == 0 {
		t.Fatal("the scenario has no steps")
	}
	r := newReplay(scenario)
	if mistakes := policy.Validate(r.spec, true); len(mistakes) > 0 {
		t.Fatalf("the spec is invalid: %v", mistakes)
	}
	for i := range scenario.Steps {
		step := &scenario.Steps[i]
		got, want := r.run(t, step), step.Expect
		alignExpectations(&got, &want)
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Fatalf("step %d at %s (-upstream +hpad):\n%s", i, time.Duration(step.At), diff)
		}
	}
}

func vectorFiles(t *testing.T, variable, fallback string) []string {
	glob := cmp.Or(os.Getenv(variable), fallback)
	files, err := filepath.Glob(glob)
	if err != nil || len(files) == 0 {
		t.Fatalf("no vectors at %q (%v); set %s to a glob of .jsonl or .jsonl.gz files", glob, err, variable)
	}
	return files
}

func readLines(t *testing.T, path string, do func(line []byte)) {
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	scanner := bufio.NewScanner(file)
	if strings.HasSuffix(path, ".gz") {
		unzipped, err := gzip.NewReader(file)
		if err != nil {
			t.Fatalf("read %s: %v", path, err)
		}
		scanner = bufio.NewScanner(unzipped)
	}
	scanner.Buffer(nil, 64<<20)
	lines := 0
	for scanner.Scan() {
		if len(scanner.Bytes()) > 0 {
			do(scanner.Bytes())
			lines++
		}
	}
	if err := scanner.Err(); err != nil || lines == 0 {
		t.Fatalf("read %s: %d lines, %v", path, lines, err)
	}
}

func decodeStrictly[T any](t *testing.T, line []byte) (value T) {
	decoder := json.NewDecoder(strings.NewReader(string(line)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&value); err != nil {
		t.Fatalf("decode %s: %v", fmt.Sprintf("%.200s", line), err)
	}
	return value
}
