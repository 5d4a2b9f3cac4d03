// Package docker tests fleets of the kinds "compose" and "swarm", and the daemon
// over them, on real Docker engines, which test/install/docker.sh and dockerd.sh
// provide. Compose itself is the judge, which test/install/compose.sh builds. The ssh
// server that some engines are behind is from test/install/ssh.sh.
package docker
