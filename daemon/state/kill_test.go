package state

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hpad/hpad/test/soak"
)

// killedEnv makes the test binary a daemon that commits until it is killed.
const killedEnv = "HPAD_TEST_COMMIT_UNTIL_KILLED"

func killedDir() string { return os.Getenv(killedEnv) }

func commitUntilKilled(dir string) {
	fail := func(err error) {
		if err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
	}
	s, err := Open(dir, Options{})
	fail(err)
	snapshot, err := s.Load(context.Background())
	fail(err)
	// The last iteration may be incomplete.
	for i := max(0, len(snapshot.Autoscalers)-1); ; i++ {
		name := strconv.Itoa(i)
		fail(s.Commit(context.Background(), Changes{
			Records:   map[string]Record{name: sampleRecord(i)},
			LastRound: epoch.Add(time.Duration(i) * time.Second),
			Entries:   []Entry{{Autoscaler: name, Time: epoch}},
		}))
		fail(s.Fleet("f").Save(context.Background(), name, []byte(name)))
		fmt.Println(i)
	}
}

func TestKillLosesNoCommit(t *testing.T) {
	kills := 25
	if testing.Short() {
		kills = 5
	}
	for range soak.Rounds(1, 40) {
		dir, last := t.TempDir(), -1
		for i := range kills {
			last = killOnce(t, dir, last, i%2 == 0)
		}
		if last < 2 {
			t.Errorf("only %d numbers were committed", last+1)
		}
	}
}

func killOnce(t *testing.T, dir string, last int, fromCommit bool) int {
	t.Helper()
	process := exec.CommandContext(t.Context(), os.Args[0])
	process.Env = append(os.Environ(), killedEnv+"="+dir)
	output, err := process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	var kill sync.Once
	killSoon := func() {
		kill.Do(func() {
			wait := time.Duration(rand.IntN(60)) * time.Millisecond
			time.AfterFunc(wait, func() { process.Process.Kill() }) //nolint:errcheck // it cannot have ended
		})
	}
	if !fromCommit {
		killSoon()
	}
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		killSoon()
		number, err := strconv.Atoi(lines.Text())
		if err != nil {
			t.Fatalf("the process says %q", lines.Text())
		}
		last = number
	}
	if err := process.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("the process ended with %v", err)
	}

	s := open(t, dir)
	defer closeStore(t, s)
	snapshot := load(t, s)
	for i := range last + 1 {
		name := strconv.Itoa(i)
		if _, ok := snapshot.Autoscalers[name]; !ok {
			t.Fatalf("of %d commits, that of %d is lost", last+1, i)
		}
		if value, err := s.Fleet("f").Load(t.Context(), name); err != nil || string(value) != name {
			t.Fatalf("of %d saves, that of %d is lost: %q, %v", last+1, i, value, err)
		}
		if entries, err := s.History(t.Context(), name, time.Time{}, time.Time{}, 0); err != nil || len(entries) != 1 {
			t.Fatalf("of %d entries, that of %d is lost: %v", last+1, i, err)
		}
	}
	if last >= 0 && snapshot.LastRound.Before(epoch.Add(time.Duration(last)*time.Second)) {
		t.Fatalf("last round %s is older than that of commit %d", snapshot.LastRound, last)
	}
	return last
}
