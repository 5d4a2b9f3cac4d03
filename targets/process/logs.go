package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/hpad/hpad/targets"
)

// WriteLogs writes the output of an instance. hpad may have emptied the file since the start of the
// process.
func (f *Fleet) WriteLogs(ctx context.Context, ref targets.Ref, id string, query targets.LogQuery, to io.Writer) error {
	_, err := targets.CallUnlessClosed(ctx, &f.base, "read the output of an instance of", func(ctx context.Context) (struct{}, error) {
		s, err := f.base.Target(ref)
		if err != nil {
			return struct{}{}, err
		}
		i := s.instance(id)
		switch {
		case i == nil:
			return struct{}{}, fmt.Errorf("%w: no instance %q", targets.ErrTargetNotFound, id)
		case i.out.file == nil:
			return struct{}{}, fmt.Errorf("%w: the output of %q is not stored", targets.ErrUnscalable, id)
		}
		return struct{}{}, writeOutput(ctx, i, query, to)
	})
	return err
}

// instance returns the instance with an ID, or nil if it does not exist.
func (s *service) instance(id string) *instance {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range slices.Concat(s.current, s.stopping) {
		if i.id == id {
			return i
		}
	}
	return nil
}

func writeOutput(ctx context.Context, i *instance, query targets.LogQuery, to io.Writer) error {
	file, err := os.Open(i.out.file.Name())
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	offset, err := lastLines(file, query.Lines)
	if err != nil {
		return err
	}
	poll := time.NewTicker(relayInterval)
	defer poll.Stop()
	for {
		n, err := io.Copy(to, io.NewSectionReader(file, offset, maxOutput))
		offset += n
		if err != nil || !query.Follow {
			return err
		}
		select {
		case <-poll.C:
		case <-i.ended:
			query.Follow = false // write the rest
		case <-ctx.Done():
			return nil
		}
		info, err := file.Stat()
		if err != nil {
			return err
		}
		if info.Size() < offset { // the file was truncated
			offset = 0
		}
	}
}

// lastLines returns the offset of the last lines of a file.
func lastLines(file *os.File, lines int) (int64, error) {
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	buffer := make([]byte, maxLine)
	for at := info.Size(); at > 0; {
		n := min(at, maxLine)
		at -= n
		if _, err := file.ReadAt(buffer[:n], at); errors.Is(err, io.EOF) {
			return 0, nil // the file was truncated
		} else if err != nil {
			return 0, err
		}
		for i, c := range slices.Backward(buffer[:n]) {
			if end := at + int64(i) + 1; c != '\n' || end == info.Size() {
				continue
			} else if lines--; lines == 0 {
				return end, nil
			}
		}
	}
	return 0, nil
}
