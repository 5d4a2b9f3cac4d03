package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// patience is the maximum time that a program takes to start.
const patience = 10 * time.Minute

// counts contains the numbers of all, failed and late passes of a program.
type counts struct{ passes, failed, late float64 }

// measured is a program under measurement.
type measured interface {
	running() error
	output() []byte
	cpu() (time.Duration, error)
	memory() (now, peak int64)
	touch(context.Context)
	count(context.Context) (counts, error)
}

// result contains the measurements of a row.
type result struct {
	program     string
	row         row
	passes      counts
	cpu         time.Duration
	rss, peak   int64
	connections int64
	reactions   []time.Duration
	// waiting is the number of jobs without the requested count at the end.
	waiting int
	load    string
	// Durations of operators' requests.
	scrape, get, check, checkCPU time.Duration
	scraped                      int64
	restartFirst, restartAll     time.Duration
}

// measure waits for the warm-up periods of a program and then measures it.
func measure(ctx context.Context, p measured, s *environment, m *result) error {
	if m.row.touch {
		touching, stop := context.WithCancel(ctx)
		defer stop()
		go p.touch(touching)
	}
	begun := time.Now()
	for waited := 0; ; waited++ {
		toTick(ctx, m.row.period)
		if err := p.running(); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		c, err := p.count(ctx)
		if waited >= m.row.warm && err == nil && c.passes-c.failed >= float64(m.row.n) || time.Since(begun) > patience {
			break
		}
	}
	toTick(ctx, m.row.period)
	before, err := p.count(ctx)
	if err != nil {
		return err
	}
	s.Reactions()
	used, err := p.cpu()
	if err != nil {
		return err
	}
	if m.row.burst {
		bursting, stop := context.WithCancel(ctx)
		defer stop()
		go startBursts(bursting, s, m.row)
	}
	m.rss = rssOver(ctx, p, m.row)
	after, err := p.cpu()
	if err != nil {
		return err
	}
	m.cpu = after - used
	_, m.peak = p.memory()
	m.reactions, _, m.waiting = s.Reactions()
	m.connections = s.open.Load()
	m.load = loadAverage()
	c, err := p.count(ctx)
	m.passes = counts{passes: c.passes - before.passes, failed: c.failed - before.failed, late: c.late - before.late}
	if m.passes.failed > 0 || m.passes.passes == 0 {
		fmt.Fprintf(os.Stderr, "%s, n = %d, last output:\n%s\n", m.program, m.row.n, p.output())
	}
	return err
}

// startBursts changes a tenth of the jobs in the first of every burstEvery periods.
func startBursts(ctx context.Context, s *environment, r row) {
	for number := range r.periods / burstEvery {
		s.Burst(ctx, number, r.n/10, r.period)
		pause(ctx, (burstEvery-1)*r.period)
	}
}

// rssOver waits for the periods of a row and returns the mean resident set size during this time.
func rssOver(ctx context.Context, p measured, r row) int64 {
	end := time.Now().Add(time.Duration(r.periods) * r.period)
	var sum, samples int64
	for ctx.Err() == nil && time.Now().Before(end) {
		now, _ := p.memory()
		sum, samples = sum+now, samples+1
		pause(ctx, min(200*time.Millisecond, time.Until(end)))
	}
	return sum / max(1, samples)
}

func toTick(ctx context.Context, period time.Duration) {
	at := time.Now().Truncate(period).Add(period - period/20)
	if !at.After(time.Now()) {
		at = at.Add(period)
	}
	pause(ctx, time.Until(at))
}

