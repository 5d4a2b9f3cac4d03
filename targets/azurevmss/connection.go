package azurevmss

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	azpolicy "github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v7"

	"github.com/hpad/hpad/settings/secret"
	platform "github.com/hpad/hpad/targets/cloud"
)

const maxConnections = 32

type client struct {
	transport *http.Transport
	sets      *armcompute.VirtualMachineScaleSetsClient
	manager   *arm.Client
}

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
			return nil, fmt.Errorf("ca_file %q contains no PEM certificate", c.CAFile)
		}
	}
	options := azcore.ClientOptions{
		Cloud:     c.services(),
		Transport: &http.Client{Transport: transport},
		// hpad retries in the next round.
		Retry:     azpolicy.RetryOptions{MaxRetries: -1},
		Telemetry: azpolicy.TelemetryOptions{ApplicationID: "hpad"},
	}
	chosen, err := chooseCredential(c, options)
	if err != nil {
		return nil, err
	}
	who := credential{chosen}
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

// credential provides hpad's access tokens. Its errors are cloud.TokenErrors, which distinguishes them
// from the errors of calls.
type credential struct{ azcore.TokenCredential }

// GetToken returns an access token.
func (c credential) GetToken(ctx context.Context, options azpolicy.TokenRequestOptions) (azcore.AccessToken, error) {
	token, err := c.TokenCredential.GetToken(ctx, options)
	if err == nil {
		return token, nil
	}
	if failed, ok := errors.AsType[*azidentity.AuthenticationFailedError](err); ok && failed.RawResponse != nil {
		status := failed.RawResponse.StatusCode
		return token, &platform.TokenError{Err: newAnswer(status, "", tokenWords(failed)), Status: status}
	}
	return token, &platform.TokenError{Err: err}
}

func chooseCredential(c *Config, options azcore.ClientOptions) (azcore.TokenCredential, error) {
	switch {
	case c.ClientSecretFile != "":
		password, err := secret.Read(c.ClientSecretFile)
		switch {
		case err != nil:
			return nil, fmt.Errorf("read client_secret_file: %w", err)
		case password == "":
			return nil, fmt.Errorf("client_secret_file %q is empty", c.ClientSecretFile)
		}
		return azidentity.NewClientSecretCredential(c.Tenant, c.Client, password, &azidentity.ClientSecretCredentialOptions{
			ClientOptions: options, DisableInstanceDiscovery: c.DisableInstanceDiscovery,
		})
	case c.ClientCertificateFile != "":
		text, err := readFile("client_certificate_file", c.ClientCertificateFile)
		if err != nil {
			return nil, err
		}
		certificates, key, err := azidentity.ParseCertificates([]byte(text), nil)
		if err != nil {
			// The parser's error may contain a part of the file.
			return nil, fmt.Errorf("client_certificate_file %q: %w", c.ClientCertificateFile, errors.New("it contains no certificate with its key, as PEM or as PKCS#12 without a password"))
		}
		return azidentity.NewClientCertificateCredential(c.Tenant, c.Client, certificates, key, &azidentity.ClientCertificateCredentialOptions{
			ClientOptions: options, DisableInstanceDiscovery: c.DisableInstanceDiscovery,
		})
	case c.FederatedTokenFile != "":
		return azidentity.NewWorkloadIdentityCredential(&azidentity.WorkloadIdentityCredentialOptions{
			ClientOptions: options, DisableInstanceDiscovery: c.DisableInstanceDiscovery,
			TenantID: c.Tenant, ClientID: c.Client, TokenFilePath: c.FederatedTokenFile,
		})
	case c.identity:
		return azidentity.NewManagedIdentityCredential(&azidentity.ManagedIdentityCredentialOptions{
			ClientOptions: options, ID: azidentity.ClientID(c.Client),
		})
	}
	return azidentity.NewDefaultAzureCredential(&azidentity.DefaultAzureCredentialOptions{
		ClientOptions: options, DisableInstanceDiscovery: c.DisableInstanceDiscovery, TenantID: c.Tenant,
	})
}

func readFile(field, path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", field, err)
	}
	return string(text), nil
}
