package api

import (
	"crypto/tls"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/web/webtest"
)

// TestRefusedWhileWriting: a client that has written already when the server refuses
// its certificate has an error about that, and not about its write.
func TestRefusedWhileWriting(t *testing.T) {
	authority := webtest.NewAuthority(t, t.TempDir(), "authority")
	config := authority.ClientConfig(t, "", "")
	certFile, keyFile := authority.Issue(t, "server")
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	closed := make(chan error, 1)
	go func() {
		conn, err := listener.Accept()
		if err == nil {
			// It fails for want of a certificate, which the client learns by an alert.
			_ = tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAnyClientCert}).Handshake()
			err = conn.Close()
		}
		closed <- err
	}()

	conn, err := dialReading(&net.Dialer{Timeout: dialTimeout})(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	config.ServerName = "server"
	client := tls.Client(conn, config)
	if err := client.HandshakeContext(t.Context()); err != nil {
		t.Fatalf("handshake: %v, want none: TLS 1.3 refuses certificates after it", err)
	}
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	// The first is answered by a reset, after which writes fail.
	for range 3 {
		if _, err := client.Write([]byte("request")); err != nil {
			t.Fatalf("write to a server that has closed: %v, want the reason from a read", err)
		}
	}
	if _, err := client.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), certificateRequired) {
		t.Errorf("read: %v, want %q", err, certificateRequired)
	}
}
