package systemd

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/ledger"
	"github.com/hpad/hpad/targets/probe"
)

const (
	// probesAtOnce bounds the probes of one target that are under way.
	probesAtOnce = 16
	// lastSave is how long the verdicts may take to be saved when the fleet is closed.
	lastSave = 5 * time.Second
)

// prober probes the instances of one target for readiness at an interval.
type prober struct {
	template template
	probe    ReadyProbe
	// verdicts are the last ones of all instances, which they have after a restart until
	// they are probed again.
	verdicts *ledger.Ledger[ledger.Map[verdict]]
	ctx      context.Context
	cancel   context.CancelFunc
	loop     sync.WaitGroup

	mu sync.Mutex
	// probed are the running instances, by name.
	probed map[string]*probed
	loaded bool
}

type probed struct {
	index      int32
	activation string
	asked      bool
	verdict    probe.Verdict
	changed    time.Time
}

// verdict is what the store keeps of an instance: since when it is ready, or not.
type verdict struct {
	Activation string    `json:"activation"`
	Ready      bool      `json:"ready"`
	Changed    time.Time `json:"changed"`
}

func newProber(t *target, store targets.Store) *prober {
	p := &prober{template: t.template, probe: t.config.ReadyProbe, verdicts: ledger.New[ledger.Map[verdict]](store, verdictPrefix), probed: map[string]*probed{}}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.loop.Go(p.run)
	return p
}

const verdictPrefix = "ready/"

// saved returns the last verdicts, by the instances' names.
func (p *prober) saved() ledger.Map[verdict] {
	saved, _ := p.verdicts.Of(p.template.file())
	return saved
}

func (p *prober) close() {
	p.cancel()
	p.loop.Wait()
}

// watch sets which instances are to be probed.
func (p *prober) watch(units map[int32]unit, known *particulars) {
	p.mu.Lock()
	defer p.mu.Unlock()
	listed := map[string]bool{}
	for index, u := range units {
		if u.state != running {
			continue
		}
		listed[u.Name] = true
		d, _ := known.of(u.Name)
		if now := p.probed[u.Name]; now == nil || now.activation != d.activation {
			p.probed[u.Name] = p.newProbed(index, u.Name, d)
		}
	}
	maps.DeleteFunc(p.probed, func(name string, _ *probed) bool { return !listed[name] })
}

// newProbed returns an instance that was not probed yet, with its saved verdict.
func (p *prober) newProbed(index int32, name string, d details) *probed {
	if before, ok := p.saved()[name]; ok && before.Activation == d.activation {
		return &probed{index: index, activation: d.activation, asked: true, verdict: probe.Verdict{Ready: before.Ready}, changed: before.Changed}
	}
	return &probed{index: index, activation: d.activation, changed: d.active}
}

// readiness returns the verdict on an instance, and since when; active is since when it
// is.
func (p *prober) readiness(name, activation string, active time.Time) (policy.Readiness, time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.probed[name]
	if now == nil || now.activation != activation {
		if before, ok := p.saved()[name]; ok && before.Activation == activation && before.Ready {
			return policy.ReadinessTrue, before.Changed
		}
		return policy.ReadinessFalse, active
	}
	if now.verdict.Ready {
		return policy.ReadinessTrue, now.changed
	}
	return policy.ReadinessFalse, now.changed
}

func (p *prober) run() {
	ticker := time.NewTicker(p.probe.Interval)
	defer ticker.Stop()
	for {
		p.pass()
		p.save(p.ctx)
		select {
		case <-ticker.C:
		case <-p.ctx.Done():
			ctx, cancel := context.WithTimeout(context.Background(), lastSave)
			defer cancel()
			p.save(ctx) // what the last pass entered before it was ended
			return
		}
	}
}

func (p *prober) pass() {
	p.mu.Lock()
	all := maps.Clone(p.probed)
	p.mu.Unlock()
	var group errgroup.Group
	group.SetLimit(probesAtOnce)
	for name, instance := range all {
		group.Go(func() error {
			err := p.probe.ask(p.ctx, instance.index)
			if p.ctx.Err() == nil {
				p.enter(name, instance, err)
			}
			return nil
		})
	}
	_ = group.Wait() // each instance has its own verdict
}

// enter weighs an instance's probe; an error means that it is not ready.
func (p *prober) enter(name string, instance *probed, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.probed[name] != instance {
		return // it is another one by now
	}
	turned := p.probe.Weigh(&instance.verdict, err)
	if instance.asked && !turned {
		return
	}
	if turned || instance.changed.IsZero() {
		instance.changed = time.Now()
	}
	instance.asked = true
	p.change(func(all ledger.Map[verdict]) {
		all[name] = verdict{Activation: instance.activation, Ready: instance.verdict.Ready, Changed: instance.changed}
		maps.DeleteFunc(all, func(name string, _ verdict) bool { return p.probed[name] == nil })
	})
}

func (p *prober) change(change func(all ledger.Map[verdict])) {
	p.verdicts.Change(p.template.file(), func(before ledger.Map[verdict]) ledger.Map[verdict] { return before.With(change) })
}

// load loads the verdicts of before, once. Where that cannot be done the instances are
// probed anew.
func (p *prober) load(ctx context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.loaded {
		return
	}
	saved, _, err := p.verdicts.Read(ctx, p.template.file())
	if _, garbled := errors.AsType[*ledger.GarbledError](err); err != nil && !garbled {
		return
	}
	p.loaded = true
	newer := p.saved()
	p.verdicts.Keep(p.template.file(), saved)
	p.change(func(all ledger.Map[verdict]) { maps.Copy(all, newer) })
}

// save saves the verdicts where they changed; what cannot be saved is by the next pass.
func (p *prober) save(ctx context.Context) {
	p.mu.Lock()
	loaded := p.loaded
	p.mu.Unlock()
	if loaded {
		_ = p.verdicts.Save(ctx, p.template.file())
	}
}

// ask probes one instance; an error means that it is not ready.
func (r ReadyProbe) ask(ctx context.Context, index int32) error {
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	if r.TCP != "" {
		return probe.TCP(ctx, atIndex(r.TCP, index))
	}
	return probe.HTTP(ctx, atIndex(r.HTTP, index))
}
