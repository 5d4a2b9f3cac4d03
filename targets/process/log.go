package process

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const (
	// maxOutput limits the size of the file with the output of an instance.
	maxOutput = 8 << 20
	// logHeader is the first line of such a file. Offsets count all output, also the dropped part.
	logHeader = "hpad: %d bytes of output before this line were dropped\n"
	// maxHeader is longer than any header.
	maxHeader = 96
	// maxReads limits the attempts to read a file that is emptied at the same time.
	maxReads = 10
)

// logBounds returns the offsets of the start and the end of the output in a file, and the length of
// its header. It returns false while the file is being emptied.
func logBounds(file *os.File) (first, end, header int64, ok bool) {
	start := make([]byte, maxHeader)
	n, err := file.ReadAt(start, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, 0, 0, false
	}
	header = int64(bytes.IndexByte(start[:n], '\n') + 1)
	_, err = fmt.Sscanf(string(start[:header]), logHeader, &first)
	info, statErr := file.Stat()
	if err != nil || statErr != nil {
		return 0, 0, 0, false
	}
	return first, first + info.Size() - header, header, true
}

// readLog reads output at an offset. If that part of the output was dropped, or if the offset is
// behind the end, it reads from the start of the file. It returns the number of bytes and their
// offset.
func readLog(file *os.File, buffer []byte, offset int64) (n int, at int64) {
	for range maxReads {
		first, end, header, ok := logBounds(file)
		if !ok {
			continue
		}
		at = offset
		if offset < first || offset > end {
			at = first
		}
		n, _ = file.ReadAt(buffer, at-first+header)
		if again, _, _, ok := logBounds(file); ok && again == first {
			return n, at
		}
	}
	return 0, offset
}

// openFIFO creates the FIFO for the output of an instance, and opens it for a process. The process
// can also read it, so that it does not get SIGPIPE if the collector ends.
func openFIFO(path string) (*os.File, error) {
	if err := unix.Mkfifo(path, 0o600); err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, fmt.Errorf("create FIFO %s: %w", path, err)
	}
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open FIFO %s: %w", path, err)
	}
	return os.NewFile(uintptr(fd), path), nil // os.OpenFile would make the writes of the process non-blocking
}

// fifoOf returns the path of the FIFO for the output in a file.
func fifoOf(path string) string { return path[:len(path)-len(filepath.Ext(path))] + ".fifo" }

// logWriter appends output to a file that no other program writes to.
type logWriter struct {
	// file is nil if it cannot be opened. All output is then dropped.
	file *os.File
	// end is the number of bytes of output, and size the expected size of the file.
	end, size int64
}

func openLogWriter(path string) (*logWriter, error) {
	w := &logWriter{size: -1}
	var err error
	if w.file, err = os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600); err != nil {
		w.file = nil
		return w, err
	}
	if _, end, header, ok := logBounds(w.file); ok {
		w.end = end
		if info, err := w.file.Stat(); err == nil && info.Size() >= header {
			w.size = info.Size()
		}
	}
	if w.size < 0 {
		_ = w.empty() // the next write tries again
	}
	return w, nil
}

// append writes a part of the output. It empties the file first if it would become too large, or if
// another program has changed it. Output that cannot be written, for example because the disk is
// full, is dropped and counted.
func (w *logWriter) append(part []byte) {
	if w.file == nil {
		return
	}
	info, err := w.file.Stat()
	if err == nil && (info.Size() != w.size || w.size+int64(len(part)) > maxOutput) {
		err = w.empty()
	}
	n := 0
	if err == nil {
		n, err = w.file.Write(part)
	}
	w.end += int64(len(part))
	w.size += int64(n)
	if err != nil {
		w.size = -1 // the next header contains the number of lost bytes
	}
}

// empty empties the file and writes its header.
func (w *logWriter) empty() error {
	w.size = -1
	if err := w.file.Truncate(0); err != nil {
		return err
	}
	n, err := fmt.Fprintf(w.file, logHeader, w.end)
	if err == nil {
		w.size = int64(n)
	}
	return err
}

func (w *logWriter) close() {
	if w.file != nil {
		_ = w.file.Close()
	}
}
