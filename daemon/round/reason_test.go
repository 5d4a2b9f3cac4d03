package round_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/daemontest"
	"github.com/hpad/hpad/daemon/metrics"
	"github.com/hpad/hpad/daemon/reason"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/targettest"
)

// collectedCodes collects the reason codes that a daemon reports.
type collectedCodes struct {
	w   *daemontest.World
	reg *prometheus.Registry
	// shown is the set of codes that the view of "web" contained.
	shown map[string]bool
}

// watch collects the code of "web" every second for the given time.
func (o *collectedCodes) watch(d time.Duration) {
	for range int(d / time.Second) {
		o.w.Advance(time.Second)
		o.shown[o.w.View("web").Evaluation.Reason] = true
	}
}

// counted returns the value of the pass counter for each code, and the total number of passes.
func (o *collectedCodes) counted(t *testing.T) (codes map[string]float64, passes float64) {
	t.Helper()
	families, err := o.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	codes = map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			switch family.GetName() {
			case "hpad_passes_total":
				codes[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
			case "hpad_reconciliations_total":
				passes += m.GetCounter().GetValue()
			}
		}
	}
	return codes, passes
}

// withRules configures scaling rules for both directions.
func withRules(up, down *policy.ScalingRules) func(*config.Autoscaler) {
	return func(a *config.Autoscaler) { a.Spec.Behavior = &policy.Behavior{ScaleUp: up, ScaleDown: down} }
}

func oneIn10Minutes(window int32) *policy.ScalingRules {
	return &policy.ScalingRules{
		StabilizationWindowSeconds: &window,
		Policies:                   []policy.ScalingPolicy{{Type: policy.InstancesPolicy, Value: 1, PeriodSeconds: 600}},
	}
}

func retarget(w *daemontest.World, edit func(*targettest.MemoryTarget)) {
	w.Fleet().Change("web", edit)
}

// fails returns a scenario in which the given fleet call fails with err.
func fails(call targettest.Call, err error) func(*daemontest.World, *collectedCodes) {
	return func(w *daemontest.World, o *collectedCodes) {
		w.AddWithValue("web", 3, 6)
		w.Fleet().Inject(targettest.Fault{Call: call, Err: err})
		w.Start()
		o.watch(time.Minute)
	}
}

// runWithLoad returns a scenario in which the queue of an autoscaler changes from value to later.
func runWithLoad(replicas int32, value float64, later float64, edit ...func(*config.Autoscaler)) func(*daemontest.World, *collectedCodes) {
	return func(w *daemontest.World, o *collectedCodes) {
		w.AddWithValue("web", replicas, value, edit...)
		w.Start()
		o.watch(time.Minute)
		w.Source().Value("web", later)
		o.watch(6 * time.Minute)
	}
}

// inMode returns a scenario with an autoscaler in the given mode that would scale up in mode "on".
func inMode(mode policy.Mode) func(*daemontest.World, *collectedCodes) {
	return func(w *daemontest.World, o *collectedCodes) {
		w.AddWithValue("web", 3, 3)
		w.Start()
		o.watch(time.Minute)
		setMode(w, "web", mode)
		w.Source().Value("web", 6)
		o.watch(time.Minute)
	}
}

