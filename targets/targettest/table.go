package targettest

import (
	"maps"
	"slices"
	"testing"
)

// Row is one situation of the contract.
type Row struct {
	Situation string
	// Cases are the names of the suite's cases for the situation. A kind must pass all of them
	// unless it states why its fleets cannot be in the situation (targets.Kind.Without).
	Cases []string
}

// unreadyInstances is a situation of kinds that choose the instances to remove themselves.
const unreadyInstances = "down, unready instances"

// Table is the contract.
var Table = []Row{
	{"read", []string{"reads all targets", "keeps instances between reads"}},
	{"read, after somebody else's change", []string{"follows a foreign change"}},
	{"read, readiness", []string{"follows readiness"}},
	{"up", []string{"scales up", "takes counts as absolute"}},
	{"down", []string{"scales down"}},
	{unreadyInstances, []string{"takes unready instances first"}},
	{"down, victims that take a moment", []string{"stops victims"}},
	{"no-op", []string{"leaves an equal count alone"}},
	{"zero", []string{"scales to zero and back"}},
	{"version lost", []string{"refuses a lost version"}},
	{"a rival writes between read and write", []string{"meets a rival while scaling up", "meets a rival while scaling down"}},
	{"held", []string{"refuses while held"}},
	{"throttled", []string{"says that it is throttled"}},
	{"not found", []string{"reads an unknown target", "refuses an unknown target"}},
	{"out of range", []string{"refuses out of range"}},
	{"out of range, below zero", []string{"refuses a negative count"}},
	{"restart in the middle", []string{"restarts after scaling up", "restarts after scaling down"}},
	{"restart, readiness", []string{"keeps readiness across a restart"}},
	{"partly done", []string{"says what it reached"}},
	{"platform gone", []string{"says that the platform is gone"}},
	{"no answer", []string{"respects a deadline"}},
	{"canceled", []string{"respects a canceled context"}},
	{"resource use", []string{"samples", "samples only while asked"}},
	{"the lease of a shared fleet ends", []string{"changes nothing after its lease"}},
	{"concurrent use", []string{"is safe for concurrent use"}},
}

// check compares a kind, and the situations that its platforms can create, with the table.
func (k Kind) check(t *testing.T, p *Platform) {
	t.Helper()
	had := map[string]bool{}
	for _, c := range cases {
		had[c.name] = c.needs == nil || c.needs(k, p)
	}
	unknown := maps.Clone(k.Of.Without)
	for _, row := range Table {
		why, without := k.Of.Without[row.Situation]
		delete(unknown, row.Situation)
		for _, name := range row.Cases {
			switch {
			case without && had[name]:
				t.Errorf("kind %q says of %q: %s; yet its platforms can be brought into %q", k.Of.Name, row.Situation, why, name)
			case without && why == "":
				t.Errorf("kind %q does not say why its fleets cannot be in %q", k.Of.Name, row.Situation)
			case !without && !had[name]:
				t.Errorf("platforms of kind %q lack a hook for %q of %q: give them one, or say in the kind's Without why there is none", k.Of.Name, name, row.Situation)
			}
		}
	}
	for _, situation := range slices.Sorted(maps.Keys(unknown)) {
		t.Errorf("kind %q is without %q, which is no situation of the contract", k.Of.Name, situation)
	}
}
