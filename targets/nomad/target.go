package nomad

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/hpad/hpad/settings"
)

// Target is an autoscaler's target in a Nomad fleet.
type Target struct {
	// Job is the job's id, Group the name of one of its task groups.
	Job   string `toml:"job"`
	Group string `toml:"group"`
	// Namespace is the job's; empty means the fleet's.
	Namespace string `toml:"namespace"`
	// Region is the job's; empty means the fleet's.
	Region string `toml:"region"`
}

// Validate returns every mistake of the target.
func (t *Target) Validate() []settings.FieldError {
	var mistakes []settings.FieldError
	if t.Job == "" {
		mistakes = append(mistakes, settings.FieldError{Field: "job", Detail: "is required: the id of a job"})
	}
	if t.Group == "" {
		mistakes = append(mistakes, settings.FieldError{Field: "group", Detail: "is required: the name of one of the job's task groups"})
	}
	if t.Namespace == "*" {
		mistakes = append(mistakes, settings.FieldError{Field: "namespace", Value: strconv.Quote(t.Namespace), Detail: "must be one namespace"})
	}
	return mistakes
}

// Name returns the target's name in a targets.Ref: "job/group" in the namespace
// "default", "namespace/job/group" in others, "region/namespace/job/group" where
// a region is named. A slash inside of a part is "%2F", a percent sign "%25".
func (t *Target) Name() string {
	namespace := cmp.Or(t.Namespace, DefaultNamespace)
	switch {
	case t.Region != "":
		return joinParts(t.Region, namespace, t.Job, t.Group)
	case namespace != DefaultNamespace:
		return joinParts(namespace, t.Job, t.Group)
	}
	return joinParts(t.Job, t.Group)
}

// parseName is the inverse of Name.
func parseName(name string) (Target, error) {
	parts := strings.Split(name, "/")
	for i := range parts {
		if strings.Contains(parts[i], "%") {
			parts[i] = unescape.Replace(parts[i]) // which copies
		}
		if parts[i] == "" {
			return Target{}, fmt.Errorf("target %q has an empty part", name)
		}
	}
	switch len(parts) {
	case 2:
		return Target{Job: parts[0], Group: parts[1], Namespace: DefaultNamespace}, nil
	case 3:
		return Target{Namespace: parts[0], Job: parts[1], Group: parts[2]}, nil
	case 4:
		return Target{Region: parts[0], Namespace: parts[1], Job: parts[2], Group: parts[3]}, nil
	}
	return Target{}, fmt.Errorf("target %q is not as job/group, namespace/job/group or region/namespace/job/group", name)
}

var (
	escape   = strings.NewReplacer("%", "%25", "/", "%2F")
	unescape = strings.NewReplacer("%25", "%", "%2F", "/")
)

func joinParts(parts ...string) string {
	escaped := make([]string, len(parts))
	for i, part := range parts {
		escaped[i] = escape.Replace(part)
	}
	return strings.Join(escaped, "/")
}

// scope is what one set of list calls covers.
type scope struct{ region, namespace string }

func (s scope) String() string {
	if s.region == "" {
		return fmt.Sprintf("namespace %q", s.namespace)
	}
	return fmt.Sprintf("namespace %q of region %q", s.namespace, s.region)
}

func (t Target) scope() scope { return scope{region: t.Region, namespace: t.Namespace} }

// jobKey names a job.
type jobKey struct {
	scope
	id string
}

func (t Target) jobKey() jobKey { return jobKey{scope: t.scope(), id: t.Job} }

func (t Target) groupKey() groupKey { return groupKey{job: t.Job, group: t.Group} }
