package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hpad/hpad/cmd/hpad/cloudpolicy"
	"github.com/hpad/hpad/cmd/hpad/confd"
	"github.com/hpad/hpad/cmd/hpad/draft"
	"github.com/hpad/hpad/cmd/hpad/hint"
	"github.com/hpad/hpad/cmd/hpad/manifest"
	"github.com/hpad/hpad/cmd/hpad/nomadpolicy"
	"github.com/hpad/hpad/cmd/hpad/origin"
	"github.com/hpad/hpad/cmd/hpad/swarmpolicy"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/explain"
	"github.com/hpad/hpad/daemon/kinds"
	"github.com/hpad/hpad/targets/nomad"
)

type convertOptions struct {
	config     string
	choices    origin.Choices
	file, into string
	// files are read first, and then the policies of clusters.
	files    []string
	clusters []*nomad.Config
}

func newConvertCommand(stream streams) *cobra.Command {
	var options convertOptions
	cmd := &cobra.Command{
		Use:   "convert [FILE | URL]...",
		Short: "Convert policies of Kubernetes, KEDA and nomad-autoscaler",
		Long: `Convert the policies of other autoscalers to autoscalers in TOML:
HorizontalPodAutoscaler manifests of Kubernetes (autoscaling/v2 and v1; YAML or JSON,
several documents, lists), ScaledObjects of KEDA, scaling policies of nomad-autoscaler
(jobs and policy files in HCL, jobs and policies of Nomad's API in JSON), labels of
autoscalers for Docker Swarm (stack files, docker service inspect), and policies of
clouds (the JSON of "aws autoscaling describe-policies", "gcloud compute autoscalers
list" and "az monitor autoscale list"). A directory stands for its files. "-" is
standard input: kubectl get hpa -A -o yaml | hpad convert -

The URL of a Nomad agent stands for the scaling policies of its cluster, in all namespaces
that the token may read. NOMAD_TOKEN, NOMAD_CACERT and the other variables of the nomad
command apply. Without FILE and URL, hpad reads the cluster of --fleet with the settings of
that fleet.

Comments that begin with "DECIDE:" mark values that a policy does not contain, such as the
fleet without --fleet, or for which hpad has no exact equivalent.`,
		Example: "  hpad convert hpa.yaml > /etc/hpad/conf.d/web.toml\n" +
			"  hpad convert web.nomad.hcl --fleet prod > /etc/hpad/conf.d/web.toml\n" +
			"  hpad convert https://nomad.example.com:4646 --fleet prod --kind nomad > nomad.toml\n" +
			"  kubectl get hpa -A -o yaml | hpad convert - --fleet prod --source prom --output-dir /etc/hpad/conf.d",
		Args: cobra.ArbitraryArgs,
	}
	flags := cmd.Flags()
	addConfigFlag(cmd, &options.config, "configuration `file` that defines --fleet")
	flags.StringVar(&options.choices.Fleet, "fleet", "", "`fleet` of all targets; hpad guesses their names in it")
	flags.StringVar(&options.choices.Kind, "kind", "", "`kind` of --fleet, if no configuration defines it")
	flags.StringVar(&options.choices.Source, "source", "", "`source` of all queries")
	flags.StringVar(&options.file, "file", "", "write the autoscalers to this `file`, which must not exist yet")
	format := "toml"
	flags.VarP(choice{&format, []string{format}, "FORMAT"}, "output", "o", "output `format`: toml")
	completeFlag(cmd, "output", format)
	flags.StringVar(&options.into, "output-dir", "", "write a file for each autoscaler to this `directory`")
	completeFlag(cmd, "kind", slices.Sorted(maps.Keys(kinds.Fleets))...)
	cmd.ValidArgsFunction = cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if options.file != "" && options.into != "" {
			return wrongUse(errors.New("--file and --output-dir are mutually exclusive"), helpHint(cmd))
		}
		options.config = locateConfig(cmd, options.config, daemonHere())
		if err := errors.Join(options.read(args), options.check(cmd.Context())); err != nil {
			return err
		}
		if len(options.files)+len(options.clusters) == 0 {
			return wrongUse(errors.New("convert needs a file, the URL of a Nomad agent, - for standard input, or --fleet with a Nomad fleet of the configuration"), helpHint(cmd))
		}
		return convert(cmd.Context(), stream, &options)
	}
	return cmd
}

// read separates the URLs of clusters from the files.
func (o *convertOptions) read(args []string) error {
	for _, arg := range args {
		if !strings.Contains(arg, "://") {
			o.files = append(o.files, arg)
			continue
		}
		cluster := &nomad.Config{Address: arg, Namespace: "default"} // NOMAD_NAMESPACE may be "*", which a fleet rejects
		cluster.SetDefaults()
		if errs := cluster.Validate(); len(errs) > 0 {
			return wrongUse(errs[0], "other settings come from NOMAD_TOKEN, NOMAD_HTTP_AUTH and NOMAD_CACERT, or from a fleet of the configuration")
		}
		o.clusters = append(o.clusters, cluster)
	}
	return nil
}

