// Package notify sends events about autoscalers to receivers over HTTP. It posts events in order,
// as CloudEvents or as the output of a template. It retries a failed post until the event is
// delivered or too old. Senders of events never wait for a receiver.
package notify

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon/problem"
	"github.com/hpad/hpad/daemon/redact"
	"github.com/hpad/hpad/guard"
	"github.com/hpad/hpad/settings/httpclient"
	"github.com/hpad/hpad/settings/secret"
	"github.com/hpad/hpad/settings/template"
)

// Kind classifies events.
type Kind string

// The kinds of events. Changed means that a count was written. Refused means that a wanted count
// was not written. Failed means that passes or reads fail with a new cause. Recovered means that
// they succeed again.
const (
	Changed   Kind = "changed"
	Refused   Kind = "refused"
	Failed    Kind = "failed"
	Recovered Kind = "recovered"
)

var kinds = []Kind{Changed, Refused, Failed, Recovered}

// Event describes an event. Templates can use its fields.
type Event struct {
	// ID is unique. Retries of a post have the same ID.
	ID   string    `json:"-"`
	Kind Kind      `json:"-"`
	Time time.Time `json:"-"`
	// Autoscaler is empty if the event concerns a whole fleet or source. Target is "fleet/target".
	Autoscaler string `json:"autoscaler,omitempty"`
	Fleet      string `json:"fleet,omitempty"`
	Source     string `json:"source,omitempty"`
	Target     string `json:"target,omitempty"`
	// From is the count before the event. To is the wanted count, or the count that was reached.
	// Both are 0 if there is no decision.
	From int32 `json:"from"`
	To   int32 `json:"to"`
	// Reason is the code from docs/reasons.md that explains the pass. It is empty if the event
	// concerns a fleet or source.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message"`
}

// Subject returns the subject of the event, such as "autoscaler/checkout".
func (e *Event) Subject() string {
	switch {
	case e.Autoscaler != "":
		return "autoscaler/" + e.Autoscaler
	case e.Source != "":
		return "source/" + e.Source
	}
	return "fleet/" + e.Fleet
}

// redacted returns a copy of the event without secrets.
func (e *Event) redacted() *Event {
	shown := *e
	for _, text := range []*string{&shown.Autoscaler, &shown.Fleet, &shown.Source, &shown.Target, &shown.Reason, &shown.Message} {
		*text = redact.Text(*text)
	}
	return &shown
}

// cloudEvent is an event in the structured JSON format of CloudEvents 1.0.
type cloudEvent struct {
	SpecVersion     string    `json:"specversion"`
	ID              string    `json:"id"`
	Source          string    `json:"source"`
	Type            string    `json:"type"`
	Subject         string    `json:"subject"`
	Time            time.Time `json:"time"`
	DataContentType string    `json:"datacontenttype"`
	Data            *Event    `json:"data"`
}

// Counts contains the number of events of one receiver by result.
type Counts struct {
	// Sent is the number of delivered events. Failed is the number of events that expired or were
	// rejected. Dropped is the number of events that did not fit into the queue.
	Sent, Failed, Dropped uint64
	// Waiting is the number of queued events.
	Waiting int
}

type tally struct{ sent, failed, dropped atomic.Uint64 }

// Notifier sends events to one receiver. It is safe for concurrent use.
type Notifier struct {
	name   string
	config Config
	body   *template.Template
	http   *http.Client
	log    *zap.Logger
	queue  chan Event

	// tally continues the counts of the replaced receiver.
	tally *tally
	// overflowed reports whether the last event did not fit into the queue.
	overflowed atomic.Bool
	problem    problem.Problem

	start sync.Once
	// unsent is the number of events that were not sent before Close canceled the posts.
	unsent int
	// stop cancels all posts. ended is closed when run returns.
	stop  context.CancelCauseFunc
	ended chan struct{}
}

