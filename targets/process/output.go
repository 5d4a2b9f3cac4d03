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
	// maxMessages limits the messages from hpad itself that wait for the writer.
	maxMessages = 32
	// unknownOffset means that hpad was killed, so the end of the relayed output is unknown.
	unknownOffset = -1
)

// output is the output of the processes of an instance. The processes write to a FIFO, and the
// collector writes the last part of their output to a file. A relay passes new lines to a writer,
// each with one call of Write. It ignores errors of the writer, because they must not stop a
// process. Only relayPart waits for the writer.
type output struct {
	// path is empty, and file and fifo are nil, if the output is discarded.
	path       string
	file, fifo *os.File
	to         io.Writer
	launcher   *launcher
	// watch is the number of the relay's watch, or -1.
	watch int

	mu sync.Mutex
	// offset is the end of the output that was read. rest is its incomplete last line.
	offset int64
	rest   []byte
	// start is the offset of the output of the current process.
	start int64
	// uncollected is set while the collector does not read the FIFO. Processes then start without it.
	uncollected bool
	// dropped is the number of bytes that were not relayed, and reported the number that the last
	// message contains.
	dropped, reported int64
	messages          []message
	// ending is set when the instance has ended, and ended when the relay has ended.
	ending, ended bool
}

// message is a line from hpad itself, which follows the output before the offset at.
type message struct {
	text string
	at   int64
}

// openOutput opens the file of an instance. If path is empty or the file cannot be opened, the
// output is discarded. If the writer is nil, lines are not relayed.
func openOutput(path string, to io.Writer, launcher *launcher) *output {
	o := &output{to: to, launcher: launcher, watch: -1}
	if to == nil {
		o.to = io.Discard
	}
	if path == "" {
		return o
	}
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		o.fifo, err = openFIFO(fifoOf(path))
	}
	if err == nil {
		o.file, err = os.OpenFile(path, os.O_CREATE|os.O_RDONLY, 0o600)
	}
	if err != nil {
		o.close()
		o.file, o.fifo = nil, nil
		o.printf("output is lost: %v", err)
		return o
	}
	o.path = path
	return o
}

// seek skips the output before offset, or all previous output if the offset is unknown.
func (o *output) seek(offset int64) {
	if o.file == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, end, _, ok := logBounds(o.file); ok && (offset < 0 || offset > end) {
		offset = end
	}
	o.offset = max(0, offset)
}

// collect makes the collector read the output, and returns the number of bytes of output.
func (o *output) collect(limit time.Duration) (end int64, err error) {
	if o.file == nil {
		return 0, nil
	}
	return o.launcher.collector.collect(o.path, limit)
}

// flush waits until the output that exists is in the file, at most for flushLimit.
func (o *output) flush() {
	_, _ = o.collect(flushLimit) // the rest is relayed later
}

// begin prepares the output for the start of a process.
func (o *output) begin() {
	end, err := o.collect(collectorStart)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.start, o.uncollected = end, err != nil; err != nil {
		o.add("output is lost: %v", err)
		o.launcher.relay.mark(o)
	}
}

// writeEnd returns the file that a process writes to, or nil if its output is discarded.
func (o *output) writeEnd() *os.File {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.uncollected {
		return nil
	}
	return o.fifo
}

// startOffset returns the start of the output of the current process, or 0 if there is no earlier
// output.
func (o *output) startOffset() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.start
}

// drop counts bytes that are not relayed. It reports only the first of them, and the total is
// reported when the instance ends. The caller must hold mu.
func (o *output) drop(n int64) {
	if o.dropped == 0 && n > 0 {
		o.add("lines are dropped, because the process writes more than hpad relays")
	}
	o.dropped += n
}

// relayPart writes new lines, up to a limit of bytes, with a buffer. It reports whether more may
// follow. Only the relay calls it.
func (o *output) relayPart(limit int, buffer []byte) (more bool) {
	for limit > 0 {
		lines, n, end := o.next(buffer[:min(limit, len(buffer))])
		for _, line := range lines {
			_, _ = o.to.Write(line)
		}
		if end {
			return false
		}
		limit -= n
	}
	return true
}

