package azurevmss

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	azpolicy "github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v7"

	platform "github.com/hpad/hpad/targets/cloud"
)

// maxConnections bounds the connections open at once to one host.
const maxConnections = 32

// client is what calls are made with.
type client struct {
	transport *http.Transport
	sets      *armcompute.VirtualMachineScaleSetsClient
	manager   *arm.Client
}

// newConnection returns what keeps a client of a subscription.
func newConnection(c *Config) *platform.Connection[client] {
	return &platform.Connection[client]{
		Make:  func(context.Context) (*client, error) { return newClient(c) },
		Files: func() []string { return []string{c.CAFile, c.ClientSecretFile, c.ClientCertificateFile} },
		Drop:  func(old *client) { old.transport.CloseIdleConnections() },
	}
}

// newClient builds a client; it does not connect.
func newClient(c *Config) (*client, error) {
	transport := platform.NewTransport(c.Timeout, maxConnections)
	transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
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
	armOptions := &arm.ClientOptions{ClientOptions: options, DisableRPRegistration: true}
	sets, err := armcompute.NewVirtualMachineScaleSetsClient(c.Subscription, who, armOptions)
	if err != nil {
		return nil, err
	}
	manager, err := arm.NewClient("hpad", "v1.0.0", who, armOptions)
	if err != nil {
		return nil, err
	}
	return &client{transport: transport, sets: sets, manager: manager}, nil
}