// scenarios maps each code to a scenario in which a pass ends with the code.
var scenarios = map[reason.Code]func(*daemontest.World, *collectedCodes){
	reason.MetricAboveTarget: runWithLoad(3, 3, 6),
	reason.AllBelowTarget:    runWithLoad(6, 6, 3),
	reason.MetricsAtTarget:   runWithLoad(3, 3, 3),
	reason.MetricMissing: func(w *daemontest.World, o *collectedCodes) {
		w.Add("web", 3, func(a *config.Autoscaler) {
			a.Spec.Metrics[0].OnMissing = &policy.OnMissing{AfterSeconds: 60, Use: policy.UseReplicas, Replicas: 5}
		})
		w.Start()
		o.watch(2 * time.Minute)
	},
	reason.EarlierRecommendation: func(w *daemontest.World, o *collectedCodes) { // an external writer sets a count below the recommendation in the window
		runWithLoad(6, 6, 3)(w, o)
		w.Source().Value("web", 8)
		o.watch(time.Minute)
		w.Source().Value("web", 3)
		retarget(w, func(target *targettest.MemoryTarget) { target.Replicas = 5 })
		o.watch(time.Minute)
	},
	reason.AboveMax:        runWithLoad(120, 5, 5),
	reason.BelowMin:        runWithLoad(2, 5, 5, func(a *config.Autoscaler) { *a.Spec.MinReplicas = 4 }),
	reason.InitialReplicas: runWithLoad(0, 5, 5, func(a *config.Autoscaler) { a.Spec.InitialReplicas = new(int32(2)) }),
	reason.ForeignChanged: func(w *daemontest.World, o *collectedCodes) {
		w.AddWithValue("web", 3, 3, func(a *config.Autoscaler) { a.OnForeignChange = config.RestoreForeignChange })
		w.Start()
		o.watch(time.Minute)
		retarget(w, func(target *targettest.MemoryTarget) { target.Replicas = 9 })
		o.watch(time.Minute)
	},
	reason.RescaledInPart: func(w *daemontest.World, o *collectedCodes) {
		w.AddWithValue("web", 3, 6)
		w.Fleet().Inject(targettest.Fault{Call: targettest.WriteCall, Reach: new(int32(4)), Times: 1})
		w.Start()
		o.watch(time.Minute)
	},
	reason.SomeMetricsFailed: func(w *daemontest.World, o *collectedCodes) {
		w.AddWithValue("web", 3, 3, func(a *config.Autoscaler) {
			a.Spec.Metrics = append(a.Spec.Metrics, a.Spec.Metrics[0])
			a.Inputs = append(a.Inputs, config.Input{Source: "source", Query: "nothing"})
		})
		w.Start()
		o.watch(time.Minute)
	},
	reason.ScaleDownStabilized: runWithLoad(6, 6, 3),
	reason.ScaleUpStabilized:   runWithLoad(3, 3, 6, withRules(oneIn10Minutes(120), nil)),
	reason.TooFewReplicas:      runWithLoad(3, 3, 1, func(a *config.Autoscaler) { *a.Spec.MinReplicas = 3 }),
	reason.TooManyReplicas:     runWithLoad(3, 3, 6, func(a *config.Autoscaler) { a.Spec.MaxReplicas = 3 }),
	reason.ScaleUpLimit:        runWithLoad(3, 3, 6, withRules(oneIn10Minutes(0), nil)),
	reason.ScaleDownLimit:      runWithLoad(6, 6, 3, withRules(nil, oneIn10Minutes(0))),
	reason.NoReadyInstance: func(w *daemontest.World, o *collectedCodes) {
		w.AddWithValue("web", 6, 6)
		w.Config.Daemon.DownscaleStabilization = 0
		w.Start()
		o.watch(time.Minute)
		unready(w, "web")
		w.Source().Value("web", 3)
		o.watch(time.Minute)
	},
	reason.DirectionDisabled: runWithLoad(6, 6, 3, withRules(nil, &policy.ScalingRules{SelectPolicy: policy.DisabledChange})),
	reason.PlatformMax: func(w *daemontest.World, o *collectedCodes) {
		w.AddWithValue("web", 3, 6)
		retarget(w, func(target *targettest.MemoryTarget) { target.Max = new(int32(3)) })
		w.Start()
		o.watch(time.Minute)
	},
	reason.PlatformMin: func(w *daemontest.World, o *collectedCodes) {
		w.AddWithValue("web", 6, 3)
		retarget(w, func(target *targettest.MemoryTarget) { target.Min = new(int32(6)) })
		w.Start()
		o.watch(6 * time.Minute)
	},
	reason.ScalingDisabled: func(w *daemontest.World, o *collectedCodes) {
		w.AddWithValue("web", 0, 3)
		w.Start()
		o.watch(time.Minute)
	},
	reason.DryRun: func(w *daemontest.World, o *collectedCodes) {
		w.DryRun = true
		w.AddWithValue("web", 3, 6)
		w.Start()
		o.watch(time.Minute)
	},
	reason.Paused: func(w *daemontest.World, o *collectedCodes) {
		w.AddWithValue("web", 3, 3)
		w.Start()
		w.Pause(policy.Scope{}, policy.Up, 0)
		w.Source().Value("web", 6)
		o.watch(time.Minute)
	},
	reason.BreakerOpen: func(w *daemontest.World, o *collectedCodes) {
		w.AddWithValue("web", 10, 10)
		w.Breaker = &config.Breaker{MaxRemoved: 10, Window: time.Hour}
		w.Config.Daemon.DownscaleStabilization = 0
		w.Start()
		w.Source().Value("web", 6)
		o.watch(time.Minute)
	},
	reason.ModeRecommend: inMode(policy.ModeRecommend),
	reason.ModeOff:       inMode(policy.ModeOff),
	reason.Commanded: func(w *daemontest.World, o *collectedCodes) {
		w.AddWithValue("web", 3, 3)
		w.Start()
		o.watch(time.Minute)
		if err := w.ScaleTo("web", 5, false); err != nil {
			w.T.Error(err)
		}
		o.watch(time.Minute)
	},
	reason.Held: func(w *daemontest.World, o *collectedCodes) {
		w.AddWithValue("web", 3, 6)
		retarget(w, func(target *targettest.MemoryTarget) { target.Hold = &policy.Hold{Reason: "Busy", Message: "busy"} })
		w.Start()
		o.watch(time.Minute)
	},
	reason.ImplausibleReading: func(w *daemontest.World, o *collectedCodes) {
		w.AddWithValue("web", 10, 10, func(a *config.Autoscaler) { a.Guard = config.Guard{Drop: 50, Confirm: 3} })
		w.Start()
		o.watch(time.Minute)
		retarget(w, func(target *targettest.MemoryTarget) { target.Replicas = 2 })
		o.watch(time.Minute)
	},
	reason.FailedGetScale:   fails(targettest.SnapshotCall, targets.ErrTransient),
	reason.TargetNotFound:   fails(targettest.SnapshotCall, targets.ErrTargetNotFound),
	reason.TargetUnscalable: fails(targettest.SnapshotCall, targets.ErrUnscalable),
	reason.Forbidden:        fails(targettest.WriteCall, targets.ErrForbidden),
	reason.FailedComputeMetricsReplicas: func(w *daemontest.World, o *collectedCodes) {
		w.Add("web", 3)
		w.Start()
		o.watch(time.Minute)
	},
	reason.FailedUpdateScale: fails(targettest.WriteCall, targets.ErrTransient),
	reason.UnknownOutcome:    fails(targettest.WriteCall, targets.ErrUnknownOutcome),
	reason.ForeignWriter: func(w *daemontest.World, o *collectedCodes) {
		w.AddWithValue("web", 3, 6)
		w.Fleet().Inject(targettest.Fault{Call: targettest.WriteCall, Rival: func() {
			retarget(w, func(target *targettest.MemoryTarget) { target.Replicas++ })
		}, Times: 2})
		w.Start()
		o.watch(time.Second)
	},
	reason.NotOwner: func(w *daemontest.World, o *collectedCodes) {
		w.Until = time.Now // the lease has expired
		w.AddWithValue("web", 3, 6)
		w.Start()
		o.watch(time.Second)
	},
	reason.Panicked: func(w *daemontest.World, o *collectedCodes) {
		w.AddWithValue("web", 3, 6)
		w.Fleet().Inject(targettest.Fault{Call: targettest.WriteCall, Panic: "boom", Times: 1})
		w.Start()
		o.watch(time.Second)
	},
	reason.Quarantined: func(w *daemontest.World, o *collectedCodes) {
		w.AddWithValue("web", 3, 3)
		w.Start()
		o.watch(time.Minute)
		w.Source().Value("web", 6)
		w.Fleet().Inject(targettest.Fault{Call: targettest.WriteCall, Panic: "boom", Times: 3})
		o.watch(2 * time.Minute)
	},
	reason.Late: func(w *daemontest.World, o *collectedCodes) {
		// The timeout of the write, 5 s, ends between two ticks.
		w.AddWithValue("web", 3, 6, func(a *config.Autoscaler) { a.SyncPeriod = 2 * time.Second })
		w.Fleet().Inject(targettest.Fault{Call: targettest.WriteCall, Hang: true, Times: 1})
		w.Start()
		o.watch(time.Minute)
	},
	reason.Abandoned: func(w *daemontest.World, o *collectedCodes) {
		w.AddWithValue("web", 3, 6)
		w.Source().Hang("web")
		w.Start()
		w.Advance(time.Second)
	},
}

