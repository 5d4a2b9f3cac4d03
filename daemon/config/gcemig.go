//go:build !nogce

package config

import "github.com/hpad/hpad/targets/gcemig"

var gcemigKind = optionalKind{name: "gcemig", tag: "nogce", kind: &fleetKind{
	config:  func() kindConfig { return &gcemig.Config{} },
	target:  func() kindTarget { return &gcemig.Target{} },
	guarded: true,
	removes: true,
}}
