package daemon

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"golang.org/x/sync/errgroup"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/endpoints"
	"github.com/hpad/hpad/daemon/kinds"
	"github.com/hpad/hpad/daemon/redact"
	"github.com/hpad/hpad/targets"
)

// The limits for the last output of failing instances in a list: the number of instances, the size
// in bytes, the time, and the length in characters of the line.
const (
	maxFailing       = 20
	maxFailingOutput = 64 << 10
	failingTimeout   = 2 * time.Second
	maxLastOutput    = 200
)

// WriteLogs writes the output of an instance, which may be given by its ID or its name. The error
// is an api.ErrUnknown if there is no such autoscaler or instance, and an api.ErrRefused if the
// output cannot be read.
func (d *Daemon) WriteLogs(ctx context.Context, name, instance string, query targets.LogQuery, to io.Writer) error {
	if err := d.AwaitRunning(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(d.env.RunContext, cancel)()
	a := d.scheduler.Current().Autoscalers[name]
	if a == nil {
		return fmt.Errorf("autoscaler %q: %w", name, api.ErrUnknown)
	}
	ref := a.Definition().Target
	reading, err := d.readEndpoints(ctx, &endpoints.Target{Autoscaler: name, Ref: ref}, true)
	if err != nil {
		return fmt.Errorf("%w: %w", api.ErrRefused, err)
	}
	id := findInstance(&reading, instance)
	if id == "" {
		return fmt.Errorf("instance %q of autoscaler %q: %w", instance, name, api.ErrUnknown)
	}
	logger, kind := d.logger(ref)
	if logger == nil {
		where := "on its host"
		if command := kinds.Fleets[kind].LogCommand; command != "" {
			where = fmt.Sprintf("printed by %q", command+" "+id)
		}
		return fmt.Errorf("%w: hpad cannot read the output of an instance of kind %s; the output is %s", api.ErrRefused, kind, where)
	}
	if err := logger.WriteLogs(ctx, ref, id, query, to); err != nil {
		return fmt.Errorf("%w: %w", api.ErrRefused, err)
	}
	return nil
}

// logger returns the fleet of a target and its kind. The fleet is nil if it is not a Logger.
func (d *Daemon) logger(ref targets.Ref) (targets.Logger, string) {
	fleet := d.scheduler.Current().Fleets[ref.Fleet]
	if fleet == nil {
		return nil, ""
	}
	logger, _ := fleet.Inner.(targets.Logger)
	return logger, fleet.Kind
}

// findInstance returns the ID of the instance with an ID or a name, or "" if there is none.
func findInstance(reading *targets.Reading, instance string) (id string) {
	for i := range reading.Instances {
		if reading.Instances[i].ID == instance {
			return instance
		}
		if reading.Locations != nil && reading.Locations.At(i).Name == instance {
			id = cmp.Or(id, reading.Instances[i].ID)
		}
	}
	return id
}

// addLastOutput adds the last line of output to failing instances. It leaves out lines that cannot
// be read.
func (d *Daemon) addLastOutput(ctx context.Context, ref targets.Ref, list *api.InstanceList) {
	logger, _ := d.logger(ref)
	if logger == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, failingTimeout)
	defer cancel()
	var reads errgroup.Group
	failing := 0
	for i := range list.Instances {
		one := &list.Instances[i]
		if !one.Failing || failing == maxFailing {
			continue
		}
		failing++
		reads.Go(func() error {
			var output limitedBuffer
			err := logger.WriteLogs(ctx, ref, one.ID, targets.LogQuery{Lines: 3}, &output)
			one.LastOutput = lastLine(string(output.text))
			return err
		})
	}
	_ = reads.Wait() // the output is not required
}

// lastLine returns the last line that is not blank, without secrets and control characters.
func lastLine(text string) string {
	text = strings.TrimSpace(strings.ToValidUTF8(text, "\ufffd"))
	line := redact.Text(text[strings.LastIndexByte(text, '\n')+1:])
	letters := []rune(strings.Map(func(letter rune) rune {
		if letter == '\t' {
			return ' '
		}
		if !unicode.IsPrint(letter) {
			return unicode.ReplacementChar
		}
		return letter
	}, line))
	if len(letters) > maxLastOutput {
		letters = append(letters[:maxLastOutput-1], '…')
	}
	return string(letters)
}

// limitedBuffer contains the first maxFailingOutput bytes that are written to it.
type limitedBuffer struct{ text []byte }

func (b *limitedBuffer) Write(part []byte) (int, error) {
	b.text = append(b.text, part[:min(len(part), maxFailingOutput-len(b.text))]...)
	return len(part), nil
}
