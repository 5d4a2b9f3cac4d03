package systemd

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/targettest"
)

// slowStore is a store whose first call of Save is carried out once it is let go,
// and whose second one returns then.
type slowStore struct {
	targettest.Store
	calls         atomic.Int32
	first, second chan struct{}
}

func (s *slowStore) Save(ctx context.Context, key string, value []byte) error {
	call := s.calls.Add(1)
	if call == 1 {
		<-s.first
	}
	err := s.Store.Save(ctx, key, value)
	if call == 2 {
		<-s.second
	}
	return err
}

// TestSavesInTurn: a count that takes long to be saved does not take the place of a
// later one.
func TestSavesInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := &Config{}
		config.SetDefaults()
		store := &slowStore{first: make(chan struct{}), second: make(chan struct{})}
		worker := newTarget("worker", config, targets.Env{Store: store})
		for version := range uint64(2) {
			worker.with(func(b *book) { b.known, b.members = true, members{Format: membersFormat, Version: version + 1} })
			go func() {
				if err := worker.save(t.Context()); err != nil {
					t.Errorf("save() = %v", err)
				}
			}()
			synctest.Wait()
		}
		close(store.first)
		synctest.Wait()
		close(store.second)
		synctest.Wait()
		saved, found, err := worker.load(t.Context())
		if err != nil || !found || saved.Version != 2 {
			t.Errorf("saved %+v, %v, want version 2", saved, err)
		}
	})
}
