package nomad

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/hashicorp/nomad/api"
	"golang.org/x/sync/errgroup"

	"github.com/hpad/hpad/daemon/state"
)

// The items of a page: who claimed it, and its records or that it is divided.
const (
	claimItem   = "claim"
	recordsItem = "records"
	dividedItem = "divided"
)

const (
	// largestPage is how many bytes the records of a page take at most in a variable, and
	// largestPlain how many they are; pages with more are divided.
	largestPage  = 48 << 10
	largestPlain = 256 << 10
	// largestRecord is how many bytes a page with one record takes at most in a variable,
	// which Nomad lets have 64 KiB.
	largestRecord = 63 << 10
	// deepest is how many bits of a hash tell pages apart.
	deepest = 20
	// together is how many calls for the pages of a term are under way at once.
	together = 8
)

// node is a page, as its term last saw it.
type node struct {
	bits string
	// since is an index as of which the page is there.
	since    uint64
	variable *api.Variable
	// below are both pages of one that is divided; nil of one that has records.
	below *[2]*node
}

// divided notes that a page was divided.
func (n *node) divided(variable *api.Variable) {
	n.variable = variable
	n.below = &[2]*node{{bits: n.bits + "0", since: variable.ModifyIndex}, {bits: n.bits + "1", since: variable.ModifyIndex}}
}

// side returns which page below a divided one has a key.
func (n *node) side(key string) *node {
	sum, depth := sha256.Sum256([]byte(key)), len(n.bits)
	return n.below[sum[depth/8]>>(7-depth%8)&1]
}

// leaves adds the pages that have keys, with the changes of those.
func (n *node) leaves(all map[*node]map[string][]byte, changes map[string][]byte) {
	for key, value := range changes {
		leaf := n
		for leaf.below != nil {
			leaf = leaf.side(key)
		}
		if all[leaf] == nil {
			all[leaf] = map[string][]byte{}
		}
		all[leaf][key] = value
	}
}

// createRoot creates the first page of a fleet, if it is not there.
func (c *Coordinator) createRoot(ctx context.Context, fleet string) error {
	_, err := c.change(ctx, c.page(fleet, ""), &api.Variable{}, func(found *api.Variable) (api.VariableItems, error) {
		if found != nil {
			return nil, nil
		}
		return api.VariableItems{claimItem: claimOf(0, ""), recordsItem: ""}, nil
	})
	return err
}

// A claim is the number of a term, and a text that no other claim has.
func claimOf(number uint64, nonce string) string {
	return strconv.FormatUint(number, 10) + " " + nonce
}

func numberOf(page *api.Variable) uint64 {
	text, _, _ := strings.Cut(page.Items[claimItem], " ")
	number, _ := strconv.ParseUint(text, 10, 64)
	return number
}

func isDivided(page *api.Variable) bool { return page.Items[dividedItem] != "" }

func (t *term) path(n *node) string { return t.page(t.name, n.bits) }

// missing is the error of a page that ought to be there.
func (t *term) missing(n *node) error {
	return fmt.Errorf("the variable %q of Nomad is missing, with state of fleet %q: restore it, or remove all below %q, and %q, to have the state forgotten",
		t.path(n), t.name, strings.TrimSuffix(t.page(t.name, ""), "p"), t.fleet(t.name))
}

// claim claims all pages that have records, once. Writing is held.
func (t *term) claim(ctx context.Context) error {
	if err := t.check(); err != nil || t.root != nil {
		return err
	}
	root := &node{since: t.since}
	for level := []*node{root}; len(level) > 0; {
		var all errgroup.Group
		all.SetLimit(together)
		for _, n := range level {
			all.Go(func() error { return t.claimPage(ctx, n) })
		}
		if err := all.Wait(); err != nil {
			return err
		}
		var next []*node
		for _, n := range level {
			if n.below != nil {
				next = append(next, n.below[:]...)
			}
		}
		level = next
	}
	t.root = root
	return nil
}

// claimPage claims a page, or notes that it is divided.
func (t *term) claimPage(ctx context.Context, n *node) error {
	if err := t.fetch(ctx, n); err != nil {
		return err
	}
	page, err := t.change(ctx, t.path(n), n.variable, func(found *api.Variable) (api.VariableItems, error) {
		switch {
		case found == nil:
			return nil, t.missing(n)
		case isDivided(found), found.Items[claimItem] == t.token:
			return nil, nil
		case numberOf(found) > t.number:
			return nil, t.lost()
		}
		return api.VariableItems{claimItem: t.token, recordsItem: found.Items[recordsItem]}, nil
	})
	if err != nil {
		return err
	}
	if n.variable = page; isDivided(page) {
		n.divided(page)
	}
	return nil
}

// fetch reads a page that was not read yet.
func (t *term) fetch(ctx context.Context, n *node) (err error) {
	if n.variable != nil {
		return nil
	}
	if n.variable, err = t.readSince(ctx, t.path(n), n.since); err == nil && n.variable == nil {
		err = t.missing(n)
	}
	return err
}

// claimed returns an error where a page is not this term's any more.
func (t *term) claimed(n *node, found *api.Variable) error {
	if found == nil {
		return t.missing(n)
	}
	if found.Items[claimItem] != t.token {
		return t.lost()
	}
	return nil
}

// Load is as [state.Records] has it.
func (t *term) Load(ctx context.Context, keep func(key string, value []byte) error) error {
	t.writing.Lock()
	defer t.writing.Unlock()
	if err := t.claim(ctx); err != nil {
		return err
	}
	return t.each(t.root, keep)
}

