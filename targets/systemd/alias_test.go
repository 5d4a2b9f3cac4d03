package systemd

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// unitFiles creates the unit files of a user's manager: empty files, or links to the path after
// "->".
func unitFiles(t *testing.T, links map[string]string) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", "")
	t.Setenv("XDG_DATA_HOME", "")
	t.Setenv("XDG_RUNTIME_DIR", filepath.Join(home, "run"))
	for name, link := range links {
		path := filepath.Join(home, name)
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		if err == nil && link == "" {
			err = os.WriteFile(path, nil, 0o600)
		} else if err == nil {
			err = os.Symlink(os.ExpandEnv(link), path)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestCanonical(t *testing.T) {
	const own, vendor = ".config/systemd/user/", ".local/share/systemd/user/"
	unitFiles(t, map[string]string{
		vendor + "worker@.service":      "",
		own + "job@.service":            "$HOME/" + vendor + "worker@.service",
		own + "relative@.service":       "../../../" + vendor + "worker@.service",
		own + "second@.service":         "job@.service",
		"run/systemd/user/run@.service": "$HOME/" + own + "second@.service",
		own + "job@7.service":           "worker@7.service",
		own + "enabled@7.service":       "$HOME/" + vendor + "worker@.service",
		own + "other@7.service":         "worker@8.service",
		own + "plain@7.service":         "$HOME/" + vendor + "plain.service",
		own + "linked@.service":         "/opt/app/worker@.service",
		own + "masked@.service":         "/dev/null",
		own + "worker@.service":         "$HOME/" + vendor + "worker@.service",
		vendor + "overridden@.service":  "worker@.service",
		own + "overridden@.service":     "",
		own + "one@.service":            "two@.service",
		own + "two@.service":            "one@.service",
	})
	c := &Config{Manager: "user"}
	for name, want := range map[string]string{
		"worker@.service": "worker@.service", "nobody@.service": "nobody@.service", "job@.service": "worker@.service",
		"relative@.service": "worker@.service", "second@.service": "worker@.service", "run@.service": "worker@.service",
		"job@7.service": "worker@7.service", "enabled@7.service": "worker@7.service", "other@7.service": "other@7.service",
		"plain@7.service": "plain@7.service", "linked@.service": "linked@.service", "masked@.service": "masked@.service",
		"overridden@.service": "overridden@.service", "one@.service": "one@.service",
	} {
		if got := c.canonical(name); got != want {
			t.Errorf("canonical(%q) = %q, want %q", name, got, want)
		}
	}
	target := &Target{Template: "second@.service"}
	if c.DefaultTarget(target); target.Name() != "worker@.service" {
		t.Errorf("target %q, want worker@.service", target.Name())
	}
	replicas := int32(3)
	c.Templates = map[string]Template{"job@.service": {Replicas: &replicas}}
	c.SetDefaults()
	if got := c.template("worker"); got.Replicas == nil || *got.Replicas != 3 {
		t.Errorf("template %+v, want the table of its alias", got)
	}
	c.Templates["second@.service"] = Template{}
	c.SetDefaults()
	if errs := c.Validate(); len(errs) != 1 || errs[0].Field != `templates."second@.service"` {
		t.Errorf("Validate() = %v, want an error for the second name of the template", errs)
	}
}

// TestAlias checks that a fleet scales the template of an alias, skips the index of an
// instance's alias, and rejects an alias that only the manager can resolve.
func TestAlias(t *testing.T) {
	const own = ".config/systemd/user/"
	unitFiles(t, map[string]string{own + "worker@.service": "", own + "job@.service": "worker@.service", own + "worker@2.service": "other@2.service"})
	run(t, []int{1}, func(r *fixture) {
		r.config.Manager = "user"
		r.open()
		job, hidden := targets.Ref{Fleet: "vm", Name: "job@.service"}, targets.Ref{Fleet: "vm", Name: "hidden@.service"}
		r.m.set(func() { r.m.unitFiles["hidden@.service"] = "alias" })
		readings, err := r.fleet.Snapshot(r.Context(), []targets.Ref{job, hidden})
		if err != nil {
			r.Fatal(err)
		}
		if got := readings[job]; got.Err != nil || len(got.Instances) != 1 || got.Instances[0].ID != "worker@1.service" || got.Instances[0].Phase != policy.PhaseRunning {
			r.Errorf("reading %+v, want that of worker@.service", got)
		}
		if err := readings[hidden].Err; !errors.Is(err, targets.ErrUnscalable) || targets.Reason(err) != TemplateAlias {
			r.Errorf("reading of an alias that only the manager knows has the error %v, want %s", err, TemplateAlias)
		}
		if err := r.fleet.SetReplicas(r.Context(), job, 2, "", "test"); err != nil {
			r.Fatal(err)
		}
		r.wantActive(1, 3)
	})
}
