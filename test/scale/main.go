// Command scale measures the costs of hpad and of nomad-autoscaler with a simulated Nomad
// cluster and Prometheus server.
//
//	go run ./test/scale -n 1000                       one row: this tree's hpad, 1,000 jobs, a shared query
//	go run ./test/scale -n 1000 -query each           a query for each autoscaler
//	go run ./test/scale -n 10000 -query document      a JSON document of an http source instead of a query
//	go run ./test/scale -n 10000 -programs ./before,hpad -times 2   two programs in turn
//	go run ./test/scale -n 100000 -single -extra      one allocation per job; also restart, get, scrape and check
//	go run ./test/scale -n 10000 -burst -latency 10ms               a tenth of the jobs changes within one period
//	go run ./test/scale -n 10000 -touch -programs hpad,nomad-autoscaler    the memory of both programs remains in use
//	go run ./test/scale -steady -write docs/performance.md          the rows that compare costs; -bursts for reactions
//	go run ./test/scale -n 30000 -single -members 3 -fleets 6       a cluster over etcd, which must be installed
//
// The CPU time of the simulator is not counted, but nothing else should run at the same time.
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// row contains the parameters of a measurement.
type row struct {
	n      int
	period time.Duration
	single bool
	each   bool
	// document replaces the shared query with a shared JSON document.
	document bool
	// exec replaces the Nomad fleet with a fleet of kind "exec".
	exec    bool
	changes float64
	// warm is the number of periods before the measurement. periods is the number of measured
	// periods.
	warm, periods int
	extra         bool
	// burst changes a tenth of the jobs within one period, in the first of every burstEvery measured
	// periods. latency delays each response of the simulated servers.
	burst   bool
	latency time.Duration
	// touch keeps the memory of the programs in use. On some virtual machines, the first access to a
	// page after a second takes up to 25 µs.
	touch bool
	// syncs is hpad's concurrent_syncs; 0 means the default.
	syncs int
	// members is the number of members that share fleets; 0 means no cluster. n is the total
	// number of jobs in all fleets.
	members, fleets int
}

// adapterArgument makes this program an adapter for a fleet of kind "exec".
const adapterArgument = "adapter"

func main() {
	if len(os.Args) == 3 && os.Args[1] == adapterArgument {
		if err := forward(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, "scale:", err)
			os.Exit(1)
		}
		return
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var r row
	var query, programs string
	var all, steady, bursts bool
	var times int
	var page string
	flag.IntVar(&r.n, "n", 1000, "number of jobs, each with an autoscaler")
	flag.DurationVar(&r.period, "period", 15*time.Second, "sync period")
	flag.BoolVar(&r.single, "single", false, "one allocation per job instead of 1 to 20")
	flag.StringVar(&query, "query", "shared", "shared: one query with a series per job; each: one query per job; document: one JSON document with a value per job")
	flag.BoolVar(&r.exec, "exec", false, "a fleet of kind exec with the jobs as targets, instead of a Nomad fleet")
	flag.Float64Var(&r.changes, "changes", -1, "load changes per second; -1 means n/5000, at least 1")
	flag.IntVar(&r.warm, "warm", 2, "minimum number of periods before the measurement")
	flag.IntVar(&r.periods, "periods", 8, "number of measured periods")
	flag.BoolVar(&r.extra, "extra", false, "also measure check, get, a scrape and a restart")
	flag.BoolVar(&r.burst, "burst", false, "change a tenth of the jobs within one period, in every third period")
	flag.DurationVar(&r.latency, "latency", 0, "delay of each response of the simulated servers")
	flag.BoolVar(&r.touch, "touch", false, "keep the memory of the programs in use")
	flag.IntVar(&r.syncs, "syncs", 0, "concurrent_syncs of hpad; 0 means the default")
	flag.IntVar(&r.members, "members", 0, "number of hpads that share fleets through etcd; 0 means no cluster")
	flag.IntVar(&r.fleets, "fleets", 1, "number of shared fleets, each with a part of the jobs")
	flag.StringVar(&programs, "programs", "hpad", `programs to measure, separated by commas: "hpad" (this tree), "nomad-autoscaler", or the path of an hpad`)
	flag.IntVar(&times, "times", 1, "number of measurements of each program")
	flag.BoolVar(&all, "all", false, "measure all rows of docs/performance.md")
	flag.BoolVar(&steady, "steady", false, "measure only the rows with 1,000 and 10,000 jobs of docs/performance.md")
	flag.BoolVar(&bursts, "bursts", false, "measure the rows with bursts of docs/performance.md")
	flag.StringVar(&page, "write", "", "Markdown page whose tables of -all, -steady or -bursts are replaced")
	flag.Parse()
	if !slices.Contains([]string{"shared", "each", "document"}, query) {
		return fmt.Errorf("-query %s: must be shared, each or document", query)
	}
	r.each, r.document = query == "each", query == "document"
	rows, section := []measurement{{r, strings.Split(programs, ",")}}, ""
	switch {
	case all:
		rows, section = slices.Concat(allRows(r), burstRows(r, compared)), "tables"
	case steady:
		rows, section = steadyRows(r), "steady rows"
	case bursts:
		rows, section = burstRows(r, strings.Split(programs, ",")), "bursts"
	}
	if page != "" && section == "" {
		return errors.New("-write needs -all, -steady or -bursts")
	}
	rows = slices.Repeat(rows, times)
	var tables strings.Builder
	b := &bench{built: map[string]string{}, out: io.MultiWriter(os.Stdout, &tables)}
	defer b.clean()
	err := b.measureAll(ctx, rows)
	if page != "" && ctx.Err() == nil {
		err = errors.Join(err, rewrite(page, section, tables.String()))
	}
	return err
}

