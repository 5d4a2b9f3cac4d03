// Package azuretest runs an Azure of scale sets for tests: Azure Resource Manager
// and Microsoft Entra ID behind one HTTPS server, driven by a script.
//
// What it says of scale sets and machines goes through the fake servers that Azure's
// SDK comes with, which know every path, parameter and property of the real service;
// the state behind them, the long-running operations and the refusals are this
// package's.
package azuretest
