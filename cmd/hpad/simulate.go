package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hpad/hpad/cmd/hpad/hint"
	"github.com/hpad/hpad/cmd/hpad/simulation"
	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/status"
	"github.com/hpad/hpad/simulate"
)

// outputHTML is a page with a graph.
const outputHTML outputFormat = "html"

const simulateHelp = `Replay the recorded load of an autoscaler through other configurations, and compare the
cost and the shortage of instances. Nothing is changed. The first row is the active
configuration. Each --set and each --file is one more row; a --set can contain several
settings: --set 'min_replicas=2,max_replicas=30'.

The data are the graphs of hpad, which contain 7 days, or the metric's source if hpad has
none, or a CSV file with the columns time, metric and value. With --csv, no daemon is
needed: NAME is an autoscaler in the configuration file.

A model predicts each metric for other counts: total, ratio, queue or fixed. The output
names it. Set it with --assume METRIC=MODEL, or with a capacity of one instance:
METRIC=MODEL:CAPACITY.

--fail-if compares the values in -o json, for example 'shortage > 0.5%'; values of the
active configuration begin with active_. It evaluates the rows of --set and --file, or the
active configuration if there are none.

The exit code is 1 if a condition of --fail-if holds for a row, or if there is no data, and
2 if a flag is wrong.`

func newSimulateCommand(stream streams) *cobra.Command {
	var variants simulatedVariants
	var conditions []string
	cmd := &cobra.Command{
		Use:        "simulate NAME",
		SuggestFor: []string{"what-if", "whatif", "replay", "preview"},
		Short:      "Show what another configuration would have done",
		Long:       simulateHelp,
		Example: `  hpad simulate checkout --set 'metrics[0].average_utilization=70'
  hpad simulate checkout --since 2d --file new.toml --price 0.12 -o html > checkout.html
  hpad simulate checkout --set max_replicas=30 --fail-if 'shortage > 0.5%'
  hpad simulate checkout --csv load.csv --config hpad.toml`,
		Args: oneName,
	}
	format := addOutputFlag(cmd, outputHTML)
	client := addConnectFlags(cmd)
	input := addSimulationFlags(cmd, client)
	cmd.Flags().StringArrayVar(&variants.sets, "set", nil, "a row with these `settings`: KEY=VALUE, or several with commas (repeatable)")
	cmd.Flags().StringArrayVar(&variants.files, "file", nil, "a row with the autoscaler in this configuration `file` (repeatable)")
	cmd.Flags().StringArrayVar(&conditions, "fail-if", nil, "exit with 1 if this `condition` holds for a row, such as 'shortage > 0.5%' (repeatable)")
	cmd.ValidArgsFunction = completeNames(client, 1)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		parsed, err := parseConditions(conditions, input.price)
		if err != nil {
			return wrongUse(err, helpHint(cmd))
		}
		list, err := variants.list()
		if err != nil {
			return wrongUse(err, helpHint(cmd))
		}
		data, assume, err := input.load(cmd, names[0], list)
		if err != nil {
			return err
		}
		result, err := simulate.Run(cmd.Context(), &data.Recording, data.Policies, assume)
		if err != nil {
			return err
		}
		show := simulation.Text
		if *format == outputHTML {
			show = simulation.HTML
		}
		err = write(stream.out, *format, result, func(w io.Writer) error { return show(w, result, assume.Price > 0, time.Local) })
		if err != nil {
			return err
		}
		return checkConditions(parsed, result)
	}
	return cmd
}

// parseConditions parses the values of --fail-if.
func parseConditions(texts []string, price float64) (parsed []*simulation.Condition, err error) {
	for _, text := range texts {
		c, err := simulation.ParseCondition(text)
		if err != nil {
			return nil, fmt.Errorf("--fail-if %w", err)
		}
		if c.UsesCost() && price == 0 {
			return nil, fmt.Errorf("--fail-if %q compares costs: set the cost of one instance with --price", text)
		}
		parsed = append(parsed, c)
	}
	return parsed, nil
}

