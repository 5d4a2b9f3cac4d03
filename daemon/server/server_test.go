package server

import (
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/hpad/hpad/daemon/config"
)

// TestCannotListen checks that the error of a failed listen names its key and a remedy.
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
		taken.Addr().String(): `address already in use: another program, perhaps another hpad, uses this port; "ss -ltnp sport = :` + port + `" shows it`,
		"192.0.2.1:" + port:   "this host does not have the address",
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
