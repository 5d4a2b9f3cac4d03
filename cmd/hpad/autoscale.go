package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/hpad/hpad/cmd/hpad/confd"
	"github.com/hpad/hpad/cmd/hpad/draft"
	"github.com/hpad/hpad/cmd/hpad/hint"
	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/config"
)

type autoscaleOptions struct {
	configuration
	reference string
	wish      draft.Wish
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
	flags.Int32Var(&options.wish.Min, "min", 1, "the least `count`")
	flags.Int32Var(&options.wish.Max, "max", 0, "the greatest `count`; required")
	flags.Int32Var(&options.wish.CPU, "cpu-percent", 0, "cpu that instances are to use, in `percent` of what they request")
	flags.Int32Var(&options.wish.Memory, "memory-percent", 0, "memory that instances are to use, in `percent` of what they request")
	flags.StringVar(&options.wish.Name, "name", "", "the autoscaler's `name`; made of the target's when empty")
	format := flags.StringP("output", "o", "", "\"toml\" prints the file and writes nothing, as --dry-run does")
	completeFlag(cmd, "output", "toml")
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		options.locate(cmd)
		return options.completeTargets(cmd, typed)
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
		options.locate(cmd)
		return autoscale(cmd, stream, &options)
	}
	return cmd
}

// check finds mistakes in the flags alone.
func (o *autoscaleOptions) check(cmd *cobra.Command) error {
	switch flags := cmd.Flags(); {
	case !flags.Changed("max"):
		return wrongUse(errors.New("--max is required: the greatest count there may be"), "for example --min 2 --max 10")
	case flags.Changed("cpu-percent") && o.wish.CPU < 1:
		return wrongUse(fmt.Errorf("--cpu-percent %d: must be at least 1", o.wish.CPU), "for example --cpu-percent 60")
	case flags.Changed("memory-percent") && o.wish.Memory < 1:
		return wrongUse(fmt.Errorf("--memory-percent %d: must be at least 1", o.wish.Memory), "for example --memory-percent 75")
	}
	return nil
}

func autoscale(cmd *cobra.Command, stream streams, o *autoscaleOptions) error {
	c, err := config.Load(o.file)
	if _, missing := os.Stat(o.file); errors.Is(missing, fs.ErrNotExist) && err != nil {
		return hint.With(err, namingHint)
	}
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
	if o.wish.Name == "" {
		o.wish.Name = draft.NameOf(reference)
	}
	if config.AdaptName(o.wish.Name) != o.wish.Name {
		return wrongUse(fmt.Errorf("--name %q is not a valid name", o.wish.Name),
			fmt.Sprintf("names are lower-case letters, digits, \"-\" and \".\": for example %q", config.AdaptName(o.wish.Name)))
	}
	text := o.wish.Draft(reference).TOML()
	addition := confd.Addition{Main: o.file, Name: o.wish.Name, Text: []byte(text)}
	addition.Apart = confd.HoldsService(addition.Path(), reference.Ref.Fleet)
	if err := addition.CheckFree(c, reference.Ref); err != nil {
		return err
	}
	if o.discovered(cmd, c, reference.Ref, api.DiscoveredActive) {
		return hint.With(fmt.Errorf("%s is scaled already, as its own labels ask for", reference.Ref),
			"change the labels, or take hpad.enable away first; an autoscaler in a file would win over them")
	}
	if !reference.Samples && !o.dryRun {
		return hint.With(fmt.Errorf("a fleet of kind %q cannot tell the use of cpu or memory itself: the metric needs a source and a query", reference.Kind),
			"--dry-run prints the autoscaler with what is left to decide")
	}
	if reference.Samples {
		if err := addition.Check(); err != nil {
			return err
		}
	}
	if o.dryRun {
		return say(stream.out, text)
	}
	if err := addition.Do(); err != nil {
		return err
	}
	if err := say(stream.out, fmt.Sprintf("autoscaler %q written to %s: %s\n", o.wish.Name, addition.Path(), o.wish.Summary(reference))); err != nil {
		return err
	}
	return o.apply(cmd, stream, c, o.wish.Name, true)
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
