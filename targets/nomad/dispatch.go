package nomad

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/nomad/api"

	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/targets"
)

// The instances of a group of a parameterized job are the allocations of its children: jobs that
// Nomad creates when the parameterized job is dispatched. The count is the number of pending and
// running children. They end by themselves, so hpad dispatches missing children and stops none.

// dispatchRejected is the reason for a dispatch that Nomad rejects, for example because the job
// requires a payload.
const dispatchRejected = "DispatchRejected"

// maxPayload is Nomad's limit for the payload of a child, in bytes.
const maxPayload = 16 << 10

// Dispatch contains the settings for the children of a parameterized job.
type Dispatch struct {
	// Payload is the payload of each child; at most 16 KiB.
	Payload string `toml:"payload"`
	// PayloadFile is the path of a file that contains the payload instead; at most 16 KiB. It is read
	// before each write.
	PayloadFile string `toml:"payload_file"`
	// Meta is the metadata of each child, with the keys that the job requires or allows.
	Meta map[string]string `toml:"meta"`
}

// dispatchOf returns the dispatch settings of a job.
func (c *Config) dispatchOf(t Target) Dispatch {
	if d, ok := c.Dispatch[t.Namespace+"/"+t.Job]; ok || t.Namespace != c.Namespace {
		return d
	}
	return c.Dispatch[t.Job]
}

// validate returns the errors of the settings, with paths relative to their table.
func (d Dispatch) validate() (errs settings.FieldErrors) {
	switch {
	case d.Payload != "" && d.PayloadFile != "":
		errs.Add("payload_file", strconv.Quote(d.PayloadFile), "must not be given together with payload")
	case len(d.Payload) > maxPayload:
		errs.Add("payload", "", fmt.Sprintf("must have at most %d bytes, Nomad's limit", maxPayload))
	}
	return errs
}

// request returns the request that dispatches one child.
func (d Dispatch) request(job string) (*api.DispatchOptions, error) {
	request := &api.DispatchOptions{JobID: job, Meta: d.Meta, Payload: []byte(d.Payload), IdPrefixTemplate: "hpad"}
	if d.PayloadFile == "" {
		return request, nil
	}
	file, err := os.Open(d.PayloadFile)
	if err == nil {
		defer func() { _ = file.Close() }()
		request.Payload, err = io.ReadAll(io.LimitReader(file, maxPayload+1))
	}
	if err == nil && len(request.Payload) > maxPayload {
		err = fmt.Errorf("%q has more than %d bytes, Nomad's limit", d.PayloadFile, maxPayload)
	}
	if err != nil {
		return nil, fmt.Errorf("read payload_file: %w", err)
	}
	return request, nil
}

// childrenOf is a filter for the pending and running children of a job.
func childrenOf(jobs []string, longest int) string {
	return both(cmp.Or(filterAll("ParentID", jobs, longest), `ParentID != ""`), `Status != "dead"`)
}

// readChildren reads the children of the parameterized jobs, and their allocations.
func (r *scopeReading) readChildren(ctx context.Context) error {
	parents := map[string]*jobState{}
	for id, job := range r.jobs {
		if job.listed && job.ParameterizedJob {
			parents[id], job.children, job.queued = job, map[string]int64{}, map[string]int32{}
		}
	}
	if len(parents) == 0 {
		return nil
	}
	parentOf := map[string]*jobState{}
	ids := slices.Sorted(maps.Keys(parents))
	_, err := readPages(ctx, r.session, r.at, list{path: "/v1/jobs", filter: childrenOf(ids, r.filter), size: jobsPage}, func(child *jobStub) {
		if parent := parents[child.ParentID]; parent != nil {
			parentOf[child.ID], parent.children[child.ID] = parent, child.SubmitTime
			parent.queue(child)
		}
	})
	if err != nil {
		return err
	}
	allocs := map[*jobState]map[string][]*alloc{}
	living := list{path: "/v1/allocations", filter: both(dispatchedBy(ids, r.filter), livingAllocs), params: map[string]string{"resources": "true"}, size: r.page}
	_, err = readPages(ctx, r.session, r.at, living, func(stub *allocStub) {
		if parent := parentOf[stub.JobID]; parent != nil {
			if allocs[parent] == nil {
				allocs[parent] = map[string][]*alloc{}
			}
			allocs[parent][stub.TaskGroup] = append(allocs[parent][stub.TaskGroup], newAlloc(stub))
		}
	})
	if err != nil {
		return err
	}
	for _, parent := range parents {
		for _, t := range parent.targets {
			t.set = r.childSet(t, allocs[parent][t.Group])
		}
	}
	return nil
}

