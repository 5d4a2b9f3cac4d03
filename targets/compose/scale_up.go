package compose

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/versions"
	"github.com/docker/docker/client"

	"github.com/hpad/hpad/targets"
)

// manyNetworks is the first API version that can create a container in several networks.
const manyNetworks = "1.44"

// scaleUp starts containers one after the other, until there are enough, one fails, or the time
// until the deadline of ctx is too short for a further one. Its calls use the fleet's context,
// so that the end of ctx does not leave a partly created container.
func (f *Fleet) scaleUp(ctx context.Context, c *change) error {
	b, err := f.plan(ctx, c)
	if err != nil {
		return err
	}
	from := len(c.living)
	numbers, err := f.freeNumbers(ctx, c, b, c.to-from)
	if err != nil {
		return err
	}
	made, slowest := 0, time.Duration(0)
	for _, number := range numbers {
		begun := time.Now()
		if deadline, ok := ctx.Deadline(); made > 0 && ok && deadline.Sub(begun) < 2*slowest {
			err = targets.WithClass(targets.ErrTransient, fmt.Errorf("%w after %d new containers; the next pass continues", targets.ErrWriteTime, made))
		} else {
			err = f.startExclusively(ctx, c.key, b, number, c.labels())
		}
		if err != nil {
			break
		}
		if made++; from == 0 {
			f.store.dropTemplate(f.ctx, c.key)
		}
		slowest = max(slowest, time.Since(begun))
	}
	if err == nil || made == 0 {
		return err
	}
	if errors.Is(err, targets.ErrConflict) {
		// The conflict does not concern the version that the caller read.
		err = fmt.Errorf("%w: %s", targets.ErrTransient, err.Error())
	}
	return &targets.PartialError{Reached: int32(from + made), Err: err}
}

// freeNumbers returns the next n free numbers of a service. It skips a number if an unrelated
// or renamed container has the name.
func (f *Fleet) freeNumbers(ctx context.Context, c *change, b *blueprint, n int) (numbers []int, err error) {
	var summaries []container.Summary
	err = f.engine.Read(ctx, func(ctx context.Context, c *client.Client) (err error) {
		like := filters.Arg("name", "^/?"+regexp.QuoteMeta(b.Prefix))
		summaries, err = c.ContainerList(ctx, container.ListOptions{All: true, Filters: filters.NewArgs(like)})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the containers named %s*: %w", b.Prefix, err)
	}
	taken := map[string]bool{}
	for _, summary := range summaries {
		taken[nameOf(summary.Names)] = true
	}
	for number := highest(c.members) + 1; len(numbers) < n; number++ {
		if !taken[b.Prefix+strconv.Itoa(number)] {
			numbers = append(numbers, number)
		}
	}
	return numbers, nil
}

// plan returns the blueprint for new containers. It comes from the newest replica, or from the
// template if there is no replica.
func (f *Fleet) plan(ctx context.Context, c *change) (*blueprint, error) {
	var b *blueprint
	most, setting := (*int32)(nil), ""
	if from := source(c.living); from != nil {
		found, inspected, err := f.blueprintOf(ctx, from)
		if err != nil {
			return nil, err
		}
		l := limitsOf(from, inspected)
		if l.refusal != nil {
			return nil, l.refusal
		}
		b, most, setting = found, l.most, l.setting
	} else {
		t := f.store.template(c.key)
		b, most, setting = t.Blueprint, t.Most, "the template's host ports"
	}
	if most != nil && c.to > int(*most) {
		return nil, &targets.OutOfRangeError{Max: most, Err: fmt.Errorf("service %q uses %s, which limit it to %d replicas", c.key, setting, *most)}
	}
	return f.withImage(ctx, b)
}

// blueprintOf returns the blueprint of a container, including its files.
func (f *Fleet) blueprintOf(ctx context.Context, from *member) (*blueprint, *container.InspectResponse, error) {
	inspected, err := f.inspect(ctx, from.ID, from.name)
	if err != nil {
		return nil, nil, err
	}
	if inspected == nil {
		return nil, nil, fmt.Errorf("%w: container %s is gone", targets.ErrConflict, from.name)
	}
	b, err := newBlueprint(from, inspected)
	if err != nil {
		return nil, nil, err
	}
	b.Files, err = f.filesOf(ctx, from.key, inspected)
	return b, inspected, err
}

// withImage refers to the image by its name if the name still refers to the same image, otherwise
// by its ID, because a replica with a different image would be an unrequested update.
func (f *Fleet) withImage(ctx context.Context, b *blueprint) (*blueprint, error) {
	if b.ImageID == "" {
		return b, nil
	}
	same := false
	err := f.engine.Read(ctx, func(ctx context.Context, c *client.Client) error {
		image, err := c.ImageInspect(ctx, b.Config.Image)
		same = err == nil && image.ID == b.ImageID
		return err
	})
	if err != nil && !isNotFound(err) {
		return nil, fmt.Errorf("inspect image %q: %w", b.Config.Image, err)
	}
	if same {
		return b, nil
	}
	named, err := b.clone()
	if err != nil {
		return nil, err
	}
	named.Config.Image = b.ImageID
	return named, nil
}

// startExclusively creates and starts one container while no other container is being started.
// Compose also serializes starts, because the engine assigns ports from a range in start order.
func (f *Fleet) startExclusively(ctx context.Context, k key, b *blueprint, number int, labels map[string]string) error {
	if f.starts.Acquire(ctx, 1) != nil {
		return fmt.Errorf("%w: containers of other services are still being started: %w", targets.ErrTransient, context.Cause(ctx))
	}
	defer f.starts.Release(1)
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", targets.ErrTransient, context.Cause(ctx))
	}
	return f.startReplica(k, b, number, labels)
}

