package compose

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/docker/docker/client"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

const templateFormat = 1

// template contains the blueprint of a service from before hpad scaled it to 0. The engine
// stores nothing about such a service. It may contain secrets.
type template struct {
	Format    int        `json:"format"`
	Blueprint *blueprint `json:"blueprint"`
	// Most is the maximum count, or nil if there is no limit.
	Most *int32 `json:"most,omitempty"`
	// Peers lists the services of the project that were running when this service was scaled to
	// 0.
	Peers []string `json:"peers,omitempty"`
}

// usable reports whether the template has the current format and is complete.
func (t *template) usable() bool {
	return t != nil && t.Format == templateFormat && t.Blueprint != nil && t.Blueprint.Config != nil && t.Blueprint.HostConfig != nil && t.Blueprint.Prefix != "" && t.Blueprint.Config.Labels != nil
}

// templateOf returns the template of a service at 0, or nil if it has none or its project was
// removed, for example by "docker compose down". A project is considered removed if it has no
// container, although another of its services was running and hpad has not scaled that service to
// 0.
func (f *Fleet) templateOf(k key, l *containerList) *template {
	t := f.store.template(k)
	if all, _ := l.remaining(k.project); t == nil || all > 0 {
		return t
	}
	if slices.ContainsFunc(t.Peers, func(peer string) bool { return f.store.template(key{k.project, peer}) == nil }) {
		return nil
	}
	return t
}

// takeTemplate stores the template of a service before a scale-down to 0. peers are the other
// running services of the project.
func (f *Fleet) takeTemplate(ctx context.Context, k key, from *member, peers []string) error {
	b, inspected, err := f.blueprintOf(ctx, from)
	if err == nil {
		err = f.storable(b)
	}
	if err != nil {
		return err
	}
	next := &template{Format: templateFormat, Blueprint: b, Peers: peers, Most: limitsOf(from, inspected).most}
	return f.store.commit(ctx, k, func(r *serviceRecord) { r.Template = next })
}

// storable returns an error if a blueprint contains secrets that must not be stored.
func (f *Fleet) storable(b *blueprint) error {
	if !*f.config.StoreSecrets && len(b.Files) > 0 {
		return fmt.Errorf("%w: %d secrets or configs were copied into the containers, including %s, and store_secrets is false", targets.ErrUnscalable, len(b.Files), b.Files[0].Path)
	}
	return nil
}

// missing returns the first image, network or volume that a replica of a blueprint
// needs and the engine does not have, or "" if it has all of them.
func (f *Fleet) missing(ctx context.Context, b *blueprint) (string, error) {
	type need struct {
		name    string
		inspect func(ctx context.Context, c *client.Client) error
	}
	needs := []need{{fmt.Sprintf("image %q (%s)", b.Config.Image, shortID(strings.TrimPrefix(b.ImageID, "sha256:"))), func(ctx context.Context, c *client.Client) error {
		_, err := c.ImageInspect(ctx, b.ImageID)
		return err
	}}}
	for _, name := range slices.Sorted(maps.Keys(b.Networks)) {
		needs = append(needs, need{fmt.Sprintf("network %q", name), func(ctx context.Context, c *client.Client) error {
			_, err := c.NetworkInspect(ctx, name, networkInspect)
			return err
		}})
	}
	for _, name := range b.volumes() {
		needs = append(needs, need{fmt.Sprintf("volume %q", name), func(ctx context.Context, c *client.Client) error {
			_, err := c.VolumeInspect(ctx, name)
			return err
		}})
	}
	for _, n := range needs {
		err := f.engine.Read(ctx, n.inspect)
		if isNotFound(err) {
			return n.name, nil
		}
		if err != nil {
			return "", fmt.Errorf("inspect %s: %w", n.name, err)
		}
	}
	return "", nil
}

func unusable(k key, missing string) *policy.Hold {
	return &policy.Hold{
		Reason:  templateUnusable,
		Message: fmt.Sprintf("a replica of service %q of project %q needs %s, which no longer exists: run \"docker compose up -d %s\" once", k.service, k.project, missing, k.service),
	}
}
