package nomad

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/gob"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"strconv"
	"strings"

	"github.com/hashicorp/nomad/api"
	"github.com/klauspost/compress/zstd"

	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/guard"
)

// The items of a page: the claim of the term that writes it, and its records.
const (
	claimItem   = "claim"
	recordsItem = "records"
)

const (
	// The number of pages is increased if the records of a page have more than largestPage bytes in
	// the variable, or more than largestPlain bytes before compression.
	largestPage  = 48 << 10
	largestPlain = 512 << 10
	// largestRecord is the maximum size of a page with a single record. Nomad allows 64 KiB per
	// variable.
	largestRecord = 63 << 10
	// mostPages is the maximum number of pages per fleet.
	mostPages = 4096
	// maxParallel is the maximum number of concurrent calls for a term's pages.
	maxParallel = 8
)

// The compressor and the decompressor are safe for concurrent use.
var (
	compressor   = must(zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest)))
	decompressor = must(zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(64<<20)))
)

// The first call creates the encoder's channels. Channels that are created in a synctest bubble
// cannot be used outside of it.
func init() { compressor.EncodeAll(nil, nil) }

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// textOf returns the records of a page as text, and their size before compression.
func textOf(records map[string][]byte) (text string, size int) {
	if len(records) == 0 {
		return "", 0
	}
	var plain bytes.Buffer
	if err := gob.NewEncoder(&plain).Encode(records); err != nil {
		panic(err) // cannot happen: writes to a buffer do not fail
	}
	return base64.RawStdEncoding.EncodeToString(compressor.EncodeAll(plain.Bytes(), nil)), plain.Len()
}