// newNotifier returns a notifier for a valid configuration. It posts events after Start is called. newNotifier
// returns an error if it cannot read a file of the configuration.
func newNotifier(name string, c Config, log *zap.Logger) (*Notifier, error) {
	client, err := c.NewClient("notify", nil)
	if err != nil {
		return nil, fmt.Errorf("notifications %q: %w", name, err)
	}
	body, err := c.body()
	if err != nil {
		return nil, fmt.Errorf("notifications %q: template: %w", name, err)
	}
	return &Notifier{
		name: name, config: c, body: body, http: client, log: log.With(zap.String("receiver", name)),
		queue: make(chan Event, c.Queue), tally: &tally{}, ended: make(chan struct{}),
	}, nil
}

// Start starts posting. Later calls have no effect.
func (n *Notifier) Start() {
	n.start.Do(func() {
		var ctx context.Context
		ctx, n.stop = context.WithCancelCause(context.Background())
		guard.Go(func() { n.run(ctx) })
	})
}

func (n *Notifier) wants(event *Event) bool {
	if len(n.config.Events) > 0 && !slices.Contains(n.config.Events, string(event.Kind)) {
		return false
	}
	return len(n.config.Reasons) == 0 || event.Reason == "" || slices.Contains(n.config.Reasons, event.Reason)
}

// Notify queues an event if the receiver wants it. It never blocks: if the queue is full, the event
// is lost and counted.
func (n *Notifier) Notify(event *Event) {
	if !n.wants(event) {
		return
	}
	queued := *event
	queued.ID = rand.Text()
	select {
	case n.queue <- queued:
		n.overflowed.Store(false)
	default:
		n.tally.dropped.Add(1)
		if !n.overflowed.Swap(true) {
			n.log.Error("notifications lost, queue full", zap.Int("queue", cap(n.queue)))
		}
	}
}

// counts returns the number of events by result.
func (n *Notifier) counts() Counts {
	t := n.tally
	return Counts{Sent: t.sent.Load(), Failed: t.failed.Load(), Dropped: t.dropped.Load(), Waiting: len(n.queue)}
}

// errClosed is the cancellation cause of a post when hpad stops or reloads its configuration.
var errClosed = errors.New("hpad stopped or reloaded its configuration")

// Close posts the waiting events until ctx ends. It logs the remaining events and counts them as
// dropped. Notify must not be called after Close.
func (n *Notifier) Close(ctx context.Context) {
	close(n.queue)
	n.Start()
	select {
	case <-n.ended:
	case <-ctx.Done():
	}
	n.stop(errClosed)
	<-n.ended
	n.http.CloseIdleConnections()
	if n.unsent > 0 {
		n.tally.dropped.Add(uint64(n.unsent))
		n.log.Error("notifications lost at stop", zap.Int("count", n.unsent))
	}
}

func (n *Notifier) run(ctx context.Context) {
	defer close(n.ended)
	for event := range n.queue {
		if !guard.Run(func() { n.handle(ctx, &event) }) {
			n.tally.failed.Add(1)
		}
	}
}

// handle posts an event, or counts it as unsent if ctx ends.
func (n *Notifier) handle(ctx context.Context, event *Event) {
	if ctx.Err() != nil {
		n.unsent++
		return
	}
	err := n.deliver(ctx, event)
	switch {
	case err == nil:
		n.tally.sent.Add(1)
	case ctx.Err() != nil:
		n.unsent++
		return
	default:
		n.tally.failed.Add(1)
	}
	n.report(err)
}

// report logs the first failure with each cause, and the recovery.
func (n *Notifier) report(err error) {
	news, fields := n.problem.Set(err)
	switch {
	case news && err != nil:
		n.log.Warn("notification delivery failed", append(fields, zap.NamedError("err", err))...)
	case news:
		n.log.Info("notification delivery recovered", fields...)
	}
}

// A failed post is retried after firstWait. The wait then doubles up to longestWait. A Retry-After
// header can extend it, also up to longestWait.
const (
	firstWait   = time.Second
	longestWait = time.Minute
)

