package systemd

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/hpad/hpad/guard"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/probe"
	"github.com/hpad/hpad/targets/replicas"
)

const (
	// maxProbes limits the concurrent probes of one target.
	maxProbes = 16
	// finalSaveTimeout limits the last write when the fleet is closed.
	finalSaveTimeout = 5 * time.Second
	verdictPrefix    = "ready/"
)

// prober probes the instances of one target for readiness at an interval.
type prober struct {
	template template
	probe    readyProbe
	// verdicts stores the results. After a restart of hpad they remain valid until the next
	// probe.
	verdicts *replicas.Store[map[string]verdict]
	ctx      context.Context
	cancel   context.CancelFunc
	loop     guard.Tasks

	mu sync.Mutex
	// probed contains the running instances, by name.
	probed map[string]*probed
	loaded bool
}

type probed struct {
	index  int32
	probes probe.State
	verdict
	// stored reports whether the verdict is in the store.
	stored bool
}

// verdict is the stored readiness of an instance.
type verdict struct {
	Activation string `json:"activation"`
	Ready      bool   `json:"ready"`
	// Changed is the time of the last change of Ready.
	Changed time.Time `json:"changed"`
}

func newProber(t *target, store targets.Store) *prober {
	p := &prober{template: t.template, probe: t.config.ReadyProbe, verdicts: replicas.New[map[string]verdict](store, verdictPrefix), probed: map[string]*probed{}}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.loop.Go(func() { guard.Loop(p.ctx, p.run) })
	return p
}

func (p *prober) close() {
	p.cancel()
	p.loop.Wait()
}

// load reads the stored verdicts once. After an error, the instances are treated as not probed.
func (p *prober) load(ctx context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.loaded {
		p.loaded = true
		saved, _, _ := p.verdicts.Read(ctx, p.template.file())
		p.verdicts.Set(p.template.file(), saved)
	}
}

// saved returns the stored verdict of one activation of an instance.
func (p *prober) saved(name, activation string) (verdict, bool) {
	all, _ := p.verdicts.Get(p.template.file())
	v, ok := all[name]
	return v, ok && v.Activation == activation
}

// watch sets the instances to probe.
func (p *prober) watch(units map[int32]unit, cache *detailCache) {
	p.mu.Lock()
	defer p.mu.Unlock()
	listed := map[string]bool{}
	for index, u := range units {
		if u.state != running {
			continue
		}
		listed[u.Name] = true
		d, _ := cache.get(u.Name)
		if now := p.probed[u.Name]; now != nil && now.Activation == d.activation {
			continue
		}
		next := &probed{index: index, verdict: verdict{Activation: d.activation, Changed: d.active}}
		if saved, ok := p.saved(u.Name, d.activation); ok {
			next.verdict, next.probes.Ready, next.stored = saved, saved.Ready, true
		}
		p.probed[u.Name] = next
	}
	maps.DeleteFunc(p.probed, func(name string, _ *probed) bool { return !listed[name] })
}

// readiness returns the readiness of an instance, the time of its last change, which is active if
// there is no verdict, and the reason why it is not ready.
func (p *prober) readiness(name, activation string, active time.Time) (_ policy.Readiness, changed time.Time, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	v, state := verdict{Changed: active}, probe.State{}
	if now := p.probed[name]; now != nil && now.Activation == activation {
		v, state = now.verdict, now.probes
	} else if saved, ok := p.saved(name, activation); ok && saved.Ready {
		v = saved
	}
	if v.Ready {
		return policy.ReadinessTrue, v.Changed, ""
	}
	return policy.ReadinessFalse, v.Changed, state.Reason()
}

func (p *prober) run() {
	ticker := time.NewTicker(p.probe.Interval)
	defer ticker.Stop()
	for {
		p.pass()
		_ = p.verdicts.Save(p.ctx, p.template.file()) // the next pass retries
		select {
		case <-ticker.C:
		case <-p.ctx.Done():
			ctx, cancel := context.WithTimeout(context.Background(), finalSaveTimeout)
			defer cancel()
			_ = p.verdicts.Save(ctx, p.template.file())
			return
		}
	}
}

func (p *prober) pass() {
	p.mu.Lock()
	all := maps.Clone(p.probed)
	p.mu.Unlock()
	var group guard.Group
	group.SetLimit(maxProbes)
	for name, instance := range all {
		group.Go(func() error {
			err := p.probe.run(p.ctx, instance.index)
			if p.ctx.Err() == nil {
				p.add(name, instance, err)
			}
			return nil
		})
	}
	_ = group.Wait() // each instance has its own verdict
}

// add records the result of a probe. An error means that the instance is not ready.
func (p *prober) add(name string, instance *probed, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.probed[name] != instance {
		return // the instance has been restarted
	}
	changed := p.probe.Add(&instance.probes, err)
	if instance.stored && !changed {
		return
	}
	if changed || instance.Changed.IsZero() {
		instance.Changed = time.Now()
	}
	instance.Ready, instance.stored = instance.probes.Ready, true
	p.verdicts.Change(p.template.file(), func(before map[string]verdict) map[string]verdict {
		next := map[string]verdict{name: instance.verdict}
		for other, v := range before {
			if other != name && p.probed[other] != nil {
				next[other] = v
			}
		}
		return next
	})
}

// run probes one instance. An error means that the instance is not ready.
func (r readyProbe) run(ctx context.Context, index int32) error {
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	if r.TCP != "" {
		return probe.TCP(ctx, atIndex(r.TCP, index))
	}
	return probe.HTTP(ctx, atIndex(r.HTTP, index))
}
