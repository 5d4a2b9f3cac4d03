package azurevmss

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	azpolicy "github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v7"

	"github.com/hpad/hpad/settings/httpclient"
)

// maxConnections bounds the connections open at once to one host.
const maxConnections = 32

// connection is a client of a subscription, made anew when a file that it was made
// from changes, and when Azure refuses its token. It is safe for concurrent use.
type connection struct {
	config *Config

	mu      sync.Mutex
	current *client
	made    []httpclient.Stamp
}

// client is what calls are made with.
type client struct {
	transport *http.Transport
	sets      *armcompute.VirtualMachineScaleSetsClient
	members   *armcompute.VirtualMachineScaleSetVMsClient
	machines  *armcompute.VirtualMachinesClient
	upgrades  *armcompute.VirtualMachineScaleSetRollingUpgradesClient
	manager   *arm.Client
}

// stamps answers those of the files that a client is made from.
func (c *connection) stamps() []httpclient.Stamp {
	return httpclient.StampFiles(c.config.CAFile, c.config.ClientSecretFile, c.config.ClientCertificateFile)
}

// client answers a client made from the files as they are now. An error names the
// file that is of no use.
func (c *connection) client() (*client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.stamps()
	if c.current != nil && slices.Equal(now, c.made) {
		return c.current, nil
	}
	next, err := newClient(c.config)
	if err != nil {
		return nil, err
	}
	c.drop()
	c.current, c.made = next, now
	return next, nil
}

// forget makes the next client one with a new token, since this one's was refused.
func (c *connection) forget(refused *client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current == refused {
		c.drop()
	}
}

// close gives up the connections.
func (c *connection) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop()
}

// drop gives up the current client. The caller holds the lock.
func (c *connection) drop() {
	if c.current != nil {
		c.current.transport.CloseIdleConnections()
		c.current = nil
	}
}

// newClient builds a client; it does not connect.
func newClient(c *Config) (*client, error) {
	transport := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: c.Timeout, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout: c.Timeout,
		TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2:   true,
		MaxConnsPerHost:     maxConnections,
		MaxIdleConnsPerHost: maxConnections,
		IdleConnTimeout:     90 * time.Second,
	}
	if c.CAFile != "" {
		text, err := readFile("ca_file", c.CAFile)
		if err != nil {
			return nil, err
		}
		transport.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !transport.TLSClientConfig.RootCAs.AppendCertsFromPEM([]byte(text)) {
			return nil, fmt.Errorf("ca_file %q holds no certificate in PEM", c.CAFile)
		}
	}
	options := azcore.ClientOptions{
		Cloud:     c.services(),
		Transport: &http.Client{Transport: transport},
		// The next round is the retry, and every call is counted.
		Retry:     azpolicy.RetryOptions{MaxRetries: -1},
		Telemetry: azpolicy.TelemetryOptions{ApplicationID: "hpad"},
	}
	who, err := newCredential(c, options)
	if err != nil {
		return nil, err
	}
	return dial(c.Subscription, who, &arm.ClientOptions{ClientOptions: options, DisableRPRegistration: true}, transport)
}

// dial answers the clients of a subscription.
func dial(subscription string, who azcore.TokenCredential, options *arm.ClientOptions, transport *http.Transport) (*client, error) {
	factory, err := armcompute.NewClientFactory(subscription, who, options)
	if err != nil {
		return nil, err
	}
	manager, err := arm.NewClient("hpad", "v1.0.0", who, options)
	if err != nil {
		return nil, err
	}
	return &client{
		transport: transport,
		sets:      factory.NewVirtualMachineScaleSetsClient(),
		members:   factory.NewVirtualMachineScaleSetVMsClient(),
		machines:  factory.NewVirtualMachinesClient(),
		upgrades:  factory.NewVirtualMachineScaleSetRollingUpgradesClient(),
		manager:   manager,
	}, nil
}
