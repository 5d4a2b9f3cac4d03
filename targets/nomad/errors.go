package nomad

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/hashicorp/nomad/api"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// The reasons of holds, and of errors of targets that cannot be read or scaled.
const (
	// DeploymentActive: Nomad refuses to scale a job while it is deployed.
	DeploymentActive = "DeploymentActive"
	// JobStopped: a stopped job's count has no effect.
	JobStopped = "JobStopped"
	// JobDead: all allocations of a job ended, and Nomad starts no others.
	JobDead = "JobDead"
	// AllocationsComplete: a batch job has finished work, which Nomad would run again.
	AllocationsComplete = "AllocationsComplete"
	// RegistrationDisabled: the scheduler's configuration lets only management
	// tokens change jobs.
	RegistrationDisabled = "JobRegistrationDisabled"
	// JobNotFound: there is no such job, or it was purged.
	JobNotFound = "JobNotFound"
	// GroupNotFound: the job has no group of that name.
	GroupNotFound = "GroupNotFound"
	// DuplicateTarget: the group is a target without the name of its region too.
	DuplicateTarget = "DuplicateTarget"
	// SystemJob and SysBatchJob: the job runs on every node, and has no count.
	SystemJob   = "SystemJob"
	SysBatchJob = "SysBatchJob"
	// PeriodicJob and ParameterizedJob: what runs are the jobs that it launches.
	PeriodicJob      = "PeriodicJob"
	ParameterizedJob = "ParameterizedJob"
)

// reasoned gives an error a condition reason.
func reasoned(reason string, err error) error { return &targets.ReasonError{Reason: reason, Err: err} }

// jobError is readError for the reading of one job.
func jobError(err error) error {
	err = readError(err)
	if errors.Is(err, targets.ErrTargetNotFound) {
		return reasoned(JobNotFound, err)
	}
	return err
}

// What Nomad's errors are recognized by.
const (
	sayingConflict      = "Enforcing job modify index"
	sayingDeployment    = "job scaling blocked due to active deployment"
	sayingScalingBounds = "scaling policy m"
	sayingJobMaxCount   = "configured job_max_count"
	sayingNoGroup       = "specified for scaling does not exist in job"
	sayingSystem        = `jobs of type "system"`
	sayingDisabled      = "are disabled by the scheduler configuration"
	sayingNegative      = "scaling action count can't be negative"
	sayingNoLeader      = "No cluster leader"
	sayingNoRegion      = "No path to region"
)

// answerOf returns the status and text of an error of the server; the status is 0
// for another error.
func answerOf(err error) (status int, body string) {
	var answer api.UnexpectedResponseError
	if !errors.As(err, &answer) {
		return 0, ""
	}
	return answer.StatusCode(), answer.Body()
}

// answerError is a response of the server in one line.
type answerError struct {
	status int
	body   string
}

func (e *answerError) Error() string {
	body := strings.TrimSpace(e.body)
	if body == "" {
		body = http.StatusText(e.status)
	}
	const longest = 300
	if len(body) > longest {
		body = strings.ToValidUTF8(body[:longest], "") + " …"
	}
	return fmt.Sprintf("nomad answers %d: %s", e.status, strings.Join(strings.Fields(body), " "))
}

// readError puts an error of a read into one of the classes of package targets.
func readError(err error) error {
	if err == nil {
		return nil
	}
	if throttled, ok := errors.AsType[*targets.ThrottledError](err); ok {
		return throttled
	}
	status, body := answerOf(err)
	answer := &answerError{status: status, body: body}
	switch status {
	case 0, http.StatusOK:
		return fmt.Errorf("%w: %w", targets.ErrTransient, err)
	case http.StatusForbidden, http.StatusUnauthorized:
		return fmt.Errorf("%w: %w", targets.ErrForbidden, answer)
	case http.StatusNotFound:
		return fmt.Errorf("%w: %w", targets.ErrTargetNotFound, answer)
	case http.StatusTooManyRequests:
		return &targets.ThrottledError{Err: answer}
	}
	return fmt.Errorf("%w: %w", targets.ErrTransient, answer)
}

// writeError puts an error of a scaling request into one of the classes of package
// targets, or makes it an ErrUnknownOutcome.
func writeError(err error, g *group) error {
	if err == nil {
		return nil
	}
	if throttled, ok := errors.AsType[*targets.ThrottledError](err); ok {
		return throttled
	}
	status, body := answerOf(err)
	answer := &answerError{status: status, body: body}
	says := func(saying string) bool { return strings.Contains(body, saying) }
	switch {
	case status == 0 || status == http.StatusOK:
		return targets.Undelivered(err)
	case says(sayingConflict):
		return fmt.Errorf("%w: %w", targets.ErrConflict, answer)
	case says(sayingDeployment):
		return &targets.HeldError{Hold: policy.Hold{Reason: DeploymentActive, Message: "Nomad refuses to scale the job while a deployment is active"}}
	case says(sayingDisabled):
		return &targets.HeldError{Hold: policy.Hold{Reason: RegistrationDisabled, Message: "Nomad says: " + strings.TrimSpace(body)}}
	case says(sayingScalingBounds):
		return &targets.OutOfRangeError{Min: g.min, Max: g.max, Err: answer}
	case says(sayingJobMaxCount):
		return &targets.OutOfRangeError{Err: answer}
	case says(sayingNegative):
		return &targets.OutOfRangeError{Min: new(int32), Err: answer}
	case says(sayingNoGroup):
		return reasoned(GroupNotFound, fmt.Errorf("%w: %w", targets.ErrUnscalable, answer))
	case says(sayingSystem):
		return reasoned(SystemJob, fmt.Errorf("%w: %w", targets.ErrUnscalable, answer))
	case status == http.StatusForbidden || status == http.StatusUnauthorized:
		return fmt.Errorf("%w: %w; the token needs the capability scale-job", targets.ErrForbidden, answer)
	case status == http.StatusNotFound:
		return reasoned(JobNotFound, fmt.Errorf("%w: %w", targets.ErrTargetNotFound, answer))
	case status == http.StatusTooManyRequests:
		return &targets.ThrottledError{Err: answer}
	case status < http.StatusInternalServerError, says(sayingNoLeader), says(sayingNoRegion):
		return fmt.Errorf("%w: %w", targets.ErrTransient, answer)
	}
	// A server's own error, or a proxy's, may come after the change was accepted.
	return fmt.Errorf("%w: %w: %w", targets.ErrUnknownOutcome, targets.ErrTransient, answer)
}
