package process

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hpad/hpad/targets"
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
				if os.Getenv("NEVER") != "" || exists(control("unready-"+id)) || exists(control("unready")) {
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

// daemon runs two families until it is killed. With the variable SURVIVE, they outlive it.
func daemon() error {
	env := targets.Env{Store: dirStore(control("store")), OutputDir: control("output")}
	if os.Getenv("SURVIVE") != "" {
		env.Exiting = func() bool { return true }
	}
	if err := New("local", families(), env).Start(context.Background()); err != nil {
		return err
	}
	select {}
}

// families returns the configuration of the worker "daemon".
func families() *Config {
	config := &Config{Services: map[string]Service{"family": {
		Command: []string{os.Args[0]}, Env: map[string]string{"WORKER": "family"}, Replicas: new(int32(2)),
	}}}
	config.SetDefaults()
	return config
}

// dirStore is a store in a directory.
type dirStore string

func (d dirStore) file(key string) string { return filepath.Join(string(d), url.PathEscape(key)) }

func (d dirStore) Load(_ context.Context, key string) ([]byte, error) {
	text, err := os.ReadFile(d.file(key))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return text, err
}

func (d dirStore) Save(_ context.Context, key string, value []byte) error {
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return err
	}
	return errors.Join(os.WriteFile(d.file(key)+"~", value, 0o600), os.Rename(d.file(key)+"~", d.file(key)))
}

func (d dirStore) Delete(_ context.Context, key string) error {
	if err := os.Remove(d.file(key)); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func (d dirStore) List(ctx context.Context, prefix string) (map[string][]byte, error) {
	entries, _ := os.ReadDir(string(d))
	found := map[string][]byte{}
	for _, entry := range entries {
		key, err := url.PathUnescape(entry.Name())
		if err != nil || !strings.HasPrefix(key, prefix) || strings.HasSuffix(key, "~") {
			continue
		}
		if found[key], err = d.Load(ctx, key); err != nil {
			return nil, err
		}
	}
	return found, nil
}
