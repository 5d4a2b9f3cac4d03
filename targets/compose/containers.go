package compose

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/client"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// member is one container of a service.
type member struct {
	container.Summary
	key  key
	name string
	// number is the replica's index, starting at 1, or 0 if it has no index.
	number int
	health string
	// doomed reports whether hpad is removing the container.
	doomed bool
	// copied reports whether hpad created the container by copying another one.
	copied bool
	// fresh reports whether hpad created the container so recently that a "docker compose down"
	// may have started before the container existed.
	fresh bool
	// spare reports whether the container is not part of the replica count, because it replaces
	// a container that still exists.
	spare bool
}

// configuration identifies the settings that Compose used to create a container.
type configuration struct{ hash, image string }

func (m *member) configuration() configuration {
	return configuration{hash: hashOf(m.Labels), image: m.Labels[labelImage]}
}

// remains reports whether the container is not being removed.
func (m *member) remains() bool {
	return !m.doomed && m.State != container.StateRemoving && m.State != container.StateDead
}

// counts reports whether the container is part of the service's replica count.
func (m *member) counts() bool { return m.remains() && !m.spare }

// runs reports whether the container is running or paused.
func (m *member) runs() bool {
	return m.State == container.StateRunning || m.State == container.StatePaused
}

// phase returns the phase of a container. In the engine's list, the exit code is only part of a
// text: "Exited (0) 3 minutes ago".
func (m *member) phase() policy.Phase {
	switch m.State {
	case container.StateRunning, container.StatePaused:
		return policy.PhaseRunning
	case container.StateCreated, container.StateRestarting:
		return policy.PhasePending
	case container.StateExited:
		if strings.HasPrefix(m.Status, "Exited (0)") {
			return policy.PhaseSucceeded
		}
		return policy.PhaseFailed
	case container.StateDead:
		return policy.PhaseFailed
	}
	return policy.PhaseUnknown
}

// newMember returns nil if the container is not a replica of a service.
func newMember(s container.Summary) *member {
	k := key{project: s.Labels[labelProject], service: s.Labels[labelService]}
	_, hook := s.Labels[labelHook]
	if k.project == "" || k.service == "" || hook || hashOf(s.Labels) == "" || strings.EqualFold(s.Labels[labelOneoff], "true") {
		return nil
	}
	m := &member{Summary: s, key: k, name: nameOf(s.Names), health: healthOf(s.State, s.Status)}
	_, m.copied = s.Labels[labelBeside]
	if n, err := strconv.Atoi(s.Labels[labelNumber]); err == nil && n > 0 {
		m.number = n
	}
	return m
}

func hashOf(labels map[string]string) string {
	return cmp.Or(labels[labelHash], labels[labelPodmanHash])
}

// nameOf returns the name of a container. Names that contain a slash are links to it.
func nameOf(names []string) string {
	for _, name := range names {
		if name = strings.TrimPrefix(name, "/"); !strings.Contains(name, "/") {
			return name
		}
	}
	return ""
}

// healthOf returns the health from a status such as "Up 5 minutes (healthy)". It returns "" if
// the container is not running or has no health check.
func healthOf(state, status string) string {
	switch {
	case state != container.StateRunning:
		return ""
	case strings.HasSuffix(status, "(healthy)"):
		return container.Healthy
	case strings.HasSuffix(status, "(unhealthy)"):
		return container.Unhealthy
	case strings.HasSuffix(status, "(health: starting)"):
		return container.Starting
	}
	return ""
}

// instance converts a container to an instance, with one task that has the name of the service.
func (m *member) instance(known instanceRecord, requests []policy.Amount) policy.Instance {
	return policy.Instance{
		ID: m.ID, Name: m.name, Phase: m.phase(), Readiness: known.Readiness, Deleting: m.doomed || m.State == container.StateRemoving,
		StartedAt: known.Started, ReadinessChanged: known.Changed,
		Tasks: []policy.Task{{Name: m.key.service, Requests: requests, RequestHint: requestHint(m.key)}},
	}
}

// unreadyReason returns the reason why a container is not ready, in the words of docker ps.
func (m *member) unreadyReason(d *detail) string {
	text := m.State
	switch {
	case m.doomed, m.State == container.StateRemoving:
		return "is being removed"
	case m.State == container.StateRunning && (m.health == "" || m.health == container.Healthy):
		return ""
	case m.State == container.StateRunning && m.health == container.Starting:
		text = "health check: starting"
	case m.State == container.StateRunning:
		text = m.health
	case m.State == container.StateCreated:
		return "created, but not started"
	case m.State == container.StateRestarting:
		return fmt.Sprintf("restarting: %s, %d restarts", d.ended(), d.restarts)
	case m.State == container.StateExited:
		return d.ended()
	}
	if m.health != "" && d.check.status != 0 {
		text += fmt.Sprintf(": exit status %d", d.check.status)
	}
	return text
}

// healthOutput returns the output of the last health check of a container that is not healthy.
func (m *member) healthOutput(d *detail) string {
	if m.health == "" || m.health == container.Healthy {
		return ""
	}
	return d.check.output
}

func requestHint(k key) string {
	return fmt.Sprintf("set cpus and mem_limit of service %q (or deploy.resources.limits; reservations only count for memory) and run \"docker compose up -d %s\", "+
		"or set requests = { cpu = \"500m\", memory = \"256Mi\" } in the autoscaler's target", k.service, k.service)
}

