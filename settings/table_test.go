package settings_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hpad/hpad/settings"
)

type inner struct {
	Words string `toml:"words" default:"one" values:"one two three"`
}

type sample struct {
	Count    int           `toml:"count" default:"5" min:"1" max:"9"`
	Share    float64       `toml:"share" default:"0.5" above:"0" must:"more than 0"`
	Span     time.Duration `toml:"span" default:"90s" min:"1s" whole:"1s"`
	Optional *int32        `toml:"optional" min:"3"`
	Flag     bool          `toml:"flag" default:"true"`
	Inner    inner         `toml:"inner"`
	Array    []inner       `toml:"array"`
	None     *inner        `toml:"none"`
}

func TestSetDefaults(t *testing.T) {
	got := sample{Count: 2, Array: []inner{{}, {Words: "two"}}}
	settings.SetDefaults(&got)
	want := sample{Count: 2, Share: 0.5, Span: 90 * time.Second, Flag: true, Inner: inner{"one"}, Array: []inner{{"one"}, {"two"}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("SetDefaults (-want +got):\n%s", diff)
	}
	if mistakes := settings.Validate(&got); mistakes != nil {
		t.Errorf("Validate() of the defaults = %v, want no errors", mistakes)
	}
}

func TestValidate(t *testing.T) {
	got := settings.Validate(&sample{Count: 10, Span: 1500 * time.Millisecond, Optional: new(int32(2)), Inner: inner{"four"}, Array: []inner{{}, {"six"}}})
	want := []settings.FieldError{
		{Field: "count", Value: "10", Detail: "must be from 1 to 9"},
		{Field: "share", Value: "0", Detail: "must be more than 0"},
		{Field: "span", Value: `"1.5s"`, Detail: settings.WholeSeconds},
		{Field: "optional", Value: "2", Detail: "must be at least 3"},
		{Field: "inner.words", Value: `"four"`, Detail: `must be "one", "two" or "three"`},
		{Field: "array[1].words", Value: `"six"`, Detail: `must be "one", "two" or "three"`},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Validate (-want +got):\n%s", diff)
	}
}