// checkConditions returns an error for each condition that holds.
func checkConditions(conditions []*simulation.Condition, result *simulate.Result) error {
	var failed []error
	for _, c := range conditions {
		labels, err := c.Failing(result)
		if err == nil && len(labels) > 0 {
			err = fmt.Errorf("%s: %s", c, strings.Join(labels, "; "))
		}
		if err != nil {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// simulatedVariants are the rows of a simulation after the active configuration.
type simulatedVariants struct{ sets, files []string }

// maxVariantFile limits the size of a file, in bytes.
const maxVariantFile = 1 << 20

func (v *simulatedVariants) list() (variants []config.Variant, err error) {
	for _, set := range v.sets {
		variants = append(variants, config.Variant{Set: splitSettings(set)})
	}
	for _, name := range v.files {
		text, err := readLimited(name, maxVariantFile)
		if err != nil {
			return nil, fmt.Errorf("--file: %w", err)
		}
		variants = append(variants, config.Variant{File: name, Text: string(text)})
	}
	return variants, nil
}

// readLimited reads a file of a limited size.
func readLimited(name string, limit int64) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("%s has more than %d bytes", name, limit)
	}
	return text, err
}

// splitSettings splits a list at the commas outside of brackets and quotes.
func splitSettings(text string) (settings []string) {
	depth, quote, start := 0, rune(0), 0
	for i, r := range text {
		switch {
		case quote != 0:
			if r == quote {
				quote = 0
			}
		case r == '"' || r == '\'':
			quote = r
		case r == '[' || r == '{':
			depth++
		case r == ']' || r == '}':
			depth--
		case r == ',' && depth == 0:
			settings = append(settings, strings.TrimSpace(text[start:i]))
			start = i + 1
		}
	}
	return append(settings, strings.TrimSpace(text[start:]))
}

// simulationFlags are the flags of "hpad simulate" and "hpad tune" for the data and the assumptions.
type simulationFlags struct {
	since, until, data, csv, config string
	price                           float64
	assume                          []string
	startup, drain                  time.Duration
	client                          func() *api.Client
	// written is the configuration that loadCSV has read, as TOML.
	written string
}

func addSimulationFlags(cmd *cobra.Command, client func() *api.Client) *simulationFlags {
	f := &simulationFlags{client: client}
	flags := cmd.Flags()
	flags.StringVar(&f.since, "since", "7d", "start of the data: a `time`: "+instantForms)
	flags.StringVar(&f.until, "until", "", "end of the data: a `time` (default: now)")
	flags.Var(choice{&f.data, []string{string(simulate.FromGraphs), string(simulate.FromPrometheus)}, "DATA"}, "data", "`origin` of the data: graphs or prometheus (default: the first one with data)")
	completeFlag(cmd, "data", string(simulate.FromGraphs), string(simulate.FromPrometheus))
	flags.StringVar(&f.csv, "csv", "", "read the data from this `file` with the columns time, metric, value; \"-\" is standard input")
	addConfigFlag(cmd, &f.config, "configuration `file` for --csv")
	flags.Float64Var(&f.price, "price", 0, "`cost` of one instance for one hour")
	flags.StringArrayVar(&f.assume, "assume", nil, "`model` of a metric: METRIC=MODEL or METRIC=MODEL:CAPACITY (repeatable)")
	flags.DurationVar(&f.startup, "startup", 0, "`time` until a new instance is ready (default: the median in the data)")
	flags.DurationVar(&f.drain, "drain", 0, "`time` until a removed instance stops (default: the median in the data)")
	return f
}

// assumptions returns the assumptions that the flags describe.
func (f *simulationFlags) assumptions(cmd *cobra.Command) (simulate.Assumptions, error) {
	assume := simulate.Assumptions{Price: f.price, Metrics: map[string]simulate.Assumption{}}
	for _, text := range f.assume {
		metric, model, err := simulate.ParseAssumption(text)
		if err != nil {
			return assume, fmt.Errorf("--assume %w", err)
		}
		assume.Metrics[metric] = model
	}
	for _, delay := range []struct {
		flag string
		is   time.Duration
		to   **time.Duration
	}{{"startup", f.startup, &assume.Startup}, {"drain", f.drain, &assume.Drain}} {
		if !cmd.Flags().Changed(delay.flag) {
			continue
		}
		if delay.is < 0 {
			return assume, fmt.Errorf("--%s = %s: must be at least 0", delay.flag, delay.is)
		}
		*delay.to = &delay.is
	}
	if !(f.price >= 0) { // also rejects NaN
		return assume, fmt.Errorf("--price = %v: must be at least 0", f.price)
	}
	return assume, nil
}

// load returns the recording, and the policies of the active configuration and of the variants.
func (f *simulationFlags) load(cmd *cobra.Command, name string, variants []config.Variant) (data api.SimulationData, assume simulate.Assumptions, err error) {
	if assume, err = f.assumptions(cmd); err != nil {
		return data, assume, wrongUse(err, helpHint(cmd))
	}
	request := api.SimulationRequest{Data: simulate.Origin(f.data), Variants: variants}
	now := time.Now()
	for _, bound := range []struct {
		flag, text string
		at         *time.Time
	}{{"since", f.since, &request.From}, {"until", f.until, &request.Until}} {
		if bound.text == "" || f.csv != "" && !cmd.Flags().Changed(bound.flag) {
			continue
		}
		if *bound.at, err = parseInstant(bound.text, now); err != nil {
			return data, assume, wrongUse(fmt.Errorf("--%s %w", bound.flag, err), helpHint(cmd))
		}
	}
	if !request.Until.IsZero() && !request.From.Before(request.Until) {
		return data, assume, wrongUse(fmt.Errorf("--since %s is not before --until %s", f.since, f.until), helpHint(cmd))
	}
	if f.csv != "" {
		data, err = f.loadCSV(cmd, name, &request)
		return data, assume, err
	}
	data, err = api.Post[api.SimulationData](cmd.Context(), f.client(), api.Path("autoscalers", name, "recording"), request)
	if err != nil {
		return data, assume, suggestName(cmd.Context(), f.client(), name, err)
	}
	return data, assume, nil
}

// loadCSV reads the data from a file, and the policies from the configuration file.
func (f *simulationFlags) loadCSV(cmd *cobra.Command, name string, request *api.SimulationRequest) (data api.SimulationData, err error) {
	if f.data != "" {
		return data, wrongUse(errors.New("--csv and --data are mutually exclusive"), helpHint(cmd))
	}
	c, err := config.Load(cmd.Context(), locateConfig(cmd, f.config, f.client()))
	if err != nil {
		return data, err
	}
	a, ok := c.Autoscalers[name]
	if !ok {
		return data, hint.With(fmt.Errorf("%s has no autoscaler %q", strings.Join(c.Files, ", "), name), nearestAutoscaler(c, name))
	}
	f.written = c.Redacted()
	if data.Policies, err = status.PoliciesOf(c, a, request.Variants); err != nil {
		return data, err
	}
	file := cmd.InOrStdin()
	if f.csv != "-" {
		opened, err := os.Open(f.csv)
		if err != nil {
			return data, fmt.Errorf("--csv: %w", err)
		}
		defer func() { _ = opened.Close() }()
		file = opened
	}
	recording, err := simulate.ReadCSV(stopping{cmd.Context(), file}, name, &data.Policies[0])
	if err != nil {
		return data, fmt.Errorf("read %s: %w", f.csv, err)
	}
	first, last := recording.Ticks[0].Time, recording.Ticks[len(recording.Ticks)-1].Time
	recording.Ticks = slices.DeleteFunc(recording.Ticks, func(t simulate.Tick) bool {
		return t.Time.Before(request.From) || !request.Until.IsZero() && t.Time.After(request.Until)
	})
	if len(recording.Ticks) == 0 {
		return data, fmt.Errorf("autoscaler %q has no data %s: %s covers %s to %s", name, periodOf(request), f.csv, rfc3339(first), rfc3339(last))
	}
	data.Recording = *recording
	return data, nil
}

// periodOf describes the period of a request.
func periodOf(request *api.SimulationRequest) string {
	switch {
	case request.Until.IsZero():
		return "from " + rfc3339(request.From)
	case request.From.IsZero():
		return "until " + rfc3339(request.Until)
	}
	return "from " + rfc3339(request.From) + " to " + rfc3339(request.Until)
}

func rfc3339(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func nearestAutoscaler(c *config.Config, name string) string {
	var names []string
	for known := range c.Autoscalers {
		names = append(names, known)
	}
	slices.Sort(names)
	if near := config.Nearest(name, names); near != "" {
		return "did you mean \"" + near + "\"?"
	}
	return "its autoscalers are " + strings.Join(names, ", ")
}

// stopping is a reader that fails when the context ends.
type stopping struct {
	ctx  context.Context
	from io.Reader
}

func (s stopping) Read(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	return s.from.Read(p)
}
