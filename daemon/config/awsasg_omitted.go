//go:build noaws

package config

var awsasgKind = optionalKind{name: "awsasg", tag: "noaws"}
