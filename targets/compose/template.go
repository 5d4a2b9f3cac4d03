package compose

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/docker/docker/client"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/ledger"
)

// The engine has no trace of a service at 0 replicas. So the store has a template of each
// service that hpad has scaled to 0, until it runs again.

const (
	templatePrefix = "template/"
	templateFormat = 1
	// composeFileSize bounds the Compose files that are compared, in bytes.
	composeFileSize = 16 << 20
)

// template is a blueprint of a service as it was before it was scaled to 0.
type template struct {
	Format    int        `json:"format"`
	Blueprint *blueprint `json:"blueprint"`
	// Most is the highest count; nil means no limit.
	Most *int32 `json:"most,omitempty"`
	// Peers are the services of the project that ran when it was scaled to 0.
	Peers []string `json:"peers,omitempty"`
	// ComposeFiles are the digests of the project's files that could be compared.
	ComposeFiles map[string]string `json:"compose_files,omitempty"`
}

// Equal reports whether two templates are one.
func (t *template) Equal(other *template) bool { return t == other }

// Empty reports whether there is nothing to store.
func (t *template) Empty() bool { return t == nil }

// usable reports whether the template has this format and is complete.
func (t *template) usable() bool {
	return t != nil && t.Format == templateFormat && t.Blueprint != nil && t.Blueprint.Config != nil && t.Blueprint.HostConfig != nil && t.Blueprint.Prefix != "" && t.Blueprint.Config.Labels != nil
}

// templates are those of all services, which may hold secrets. They are safe for
// concurrent use.
type templates struct{ *ledger.Ledger[*template] }

func newTemplates(store targets.Store) templates {
	return templates{ledger.New[*template](store, templatePrefix)}
}

// of returns the template of a service; nil if it has none.
func (t templates) of(k key) *template {
	if known, _ := t.Of(k.String()); known.usable() {
		return known
	}
	return nil
}

func (t templates) all() map[key]*template {
	all := map[key]*template{}
	for _, k := range keysOf(t.Names()) {
		if known := t.of(k); known != nil {
			all[k] = known
		}
	}
	return all
}

// drop deletes a template. If it cannot be deleted now, a later reading does so.
func (t templates) drop(ctx context.Context, k key) {
	if t.of(k) != nil {
		_ = t.Commit(ctx, k.String(), nil)
	}
}

// removed reports whether the project of a service at 0 does not exist any more, as after
// "docker compose down": it has no container, although another service ran that hpad has
// not scaled to 0.
func (f *Fleet) removed(k key, t *template, l *listing) bool {
	return l.remaining(k.project) == 0 && slices.ContainsFunc(t.Peers, func(peer string) bool {
		return f.templates.of(key{project: k.project, service: peer}) == nil
	})
}

// takeTemplate stores the template of a service before a scale-down to 0, with the services
// that run beside it.
func (f *Fleet) takeTemplate(ctx context.Context, k key, from *member, peers []string) error {
	b, inspected, err := f.blueprintOf(ctx, from)
	if err == nil {
		err = f.storable(b)
	}
	if err != nil {
		return err
	}
	next := &template{
		Format: templateFormat, Blueprint: b, Peers: peers,
		Most: limitsOf(from, inspected).most, ComposeFiles: composeFiles(b.Config.Labels),
	}
	if err := f.templates.Commit(ctx, k.String(), next); err != nil {
		return fmt.Errorf("%w: store the template of service %q: %w", targets.ErrTransient, k, err)
	}
	return nil
}

// storable returns an error if a blueprint contains secrets that must not be stored.
func (f *Fleet) storable(b *blueprint) error {
	if !*f.config.StoreSecrets && len(b.Files) > 0 {
		return fmt.Errorf("%w: %d secrets or configs were copied into the containers, %s among them, and store_secrets is false", targets.ErrUnscalable, len(b.Files), b.Files[0].Path)
	}
	return nil
}

// composeFiles returns the digests of a project's files, which its labels name, as
// far as they can be compared.
func composeFiles(labels map[string]string) map[string]string {
	digests := map[string]string{}
	for name := range strings.SplitSeq(labels[labelConfigFiles], ",") {
		if digest, err := digestFile(labels[labelWorkingDir], name); err == nil {
			digests[name] = digest
		}
	}
	return digests
}

// digestFile returns the digest of a Compose file. Whoever may make containers
// writes the labels that name it and its project's directory, so that nothing is
// opened but YAML below that directory, without following links out of it.
func digestFile(dir, name string) (string, error) {
	below, err := filepath.Rel(dir, name)
	extension := filepath.Ext(name)
	if err != nil || !filepath.IsAbs(dir) || filepath.Clean(dir) == "/" || !filepath.IsLocal(below) || extension != ".yaml" && extension != ".yml" {
		return "", fmt.Errorf("%q is no YAML file below the project's directory %q", name, dir)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer func() { _ = root.Close() }()
	opened, err := root.OpenFile(below, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe must not keep hpad waiting
	if err != nil {
		return "", err
	}
	defer func() { _ = opened.Close() }()
	info, err := opened.Stat()
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Size() > composeFileSize {
		return "", fmt.Errorf("%q is no file of a size to be compared", name)
	}
	hash := sha256.New()
	if _, err := io.Copy(hash, io.LimitReader(opened, composeFileSize)); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// stale returns what changed of the project's files since the template was taken; nil
// when nothing did.
func (t *template) stale(k key) *policy.Notice {
	for _, name := range slices.Sorted(maps.Keys(t.ComposeFiles)) {
		digest, err := digestFile(t.Blueprint.Config.Labels[labelWorkingDir], name)
		change := "has changed"
		switch {
		case errors.Is(err, os.ErrNotExist):
			change = "is gone"
		case err != nil || digest == t.ComposeFiles[name]:
			continue
		}
		return &policy.Notice{
			Condition: TemplateStale, Reason: "ComposeFileChanged",
			Message: fmt.Sprintf("%s %s since hpad last saw a container of service %q; a new replica is as the old ones were until \"docker compose up -d --scale %s=1\"", name, change, k.service, k.service),
		}
	}
	return nil
}

// missing returns what a replica of a template lacks on the engine: the image, networks,
// volumes, other containers; "" for nothing.
func (f *Fleet) missing(ctx context.Context, b *blueprint) (string, error) {
	type need struct {
		what string
		ask  func(ctx context.Context, c *client.Client) error
	}
	needs := []need{{fmt.Sprintf("image %q (%s)", b.Config.Image, shortDigest(b.ImageID)), func(ctx context.Context, c *client.Client) error {
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
	for _, id := range b.parents() {
		needs = append(needs, need{"container " + shortID(id), func(ctx context.Context, c *client.Client) error {
			_, err := c.ContainerInspect(ctx, id)
			return err
		}})
	}
	for _, n := range needs {
		err := f.engine.Read(ctx, n.ask)
		if isNotFound(err) {
			return n.what, nil
		}
		if err != nil {
			return "", fmt.Errorf("look for %s: %w", n.what, err)
		}
	}
	return "", nil
}

func unusable(k key, missing string) *policy.Hold {
	return &policy.Hold{
		Reason:  TemplateUnusable,
		Message: fmt.Sprintf("%s is gone, which a replica of service %q of project %q needs: run \"docker compose up -d %s\" once", missing, k.service, k.project, k.service),
	}
}

// shortDigest is how Docker's command line shows an image's id.
func shortDigest(id string) string { return shortID(strings.TrimPrefix(id, "sha256:")) }
