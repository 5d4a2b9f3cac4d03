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

// manyNetworks is the version of the API since which a container is created in
// all of its networks at once; before, in one.
const manyNetworks = "1.44"

// grow starts containers one after the other, until there are enough, one fails, or there
// is no time left for another before ctx ends. Its calls have the fleet's own context: none
// is cut off with a container half made.
func (f *Fleet) scaleUp(ctx context.Context, c *change) error {
	b, err := f.plan(ctx, c)
	if err != nil {
		return err
	}
	if f.config.RestartExited {
		f.restartExited(c.living)
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
			err = fmt.Errorf("%w: %w after %d new containers; the next pass goes on", targets.ErrTransient, targets.ErrWriteTime, made)
		} else {
			_, err = f.startExclusively(ctx, c.key, b, number, c.labels())
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
		// What was read is not to blame any more: there are other containers now.
		err = fmt.Errorf("%w: %s", targets.ErrTransient, err.Error())
	}
	return &targets.PartialError{Reached: int32(from + made), Err: err}
}

// freeNumbers returns the next n numbers of a service. It skips a number if another
// container has the name: a foreign container, or a renamed one.
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

// plan returns what to make new containers by: the newest replica, or where there is
// none the template.
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
		b, most, setting = t.Blueprint, t.Most, "the template's range of ports"
	}
	if most != nil && c.to > int(*most) {
		return nil, &targets.OutOfRangeError{Max: most, Err: fmt.Errorf("service %q has %s, which allows %d", c.key, setting, *most)}
	}
	return f.withImage(ctx, b)
}

// blueprintOf returns the blueprint of a container with the files that were copied into
// it.
func (f *Fleet) blueprintOf(ctx context.Context, from *member) (*blueprint, *container.InspectResponse, error) {
	inspected, err := f.inspect(ctx, from.ID)
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

// withImage names the image that Compose made the others from: by its name as long as
// that still means it, else by its id. A replica of another image would be an update
// that nobody asked for.
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
		return nil, fmt.Errorf("look for image %q: %w", b.Config.Image, err)
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

// restartExited starts the containers that have exited. One that cannot be started stays
// as it is, as the reading shows.
func (f *Fleet) restartExited(members []*member) {
	for _, m := range members {
		if m.State == container.StateExited {
			_ = f.call(func(ctx context.Context, c *client.Client) error {
				return c.ContainerStart(ctx, m.ID, container.StartOptions{})
			})
		}
	}
}

// startInTurn starts one container when no other is being started, as Compose does,
// because ports of a range are given out on a first come basis. It returns the container's
// ID.
func (f *Fleet) startExclusively(ctx context.Context, k key, b *blueprint, number int, labels map[string]string) (id string, err error) {
	if f.starts.Acquire(ctx, 1) != nil {
		return "", fmt.Errorf("%w: containers of other services are still being started: %w", targets.ErrTransient, context.Cause(ctx))
	}
	defer f.starts.Release(1)
	if ctx.Err() != nil {
		return "", fmt.Errorf("%w: %w", targets.ErrTransient, context.Cause(ctx))
	}
	return f.startReplica(k, b, number, labels)
}

// startReplica creates and starts one container, and removes one that cannot be started.
func (f *Fleet) startReplica(k key, b *blueprint, number int, labels map[string]string) (id string, err error) {
	name, r, err := b.replica(number, labels)
	if err != nil {
		return "", err
	}
	err = f.call(func(ctx context.Context, c *client.Client) (err error) {
		id, err = create(ctx, c, name, r)
		return err
	})
	if err != nil && id == "" {
		return "", explainStart("create", name, r, err)
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
		return id, nil
	}
	err = explainStart("start", name, r, err)
	if left := f.discard(id); left != nil {
		// A later reading removes a container that was not started.
		return "", fmt.Errorf("%w: %w; container %s is left over: %w", targets.ErrUnknownOutcome, err, name, left)
	}
	return "", err
}

// startTimeout bounds the creation, the start and the removal of one container.
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

// create creates a container in its networks. Its id is returned also where a network
// could not be joined.
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

// What the engine's refusals are recognized by.
const (
	sayingNameTaken = "is already in use by container"
	sayingNoImage   = "No such image"
	sayingGone      = "No such container"
)

// sayingPortTaken are the engine's words for a port that is taken.
var sayingPortTaken = []string{"port is already allocated", "address already in use"}

// explainStart gives an error of a new container one of the classes of package targets.
func explainStart(what, name string, r *blueprint, err error) error {
	text := err.Error()
	says := func(saying string) bool { return strings.Contains(text, saying) }
	reason, class, wayOut := StartFailed, targets.ErrTransient, ""
	switch {
	case errdefs.IsConflict(err) && says(sayingNameTaken), what == "start" && errdefs.IsNotFound(err) && says(sayingGone):
		return fmt.Errorf("%w: %s container %s: %w", targets.ErrConflict, what, name, err)
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || client.IsErrConnectionFailed(err):
		return fmt.Errorf("%w: %w: %s container %s: %w", targets.ErrUnknownOutcome, targets.ErrTransient, what, name, err)
	case errdefs.IsUnauthorized(err) || errdefs.IsPermissionDenied(err):
		class = targets.ErrForbidden
	case errdefs.IsNotFound(err) && says(sayingNoImage):
		reason = ImageNotFound
		wayOut = fmt.Sprintf("; \"docker compose up -d\" gets image %q again", r.Config.Image)
	case slices.ContainsFunc(sayingPortTaken, says):
		wayOut = "; something else has the port"
	}
	return &targets.ReasonError{Reason: reason, Err: fmt.Errorf("%w: %s container %s: %w%s", class, what, name, err, wayOut)}
}
