package nomad

import (
	"testing"
	"time"
)

func TestForget(t *testing.T) {
	began := time.Now()
	tests := []struct {
		name  string
		parts []string
		found int
		read  time.Time
		want  bool
	}{
		{"all are there", []string{"0a", "0b"}, 2, began.Add(-time.Minute), true},
		{"one is gone", []string{"0a", "0b"}, 1, began.Add(-time.Minute), false},
		{"all are gone", []string{"0a", "0b"}, 0, began.Add(-time.Minute), false},
		{"one is in a part that was not read", []string{"0b", "ff"}, 1, began.Add(-time.Minute), true},
		{"none is in a part that was read", []string{"ff"}, 0, began.Add(-time.Minute), true},
		{"the whole list has all", []string{""}, 2, began.Add(-time.Minute), true},
		{"the whole list has one", []string{""}, 1, began.Add(-time.Minute), false},
		{"no part was read", nil, 0, began.Add(-time.Minute), true},
		{"read since", []string{"0a", "0b"}, 0, began.Add(time.Second), true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b, key := newBook(scope{}), groupKey{job: "shop", group: "app"}
			known := &knownGroup{read: tt.read, marks: []mark{{id: "0a11"}, {id: "0b22"}}}
			b.enter(key, known, began)
			l := &look{book: b, began: began, parts: map[string]bool{}, same: map[*knownGroup]int{known: tt.found}}
			for _, part := range tt.parts {
				l.parts[part] = true
			}
			l.forget()
			if got := b.entryLocked(key).knownGroup != nil; got != tt.want {
				t.Errorf("the group is known: %t, want %t", got, tt.want)
			}
		})
	}
}
