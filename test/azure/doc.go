// Package azure tests hpad against the fake Azure of package azuretest.
package azure
