package etcd

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/hpad/hpad/test/etcd/etcdtest"
	"github.com/hpad/hpad/test/internal/members"
	"github.com/hpad/hpad/test/internal/parallel"
	"github.com/hpad/hpad/test/internal/program"
)

func TestMain(m *testing.M) {
	code := parallel.Run(m, len(members.Faults)) // the tests wait most of the time; twice as many overload a slow host
	program.Clean()
	os.Exit(code)
}

func over(t *testing.T, store *etcdtest.Cluster, options members.Options) members.Options {
	t.Helper()
	options.Servers = store.Endpoints
	login := func(string) string { return "" }
	if secure := store.Secure; secure != nil {
		options.Authority = secure.Authority
		login = func(name string) string {
			cert, key := secure.Authority.Issue(t, name)
			return fmt.Sprintf(", username = %q, password_file = %q, tls = { ca_file = %q, cert_file = %q, key_file = %q }",
				secure.Username, secure.PasswordFile, secure.Authority.File, cert, key)
		}
	}
	options.Store = func(name string, servers []string) string {
		return fmt.Sprintf("etcd = { endpoints = [%s]%s }", `"`+strings.Join(servers, `", "`)+`"`, login(name))
	}
	return options
}

func open(t *testing.T, store *etcdtest.Cluster, options members.Options) *members.Cluster {
	t.Helper()
	return members.New(t, over(t, store, options))
}