// Load is as [cluster.Coordinator] has it, of each page at a moment of its own.
func (c *Coordinator) Load(ctx context.Context, fleet string, keep func(key string, value []byte) error) error {
	return c.loadPage(ctx, fleet, "", 0, keep)
}

// loadPage calls keep with what a page has that is there as of an index, and those below it.
func (c *Coordinator) loadPage(ctx context.Context, fleet, bits string, since uint64, keep func(key string, value []byte) error) error {
	page, err := c.readSince(ctx, c.page(fleet, bits), since)
	if err != nil {
		return err
	}
	switch {
	case page == nil && bits == "": // nobody ever owned it
		return nil
	case page == nil:
		return fmt.Errorf("the variable %q of Nomad is missing, with state of fleet %q", c.page(fleet, bits), fleet)
	case isDivided(page):
		return errors.Join(c.loadPage(ctx, fleet, bits+"0", page.ModifyIndex, keep), c.loadPage(ctx, fleet, bits+"1", page.ModifyIndex, keep))
	}
	records, err := recordsOf(page)
	if err != nil {
		return err
	}
	for key, value := range records {
		if err := keep(key, value); err != nil {
			return err
		}
	}
	return nil
}

// each calls keep with what a page has, and those below it.
func (t *term) each(n *node, keep func(key string, value []byte) error) error {
	if n.below != nil {
		return errors.Join(t.each(n.below[0], keep), t.each(n.below[1], keep))
	}
	records, err := recordsOf(n.variable)
	if err != nil {
		return err
	}
	for key, value := range records {
		if err := keep(key, value); err != nil {
			return err
		}
	}
	return nil
}

// Write is as [state.Records] has it.
func (t *term) Write(ctx context.Context, values map[string][]byte) error {
	t.writing.Lock()
	defer t.writing.Unlock()
	if err := t.claim(ctx); err != nil {
		return err
	}
	if rejected := tooLarge(values); len(rejected) > 0 {
		return rejected
	}
	work := map[*node]map[string][]byte{}
	t.root.leaves(work, values)
	for len(work) > 0 {
		var all errgroup.Group
		all.SetLimit(together)
		for n, changes := range work {
			all.Go(func() error { return t.put(ctx, n, changes) })
		}
		if err := all.Wait(); err != nil {
			return err
		}
		next := map[*node]map[string][]byte{}
		for n, changes := range work {
			if n.below != nil { // it was divided instead
				n.leaves(next, changes)
			}
		}
		work = next
	}
	return nil
}

// tooLarge returns the values that no variable holds.
func tooLarge(values map[string][]byte) state.RejectedError {
	rejected := state.RejectedError{}
	for key, value := range values {
		if len(key)+len(value) <= largestRecord/2 {
			continue // base64 adds a third, and zstd at most a few bytes
		}
		if text, _ := textOf(map[string][]byte{key: value}); len(text) > largestRecord {
			rejected[key] = fmt.Errorf("it takes %d bytes in a variable of Nomad and may take %d", len(text), largestRecord)
		}
	}
	return rejected
}

// put changes records of a page, or divides the page where it would be too large.
func (t *term) put(ctx context.Context, n *node, changes map[string][]byte) error {
	if err := t.fetch(ctx, n); err != nil {
		return err
	}
	tooLarge := false
	page, err := t.change(ctx, t.path(n), n.variable, func(found *api.Variable) (api.VariableItems, error) {
		if err := t.claimed(n, found); err != nil || isDivided(found) {
			return nil, err
		}
		records, err := recordsOf(found)
		if err != nil {
			return nil, err
		}
		apply(records, changes)
		text, plain := textOf(records)
		if tooLarge = (len(text) > largestPage || plain > largestPlain) && len(records) > 1 && len(n.bits) < deepest; tooLarge {
			return nil, nil
		}
		if len(text) > largestRecord {
			rejected := state.RejectedError{} // their hashes begin alike
			for key := range changes {
				rejected[key] = fmt.Errorf("its variable of Nomad would take %d bytes and may take %d", len(text), largestRecord)
			}
			return nil, rejected
		}
		return api.VariableItems{claimItem: t.token, recordsItem: text}, nil
	})
	if err != nil {
		return err
	}
	if n.variable = page; isDivided(page) {
		n.divided(page)
	} else if tooLarge {
		return t.divide(ctx, n)
	}
	return nil
}

// divide divides a page that this term claimed, with the records it has.
func (t *term) divide(ctx context.Context, n *node) error {
	records, err := recordsOf(n.variable)
	if err != nil {
		return err
	}
	halves := &node{bits: n.bits, below: &[2]*node{{bits: n.bits + "0"}, {bits: n.bits + "1"}}}
	for _, half := range halves.below {
		mine := maps.Clone(records)
		maps.DeleteFunc(mine, func(key string, _ []byte) bool { return halves.side(key) != half })
		text, _ := textOf(mine)
		items := api.VariableItems{claimItem: t.token, recordsItem: text}
		half.variable, err = t.change(ctx, t.path(half), &api.Variable{}, func(*api.Variable) (api.VariableItems, error) {
			return items, nil // also over what was left half divided
		})
		if err != nil {
			return err
		}
	}
	changed := false
	page, err := t.change(ctx, t.path(n), n.variable, func(found *api.Variable) (api.VariableItems, error) {
		if err := t.claimed(n, found); err != nil || isDivided(found) {
			return nil, err
		}
		if changed = found.ModifyIndex != n.variable.ModifyIndex; changed {
			return nil, nil // by an earlier write that arrives late: it has other records
		}
		return api.VariableItems{claimItem: t.token, dividedItem: "yes"}, nil
	})
	if err != nil {
		return err
	}
	if n.variable = page; changed {
		return t.divide(ctx, n)
	}
	n.below = halves.below
	return nil
}
