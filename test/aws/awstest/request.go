package awstest

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
)

// request is a call of the AWS Query protocol. Reading a parameter removes it, so that the
// remaining parameters are those that the server does not support.
type request struct {
	values url.Values
	err    error
}

func (r *request) text(key string) string {
	value := r.values.Get(key)
	delete(r.values, key)
	return value
}

func (r *request) number(key string, absent int) int {
	text := r.text(key)
	if text == "" {
		return absent
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		r.fail(key, text)
	}
	return n
}

func (r *request) truth(key string, absent bool) bool {
	switch text := r.text(key); text {
	case "":
		return absent
	case "true", "false":
		return text == "true"
	default:
		r.fail(key, text)
		return absent
	}
}

func (r *request) fail(key, text string) {
	r.err = fmt.Errorf("invalid value %s=%s", key, text)
}

// list reads prefix1, prefix2, ….
func (r *request) list(prefix string) []string {
	var list []string
	for n := 1; ; n++ {
		key := prefix + strconv.Itoa(n)
		if !r.values.Has(key) {
			return list
		}
		list = append(list, r.text(key))
	}
}

type filter struct {
	name   string
	values []string
}

// filters reads the filters prefix1, prefix2, …: their names and the values in prefix1.valuesN, ….
func (r *request) filters(prefix, values string) []filter {
	var all []filter
	for n := 1; ; n++ {
		at := prefix + strconv.Itoa(n)
		if !r.values.Has(at + ".Name") {
			return all
		}
		all = append(all, filter{name: r.text(at + ".Name"), values: r.list(at + values)})
	}
}

// left returns the unread parameters.
func (r *request) left() []string {
	var keys []string
	for key := range r.values {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

func decode(values url.Values) (action, *request, error) {
	r := &request{values: values}
	name, version := r.text("Action"), r.text("Version")
	known, ok := actions[version][name]
	if !ok {
		return nil, nil, fmt.Errorf("unknown action %q in version %q", name, version)
	}
	return known(r), r, nil
}

// action is a decoded call.
type action interface {
	// scope returns the name of the call's group, if any, and whether the call is a change.
	scope() (group string, change bool)
	run(c *Cloud) (element, *apiError)
}

// API versions of the services.
const (
	versionAutoScaling = "2011-01-01"
	versionEC2         = "2016-11-15"
	versionSTS         = "2011-06-15"
)

// actions maps API versions and action names to the implemented actions.
var actions = map[string]map[string]func(r *request) action{
	versionAutoScaling: {
		"DescribeAutoScalingGroups":           readDescribeGroups,
		"SetDesiredCapacity":                  readSetDesired,
		"TerminateInstanceInAutoScalingGroup": readTerminate,
		"DescribeScalingActivities":           readDescribeActivities,
		"DescribePolicies":                    readDescribePolicies,
		"DescribeInstanceRefreshes":           readDescribeRefreshes,
	},
	versionEC2: {"DescribeInstances": readDescribeInstances},
	versionSTS: {"GetCallerIdentity": readGetCallerIdentity, "AssumeRole": readAssumeRole},
}
