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
	"sync"
	"syscall"
	"time"

	"github.com/docker/docker/client"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/ledger"
)

// A service at 0 replicas has left no trace in the engine, so what it takes to
// start one again is kept in the store.

const (
	templatePrefix = "template/"
	templateFormat = 1
	// templateRetry is how long after a failure a template is taken again.
	templateRetry = time.Minute
	// composeFileSize bounds the Compose files that are compared, in bytes.
	composeFileSize = 16 << 20
)

// template is a blueprint of a service as it was last seen.
type template struct {
	Format    int        `json:"format"`
	Blueprint *blueprint `json:"blueprint"`
	// Digest is that of the blueprint, Taken when it was taken.
	Digest string    `json:"digest"`
	Taken  time.Time `json:"taken"`
	// Most is the highest count; nil means that there is none.
	Most *int32 `json:"most,omitempty"`
	// Zeroed reports that hpad scaled the service to 0, and no replica was seen since.
	Zeroed bool `json:"zeroed,omitempty"`
	// Peers are the services of the project that ran when it was scaled to 0.
	Peers []string `json:"peers,omitempty"`
	// ComposeFiles are the digests of the project's files that could be compared.
	ComposeFiles map[string]string `json:"compose_files,omitempty"`
}

// Equal reports whether two templates are one.
func (t *template) Equal(other *template) bool { return t == other }

func (t *template) Empty() bool { return t == nil }

// usable reports whether the template is of this format, and has what a replica needs.
func (t *template) usable() bool {
	return t != nil && t.Format == templateFormat && t.Blueprint != nil && t.Blueprint.Config != nil && t.Blueprint.HostConfig != nil && t.Blueprint.Prefix != "" && t.Blueprint.Config.Labels != nil
}

// templates are those of all services, which may hold secrets. They are safe for
// concurrent use.
type templates struct {
	*ledger.Ledger[*template]
	mu sync.Mutex
	// sources are the containers whose blueprint the template has, failed is why
	// there is none.
	sources map[key]string
	failed  failures
}

// failures are the last errors of an operation by service. They are safe for concurrent
// use.
type failures struct {
	mu   sync.Mutex
	last map[key]failure
}

type failure struct {
	err error
	at  time.Time
}

// of returns the last error; nil if there is none.
func (f *failures) of(k key) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last[k].err
}

// over reports whether the operation may be tried again.
func (f *failures) over(k key, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	last, failed := f.last[k]
	return !failed || now.Sub(last.at) >= templateRetry
}

// set stores an error; nil forgets the last one.
func (f *failures) set(k key, err error, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil {
		delete(f.last, k)
		return
	}
	if f.last == nil {
		f.last = map[key]failure{}
	}
	f.last[k] = failure{err: err, at: now}
}

func newTemplates(store targets.Store) *templates {
	return &templates{Ledger: ledger.New[*template](store, templatePrefix), sources: map[key]string{}}
}

// load reads what was stored, in place of what is known.
func (t *templates) load(ctx context.Context) error {
	if err := t.Load(ctx); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.sources)
	return nil
}

func (t *templates) of(k key) *template {
	if known, _ := t.Of(k.String()); known.usable() {
		return known
	}
	return nil
}

// removed reports whether a project without containers is not there any more, as after
// "docker compose down": somebody else than hpad took the last container of the service,
// or of another one that ran when hpad scaled this one to 0.
func (f *Fleet) removed(k key, t *template, l *listing) bool {
	if l.remaining(k.project) > 0 {
		return false
	}
	return !t.Zeroed || slices.ContainsFunc(t.Peers, func(peer string) bool {
		other := f.templates.of(key{project: k.project, service: peer})
		return other == nil || !other.Zeroed
	})
}

func (t *templates) all() map[key]*template {
	all := map[key]*template{}
	for _, k := range keysOf(t.Names()) {
		if known := t.of(k); known != nil {
			all[k] = known
		}
	}
	return all
}

// due reports whether the template of a service has to be looked at, since another
// container is its source now.
func (t *templates) due(k key, source string, now time.Time) bool {
	known := t.of(k)
	t.mu.Lock()
	defer t.mu.Unlock()
	return (t.sources[k] != source || known != nil && known.Zeroed) && t.failed.over(k, now)
}

func (t *templates) put(ctx context.Context, k key, source string, next *template) error {
	if err := t.Commit(ctx, k.String(), next); err != nil {
		return fmt.Errorf("%w: store the template of service %q: %w", targets.ErrTransient, k, err)
	}
	t.same(k, source)
	return nil
}

// drop deletes a template; what cannot be is by the next refresh.
func (t *templates) drop(ctx context.Context, k key) {
	if t.of(k) != nil && t.Commit(ctx, k.String(), nil) == nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.sources, k)
	}
}

// same enters that a container is as the template has it.
func (t *templates) same(k key, source string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sources[k] = source
	t.failed.set(k, nil, time.Time{})
}

// refresh takes the template of a service anew where it is not known to be that of the
// container which would be copied now. A failure is the error of a scale-down to 0.
func (f *Fleet) refresh(ctx context.Context, k key, from *member, now time.Time) {
	if from == nil || from.doomed || !f.templates.due(k, from.ID, now) {
		return
	}
	if err := f.takeTemplate(ctx, k, from, false, nil); err != nil {
		f.templates.failed.set(k, err, now)
	}
}

// takeTemplate stores the template of a service, unless the stored one is the same.
// Before a scale-down to 0 it is stored in any case, with the services that run beside
// it.
func (f *Fleet) takeTemplate(ctx context.Context, k key, from *member, zeroed bool, peers []string) error {
	b, inspected, err := f.blueprintOf(ctx, from)
	if err != nil {
		return err
	}
	if !*f.config.StoreSecrets && len(b.Files) > 0 {
		f.templates.drop(ctx, k) // it is of a time when it might be stored
		return fmt.Errorf("%w: %d secrets or configs were copied into the containers, %s among them, and store_secrets is false", targets.ErrUnscalable, len(b.Files), b.Files[0].Path)
	}
	digest, err := b.digest()
	if err != nil {
		return err
	}
	if old := f.templates.of(k); old != nil && !zeroed && !old.Zeroed && old.Digest == digest {
		f.templates.same(k, from.ID)
		return nil
	}
	return f.templates.put(ctx, k, from.ID, &template{
		Format: templateFormat, Blueprint: b, Digest: digest, Taken: time.Now().UTC(), Zeroed: zeroed, Peers: peers,
		Most: limitsOf(from, inspected).most, ComposeFiles: composeFiles(b.Config.Labels),
	})
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