// check sets the kind of the fleet. If there are no files and clusters, it sets the cluster of the fleet.
func (o *convertOptions) check(ctx context.Context) error {
	choices := &o.choices
	if choices.Fleet == "" {
		if choices.Kind != "" {
			return wrongUse(errors.New("--kind requires --fleet"), "for example --fleet prod --kind nomad")
		}
		return nil
	}
	if choices.Kind == "" {
		fleets, err := config.LoadFleets(ctx, o.config)
		if err != nil {
			return hint.With(err, "without a configuration, set --kind")
		}
		fleet, ok := fleets[choices.Fleet]
		if !ok {
			return hint.With(fmt.Errorf("no fleet named %q in %s", choices.Fleet, o.config), "for a new fleet, set --kind")
		}
		choices.Kind = fleet.Kind
		if cluster, ok := fleet.Config.(*nomad.Config); ok && len(o.files)+len(o.clusters) == 0 {
			o.clusters = append(o.clusters, cluster)
		}
	}
	if _, known := kinds.Fleets[choices.Kind]; !known {
		return wrongUse(fmt.Errorf("--kind %q: unknown kind of fleet", choices.Kind), "the kinds are "+strings.Join(slices.Sorted(maps.Keys(kinds.Fleets)), ", "))
	}
	return nil
}

// origins are the origins of policies. The last one recognizes every file.
var origins = []origin.Origin{nomadpolicy.Origin{}, cloudpolicy.Origin{}, swarmpolicy.Origin{}, manifest.Origin{}}

// convert converts all valid policies and reports the others.
func convert(ctx context.Context, stream streams, o *convertOptions) error {
	policies, skipped, invalid := origin.Read(ctx, origins, o.files, stream.in)
	for _, cluster := range o.clusters {
		found, errs := nomadpolicy.ReadCluster(ctx, cluster)
		policies, invalid = append(policies, found...), append(invalid, errs...)
	}
	for _, each := range skipped {
		notice(stream.err, "note", "%s:%d: skipped %s: not a HorizontalPodAutoscaler or ScaledObject", each.File, each.Line, each.What)
	}
	if len(policies) == 0 && len(invalid) == 0 {
		return hint.With(fmt.Errorf("no HorizontalPodAutoscaler, ScaledObject or scaling policy in %s", strings.Join(o.files, ", ")), "kubectl get hpa -A -o yaml prints the HorizontalPodAutoscalers of a cluster")
	}
	drafts := origin.Convert(policies, o.choices)
	if len(drafts) > 0 {
		if err := o.write(stream, drafts); err != nil {
			return errors.Join(append(invalid, err)...)
		}
		o.conclude(stream, policies, drafts)
	}
	switch {
	case len(invalid) > 0 && len(drafts) > 0:
		return hint.With(errors.Join(invalid...), "the other policies were converted")
	case len(invalid) > 0:
		return hint.With(errors.Join(invalid...), "no policy was converted")
	}
	return nil
}

func (o *convertOptions) write(stream streams, drafts []*draft.Autoscaler) error {
	texts := make([]string, len(drafts))
	files := make([]confd.File, len(drafts))
	for i := range drafts {
		texts[i] = drafts[i].TOML()
		files[i] = confd.File{Path: filepath.Join(o.into, drafts[i].Name+".toml"), Text: texts[i]}
	}
	text := strings.Join(texts, "\n")
	switch {
	case o.into != "":
		return confd.CreateAll(o.config, files)
	case o.file != "":
		return confd.CreateFor(o.config, confd.File{Path: o.file, Text: text})
	}
	return say(stream.out, text)
}

func (o *convertOptions) conclude(stream streams, policies []origin.Policy, drafts []*draft.Autoscaler) {
	decisions := 0
	for i := range drafts {
		decisions += drafts[i].Decisions()
	}
	text := explain.Plural(len(drafts), "autoscaler") + " converted"
	switch {
	case o.into != "":
		text += " to " + o.into
	case o.file != "":
		text += " to " + o.file
	}
	if decisions > 0 {
		text += fmt.Sprintf("; %s open, marked %q: make them before you use the output", explain.Plural(decisions, "decision"), strings.TrimSpace(draft.Decide))
	} else {
		text += "; run \"hpad check\" to validate the configuration"
	}
	notice(stream.err, "note", "%s", text)
	for i := range drafts {
		if a := drafts[i]; a.ModeNote != "" {
			notice(stream.err, "note", "autoscaler %s has mode = %q: %s", a.Name, a.Mode, a.ModeNote)
		}
	}
	namespaces := map[string]bool{}
	for _, policy := range policies {
		namespace, _, _ := policy.Names()
		namespaces[namespace] = true
	}
	if delete(namespaces, ""); len(namespaces) > 0 {
		notice(stream.err, "note", "hpad has no namespaces for autoscalers; their namespaces were %s", strings.Join(slices.Sorted(maps.Keys(namespaces)), ", "))
	}
}
