package azurevmss

import (
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v7"

	"github.com/hpad/hpad/targets/cloud/azurelogin"
)

const maxConnections = 32

type client struct {
	transport *http.Transport
	sets      *armcompute.VirtualMachineScaleSetsClient
	manager   *arm.Client
}

func newClient(c *Config) (*client, error) {
	options, transport, err := azurelogin.ClientOptions(&c.Login, c.Timeout, maxConnections)
	if err != nil {
		return nil, err
	}
	options.Cloud = c.services()
	who, err := azurelogin.Credential(&c.Login, options)
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
