package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"github.com/prometheus/procfs"

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
	return fmt.Errorf("%s ended with %s\n%s", p.Command.Path, p.Command.ProcessState, p.output())
}

func (p *process) said() []byte {
	const most = 4000
	text, err := os.ReadFile(p.log)
	if err != nil {
		return []byte(err.Error())
	}
	var output []byte
	for line := range bytes.Lines(text) {
		if !bytes.Contains(line, []byte("\tINFO\t")) {
			output = append(output, line...)
		}
	}
	return output[max(0, len(output)-most):]
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
	proc, err := procfs.NewProc(p.Command.Process.Pid)
	if err != nil {
		return 0, err
	}
	stat, err := proc.Stat()
	return time.Duration(stat.CPUTime() * float64(time.Second)), err
}

func (p *process) memory() (now, peak int64) {
	proc, err := procfs.NewProc(p.Command.Process.Pid)
	if err != nil {
		return 0, 0
	}
	status, err := proc.NewStatus()
	if err != nil {
		return 0, 0
	}
	return int64(status.VmRSS), int64(status.VmHWM)
}

func loadAverage() string {
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return err.Error()
	}
	load, err := proc.LoadAvg()
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%.2f", load.Load1)
}

func machine() string {
	model, memory := "", ""
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if _, rest, found := strings.Cut(string(text), "model name"); found {
			model, _, _ = strings.Cut(strings.TrimLeft(rest, "\t :"), "\n")
		}
	}
	return fmt.Sprintf("%d cores, %s, %d GiB, %s %s", runtime.NumCPU(), model, memory>>30, runtime.Version(), time.Now().Format(time.DateOnly))
}
