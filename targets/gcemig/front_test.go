package gcemig

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/cloud/googlelogin"
	"github.com/hpad/hpad/test/gce/gcetest"
)

// front is the proxy for all tests. They share it because net/http reads the environment only
// once.
var front *gcetest.Front

func TestMain(m *testing.M) { os.Exit(runBehindFront(m)) }

func runBehindFront(m *testing.M) int {
	dir, err := os.MkdirTemp("", "hpad-front-")
	if err == nil {
		defer func() { _ = os.RemoveAll(dir) }()
		front, err = gcetest.StartFront(dir)
	}
	if err == nil {
		defer front.Close()
		err = errors.Join(os.Setenv("HTTPS_PROXY", front.URL), os.Setenv("SSL_CERT_FILE", front.CAFile))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// frontConfig returns a valid configuration for a fleet that derives the address of the API from
// the universe domain.
func frontConfig(t *testing.T, s *gcetest.Server, domain string) *Config {
	t.Helper()
	for _, name := range []string{"GOOGLE_CLOUD_UNIVERSE_DOMAIN", "CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE"} {
		t.Setenv(name, "")
	}
	front.Serve(t, domain, s)
	c := &Config{Project: s.Project, Login: googlelogin.Login{UniverseDomain: domain, CredentialsFile: s.UniverseFile(t, domain)}, Timeout: 5 * time.Second}
	c.SetDefaults()
	if want := "https://compute." + domain + "/compute/v1/"; c.Endpoint != want {
		t.Fatalf("endpoint = %q, want %q", c.Endpoint, want)
	}
	return c
}

// TestImpersonation checks that hpad impersonates a service account in Google's public cloud and in
// a sovereign cloud.
func TestImpersonation(t *testing.T) {
	for _, domain := range []string{googlelogin.DefaultUniverse, "apis.sovereign.example"} {
		t.Run(domain, func(t *testing.T) {
			s := gcetest.Start(t)
			s.Add(gcetest.Group{Zone: "us-east1-b", Name: "web", Size: 2})
			c := frontConfig(t, s, domain)
			own := openFleet(t, c, nil)
			if err := own.SetReplicas(t.Context(), ref(web), 3, read(t, own, web).Version, "test"); err != nil {
				t.Errorf("SetReplicas() without impersonation = %v, want ErrForbidden", err)
			}
			s.OnlyActing()
			if _, err := own.Snapshot(t.Context(), []targets.Ref{ref(web)}); !errors.Is(err, targets.ErrForbidden) {
				t.Errorf("Snapshot() without impersonation = %v, want ErrForbidden", err)
			}
			acting := *c
			acting.Impersonate = gcetest.Acting
			f := openFleet(t, &acting, nil)
			if err := f.SetReplicas(t.Context(), ref(web), 4, read(t, f, web).Version, "test"); err != nil {
				t.Errorf("SetReplicas() as %s = %v", gcetest.Acting, err)
			}
			if size := s.Size(t, web); size != 4 {
				t.Errorf("size = %d, want 4", size)
			}
			// A rejected token is dropped once.
			s.ExpireCredentials(true)
			s.ExpireCredentials(false)
			if _, err := f.Snapshot(t.Context(), []targets.Ref{ref(web)}); !errors.Is(err, targets.ErrForbidden) {
				t.Errorf("Snapshot() with an old token = %v, want ErrForbidden", err)
			}
			read(t, f, web)
		})
	}
}

// TestImpersonationForbidden checks that a missing permission for impersonation is an ErrForbidden
// that names the permission.
func TestImpersonationForbidden(t *testing.T) {
	s := gcetest.Start(t)
	s.Add(gcetest.Group{Zone: "us-east1-b", Name: "web", Size: 2})
	c := frontConfig(t, s, googlelogin.DefaultUniverse)
	c.Impersonate = "admin@shop-prod.iam.gserviceaccount.com"
	_, err := openFleet(t, c, nil).Snapshot(t.Context(), []targets.Ref{ref(web)})
	if !errors.Is(err, targets.ErrForbidden) || !strings.Contains(err.Error(), c.Impersonate) || !strings.Contains(err.Error(), "iam.serviceAccounts.getAccessToken") {
		t.Errorf("Snapshot() without the permission to impersonate = %v, want ErrForbidden with the account and the permission", err)
	}
}

// TestOtherUniverse checks that credentials of one cloud are not sent to another.
func TestOtherUniverse(t *testing.T) {
	s := gcetest.Start(t)
	s.Add(gcetest.Group{Zone: "us-east1-b", Name: "web", Size: 2})
	c := frontConfig(t, s, "apis.sovereign.example")
	c.CredentialsFile = s.CredentialsFile(t)
	_, err := openFleet(t, c, nil).Snapshot(t.Context(), []targets.Ref{ref(web)})
	if !errors.Is(err, targets.ErrForbidden) || !strings.Contains(err.Error(), "universe") {
		t.Errorf("Snapshot() with credentials of another cloud = %v, want ErrForbidden with the cause", err)
	}
}
