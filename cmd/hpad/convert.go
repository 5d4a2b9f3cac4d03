package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hpad/hpad/cmd/hpad/confd"
	"github.com/hpad/hpad/cmd/hpad/draft"
	"github.com/hpad/hpad/cmd/hpad/hint"
	"github.com/hpad/hpad/cmd/hpad/manifest"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/explain"
	"github.com/hpad/hpad/daemon/kinds"
)

type convertOptions struct {
	config       string
	choices      manifest.Choices
	output, into string
}

func newConvertCommand(stream streams) *cobra.Command {
	var options convertOptions
	cmd := &cobra.Command{
		Use:   "convert FILE...",
		Short: "Turn HorizontalPodAutoscalers of Kubernetes into autoscalers",
		Long: `Turn HorizontalPodAutoscaler manifests of Kubernetes (autoscaling/v2 and v1; YAML
or JSON, several documents, lists) and ScaledObjects of KEDA (triggers of the types
prometheus, cpu and memory) into autoscalers in TOML.
"-" is standard input: kubectl get hpa -A -o yaml | hpad convert -

What a manifest cannot say stands in comments that begin with "DECIDE:", and
"hpad check" refuses the file until it is decided: the fleet, unless --fleet names
it, and the query of every metric that is not cpu or memory.`,
		Example: "  hpad convert hpa.yaml > /etc/hpad/conf.d/web.toml\n" +
			"  kubectl get hpa -A -o yaml | hpad convert - --fleet prod --source prom --output-dir /etc/hpad/conf.d",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return wrongUse(errors.New("convert wants at least one file, or - for standard input"), helpHint(cmd))
			}
			return nil
		},
	}
	flags := cmd.Flags()
	addConfigFlag(cmd, &options.config, "the configuration `file` that --fleet is looked up in")
	flags.StringVar(&options.choices.Fleet, "fleet", "", "the fleet of all targets, whose `name`s in it are guessed")
	flags.StringVar(&options.choices.Kind, "kind", "", "the `kind` of --fleet, where there is no configuration yet")
	flags.StringVar(&options.choices.Source, "source", "", "the `name` of the source that queries are asked of")
	flags.StringVarP(&options.output, "output", "o", "", "write to this `file`, which there must not be yet")
	flags.StringVar(&options.into, "output-dir", "", "write one file for each autoscaler to this `directory`")
	completeFlag(cmd, "kind", slices.Sorted(maps.Keys(kinds.Fleets))...)
	cmd.ValidArgsFunction = cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault)
	cmd.RunE = func(cmd *cobra.Command, files []string) error {
		if options.output != "" && options.into != "" {
			return wrongUse(errors.New("-o and --output-dir exclude each other"), helpHint(cmd))
		}
		options.config = locateConfig(cmd, options.config, daemonHere())
		if err := options.check(); err != nil {
			return err
		}
		return convert(stream, &options, files)
	}
	return cmd
}

func (o *convertOptions) check() error {
	choices := &o.choices
	if choices.Fleet == "" {
		if choices.Kind != "" {
			return wrongUse(errors.New("--kind says nothing without --fleet"), "for example --fleet prod --kind nomad")
		}
		return nil
	}
	if choices.Kind == "" {
		fleets, err := config.LoadFleets(o.config)
		if err != nil {
			return hint.With(err, "--kind says the kind of --fleet without a configuration")
		}
		fleet, ok := fleets[choices.Fleet]
		if !ok {
			return hint.With(fmt.Errorf("there is no fleet %q in %s", choices.Fleet, o.config), "--kind says the kind of a fleet that there is not yet")
		}
		choices.Kind = fleet.Kind
	}
	if _, known := kinds.Fleets[choices.Kind]; !known {
		return wrongUse(fmt.Errorf("--kind %q is no kind of fleet", choices.Kind), "the kinds are "+strings.Join(slices.Sorted(maps.Keys(kinds.Fleets)), ", "))
	}
	return nil
}

// convert converts manifests. What can be converted is, whatever else is wrong.
func convert(stream streams, o *convertOptions, files []string) error {
	objects, skipped, mistakes := manifest.ReadFiles(files, stream.in)
	for _, each := range skipped {
		note(stream.err, "%s:%d: %s is no HorizontalPodAutoscaler and no ScaledObject: skipped", each.File, each.Line, each.What)
	}
	if len(objects) == 0 && len(mistakes) == 0 {
		return hint.With(fmt.Errorf("no HorizontalPodAutoscaler and no ScaledObject in %s", strings.Join(files, ", ")), "kubectl get hpa -A -o yaml writes the HorizontalPodAutoscalers of a cluster")
	}
	conversions := manifest.Convert(objects, o.choices)
	if len(conversions) > 0 {
		if err := o.write(stream, conversions); err != nil {
			return errors.Join(append(mistakes, err)...)
		}
		o.conclude(stream, conversions)
	}
	switch {
	case len(mistakes) > 0 && len(conversions) > 0:
		return hint.With(errors.Join(mistakes...), "what has a mistake was left out")
	case len(mistakes) > 0:
		return hint.With(errors.Join(mistakes...), "nothing was converted")
	}
	return nil
}

func (o *convertOptions) write(stream streams, conversions []manifest.Conversion) error {
	texts := make([]string, len(conversions))
	files := make([]confd.File, len(conversions))
	for i := range conversions {
		texts[i] = conversions[i].Draft.TOML()
		files[i] = confd.File{Path: filepath.Join(o.into, conversions[i].Draft.Name+".toml"), Text: texts[i]}
	}
	text := strings.Join(texts, "\n")
	switch {
	case o.into != "":
		return confd.CreateAll(o.config, files)
	case o.output != "":
		return confd.CreateFor(o.config, confd.File{Path: o.output, Text: text})
	}
	return say(stream.out, text)
}

func (o *convertOptions) conclude(stream streams, conversions []manifest.Conversion) {
	decisions := 0
	for i := range conversions {
		decisions += conversions[i].Decisions()
	}
	text := explain.Plural(len(conversions), "autoscaler") + " converted"
	switch {
	case o.into != "":
		text += " to " + o.into
	case o.output != "":
		text += " to " + o.output
	}
	if decisions > 0 {
		text += fmt.Sprintf("; %s left, marked %q: \"hpad check\" refuses what is not decided", explain.Plural(decisions, "decision"), strings.TrimSpace(draft.Decide))
	} else {
		text += "; \"hpad check\" says whether the configuration takes them"
	}
	note(stream.err, "%s", text)
	namespaces := map[string]bool{}
	for i := range conversions {
		namespaces[conversions[i].Object.Namespace] = true
	}
	if delete(namespaces, ""); len(namespaces) > 0 {
		note(stream.err, "hpad has no namespaces for autoscalers; these came from %s", strings.Join(slices.Sorted(maps.Keys(namespaces)), ", "))
	}
}

// note writes something beside the output. When it cannot be written nobody is
// left to read it.
func note(w io.Writer, format string, args ...any) {
	notice(w, "note", format, args...)
}