// dispatchedBy returns a filter for the allocations of children; "" if it does not fit.
func dispatchedBy(jobs []string, longest int) string {
	filter := filterAll("JobID", jobs, longest)
	return strings.Replace(filter, ")$`", ")/dispatch-`", 1)
}

// queue adds the queued allocations of a child to those of its parent.
func (j *jobState) queue(child *jobStub) {
	for name, group := range child.JobSummary.Summary {
		j.queued[name] += group.Queued
	}
}

// waiting returns the number of queued allocations of a group: of its children for a parameterized job.
func (j *jobState) waiting(group string) int {
	if j.children != nil && !j.Stop {
		return int(j.queued[group])
	}
	return j.jobStub.waiting(group)
}

// childSet returns the allocations of a parameterized job's children. A child without an allocation
// counts as a pending one.
func (r *scopeReading) childSet(t *targetState, allocs []*alloc) *allocSet {
	placed := map[string]bool{}
	for _, a := range allocs {
		placed[a.JobID] = true
	}
	for _, id := range slices.Sorted(maps.Keys(t.job.children)) {
		if !placed[id] {
			allocs = append(allocs, newAlloc(&allocStub{
				ID: id, JobID: id, TaskGroup: t.Group, DesiredStatus: api.AllocDesiredStatusRun, ClientStatus: api.AllocClientStatusPending,
				CreateTime: t.job.children[id],
			}))
		}
	}
	set := &allocSet{at: r.at, key: t.groupKey(), jobIndexes: t.job.jobIndexes(), read: r.began, since: r.began, allocs: allocs, children: []string{}}
	for _, a := range allocs {
		if !a.canary() {
			set.children = append(set.children, a.JobID)
		}
	}
	return set
}

// dispatches completes the reading of a parameterized job. The version is the count, because writes
// depend only on the number of children.
func (j *jobState) dispatches(reading *targets.Reading) {
	count := int32(len(j.children))
	reading.SpecReplicas, reading.StatusReplicas, reading.Finite = count, count, true
	reading.Min, reading.Version = &count, strconv.Itoa(len(j.children))
}

// countChildren returns the number of pending and running children of a job, and Nomad's index. It
// reads from the leader.
func (s *session) countChildren(ctx context.Context, t Target) (alive int, index uint64, err error) {
	only := list{path: "/v1/jobs", filter: childrenOf([]string{t.Job}, longestFilter), size: jobsPage}
	h, err := readPages(ctx, s.consistent(), t.scope(), only, func(child *jobStub) {
		if child.ParentID == t.Job {
			alive++
		}
	})
	if err != nil {
		return 0, 0, fmt.Errorf("list children of job %q: %w", t.Job, readError(err))
	}
	return alive, h.index, nil
}

