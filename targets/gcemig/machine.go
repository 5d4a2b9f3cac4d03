package gcemig

import (
	"context"
	"errors"
	"fmt"
	"strconv"
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

// forbiddenFor is how long machines are not looked up after the right to was missing.
const forbiddenFor = 10 * time.Minute

// lookup is a machine to be looked up.
type lookup struct{ id, zone, name string }

// machine is what was looked up of one.
type machine struct {
	started time.Time
	facts   *cloud.Facts
}

// machines looks up start times, addresses and labels. It is safe for concurrent
// use.
type machines struct {
	// connections bounds the calls under way at once.
	connections int

	mu sync.Mutex
	// pages is how many calls it took to list all machines of the project.
	pages int
	// forbidden is why machines are not looked up, until then.
	forbidden error
	until     time.Time
}

// problem returns why machines cannot be looked up; nil when they can.
func (m *machines) problem(now time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now.Before(m.until) {
		return m.forbidden
	}
	return nil
}

// find looks machines up, one by one or all of the project's, whichever takes fewer
// calls. Those that cannot be found are left out; nothing depends on them so much
// that a round had to fail.
func (m *machines) find(ctx context.Context, s *session, wanted []lookup) map[string]machine {
	if len(wanted) == 0 || m.problem(time.Now()) != nil {
		return nil
	}
	m.mu.Lock()
	pages := m.pages
	m.mu.Unlock()
	const few = 4
	var found map[string]machine
	var err error
	alone := len(wanted) <= max(few, pages)
	if alone {
		found, err = m.each(ctx, s, wanted)
	}
	if !alone || errors.Is(err, targets.ErrForbidden) { // The right to list is another one.
		found, err = m.all(ctx, s, wanted)
	}
	if errors.Is(err, targets.ErrForbidden) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.forbidden, m.until = err, time.Now().Add(forbiddenFor)
	}
	return found
}

// each reads every machine alone.
func (m *machines) each(ctx context.Context, s *session, wanted []lookup) (map[string]machine, error) {
	found := make(map[string]machine, len(wanted))
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(m.connections)
	for _, w := range wanted {
		group.Go(func() error {
			answer, err := s.service.Instances.Get(s.project, w.zone, w.name).Fields(machineFields).Context(reading(ctx, "instances.get")).Do()
			err = readError(err)
			if errors.Is(err, targets.ErrTargetNotFound) {
				return nil // gone meanwhile
			}
			if err != nil {
				return fmt.Errorf("get instance %q of zone %q: %w", w.name, w.zone, err)
			}
			mu.Lock()
			defer mu.Unlock()
			found[strconv.FormatUint(answer.Id, 10)] = machineOf(answer)
			return nil
		})
	}
	return found, group.Wait()
}

// all lists the machines of the project, and returns those that are wanted.
func (m *machines) all(ctx context.Context, s *session, wanted []lookup) (map[string]machine, error) {
	ids := make(map[string]bool, len(wanted))
	for _, w := range wanted {
		ids[w.id] = true
	}
	found := make(map[string]machine, len(wanted))
	pages := 0
	err := s.service.Instances.AggregatedList(s.project).MaxResults(pageSize).ReturnPartialSuccess(true).Fields(listFields).
		Pages(reading(ctx, "instances.aggregatedList"), func(page *compute.InstanceAggregatedList) error {
			pages++
			for _, scope := range page.Items {
				for _, answer := range scope.Instances {
					if id := strconv.FormatUint(answer.Id, 10); ids[id] {
						found[id] = machineOf(answer)
					}
				}
			}
			return nil
		})
	if err != nil {
		return found, fmt.Errorf("list instances of project %q: %w", s.project, readError(err))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pages = pages
	return found, nil
}

// machineOf reads what matters of a machine.
func machineOf(answer *compute.Instance) machine {
	found := machine{facts: &cloud.Facts{Name: answer.Name, Labels: answer.Labels}}
	for _, text := range []string{answer.LastStartTimestamp, answer.CreationTimestamp} {
		if at, err := time.Parse(time.RFC3339, text); err == nil {
			found.started = at
			break
		}
	}
	add := func(address string) {
		if address != "" {
			found.facts.Addresses = append(found.facts.Addresses, address)
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
