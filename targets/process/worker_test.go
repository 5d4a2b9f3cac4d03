package process

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/targettest"
)

// TestMain runs the worker that is named in the variable WORKER instead of the tests, if it is
// set.
func TestMain(m *testing.M) {
	workers := map[string]func() error{
		"serve": serve, "crash": crash, "busy": busy, "family": family, "daemon": daemon,
	}
	if worker, ok := workers[os.Getenv("WORKER")]; ok {
		if err := worker(); err != nil {
			fmt.Println("worker:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// control returns the path of a file in the control directory of a worker.
func control(name string) string { return filepath.Join(os.Getenv("CONTROL"), name) }

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func appendLine(name, line string) error {
	file, err := os.OpenFile(control(name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(file, line); err != nil {
		return err
	}
	return file.Close()
}

// serve responds with 200 on HPAD_PORT until SIGTERM, or with 503 while the file "unready-ID"
// exists. If the file "slow" exists, it exits after a delay. If "stubborn" exists, it ignores
// SIGTERM.
func serve() error {
	id := os.Getenv("HPAD_INSTANCE")
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	if port := os.Getenv("HPAD_PORT"); port != "" {
		listener, err := net.Listen("tcp", "127.0.0.1:"+port)
		if err != nil {
			return err
		}
		go func() {
			_ = http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if exists(control("unready-"+id)) || exists(control("unready")) {
					w.WriteHeader(http.StatusServiceUnavailable)
				}
			}))
		}()
	}
	fmt.Println("serving as", id)
	for range terminated {
		if err := appendLine("terminated", os.Getenv("HPAD_INDEX")); err != nil {
			return err
		}
		if exists(control("slow")) {
			<-time.After(300 * time.Millisecond)
		}
		if !exists(control("stubborn")) {
			return nil
		}
	}
	return nil
}

// crash exits with an error.
func crash() error {
	if err := appendLine("crashes", os.Getenv("HPAD_INSTANCE")); err != nil {
		return err
	}
	fmt.Print("about to crash\nhalf a line")
	os.Exit(3)
	return nil
}

// busy uses half a core and 64 MiB.
func busy() error {
	memory := make([]byte, 64<<20)
	for i := range memory {
		memory[i] = byte(i)
	}
	for {
		for started := time.Now(); time.Since(started) < 10*time.Millisecond; {
			memory[len(memory)/2]++
		}
		<-time.After(10 * time.Millisecond)
	}
}

// family starts a child that outlives it unless the process group is killed.
func family() error {
	child := exec.Command("sleep", "600")
	if err := child.Start(); err != nil {
		return err
	}
	if err := appendLine("parents", strconv.Itoa(os.Getpid())); err != nil {
		return err
	}
	if err := appendLine("children", strconv.Itoa(child.Process.Pid)); err != nil {
		return err
	}
	return child.Wait()
}

// daemon runs two families until it is killed.
func daemon() error {
	config := &Config{Services: map[string]Service{"family": {
		Command: []string{os.Args[0]}, Env: map[string]string{"WORKER": "family"}, Replicas: new(int32(2)),
	}}}
	config.SetDefaults()
	if err := New("local", config, targets.Env{Store: new(targettest.Store)}).Start(context.Background()); err != nil {
		return err
	}
	select {}
}
