// Package contract checks that every built-in fleet kind is tested against targettest.Table.
package contract
