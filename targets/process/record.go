package process

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hpad/hpad/guard"
	"github.com/hpad/hpad/targets/proc"
)

// record describes an instance in the fleet's store, so that the next hpad can adopt its process.
// It is written before and after each start of the process.
type record struct {
	ID      string    `json:"id"`
	Index   int       `json:"index"`
	Port    int       `json:"port,omitzero"`
	Created time.Time `json:"created"`
	// Definition is the service's configuration at the start of the process, with the number
	// of requested restarts.
	Definition string `json:"definition"`
	// StopGracePeriod and Readiness are the settings that applied when the process was started.
	StopGracePeriod time.Duration `json:"stop_grace_period"`
	Readiness       Readiness     `json:"readiness"`
	Ready           bool          `json:"ready,omitzero"`
	Changed         time.Time     `json:"changed"`
	// Leaving reports whether hpad is removing the instance.
	Leaving bool `json:"leaving,omitzero"`
	// PID is the number of the process, or 0 before its start. Ticks is its start time in clock
	// ticks since the boot with the ID Boot.
	PID     int       `json:"pid,omitzero"`
	Ticks   uint64    `json:"ticks,omitzero"`
	Boot    string    `json:"boot,omitempty"`
	Started time.Time `json:"started,omitzero"`
	// Bound reports whether the kernel kills the process when hpad is killed.
	Bound bool `json:"bound,omitzero"`
	// Output is the offset in the output file up to which lines were relayed. It is unknownOffset
	// unless hpad has exited cleanly.
	Output int64 `json:"output"`
	// OutputStart is the offset at which the output of the process starts.
	OutputStart int64 `json:"output_start,omitzero"`
}

const (
	recordPrefix = "instances/"
	// recordTimeout limits one write of a record.
	recordTimeout = 10 * time.Second
)

// bootID returns the ID of the current boot; "" if it is unknown.
var bootID = sync.OnceValue(func() string {
	text, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(text))
})

// startSettings returns the settings that processes are started with, as JSON.
func (s Service) startSettings() []byte {
	text, _ := json.Marshal(Service{
		Command: s.Command, Args: s.Args, Env: s.Env, Dir: s.Dir, Ports: s.Ports, Readiness: s.Readiness, StopGracePeriod: s.StopGracePeriod,
		RestartBackoffMin: s.RestartBackoffMin, RestartBackoffMax: s.RestartBackoffMax, StopWithHpad: s.StopWithHpad,
	})
	return text
}

// definition identifies the settings that processes are started with. Instances of a different
// definition are replaced.
func (s Service) definition() string {
	digest := sha256.Sum256(s.startSettings())
	return hex.EncodeToString(digest[:8])
}

func markerOf(id string) string { return "HPAD_INSTANCE=" + id }

// running returns the process of a record, or nil if it has ended.
func (r *record) running() *child {
	if r.PID <= 0 || r.Boot != bootID() {
		return nil
	}
	marker := markerOf(r.ID)
	c, err := openChild(r.PID, r.Started, marker)
	if err != nil {
		return nil
	}
	// With ProtectProc=invisible, /proc hides processes with more capabilities than hpad, such as
	// those that started before an operator removed low-port.conf. Only hpad's own user can signal
	// them.
	if c.ticks == 0 && syscall.Kill(r.PID, 0) == nil {
		c.ticks = r.Ticks
	}
	// Some programs, such as nginx, overwrite their environment.
	if other := variableOf(r.PID, markerOf("")); c.ticks != r.Ticks || other != "" && other != marker {
		c.release()
		return nil
	}
	guard.Go(c.wait)
	return c
}

// variableOf returns the entry with a prefix in the environment of a process, or "".
func variableOf(pid int, prefix string) string {
	environment, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	for entry := range bytes.SplitSeq(environment, []byte{0}) {
		if bytes.HasPrefix(entry, []byte(prefix)) {
			return string(entry)
		}
	}
	return ""
}

// A process has its settings in the variable HPAD_SETTINGS, so that the next hpad can restart it
// after a change of the service. They are not in the record, because they can contain secrets.
const (
	settingsPrefix = "HPAD_SETTINGS="
	// maxSettings is a length that the kernel accepts for one variable. Longer settings are lost.
	maxSettings = 100 << 10
)

// settings returns the part of the definition that identifies the settings of the process.
func (r *record) settings() string {
	settings, _, _ := strings.Cut(r.Definition, restartSeparator)
	return settings
}

// settingsOf returns the settings of a recorded process. If it cannot read them, it returns the
// current settings of the service.
func (s *service) settingsOf(r record) Service {
	var old Service
	text := strings.TrimPrefix(variableOf(r.PID, settingsPrefix), settingsPrefix)
	if r.settings() == s.definition || json.Unmarshal([]byte(text), &old) != nil || old.definition() != r.settings() {
		return s.config
	}
	return old
}