// location returns the container's network addresses and exposed TCP ports.
func (m *member) location() targets.Location {
	l := targets.Location{Name: m.name, Labels: m.Labels}
	if m.NetworkSettings != nil {
		for _, name := range slices.Sorted(maps.Keys(m.NetworkSettings.Networks)) {
			endpoint := m.NetworkSettings.Networks[name]
			if endpoint == nil {
				continue
			}
			for _, address := range []string{endpoint.IPAddress, endpoint.GlobalIPv6Address} {
				if _, err := netip.ParseAddr(address); err == nil {
					l.Addresses = append(l.Addresses, address)
				}
			}
		}
	}
	for _, port := range m.Ports {
		if port.Type != "tcp" {
			continue
		}
		l.Ports.Set(strconv.Itoa(int(port.PrivatePort)), int(port.PrivatePort))
	}
	return l
}

type containerList struct {
	services map[key][]*member
	// projects maps each project to its number of containers, including one-off containers and
	// those that hpad is removing.
	projects map[string]int
	observed time.Time
}

// list lists the containers of one project, or of all projects if project is "".
func (f *Fleet) list(ctx context.Context, project string) (*containerList, error) {
	label := labelProject
	if project != "" {
		label += "=" + project
	}
	before := f.store.removing()
	var summaries []container.Summary
	err := f.engine.Read(ctx, func(ctx context.Context, c *client.Client) (err error) {
		summaries, err = c.ContainerList(ctx, container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("label", label))})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the containers of Compose projects: %w", err)
	}
	l := &containerList{services: map[key][]*member{}, projects: map[string]int{}, observed: time.Now()}
	for _, summary := range summaries {
		l.projects[summary.Labels[labelProject]]++
		if m := newMember(summary); m != nil {
			l.services[m.key] = append(l.services[m.key], m)
		}
	}
	f.store.mark(l, before)
	return l, nil
}

// remaining returns the number of containers of a project that hpad is not removing, and the number
// of fresh replicas among them.
func (l *containerList) remaining(project string) (all, fresh int) {
	all = l.projects[project]
	for k, members := range l.services {
		for _, m := range members {
			switch {
			case k.project != project:
			case m.doomed:
				all--
			case m.fresh:
				fresh++
			}
		}
	}
	return all, fresh
}

// counted returns the containers that are part of a service's replica count.
func counted(members []*member) []*member {
	var kept []*member
	for _, m := range members {
		if m.counts() {
			kept = append(kept, m)
		}
	}
	return kept
}

// latest returns the newest container that Compose created, or else the newest replica, or nil
// if there is no container. The engine lists the newest container first.
func latest(members []*member) *member {
	var found *member
	for _, m := range members {
		if found == nil || found.copied && !m.copied || found.copied == m.copied && m.Created > found.Created {
			found = m
		}
	}
	return found
}

// newest returns the configuration that Compose used last.
func newest(members []*member) configuration {
	if m := latest(members); m != nil {
		return m.configuration()
	}
	return configuration{}
}

// source returns the container to copy, or nil if there is no container. It has the newest
// configuration; running containers are preferred, then the highest number.
func source(members []*member) *member {
	current := newest(members)
	var best *member
	better := func(a, b *member) int {
		return cmp.Or(compareBools(a.runs(), b.runs()), cmp.Compare(a.number, b.number))
	}
	for _, m := range members {
		if m.configuration() == current && (best == nil || better(m, best) > 0) {
			best = m
		}
	}
	return best
}

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// victims returns the n containers to remove. Among equally ready containers, those with an
// older configuration come first, as in Compose. Among those that became ready at the same
// time, the highest number comes first.
func victims(members []*member, instances map[string]policy.Instance, n int) []*member {
	current := newest(members)
	ordered := slices.SortedStableFunc(slices.Values(members), func(a, b *member) int {
		first, second := instances[a.ID], instances[b.ID]
		obsolete := compareBools(a.configuration() == current, b.configuration() == current)
		return cmp.Or(
			targets.CompareForRemoval(&first, &second, obsolete),
			cmp.Compare(b.number, a.number),
			cmp.Compare(b.Created, a.Created),
		)
	})
	return ordered[:n]
}

func highest(members []*member) int {
	most := 0
	for _, m := range members {
		most = max(most, m.number)
	}
	return most
}

// replaced matches the temporary name of a container that Compose is using to replace a
// container.
var replaced = regexp.MustCompile(`^[0-9a-f]{12}_.+`)

// hold returns a hold while Compose is replacing containers of a service, otherwise nil.
func hold(k key, members []*member) *policy.Hold {
	taken := map[int]string{}
	for _, m := range members {
		if m.State == container.StateRemoving || m.State == container.StateDead {
			continue
		}
		message := ""
		other, twice := taken[m.number]
		switch {
		case replaced.MatchString(m.name) && m.name[:12] != k.project:
			message = fmt.Sprintf("container %s is a replacement in progress", m.name)
		case twice && m.number > 0:
			message = fmt.Sprintf("containers %s and %s both have the number %d", other, m.name, m.number)
		}
		if message != "" {
			return &policy.Hold{
				Reason:  composeUpdateInProgress,
				Message: fmt.Sprintf("Compose is replacing containers of service %q of project %q: %s; if no update is in progress, run \"docker compose up -d %s\" again", k.service, k.project, message, k.service),
			}
		}
		taken[m.number] = m.name
	}
	return nil
}

// versionOf returns the version of a reading: a hash of the container IDs.
func versionOf(members []*member) string {
	ids := make([]string, 0, len(members))
	for _, m := range members {
		ids = append(ids, m.ID)
	}
	slices.Sort(ids)
	digest := sha256.Sum256([]byte(strings.Join(ids, " ")))
	return hex.EncodeToString(digest[:8])
}
