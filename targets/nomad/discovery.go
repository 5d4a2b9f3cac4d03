package nomad

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hpad/hpad/guard"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/nomad/scaling"
)

// everyNamespace selects all namespaces that the token may read.
const everyNamespace = "*"

func labels(tg *taskGroup) map[string]string {
	var found map[string]string
	for key, text := range tg.Meta {
		if !strings.HasPrefix(key, targets.LabelPrefix) {
			continue
		}
		if found == nil {
			found = map[string]string{}
		}
		found[key] = text
	}
	return found
}

// policyLabels returns a policy of nomad-autoscaler as labels, and what prevents its use. A shorter
// interval than labels may set is raised.
func (f *Fleet) policyLabels(policy *scaling.Autoscaler) (labels map[string]string, problem string) {
	var open []string
	for _, note := range policy.Open() {
		open = append(open, note.Text)
	}
	if len(open) > 0 {
		problem = "the scaling policy has no equivalent: " + strings.Join(open, "; ") + ". Write the autoscaler in the meta of the group or in a file; hpad convert prints a draft"
	}
	allowed := *policy
	if least := f.config.LabelLimits.SyncPeriod; allowed.SyncPeriod > 0 && allowed.SyncPeriod < least {
		allowed.SyncPeriod = least
	}
	labels = map[string]string{}
	for key, value := range allowed.Labels() {
		labels[targets.LabelPrefix+key] = value
	}
	return labels, problem
}

// Discover returns all task groups whose meta has a key that begins with "hpad.", in order, and with
// nomad_autoscaler_policies all groups with an enabled scaling policy. It
// includes groups of stopped and unscalable jobs, but not of jobs that periodic and parameterized
// jobs launch. It makes one list call per namespace, and one call per changed job. Jobs that cannot
// be read and namespaces that cannot be listed cause a targets.PartialDiscoveryError.
func (f *Fleet) Discover(ctx context.Context) ([]targets.Discovered, error) {
	if !f.config.Discover {
		return nil, nil
	}
	session, err := f.open(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.config.Address, err)
	}
	d := &discovery{fleet: f, session: session, found: map[string]targets.Discovered{}, unreadJobs: map[jobKey]bool{}}
	for _, namespace := range f.config.DiscoverNamespaces {
		at := scope{region: f.config.Region, namespace: namespace}
		if err := d.namespace(ctx, at); err != nil {
			d.unreadScopes = append(d.unreadScopes, at)
			d.errs = append(d.errs, err)
		}
	}
	if len(d.unreadScopes) == len(f.config.DiscoverNamespaces) {
		return nil, fmt.Errorf("%s: %w", f.config.Address, errors.Join(d.errs...))
	}
	answer := make([]targets.Discovered, 0, len(d.found))
	for _, found := range d.found {
		answer = append(answer, found)
	}
	slices.SortFunc(answer, func(a, b targets.Discovered) int { return strings.Compare(a.Name, b.Name) })
	f.cache.clean(time.Now())
	return answer, d.partial()
}

type discovery struct {
	fleet   *Fleet
	session *session
	found   map[string]targets.Discovered
	// unreadScopes lists the scopes that could not be listed. unreadJobs is the set of jobs that
	// could not be read. errs contains the causes.
	unreadScopes []scope
	unreadJobs   map[jobKey]bool
	errs         []error
}

func (d *discovery) partial() error {
	if len(d.errs) == 0 {
		return nil
	}
	const most = 5
	errs := d.errs
	if len(errs) > most {
		slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
		errs = append(errs[:most:most], fmt.Errorf("and %d more", len(d.errs)-most))
	}
	return &targets.PartialDiscoveryError{Err: errors.Join(errs...), Unread: func(name string) bool {
		t, err := parseName(name)
		return err == nil && (slices.Contains(d.unreadScopes, t.scope()) || d.unreadJobs[t.jobKey()])
	}}
}

// namespace discovers the groups in one namespace, or in all namespaces.
func (d *discovery) namespace(ctx context.Context, at scope) error {
	if err := d.fleet.backoff.Wait(); err != nil {
		return fmt.Errorf("list jobs of %v: %w", at, err)
	}
	var changed []jobKey
	_, err := readPages(ctx, d.session, at, list{path: "/v1/jobs", filter: `ParentID == ""`, size: jobsPage}, func(job *jobStub) {
		key := jobKey{scope: scope{region: at.region, namespace: job.Namespace}, id: job.ID}
		if spec := d.fleet.cache.spec(key, job.JobModifyIndex); spec != nil {
			d.take(key, spec)
		} else {
			changed = append(changed, key)
		}
	})
	err = readError(err)
	d.fleet.recordError(err)
	if err != nil {
		return fmt.Errorf("list jobs of %v: %w", at, err)
	}
	specs, errs := make([]*specification, len(changed)), make([]error, len(changed))
	var group guard.Group
	group.SetLimit(d.fleet.config.fetching())
	for i, key := range changed {
		group.Go(func() error {
			specs[i], errs[i] = d.fleet.specification(ctx, d.session, key, 0)
			return nil
		})
	}
	_ = group.Wait() // errors are stored per job
	for i, key := range changed {
		if err := d.job(key, specs[i], errs[i]); err != nil {
			d.fleet.recordError(err)
			return err
		}
	}
	return nil
}

// job adds the groups of a changed job. It returns an ErrThrottled, and records other errors.
func (d *discovery) job(key jobKey, spec *specification, err error) error {
	switch {
	case err == nil:
		d.take(key, spec)
		return nil
	case errors.Is(err, targets.ErrTargetNotFound): // purged since the list
		return nil
	case errors.Is(err, targets.ErrThrottled):
		return err
	case errors.Is(err, targets.ErrForbidden):
		err = fmt.Errorf("%w; the token can list the job, but needs read-job to read it", err)
	}
	d.unreadJobs[key] = true
	d.errs = append(d.errs, err)
	return nil
}

func (d *discovery) take(key jobKey, spec *specification) {
	for i := range spec.groups {
		g := &spec.groups[i]
		labels, problem := g.labels, ""
		if g.policy != nil && d.fleet.config.NomadAutoscalerPolicies && labels[targets.EnableLabel] == "" {
			labels, problem = d.fleet.policyLabels(g.policy)
		}
		if len(labels) == 0 {
			continue
		}
		t := Target{Region: key.region, Namespace: key.namespace, Job: key.id, Group: g.name}
		found := targets.Discovered{Name: t.Name(), Labels: labels, Problem: problem}
		if key.region == "" && spec.region != "" { // the name of the same target with the agent's own region
			t.Region = spec.region
			found.Aliases = []string{t.Name()}
		}
		d.found[found.Name] = found
	}
}

// Problems returns the current problems that do not fail a call.
func (f *Fleet) Problems() []string {
	var problems []string
	if _, err := f.connection.Client(context.Background()); err != nil {
		problems = append(problems, "changed TLS or password files are invalid, so hpad still uses the previous files: "+err.Error())
	}
	if err := f.records.Failure(); err != nil {
		problems = append(problems, "readiness cannot be stored: "+err.Error())
	}
	return problems
}
