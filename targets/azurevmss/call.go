package azurevmss

import (
	"context"
	"errors"
	"net/http"

	azpolicy "github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"

	"github.com/hpad/hpad/targets"
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
	opPermissions     = "Permissions_ListForResource"
	opPoll            = "Operations_Get"
	autoscaleVersion  = "2022-10-01"
	interfacesVersion = "2023-09-01"
	// memberInterfacesVersion is the one by which interfaces of Uniform sets are
	// listed.
	memberInterfacesVersion = "2018-10-01"
	permissionsVersion      = "2022-04-01"
)

// do makes one call within the fleet's limits and its timeout. The errors of call are
// put into classes by classify.
func (f *Fleet) do(ctx context.Context, c *client, call platform.Call, classify func(error) error, do func(ctx context.Context) error) error {
	err := f.limiter.Do(ctx, call, func(ctx context.Context) error {
		ctx, cancel := targets.Bounded(ctx, f.config.Timeout)
		defer cancel()
		err := do(ctx)
		if _, unsent := errors.AsType[*tokenError](err); !unsent {
			err = targets.Overdue(ctx, err)
		}
		return classify(err)
	})
	if answer, ok := errors.AsType[*platform.Answer](err); ok && answer.Status == http.StatusUnauthorized {
		f.connection.Forget(c) // whose token is of no use any more
	}
	return err
}

// read makes one call that changes nothing.
func (f *Fleet) read(ctx context.Context, operation string, do func(ctx context.Context, c *client) error) error {
	c, err := f.connection.Client(ctx)
	if err != nil {
		return err
	}
	return f.do(ctx, c, platform.Call{Operation: operation, Class: platform.Read}, readError, func(ctx context.Context) error {
		return do(ctx, c)
	})
}

// pages reads all pages of a list, each a call of its own.
func pages[T any](ctx context.Context, f *Fleet, operation string, open func(c *client) *runtime.Pager[T], take func(page T)) error {
	c, err := f.connection.Client(ctx)
	if err != nil {
		return err
	}
	call := platform.Call{Operation: operation, Class: platform.Read}
	for pager := open(c); err == nil && pager.More(); {
		err = f.do(ctx, c, call, readError, func(ctx context.Context) error {
			page, err := pager.NextPage(ctx)
			if err == nil {
				take(page)
			}
			return err
		})
	}
	return err
}

// valuePage is one page of a list that the SDK has no client for.
type valuePage[T any] struct {
	Value    []T    `json:"value"`
	NextLink string `json:"nextLink"`
}

// list reads all pages of a list that the SDK has no client for.
func list[T any](ctx context.Context, f *Fleet, operation, path, version string, take func(value T)) error {
	open := func(c *client) *runtime.Pager[valuePage[T]] {
		first := func(ctx context.Context) (*azpolicy.Request, error) {
			return runtime.NewRequest(ctx, http.MethodGet, runtime.JoinPaths(c.manager.Endpoint(), path)+"?api-version="+version)
		}
		return runtime.NewPager(runtime.PagingHandler[valuePage[T]]{
			More: func(page valuePage[T]) bool { return page.NextLink != "" },
			Fetcher: func(ctx context.Context, last *valuePage[T]) (page valuePage[T], err error) {
				response, err := runtime.FetcherForNextLink(ctx, c.manager.Pipeline(), value(last).NextLink, first, nil)
				if err == nil {
					err = runtime.UnmarshalAsJSON(response, &page)
				}
				return page, err
			},
		})
	}
	return pages(ctx, f, operation, open, func(page valuePage[T]) {
		for _, value := range page.Value {
			take(value)
		}
	})
}
