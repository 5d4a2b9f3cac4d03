package config

import (
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/settings/httpclient"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/targets"
)

// HA is the [ha] table: several hpad instances share the fleets that are not local to a host. All
// changes take effect at the next start.
type HA struct {
	// Store is the system that stores the members' common state: "etcd", or "nomad" for the
	// variables of a Nomad cluster.
	Store string `toml:"store" default:"etcd" values:"etcd nomad" must:"one of \"etcd\", \"nomad\""`
	// Cluster is the common name of all members; several clusters can use one store.
	Cluster string `toml:"cluster" default:"hpad"`
	// Member is the unique name of this member; empty means the host name.
	Member string `toml:"member"`
	// Address is the URL of this member's daemon.listen for other members, such as
	// "https://10.0.0.1:4720".
	Address string `toml:"address"`
	// TTL is the time without a heartbeat after which other members take over the fleets of a
	// member: 5s to 5m.
	TTL time.Duration `toml:"ttl" default:"15s" min:"5s" max:"5m" must:"from \"5s\" to \"5m\""`
	// Etcd is the connection to etcd.
	Etcd *Etcd `toml:"etcd"`
	// Nomad is the connection to Nomad, with store = "nomad".
	Nomad *Nomad `toml:"nomad"`
	// Members contains the credentials of this member for the API of other members, and the CAs
	// that it trusts.
	Members HAMembers `toml:"members"`
}

// HAMembers is the [ha.members] table.
type HAMembers struct {
	// Username and the password in PasswordFile are credentials in daemon.web_config of each
	// member; may be empty. Requests with this user name may act on behalf of another user.
	Username     string `toml:"username" requires:"password_file"`
	PasswordFile string `toml:"password_file" requires:"username"`
	// CAFile is the path of the CA certificates of the members, in PEM; empty means the system's
	// CAs.
	CAFile string `toml:"ca_file"`
	// CertFile and KeyFile are this member's own certificate; both or neither.
	CertFile string `toml:"cert_file" requires:"key_file"`
	KeyFile  string `toml:"key_file" requires:"cert_file"`
}

// Name returns the member's name.
func (h *HA) Name() string {
	if h.Member != "" {
		return h.Member
	}
	host, _ := os.Hostname() // an empty name is rejected
	return AdaptName(host)
}

// Etcd is the [ha.etcd] table.
type Etcd struct {
	// Endpoints are the addresses of the servers, such as "https://10.0.0.1:2379"; at least one.
	Endpoints []string `toml:"endpoints"`
	// Username and the password in PasswordFile are the credentials of hpad; empty if a certificate
	// or no authentication is used.
	Username     string `toml:"username"`
	PasswordFile string `toml:"password_file"`
	// TLS applies to https. Its files are read again after a change.
	TLS httpclient.TLS `toml:"tls"`
}

// Nomad is the [ha.nomad] table. Defaults come from the environment of the Nomad command line
// (NOMAD_ADDR and so on).
type Nomad struct {
	// Address is the URL of an agent's HTTP API, preferably on this host, such as
	// "https://127.0.0.1:4646"; empty means NOMAD_ADDR, or "http://127.0.0.1:4646".
	Address string `toml:"address"`
	// Region is where Nomad stores the variables; empty means NOMAD_REGION, or the region
	// of the agent.
	Region string `toml:"region"`
	// Namespace is where Nomad stores the variables; empty means NOMAD_NAMESPACE, or
	// "default".
	Namespace string `toml:"namespace"`
	// TokenFile is a file with an ACL token, read again for every call; empty means NOMAD_TOKEN, or
	// no token.
	TokenFile string `toml:"token_file"`
	// TLS applies to an https address. Its files are read again after a change. Defaults come from
	// the environment.
	TLS httpclient.TLS `toml:"tls"`
	// Path is the common prefix of all variables: at most 32 letters, digits, "-", "_" and "/".
	Path string `toml:"path" default:"hpad"`
}

// nomadPath matches [Nomad.Path]. Nomad reserves the prefix "nomad/".
var nomadPath = regexp.MustCompile(`^[a-zA-Z0-9_-]+(/[a-zA-Z0-9_-]+)*$`)

const longestNomadPath = 32