// dispatch dispatches children until n children exist, or as many as were missing at version. The
// tokens of the dispatches have a stored prefix, which is deleted after a complete write. So if a
// response is lost, or hpad ends, the next write sends the same tokens again, for which Nomad creates
// no second child.
func (f *Fleet) dispatch(ctx context.Context, session *session, ref targets.Ref, t Target, n int32, version string) error {
	alive, index, err := session.countChildren(ctx, t)
	if err != nil {
		return err
	}
	read, missing := alive, int(n)-alive
	if version != "" {
		read, _ = strconv.Atoi(version)
		missing = min(missing, int(n)-read)
	}
	switch {
	case alive > read:
		return fmt.Errorf("%w: job %q has %d children instead of %d", targets.ErrConflict, t.Job, alive, read)
	case int(n) < alive:
		return &targets.OutOfRangeError{Min: new(int32(alive)), Err: fmt.Errorf("hpad does not stop the %d children of job %q", alive, t.Job)}
	}
	prefix, err := f.tokenPrefix(ctx, ref)
	if err != nil {
		return err
	}
	request, err := f.config.dispatchOf(t).request(t.Job)
	if err != nil {
		return err
	}
	made := 0
	for i := 0; made < missing; i++ {
		isNew, err := session.dispatch(ctx, t, request, prefix+strconv.Itoa(i), index)
		switch {
		case err == nil && isNew:
			made++
		case err == nil:
		case made == 0 || errors.Is(err, targets.ErrUnknownOutcome):
			return err
		default:
			return &targets.PartialError{Reached: int32(alive + made), Err: err}
		}
	}
	if f.store != nil {
		_ = f.store.Delete(ctx, tokensKey(ref)) // the next write may use the prefix again
	}
	return nil
}

func tokensKey(ref targets.Ref) string { return "dispatch/" + ref.Name }

// tokenPrefix returns the prefix of an incomplete write, or a new one, which it stores.
func (f *Fleet) tokenPrefix(ctx context.Context, ref targets.Ref) (string, error) {
	prefix := "hpad-" + rand.Text() + "-"
	if f.store == nil {
		return prefix, nil
	}
	stored, err := f.store.Load(ctx, tokensKey(ref))
	switch {
	case err == nil && len(stored) > 0:
		return string(stored), nil
	case err == nil:
		err = f.store.Save(ctx, tokensKey(ref), []byte(prefix))
	}
	if err != nil {
		return "", fmt.Errorf("%w: store the idempotency token of a dispatch: %w", targets.ErrTransient, err)
	}
	return prefix, nil
}

// dispatch creates one child, and reports whether it is newer than index. After a lost response, it
// sends the same token a second time.
func (s *session) dispatch(ctx context.Context, t Target, request *api.DispatchOptions, token string, index uint64) (isNew bool, err error) {
	const attempts = 2
	for range attempts {
		var made *api.JobDispatchResponse
		if made, err = s.dispatchOnce(ctx, t, request, token); err == nil {
			return made.JobCreateIndex > index, nil
		}
		if err = dispatchError(err); !errors.Is(err, targets.ErrUnknownOutcome) {
			break
		}
	}
	return false, err
}

func (s *session) dispatchOnce(ctx context.Context, t Target, request *api.DispatchOptions, token string) (*api.JobDispatchResponse, error) {
	ctx, cancel := targets.WithCallTimeout(ctx, s.config.Timeout)
	defer cancel()
	at := t.scope()
	options := (&api.WriteOptions{Region: at.region, Namespace: at.namespace, AuthToken: s.token, IdempotencyToken: token}).WithContext(ctx)
	made, _, err := s.client.Jobs().DispatchOpts(request, options)
	return made, explain(ctx, err)
}

// rejections are the texts of responses to invalid dispatches, which have the status 500.
var rejections = []string{"Payload ", "Dispatch request", "Dispatch did not", "Duplicate key", textNoParameterized, "Specified job"}

// dispatchError converts the error of a dispatch to an error class of package targets.
func dispatchError(err error) error {
	status, body := responseOf(err)
	answer := &responseError{status: status, body: body}
	switch {
	case status == http.StatusForbidden || status == http.StatusUnauthorized:
		return fmt.Errorf("%w: %w; the token needs the capability dispatch-job", targets.ErrForbidden, answer)
	case status != 0 && slices.ContainsFunc(rejections, func(text string) bool { return strings.Contains(body, text) }):
		return reasoned(dispatchRejected, fmt.Errorf("%w: %w", targets.ErrUnscalable, answer))
	}
	return writeError(err, &group{})
}
