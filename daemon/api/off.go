package api

// What keeps hpad from scaling although nothing fails: somebody wanted it so, and
// may have forgotten.
const (
	// Disabled is the problem of an autoscaler that is off (policy.Status.Disabled).
	Disabled = "autoscaling is off: the target has 0 replicas, which hpad did not set; set 1 or more to switch it on"
	// DryRun is the problem of a daemon that writes no counts.
	DryRun = "dry run: no count is written"
)
