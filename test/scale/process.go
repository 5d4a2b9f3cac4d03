package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/procfs"

	"github.com/hpad/hpad/test/internal/child"
)

// process is a program under measurement. It never outlives this process.
type process struct {
	*child.Process
	log string
}

// start runs a program and appends its output to the file log.
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

// running returns an error that contains the last output if the program has exited.
func (p *process) running() error {
	if !p.Ended() {
		return nil
	}
	return fmt.Errorf("%s exited with %s\n%s", p.Command.Path, p.Command.ProcessState, p.output())
}

// output returns the end of the output, without harmless lines.
func (p *process) output() []byte {
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

// stop stops the program. It returns an error if the program fails or does not exit in time.
func (p *process) stop() error {
	const limit = time.Minute
	err := p.Stop(syscall.SIGTERM, limit)
	if err == nil && !p.Command.ProcessState.Success() {
		err = p.running()
	}
	return err
}

// cpu returns the CPU time of the program.
func (p *process) cpu() (time.Duration, error) {
	proc, err := procfs.NewProc(p.Command.Process.Pid)
	if err != nil {
		return 0, err
	}
	stat, err := proc.Stat()
	return time.Duration(stat.CPUTime() * float64(time.Second)), err
}

// memory returns the resident set size and its peak in bytes, or 0 if the program has ended.
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

// touch reads the memory of the program until ctx ends, so that all its pages remain in use.
func (p *process) touch(ctx context.Context) {
	for ctx.Err() == nil && touchPages(p.Command.Process.Pid) == nil {
		pause(ctx, 100*time.Millisecond)
	}
}

// touchPages reads a byte of each page in memory.
func touchPages(pid int) error {
	proc, err := procfs.NewProc(pid)
	if err != nil {
		return err
	}
	areas, err := proc.ProcMaps()
	if err != nil {
		return err
	}
	memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return err
	}
	defer func() { _ = memory.Close() }()
	pages, err := os.Open(fmt.Sprintf("/proc/%d/pagemap", pid))
	if err != nil {
		return err
	}
	defer func() { _ = pages.Close() }()
	const entry, present = 8, 1 << 7 // the size of an entry of pagemap, and the bit in its last byte
	size, one := int64(os.Getpagesize()), make([]byte, 1)
	for _, area := range areas {
		if !area.Perms.Read || strings.HasPrefix(area.Pathname, "[v") {
			continue
		}
		begin := int64(area.StartAddr)
		entries := make([]byte, (int64(area.EndAddr)-begin)/size*entry)
		n, _ := pages.ReadAt(entries, begin/size*entry)
		for i := range int64(n / entry) {
			if entries[i*entry+entry-1]&present != 0 {
				_, _ = memory.ReadAt(one, begin+i*size) // the page may have been released
			}
		}
	}
	return nil
}

// loadAverage returns the load average of the last minute.
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

// hostInfo describes the host.
func hostInfo() string {
	model, memory := "", uint64(0)
	if proc, err := procfs.NewDefaultFS(); err == nil {
		if cpus, err := proc.CPUInfo(); err == nil && len(cpus) > 0 {
			model = cpus[0].ModelName
		}
		if info, err := proc.Meminfo(); err == nil && info.MemTotalBytes != nil {
			memory = *info.MemTotalBytes
		}
	}
	return fmt.Sprintf("%d cores, %s, %d GiB, %s %s", runtime.NumCPU(), model, memory>>30, runtime.Version(), time.Now().Format(time.DateOnly))
}
