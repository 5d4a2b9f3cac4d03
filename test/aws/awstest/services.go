package awstest

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// roleKey is the prefix of the access keys of assumed roles.
const roleKey = "ASIAIMITATED"

type describeInstances struct {
	ids     []string
	filters []filter
	most    int
	token   string
	dryRun  bool
}

func readDescribeInstances(r *request) action {
	r.truth("IncludeManagedResources", true)
	return &describeInstances{
		ids: r.list("InstanceId."), filters: r.filters("Filter.", ".Value."), most: r.number("MaxResults", 1000),
		token: r.text("NextToken"), dryRun: r.truth("DryRun", false),
	}
}

func (a *describeInstances) scope() (string, bool) { return "", false }

func (a *describeInstances) run(c *Cloud) (element, *apiError) {
	if a.dryRun {
		return element{}, &apiError{status: http.StatusPreconditionFailed, code: "DryRunOperation", message: "Request would have succeeded, but DryRun flag is set."}
	}
	wanted := a.ids
	for _, f := range a.filters {
		if f.name != "instance-id" {
			return element{}, &apiError{status: http.StatusBadRequest, code: "InvalidParameterValue", message: "unknown filter " + f.name}
		}
		if len(f.values) > 200 {
			return element{}, &apiError{status: http.StatusBadRequest, code: "FilterLimitExceeded", message: "The maximum number of filter values specified on a single call is 200"}
		}
		wanted = append(wanted, f.values...)
	}
	names := c.names
	requested := map[string]bool{}
	everything := len(a.ids)+len(a.filters) == 0
	if !everything {
		names = nil
	}
	for _, id := range wanted {
		requested[id] = true
		if home := c.groupOf[id]; home != nil && !slices.Contains(names, home.Name) {
			names = append(names, home.Name)
		}
	}
	slices.Sort(names)
	var found []*Instance
	for _, name := range names {
		g := c.groups[name]
		c.settle(g, time.Now())
		for _, instance := range g.Instances {
			if (everything || requested[instance.ID]) && time.Since(instance.Launched) >= g.Lag {
				found = append(found, instance)
				delete(requested, instance.ID)
			}
		}
	}
	for _, id := range a.ids {
		if requested[id] {
			return element{}, &apiError{status: http.StatusBadRequest, code: "InvalidInstanceID.NotFound", message: "The instance ID '" + id + "' does not exist"}
		}
	}
	from, _ := strconv.Atoi(a.token)
	rest := found[min(from, len(found)):]
	var more []element
	if len(rest) > a.most {
		rest = rest[:a.most]
		more = []element{text("nextToken", strconv.Itoa(from+a.most))}
	}
	result := node("", list("reservationSet", "item", rest, func(i *Instance) []element {
		return []element{text("reservationId", "r-"+strings.TrimPrefix(i.ID, "i-")), node("instancesSet", node("item", describe(i)...))}
	}))
	result.children = append(result.children, more...)
	return result, nil
}

func describe(i *Instance) []element {
	state := [2]string{"16", "running"}
	switch i.State {
	case StatePending:
		state = [2]string{"0", "pending"}
	case StateTerminating:
		state = [2]string{"32", "shutting-down"}
	}
	keys := make([]string, 0, len(i.Tags))
	for key := range i.Tags {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return []element{
		text("instanceId", i.ID), text("imageId", "ami-00000000000000000"), node("instanceState", text("code", state[0]), text("name", state[1])),
		text("privateDnsName", "ip-"+strings.ReplaceAll(i.Address, ".", "-")+"."+Region+".compute.internal"), text("dnsName", ""),
		text("instanceType", i.Type), moment("launchTime", i.Launched), node("placement", text("availabilityZone", i.Zone)),
		text("privateIpAddress", i.Address),
		list("tagSet", "item", keys, func(key string) []element { return []element{text("key", key), text("value", i.Tags[key])} }),
	}
}

type getCallerIdentity struct{}

func readGetCallerIdentity(*request) action { return &getCallerIdentity{} }

func (a *getCallerIdentity) scope() (string, bool) { return "", false }

func (a *getCallerIdentity) run(*Cloud) (element, *apiError) {
	return node("", text("Arn", "arn:aws:iam::"+Account+":user/hpad"), text("UserId", "AIDAIMITATED"), text("Account", Account)), nil
}

type assumeRole struct{ role, session, externalID string }

func readAssumeRole(r *request) action {
	r.number("DurationSeconds", 3600)
	return &assumeRole{role: r.text("RoleArn"), session: r.text("RoleSessionName"), externalID: r.text("ExternalId")}
}

func (a *assumeRole) scope() (string, bool) { return "", false }

// run permits only the role hpad with the external ID "shop".
func (a *assumeRole) run(*Cloud) (element, *apiError) {
	if a.role != "arn:aws:iam::"+Account+":role/hpad" || a.externalID != "shop" {
		return element{}, &apiError{status: http.StatusForbidden, code: "AccessDenied", message: "User: arn:aws:iam::" + Account + ":user/hpad is not authorized to perform: sts:AssumeRole on resource: " + a.role}
	}
	return node("",
		node("Credentials", text("AccessKeyId", roleKey+"00000001"), text("SecretAccessKey", Secret), text("SessionToken", "imitated"), moment("Expiration", time.Now().Add(time.Hour))),
		node("AssumedRoleUser", text("AssumedRoleId", "AROAIMITATED:"+a.session), text("Arn", strings.Replace(a.role, "role", "assumed-role", 1)+"/"+a.session)),
	), nil
}
