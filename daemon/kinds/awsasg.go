//go:build !noaws

package kinds

import "github.com/hpad/hpad/targets/awsasg"

func init() { Fleets[awsasg.Kind.Name] = awsasg.Kind }
