package swarm

import (
	"context"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/swarm"
	"github.com/docker/docker/client"

	"github.com/hpad/hpad/targets"
)

// Discover returns all services that have a label starting with "hpad.", in order. It returns the
// labels of the service (deploy.labels in a stack). If the label that enables an autoscaler is only
// on a service's containers, the service has a Problem.
func (f *Fleet) Discover(ctx context.Context) ([]targets.Discovered, error) {
	if !f.config.Discover {
		return nil, nil
	}
	err := f.base.Usable(ctx)
	var services []swarm.Service
	if err == nil {
		err = f.read(ctx, func(ctx context.Context, c *client.Client) (err error) {
			services, err = c.ServiceList(ctx, swarm.ServiceListOptions{})
			return err
		})
	}
	if err != nil {
		return nil, err
	}
	found := []targets.Discovered{}
	for _, service := range services {
		labels := map[string]string{}
		for label, text := range service.Spec.Labels {
			if strings.HasPrefix(label, targets.LabelPrefix) {
				labels[label] = text
			}
		}
		switch {
		case len(labels) > 0:
			found = append(found, targets.Discovered{Name: service.Spec.Name, Labels: labels})
		case misplaced(&service):
			found = append(found, targets.Discovered{Name: service.Spec.Name, Problem: targets.EnableLabel +
				` is a label of the service's containers, where it has no effect; move it and the other hpad labels to the service (deploy.labels in a stack, docker service create --label)`})
		}
	}
	slices.SortFunc(found, func(a, b targets.Discovered) int { return strings.Compare(a.Name, b.Name) })
	return found, nil
}

// misplaced reports whether the containers of a service have the label that enables an
// autoscaler.
func misplaced(service *swarm.Service) bool {
	container := service.Spec.TaskTemplate.ContainerSpec
	return container != nil && container.Labels[targets.EnableLabel] == "true"
}
