package gcetest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// Front is a proxy for clients that connect to https://compute.DOMAIN. It forwards their requests
// to the Server of the domain, and never to a real host.
type Front struct {
	// CAFile is the path of the CA certificate.
	CAFile string
	// URL leads to the proxy.
	URL string

	proxy, servers *httptest.Server
	key            *ecdsa.PrivateKey
	authority      *x509.Certificate

	mu      sync.Mutex
	domains map[string]*Server
}

// StartFront starts a proxy and writes its files to a directory.
func StartFront(dir string) (*Front, error) {
	f := &Front{CAFile: filepath.Join(dir, "ca.pem"), domains: map[string]*Server{}}
	if err := f.certify(); err != nil {
		return nil, err
	}
	f.servers = httptest.NewUnstartedServer(f)
	f.servers.TLS = &tls.Config{GetCertificate: f.certificate}
	f.servers.Config.ErrorLog = log.New(io.Discard, "", 0) // tests close connections
	f.servers.StartTLS()
	f.proxy = httptest.NewServer(http.HandlerFunc(f.connect))
	f.URL = f.proxy.URL
	return f, nil
}

// Close stops the proxy.
func (f *Front) Close() {
	f.proxy.CloseClientConnections()
	f.proxy.Close()
	f.servers.CloseClientConnections()
	f.servers.Close()
}

// Serve assigns a domain such as "googleapis.com" to a server until the test ends.
func (f *Front) Serve(t testing.TB, domain string, s *Server) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.domains[domain] = s
	t.Cleanup(func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.domains, domain)
	})
}

// ServeHTTP forwards a request to the server of the requested domain.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	service, domain, _ := strings.Cut(strings.TrimSuffix(r.Host, ":443"), ".")
	f.mu.Lock()
	s := f.domains[domain]
	f.mu.Unlock()
	switch {
	case s != nil && service == "compute":
		s.ServeHTTP(w, r)
	case s != nil && service == "iamcredentials":
		s.serveActing(w, r)
	default:
		http.Error(w, "unknown host "+r.Host, http.StatusBadGateway)
	}
}

// connect handles CONNECT requests. It connects the client to Front's own HTTPS server, whatever
// host the client requests.
func (f *Front) connect(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodConnect {
		http.Error(w, "only CONNECT is proxied", http.StatusMethodNotAllowed)
		return
	}
	to, err := net.Dial("tcp", f.servers.Listener.Addr().String())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer func() { _ = to.Close() }()
	from, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer func() { _ = from.Close() }()
	if _, err := io.WriteString(from, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	ended := make(chan struct{}, 2)
	copies := func(to io.Writer, from io.Reader) {
		_, _ = io.Copy(to, from)
		ended <- struct{}{}
	}
	go copies(to, buffered)
	go copies(from, to)
	<-ended
}

// certify creates the CA.
func (f *Front) certify() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	f.key = key
	f.authority = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority of tests"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, f.authority, f.authority, &key.PublicKey, key)
	if err != nil {
		return err
	}
	return os.WriteFile(f.CAFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600)
}

// certificate creates a certificate for the requested host.
func (f *Front) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	host := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: hello.ServerName}, DNSNames: []string{hello.ServerName},
		NotBefore: f.authority.NotBefore, NotAfter: f.authority.NotAfter,
	}
	der, err := x509.CreateCertificate(rand.Reader, host, f.authority, &f.key.PublicKey, f.key)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: f.key}, nil
}