// forward passes each line of the input to the adapter at an address, and writes the responses.
func forward(address string) error {
	lines := bufio.NewReader(os.Stdin)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return nil // hpad no longer needs the adapter
		}
		response, err := http.Post(address, "application/json", bytes.NewReader(line))
		if err != nil {
			return err
		}
		_, err = io.Copy(os.Stdout, response.Body)
		if err = errors.Join(err, response.Body.Close()); err != nil {
			return err
		}
	}
}

// rewrite replaces the tables in a section of a page, which is between two comments.
func rewrite(page, section, tables string) error {
	begin, end := fmt.Sprintf("<!-- begin of the %s of make scale -->\n", section), fmt.Sprintf("<!-- end of the %s of make scale -->\n", section)
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, rest, begun := strings.Cut(string(text), begin)
	_, after, ended := strings.Cut(rest, end)
	if !begun || !ended {
		return fmt.Errorf("%s does not contain the lines %q and %q", page, begin, end)
	}
	return os.WriteFile(page, []byte(before+begin+"\n"+strings.TrimSpace(tables)+"\n\n"+end+after), 0o644)
}

// settled returns the row with the default rate of load changes if the rate is negative.
func (r row) settled() row {
	if r.changes < 0 {
		r.changes = max(1, float64(r.n)/5000)
	}
	return r
}

// measurement is a row with the programs to measure.
type measurement struct {
	row
	programs []string
}

// compared contains the programs of the rows that compare hpad.
var compared = []string{"nomad-autoscaler", "hpad"}

// burstEvery is the number of periods between the starts of two bursts.
const burstEvery = 3

// burstRows returns the rows with bursts of docs/performance.md. They use the period and the warm-up
// of r.
func burstRows(r row, programs []string) []measurement {
	var rows []measurement
	for _, n := range []int{1000, 10_000} {
		for _, latency := range []time.Duration{0, 10 * time.Millisecond} {
			one := row{n: n, period: r.period, warm: r.warm, periods: 2 * burstEvery, burst: true, latency: latency, changes: -1}
			rows = append(rows, measurement{one, programs})
		}
	}
	return rows
}

// steadyRows returns the rows that compare the costs of hpad with those of nomad-autoscaler, one of
// them with a period of 1 s. They use the period, the warm-up and the number of periods of r.
func steadyRows(r row) []measurement {
	var rows []measurement
	for _, n := range []int{1000, 10_000} {
		rows = append(rows, measurement{row{n: n, period: r.period, warm: r.warm, periods: r.periods, changes: -1}, compared})
	}
	fast := row{n: 10_000, single: true, period: time.Second, warm: r.warm, periods: 60, changes: -1}
	return append(rows, measurement{fast, compared[1:]})
}

