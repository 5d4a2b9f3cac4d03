package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/test/internal/installed"
)

// shared is the result of measuring a cluster whose members share fleets through etcd.
type shared struct {
	row row
	// passes and cpu are sums over all members. busy and rss are the CPU time and memory use of the
	// member with the most fleets. The idle values are from the member with the fewest fleets,
	// which might be a standby.
	passes        float64
	cpu           time.Duration
	busy, idle    time.Duration
	rss, idleRSS  int64
	idleOwns      float64
	writes        float64
	stored        int64
	stopped, died time.Duration
	load          string
}

// sharing is the table of costs and failover times of clusters.
var sharing = table[*shared]{
	head: []string{
		"members", "fleets", "autoscalers", "period", "cpu s per 1,000 evaluations, all members", "busiest member: % of a core", "RSS MiB",
		"least busy member: fleets", "% of a core", "RSS MiB", "etcd commits per second", "MiB", "stopped: all evaluated again s", "killed: s", "load",
	},
	cells: func(m *shared) []string {
		part := func(cpu time.Duration) string {
			return fmt.Sprintf("%.1f", 100*cpu.Seconds()/(float64(m.row.periods)*m.row.period.Seconds()))
		}
		stopped, died := seconds(m.stopped), seconds(m.died)
		if m.row.members == 1 {
			stopped, died = "", ""
		}
		return []string{
			strconv.Itoa(m.row.members), strconv.Itoa(m.row.fleets), strconv.Itoa(m.row.n), m.row.period.String(), fmt.Sprintf("%.3f", m.cpu.Seconds()/max(1, m.passes)*1000),
			part(m.busy), strconv.FormatInt(m.rss/mebibyte, 10), fmt.Sprintf("%.0f", m.idleOwns), part(m.idle), strconv.FormatInt(m.idleRSS/mebibyte, 10),
			fmt.Sprintf("%.1f", m.writes), strconv.FormatInt(m.stored/mebibyte, 10), stopped, died, m.load,
		}
	},
}

// group contains the measured members and their store.
type group struct {
	row     row
	members []*hpad
	worlds  []*environment
	etcd    *process
	store   string
}

