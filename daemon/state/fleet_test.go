package state

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFleetStore(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	defer func() { closeStore(t, s) }()
	ctx := t.Context()
	one, other := s.Fleet("one"), s.Fleet("other")

	if value, err := one.Load(ctx, "k"); value != nil || err != nil {
		t.Errorf("Load from an empty store = %q, %v", value, err)
	}
	if all, err := one.List(ctx, ""); len(all) != 0 || err != nil {
		t.Errorf("List of an empty store = %v, %v", all, err)
	}
	if err := one.Delete(ctx, "k"); err != nil {
		t.Errorf("delete a missing key: %v", err)
	}
	want := map[string][]byte{"seen/a": []byte("1"), "seen/b": {}, "seem": []byte("\x00\xff"), "template": []byte("{}")}
	value := []byte("1")
	for key, text := range want {
		if key == "seen/a" {
			text = value
		}
		if err := one.Save(ctx, key, text); err != nil {
			t.Fatalf("save %q: %v", key, err)
		}
	}
	value[0] = 'x' // the store must keep a copy
	if err := one.Save(ctx, "nil", nil); err != nil {
		t.Fatal(err)
	}
	if err := other.Save(ctx, "template", []byte("of the other")); err != nil {
		t.Fatal(err)
	}
	if err := other.Delete(ctx, "seem"); err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	s = open(t, dir)
	one, other = s.Fleet("one"), s.Fleet("other")

	got, err := one.Load(ctx, "nil")
	if err != nil || got == nil || len(got) != 0 {
		t.Errorf("Load of an empty value = %v, %v", got, err)
	}
	if err := one.Delete(ctx, "nil"); err != nil {
		t.Fatal(err)
	}
	all, err := one.List(ctx, "")
	if diff := cmp.Diff(want, all); diff != "" || err != nil {
		t.Errorf("list: %v (-want +got):\n%s", err, diff)
	}
	all["seen/a"][0] = 'y' // the caller may modify the result
	some, err := one.List(ctx, "seen/")
	if diff := cmp.Diff(map[string][]byte{"seen/a": []byte("1"), "seen/b": {}}, some); diff != "" || err != nil {
		t.Errorf("list seen/: %v (-want +got):\n%s", err, diff)
	}
	all, err = other.List(ctx, "")
	if diff := cmp.Diff(map[string][]byte{"template": []byte("of the other")}, all); diff != "" || err != nil {
		t.Errorf("the other fleet: %v (-want +got):\n%s", err, diff)
	}
}
