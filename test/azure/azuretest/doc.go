// Package azuretest is a fake of Azure Resource Manager and Microsoft Entra ID behind one HTTPS
// server, controlled by tests. It uses the fake servers of Azure's SDK for paths, parameters and
// properties; this package has the state, the long-running operations and the errors.
package azuretest
