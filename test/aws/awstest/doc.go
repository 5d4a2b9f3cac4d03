// Package awstest is a fake server for the part of EC2 Auto Scaling, EC2 and STS that fleets
// use, with boot times, quotas, throttling, errors, lost responses and concurrent changes
// under the control of a test. Its requests are compared with those recorded in the SDK.
package awstest
