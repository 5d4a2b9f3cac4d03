// Package azure tests hpad with the fake Azure of package azuretest.
package azure
