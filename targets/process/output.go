package process

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"
)

const (
	// maxLine is the length at which a line of output is split.
	maxLine = 64 << 10
	// maxOutput is the size above which a file with output is emptied.
	maxOutput = 8 << 20
	// relayInterval is the interval at which new output is relayed.
	relayInterval = 200 * time.Millisecond
	// unknownOffset means that hpad was killed, so the end of the relayed output is unknown.
	unknownOffset = -1
)

// output is a file that the processes of an instance append to. New lines are relayed to a
// writer, each with one call of Write. It ignores errors of the writer, because they must not stop
// a process.
type output struct {
	// file is nil if the output is discarded.
	file *os.File
	to   io.Writer

	mu sync.Mutex
	// offset is the end of the relayed part of the file. rest is its incomplete last line.
	offset int64
	rest   []byte
}

// openOutput opens the file of an instance. If path is empty or the file cannot be opened, the
// output is discarded. If the writer is nil, lines are not relayed.
func openOutput(path string, to io.Writer) *output {
	o := &output{to: to}
	if to == nil {
		o.to = io.Discard
	}
	if path == "" {
		return o
	}
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		o.file, err = os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	}
	if err != nil {
		o.file = nil
		o.printf("output is lost: %v", err)
	}
	return o
}

// seek skips the output before offset, or all previous output if the offset is unknown.
func (o *output) seek(offset int64) {
	if o.file == nil {
		return
	}
	if info, err := o.file.Stat(); err == nil && (offset < 0 || offset > info.Size()) {
		offset = info.Size()
	}
	o.offset = offset
}

// relay relays the new lines of the file, and buffers an incomplete line. If the process writes
// faster than relay reads, relay discards output, because otherwise it would never return, and the
// file would fill the disk.
func (o *output) relay() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.file == nil {
		return
	}
	info, err := o.file.Stat()
	if err != nil || info.Size() == o.offset {
		return
	}
	if info.Size() < o.offset { // the file was truncated
		o.offset = 0
	}
	buffer := make([]byte, maxLine)
	for {
		n, err := o.file.ReadAt(buffer, o.offset)
		o.offset += int64(n)
		o.add(buffer[:n])
		if err != nil || o.offset > info.Size()+maxOutput {
			break
		}
	}
	if o.offset > maxOutput && o.file.Truncate(0) == nil {
		o.offset = 0
	}
}

// add writes complete lines and buffers an incomplete line.
func (o *output) add(piece []byte) {
	o.rest = append(o.rest, piece...)
	for {
		end := bytes.IndexByte(o.rest, '\n')
		switch {
		case end >= 0:
			o.put(o.rest[:end+1])
			o.rest = o.rest[end+1:]
		case len(o.rest) >= maxLine:
			o.put(append(o.rest[:maxLine:maxLine], '\n'))
			o.rest = o.rest[maxLine:]
		default:
			o.rest = bytes.Clone(o.rest)
			return
		}
	}
}

// printf relays the output of the process, and then writes a line from hpad itself.
func (o *output) printf(format string, args ...any) {
	o.relay()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.finish()
	o.put(fmt.Appendf(nil, "hpad: "+format+"\n", args...))
}

// close relays the last output, and returns the offset of its end. It deletes the file if remove is
// set.
func (o *output) close(remove bool) int64 {
	o.relay()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.finish()
	if o.file != nil {
		_ = o.file.Close()
		if remove {
			_ = os.Remove(o.file.Name())
		}
	}
	return o.offset
}

func (o *output) finish() {
	if len(o.rest) > 0 {
		o.put(append(o.rest, '\n'))
		o.rest = nil
	}
}

func (o *output) put(line []byte) { _, _ = o.to.Write(line) }