func pause(ctx context.Context, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// quantile returns a quantile of the reaction times.
func (m *result) quantile(part float64) time.Duration {
	if len(m.reactions) == 0 {
		return 0
	}
	slices.Sort(m.reactions)
	return m.reactions[int(part*float64(len(m.reactions)-1))]
}

// perThousand returns the CPU time per 1,000 evaluations in seconds.
func (m *result) perThousand() float64 { return m.cpu.Seconds() / max(1, m.passes.passes) * 1000 }

// core returns the CPU use as a percentage of one core.
func (m *result) core() float64 {
	return 100 * m.cpu.Seconds() / (float64(m.row.periods) * m.row.period.Seconds())
}

const mebibyte = 1 << 20

// table contains the columns of a table of results.
type table[T any] struct {
	head  []string
	cells func(T) []string
}

// costs is the table of costs and reaction times.
var costs = table[*result]{
	head: []string{
		"program", "autoscalers", "period", "query", "allocations", "cpu s per 1,000 evaluations", "% of a core", "RSS MiB", "peak MiB", "connections",
		"reaction p50 s", "p99 s", "evaluations", "failed", "late", "load",
	},
	cells: func(m *result) []string {
		query, allocs := "shared", "1 to 20"
		if m.row.each {
			query = "each"
		}
		if m.row.document {
			query = "document"
		}
		if m.row.single {
			allocs = "1"
		}
		program := m.program
		if m.row.exec {
			program += ", a fleet of kind exec"
		}
		return []string{
			program, strconv.Itoa(m.row.n), m.row.period.String(), query, allocs, fmt.Sprintf("%.3f", m.perThousand()), fmt.Sprintf("%.1f", m.core()),
			strconv.FormatInt(m.rss/mebibyte, 10), strconv.FormatInt(m.peak/mebibyte, 10), strconv.FormatInt(m.connections, 10),
			seconds(m.quantile(.5)), seconds(m.quantile(.99)), fmt.Sprintf("%.0f", m.passes.passes), fmt.Sprintf("%.0f", m.passes.failed), fmt.Sprintf("%.0f", m.passes.late), m.load,
		}
	},
}

// bursts is the table of the reactions to bursts of load changes.
var bursts = table[*result]{
	head: []string{
		"program", "autoscalers", "latency ms", "load changes", "pending", "late", "failed", "reaction p50 s", "p99 s", "max s", "% of a core", "RSS MiB", "load",
	},
	cells: func(m *result) []string {
		return []string{
			m.program, strconv.Itoa(m.row.n), strconv.FormatInt(m.row.latency.Milliseconds(), 10), strconv.Itoa(len(m.reactions) + m.waiting), strconv.Itoa(m.waiting),
			fmt.Sprintf("%.0f", m.passes.late), fmt.Sprintf("%.0f", m.passes.failed),
			seconds(m.quantile(.5)), seconds(m.quantile(.99)), seconds(m.quantile(1)), fmt.Sprintf("%.1f", m.core()), strconv.FormatInt(m.rss/mebibyte, 10), m.load,
		}
	},
}

// extras is the table of operator requests.
var extras = table[*result]{
	head: []string{
		"program", "autoscalers", "restart: first decision s", "all s", "get s", "scrape s", "of MiB", "check s", "cpu s",
	},
	cells: func(m *result) []string {
		return []string{
			m.program, strconv.Itoa(m.row.n), seconds(m.restartFirst), seconds(m.restartAll), seconds(m.get),
			seconds(m.scrape), strconv.FormatInt(m.scraped/mebibyte, 10), seconds(m.check), seconds(m.checkCPU),
		}
	},
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f", d.Seconds()) }

// writeHeader writes the header in Markdown.
func (t table[T]) writeHeader(out io.Writer) {
	_, _ = fmt.Fprintf(out, "| %s |\n%s|\n", strings.Join(t.head, " | "), strings.Repeat("|---", len(t.head)))
}

func (t table[T]) writeRow(out io.Writer, m T) {
	_, _ = fmt.Fprintf(out, "| %s |\n", strings.Join(t.cells(m), " | "))
}

// write writes the table after an empty line. Without rows, it writes nothing.
func (t table[T]) write(out io.Writer, rows []T) {
	if len(rows) == 0 {
		return
	}
	_, _ = fmt.Fprintln(out)
	t.writeHeader(out)
	for _, m := range rows {
		t.writeRow(out, m)
	}
}
