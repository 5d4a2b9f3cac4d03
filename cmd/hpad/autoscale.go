package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hpad/hpad/cmd/hpad/confd"
	"github.com/hpad/hpad/cmd/hpad/draft"
	"github.com/hpad/hpad/cmd/hpad/hint"
	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/config"
)

type autoscaleOptions struct {
	configuration
	reference   string
	name        string
	min, max    int32
	cpu, memory int32
}

func newAutoscaleCommand(stream streams) *cobra.Command {
	var options autoscaleOptions
	cmd := &cobra.Command{
		Use:   "autoscale FLEET/TARGET --max COUNT",
		Short: "Add an autoscaler to the configuration",
		Long: `Write an autoscaler of a target to a file of its own in conf.d beside the
configuration, as "kubectl autoscale" makes one of a deployment, and have the
daemon read its configuration again.

FLEET/TARGET is what "hpad get" shows as REFERENCE, as prod/checkout/api for the
group api of the Nomad job checkout. Nothing is written unless the configuration
is valid with the new file, and no file is ever overwritten.

Without --cpu-percent and --memory-percent the metric is cpu at 80 percent of what
instances request, as for "kubectl autoscale".`,
		Example: "  hpad autoscale prod/checkout/api --min 2 --max 10 --cpu-percent 60\n" +
			"  hpad autoscale shop/web --max 5 --memory-percent 75 --name web --dry-run",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return wrongUse(fmt.Errorf("autoscale wants one target, as FLEET/TARGET, and got %d", len(args)), helpHint(cmd))
			}
			return nil
		},
	}
	options.add(cmd)
	flags := cmd.Flags()
	flags.Int32Var(&options.min, "min", 1, "the least `count`")
	flags.Int32Var(&options.max, "max", 0, "the greatest `count`; required")
	flags.Int32Var(&options.cpu, "cpu-percent", 0, "cpu that instances are to use, in `percent` of what they request")
	flags.Int32Var(&options.memory, "memory-percent", 0, "memory that instances are to use, in `percent` of what they request")
	flags.StringVar(&options.name, "name", "", "the autoscaler's `name`; made of the target's when empty")
	format := flags.StringP("output", "o", "", "\"toml\" prints the file and writes nothing, as --dry-run does")
	completeFlag(cmd, "output", "toml")
	cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return completeFleets(options.file)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		options.reference = args[0]
		if *format != "" && *format != "toml" {
			return wrongUse(fmt.Errorf("-o %s: the only output is toml", *format), helpHint(cmd))
		}
		options.dryRun = options.dryRun || *format != ""
		if err := options.check(cmd); err != nil {
			return err
		}
		return autoscale(cmd, stream, &options)
	}
	return cmd
}

// check finds mistakes in the flags alone.
func (o *autoscaleOptions) check(cmd *cobra.Command) error {
	switch flags := cmd.Flags(); {
	case !flags.Changed("max"):
		return wrongUse(errors.New("--max is required: the greatest count there may be"), "for example --min 2 --max 10")
	case flags.Changed("cpu-percent") && o.cpu < 1:
		return wrongUse(fmt.Errorf("--cpu-percent %d: must be at least 1", o.cpu), "for example --cpu-percent 60")
	case flags.Changed("memory-percent") && o.memory < 1:
		return wrongUse(fmt.Errorf("--memory-percent %d: must be at least 1", o.memory), "for example --memory-percent 75")
	}
	return nil
}

func autoscale(cmd *cobra.Command, stream streams, o *autoscaleOptions) error {
	c, err := config.Load(o.file)
	if err != nil {
		return hint.With(err, "nothing was written: the configuration has to be fine first")
	}
	reference, err := c.ParseReference(o.reference)
	if mistake, ok := errors.AsType[*config.ReferenceError](err); ok {
		return wrongUse(mistake, mistake.Hint)
	}
	if err != nil {
		return err
	}
	if err := o.checkFree(cmd, c, reference); err != nil {
		return err
	}
	written := o.draft(reference)
	text := written.TOML()
	complete := reference.Samples
	if !complete && !o.dryRun {
		return hint.With(fmt.Errorf("a fleet of kind %q cannot tell the use of cpu or memory itself: the metric needs a source and a query", reference.Kind),
			"--dry-run prints the autoscaler with what is left to decide")
	}
	path := filepath.Join(config.ExtraDir(o.file), o.name+".toml")
	if complete {
		if _, err := os.Lstat(path); err == nil {
			return hint.With(fmt.Errorf("%q: %w", path, fs.ErrExist), "no file is overwritten: give another name with --name, or edit that file")
		}
		if _, err := config.LoadWith(o.file, map[string][]byte{path: []byte(text)}); err != nil {
			return hint.With(err, "nothing was written")
		}
	}
	if o.dryRun {
		return say(stream.out, text)
	}
	if err := confd.Create(path, o.file, []byte(text)); err != nil {
		return err
	}
	if err := say(stream.out, fmt.Sprintf("autoscaler %q written to %s: %s\n", o.name, path, o.summary(reference))); err != nil {
		return err
	}
	return o.apply(cmd, stream, c, o.name, true)
}

