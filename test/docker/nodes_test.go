package docker

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/docker"
	swarmfleet "github.com/hpad/hpad/targets/swarm"
	"github.com/hpad/hpad/test/docker/dockertest"
	"github.com/hpad/hpad/test/wait"
)

// TestSwarmNodes: tasks on a node whose engine is configured are sampled there. When
// that node is lost its samples are missing and nothing else; the swarm makes others
// for its tasks, and as many count as before all the while.
func TestSwarmNodes(t *testing.T) {
	t.Parallel()
	const managerAddress, workerAddress = "192.0.2.1", "192.0.2.2"
	c := &cluster{Engine: dockertest.Start(t, dockertest.Options{Version: dockertest.Newest})}
	worker := dockertest.Start(t, dockertest.Options{Version: dockertest.Newest})
	if err := connect(c.Engine, worker, managerAddress, workerAddress); err != nil {
		t.Fatal(err)
	}
	for _, engine := range []*dockertest.Engine{c.Engine, worker} {
		engine.ImportWorker(t, dockertest.Worker, "1")
	}
	c.CLI(t, "swarm", "init", "--advertise-addr", managerAddress, "--listen-addr", managerAddress+":2377")
	worker.CLI(t, "swarm", "join", "--advertise-addr", workerAddress, "--listen-addr", workerAddress+":2377",
		"--token", strings.TrimSpace(c.CLI(t, "swarm", "join-token", "--quiet", "worker")), managerAddress+":2377")
	info, err := worker.Client.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	node := info.Swarm.NodeID // the machine's name is both nodes'
	c.create(t, "apart", 4, "--env", "WORKER_BURN=0.05")
	c.awaitRunning(t, "apart", 4)

	open := func(nodes map[string]string) *swarmfleet.Fleet {
		config := &swarmfleet.Config{Config: docker.Config{Host: c.Host(), ResourceInterval: time.Second, Timeout: 3 * time.Second}, Nodes: nodes}
		config.SetDefaults()
		f, err := swarmfleet.New("shop", config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	told, untold := open(map[string]string{node: worker.Host()}), open(nil)
	// samples waits until so many tasks of the service are sampled, and what is said
	// of the others.
	samples := func(f *swarmfleet.Fleet, n int, words string) {
		t.Helper()
		wait.For(t, patience, fmt.Sprintf("samples of %d tasks and %q", n, words), func() (string, bool) {
			read := reading(t, f, "apart")
			answer, err := f.Samples(t.Context(), []targets.Ref{swarmRef("apart")})
			if err != nil {
				return err.Error(), false
			}
			got := answer[swarmRef("apart")]
			return fmt.Sprintf("%d of %d, %v", len(got.Instances), len(read.Instances), got.Err),
				len(got.Instances) == n && (words == "" && got.Err == nil || words != "" && got.Err != nil && strings.Contains(got.Err.Error(), words))
		})
	}
	samples(told, 4, "")
	samples(untold, 2, "whose engine nodes does not name")

	worker.Kill()
	samples(told, 2, worker.Host())
	awaitReading(t, told, "apart", "tasks that take the places of those lost", func(r targets.Reading) bool {
		if r.SpecReplicas != 4 || r.StatusReplicas != 4 {
			t.Errorf("%d of %d replicas while a node is lost, want 4 of 4", r.StatusReplicas, r.SpecReplicas)
		}
		running := 0
		for i, instance := range r.Instances {
			if !instance.Deleting && instance.Phase == policy.PhaseRunning && r.Locations.At(i).Node != node {
				running++
			}
		}
		return running == 4
	})
	samples(told, 4, "")
	if got := *c.service(t, "apart").Spec.Mode.Replicated.Replicas; got != 4 {
		t.Errorf("%d replicas after the node was lost, want 4", got)
	}
}

// connect joins the networks of two engines by a cable, as it were, on which each
// has an address.
func connect(a, b *dockertest.Engine, addressOfA, addressOfB string) error {
	namespaces := map[*dockertest.Engine]int{a: -1, b: -1}
	for engine := range namespaces {
		path, err := networkOf(engine)
		if err != nil {
			return err
		}
		if namespaces[engine], err = unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
			return fmt.Errorf("open the network of dockerd: %w", err)
		}
		defer func() { _ = unix.Close(namespaces[engine]) }()
	}
	if err := within(namespaces[a], func() error { return makePair(namespaces[b]) }); err != nil {
		return fmt.Errorf("connect two networks: %w", err)
	}
	for engine, address := range map[*dockertest.Engine]string{a: addressOfA, b: addressOfB} {
		if err := within(namespaces[engine], func() error { return bringUp(address) }); err != nil {
			return fmt.Errorf("bring %s up: %w", address, err)
		}
	}
	return nil
}

// networkOf returns the file of an engine's network namespace.
func networkOf(engine *dockertest.Engine) (string, error) {
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range paths {
		arguments, err := os.ReadFile(path)
		if err == nil && bytes.Contains(arguments, []byte("\x00--host\x00"+engine.Host()+"\x00")) {
			return filepath.Join(filepath.Dir(path), "ns", "net"), nil
		}
	}
	return "", fmt.Errorf("no process of the engine at %s is found, %w", engine.Host(), err)
}

// within does something on a thread of a network, which is thrown away.
func within(namespace int, do func() error) error {
	failed := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if err := unix.Setns(namespace, unix.CLONE_NEWNET); err != nil {
			failed <- fmt.Errorf("enter the network of dockerd: %w", err)
			return
		}
		failed <- do()
	}()
	return <-failed
}

