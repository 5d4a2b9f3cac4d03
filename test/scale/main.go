// Command scale measures what hpad, and nomad-autoscaler beside it, cost over a
// simulated Nomad cluster of many jobs and a Prometheus server that knows their load.
//
//	go run ./test/scale -n 1000                       one row: this tree's hpad, 1,000 jobs, a shared query
//	go run ./test/scale -n 1000 -query each           a query for each autoscaler
//	go run ./test/scale -n 10000 -hpad before,after   two programs in turn
//	go run ./test/scale -n 100000 -single -extra      one allocation a job; restart, get, scrape and check, too
//	go run ./test/scale -serve -n 1000                the simulator alone, and a configuration for it
//
// The simulator's own cpu is not counted, but it needs some: nothing else should run.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"
)

// row is one measurement.
type row struct {
	n       int
	period  time.Duration
	single  bool
	each    bool
	changes float64
	// warm is how many periods pass before the measurement, which takes so many.
	warm, periods int
	extra         bool
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var r row
	var query, binaries string
	var serve bool
	var times int
	flag.IntVar(&r.n, "n", 1000, "jobs, each with an autoscaler")
	flag.DurationVar(&r.period, "period", 15*time.Second, "how often an autoscaler is evaluated")
	flag.BoolVar(&r.single, "single", false, "one allocation a job, not 1 to 20")
	flag.StringVar(&query, "query", "shared", "shared: one query with a series for each job; each: a query for each")
	flag.Float64Var(&r.changes, "changes", -1, "jobs a second that get another load; -1 is one, or one of 5,000 jobs where that is more")
	flag.IntVar(&r.warm, "warm", 3, "periods before the measurement")
	flag.IntVar(&r.periods, "periods", 4, "periods that are measured")
	flag.BoolVar(&r.extra, "extra", false, "measure check, get, a scrape and a restart, too")
	flag.StringVar(&binaries, "hpad", "", "programs to measure in turn, separated by commas; empty builds this tree's")
	flag.IntVar(&times, "times", 1, "how often each is measured")
	flag.BoolVar(&serve, "serve", false, "run the simulator alone, until it is interrupted")
	flag.Parse()
	if query != "shared" && query != "each" {
		return fmt.Errorf("-query %s: must be shared or each", query)
	}
	r.each = query == "each"
	if r.changes < 0 {
		r.changes = max(1, float64(r.n)/5000)
	}
	if serve {
		return serveAlone(ctx, r)
	}
	programs := strings.Split(binaries, ",")
	if binaries == "" {
		built, clean, err := buildHpad(ctx)
		if err != nil {
			return err
		}
		defer clean()
		programs = []string{built}
	}
	for range times {
		for _, program := range programs {
			result, err := measureHpad(ctx, program, r)
			if err != nil {
				return err
			}
			fmt.Println(result)
		}
	}
	return nil
}
