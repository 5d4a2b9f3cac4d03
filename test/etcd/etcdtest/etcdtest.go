// Package etcdtest runs real etcd servers for tests.
package etcdtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/hpad/hpad/settings/webtest"
	"github.com/hpad/hpad/test/internal/child"
	"github.com/hpad/hpad/test/internal/installed"
	"github.com/hpad/hpad/test/internal/ports"
)

const (
	startTimeout = time.Minute
	stopTimeout  = 20 * time.Second
	pollInterval = 50 * time.Millisecond
)

// Cluster is a set of etcd servers that run until their test ends. Its methods must be called from
// the test's goroutine.
type Cluster struct {
	// Endpoints are the URLs of the servers, for example "http://127.0.0.1:41234".
	Endpoints []string
	Secure    *Secure

	t       testing.TB
	binary  string
	dir     string
	peers   []string
	args    []string
	servers []*child.Process
}

// Start starts the given number of etcd servers and waits until they respond. args are added to
// their command lines.
func Start(t testing.TB, servers int, args ...string) *Cluster {
	t.Helper()
	return start(t, nil, servers, args)
}

// Secure contains the security options of the servers.
type Secure struct {
	// Authority is the CA that issues the certificates of servers and clients.
	Authority          *webtest.CA
	Username, Password string
	// PasswordFile is a file that contains the password. StartSecure creates it.
	PasswordFile string
}

// StartSecure is like Start, but starts three servers that use TLS and require client certificates
// and user authentication.
func StartSecure(t testing.TB, secure Secure) *Cluster {
	t.Helper()
	secure.PasswordFile = webtest.Write(t, t.TempDir(), "password", secure.Password)
	cert, key := secure.Authority.Issue(t, "etcd")
	c := start(t, &secure, 3, []string{
		"--cert-file", cert, "--key-file", key, "--trusted-ca-file", secure.Authority.File, "--client-cert-auth",
	})
	client := c.Client(0)
	ctx := t.Context()
	Do(t, "add a role", func() error { _, err := client.RoleAdd(ctx, "hpad"); return err })
	Do(t, "grant the role", func() error {
		_, err := client.RoleGrantPermission(ctx, "hpad", "/hpad/", clientv3.GetPrefixRangeEnd("/hpad/"), clientv3.PermissionType(clientv3.PermReadWrite))
		return err
	})
	for user, role := range map[string]string{"root": "root", secure.Username: "hpad"} {
		Do(t, "add a user", func() error { _, err := client.UserAdd(ctx, user, secure.Password); return err })
		Do(t, "grant a user a role", func() error { _, err := client.UserGrantRole(ctx, user, role); return err })
	}
	Do(t, "enable users", func() error { _, err := client.AuthEnable(ctx); return err })
	return c
}

// Do retries do until it succeeds, because etcd may have no leader for a while.
func Do(t testing.TB, what string, do func() error) {
	t.Helper()
	for attempt := 1; ; attempt++ {
		err := do()
		lost := errors.Is(err, rpctypes.ErrTimeout) || errors.Is(err, rpctypes.ErrTimeoutDueToLeaderFail) || errors.Is(err, rpctypes.ErrNoLeader)
		done := attempt > 1 && (errors.Is(err, rpctypes.ErrRoleAlreadyExist) || errors.Is(err, rpctypes.ErrUserAlreadyExist))
		switch {
		case err == nil, done:
			return
		case !lost || attempt == 10:
			t.Fatalf("%s: %v", what, err)
		}
	}
}

func start(t testing.TB, secure *Secure, servers int, args []string) *Cluster {
	t.Helper()
	scheme := "http://"
	if secure != nil {
		scheme = "https://"
	}
	binary, err := installed.Program("etcd")
	if err != nil {
		installed.Absent(t, "there is no etcd; run test/install/etcd.sh")
	}
	c := &Cluster{t: t, binary: binary, dir: t.TempDir(), args: args, Secure: secure, servers: make([]*child.Process, servers)}
	t.Cleanup(c.stop)
	for range servers {
		c.Endpoints = append(c.Endpoints, scheme+ports.Free(t))
		c.peers = append(c.peers, "http://"+ports.Free(t))
	}
	for i := range servers {
		c.launch(i)
	}
	for i := range servers {
		c.await(i)
	}
	return c
}

