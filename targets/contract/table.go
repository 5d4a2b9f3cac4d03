package contract

import (
	"maps"
	"slices"
)

// Row is one situation of the contract.
type Row struct {
	Situation string
	// Cases lists the suite's cases for the situation. A kind must pass all of them unless
	// targets.Kind.Without states why the situation cannot occur.
	Cases []string
}

// unreadyInstances is a situation that applies to kinds that choose the instances to remove.
const unreadyInstances = "down, unready instances"

// namedInstances is a situation that applies to kinds whose Removes is set.
const namedInstances = "down, named instances"

// Table lists the situations of the contract with the cases that test them.
var Table = []Row{
	{"read", []string{"reads all targets", "keeps instances between reads"}},
	{"read, after an external change", []string{"detects an external change"}},
	{"read, readiness", []string{"follows readiness"}},
	{"up", []string{"scales up", "treats counts as absolute"}},
	{"down", []string{"scales down"}},
	{unreadyInstances, []string{"removes unready instances first"}},
	{namedInstances, []string{"removes instances by name"}},
	{"down, slow victims", []string{"stops victims"}},
	{"no-op", []string{"does not write an unchanged count"}},
	{"zero", []string{"scales to zero and back"}},
	{"version lost", []string{"rejects an outdated version"}},
	{"an external write between read and write", []string{"detects an external write while scaling up", "detects an external write while scaling down"}},
	{"held", []string{"rejects writes during a hold"}},
	{"throttled", []string{"reports throttling"}},
	{"not found", []string{"reads an unknown target", "rejects an unknown target"}},
	{"out of range", []string{"rejects a count out of range"}},
	{"out of range, below zero", []string{"rejects a negative count"}},
	{"restart in the middle", []string{"restarts after scaling up", "restarts after scaling down"}},
	{"restart, readiness", []string{"keeps readiness across a restart"}},
	{"partial write", []string{"reports a partial write"}},
	{"platform unreachable", []string{"reports an unreachable platform"}},
	{"no response", []string{"respects a deadline"}},
	{"canceled", []string{"respects a canceled context"}},
	{"resource use", []string{"samples", "samples only on demand"}},
	{"the lease of a shared fleet ends", []string{"changes nothing after its lease"}},
	{"concurrent use", []string{"is safe for concurrent use"}},
}

// Check compares a kind, and the situations that its platforms can create, with the table.
func (k Kind[T]) Check(t T, p *Platform[T]) {
	t.Helper()
	had := map[string]bool{}
	for _, c := range Cases[T]() {
		had[c.Name] = c.Possible(k, p)
	}
	unknown := maps.Clone(k.Of.Without)
	for _, row := range Table {
		why, without := k.Of.Without[row.Situation]
		delete(unknown, row.Situation)
		for _, name := range row.Cases {
			switch {
			case row.Situation == namedInstances && !k.Removes:
			case without && had[name]:
				t.Errorf("kind %q excludes %q: %s; but its platforms support the case %q", k.Of.Name, row.Situation, why, name)
			case without && why == "":
				t.Errorf("kind %q gives no reason for excluding %q", k.Of.Name, row.Situation)
			case !without && !had[name]:
				t.Errorf("platforms of kind %q lack a hook for %q of %q: add the hook, or give the reason in the kind's Without", k.Of.Name, name, row.Situation)
			}
		}
	}
	for _, situation := range slices.Sorted(maps.Keys(unknown)) {
		t.Errorf("kind %q excludes %q, which is not a situation of the contract", k.Of.Name, situation)
	}
}
