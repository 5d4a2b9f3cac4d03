package swarm

import (
	"context"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/swarm"
	"github.com/docker/docker/client"

	"github.com/hpad/hpad/targets"
)

// Discover answers all services with a label that begins with "hpad.", by name:
// those that cannot be scaled too, since reading them says so. The labels are
// those of the service (deploy.labels in a stack), not of its containers. It
// takes one list.
func (f *Fleet) Discover(ctx context.Context) ([]targets.Discovered, error) {
	if !f.config.Discover {
		return nil, nil
	}
	err := f.life.Usable(ctx)
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
		if len(labels) > 0 {
			found = append(found, targets.Discovered{Name: service.Spec.Name, Labels: labels})
		}
	}
	slices.SortFunc(found, func(a, b targets.Discovered) int { return strings.Compare(a.Name, b.Name) })
	return found, nil
}
