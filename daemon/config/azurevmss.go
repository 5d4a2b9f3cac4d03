//go:build !noazure

package config

import "github.com/hpad/hpad/targets/azurevmss"

var azurevmssKind = optionalKind{name: "azurevmss", tag: "noazure", kind: &fleetKind{
	config:  func() kindConfig { return &azurevmss.Config{} },
	target:  func() kindTarget { return &azurevmss.Target{} },
	guarded: true,
	removes: true,
}}
