package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hpad/hpad/guard"
)

// The collector is a process that writes the output of all instances of a fleet to their files, so
// that a process can never make a file larger than maxOutput. It is the only reader of the FIFOs of
// running processes, and outlives hpad like them. It ends when hpad and all processes have ended.
const (
	collectorName   = "hpad-output"
	collectorSocket = "collector.sock"
	// collectorIdle is the time until a collector that no hpad uses ends.
	collectorIdle = 30 * time.Second
	// maxPart limits one read of output, and maxParts the number of reads that a flush waits for,
	// which are more than a full FIFO.
	maxPart  = 64 << 10
	maxParts = 32
	// maxCopies limits the buffers and threads of the collector when the disk is slow.
	maxCopies = 8
)

// collectRequest requests that the collector reads the FIFO of a file until it is empty, and
// continues to read it until no process has it open. The response is a collectResponse.
type collectRequest struct {
	Path string `json:"path"`
}

type collectResponse struct {
	// End is the number of bytes of output.
	End   int64  `json:"end"`
	Error string `json:"error,omitempty"`
}

// init runs the collector. It is not a command of hpad, so that each program with a fleet, also a
// test, can start it.
func init() {
	if len(os.Args) != 1 || os.Args[0] != collectorName {
		return
	}
	if err := runCollector(); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// fifo is a FIFO that the collector reads.
type fifo struct {
	file *os.File
	raw  syscall.RawConn

	mu  sync.Mutex
	log *logWriter
	// err is the error with which the file was opened.
	err error
}

type collectorServer struct {
	copies chan []byte

	mu      sync.Mutex
	fifos   map[string]*fifo
	clients int
}

// runCollector serves the socket in the working directory. It returns at once if the directory has
// a collector.
func runCollector() error {
	_ = os.WriteFile("/proc/self/comm", []byte(collectorName), 0)                   // for ps and top
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGPIPE) // the processes end first
	dir, err := unix.Open(".", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err == nil {
		err = unix.Flock(dir, unix.LOCK_EX|unix.LOCK_NB)
	}
	if err != nil {
		return err
	}
	_ = os.Remove(collectorSocket)
	listener, err := net.Listen("unix", collectorSocket)
	if err != nil {
		return err
	}
	s := &collectorServer{copies: make(chan []byte, maxCopies), fifos: map[string]*fifo{}}
	for range maxCopies {
		s.copies <- nil
	}
	guard.AfterFunc(collectorIdle, func() { s.change(func() {}) })
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		s.change(func() { s.clients++ })
		orExit(func() { s.serve(conn) })
	}
}

// orExit calls f in a goroutine. A panic ends the collector, and hpad starts another.
func orExit(f func()) {
	guard.Go(func() {
		if !guard.Run(f) {
			os.Exit(1)
		}
	})
}

// change changes the collector, which ends when it is no longer needed.
func (s *collectorServer) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	if s.clients == 0 && len(s.fifos) == 0 {
		unix.Exit(0) // os.Exit waits for a second with the race detector
	}
}

func (s *collectorServer) serve(conn net.Conn) {
	defer s.change(func() { s.clients-- })
	defer func() { _ = conn.Close() }()
	requests, responses := json.NewDecoder(conn), json.NewEncoder(conn)
	for {
		var request collectRequest
		if requests.Decode(&request) != nil {
			return
		}
		var response collectResponse
		end, err := s.collect(request.Path)
		if err != nil {
			response.Error = err.Error()
		}
		response.End = end
		if responses.Encode(response) != nil {
			return
		}
	}
}

// collect starts to read the FIFO of a file unless it is read already. It returns the number of
// bytes of output after it has read what the FIFO contains.
func (s *collectorServer) collect(path string) (int64, error) {
	s.mu.Lock()
	f := s.fifos[path]
	if f == nil {
		var err error
		if f, err = openReader(path); err != nil {
			s.mu.Unlock()
			return 0, err
		}
		s.fifos[path] = f
		orExit(func() { s.read(path, f) })
	}
	s.mu.Unlock()
	err := f.raw.Control(func(fd uintptr) {
		for range maxParts {
			if n, _ := s.copyPart(f, fd); n <= 0 {
				return
			}
		}
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		f.log, f.err = openLogWriter(path)
	}
	return f.log.end, errors.Join(err, f.err)
}

// openReader opens the FIFO of a file. If the file cannot be opened, the output is dropped, because
// the process must not block.
func openReader(path string) (*fifo, error) {
	fd, err := unix.Open(fifoOf(path), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open FIFO of %s: %w", path, err)
	}
	f := &fifo{file: os.NewFile(uintptr(fd), path)}
	if f.raw, err = f.file.SyscallConn(); err != nil {
		_ = f.file.Close()
		return nil, err
	}
	f.log, f.err = openLogWriter(path)
	return f, nil
}

// read reads a FIFO until no process has it open.
func (s *collectorServer) read(path string, f *fifo) {
	for ended := false; !ended; {
		err := f.raw.Read(func(fd uintptr) bool {
			n, err := s.copyPart(f, fd)
			ended = err != nil && !errors.Is(err, unix.EAGAIN) || n == 0 && err == nil
			return n >= 0
		})
		ended = ended || err != nil
		if !ended {
			continue
		}
		s.change(func() {
			// hpad may have opened the FIFO since. It sends its request afterwards.
			_ = f.raw.Control(func(fd uintptr) {
				_, err := s.copyPart(f, fd)
				ended = !errors.Is(err, unix.EAGAIN)
			})
			if ended {
				delete(s.fifos, path)
				_ = f.file.Close()
				f.log.close()
			}
		})
	}
}

// copyPart copies a part of the output, if any. It returns 0 if no process has the FIFO open.
func (s *collectorServer) copyPart(f *fifo, fd uintptr) (int, error) {
	buffer := <-s.copies
	if buffer == nil {
		buffer = make([]byte, maxPart)
	}
	defer func() { s.copies <- buffer }()
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		n, err := unix.Read(int(fd), buffer)
		if n > 0 {
			f.log.append(buffer[:n])
		}
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}
