// Package config turns TOML into a typed, defaulted and validated
// configuration. All mistakes are reported together, each with its file, line,
// key, value and what is allowed.
package config