// checkFree completes the name, and checks that nothing scales the target or has
// the name.
func (o *autoscaleOptions) checkFree(cmd *cobra.Command, c *config.Config, reference config.Reference) error {
	if o.name == "" {
		o.name = nameOf(reference)
	}
	if config.AdaptName(o.name) != o.name {
		return wrongUse(fmt.Errorf("--name %q is not a valid name", o.name),
			fmt.Sprintf("names are lower-case letters, digits, \"-\" and \".\": for example %q", config.AdaptName(o.name)))
	}
	if owner := c.Owners().Of(reference.Ref, nil); owner != "" {
		return hint.With(fmt.Errorf("%s is scaled already, by the autoscaler %q", reference.Ref, owner),
			fmt.Sprintf("change that one in %s, or \"hpad delete %s\" first", confd.Place(o.file, owner), owner))
	}
	if _, taken := c.Autoscalers[o.name]; taken {
		return hint.With(fmt.Errorf("there is an autoscaler %q already, in %s", o.name, confd.Place(o.file, o.name)), "give another name with --name")
	}
	if !c.Fleets[reference.Ref.Fleet].Discover {
		return nil
	}
	discovered, err := o.client(cmd, c).Discovered(cmd.Context())
	if err != nil {
		return nil //nolint:nilerr // No daemon, so nobody knows of labels; those of a file win in any case.
	}
	i := slices.IndexFunc(discovered, func(target api.Discovered) bool {
		return target.Reference == reference.Ref.String() && target.State == api.DiscoveredActive
	})
	if i < 0 {
		return nil
	}
	return hint.With(fmt.Errorf("%s is scaled already, as its own labels ask for", reference.Ref),
		"change the labels, or take hpad.enable away first; an autoscaler in a file would win over them")
}

func nameOf(reference config.Reference) string {
	var parts []string
	for _, key := range reference.Keys {
		switch key.Name {
		case "namespace", "region", "zone", "resource_group":
			continue
		}
		part := strings.TrimSuffix(key.Value, "@.service")
		if !slices.Contains(parts, part) {
			parts = append(parts, part)
		}
	}
	return strings.ReplaceAll(config.AdaptName(strings.Join(parts, "-")), ".", "-")
}

// autoscaleNotes returns what is written above an autoscaler: where it is from,
// and then what it means that it has no metrics.
func autoscaleNotes(name string) []string {
	return []string{
		fmt.Sprintf("Written by \"hpad autoscale\"; \"hpad delete %s\" removes it.", name),
		"No metrics are named: cpu at 80 % of what instances request.",
	}
}

func (o *autoscaleOptions) draft(reference config.Reference) *draft.Autoscaler {
	a := &draft.Autoscaler{
		Name:        o.name,
		Notes:       autoscaleNotes(o.name)[:1],
		Target:      draft.Target{Fleet: reference.Ref.Fleet},
		MinReplicas: &o.min,
		MaxReplicas: o.max,
	}
	for _, key := range reference.Keys {
		a.Target.Keys = append(a.Target.Keys, draft.Key(key))
	}
	resources := []struct {
		name    string
		percent int32
	}{{"cpu", o.cpu}, {"memory", o.memory}}
	if o.cpu == 0 && o.memory == 0 && reference.Samples {
		a.Notes = autoscaleNotes(o.name)
	} else if o.cpu == 0 && o.memory == 0 {
		resources[0].percent = 80
	}
	for _, resource := range resources {
		if resource.percent == 0 {
			continue
		}
		metric := draft.Metric{Type: "Resource", Resource: resource.name, AverageUtilization: &resource.percent}
		if !reference.Samples {
			metric.AskSource("", reference.Kind, "")
		}
		a.Metrics = append(a.Metrics, metric)
	}
	return a
}

func (o *autoscaleOptions) summary(reference config.Reference) string {
	var goals []string
	if o.cpu > 0 {
		goals = append(goals, fmt.Sprintf("cpu at %d%%", o.cpu))
	}
	if o.memory > 0 {
		goals = append(goals, fmt.Sprintf("memory at %d%%", o.memory))
	}
	if len(goals) == 0 {
		goals = []string{"cpu at 80%, the default where no metric is named"}
	}
	return fmt.Sprintf("%s, %d to %s, %s", reference.Ref, o.min, plural(int(o.max), "replica"), strings.Join(goals, ", "))
}

func completeFleets(file string) ([]cobra.Completion, cobra.ShellCompDirective) {
	fleets, err := config.LoadFleets(file)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []cobra.Completion
	for _, name := range slices.Sorted(maps.Keys(fleets)) {
		names = append(names, name+"/")
	}
	return names, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
}
