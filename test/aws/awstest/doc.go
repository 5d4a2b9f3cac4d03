// Package awstest is a fake server of EC2 Auto Scaling, EC2 and STS in memory, with the calls
// that fleets use. Tests control boot times, quotas, throttling, errors, lost responses and
// external changes.
//
// The wire format is AWS's Query protocol. Package aws compares it with the SDK's recorded
// requests, the AWS command line, and moto if it is installed.
package awstest
