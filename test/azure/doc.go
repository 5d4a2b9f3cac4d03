// Package azure holds tests of hpad's daemon and its azurevmss fleet over the Azure
// of package azuretest, with metrics from a real Prometheus.
package azure
