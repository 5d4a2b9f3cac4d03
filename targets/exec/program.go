package exec

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/hpad/hpad/guard"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/adapter"
	"github.com/hpad/hpad/targets/proc"
)

const (
	// endWait is the time that a program has to end after its input has ended, and then again after
	// SIGTERM.
	endWait = 2 * time.Second
	// outputWait is the time that child processes outside of the program's process group may keep its
	// standard error open.
	outputWait = time.Second
	// pipeSize is the capacity of a pipe.
	pipeSize = 64 << 10
	// lastError is the length of the end of the standard error in an error, in bytes.
	lastError = 300
)

// program is a running program in its own process group.
type program struct {
	command *exec.Cmd
	stdin   io.WriteCloser
	stdout  *os.File
	lines   *bufio.Reader
	// buffer is the memory of the last line.
	buffer []byte
	last   *proc.Tail
	// gone is closed when the program has ended.
	gone chan struct{}
}

// start starts a program, and copies its standard error to the log.
func start(command, environ []string, log io.Writer) (*program, error) {
	p := &program{command: exec.Command(command[0], command[1:]...), last: &proc.Tail{Limit: lastError}, gone: make(chan struct{})}
	stdout, output, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = output.Close() }()
	stderr, messages, err := os.Pipe()
	if err != nil {
		_ = stdout.Close()
		return nil, err
	}
	defer func() { _ = messages.Close() }()
	p.stdout, p.lines = stdout, bufio.NewReaderSize(stdout, pipeSize)
	p.command.Env, p.command.Stdout, p.command.Stderr = environ, output, messages
	p.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if p.stdin, err = p.command.StdinPipe(); err == nil {
		err = proc.StartError(p.command.Start(), command[0], "")
	}
	if err != nil {
		_, _ = stdout.Close(), stderr.Close()
		return nil, fmt.Errorf("start the program: %w", err)
	}
	copied := make(chan struct{})
	guard.Go(func() {
		defer close(copied)
		_, _ = io.Copy(io.MultiWriter(log, p.last), stderr)
	})
	guard.Go(func() { p.wait(stderr, copied) })
	return p, nil
}

// wait waits until the program has ended, and kills the remaining child processes.
func (p *program) wait(stderr io.Closer, copied <-chan struct{}) {
	defer close(p.gone)
	_ = p.command.Wait() // the status is in ProcessState
	p.signal(syscall.SIGKILL)
	select {
	case <-copied:
	case <-time.After(outputWait):
	}
	_ = stderr.Close()
}

// ended reports whether the program has ended.
func (p *program) ended() bool {
	select {
	case <-p.gone:
		return true
	default:
		return false
	}
}

func (p *program) signal(s syscall.Signal) { _ = syscall.Kill(-p.command.Process.Pid, s) }

// exchange writes a request and reads the response. It kills the program after the timeout.
func (p *program) exchange(request *adapter.Request, timeout time.Duration) (*adapter.Response, error) {
	late := make(chan struct{})
	timer := guard.AfterFunc(timeout, func() {
		close(late)
		p.kill()
	})
	defer timer.Stop()
	text, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	_, err = p.stdin.Write(append(text, '\n'))
	if err == nil {
		text, err = p.line()
	}
	if !timer.Stop() {
		<-late
		return nil, fmt.Errorf("%w of %v", targets.ErrTimeout, timeout)
	}
	if err != nil {
		return nil, err
	}
	response, err := adapter.Decode(text)
	if err == nil && response.ID != request.ID {
		err = fmt.Errorf("invalid response: the id is %q instead of %q; it begins with %s", targets.Phrase(response.ID), request.ID, adapter.Excerpt(text))
	}
	return response, err
}

// line reads a line of at most adapter.MaxResponse bytes. It is valid until the next call.
func (p *program) line() ([]byte, error) {
	line := p.buffer[:0]
	defer func() { p.buffer = line }()
	for {
		part, err := p.lines.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case err == nil:
			return bytes.TrimSuffix(line, []byte("\n")), nil
		case len(line) > adapter.MaxResponse:
			return nil, fmt.Errorf("the response has more than %d bytes; it begins with %s", adapter.MaxResponse, adapter.Excerpt(line))
		case errors.Is(err, io.EOF) && len(line) > 0:
			return nil, fmt.Errorf("the output ended in the middle of a line, which begins with %s", adapter.Excerpt(line))
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

// kill ends the program and its child processes.
func (p *program) kill() {
	if !p.ended() {
		p.signal(syscall.SIGKILL)
	}
	_ = p.stdout.Close()
}

// end kills the program after an error, or after it ended by itself, and returns the cause. The
// cause contains the exit status, if the program ended by itself, and the end of its standard error.
func (p *program) end(err error) error {
	if !errors.Is(err, io.EOF) && !errors.Is(err, syscall.EPIPE) && err != nil {
		err = fmt.Errorf("the program was killed: %w", err)
	} else {
		err = nil
		select { // its output ended, so it is probably ending
		case <-p.gone:
		case <-time.After(endWait):
		}
		if !p.ended() {
			err = errors.New("the program was killed: it closed its standard output")
		}
	}
	p.kill()
	<-p.gone
	if err == nil {
		err = fmt.Errorf("the program ended: %s", p.command.ProcessState)
	}
	if last := strings.Join(strings.Fields(p.last.String()), " "); last != "" {
		err = fmt.Errorf("%w; its standard error ends with: %s", err, last)
	}
	return err
}

// stop ends the input of the program, which should then end. If it does not, stop sends SIGTERM, and
// finally kills it.
func (p *program) stop() {
	_ = p.stdin.Close()
	for _, then := range []func(){func() { p.signal(syscall.SIGTERM) }, func() {}} {
		select {
		case <-p.gone:
		case <-time.After(endWait):
			then()
		}
	}
	p.kill()
	<-p.gone
}
