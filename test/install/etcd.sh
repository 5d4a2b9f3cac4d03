#!/usr/bin/env bash
# etcd.sh makes etcd available to the tests of clusters: that of the PATH or Debian's. The
# tests start servers of their own; Debian's unit is left alone.
set -euo pipefail
cd "$(dirname "$0")"

command -v etcd >/dev/null || ../tools/packages.sh etcd-server
etcd --version
