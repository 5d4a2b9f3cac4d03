package main

import (
	"crypto/tls"
	"fmt"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"
	promconfig "github.com/prometheus/common/config"
	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon"
	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/cluster"
	"github.com/hpad/hpad/daemon/cluster/etcd"
	"github.com/hpad/hpad/daemon/cluster/nomad"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/server"
	nomadfleet "github.com/hpad/hpad/targets/nomad"
)

// member is this hpad process as a member of a cluster.
type member struct {
	*cluster.Cluster
	coordinator cluster.Coordinator
	ha          *config.HA
}

// newMember returns the cluster member for a configuration that contains [ha].
func newMember(c *config.Config, options daemon.Options) (*member, error) {
	ha := c.HA
	coordinator, err := newCoordinator(ha)
	if err != nil {
		return nil, err
	}
	m := &member{coordinator: coordinator, ha: ha}
	m.Cluster = cluster.New(cluster.Options{
		Load:        options.Load,
		Coordinator: m.coordinator,
		Member:      cluster.Member{Name: ha.Name(), Address: ha.Address, Version: api.Build().Version},
		TTL:         ha.TTL,
		Daemon:      options,
		Dir:         fleetsDir(c),
		Peer: func(address string) *api.Client {
			return api.NewServerClient(api.Server{
				URL: address, CAFile: ha.Members.CAFile, CertFile: ha.Members.CertFile, KeyFile: ha.Members.KeyFile,
				Username: ha.Members.Username, PasswordFile: ha.Members.PasswordFile, RequireTLS: true,
			})
		},
	})
	return m, nil
}

// newCoordinator returns the store that all members share.
func newCoordinator(ha *config.HA) (cluster.Coordinator, error) {
	if n := ha.Nomad; ha.Store == "nomad" {
		c, err := nomad.New(nomad.Options{Cluster: ha.Cluster, Path: n.Path, Agent: nomadfleet.Config{
			Address: n.Address, Region: n.Region, Namespace: n.Namespace, TokenFile: n.TokenFile, TLS: n.TLS,
		}})
		if err != nil {
			return nil, fmt.Errorf("ha.nomad: %w", err)
		}
		return c, nil
	}
	e := ha.Etcd
	trust, err := promconfig.NewTLSConfig(&promconfig.TLSConfig{
		CAFile: e.TLS.CAFile, CertFile: e.TLS.CertFile, KeyFile: e.TLS.KeyFile,
		ServerName: e.TLS.ServerName, InsecureSkipVerify: e.TLS.InsecureSkipVerify, MinVersion: promconfig.TLSVersion(tls.VersionTLS12),
	})
	if err != nil {
		return nil, fmt.Errorf("ha.etcd.tls: %w", err)
	}
	return etcd.New(etcd.Options{
		Cluster: ha.Cluster, Endpoints: e.Endpoints, TLS: trust, Username: e.Username, PasswordFile: e.PasswordFile,
	}), nil
}

// served returns the options for the member's server.
func (m *member) served(gatherer prometheus.Gatherer, log *zap.Logger) server.Options {
	return server.Options{
		Daemon: m.ClusterAPI(), Alone: m.MemberAPI(), Gatherer: gatherer, Writers: m.Writers, Log: log,
		IsMember: func(user string) bool {
			view, _, _ := m.View()
			return isMember(m.ha.Members, view, user)
		},
	}
}

// isMember reports whether a user of the web config is a member of the cluster: the username in
// [ha.members] or, if members have certificates, the name of a member.
func isMember(c config.HAMembers, view cluster.View, user string) bool {
	_, named := view.Members[user]
	return user != "" && (user == c.Username || c.CertFile != "" && named)
}

// fleetsDir returns the directory that contains the directories of shared fleets.
func fleetsDir(c *config.Config) string { return filepath.Join(c.Daemon.StateDir, "fleets") }
