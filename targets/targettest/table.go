package targettest

import "testing"

// Kinds are the kinds of fleets that the contract is about: all that hpad comes
// with.
var Kinds = []string{"nomad", "compose", "swarm", "process", "systemd", "awsasg", "gcemig", "azurevmss"}

// Row is one situation of the contract.
type Row struct {
	Situation string
	// Cases are the suite's own about it.
	Cases []string
	// Without says why a kind cannot be in the situation, of those that cannot. All
	// others must pass every case.
	Without map[string]string
}

// Table is the contract: each kind in each situation.
var Table = []Row{
	{"read", []string{"reads all targets", "keeps instances between reads"}, nil},
	{"read, after somebody else's change", []string{"follows a foreign change"}, map[string]string{
		"process": "nobody else starts or stops its processes",
	}},
	{"read, readiness", []string{"follows readiness"}, map[string]string{
		"swarm": "a swarm calls a task running once it is healthy, and replaces it when it no longer is",
	}},
	{"up", []string{"scales up", "takes counts as absolute"}, nil},
	{"down", []string{"scales down", "stops victims"}, nil},
	{"no-op", []string{"leaves an equal count alone"}, nil},
	{"zero", []string{"scales to zero and back"}, nil},
	{"version lost", []string{"refuses a lost version"}, nil},
	{"a rival writes between read and write", []string{"meets a rival while scaling up", "meets a rival while scaling down"}, map[string]string{
		"process": "nobody else starts or stops its processes",
	}},
	{"held", []string{"refuses while held"}, map[string]string{
		"process": "nothing but the fleet itself acts on its processes",
	}},
	{"throttled", []string{"says that it is throttled"}, map[string]string{
		"process": "the kernel does not count calls",
	}},
	{"not found", []string{"reads an unknown target", "refuses an unknown target"}, nil},
	{"out of range", []string{"refuses out of range"}, map[string]string{
		"swarm":   "a service of a swarm may have any number of tasks",
		"systemd": "a template may have any number of instances",
	}},
	{"out of range, below zero", []string{"refuses a negative count"}, nil},
	{"restart in the middle", []string{"restarts after scaling up", "restarts after scaling down"}, nil},
	{"restart, readiness", []string{"keeps readiness across a restart"}, map[string]string{
		"process": "its processes end with it",
	}},
	{"partly done", []string{"says what it reached"}, map[string]string{
		"nomad":     "Nomad takes a count or refuses it",
		"swarm":     "a swarm takes a count or refuses it",
		"process":   "the fleet takes a count or refuses it; processes that do not start are tried again",
		"awsasg":    "AWS takes a count or refuses it",
		"gcemig":    "Compute Engine takes a size or refuses it",
		"azurevmss": "Azure takes a capacity or refuses it",
	}},
	{"platform gone", []string{"says that the platform is gone"}, map[string]string{
		"process": "the platform is the machine that hpad runs on",
	}},
	{"no answer", []string{"respects a deadline"}, map[string]string{
		"process": "the kernel answers",
	}},
	{"canceled", []string{"respects a canceled context"}, nil},
	{"resource use", []string{"samples", "samples only while asked"}, map[string]string{
		"awsasg":    "what machines use comes from node_exporter by way of Prometheus",
		"gcemig":    "what machines use comes from node_exporter by way of Prometheus",
		"azurevmss": "what machines use comes from node_exporter by way of Prometheus",
	}},
	{"concurrent use", []string{"is safe for concurrent use"}, nil},
}

// check holds a kind and what its platforms can be brought into against the table.
func (k Kind) check(t *testing.T, p *Platform) {
	t.Helper()
	had := map[string]bool{}
	for _, c := range cases {
		had[c.name] = c.needs == nil || c.needs(k, p)
	}
	for _, row := range Table {
		why, without := row.Without[k.Name]
		for _, name := range row.Cases {
			switch {
			case without && had[name]:
				t.Errorf("the contract's table says of kind %q and %q: %s; yet its platforms can be brought into %q", k.Name, row.Situation, why, name)
			case !without && !had[name]:
				t.Errorf("platforms of kind %q lack a hook for %q of %q: give them one, or say in the contract's table why there is none", k.Name, name, row.Situation)
			}
		}
	}
}
