package compose

import (
	"testing"
	"time"

	"github.com/hpad/hpad/settings"

	"github.com/google/go-cmp/cmp"

	"github.com/hpad/hpad/targets/docker"
)

func TestValidate(t *testing.T) {
	c := &Config{
		Config: docker.Config{Host: "http://127.0.0.1"},
		Services: map[string]Service{
			"web": {},
			"shop/web": {
				CopyPaths: []string{"/fine", "relative", "/not/../clean", "/"},
				PostStart: []Hook{{}, {Command: []string{"fine"}, WorkingDir: "relative"}},
				PreStop:   []Hook{{Command: []string{"fine"}, Timeout: -time.Second}},
			},
		},
	}
	c.SetDefaults()
	const form = `must be the absolute path of a file, such as "/app.conf"`
	want := []settings.FieldError{
		{Field: "host", Value: `"http://127.0.0.1"`, Detail: "must begin with tcp://; add a tls table to use TLS"},
		{Field: `services."shop/web".post_start[0].command`, Detail: `is required: the program and its arguments, such as ["/bin/drain", "-v"]`},
		{Field: `services."shop/web".pre_stop[0].timeout`, Value: `"-1s"`, Detail: "must be at least 0s"},
		{Field: `services."shop/web".copy_paths[1]`, Value: `"relative"`, Detail: form},
		{Field: `services."shop/web".copy_paths[2]`, Value: `"/not/../clean"`, Detail: form},
		{Field: `services."shop/web".copy_paths[3]`, Value: `"/"`, Detail: form},
		{Field: `services."shop/web".post_start[1].working_dir`, Value: `"relative"`, Detail: "must be an absolute path"},
		{Field: `services."web"`, Value: `"web"`, Detail: `must be "project/service"`},
	}
	if diff := cmp.Diff(want, c.Validate()); diff != "" {
		t.Errorf("Validate() (-want +got):\n%s", diff)
	}
}

func TestTarget(t *testing.T) {
	for _, test := range []struct {
		target Target
		name   string
		valid  bool
	}{
		{Target{Project: "shop", Service: "web"}, "shop/web", true},
		{Target{Project: "my_shop-2", Service: "Web.v1_x"}, "my_shop-2/Web.v1_x", true},
		{Target{Service: "web"}, "/web", false},
		{Target{Project: "shop"}, "shop/", false},
		{Target{Project: "Shop", Service: "web"}, "Shop/web", false},
		{Target{Project: "shop", Service: "a/b"}, "shop/a/b", false},
	} {
		if got := test.target.Validate(); (len(got) == 0) != test.valid {
			t.Errorf("%+v: Validate() = %v", test.target, got)
		}
		if got := test.target.Name(); got != test.name {
			t.Errorf("%+v: Name() = %q, want %q", test.target, got, test.name)
		}
		k, err := parseName(test.target.Name())
		if (err == nil) != test.valid || test.valid && k != (key{test.target.Project, test.target.Service}) {
			t.Errorf("parseName(%q) = %v, %v", test.name, k, err)
		}
	}
}
