// Package config loads the TOML configuration: it decodes, defaults and validates it, and compares,
// redacts and documents it. All errors are reported together, each with file, line, key, value and
// the allowed values.
package config
