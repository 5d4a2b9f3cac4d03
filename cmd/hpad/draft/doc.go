// Package draft writes autoscalers as TOML that people go on editing: keys in the
// order of the documentation, aligned, with comments beside what they concern.
package draft
