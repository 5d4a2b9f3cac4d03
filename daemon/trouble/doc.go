// Package trouble suppresses repeated reports of problems: each cause is reported once, not at
// every occurrence.
package trouble
