package nomad

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

// TestRelisting lists jobs again and again, of which some change, come and go, every third
// is in use, and some lists are cut off. Each job is found as in a list that is read for
// the first time, and one that did not change is not decoded.
func TestRelisting(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	type job struct{ id, index int }
	jobs := make([]job, 0, 1000)
	for id := range 500 {
		jobs = append(jobs, job{2 * id, 0})
	}
	var targets []rosterTarget
	for id := range 1000 {
		if id%3 == 0 {
			targets = append(targets, rosterTarget{Target: Target{Job: fmt.Sprintf("job-%04d", id), Group: "app"}})
		}
	}
	kept := newRoster(scope{}, newBook(scope{}), targets)
	type found struct {
		listedJob
		stub jobStub
	}
	decoded := 0
	list := func(r *roster, text string) (all []found, err error) {
		l := r.relist()
		err = readList(strings.NewReader(text), func(d *jsontext.Decoder) error {
			l.reader.id = nil
			job, stub, err := l.next(d)
			if err != nil {
				return err
			}
			if l.reader.id != nil {
				decoded++
			}
			if stub != nil {
				all = append(all, found{job, *stub})
			}
			return nil
		})
		l.end(err)
		return all, err
	}
	for round := range 100 {
		changed := 0
		change := func(n int) {
			for range n {
				jobs[random.IntN(len(jobs))].index++
			}
			changed = n
		}
		switch round % 5 {
		case 1:
			change(3)
		case 2: // many that are side by side, more than are looked over
			from := random.IntN(len(jobs) - ahead - 10)
			for i := range ahead + 10 {
				jobs[from+i].index++
			}
			changed = len(jobs)
		case 3:
			from := random.IntN(len(jobs) - 100)
			jobs = slices.Delete(jobs, from, from+1+random.IntN(90))
			changed = len(jobs)
		case 4:
			for range 100 {
				id := random.IntN(1000)
				at, there := slices.BinarySearchFunc(jobs, id, func(j job, id int) int { return j.id - id })
				if !there {
					jobs = slices.Insert(jobs, at, job{id, round})
				}
			}
			changed = 100
		}
		var texts []string
		for _, j := range jobs {
			texts = append(texts, fmt.Sprintf(`{"ID":"job-%04d","ModifyIndex":%d,"JobSummary":{"Summary":{"app":{"Running":%d,"Queued":%d}}}}`, j.id, j.index, j.id, j.index%3))
		}
		text := "[" + strings.Join(texts, ",") + "]"
		cut := round%7 == 6
		if cut {
			text = text[:random.IntN(len(text)-1)]
		}
		fresh := newRoster(scope{}, newBook(scope{}), targets)
		want, wantErr := list(fresh, text)
		decoded = 0
		got, err := list(kept, text)
		if (err == nil) != (wantErr == nil) || cut == (err == nil) {
			t.Fatalf("round %d: %v, and of the first list %v", round, err, wantErr)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(found{}, listedJob{}, jobStub{}, stamp{})); diff != "" {
			t.Fatalf("round %d (-first list +again):\n%s", round, diff)
		}
		if round > 0 && round%7 != 0 && decoded > changed {
			t.Errorf("round %d: %d jobs were decoded, want at most the %d that changed", round, decoded, changed)
		}
	}
}

// TestRelistingDamaged reads a list with a job that is none.
func TestRelistingDamaged(t *testing.T) {
	r := newRoster(scope{}, newBook(scope{}), nil)
	l := r.relist()
	err := readList(strings.NewReader(`[{"ID":"a"},[]]`), func(d *jsontext.Decoder) error {
		_, _, err := l.next(d)
		return err
	})
	if !errors.Is(err, errForeign) || len(l.now.jobs) != 1 {
		t.Errorf("%v after %d jobs, want an error after the first", err, len(l.now.jobs))
	}
}
