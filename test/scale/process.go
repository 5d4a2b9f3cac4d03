package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/hpad/hpad/test/internal/child"
)

// process is a program under measurement. It ends with this process.
type process struct {
	*child.Process
	log string
}

func start(log, program string, args ...string) (*process, error) {
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	command := exec.Command(program, args...)
	command.Stdout, command.Stderr = file, file
	p, err := child.Start(command)
	if err != nil {
		return nil, err
	}
	return &process{Process: p, log: log}, nil
}

func (p *process) running() error {
	if !p.Ended() {
		return nil
	}
	return fmt.Errorf("%s ended with %s\n%s", p.Command.Path, p.Command.ProcessState, p.said())
}

func (p *process) said() []byte {
	const most = 4000
	text, err := os.ReadFile(p.log)
	if err != nil {
		return []byte(err.Error())
	}
	var said []byte
	for line := range bytes.Lines(text) {
		if !bytes.Contains(line, []byte("\tINFO\t")) {
			said = append(said, line...)
		}
	}
	return said[max(0, len(said)-most):]
}

func (p *process) stop() error {
	const limit = time.Minute
	err := p.Stop(syscall.SIGTERM, limit)
	if err == nil && !p.Command.ProcessState.Success() {
		err = p.running()
	}
	return err
}

// ticksPerSecond is the unit of CPU time in /proc.
const ticksPerSecond = 100

func (p *process) cpu() (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Command.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat: %q", p.Command.Process.Pid, text)
	}
	user, userErr := strconv.Atoi(fields[11])
	system, systemErr := strconv.Atoi(fields[12])
	return time.Duration(user+system) * time.Second / ticksPerSecond, errors.Join(userErr, systemErr)
}

func (p *process) memory() (now, peak int64) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Command.Process.Pid))
	if err != nil {
		return 0, 0 // the program has ended
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		kib, _ := strconv.ParseInt(fields[1], 10, 64)
		switch fields[0] {
		case "VmRSS:":
			now = kib << 10
		case "VmHWM:":
			peak = kib << 10
		}
	}
	return now, peak
}

func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return err.Error()
	}
	load, _, _ := strings.Cut(string(text), " ")
	return load
}

func machine() string {
	model, memory := "", ""
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if _, rest, found := strings.Cut(string(text), "model name"); found {
			model, _, _ = strings.Cut(strings.TrimLeft(rest, "\t :"), "\n")
		}
	}
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		if fields := strings.Fields(string(text)); len(fields) > 1 {
			kib, _ := strconv.Atoi(fields[1])
			memory = fmt.Sprintf("%d GiB", kib>>20)
		}
	}
	return fmt.Sprintf("%d cores, %s, %s, %s %s", runtime.NumCPU(), model, memory, runtime.Version(), time.Now().Format(time.DateOnly))
}
