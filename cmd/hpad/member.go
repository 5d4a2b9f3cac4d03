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
	"github.com/hpad/hpad/daemon/config"
)

// member is this hpad as a member of a cluster.
type member struct {
	*cluster.Cluster
	coordinator cluster.Coordinator
	users       []string
}

// newMember makes the member that a configuration with [ha] asks for.
func newMember(c *config.Config, made daemon.Options) (*member, error) {
	ha := c.HA
	trust, err := promconfig.NewTLSConfig(&promconfig.TLSConfig{
		CAFile: ha.Etcd.TLS.CAFile, CertFile: ha.Etcd.TLS.CertFile, KeyFile: ha.Etcd.TLS.KeyFile,
		ServerName: ha.Etcd.TLS.ServerName, InsecureSkipVerify: ha.Etcd.TLS.InsecureSkipVerify, MinVersion: promconfig.TLSVersion(tls.VersionTLS12),
	})
	if err != nil {
		return nil, fmt.Errorf("ha.etcd.tls: %w", err)
	}
	m := &member{coordinator: etcd.New(etcd.Options{
		Cluster: ha.Cluster, Endpoints: ha.Etcd.Endpoints, TLS: trust, Username: ha.Etcd.Username, PasswordFile: ha.Etcd.PasswordFile,
	})}
	if ha.Members.Username != "" {
		m.users = []string{ha.Members.Username}
	}
	m.Cluster = cluster.New(cluster.Options{
		Load:        made.Load,
		Coordinator: m.coordinator,
		Member:      cluster.Member{Name: ha.Name(), Address: ha.Address, Version: api.Build().Version},
		TTL:         ha.TTL,
		Daemon:      made,
		Dir:         filepath.Join(c.Daemon.StateDir, "fleets"),
		Peer: func(address string) *api.Client {
			return api.NewServerClient(api.Server{
				URL: address, CAFile: ha.Members.CAFile, CertFile: ha.Members.CertFile, KeyFile: ha.Members.KeyFile,
				Username: ha.Members.Username, PasswordFile: ha.Members.PasswordFile,
			})
		},
	})
	return m, nil
}

// served is what the member serves.
func (m *member) served(gatherer prometheus.Gatherer, log *zap.Logger) daemon.Served {
	return daemon.Served{
		Daemon: m.Whole(), Alone: m.Alone(), Members: m.users, Gatherer: gatherer, Writers: m.Writers, Log: log,
	}
}
