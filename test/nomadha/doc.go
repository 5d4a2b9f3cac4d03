// Package nomadha tests clusters that use Nomad variables as their store, on real agents.
package nomadha
