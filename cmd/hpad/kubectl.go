package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const (
	editHint    = "edit the file with the autoscaler, then run \"hpad check\" and \"hpad reload\""
	connectHint = "hpad does not connect to instances: use the tools of the platform; \"hpad logs NAME\" prints their output"
	pauseHint   = "\"hpad pause --fleet FLEET\" keeps the counts of a fleet, and \"hpad resume --fleet FLEET\" ends the pause"
)

// kubectlCommands maps commands of kubectl that hpad does not have to hints.
var kubectlCommands = map[string]string{
	"edit": editHint, "patch": editHint, "replace": editHint, "set": editHint, "label": editHint, "annotate": editHint,
	"apply":  "\"hpad convert FILE\" converts manifests; add TOML files to conf.d, then run \"hpad check\" and \"hpad reload\"",
	"create": "\"hpad autoscale FLEET/TARGET --max COUNT\" adds an autoscaler, and \"hpad convert FILE\" converts manifests",
	"diff":   "\"hpad reload --dry-run\" prints the changes of a reload",
	"top":    "\"hpad describe NAME\" shows the metrics of the instances, such as cpu and memory",
	"wait":   "\"hpad get NAME --watch\" prints each change",
	"watch":  "\"hpad get NAME --watch\" prints each change",
	"exec":   connectHint, "attach": connectHint, "cp": connectHint, "debug": connectHint, "port-forward": connectHint, "proxy": connectHint,
	"drain": pauseHint, "cordon": pauseHint, "uncordon": pauseHint,
	"cluster-info":  "\"hpad cluster\" shows the members of a cluster, and \"hpad health\" the state of the daemon",
	"config":        "the configuration is a file: \"hpad check\" validates it",
	"api-resources": "hpad has no resource types; \"hpad --help\" lists all commands",
	"expose":        "hpad publishes the addresses of instances for proxies: see the key endpoints of autoscalers",
}

// rolloutHints maps the subcommands of "kubectl rollout" to hints.
var rolloutHints = map[string]string{
	"restart": "write \"hpad restart NAME\"",
	"status":  "\"hpad describe NAME\" shows the progress of a replacement",
	"history": "write \"hpad history NAME\"",
	"undo":    "restore the previous configuration, then run \"hpad reload\"",
	"pause":   "write \"hpad pause NAME\"",
	"resume":  "write \"hpad resume NAME\"",
}

// kubectlHint returns a hint for the arguments of a command line whose command is unknown, or "".
func kubectlHint(args []string) string {
	if args[0] != "rollout" {
		return kubectlCommands[args[0]]
	}
	for _, word := range args[1:] {
		if text := rolloutHints[word]; text != "" {
			return text
		}
	}
	return rolloutHints["restart"] + ", or \"hpad describe NAME\""
}

// kubectlFlag returns a hint for a flag of kubectl that a command of hpad does not have, or "".
func kubectlFlag(command string, err error) string {
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok && command == "convert" && invalid.GetFlag().Name == "output" {
		return "--file " + invalid.GetValue() + " writes to a file"
	}
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return ""
	}
	name := unknown.GetSpecifiedName()
	switch {
	case slices.Contains([]string{"A", "all-namespaces", "n", "namespace"}, name):
		return "hpad has no namespaces for autoscalers: leave out this flag"
	case slices.Contains([]string{"as", "client", "cluster", "context", "kubeconfig", "s", "token", "user"}, name):
		return "the commands connect to the daemon on this host; --server selects a daemon on another host"
	case slices.Contains([]string{"L", "label-columns", "show-labels"}, name):
		return "-o wide shows more columns, and -o json everything"
	case slices.Contains([]string{"l", "selector", "field-selector"}, name) || name == "f" && command != "logs" || name == "filename":
		return fmt.Sprintf("name the autoscalers: \"hpad %s NAME\"; \"hpad get\" lists them", command)
	}
	return map[string]string{
		"scale replicas":         "the count is an argument: \"hpad scale NAME COUNT\"",
		"scale current-replicas": "the count is an argument: \"hpad scale NAME COUNT\"",
		"autoscale cpu":          "use --cpu-percent, for example --cpu-percent 80",
		"autoscale memory":       "use --memory-percent, for example --memory-percent 80",
		"logs all-pods":          "use --all",
		"logs prefix":            "use --all, which prints the name of the instance on each line",
		"logs c":                 "an instance has one output: leave out this flag",
		"logs all-containers":    "an instance has one output: leave out this flag",
		"logs container":         "an instance has one output: leave out this flag",
		"logs since":             "use --tail, the number of last lines",
		"logs since-time":        "use --tail, the number of last lines",
	}[command+" "+name]
}

// kinds of kubectl, in lower case.
var (
	autoscalerKinds = []string{"hpa", "hpas", "horizontalpodautoscaler", "horizontalpodautoscalers", "autoscaler", "autoscalers", "scaledobject", "scaledobjects", "so", "all"}
	workloadKinds   = []string{
		"deployment", "deployments", "deploy", "statefulset", "statefulsets", "sts", "replicaset", "replicasets", "rs",
		"service", "services", "svc", "job", "jobs", "fleet", "fleets", "target", "targets",
	}
	instanceKinds = []string{"pod", "pods", "po", "instance", "instances", "container", "containers", "task", "tasks"}
)

// isKind reports whether a word is a resource type for kubectl, such as hpa.v2.autoscaling.
func isKind(word string) bool {
	word, _, _ = strings.Cut(strings.ToLower(word), ".")
	return slices.Contains(slices.Concat(autoscalerKinds, workloadKinds, instanceKinds), word)
}

// withoutKind returns a hint for users of kubectl who write a resource type, and optionally a name.
func withoutKind(kind, name string) string {
	kind = strings.ToLower(kind)
	switch {
	case slices.Contains(instanceKinds, kind):
		return "\"hpad describe NAME\" lists the instances of an autoscaler, and \"hpad logs NAME INSTANCE\" prints their output"
	case name == "":
		return fmt.Sprintf("hpad has no resource types: leave out %q; \"hpad get\" lists the autoscalers", kind)
	}
	return fmt.Sprintf("hpad has no resource types: write only the name, %q", name)
}

// flagError returns the usage error for an invalid flag.
func flagError(cmd *cobra.Command, err error) error {
	if text := kubectlFlag(cmd.Name(), err); text != "" {
		return wrongUse(err, text)
	}
	return wrongUse(plainNumber(err), helpHint(cmd))
}

// plainNumber describes an invalid number in a flag without the name of a Go function.
func plainNumber(err error) error {
	number, ok := errors.AsType[*strconv.NumError](err)
	if !ok {
		return err
	}
	must := "must be a number"
	switch {
	case errors.Is(number, strconv.ErrRange):
		must = "is out of range"
	case number.Func == "ParseInt":
		must = "must be an integer"
	}
	return errors.New(strings.Replace(err.Error(), number.Error(), must, 1))
}
