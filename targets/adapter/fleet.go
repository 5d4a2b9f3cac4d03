package adapter

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/memory"
	"github.com/hpad/hpad/targets/sampling"
)

// Transport sends requests to an adapter. It is safe for concurrent use.
type Transport interface {
	// Call sends a request with a new ID, and returns the response. An error has a class of package
	// targets. It is an ErrUnknownOutcome if the adapter may have received the request.
	Call(ctx context.Context, request *Request) (*Response, error)
	io.Closer
}

// maxTargets is the maximum number of targets in a request.
const maxTargets = 1000

// Common contains the keys of all kinds of fleets with adapters. Their configurations embed it.
type Common struct {
	// Timeout limits one call, from the request to the end of the response.
	Timeout time.Duration `toml:"timeout" default:"10s" above:"0s" max:"5m" must:"more than 0, and 5m at most"`
	// ResourceInterval is the interval for calls of "samples": at least 1s.
	ResourceInterval time.Duration `toml:"resource_interval" default:"15s" min:"1s"`
	// Discovery finds autoscalers in the labels that the call "discover" returns.
	targets.Discovery
}

// CallTimeout returns the timeout of a call.
func (c *Common) CallTimeout() time.Duration { return c.Timeout }

// Validate returns the errors that all kinds have in common. Field paths are relative to the table.
func (c *Common) Validate() []settings.FieldError { return settings.Validate(c) }

// TargetConfig contains the keys of an autoscaler's target table.
type TargetConfig struct {
	// TargetName is the name by which the adapter identifies the target.
	TargetName string `toml:"name" required:"the name by which the adapter identifies the target, such as \"web\""`
}

// Validate returns all errors in the target.
func (t *TargetConfig) Validate() []settings.FieldError {
	errs := settings.Validate(t)
	if _, err := parseName(t.TargetName); err != nil && len(errs) == 0 {
		errs = append(errs, settings.FieldError{Field: "name", Value: strconv.Quote(t.TargetName), Detail: err.Error()})
	}
	return errs
}

// Name returns the target's name in a targets.Ref.
func (t *TargetConfig) Name() string { return t.TargetName }

// parseName rejects names that a program could mistake for an option or for several lines.
func parseName(name string) (string, error) {
	if name == "" || len(name) > targets.MaxTargetName || strings.HasPrefix(name, "-") || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		return "", fmt.Errorf("must have 1 to %d bytes, no control characters, and no \"-\" at the beginning", targets.MaxTargetName)
	}
	return name, nil
}

// NewKind returns a kind of fleets with adapters.
func NewKind(name string, config func() targets.Config) targets.Kind {
	const limit = "let the adapter return limits of the instances"
	return targets.Kind{
		Name: name, Config: config, Target: func() targets.Target { return new(TargetConfig) },
		Reference: targets.Reference{Paths: []string{"{name}"}, Whole: true, Example: "web", Workload: "{name}"},
		Samples:   true, Removes: true, Guarded: true,
		Limits:     map[string]string{"cpu": limit, "memory": limit},
		LabelPlace: "the labels that the adapter returns",
		Restart:    "the command of the target's platform",
		Without:    map[string]string{"down, unready instances": "the adapter or its platform chooses the instances"},
	}
}

// Fleet reads and scales the targets of one adapter. It is safe for concurrent use.
type Fleet struct {
	base      targets.Base[string]
	transport Transport
	lease     targets.Lease
	backoff   targets.Backoff
	records   *memory.Records[record]
	sampler   *sampling.Members[member, member, sampled]
	// prefix and requests make the IDs of requests.
	prefix   string
	requests atomic.Int64

	mu sync.Mutex
	// described is the response to Describe; nil before the first call and after a failed call.
	described *Response
	// last contains the last readings.
	last map[targets.Ref]received
}

// NewFleet returns a fleet that sends its requests through a transport, which it closes.
func NewFleet(name string, config *Common, transport Transport, env targets.Env) *Fleet {
	f := &Fleet{transport: transport, lease: env.Lease, prefix: rand.Text()[:12], last: map[targets.Ref]received{}}
	f.base.Name, f.base.Parse = name, parseName
	f.records = memory.New[record](env.Store, "instances/", shardOf)
	f.sampler = sampling.NewMembers(config.ResourceInterval, sampling.Kind[member, member, sampled]{
		Key: func(m member) member { return m }, Pass: f.sample, Sample: f.sampleOf,
	})
	return f
}

// Close stops sampling and closes the transport.
func (f *Fleet) Close() error {
	if !f.base.MarkClosed() {
		return nil
	}
	err := f.transport.Close()
	f.sampler.Close()
	f.records.Close()
	return err
}

// call sends a request, and returns the adapter's error or response.
func (f *Fleet) call(ctx context.Context, request *Request) (*Response, error) {
	if err := f.backoff.Wait(); err != nil {
		return nil, err
	}
	if err := f.require(ctx, request.Call); err != nil {
		return nil, err
	}
	begun := time.Now()
	response, err := f.send(ctx, request)
	if f.backoff.Record(err, begun, time.Now()); err != nil {
		return nil, fmt.Errorf("call %q: %w", request.Call, err)
	}
	return response, nil
}

func (f *Fleet) send(ctx context.Context, request *Request) (*Response, error) {
	request.Protocol, request.ID = Protocol, f.prefix+"-"+strconv.FormatInt(f.requests.Add(1), 10)
	response, err := f.transport.Call(ctx, request)
	switch {
	case err != nil:
		f.mu.Lock()
		defer f.mu.Unlock()
		f.described = nil // the next adapter may be another version
		return nil, err
	case response.Error == nil:
		return response, nil
	}
	if detail := response.Error.check(); detail != "" {
		return nil, Lost(request, fmt.Errorf("invalid response: error.%s", detail))
	}
	return nil, response.Error.asError(request.Call == Scale || request.Call == Remove)
}

