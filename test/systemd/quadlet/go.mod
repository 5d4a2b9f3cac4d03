module github.com/hpad/hpad/test/systemd/quadlet

go 1.26

require github.com/containers/podman/v4 v4.4.0
