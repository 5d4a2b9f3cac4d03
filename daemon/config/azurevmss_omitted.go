//go:build noazure

package config

var azurevmssKind = optionalKind{name: "azurevmss", tag: "noazure"}
