// Package nomadha tests clusters with Nomad variables on real agents.
package nomadha
