// Package awstest imitates, over HTTP and in memory, as much of EC2 Auto Scaling,
// EC2 and STS as fleets of Auto Scaling groups use: with machines that take time to
// boot, quotas, throttling, refusals, lost responses and other people's changes, as a
// test's script asks for.
//
// The wire format is that of AWS's Query protocol. The tests of package aws hold it
// against the SDK's own recorded requests, against the AWS command line, and against
// moto where that is installed.
package awstest
