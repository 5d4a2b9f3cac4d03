package cloud

import "github.com/hpad/hpad/targets"

// Options are the resources of a fleet besides its configuration.
type Options struct {
	// Store keeps records of instances across restarts; nil keeps them in memory only.
	Store targets.Store
	// Meter counts the calls; nil does not count them.
	Meter targets.Meter
	// Accounts limit the calls together with those of other fleets of the same account;
	// nil limits them alone.
	Accounts *Accounts
}

// OptionsOf returns the options of a fleet that the daemon makes.
func OptionsOf(env targets.Env) Options {
	return Options{Store: env.Store, Meter: env.Meter, Accounts: targets.Shared[Accounts](env.Process)}
}
