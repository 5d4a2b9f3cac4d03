package azurevmss

import (
	"context"
	"errors"
	"net/http"
	"strings"

	azpolicy "github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"

	platform "github.com/hpad/hpad/targets/cloud"
)

// The operations that are called, as Azure names them.
const (
	opListSets        = "VirtualMachineScaleSets_List"
	opListAllSets     = "VirtualMachineScaleSets_ListAll"
	opGetSet          = "VirtualMachineScaleSets_Get"
	opUpdateSet       = "VirtualMachineScaleSets_Update"
	opDeleteMembers   = "VirtualMachineScaleSets_DeleteInstances"
	opListMembers     = "VirtualMachineScaleSetVMs_List"
	opListMachines    = "VirtualMachines_List"
	opUpgrade         = "VirtualMachineScaleSetRollingUpgrades_GetLatest"
	opAutoscale       = "AutoscaleSettings_List"
	opInterfaces      = "NetworkInterfaces_List"
	computeVersion    = "2025-04-01"
	autoscaleVersion  = "2022-10-01"
	interfacesVersion = "2023-09-01"
	// memberInterfacesVersion is the one by which interfaces of Uniform sets are
	// listed.
	memberInterfacesVersion = "2018-10-01"
)

// call makes one call within the fleet's limits.
func (f *Fleet) call(ctx context.Context, call platform.Call, do func(ctx context.Context, c *client) error) error {
	c, err := f.connection.Client(ctx)
	if err != nil {
		return err
	}
	err = f.Limiter.Do(ctx, call, func(ctx context.Context) error { return do(ctx, c) })
	if errors.Is(err, platform.ErrCredentials) {
		f.connection.Forget(c)
	}
	return err
}

// read makes one call that changes nothing.
func (f *Fleet) read(ctx context.Context, operation string, do func(ctx context.Context, c *client) error) error {
	return f.call(ctx, platform.Call{Operation: operation, Class: platform.Read}, do)
}

// request builds a request for a path, which may have a query.
func request(ctx context.Context, c *client, path, version string) (*azpolicy.Request, error) {
	path, query, _ := strings.Cut(path, "?")
	r, err := runtime.NewRequest(ctx, http.MethodGet, runtime.JoinPaths(c.manager.Endpoint(), path))
	if err == nil {
		r.Raw().URL.RawQuery = strings.TrimSuffix("api-version="+version+"&"+query, "&")
	}
	return r, err
}

// list reads all pages of a list, each a call of its own. Own types, unlike those of the
// SDK, decode no more than hpad uses: Azure's responses are long.
func list[T any](ctx context.Context, f *Fleet, operation, path, version string, take func(value *T)) error {
	for next, first := "", true; first || next != ""; first = false {
		var page struct {
			Value    []T    `json:"value"`
			NextLink string `json:"nextLink"`
		}
		err := f.read(ctx, operation, func(ctx context.Context, c *client) error {
			response, err := runtime.FetcherForNextLink(ctx, c.manager.Pipeline(), next, func(ctx context.Context) (*azpolicy.Request, error) {
				return request(ctx, c, path, version)
			}, nil)
			if err == nil {
				err = runtime.UnmarshalAsJSON(response, &page)
			}
			return err
		})
		if err != nil {
			return err
		}
		for i := range page.Value {
			take(&page.Value[i])
		}
		next = page.NextLink
	}
	return nil
}

// get reads one resource.
func get[T any](ctx context.Context, f *Fleet, operation, path string) (*T, error) {
	into := new(T)
	return into, f.read(ctx, operation, func(ctx context.Context, c *client) error {
		r, err := request(ctx, c, path, computeVersion)
		if err != nil {
			return err
		}
		response, err := c.manager.Pipeline().Do(r)
		if err == nil && !runtime.HasStatusCode(response, http.StatusOK) {
			err = runtime.NewResponseError(response)
		}
		if err == nil {
			err = runtime.UnmarshalAsJSON(response, into)
		}
		return err
	})
}
