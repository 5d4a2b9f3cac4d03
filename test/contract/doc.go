// Package contract holds the kinds of fleets that hpad comes with against the table
// of the contract, which is targettest.Table.
package contract
