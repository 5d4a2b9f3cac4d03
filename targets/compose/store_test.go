package compose

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/targettest"
)

// TestStoredBefore holds that what an earlier version stored is known as it was.
func TestStoredBefore(t *testing.T) {
	i := newImitation(t)
	store := &targettest.Store{}
	stored := store.Fill(t, "testdata/store-1.json")
	at := time.Date(2026, 11, 22, 22, 0, 0, 0, time.UTC)
	f, err := New("shop", testConfig(t, i.host()), targets.Env{Store: store, Now: func() time.Time { return at }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if err := f.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	web, idle := key{"shop", "web"}, key{"shop", "idle"}
	begun, _ := f.removals.begun.Of(web.String())
	for entry, known := range map[string]any{
		"copies/shop/web": f.copies.of(web), "failed/shop/web": f.revivals.of(web), "instances/shop/web": f.memories.recall(web),
		"removing/shop/web": f.removals.doomed.of(web), "starting/shop/web": begun, "template/shop/idle": f.templates.of(idle),
	} {
		text, err := json.Marshal(known)
		if err != nil || string(text) != string(stored[entry]) {
			t.Errorf("of %s is known %s, %v, want %s", entry, text, err, stored[entry])
		}
	}
	if len(stored) != 6 {
		t.Errorf("%d entries, want one of each kind", len(stored))
	}
}
