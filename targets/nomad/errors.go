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

// The reasons for holds, and for targets that cannot be read or scaled.
const (
	// DeploymentActive: Nomad rejects scaling during a deployment.
	DeploymentActive = "DeploymentActive"
	// JobStopped: a stopped job's count has no effect.
	JobStopped = "JobStopped"
	// jobDead: all of the job's allocations have ended.
	jobDead = "JobDead"
	// AllocationsComplete: a batch job has finished work, which Nomad would repeat.
	AllocationsComplete = "AllocationsComplete"
	// registrationDisabled: the scheduler configuration allows only management tokens to change
	// jobs.
	registrationDisabled = "JobRegistrationDisabled"
	// jobNotFound: the job does not exist, or was purged.
	jobNotFound = "JobNotFound"
	// groupNotFound: the job has no group of that name.
	groupNotFound = "GroupNotFound"
	// systemJob and sysBatchJob: the job runs on every node, so it has no count.
	systemJob   = "SystemJob"
	sysBatchJob = "SysBatchJob"
	// periodicJob: only the jobs that such a job launches have allocations.
	periodicJob = "PeriodicJob"
)

func reasoned(reason string, err error) error { return &targets.ReasonError{Reason: reason, Err: err} }

func jobError(err error) error {
	err = readError(err)
	if errors.Is(err, targets.ErrTargetNotFound) {
		return reasoned(jobNotFound, err)
	}
	return err
}

// The texts by which Nomad's errors are recognized.
const (
	textConflict        = "Enforcing job modify index"
	textDeployment      = "job scaling blocked due to active deployment"
	textScalingBounds   = "scaling policy m"
	textJobMaxCount     = "configured job_max_count"
	textNoGroup         = "specified for scaling does not exist in job"
	textDisabled        = "are disabled by the scheduler configuration"
	textNoLeader        = "No cluster leader"
	textNoRegion        = "No path to region"
	textNoParameterized = "parameterized job not found"
)

// responseOf returns the status and text of an error response; the status is 0 for any other
// error.
func responseOf(err error) (status int, body string) {
	var answer api.UnexpectedResponseError
	if !errors.As(err, &answer) {
		return 0, ""
	}
	return answer.StatusCode(), answer.Body()
}

type responseError struct {
	status int
	body   string
}

func (e *responseError) Error() string {
	body := strings.TrimSpace(e.body)
	if body == "" {
		body = http.StatusText(e.status)
	}
	const longest = 300
	if len(body) > longest {
		body = strings.ToValidUTF8(body[:longest], "") + " …"
	}
	return fmt.Sprintf("nomad returned %d: %s", e.status, strings.Join(strings.Fields(body), " "))
}

// readError converts the error of a read to an error class of package targets.
func readError(err error) error {
	if err == nil {
		return nil
	}
	if throttled, ok := errors.AsType[*targets.ThrottledError](err); ok {
		return throttled
	}
	status, body := responseOf(err)
	answer := &responseError{status: status, body: body}
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

// writeError converts the error of a scaling request to an error class of package targets.
func writeError(err error, g *group) error {
	if err == nil {
		return nil
	}
	if throttled, ok := errors.AsType[*targets.ThrottledError](err); ok {
		return throttled
	}
	status, body := responseOf(err)
	answer := &responseError{status: status, body: body}
	contains := func(saying string) bool { return strings.Contains(body, saying) }
	switch {
	case status == 0 || status == http.StatusOK:
		return targets.WithoutResponse(err)
	case contains(textConflict):
		return fmt.Errorf("%w: %w", targets.ErrConflict, answer)
	case contains(textDeployment):
		return &targets.HeldError{Hold: policy.Hold{Reason: DeploymentActive, Message: "Nomad rejects scaling while a deployment is active"}}
	case contains(textDisabled):
		return &targets.HeldError{Hold: policy.Hold{Reason: registrationDisabled, Message: "Nomad returned: " + strings.TrimSpace(body)}}
	case contains(textScalingBounds):
		return &targets.OutOfRangeError{Min: g.min, Max: g.max, Err: answer}
	case contains(textJobMaxCount):
		return &targets.OutOfRangeError{Err: answer}
	case contains(textNoGroup):
		return reasoned(groupNotFound, fmt.Errorf("%w: %w", targets.ErrUnscalable, answer))
	case status < http.StatusInternalServerError, contains(textNoLeader), contains(textNoRegion):
		err = jobError(err)
		if errors.Is(err, targets.ErrForbidden) {
			err = fmt.Errorf("%w; the token needs the capability scale-job", err)
		}
		return err
	}
	// Nomad may have accepted the change before the server or a proxy returned the error.
	return fmt.Errorf("%w: %w", targets.ErrUnknownOutcome, targets.WithClass(targets.ErrTransient, answer))
}
