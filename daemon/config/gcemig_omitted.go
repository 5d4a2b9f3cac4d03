//go:build nogce

package config

var gcemigKind = optionalKind{name: "gcemig", tag: "nogce"}
