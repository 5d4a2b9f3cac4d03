package compose

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"

	"github.com/hpad/hpad/targets"
)

// Check returns the engine's version, and the settings of known services that hpad cannot copy.
// An error lists missing permissions, which Check tests with calls that have no effect.
func (f *Fleet) Check(ctx context.Context) ([]string, error) {
	return targets.CallUnlessClosed(ctx, &f.base, "check", f.check)
}

func (f *Fleet) check(ctx context.Context) ([]string, error) {
	var found []string
	err := f.engine.Read(ctx, func(ctx context.Context, c *client.Client) error {
		version, err := c.ServerVersion(ctx)
		if err == nil {
			found = append(found, fmt.Sprintf("connected to Docker %s, API version %s", version.Version, c.ClientVersion()))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if lack := f.lacks(ctx); len(lack) > 0 {
		return found, fmt.Errorf("%w: the engine, or a proxy in front of it, does not allow hpad to %s", targets.ErrForbidden, strings.Join(lack, ", "))
	}
	found = append(found, "may create, start, stop and remove containers")
	l, err := f.list(ctx, "")
	if err != nil {
		return found, err
	}
	known := f.base.Known()
	slices.SortFunc(known, func(a, b key) int { return strings.Compare(a.String(), b.String()) })
	for _, k := range known {
		found = append(found, f.checkService(ctx, k, l)...)
	}
	if err := f.store.lastError(); err != nil {
		found = append(found, "records cannot be stored: "+err.Error())
	}
	return found, nil
}

// lacks returns the operations that hpad is not permitted to perform.
func (f *Fleet) lacks(ctx context.Context) []string {
	const missing = "hpad-check-missing"
	var lack []string
	for _, try := range []struct {
		what string
		call func(ctx context.Context, c *client.Client) error
	}{
		{"create containers", func(ctx context.Context, c *client.Client) error {
			// The request is invalid, because it has no image, so the engine creates no container.
			_, err := c.ContainerCreate(ctx, &container.Config{}, &container.HostConfig{}, nil, nil, "")
			return err
		}},
		{"start containers", func(ctx context.Context, c *client.Client) error {
			return c.ContainerStart(ctx, missing, container.StartOptions{})
		}},
		{"stop containers", func(ctx context.Context, c *client.Client) error {
			return c.ContainerStop(ctx, missing, container.StopOptions{})
		}},
		{"remove containers", func(ctx context.Context, c *client.Client) error {
			return c.ContainerRemove(ctx, missing, container.RemoveOptions{})
		}},
		{"read files of containers", func(ctx context.Context, c *client.Client) error {
			_, err := c.ContainerStatPath(ctx, missing, "/")
			return err
		}},
		{"read images", func(ctx context.Context, c *client.Client) error {
			_, err := c.ImageInspect(ctx, missing)
			return err
		}},
		{"read networks", func(ctx context.Context, c *client.Client) error {
			_, err := c.NetworkInspect(ctx, missing, networkInspect)
			return err
		}},
		{"read volumes", func(ctx context.Context, c *client.Client) error {
			_, err := c.VolumeInspect(ctx, missing)
			return err
		}},
	} {
		if err := f.engine.Read(ctx, try.call); errors.Is(err, targets.ErrForbidden) {
			lack = append(lack, try.what)
		}
	}
	return lack
}

// checkService returns restrictions that only hpad's configuration can remove.
func (f *Fleet) checkService(ctx context.Context, k key, l *containerList) []string {
	from := source(counted(l.services[k]))
	if from == nil {
		return nil
	}
	b, _, err := f.blueprintOf(ctx, from)
	if err == nil {
		err = f.storable(b)
	}
	switch {
	case err != nil:
		return []string{fmt.Sprintf("service %q cannot be scaled to 0: %v", k, err)}
	case len(b.Files) == 0:
		return nil
	}
	return []string{fmt.Sprintf("service %q: hpad copies %d files that Compose copied into its containers, including %s; list configs with content or environment in copy_paths", k, len(b.Files), b.Files[0].Path)}
}