func (c *Cluster) name(i int) string { return fmt.Sprint("etcd", i) }

func (c *Cluster) log(i int) string { return filepath.Join(c.dir, c.name(i)+".log") }

func (c *Cluster) launch(i int) {
	c.t.Helper()
	var initial []string
	for j, peer := range c.peers {
		initial = append(initial, c.name(j)+"="+peer)
	}
	command := exec.Command(c.binary, append([]string{
		"--name", c.name(i), "--data-dir", filepath.Join(c.dir, c.name(i)),
		"--listen-client-urls", c.Endpoints[i], "--advertise-client-urls", c.Endpoints[i],
		"--listen-peer-urls", c.peers[i], "--initial-advertise-peer-urls", c.peers[i], "--initial-cluster", strings.Join(initial, ","),
		"--heartbeat-interval", "100", "--election-timeout", "1500", // allows for a host that is busy with other tests
	}, c.args...)...)
	output, err := os.OpenFile(c.log(i), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = output.Close() }()
	command.Stdout, command.Stderr = output, output
	if c.servers[i], err = child.Start(command); err != nil {
		c.t.Fatalf("start etcd: %v", err)
	}
}

func (c *Cluster) await(i int) {
	c.t.Helper()
	client := c.Client(i)
	deadline := time.Now().Add(startTimeout)
	for {
		ctx, cancel := context.WithTimeout(c.t.Context(), time.Second)
		_, err := client.Get(ctx, "/")
		cancel()
		if err == nil {
			return
		}
		if c.servers[i].Ended() || time.Now().After(deadline) {
			text, _ := os.ReadFile(c.log(i))
			c.t.Fatalf("etcd does not respond: %v\n%s", err, bytes.TrimSpace(text))
		}
		time.Sleep(pollInterval)
	}
}

// Client returns a client of one server.
func (c *Cluster) Client(i int) *clientv3.Client {
	c.t.Helper()
	config := clientv3.Config{Endpoints: []string{c.Endpoints[i]}, Logger: zap.NewNop(), DialTimeout: startTimeout}
	if c.Secure != nil {
		cert, key := c.Secure.Authority.Issue(c.t, "test")
		config.TLS = c.Secure.Authority.ClientConfig(c.t, cert, key)
	}
	client, err := clientv3.New(config)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = client.Close() })
	return client
}

// Leader returns the index of the leader.
func (c *Cluster) Leader() int {
	c.t.Helper()
	for i := range c.servers {
		if c.servers[i] == nil || c.servers[i].Ended() {
			continue
		}
		ctx, cancel := context.WithTimeout(c.t.Context(), time.Second)
		status, err := c.Client(i).Status(ctx, c.Endpoints[i])
		cancel()
		if err == nil && status.Header.MemberId == status.Leader {
			return i
		}
	}
	c.t.Fatal("etcd has no leader")
	return 0
}

// Kill kills a server.
func (c *Cluster) Kill(i int) { c.servers[i].Kill() }

// Restart starts a killed server with its data and waits until it responds.
func (c *Cluster) Restart(i int) {
	c.t.Helper()
	c.launch(i)
	c.await(i)
}

func (c *Cluster) stop() {
	for _, server := range c.servers {
		if server == nil || server.Ended() {
			continue
		}
		if err := server.Stop(syscall.SIGTERM, stopTimeout); err != nil && c.t.Failed() {
			c.t.Logf("stop etcd: %v", err)
		}
	}
	if !c.t.Failed() {
		return
	}
	for i := range c.servers {
		text, _ := os.ReadFile(c.log(i))
		c.t.Logf("end of the log of etcd %d:\n%s", i, text[max(0, len(text)-4000):])
	}
}
