//go:build !noaws

package config

import "github.com/hpad/hpad/targets/awsasg"

var awsasgKind = optionalKind{name: "awsasg", tag: "noaws", kind: &fleetKind{
	config:  func() kindConfig { return &awsasg.Config{} },
	target:  func() kindTarget { return &awsasg.Target{} },
	guarded: true,
	removes: true,
	unique:  true,
}}
