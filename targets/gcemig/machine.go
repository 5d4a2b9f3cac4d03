package gcemig

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/api/compute/v1"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/cloud"
)

// What is looked up of a machine.
const (
	machineFields = "id,name,zone,status,hostname,labels,creationTimestamp,lastStartTimestamp,networkInterfaces(networkIP,ipv6Address,accessConfigs(natIP),ipv6AccessConfigs(externalIpv6))"
	listFields    = "nextPageToken,unreachables,items/*/instances(" + machineFields + ")"
)

// mostAlone is the most machines that are looked up one by one: more take one list of all
// machines of the project.
const mostAlone = 10

// Facts implements cloud.Platform.
func (f *Fleet) Facts(ctx context.Context, unknown map[Target]cloud.Unknown[*compute.InstanceGroupManager]) (map[string]*cloud.Found, error) {
	s, err := f.open(ctx)
	if err != nil {
		return nil, err
	}
	wanted := map[string]cloud.Member{}
	for _, of := range unknown {
		maps.Copy(wanted, of.Members)
	}
	if len(wanted) <= mostAlone {
		return s.machines(ctx, wanted)
	}
	return s.allMachines(ctx, wanted)
}

// machines reads every machine alone.
func (s *session) machines(ctx context.Context, wanted map[string]cloud.Member) (map[string]*cloud.Found, error) {
	found := make(map[string]*cloud.Found, len(wanted))
	var mu sync.Mutex
	var group errgroup.Group
	for id, m := range wanted {
		group.Go(func() error {
			zone, name := strings.Split(m.Handle, "/")[1], m.Name
			machine, err := s.service.Instances.Get(s.project, zone, name).Fields(machineFields).Context(reading(ctx, "instances.get")).Do()
			err = sent(err)
			if errors.Is(err, targets.ErrTargetNotFound) {
				return nil // gone meanwhile
			}
			if err != nil {
				return fmt.Errorf("get instance %q of zone %q: %w", name, zone, err)
			}
			mu.Lock()
			defer mu.Unlock()
			found[id] = machineOf(machine)
			return nil
		})
	}
	return found, group.Wait()
}

// allMachines lists the machines of the project, and returns the wanted ones.
func (s *session) allMachines(ctx context.Context, wanted map[string]cloud.Member) (map[string]*cloud.Found, error) {
	found := make(map[string]*cloud.Found, len(wanted))
	err := s.service.Instances.AggregatedList(s.project).MaxResults(pageSize).ReturnPartialSuccess(true).Fields(listFields).
		Pages(reading(ctx, "instances.aggregatedList"), func(page *compute.InstanceAggregatedList) error {
			for _, scope := range page.Items {
				for _, machine := range scope.Instances {
					id := strconv.FormatUint(machine.Id, 10)
					if _, ok := wanted[id]; ok {
						found[id] = machineOf(machine)
					}
				}
			}
			return nil
		})
	if err != nil {
		return found, fmt.Errorf("list instances of project %q: %w", s.project, sent(err))
	}
	return found, nil
}

// machineOf returns the facts of a machine.
func machineOf(answer *compute.Instance) *cloud.Found {
	found := &cloud.Found{Facts: cloud.Facts{Name: answer.Name, Labels: answer.Labels}}
	for _, text := range []string{answer.LastStartTimestamp, answer.CreationTimestamp} {
		if at, err := time.Parse(time.RFC3339, text); err == nil {
			found.Launched = at
			break
		}
	}
	add := func(address string) {
		if address != "" {
			found.Facts.Addresses = append(found.Facts.Addresses, address)
		}
	}
	for _, network := range answer.NetworkInterfaces {
		add(network.NetworkIP)
		add(network.Ipv6Address)
	}
	add(answer.Hostname)
	for _, network := range answer.NetworkInterfaces {
		for _, access := range network.AccessConfigs {
			add(access.NatIP)
		}
		for _, access := range network.Ipv6AccessConfigs {
			add(access.ExternalIpv6)
		}
	}
	return found
}
