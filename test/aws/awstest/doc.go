// Package awstest is a fake server for the parts of EC2 Auto Scaling, EC2 and STS that hpad's
// fleets use. Tests control boot times, quotas, throttling, errors, lost responses and concurrent
// changes. The requests that it accepts are compared with those recorded in the SDK.
package awstest
