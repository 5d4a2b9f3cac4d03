// Package azuretest is a fake Azure Resource Manager and Microsoft Entra ID on one HTTPS server.
// The fake servers of Azure's SDK encode scale sets and machines. This package implements their
// state, long-running operations and errors.
package azuretest
