package azurelogin

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	azpolicy "github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"

	"github.com/hpad/hpad/settings/secret"
	platform "github.com/hpad/hpad/targets/cloud"
)

// Configuration returns the addresses of the configured cloud. Like the functions below, it is no method, so
// that the linker omits the SDK if a build does not call it.
func Configuration(l *Login) cloud.Configuration {
	named := map[string]cloud.Configuration{PublicCloud: cloud.AzurePublic, GovernmentCloud: cloud.AzureGovernment, ChinaCloud: cloud.AzureChina}[l.Cloud]
	if l.AuthorityHost != "" {
		named.ActiveDirectoryAuthorityHost = l.AuthorityHost
	}
	return named
}

// ClientOptions returns the options for clients, and their transport. timeout limits each step of a
// connection, and connections their number for each host.
func ClientOptions(l *Login, timeout time.Duration, connections int) (azcore.ClientOptions, *http.Transport, error) {
	transport := platform.NewTransport(timeout, connections)
	transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	if l.CAFile != "" {
		text, err := readFile("ca_file", l.CAFile)
		if err != nil {
			return azcore.ClientOptions{}, nil, err
		}
		transport.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !transport.TLSClientConfig.RootCAs.AppendCertsFromPEM([]byte(text)) {
			return azcore.ClientOptions{}, nil, fmt.Errorf("ca_file %q contains no PEM certificate", l.CAFile)
		}
	}
	return azcore.ClientOptions{
		Cloud:     Configuration(l),
		Transport: &http.Client{Transport: transport},
		// hpad retries in the next round.
		Retry:     azpolicy.RetryOptions{MaxRetries: -1},
		Telemetry: azpolicy.TelemetryOptions{ApplicationID: "hpad"},
	}, transport, nil
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
		return token, &platform.TokenError{Err: &platform.ResponseError{Platform: "azure", Status: status, Message: tokenWords(failed)}, Status: status}
	}
	return token, &platform.TokenError{Err: err}
}

// Credential returns the source of access tokens for a client. It reads the files of the login. Its errors
// are cloud.TokenErrors.
func Credential(l *Login, options azcore.ClientOptions) (azcore.TokenCredential, error) {
	chosen, err := choose(l, options)
	return credential{chosen}, err
}

func choose(l *Login, options azcore.ClientOptions) (azcore.TokenCredential, error) {
	switch {
	case l.ClientSecretFile != "":
		password, err := secret.Read(l.ClientSecretFile)
		switch {
		case err != nil:
			return nil, fmt.Errorf("read client_secret_file: %w", err)
		case password == "":
			return nil, fmt.Errorf("client_secret_file %q is empty", l.ClientSecretFile)
		}
		return azidentity.NewClientSecretCredential(l.Tenant, l.Client, password, &azidentity.ClientSecretCredentialOptions{
			ClientOptions: options, DisableInstanceDiscovery: l.DisableInstanceDiscovery,
		})
	case l.ClientCertificateFile != "":
		text, err := readFile("client_certificate_file", l.ClientCertificateFile)
		if err != nil {
			return nil, err
		}
		certificates, key, err := azidentity.ParseCertificates([]byte(text), nil)
		if err != nil {
			// The parser's error may contain a part of the file.
			return nil, fmt.Errorf("client_certificate_file %q: %w", l.ClientCertificateFile, errors.New("it contains no certificate with its key, as PEM or as PKCS#12 without a password"))
		}
		return azidentity.NewClientCertificateCredential(l.Tenant, l.Client, certificates, key, &azidentity.ClientCertificateCredentialOptions{
			ClientOptions: options, DisableInstanceDiscovery: l.DisableInstanceDiscovery,
		})
	case l.FederatedTokenFile != "":
		return azidentity.NewWorkloadIdentityCredential(&azidentity.WorkloadIdentityCredentialOptions{
			ClientOptions: options, DisableInstanceDiscovery: l.DisableInstanceDiscovery,
			TenantID: l.Tenant, ClientID: l.Client, TokenFilePath: l.FederatedTokenFile,
		})
	case l.identity:
		return azidentity.NewManagedIdentityCredential(&azidentity.ManagedIdentityCredentialOptions{
			ClientOptions: options, ID: azidentity.ClientID(l.Client),
		})
	}
	return azidentity.NewDefaultAzureCredential(&azidentity.DefaultAzureCredentialOptions{
		ClientOptions: options, DisableInstanceDiscovery: l.DisableInstanceDiscovery, TenantID: l.Tenant,
	})
}

func readFile(field, path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", field, err)
	}
	return string(text), nil
}

func tokenWords(failed *azidentity.AuthenticationFailedError) string {
	body, err := runtime.Payload(failed.RawResponse)
	var rejection struct {
		Description string `json:"error_description"`
		Code        string `json:"error"`
	}
	if err != nil || json.Unmarshal(body, &rejection) != nil || rejection.Description == "" {
		return failed.Error()
	}
	return rejection.Code + ": " + rejection.Description
}
