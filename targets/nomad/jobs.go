package nomad

// stamp is the indexes of a job that change when something happens to it. Stamps are
// compared for equality only: a cluster that was restored from a backup goes back.
type stamp struct {
	// created, modified and specified are the indexes of the job, the last one of its
	// specification; summary is the index of the numbers of its allocations by
	// state.
	created, modified, specified, summary uint64
}

// jobStub is a job in a list.
type jobStub struct {
	ID, Namespace, Status                    string
	Stop                                     bool
	CreateIndex, ModifyIndex, JobModifyIndex uint64
	JobSummary                               struct {
		ModifyIndex uint64
		Summary     map[string]groupSummary
	}
}

// groupSummary is the numbers of allocations of a task group by state.
type groupSummary struct{ Queued, Complete int32 }

func (j *jobStub) stamp() stamp {
	return stamp{created: j.CreateIndex, modified: j.ModifyIndex, specified: j.JobModifyIndex, summary: j.JobSummary.ModifyIndex}
}

// dead reports whether nothing of the job runs or is about to.
func (j *jobStub) dead() bool { return j.Status == "dead" }

// complete reports whether the job has complete allocations, which may be of an older
// version.
func (j *jobStub) complete() bool {
	for _, group := range j.JobSummary.Summary {
		if group.Complete > 0 {
			return true
		}
	}
	return false
}

// waiting returns the number of allocations of a group that wait for a place.
func (j *jobStub) waiting(group string) int {
	if j.Stop {
		return 0
	}
	return int(j.JobSummary.Summary[group].Queued)
}

// deploymentStub is a deployment in a list.
type deploymentStub struct {
	ID, JobID, Status, StatusDescription string
	JobCreateIndex                       uint64
}