// measureShared measures the members of a cluster. If there are several, it also stops one and
// kills one.
func measureShared(ctx context.Context, program string, r row) (*shared, error) {
	dir, err := os.MkdirTemp("", "hpad-scale-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	g := &group{row: r}
	defer g.end()
	if err := g.begin(ctx, program, dir); err != nil {
		return nil, err
	}
	m := &shared{row: r}
	if err := g.settle(ctx); err != nil {
		return nil, err
	}
	if err := g.measure(ctx, m); err != nil {
		return nil, err
	}
	if r.members == 1 { // failover requires another member
		return m, nil
	}
	if m.stopped, err = g.failover(ctx, (*hpad).end); err != nil {
		return nil, err
	}
	m.died, err = g.failover(ctx, func(h *hpad) error {
		h.Kill()
		return nil
	})
	return m, err
}

func (g *group) begin(ctx context.Context, program, dir string) error {
	binary, err := installed.Program("etcd")
	if err != nil {
		return fmt.Errorf("%w; run test/install/etcd.sh", err)
	}
	addresses, err := free(2 + g.row.members)
	if err != nil {
		return err
	}
	g.store = "http://" + addresses[0]
	peer := "http://" + addresses[1]
	if g.etcd, err = start(filepath.Join(dir, "etcd.log"), binary, "--name", "a", "--data-dir", filepath.Join(dir, "etcd"),
		"--listen-client-urls", g.store, "--advertise-client-urls", g.store, "--listen-peer-urls", peer,
		"--initial-advertise-peer-urls", peer, "--initial-cluster", "a="+peer, "--auto-compaction-retention=1h"); err != nil {
		return err
	}
	var autoscalers strings.Builder
	for i := range g.row.fleets {
		one := g.row
		one.n /= one.fleets
		one.changes = g.row.changes / float64(one.fleets)
		world, err := startEnvironment(ctx, one)
		if err != nil {
			return err
		}
		g.worlds = append(g.worlds, world)
		fleet := fmt.Sprint("fleet", i)
		autoscalers.WriteString(world.autoscalers(one, fleet, fleet+"-"))
	}
	for i := range g.row.members {
		own := filepath.Join(dir, fmt.Sprint("member", i))
		if err := os.Mkdir(own, 0o700); err != nil {
			return err
		}
		address := addresses[2+i]
		text := fmt.Sprintf("[daemon]\nlisten = %q\nsocket = %q\nstate_dir = %q\nsync_period = %q\n[ha]\nmember = \"hpad-%d\"\naddress = \"http://%s\"\netcd = { endpoints = [%q] }\n%s",
			address, filepath.Join(own, "sock"), filepath.Join(own, "state"), g.row.period, i, address, g.store, &autoscalers)
		if err := os.WriteFile(filepath.Join(own, "hpad.toml"), []byte(text), 0o600); err != nil {
			return err
		}
		h, err := startHpad(program, own)
		if err != nil {
			return err
		}
		g.members = append(g.members, h)
	}
	return nil
}

func (g *group) end() {
	for _, h := range g.members {
		if !h.Ended() {
			_ = h.end()
		}
	}
	for _, world := range g.worlds {
		world.end()
	}
	if g.etcd != nil {
		_ = g.etcd.stop()
	}
}

// free returns the given number of free loopback addresses.
func free(count int) ([]string, error) {
	var addresses []string
	for range count {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer func() { _ = listener.Close() }()
		addresses = append(addresses, listener.Addr().String())
	}
	return addresses, nil
}

// owned returns the number of fleets that each member owns, and whether every fleet has an owner.
func (g *group) owned(ctx context.Context) (owned []float64, all bool) {
	owned, sum := make([]float64, len(g.members)), 0.0
	for i, h := range g.members {
		if h.Ended() {
			continue
		}
		owned[i], _ = h.value(ctx, "hpad_cluster_owned_fleets") // a member that is starting owns no fleets
		sum += owned[i]
	}
	return owned, int(sum) >= len(g.worlds)
}

func (s *socket) value(ctx context.Context, name string) (float64, error) {
	var text strings.Builder
	if _, err := s.scrape(ctx, &text, name); err != nil {
		return 0, err
	}
	return valueIn(text.String(), name), nil
}

// valueIn returns the value of a metric without labels in a scrape, or 0.
func valueIn(text, name string) float64 {
	for line := range strings.Lines(text) {
		if number, ok := strings.CutPrefix(strings.TrimSpace(line), name+" "); ok {
			value, _ := strconv.ParseFloat(number, 64)
			return value
		}
	}
	return 0
}

// settle waits until every autoscaler has been evaluated and no fleet has moved for two periods.
func (g *group) settle(ctx context.Context) error {
	begun, before, same := time.Now(), "", 0
	for same < 2 {
		toTick(ctx, g.row.period)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if time.Since(begun) > patience {
			return errors.New("the fleets have not settled")
		}
		for _, h := range g.members {
			if err := h.running(); err != nil {
				return err
			}
		}
		owned, all := g.owned(ctx)
		now := fmt.Sprint(owned)
		if same++; now != before || !all || !g.evaluated(ctx, time.Now().Add(-2*g.row.period)) {
			same = 0
		}
		before = now
	}
	return nil
}

// evaluated reports whether the owners have evaluated every autoscaler since the given time.
func (g *group) evaluated(ctx context.Context, after time.Time) bool {
	count := 0
	for _, h := range g.members {
		if h.Ended() {
			continue
		}
		alone := api.NewClient(filepath.Join(h.dir, "sock")).For("scale")
		for view, err := range alone.EachBriefly(ctx) {
			if err != nil || view.Evaluation.Unevaluated || !view.Evaluation.Last.After(after) {
				return false
			}
			count++
		}
	}
	return count >= g.row.n/len(g.worlds)*len(g.worlds)
}

func (g *group) measure(ctx context.Context, m *shared) error {
	begun := time.Now()
	written, _, err := g.stored(ctx)
	if err != nil {
		return err
	}
	used, passes := make([]time.Duration, len(g.members)), make([]counts, len(g.members))
	for i, h := range g.members {
		used[i], err = h.cpu()
		var e error
		passes[i], e = h.count(ctx)
		if err = errors.Join(err, e); err != nil {
			return err
		}
	}
	pause(ctx, time.Duration(m.row.periods)*m.row.period)
	owned, _ := g.owned(ctx)
	most, least := slices.Index(owned, slices.Max(owned)), len(owned)-1
	for i, some := range owned {
		if some < owned[least] {
			least = i
		}
	}
	for i, h := range g.members {
		now, err := h.cpu()
		c, e := h.count(ctx)
		if err = errors.Join(err, e); err != nil {
			return err
		}
		m.cpu += now - used[i]
		m.passes += c.passes - passes[i].passes
		rss, _ := h.memory()
		if i == most {
			m.busy, m.rss = now-used[i], rss
		}
		if i == least {
			m.idle, m.idleRSS, m.idleOwns = now-used[i], rss, owned[i]
		}
	}
	after, size, err := g.stored(ctx)
	m.writes, m.stored, m.load = (after-written)/time.Since(begun).Seconds(), size, loadAverage()
	return err
}

// stored returns the number of writes to etcd and the size of its data.
func (g *group) stored(ctx context.Context) (writes float64, size int64, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, g.store+"/metrics", nil)
	if err != nil {
		return 0, 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	return valueIn(string(text), "etcd_server_proposals_committed_total"), int64(valueIn(string(text), "etcd_mvcc_db_total_size_in_use_in_bytes")), err
}

// failover ends the member that owns the most fleets and returns the time until every autoscaler
// has been evaluated. It then restarts the member and waits until the cluster has settled.
func (g *group) failover(ctx context.Context, end func(*hpad) error) (time.Duration, error) {
	owned, _ := g.owned(ctx)
	most := slices.Index(owned, slices.Max(owned))
	gone := g.members[most]
	begun := time.Now()
	if err := end(gone); err != nil {
		return 0, err
	}
	var took time.Duration
	for ctx.Err() == nil {
		took = time.Since(begun)
		if _, all := g.owned(ctx); all && g.evaluated(ctx, begun) {
			break
		}
		if took > patience {
			return took, errors.New("not all autoscalers were evaluated")
		}
		pause(ctx, time.Second/4)
	}
	h, err := startHpad(gone.program, gone.dir)
	if err != nil {
		return took, err
	}
	g.members[most] = h
	return took, g.settle(ctx)
}