// allRows returns the rows without bursts of docs/performance.md. They use the period, the warm-up and the number
// of periods of r unless they need other values.
func allRows(r row) []measurement {
	rows := []measurement{
		{row{n: 100, each: true}, compared},
		{row{n: 100}, compared[1:]},
		{row{n: 1000, each: true}, compared},
		{row{n: 1000}, compared[1:]},
		{row{n: 1000, exec: true}, compared[1:]},
		{row{n: 10_000, each: true}, compared},
		{row{n: 10_000, extra: true}, compared[1:]},
		{row{n: 10_000, single: true}, compared[1:]},
		{row{n: 10_000, single: true, document: true}, compared[1:]},
		{row{n: 10_000, single: true, period: time.Second, periods: 60}, compared[1:]},
		{row{n: 100_000, single: true, extra: true}, compared[1:]},
		{row{n: 10_000, single: true, members: 1, fleets: 1}, compared[1:]},
		{row{n: 30_000, single: true, members: 3, fleets: 6}, compared[1:]},
	}
	for n := range rows {
		one := &rows[n].row
		one.warm, one.changes = r.warm, -1
		if one.period == 0 {
			one.period, one.periods = r.period, r.periods
		}
	}
	return rows
}

// bench measures programs and builds each of them once.
type bench struct {
	built  map[string]string
	cleans []func()
	out    io.Writer
}

func (b *bench) clean() {
	for _, clean := range b.cleans {
		clean()
	}
}

// measureAll measures all rows and prints their tables. After a failed measurement, it continues
// with the next one.
func (b *bench) measureAll(ctx context.Context, rows []measurement) error {
	_, _ = fmt.Fprintf(b.out, "%s\n\n", hostInfo())
	if slices.ContainsFunc(rows, func(m measurement) bool { return m.members == 0 && !m.burst }) {
		costs.writeHeader(b.out)
	}
	var detailed, burst []*result
	var clusters []*shared
	failed := 0
	for _, one := range rows {
		for _, program := range one.programs {
			var err error
			if one.members > 0 {
				var c *shared
				if c, err = b.measureShared(ctx, program, one.settled()); err == nil {
					clusters = append(clusters, c)
				}
			} else {
				var m *result
				m, err = b.measure(ctx, program, one.settled())
				switch {
				case err != nil:
				case one.burst:
					burst = append(burst, m)
					bursts.writeRow(os.Stderr, m)
				default:
					costs.writeRow(b.out, m)
				}
				if err == nil && m.restartAll > 0 {
					detailed = append(detailed, m)
				}
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				failed++
				fmt.Fprintln(os.Stderr, err)
			}
		}
	}
	extras.write(b.out, detailed)
	bursts.write(b.out, burst)
	sharing.write(b.out, clusters)
	if failed > 0 {
		return fmt.Errorf("%d measurements failed", failed)
	}
	return nil
}

// measureShared measures a cluster.
func (b *bench) measureShared(ctx context.Context, program string, r row) (*shared, error) {
	path, err := b.build(ctx, program)
	if err != nil {
		return nil, err
	}
	m, err := measureShared(ctx, path, r)
	if err != nil {
		return nil, fmt.Errorf("%d members of %s, n = %d: %w", r.members, program, r.n, err)
	}
	return m, nil
}

// measure measures a program.
func (b *bench) measure(ctx context.Context, program string, r row) (*result, error) {
	path, err := b.build(ctx, program)
	if err != nil {
		return nil, err
	}
	run := measureHpad
	if program == "nomad-autoscaler" { // nomad-autoscaler uses one query per policy
		run, r.each = measureAutoscaler, true
	}
	m, err := run(ctx, path, r)
	if err != nil {
		return nil, fmt.Errorf("%s, n = %d: %w", program, r.n, err)
	}
	m.program = filepath.Base(program)
	return m, nil
}

// build returns the path of a program. If the program is given by name, build builds it.
func (b *bench) build(ctx context.Context, program string) (path string, err error) {
	if path = b.built[program]; path != "" {
		return path, nil
	}
	switch program {
	case "hpad":
		var clean func()
		if path, clean, err = buildHpad(ctx); err == nil {
			b.cleans = append(b.cleans, clean)
		}
	case "nomad-autoscaler":
		path, err = buildAutoscaler(ctx)
	default:
		path = program
	}
	b.built[program] = path
	return path, err
}
