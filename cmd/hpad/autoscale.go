package main

import (
	"context"
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
	request   draft.Request
}

func newAutoscaleCommand(stream streams) *cobra.Command {
	var options autoscaleOptions
	cmd := &cobra.Command{
		Use:   "autoscale FLEET/TARGET --max COUNT",
		Short: "Add an autoscaler to the configuration",
		Long: `Write an autoscaler for a target to a new file in conf.d next to the configuration, and
reload the daemon. The flags match "kubectl autoscale".

FLEET/TARGET is the REFERENCE in "hpad get", for example prod/checkout/api for the group
api of the Nomad job checkout. The command writes nothing unless the configuration is
valid with the new file, and it never overwrites a file.

Without --cpu-percent and --memory-percent the metric is cpu at 80 percent of the
requests, as in "kubectl autoscale".`,
		Example: "  hpad autoscale prod/checkout/api --min 2 --max 10 --cpu-percent 60\n" +
			"  hpad autoscale shop/web --max 5 --memory-percent 75 --name web --dry-run",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return wrongUse(fmt.Errorf("autoscale needs one target as FLEET/TARGET, got %d arguments", len(args)), helpHint(cmd))
			}
			return nil
		},
	}
	options.add(cmd)
	flags := cmd.Flags()
	flags.Int32Var(&options.request.Min, "min", 1, "minimum `count`")
	flags.Int32Var(&options.request.Max, "max", 0, "maximum `count` (required)")
	flags.Int32Var(&options.request.CPU, "cpu-percent", 0, "target cpu utilization in `percent` of the request")
	flags.Int32Var(&options.request.Memory, "memory-percent", 0, "target memory utilization in `percent` of the request")
	flags.StringVar(&options.request.Name, "name", "", "`name` of the autoscaler (default: derived from the target)")
	format := flags.StringP("output", "o", "", "`format`: toml prints the file and writes nothing, like --dry-run")
	completeFlag(cmd, "output", "toml")
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		options.locate(cmd)
		return completeFleets(cmd.Context(), options.file)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		options.reference = args[0]
		if *format != "" && *format != "toml" {
			return wrongUse(fmt.Errorf("-o %s: must be toml", *format), helpHint(cmd))
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

// check validates the flags.
func (o *autoscaleOptions) check(cmd *cobra.Command) error {
	switch flags := cmd.Flags(); {
	case !flags.Changed("max"):
		return wrongUse(errors.New("--max (the maximum count) is required"), "for example --min 2 --max 10")
	case flags.Changed("cpu-percent") && o.request.CPU < 1:
		return wrongUse(fmt.Errorf("--cpu-percent %d: must be at least 1", o.request.CPU), "for example --cpu-percent 60")
	case flags.Changed("memory-percent") && o.request.Memory < 1:
		return wrongUse(fmt.Errorf("--memory-percent %d: must be at least 1", o.request.Memory), "for example --memory-percent 75")
	}
	return nil
}

func autoscale(cmd *cobra.Command, stream streams, o *autoscaleOptions) error {
	c, err := config.Load(cmd.Context(), o.file)
	if _, missing := os.Stat(o.file); errors.Is(missing, fs.ErrNotExist) && err != nil {
		return hint.With(err, namingHint)
	}
	if err != nil {
		return hint.With(err, "no file was written: fix these errors first")
	}
	reference, err := c.ParseReference(o.reference)
	if invalid, ok := errors.AsType[*config.ReferenceError](err); ok {
		return wrongUse(invalid, invalid.Hint)
	}
	if err != nil {
		return err
	}
	if o.request.Name == "" {
		o.request.Name = draft.NameOf(reference)
	}
	if config.AdaptName(o.request.Name) != o.request.Name {
		return wrongUse(fmt.Errorf("--name %q is not a valid name", o.request.Name),
			fmt.Sprintf("names have lower-case letters, digits, \"-\" and \".\", for example %q", config.AdaptName(o.request.Name)))
	}
	text := o.request.Draft(reference).TOML()
	addition := confd.Addition{Main: o.file, Name: o.request.Name, Text: []byte(text)}
	addition.Apart = confd.HoldsService(addition.Path(), reference.Ref.Fleet)
	if err := addition.CheckFree(c, reference.Ref); err != nil {
		return err
	}
	if o.discovered(cmd, c, reference.Ref, api.DiscoveredActive) {
		return hint.With(fmt.Errorf("%s already has an autoscaler from its labels", reference.Ref),
			"change the labels, or remove hpad.enable first: an autoscaler in a file takes precedence over labels")
	}
	if !reference.Samples && !o.dryRun {
		return hint.With(fmt.Errorf("a fleet of kind %q does not measure cpu or memory: the metric needs a source and a query", reference.Kind),
			"--dry-run prints the autoscaler and marks the missing values")
	}
	if reference.Samples {
		if err := addition.Check(cmd.Context()); err != nil {
			return err
		}
	}
	if o.dryRun {
		return say(stream.out, text)
	}
	if err := addition.Do(); err != nil {
		return err
	}
	if err := say(stream.out, fmt.Sprintf("autoscaler %q written to %s: %s\n", o.request.Name, addition.Path(), o.request.Summary(reference))); err != nil {
		return err
	}
	return o.apply(cmd, stream, c, o.request.Name, true)
}

func completeFleets(ctx context.Context, file string) ([]cobra.Completion, cobra.ShellCompDirective) {
	c, err := config.Load(ctx, file)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []cobra.Completion
	for _, name := range slices.Sorted(maps.Keys(c.Fleets)) {
		names = append(names, name+"/")
	}
	return names, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
}