// deliver posts an event until it is accepted, rejected or too old.
func (n *Notifier) deliver(ctx context.Context, event *Event) error {
	body, err := n.encode(event)
	if err != nil {
		return err
	}
	begun, wait := time.Now(), firstWait
	for {
		after, err := n.post(ctx, body)
		var rejected *rejectedError
		if err == nil || ctx.Err() != nil || errors.As(err, &rejected) {
			return err
		}
		pause := max(after, wait/2+mathrand.N(wait/2))
		if time.Since(begun)+pause > n.config.GiveUpAfter {
			return fmt.Errorf("gave up after %s: %w", n.config.GiveUpAfter, err)
		}
		n.report(err)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		wait = min(2*wait, longestWait)
	}
}

// encode returns the body of an event without secrets.
func (n *Notifier) encode(event *Event) ([]byte, error) {
	event = event.redacted()
	if n.body == nil {
		return json.Marshal(cloudEvent{
			SpecVersion: "1.0", ID: event.ID, Source: "/hpad", Type: "io.hpad." + string(event.Kind),
			Subject: event.Subject(), Time: event.Time, DataContentType: "application/json", Data: event,
		})
	}
	body, err := n.body.Execute(event)
	if err != nil {
		return nil, fmt.Errorf("execute the template: %w", err)
	}
	return []byte(body), nil
}

// rejectedError is a response after which the event must not be retried.
type rejectedError struct{ status string }

func (e *rejectedError) Error() string { return "the receiver returned " + e.status }

// post makes one attempt. after is the delay before the next attempt that the receiver requested.
func (n *Notifier) post(ctx context.Context, body []byte) (after time.Duration, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, n.config.Timeout, fmt.Errorf("no response within %s: %w", n.config.Timeout, context.DeadlineExceeded))
	defer cancel()
	address := n.config.URL
	if n.config.URLFile != "" {
		var err error
		if address, err = secret.Read(n.config.URLFile); err != nil {
			return 0, fmt.Errorf("read url_file: %w", err)
		}
		if detail := checkSecret(address); detail != "" {
			return 0, errors.New("url_file: the URL in this file " + detail)
		}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return 0, errors.New("invalid URL") // the error omits the URL, because it can be a secret
	}
	contentType := "application/cloudevents+json"
	if n.body != nil {
		contentType = n.config.ContentType
	}
	request.Header.Set("Content-Type", contentType)
	if err := httpclient.SetHeaderFiles(request.Header, n.config.HeaderFiles); err != nil {
		return 0, err
	}
	response, err := n.http.Do(request)
	if err != nil {
		return 0, withoutAddress(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, _ := io.ReadAll(io.LimitReader(response.Body, 300))
	status := response.Status
	if detail := strings.Join(strings.Fields(strings.ToValidUTF8(string(text), "")), " "); detail != "" {
		status += ": " + redact.Text(detail)
	}
	switch code := response.StatusCode; {
	case code < 300:
		return 0, nil
	case code == http.StatusTooManyRequests || code == http.StatusRequestTimeout || code >= 500:
		return retryAfter(response.Header.Get("Retry-After")), fmt.Errorf("the receiver returned %s", status)
	}
	return 0, &rejectedError{status}
}

// withoutAddress removes the URL from the error of a request, because the URL can be a secret.
func withoutAddress(err error) error {
	if cause := errors.Unwrap(err); cause != nil {
		return cause
	}
	return err
}

// retryAfter returns the delay in a Retry-After header, or 0 if the header is missing or invalid.
func retryAfter(header string) time.Duration {
	if seconds, err := strconv.Atoi(header); err == nil && seconds > 0 {
		return min(time.Duration(seconds)*time.Second, longestWait)
	}
	if at, err := http.ParseTime(header); err == nil {
		return min(max(0, time.Until(at)), longestWait)
	}
	return 0
}
