// Package awsasg is the fleet of EC2 Auto Scaling groups of one AWS account and
// region.
//
// A round describes a hundred groups a call, and looks up each instance once, when
// it first is in service, for its start time and addresses. What the platform
// forbids or reserves for itself becomes the reading's bounds, hold or notice.
//
// Auto Scaling compares no versions: a write reads its group just before, and is
// an ErrConflict where the desired capacity is another one than that of the reading.
package awsasg