// marked returns the processes of a group that have a marker in their environment. Group 0 stands
// for the leaders of all groups.
func marked(group int, marker string) []int {
	entries, _ := os.ReadDir("/proc")
	buffer := make([]byte, 4096)
	var pids []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		stat, err := proc.Read("/proc/"+entry.Name()+"/stat", buffer)
		if err == nil && stat.Group != 0 && (stat.Group == group || group == 0 && stat.Group == pid) && variableOf(pid, markerOf("")) == marker {
			pids = append(pids, pid)
		}
	}
	return pids
}

// record returns the record of an instance, with output as its Output field.
func (i *instance) record(output int64) record {
	i.mu.Lock()
	defer i.mu.Unlock()
	r := record{
		ID: i.id, Index: i.index, Port: i.port, Created: i.created, Definition: i.definition,
		StopGracePeriod: i.config.StopGracePeriod, Readiness: i.config.Readiness,
		Ready: i.ready, Changed: i.changed, Leaving: errors.Is(context.Cause(i.leaving), errRemoved), Output: output,
		OutputStart: i.out.startOffset(),
	}
	if i.child != nil {
		r.PID, r.Ticks, r.Boot, r.Started, r.Bound = i.child.pid, i.child.ticks, bootID(), i.child.started, i.child.bound
	}
	return r
}

// save stores the record. If that fails, hpad may not find the process after a restart.
func (i *instance) save(output int64) {
	if i.env.Store == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), recordTimeout)
	defer cancel()
	text, err := json.Marshal(i.record(output))
	if err == nil {
		err = i.env.Store.Save(ctx, i.key(), text)
	}
	if err != nil {
		i.out.printf("%s: the process cannot be recorded: %v", i.name, err)
	}
}

// forget deletes the record.
func (i *instance) forget() {
	if i.env.Store == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), recordTimeout)
	defer cancel()
	_ = i.env.Store.Delete(ctx, i.key()) // the next hpad finds no process
}

func (i *instance) key() string { return recordPrefix + i.service + "/" + i.id }

// adopt reads the records of a service. It continues the instances whose processes are running,
// and ends the remaining processes of other instances. It kills processes that the kernel kills
// with hpad, because they can still be running for a moment. The caller must hold writing.
func (s *service) adopt(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.adopted = s.adopted || s.env.Store == nil; s.adopted {
		return nil
	}
	stored, err := s.env.Store.List(ctx, recordPrefix+s.name+"/")
	if err != nil {
		return fmt.Errorf("load the processes of service %q: %w", s.name, err)
	}
	var ending []*child
	for key, text := range stored {
		var r record
		err := json.Unmarshal(text, &r)
		process := r.running()
		switch {
		case process != nil && r.Bound:
			process.signal(syscall.SIGKILL)
			ending, process = append(ending, process), nil
		case err != nil || process == nil:
			r.ID = strings.TrimPrefix(key, recordPrefix+s.name+"/")
			process = r.endLost()
		}
		i := adoptInstance(r, process, s, s.settingsOf(r))
		if process == nil {
			i.finish()
			continue
		}
		s.addLocked(i)
	}
	awaitExit(ending)
	s.adopted = true
	s.removeLocked(s.stopping)
	return nil
}

// awaitExit waits until killed processes have ended, which releases their ports, or for killDelay.
func awaitExit(ending []*child) {
	limit := time.NewTimer(killDelay)
	defer limit.Stop()
	for _, c := range ending {
		select {
		case <-c.exited:
		case <-limit.C:
			return
		}
	}
}

// endLost kills the processes that remain in the group of a process that has ended. If hpad was
// killed while it started a process, endLost returns that process, and the caller must stop it.
func (r *record) endLost() *child {
	marker := markerOf(r.ID)
	for _, pid := range marked(r.PID, marker) {
		if r.PID != 0 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			continue
		}
		if c, err := openChild(pid, time.Now(), marker); err == nil {
			r.Leaving = true
			guard.Go(c.wait)
			return c
		}
	}
	return nil
}

// addLocked adds and runs an instance.
func (s *service) addLocked(i *instance) {
	if i.leaving.Err() != nil {
		s.stopping = append(s.stopping, i)
	} else {
		at, _ := slices.BinarySearchFunc(s.current, i.index, compareIndex)
		s.current = slices.Insert(s.current, at, i)
	}
	guard.Go(func() {
		defer close(i.ended)
		defer s.remove(i)
		if !guard.Run(i.run) {
			i.stop()
			<-time.After(i.config.RestartBackoffMin) // before remove starts another instance
		}
	})
}
