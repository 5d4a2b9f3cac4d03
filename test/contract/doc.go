// Package contract checks that every built-in kind of fleet is tested against targettest.Table, and every
// kind of source against package sourcetest.
package contract
