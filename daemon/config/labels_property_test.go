package config

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/settings/quantity"
	"github.com/hpad/hpad/targets"
)

// candidateTexts are texts of the types and keys of an autoscaler, most of them valid.
var candidateTexts = map[string][]string{
	"type": {"Resource", "External", "Instances", "Pods", "Object", "ContainerResource", "Percent"}, "target_type": {"Value", "AverageValue", "Utilization"},
	"resource": {"cpu", "memory"}, "source": {"prom", "prom", "nobody"}, "query": {"sum(queue)", "rate(x[1m])"}, "match": {"id", "name", "number"},
	"mode": {"on", "recommend", "off", "away"}, "on_foreign_change": {"accept", "restore", "ignore"}, "select_policy": {"Max", "Min", "Disabled", "Least"}, "drop": {"20%", "99%", "0%"},
	"min_replicas": {"1", "2"}, "max_replicas": {"2", "40"},
	"duration": {"1s", "30s", "1m", "1500ms", "2h"}, "quantity": {"1", "0.3", "500m", "1.5Gi", "0"}, "number": {"0", "1", "3", "60"}, "text": {"a", "b/c", "ä \"x\""},
}

// randomKeys makes up the keys of a table of a type, as labels and as TOML.
func randomKeys(random *rand.Rand, goType reflect.Type, path string, labels map[string]string) (members []string) {
	fields := settings.FieldsOf(goType)
	for _, key := range fields.Keys {
		if random.IntN(3) == 0 && key != "max_replicas" && key != "type" {
			continue
		}
		if written := randomValue(random, fields.ByKey[key].Type, key, path+key, labels); written != "" {
			members = append(members, key+" = "+written)
		}
	}
	return members
}

// inline writes a table in one line; "" is one without keys.
func inline(members []string) string {
	if len(members) == 0 {
		return ""
	}
	return "{ " + strings.Join(members, ", ") + " }"
}

func randomValue(random *rand.Rand, goType reflect.Type, key, path string, labels map[string]string) string {
	if goType.Kind() == reflect.Pointer {
		goType = goType.Elem()
	}
	switch {
	case settings.IsValue(goType):
		return randomLeaf(random, goType, key, path, labels)
	case goType.Kind() == reflect.Struct:
		return inline(randomKeys(random, goType, path+".", labels))
	case goType.Kind() == reflect.Map:
		return "{ \"a.b\" = " + randomLeaf(random, goType.Elem(), "", path+".a.b", labels) + " }"
	}
	var elements []string
	for i := range random.IntN(3) {
		if at := fmt.Sprintf("%s.%d", path, i); settings.IsValue(goType.Elem()) {
			elements = append(elements, randomLeaf(random, goType.Elem(), "", at, labels))
			continue
		}
		elements = append(elements, inline(randomKeys(random, goType.Elem(), fmt.Sprintf("%s.%d.", path, i), labels)))
	}
	if len(elements) == 0 {
		return ""
	}
	return "[" + strings.Join(elements, ", ") + "]"
}

func randomLeaf(random *rand.Rand, goType reflect.Type, key, path string, labels map[string]string) string {
	value := reflect.New(goType).Elem()
	of := "text"
	switch {
	case goType == reflect.TypeFor[time.Duration]():
		of = "duration"
	case goType == reflect.TypeFor[quantity.OrNumber](), goType == reflect.TypeFor[ratio]():
		of = "quantity"
	case value.CanInt():
		of = "number"
	}
	candidates := candidateTexts[key]
	if candidates == nil {
		candidates = candidateTexts[of]
	}
	text := candidates[random.IntN(len(candidates))]
	labels[targets.LabelPrefix+path] = text
	if of == "number" && !strings.HasSuffix(text, "%") {
		return text
	}
	return strconv.Quote(text)
}

// TestLabelsAreAsAFile holds that labels and the equivalent file give the same
// autoscaler, or the same mistakes.
func TestLabelsAreAsAFile(t *testing.T) {
	base, _, _ := strings.Cut(labeledFile, "[autoscalers.worker]")
	valid := 0
	for seed := range uint64(1500) {
		labels := map[string]string{}
		random := rand.New(rand.NewPCG(seed, 1))
		requests := randomValue(random, reflect.TypeFor[map[string]quantity.OrNumber](), "requests", "requests", labels)
		keys := randomKeys(random, reflect.TypeFor[scalingTable](), "", labels)
		file := base + "[autoscalers.worker]\ntarget = { fleet = \"local\", service = \"worker\", requests = " + requests + " }\n" + strings.Join(keys, "\n")
		fromFile, fileErr := Parse("file.toml", []byte(file))
		c, err := Parse("base.toml", []byte(base))
		if err != nil {
			t.Fatal(err)
		}
		fleet := c.Fleets["local"]
		fleet.LabelLimits = targets.LabelLimits{SyncPeriod: time.Second}
		c.Fleets["local"] = fleet
		labels[targets.EnableLabel] = "true"
		got, _, labelErr := c.Labeled(targets.Ref{Fleet: "local", Name: "worker"}, labels)
		if diff := cmp.Diff(details(fileErr), details(labelErr)); diff != "" {
			t.Fatalf("seed %d: mistakes differ (-file +labels):\n%s\nof\n%s", seed, diff, file)
		}
		if fileErr != nil {
			continue
		}
		valid++
		want := fromFile.Autoscalers["worker"]
		want.Name, want.Labels = got.Name, got.Labels
		if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Autoscaler{}), cmpopts.IgnoreFields(Autoscaler{}, "Warnings")); diff != "" {
			t.Fatalf("seed %d: labels and file differ (-file +labels):\n%s\nof\n%s", seed, diff, file)
		}
	}
	if valid < 30 {
		t.Errorf("only %d of the made-up tables are valid", valid)
	}
}

// details returns what is wrong, without where.
func details(err error) []string {
	mistakes, _ := errors.AsType[Errors](err)
	told := map[string]bool{}
	for _, mistake := range mistakes {
		told[mistake.Value+mistake.Detail] = true
	}
	return slices.Sorted(maps.Keys(told))
}