// next returns the next complete lines or messages, and the number of bytes that it has read.
func (o *output) next(buffer []byte) (lines [][]byte, n int, end bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended {
		return nil, 0, true
	}
	if len(o.messages) > 0 {
		buffer = buffer[:min(int64(len(buffer)), max(0, o.messages[0].at-o.offset))]
	}
	if o.file != nil {
		var at int64
		if n, at = readLog(o.file, buffer, o.offset); at > o.offset {
			o.drop(at - o.offset)
			lines = o.endLine()
		}
		o.offset = at + int64(n)
	}
	switch {
	case n > 0:
		return append(lines, o.split(buffer[:n])...), n, false
	case len(o.messages) == 0 && o.ending && o.dropped > o.reported:
		o.reported = o.dropped
		o.add("%d bytes of output were dropped", o.dropped)
	case len(o.messages) == 0:
		end = true
		if !o.ending {
			return nil, 0, end
		}
		o.closeLocked()
	}
	lines = append(lines, o.endLine()...)
	if len(o.messages) > 0 {
		lines, o.messages = append(lines, []byte("hpad: "+o.messages[0].text+"\n")), o.messages[1:]
	}
	return lines, 0, end
}

// endLine returns the incomplete last line, if any. The caller must hold mu.
func (o *output) endLine() [][]byte {
	if len(o.rest) == 0 {
		return nil
	}
	line := append(o.rest, '\n')
	o.rest = nil
	return [][]byte{line}
}

// split returns complete lines and buffers an incomplete line. The caller must hold mu.
func (o *output) split(piece []byte) (lines [][]byte) {
	o.rest = append(o.rest, piece...)
	for {
		end := bytes.IndexByte(o.rest, '\n')
		switch {
		case end >= 0:
			lines, o.rest = append(lines, o.rest[:end+1]), o.rest[end+1:]
		case len(o.rest) >= maxLine:
			lines, o.rest = append(lines, append(o.rest[:maxLine:maxLine], '\n')), o.rest[maxLine:]
		default:
			o.rest = bytes.Clone(o.rest)
			return lines
		}
	}
}

// printf writes a line from hpad itself after the output of the process.
func (o *output) printf(format string, args ...any) {
	o.mu.Lock()
	o.add(format, args...)
	o.mu.Unlock()
	o.launcher.relay.mark(o)
}

// add adds a line from hpad itself. The caller must hold mu.
func (o *output) add(format string, args ...any) {
	if len(o.messages) == maxMessages {
		return
	}
	at := o.offset
	if o.file != nil {
		if _, end, _, ok := logBounds(o.file); ok {
			at = end
		}
	}
	o.messages = append(o.messages, message{fmt.Sprintf(format, args...), at})
}

// detach ends the relay, and returns the offset from which the next hpad continues.
func (o *output) detach() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closeLocked()
	return o.offset - int64(len(o.rest))
}

func (o *output) hasEnded() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ended
}

// remove deletes the file. The relay writes the rest of the output and then closes the file. After
// an overflow, it writes only the last lines.
func (o *output) remove() {
	o.flush()
	if o.path != "" {
		_, _ = os.Remove(o.path), os.Remove(fifoOf(o.path))
	}
	o.mu.Lock()
	o.ending = true
	if o.dropped > 0 {
		if _, end, _, ok := logBounds(o.file); ok && end-o.offset > maxLine {
			o.drop(end - maxLine - o.offset)
			o.offset = end - maxLine
		}
	}
	o.mu.Unlock()
	o.launcher.relay.mark(o)
}

func (o *output) closeLocked() {
	if !o.ended {
		o.close()
	}
	o.ended = true
}

func (o *output) close() {
	for _, file := range []*os.File{o.file, o.fifo} {
		if file != nil {
			_ = file.Close()
		}
	}
}