// require returns an error if the adapter has another version of the protocol, or does not support
// an optional call.
func (f *Fleet) require(ctx context.Context, call Call) error {
	described, err := f.Description(ctx)
	if err == nil && slices.Contains([]Call{Samples, Remove, Discover}, call) && !slices.Contains(described.Calls, call) {
		return fmt.Errorf("call %q: %w: the adapter does not support this call", call, targets.ErrUnscalable)
	}
	return err
}

// Description returns the response to Describe of the current adapter.
func (f *Fleet) Description(ctx context.Context) (*Response, error) {
	f.mu.Lock()
	described := f.described
	f.mu.Unlock()
	if described != nil {
		return described, nil
	}
	described, err := f.send(ctx, &Request{Call: Describe})
	switch {
	case err != nil:
		return nil, fmt.Errorf("call %q: %w", Describe, err)
	case described.Protocol != Protocol:
		return nil, fmt.Errorf("call %q: %w: the adapter has version %d of the protocol; hpad requires version %d", Describe, targets.ErrUnscalable, described.Protocol, Protocol)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.described = described
	return described, nil
}

// Check describes the adapter.
func (f *Fleet) Check(ctx context.Context) ([]string, error) {
	return targets.CallUnlessClosed(ctx, &f.base, "check", func(ctx context.Context) ([]string, error) {
		described, err := f.Description(ctx)
		if err != nil {
			return nil, err
		}
		optional := "no optional calls"
		if len(described.Calls) > 0 {
			optional = strings.Trim(fmt.Sprint(described.Calls), "[]")
		}
		return []string{fmt.Sprintf("the adapter %q supports %s", targets.Phrase(described.Name), optional)}, nil
	})
}

// Problems returns a sentence if the records of instances cannot be stored.
func (f *Fleet) Problems() []string {
	return targets.ProblemTexts(targets.MissingDetail{Text: "records of instances cannot be stored", Err: f.records.Failure()})
}

// Discover returns the targets that have labels for hpad.
func (f *Fleet) Discover(ctx context.Context) ([]targets.Discovered, error) {
	return targets.CallUnlessClosed(ctx, &f.base, "discover targets of", func(ctx context.Context) ([]targets.Discovered, error) {
		response, err := f.call(ctx, &Request{Call: Discover})
		if err != nil {
			return nil, err
		}
		var found []targets.Discovered
		for _, target := range response.Discovered {
			if _, err := parseName(target.Name); err != nil {
				return nil, fmt.Errorf("call %q: %w: invalid response: discovered.name %s %w", Discover, targets.ErrTransient, Excerpt([]byte(target.Name)), err)
			}
			maps.DeleteFunc(target.Labels, func(label, _ string) bool { return !strings.HasPrefix(label, targets.LabelPrefix) })
			if len(target.Labels) > 0 {
				found = append(found, targets.Discovered{Name: target.Name, Labels: target.Labels})
			}
		}
		return found, nil
	})
}

// SetReplicas sets the count of a target.
func (f *Fleet) SetReplicas(ctx context.Context, ref targets.Ref, n int32, version, reason string) error {
	return f.base.Scale(ctx, ref, n, "target", func(ctx context.Context, name string) error {
		return f.write(ctx, &Request{Call: Scale, Target: name, To: &n, Reason: reason}, version)
	})
}

// Remove removes instances of a target by ID.
func (f *Fleet) Remove(ctx context.Context, ref targets.Ref, ids []string, version, reason string) error {
	what := fmt.Sprintf("remove %d instances of target %q of fleet %q", len(ids), ref.Name, f.base.Name)
	return f.base.Write(ctx, ref, what, func(ctx context.Context, name string) error {
		return f.write(ctx, &Request{Call: Remove, Target: name, Instances: ids, Reason: reason}, version)
	})
}

// write sends a change of a target at a version that a reading contains; empty means any version.
func (f *Fleet) write(ctx context.Context, request *Request, version string) error {
	ctx, end, err := f.lease.Begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	from, own := parseVersion(version)
	if own == "" { // nothing but the count shows a foreign change
		now, err := f.current(ctx, request.Target)
		switch {
		case err != nil:
			return err
		case version != "" && now.SpecReplicas != from:
			return fmt.Errorf("%w: the count is %d, no longer %d", targets.ErrConflict, now.SpecReplicas, from)
		case now.Hold != nil:
			return &targets.HeldError{Hold: *now.Hold}
		}
		from, own = parseVersion(now.Version)
	}
	if request.To != nil && *request.To == from {
		return nil
	}
	request.From, request.Version = &from, own
	_, err = f.call(ctx, request)
	return err
}

// current reads one target.
func (f *Fleet) current(ctx context.Context, name string) (targets.Reading, error) {
	ref := targets.Ref{Fleet: f.base.Name, Name: name}
	readings, err := f.read(ctx, map[targets.Ref]string{ref: name})
	if err != nil {
		return targets.Reading{}, err
	}
	return readings[ref], readings[ref].Err
}

// versionOf returns the version of a reading: the count, which a write needs, and the adapter's own
// version of the target.
func versionOf(count int32, own string) string { return strconv.Itoa(int(count)) + "/" + own }

func parseVersion(version string) (count int32, own string) {
	text, own, _ := strings.Cut(version, "/")
	n, _ := strconv.ParseInt(text, 10, 32) // the version is empty or from versionOf
	return int32(n), own
}
