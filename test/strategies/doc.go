// Package strategies compares converted policies with the strategies of nomad-autoscaler. Its tests run
// the original strategies in a separate program, see the nested module in directory plugins.
package strategies
