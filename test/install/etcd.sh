#!/usr/bin/env bash
# etcd.sh provides etcd: from PATH, or Debian's in ~/.cache/hpad-test/bin. The tests start
# their own servers.
set -euo pipefail
cd "$(dirname "$0")"

bin=${HPAD_TEST_CACHE:-$HOME/.cache/hpad-test}/bin
PATH=$PATH:$bin
if ! command -v etcd >/dev/null; then
	directory=$(../tools/debian.sh etcd-server)
	mkdir -p "$bin"
	ln -sf "$directory/usr/bin/etcd" "$bin/"
fi
etcd --version
