// Package docker tests compose and swarm fleets on real Docker engines, with the real Compose
// and ssh. test/install/docker.sh, dockerd.sh, compose.sh and ssh.sh install them.
package docker
