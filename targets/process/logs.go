package process

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"time"

	"github.com/hpad/hpad/targets"
)

// WriteLogs writes the output of an instance.
func (f *Fleet) WriteLogs(ctx context.Context, ref targets.Ref, id string, query targets.LogQuery, to io.Writer) error {
	s, err := f.base.Target(ref)
	if err != nil {
		return err
	}
	s.mu.Lock()
	all := slices.Concat(s.current, s.stopping)
	s.mu.Unlock()
	at := slices.IndexFunc(all, func(i *instance) bool { return i.id == id })
	switch {
	case at < 0:
		return errors.New("the instance no longer exists")
	case all[at].out.path == "":
		return errors.New("the output is not stored")
	}
	all[at].out.flush()
	file, err := os.Open(all[at].out.path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	first, end, _, _ := logBounds(file)
	if query.Previous {
		if end, err = all[at].previousEnd(first, end); err != nil {
			return err
		}
	}
	offset := lastLines(file, first, end, query.Lines)
	if offset, err = copyLog(to, file, offset, end); err != nil || query.Previous || !query.Follow {
		return err
	}
	return all[at].follow(ctx, file, offset, to)
}

// copyLog copies the output between two offsets, as far as it exists. It returns the offset after it.
func copyLog(to io.Writer, file *os.File, offset, end int64) (int64, error) {
	buffer := make([]byte, maxLine)
	for offset < end {
		n, at := readLog(file, buffer[:min(maxLine, end-offset)], offset)
		if n == 0 {
			break
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return offset, err
		}
		offset = at + int64(n)
	}
	return offset, nil
}

// follow writes new output until the instance has ended.
func (i *instance) follow(ctx context.Context, file *os.File, offset int64, to io.Writer) error {
	poll := time.NewTicker(relayInterval)
	defer poll.Stop()
	for ended := false; ; {
		var err error
		if offset, err = copyLog(to, file, offset, offset+maxOutput); err != nil || ended {
			return err
		}
		select {
		case <-poll.C:
		case <-i.ended:
			ended = true // write the rest
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// previousEnd returns the end of the output before the start of the current process.
func (i *instance) previousEnd(first, end int64) (int64, error) {
	i.mu.Lock()
	running := i.child != nil
	i.mu.Unlock()
	if !running {
		return end, nil
	}
	start := i.out.startOffset()
	if start <= first || start > end {
		return 0, errors.New("there is no output of a previous process")
	}
	return start, nil
}

// lastLines returns the offset of the last lines between two offsets. It reads backward in blocks.
func lastLines(file *os.File, first, end int64, lines int) int64 {
	if lines <= 0 {
		return end
	}
	block := make([]byte, maxLine)
	for end--; end > first; { // the last byte ends the last line
		start := max(first, end-int64(len(block)))
		n, at := readLog(file, block[:end-start], start)
		if at != start || n == 0 {
			return end // the file was emptied
		}
		for text := block[:n]; ; lines-- {
			at := bytes.LastIndexByte(text, '\n')
			if at < 0 {
				break
			}
			if lines == 1 {
				return start + int64(at) + 1
			}
			text = text[:at]
		}
		end = start
	}
	return first
}