// waits maps codes to the reason why the next change waits, which is not part of the algorithm: an
// unsettled write, a quarantine, a dry run, and a hold that only the write detected.
var waits = map[reason.Code]string{
	reason.UnknownOutcome: "UnknownOutcome", reason.Quarantined: "Quarantined", reason.DryRun: "DryRun", reason.Held: "Busy",
}

// TestEveryReasonIsReported checks that a pass can end with each code, and that no pass ends
// without a code. The metrics, the view and the history contain the code.
func TestEveryReasonIsReported(t *testing.T) {
	for _, code := range reason.All() {
		t.Run(code.String(), func(t *testing.T) {
			ends := scenarios[code]
			if ends == nil {
				t.Fatal("no scenario produces this code")
			}
			daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
				o := &collectedCodes{w: w, reg: prometheus.NewRegistry(), shown: map[string]bool{}}
				w.Metrics = metrics.New(o.reg)
				ends(w, o)
				if wait := waits[code]; wait != "" {
					next := w.View("web").Next
					if next == nil || !slices.ContainsFunc(next.Waits, func(w policy.Wait) bool { return w.Reason == wait }) {
						t.Errorf("next = %+v, want a wait for %s", next, wait)
					}
				}
				w.Stop()
				codes, passes := o.counted(t)
				if codes[code.String()] == 0 {
					t.Errorf("counted codes = %v, want this code", slices.Sorted(maps.Keys(codes)))
				}
				if code != reason.Abandoned && !o.shown[code.String()] {
					t.Errorf("codes in the views = %v, want this code", slices.Sorted(maps.Keys(o.shown)))
				}
				ended := -passes
				for name, n := range codes {
					if name != reason.Panicked.String() && name != reason.Quarantined.String() && name != reason.Late.String() && name != reason.Abandoned.String() {
						ended += n
					}
				}
				if ended != 0 {
					t.Errorf("%v passes, but counters by reason = %v", ended, codes)
				}
				for _, entry := range w.HistoryOf("web") {
					if entry.Reload == nil && !o.shown[entry.Reason] {
						t.Errorf("history: %q at %s; codes in the views: %v", entry.Reason, entry.Time, slices.Sorted(maps.Keys(o.shown)))
					}
				}
			})
		})
	}
}
