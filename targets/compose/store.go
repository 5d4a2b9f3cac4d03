package compose

import (
	"context"
	"fmt"
	"maps"
	"sync/atomic"
	"time"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/replicas"
)

const storePrefix = "services/"

// serviceRecord contains the data of a service that the engine does not store. Its maps are
// never modified; edited copies them.
type serviceRecord struct {
	// Instances maps container IDs to the records of the containers.
	Instances map[string]instanceRecord `json:"instances,omitempty"`
	// Removing maps the IDs of the containers that hpad is removing to their names.
	Removing map[string]string `json:"removing,omitempty"`
	// Known is the creation time, in Unix seconds, of the newest container that existed when
	// hpad last chose victims. If older containers are missing later, hpad has removed them.
	Known int64 `json:"known,omitempty"`
	// Replacing is the time of the last replacement of obsolete replicas. It is written before the
	// replacement, so that a member that has lost the fleet replaces nothing.
	Replacing time.Time `json:"replacing,omitzero"`
	// Failed maps the IDs of failed containers to their failures.
	Failed map[string]failure `json:"failed,omitempty"`
	// Template is set while the service is scaled to 0 by hpad.
	Template *template `json:"template,omitempty"`
}

// store contains the records of all services. It is safe for concurrent use.
type store struct {
	*replicas.Store[serviceRecord]
	// saveErr is the error of the last write.
	saveErr atomic.Pointer[error]
}

func newStore(backend targets.Store) *store {
	return &store{Store: replicas.New[serviceRecord](backend, storePrefix)}
}

func (s *store) of(k key) serviceRecord {
	r, _ := s.Get(k.String())
	return r
}

// template returns the template of a service, or nil if it has none.
func (s *store) template(k key) *template {
	if t := s.of(k).Template; t.usable() {
		return t
	}
	return nil
}

// services returns the services that have a record, in order.
func (s *store) services() []key {
	var keys []key
	for _, name := range s.Names() {
		if k, err := parseName(name); err == nil {
			keys = append(keys, k)
		}
	}
	return keys
}

// removing returns the IDs of all containers that hpad is removing.
func (s *store) removing() map[string]bool {
	ids := map[string]bool{}
	for _, k := range s.services() {
		for id := range s.of(k).Removing {
			ids[id] = true
		}
	}
	return ids
}

// update changes a record. If it cannot be written, the change is kept in memory, and a later
// update writes it.
func (s *store) update(ctx context.Context, k key, change func(r *serviceRecord)) {
	s.Change(k.String(), changed(change))
	err := s.Save(ctx, k.String())
	s.saveErr.Store(&err)
}

// commit changes a record only if the change can be written.
func (s *store) commit(ctx context.Context, k key, change func(r *serviceRecord)) error {
	if err := s.Commit(ctx, k.String(), changed(change)); err != nil {
		return fmt.Errorf("%w: store the record of service %q: %w", targets.ErrTransient, k, err)
	}
	return nil
}

func (s *store) dropTemplate(ctx context.Context, k key) {
	if s.template(k) != nil {
		s.update(ctx, k, func(r *serviceRecord) { r.Template = nil })
	}
}

// lastError returns the error of the last write, or nil if it succeeded.
func (s *store) lastError() error {
	if err := s.saveErr.Load(); err != nil {
		return *err
	}
	return nil
}

func changed(change func(r *serviceRecord)) func(serviceRecord) serviceRecord {
	return func(r serviceRecord) serviceRecord {
		change(&r)
		return r
	}
}

// edited returns a changed copy of a map.
func edited[V any](m map[string]V, change func(m map[string]V)) map[string]V {
	next := make(map[string]V, len(m))
	maps.Copy(next, m)
	change(next)
	return next
}
