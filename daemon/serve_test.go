package daemon

import (
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/hpad/hpad/daemon/config"
)

// TestCannotListen holds that an address which cannot be listened at is told with its key,
// and with what to do.
func TestCannotListen(t *testing.T) {
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	_, port, err := net.SplitHostPort(taken.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]string{
		taken.Addr().String(): `address already in use: another program listens there, perhaps another hpad; "ss -ltnp sport = :` + port + `" names it`,
		"192.0.2.1:" + port:   "this machine has no such address",
	} {
		c := config.DefaultDaemon()
		c.Socket, c.Listen = "", address
		_, err := Listen(t.Context(), c)
		found, ok := errors.AsType[config.Error](err)
		if !ok || found.Key != "daemon.listen" || !strings.Contains(found.Detail, want) {
			t.Errorf("%s: %v, want %s", address, err, want)
		}
	}
}
