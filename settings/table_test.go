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

// relations is a table whose keys depend on each other.
type relations struct {
	Type    string            `toml:"type" values:"file url"`
	Name    string            `toml:"name" required:"the name of the table"`
	Command []string          `toml:"command" required:"a program"`
	URL     string            `toml:"url" of:"url" excludes:"path" strict:"an HPA reads no URL"`
	Path    string            `toml:"path" requires:"owner"`
	Headers map[string]string `toml:"headers" of:"url" requires:"url owner"`
	Owner   string            `toml:"owner"`
	Inner   []pair            `toml:"inner"`
}

type pair struct {
	Limits map[string]int `toml:"limits" strict:"an HPA has no limits"`
	User   string         `toml:"user" requires:"password"`
	// Password and User exist only together.
	Password string `toml:"password" requires:"user"`
}

func TestSetDefaults(t *testing.T) {
	got := sample{Count: 2, Array: []inner{{}, {Words: "two"}}}
	settings.SetDefaults(&got)
	want := sample{Count: 2, Share: 0.5, Span: 90 * time.Second, Flag: true, Inner: inner{"one"}, Array: []inner{{"one"}, {"two"}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("SetDefaults (-want +got):\n%s", diff)
	}
	if errs := settings.Validate(&got); errs != nil {
		t.Errorf("Validate() of the defaults = %v, want no errors", errs)
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

func TestRelations(t *testing.T) {
	named := relations{Name: "n", Command: []string{"true"}}
	with := func(change func(*relations)) relations { r := named; change(&r); return r }
	for _, test := range []struct {
		name  string
		table relations
		want  []settings.FieldError
	}{
		{"nothing is set", relations{}, []settings.FieldError{
			{Field: "name", Detail: "is required: the name of the table"}, {Field: "command", Detail: "is required: a program"},
		}},
		{"an empty program", with(func(r *relations) { r.Command = []string{"", "-v"} }), []settings.FieldError{{Field: "command", Detail: "is required: a program"}}},
		{"another type", with(func(r *relations) { r.Type, r.URL, r.Headers = "file", "x", map[string]string{"a": "b"} }), []settings.FieldError{
			{Field: "url", Detail: "is not allowed for type file; it is for url"}, {Field: "headers", Detail: "is not allowed for type file; it is for url"},
		}},
		{"an unknown type", with(func(r *relations) { r.Type, r.URL = "ftp", "x" }), []settings.FieldError{{Field: "type", Value: `"ftp"`, Detail: `must be "file" or "url"`}}},
		{"one error for each missing key", with(func(r *relations) { r.Path, r.Headers = "/", map[string]string{"a": "b"} }), []settings.FieldError{
			{Field: "owner", Detail: "is required with path"}, {Field: "url", Detail: "is required with headers"},
		}},
		{"a combination", with(func(r *relations) { r.URL, r.Path, r.Owner = "x", "/", "me" }), []settings.FieldError{
			{Field: "url", Detail: "cannot be combined with path; keep one of them"},
		}},
		{"inner tables", with(func(r *relations) { r.Inner = []pair{{User: "u"}, {Password: "p"}, {User: "u", Password: "p"}} }), []settings.FieldError{
			{Field: "inner[0].password", Detail: "is required with user"}, {Field: "inner[1].user", Detail: "is required with password"},
		}},
	} {
		if diff := cmp.Diff(test.want, settings.Validate(&test.table)); diff != "" {
			t.Errorf("%s: Validate (-want +got):\n%s", test.name, diff)
		}
	}
	strict := with(func(r *relations) { r.URL, r.Inner = "x", []pair{{}, {Limits: map[string]int{}}} })
	want := []settings.FieldError{
		{Field: "url", Detail: `is not allowed with compat = "strict": an HPA reads no URL`},
		{Field: "inner[1].limits", Detail: `is not allowed with compat = "strict": an HPA has no limits`},
	}
	if diff := cmp.Diff(want, settings.Deviations(&strict)); diff != "" {
		t.Errorf("Deviations (-want +got):\n%s", diff)
	}
}