// cable is the name of either end of a pair.
const cable = "cable"

// attribute is one of netlink's.
func attribute(kind uint16, parts ...[]byte) []byte {
	value := bytes.Join(parts, nil)
	text := binary.NativeEndian.AppendUint16(nil, uint16(unix.SizeofRtAttr+len(value)))
	text = append(binary.NativeEndian.AppendUint16(text, kind), value...)
	for len(text)%4 != 0 {
		text = append(text, 0)
	}
	return text
}

// makePair makes two interfaces that are connected, one in the network of the
// thread and one in another.
func makePair(other int) error {
	const peer = 1 // VETH_INFO_PEER
	name := attribute(unix.IFLA_IFNAME, []byte(cable+"\x00"))
	there := attribute(unix.IFLA_NET_NS_FD, binary.NativeEndian.AppendUint32(nil, uint32(other)))
	body := slices.Concat(make([]byte, unix.SizeofIfInfomsg), name, attribute(unix.IFLA_LINKINFO,
		attribute(unix.IFLA_INFO_KIND, []byte("veth")),
		attribute(unix.IFLA_INFO_DATA, attribute(peer, make([]byte, unix.SizeofIfInfomsg), name, there)),
	))
	message := binary.NativeEndian.AppendUint32(nil, uint32(unix.SizeofNlMsghdr+len(body)))
	message = binary.NativeEndian.AppendUint16(message, unix.RTM_NEWLINK)
	message = binary.NativeEndian.AppendUint16(message, unix.NLM_F_REQUEST|unix.NLM_F_CREATE|unix.NLM_F_EXCL|unix.NLM_F_ACK)
	message = append(append(message, make([]byte, 8)...), body...) // of any number, from this thread
	socket, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(socket) }()
	if err := unix.Sendto(socket, message, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(socket, answer, 0)
	if err != nil {
		return err
	}
	if n < unix.SizeofNlMsghdr+4 {
		return fmt.Errorf("the kernel answers with %d bytes", n)
	}
	if code := int32(binary.NativeEndian.Uint32(answer[unix.SizeofNlMsghdr:])); code != 0 {
		return unix.Errno(-code)
	}
	return nil
}

// bringUp gives the thread's end of a pair an address.
func bringUp(address string) error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(socket) }()
	request, err := unix.NewIfreq(cable)
	if err != nil {
		return err
	}
	if err := request.SetInet4Addr(net.ParseIP(address).To4()); err != nil {
		return err
	}
	if err := unix.IoctlIfreq(socket, unix.SIOCSIFADDR, request); err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, request)
}
