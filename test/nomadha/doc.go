// Package nomadha tests clusters of hpads whose store is Nomad's variables, on real agents.
package nomadha
