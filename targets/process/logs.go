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

// WriteLogs writes the output of an instance. hpad may have emptied the file since the start of the
// process.
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
	file, err := os.Open(all[at].out.path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	end := info.Size()
	if query.Previous {
		if end, err = all[at].previousEnd(end); err != nil {
			return err
		}
	}
	offset, err := lastLines(file, end, query.Lines)
	if query.Previous && err == nil {
		_, err = io.Copy(to, io.NewSectionReader(file, offset, end-offset))
		return err
	}
	poll := time.NewTicker(relayInterval)
	defer poll.Stop()
	for err == nil {
		var n int64
		if n, err = io.Copy(to, io.NewSectionReader(file, offset, maxOutput)); err != nil || !query.Follow {
			return err
		}
		offset += n
		select {
		case <-poll.C:
		case <-all[at].ended:
			query.Follow = false // write the rest
		case <-ctx.Done():
			return ctx.Err()
		}
		if info, err = file.Stat(); err == nil && info.Size() < offset { // the file was truncated
			offset = 0
		}
	}
	return err
}

// previousEnd returns the end of the output before the start of the current process in a file with a
// size.
func (i *instance) previousEnd(size int64) (int64, error) {
	i.mu.Lock()
	running := i.child != nil
	i.mu.Unlock()
	if !running {
		return size, nil
	}
	start := i.out.startOffset()
	if start == 0 || start > size {
		return 0, errors.New("there is no output of a previous process")
	}
	return start, nil
}

// lastLines returns the offset of the last lines before an offset in a file. It reads backward in
// blocks, and returns fewer lines if they have more than maxOutput bytes.
func lastLines(file *os.File, end int64, lines int) (int64, error) {
	oldest := max(0, end-maxOutput)
	if lines <= 0 {
		return end, nil
	}
	block := make([]byte, maxLine)
	for end--; end > oldest; { // the last byte ends the last line
		start := max(oldest, end-int64(len(block)))
		n, err := file.ReadAt(block[:end-start], start)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		for text := block[:n]; ; lines-- {
			at := bytes.LastIndexByte(text, '\n')
			if at < 0 {
				break
			}
			if lines == 1 {
				return start + int64(at) + 1, nil
			}
			text = text[:at]
		}
		end = start
	}
	return oldest, nil
}