// readHA decodes and validates [ha]. It returns nil if the table is missing.
func (l *loader) readHA(d *Daemon) *HA {
	t := l.ha
	if t == nil {
		return nil
	}
	var ha HA
	settings.SetDefaults(&ha)
	if _, divided := t.raw["shard_size"]; divided {
		t.addWritten("shard_size", "is no longer supported, because a member owns whole fleets: to distribute the autoscalers of a Nomad cluster, define one fleet per namespace")
		delete(t.raw, "shard_size")
	}
	if !t.decode("", reflect.ValueOf(&ha).Elem(), t.raw) {
		return nil
	}
	t.checkTags("", &ha)
	for key, name := range map[string]string{"cluster": ha.Cluster, "member": ha.Name()} {
		if !validName(name) {
			t.add(key, strconv.Quote(name), nameRule)
		}
	}
	if d.Listen == "" {
		t.add("address", strconv.Quote(ha.Address), "has no effect if daemon.listen is empty: other members connect to this address")
	}
	if d.WebConfig == "" {
		t.warn("members", "without daemon.web_config, members cannot forward requests of users: set it, and the credentials of this member in [ha.members]")
	}
	t.checkServer("address", ha.Address, `must be the URL at which other members reach this one, such as "https://10.0.0.1:4720"`)
	if ha.Members.PasswordFile != "" && httpclient.Exposed(ha.Address) != "" {
		t.add("address", strconv.Quote(ha.Address), "must be an https:// or loopback address, because other members send the password of [ha.members] to it")
	}
	if ha.Store == "nomad" {
		t.checkNomad(&ha)
	} else {
		t.checkEtcd(&ha)
	}
	return &ha
}

// checkEtcd validates [ha.etcd].
func (t *table) checkEtcd(ha *HA) {
	if ha.Nomad != nil {
		t.addWritten("nomad", `has no effect if store is "etcd"`)
	}
	if ha.Etcd == nil || len(ha.Etcd.Endpoints) == 0 {
		t.addWritten("etcd.endpoints", `must have at least one server, such as ["https://10.0.0.1:2379"]`)
		return
	}
	for i, endpoint := range ha.Etcd.Endpoints {
		t.checkServer(element("etcd.endpoints", i), endpoint, `must be the address of an etcd server, such as "https://10.0.0.1:2379"`)
	}
	for _, mistake := range ha.Etcd.TLS.Validate() {
		t.add(under("etcd", mistake.Field), mistake.Value, mistake.Detail)
	}
}

// checkNomad applies defaults to [ha.nomad] and validates it.
func (t *table) checkNomad(ha *HA) {
	if ha.Etcd != nil {
		t.addWritten("etcd", `has no effect if store is "nomad"`)
	}
	if ha.Nomad == nil {
		ha.Nomad = &Nomad{}
	}
	n := ha.Nomad
	settings.SetDefaults(n)
	if n.Address != "" {
		t.checkServer("nomad.address", n.Address, `must be the address of a Nomad agent, such as "https://127.0.0.1:4646"`)
	}
	if n.Namespace == "*" {
		t.add("nomad.namespace", strconv.Quote(n.Namespace), "must be one namespace")
	}
	if !nomadPath.MatchString(n.Path) || len(n.Path) > longestNomadPath || n.Path == "nomad" || strings.HasPrefix(n.Path, "nomad/") {
		t.add("nomad.path", strconv.Quote(n.Path), `must consist of at most 32 letters, digits, "-", "_" and inner "/", and must not be "nomad" or begin with "nomad/"`)
	}
	for _, mistake := range n.TLS.Validate() {
		t.add(under("nomad", mistake.Field), mistake.Value, mistake.Detail)
	}
}

// checkServer records an error unless the text is a server address.
func (t *table) checkServer(key, text, form string) {
	server := httpclient.Address{Form: form, End: "must end with the port"}
	detail := server.Check(text)
	switch {
	case text == "":
		t.addWritten(key, form)
	case detail != "":
		t.add(key, httpclient.QuoteAddress(text), detail)
	}
}

// checkShared rejects shared fleets with metrics that only this host can read.
func (l *loader) checkShared(c *Config) {
	if c.HA == nil {
		return
	}
	gathers := func(source string) bool {
		_, is := c.Sources[source].Config.(sources.Evaluator)
		return is
	}
	const remedy = "its samples exist only on this host: use a server that all members can query"
	for _, name := range slices.Sorted(maps.Keys(c.Autoscalers)) {
		a := c.Autoscalers[name]
		if targets.Local(c.Fleets[a.Target.Fleet].Config) {
			continue
		}
		for i, input := range a.Inputs {
			if input.Source != "" && gathers(input.Source) {
				l.tables[autoscalersKey][name].add(element(metricsKey, i)+".source", strconv.Quote(input.Source), "cannot be used for a fleet that members share: "+remedy)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Sources)) {
		evaluator, ok := c.Sources[name].Config.(sources.Evaluator)
		if !ok {
			continue
		}
		for _, s := range evaluator.Scrapes() {
			if fleet, known := c.Fleets[s.Fleet]; known && !targets.Local(fleet.Config) {
				l.tables[sourcesKey][name].add(under(s.Field, "fleet"), strconv.Quote(s.Fleet), "is a fleet that members share: "+remedy)
			}
		}
	}
}

// Movable returns the sorted names of the fleets that members share and of the fleets that are
// local to this host.
func (c *Config) Movable() (shared, own []string) {
	for _, name := range slices.Sorted(maps.Keys(c.Fleets)) {
		if targets.Local(c.Fleets[name].Config) {
			own = append(own, name)
		} else {
			shared = append(shared, name)
		}
	}
	return shared, own
}
