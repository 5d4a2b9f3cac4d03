// Package docker tests fleets of the kinds "compose" and "swarm", and the daemon with them, on
// real Docker engines from test/install/docker.sh and dockerd.sh, with Compose from
// test/install/compose.sh, and the ssh server from test/install/ssh.sh.
package docker