// startReplica creates and starts a container. If the container cannot be started, it is
// removed.
func (f *Fleet) startReplica(k key, b *blueprint, number int, labels map[string]string) error {
	name, r, err := b.replica(number, labels)
	if err != nil {
		return err
	}
	id := ""
	err = f.call(func(ctx context.Context, c *client.Client) (err error) {
		id, err = create(ctx, c, name, r)
		return err
	})
	if err != nil && id == "" {
		return explainStart("create", name, r, err)
	}
	if err == nil && len(r.Files) > 0 {
		var files *bytes.Buffer
		if files, err = archived(r.Files); err == nil {
			err = f.call(func(ctx context.Context, c *client.Client) error {
				return c.CopyToContainer(ctx, id, "/", files, container.CopyToContainerOptions{})
			})
		}
	}
	if err == nil {
		err = f.call(func(ctx context.Context, c *client.Client) error {
			return c.ContainerStart(ctx, id, container.StartOptions{})
		})
	}
	if err == nil {
		err = f.afterStart(k, id)
	}
	if err == nil {
		return nil
	}
	err = explainStart("start", name, r, err)
	if left := f.discard(id); left != nil {
		// The fleet removes the container after a later read.
		return fmt.Errorf("%w: %w; removing container %s failed: %w", targets.ErrUnknownOutcome, err, name, left)
	}
	return err
}

// startTimeout limits the creation, the start and the removal of one container.
const startTimeout = time.Minute

// call makes a call with startTimeout instead of the fleet's timeout.
func (f *Fleet) call(do func(ctx context.Context, c *client.Client) error) error {
	ctx, cancel := context.WithTimeout(f.ctx, startTimeout)
	defer cancel()
	c, err := f.engine.Client(ctx)
	if err != nil {
		return err
	}
	return do(ctx, c)
}

// create creates a container in its networks. It returns the ID even if the container could not
// join a network.
func create(ctx context.Context, c *client.Client, name string, r *blueprint) (id string, err error) {
	created, later := r.Networks, []string(nil)
	if versions.LessThan(c.ClientVersion(), manyNetworks) {
		created = map[string]*network.EndpointSettings{}
		for _, of := range slices.Sorted(maps.Keys(r.Networks)) {
			if of == r.primary() {
				created[of] = r.Networks[of]
			} else {
				later = append(later, of)
			}
		}
	}
	answer, err := c.ContainerCreate(ctx, r.Config, r.HostConfig, &network.NetworkingConfig{EndpointsConfig: created}, nil, name)
	if err != nil {
		return "", err
	}
	for _, of := range later {
		if err := c.NetworkConnect(ctx, of, answer.ID, r.Networks[of]); err != nil {
			return answer.ID, fmt.Errorf("join network %q: %w", of, err)
		}
	}
	return answer.ID, nil
}

// Parts of the engine's error messages.
const (
	nameTaken   = "is already in use by" // Docker and Podman
	noImage     = "No such image"
	noContainer = "No such container"
)

var portTaken = []string{"port is already allocated", "address already in use"}

// explainStart classifies the error of creating or starting a container.
func explainStart(what, name string, r *blueprint, err error) error {
	text := err.Error()
	contains := func(part string) bool { return strings.Contains(text, part) }
	reason, class, wayOut := StartFailed, targets.ErrTransient, ""
	switch {
	case errdefs.IsConflict(err) && contains(nameTaken), what == "start" && errdefs.IsNotFound(err) && contains(noContainer):
		return fmt.Errorf("%w: %s container %s: %w", targets.ErrConflict, what, name, err)
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || client.IsErrConnectionFailed(err):
		return fmt.Errorf("%w: %s container %s: %w", targets.ErrUnknownOutcome, what, name, targets.WithClass(targets.ErrTransient, err))
	case errdefs.IsUnauthorized(err) || errdefs.IsPermissionDenied(err):
		class = targets.ErrForbidden
	case errdefs.IsNotFound(err) && contains(noImage):
		reason = imageNotFound
		wayOut = fmt.Sprintf("; \"docker compose up -d\" restores image %q", r.Config.Image)
	case slices.ContainsFunc(portTaken, contains):
		wayOut = "; the port is in use"
	}
	return &targets.ReasonError{Reason: reason, Err: fmt.Errorf("%w: %s container %s: %w%s", class, what, name, err, wayOut)}
}