func recordsOf(page *api.Variable) (map[string][]byte, error) {
	records := map[string][]byte{}
	compressed, err := base64.RawStdEncoding.DecodeString(page.Items[recordsItem])
	if err == nil && len(compressed) > 0 {
		var plain []byte
		if plain, err = decompressor.DecodeAll(compressed, nil); err == nil {
			err = gob.NewDecoder(bytes.NewReader(plain)).Decode(&records)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("decode the state in Nomad variable %q: %w", page.Path, err)
	}
	return records, nil
}

func apply(records, changes map[string][]byte) {
	for key, value := range changes {
		if value == nil {
			delete(records, key)
		} else {
			records[key] = value
		}
	}
}

// split divides records among n pages by the hashes of their keys.
func split(records map[string][]byte, n int) []map[string][]byte {
	pages := make([]map[string][]byte, n)
	for key, value := range records {
		hash := fnv.New32a()
		_, _ = hash.Write([]byte(key))
		i := hash.Sum32() % uint32(n)
		if pages[i] == nil {
			pages[i] = map[string][]byte{}
		}
		pages[i][key] = value
	}
	return pages
}

// fits reports whether a page is small enough for one variable.
func fits(text string, size, records int) bool {
	return records <= 1 || len(text) <= largestPage && size <= largestPlain
}

// createFirst creates the first page of a fleet, if it does not exist.
func (c *Coordinator) createFirst(ctx context.Context, fleet string) error {
	_, err := c.change(ctx, c.page(fleet, 0, 1), &api.Variable{}, func(found *api.Variable) (api.VariableItems, error) {
		if found != nil {
			return nil, nil
		}
		return api.VariableItems{claimItem: claimOf(0, ""), recordsItem: ""}, nil
	})
	return err
}

// claimOf returns the claim of a term: its number, and a text that no other claim contains.
func claimOf(number uint64, nonce string) string {
	return strconv.FormatUint(number, 10) + " " + nonce
}

func numberOf(page *api.Variable) uint64 {
	text, _, _ := strings.Cut(page.Items[claimItem], " ")
	number, _ := strconv.ParseUint(text, 10, 64)
	return number
}

// allPages calls do for n pages, with at most maxParallel concurrent calls, and returns the
// results.
func (c *Coordinator) allPages(n int, do func(i int) (*api.Variable, error)) ([]*api.Variable, error) {
	pages := make([]*api.Variable, n)
	var all guard.Group
	all.SetLimit(maxParallel)
	for i := range n {
		all.Go(func() (err error) {
			pages[i], err = do(i)
			return err
		})
	}
	return pages, all.Wait()
}

// missing returns the error for a page that was removed.
func (t *term) missing(path string) error {
	return fmt.Errorf("variable %q with state of fleet %q is missing in Nomad: restore it, or remove all variables below %q, and %q, to start with an empty state",
		path, t.name, path[:strings.LastIndexByte(path, '/')+1], t.s.c.fleet(t.name))
}

// claim claims all pages unless they are already claimed. The caller must hold writing.
func (t *term) claim(ctx context.Context) error {
	if err := t.check(); err != nil || t.pages != nil {
		return err
	}
	n, nonce := 0, rand.Text()
	record, err := t.changeOwned(ctx, func(r *fleetRecord) error {
		r.Claim = nonce // makes earlier writes to the record fail if they arrive later
		n = max(r.Pages, 1)
		return t.check()
	})
	if err != nil {
		return err
	}
	pages, err := t.s.c.allPages(n, func(i int) (*api.Variable, error) {
		return t.claimPage(ctx, t.s.c.page(t.name, i, n), record.ModifyIndex)
	})
	if err == nil {
		t.pages = pages
	}
	return err
}

// claimPage claims a page that must exist at the given index.
func (t *term) claimPage(ctx context.Context, path string, since uint64) (*api.Variable, error) {
	page, err := t.s.c.readSince(ctx, path, since)
	if err == nil && page == nil {
		err = t.missing(path)
	}
	if err != nil {
		return nil, err
	}
	return t.s.c.change(ctx, path, page, func(found *api.Variable) (api.VariableItems, error) {
		switch {
		case found == nil:
			return nil, t.missing(path)
		case found.Items[claimItem] == t.token:
			return nil, nil
		case numberOf(found) > t.number:
			return nil, t.lost()
		}
		return api.VariableItems{claimItem: t.token, recordsItem: found.Items[recordsItem]}, nil
	})
}

func each(pages []*api.Variable, keep func(key string, value []byte) error) error {
	for _, page := range pages {
		records, err := recordsOf(page)
		if err != nil {
			return err
		}
		for key, value := range records {
			if err := keep(key, value); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *term) Load(ctx context.Context, keep func(key string, value []byte) error) error {
	t.writing.Lock()
	defer t.writing.Unlock()
	if err := t.claim(ctx); err != nil {
		return err
	}
	return each(t.pages, keep)
}

// Load implements [cluster.Coordinator]. It does not read a consistent snapshot of all pages.
func (c *Coordinator) Load(ctx context.Context, fleet string, keep func(key string, value []byte) error) error {
	found, _, err := c.read(ctx, c.fleet(fleet))
	if err != nil || found == nil { // the fleet never had an owner
		return err
	}
	var record fleetRecord
	if err := valueOf(found, &record); err != nil {
		return err
	}
	if record.Term == 0 { // only configured
		return nil
	}
	n := max(record.Pages, 1)
	pages, err := c.allPages(n, func(i int) (*api.Variable, error) {
		page, err := c.readSince(ctx, c.page(fleet, i, n), found.ModifyIndex)
		if err == nil && page == nil {
			err = fmt.Errorf("variable %q with state of fleet %q is missing in Nomad", c.page(fleet, i, n), fleet)
		}
		return page, err
	})
	if err != nil {
		return err
	}
	return each(pages, keep)
}

// errFull is returned if a fleet needs more pages.
var errFull = errors.New("the page is full")

func (t *term) Write(ctx context.Context, values map[string][]byte) error {
	t.writing.Lock()
	defer t.writing.Unlock()
	if err := t.claim(ctx); err != nil {
		return err
	}
	if rejected := tooLarge(values); len(rejected) > 0 {
		return rejected
	}
	changes := split(values, len(t.pages))
	pages, err := t.s.c.allPages(len(changes), func(i int) (*api.Variable, error) {
		if changes[i] == nil {
			return nil, nil
		}
		return t.put(ctx, t.pages[i], changes[i])
	})
	for i, page := range pages {
		t.pages[i] = cmp.Or(page, t.pages[i])
	}
	if errors.Is(err, errFull) {
		return t.grow(ctx, values)
	}
	return err
}

// tooLarge returns an error for each value that is too large for a variable.
func tooLarge(values map[string][]byte) state.RejectedError {
	rejected := state.RejectedError{}
	for key, value := range values {
		if len(key)+len(value) <= largestRecord/2 {
			continue // base64 adds a third, and zstd at most a few bytes
		}
		if text, _ := textOf(map[string][]byte{key: value}); len(text) > largestRecord {
			rejected[key] = fmt.Errorf("it takes %d bytes in a Nomad variable, but the limit is %d", len(text), largestRecord)
		}
	}
	return rejected
}

// put changes records in a page. The error is errFull if the page would become too large.
func (t *term) put(ctx context.Context, page *api.Variable, changes map[string][]byte) (*api.Variable, error) {
	return t.s.c.change(ctx, page.Path, page, func(found *api.Variable) (api.VariableItems, error) {
		switch {
		case found == nil:
			return nil, t.missing(page.Path)
		case found.Items[claimItem] != t.token:
			return nil, t.lost()
		}
		records, err := recordsOf(found)
		if err != nil {
			return nil, err
		}
		apply(records, changes)
		text, size := textOf(records)
		if !fits(text, size, len(records)) {
			return nil, errFull
		}
		return api.VariableItems{claimItem: t.token, recordsItem: text}, nil
	})
}

// grow writes all records, including changes, to a larger number of pages. It then writes the
// number of pages to the fleet's record. It does not change or remove the old pages.
func (t *term) grow(ctx context.Context, changes map[string][]byte) error {
	all := map[string][]byte{}
	for _, page := range t.pages {
		records, err := recordsOf(page)
		if err != nil {
			return err
		}
		maps.Copy(all, records)
	}
	apply(all, changes)
	texts, err := t.textsOf(all)
	if err != nil {
		return err
	}
	n := len(texts)
	pages, err := t.s.c.allPages(n, func(i int) (*api.Variable, error) {
		return t.s.c.change(ctx, t.s.c.page(t.name, i, n), &api.Variable{}, func(*api.Variable) (api.VariableItems, error) {
			// The page may exist if an earlier attempt was interrupted.
			return api.VariableItems{claimItem: t.token, recordsItem: texts[i]}, t.check()
		})
	})
	if err != nil {
		return err
	}
	t.pages = nil // unknown until the write of the record succeeds
	if _, err := t.changeOwned(ctx, func(r *fleetRecord) error {
		r.Pages = n
		return t.check()
	}); err != nil {
		return err
	}
	t.pages = pages
	return nil
}

// textsOf doubles the number of pages until the records of each page fit, and returns the encoded
// pages.
func (t *term) textsOf(records map[string][]byte) ([]string, error) {
	for n := 2 * len(t.pages); n <= mostPages; n *= 2 {
		texts, all := make([]string, n), true
		for i, page := range split(records, n) {
			text, size := textOf(page)
			texts[i], all = text, all && fits(text, size, len(page))
			if !all {
				break
			}
		}
		if all {
			return texts, nil
		}
	}
	return nil, fmt.Errorf("the state of fleet %q takes more than %d Nomad variables", t.name, mostPages)
}
