#!/usr/bin/env bash
# prometheus.sh provides prometheus and promtool: from PATH, or Debian's in
# ~/.cache/hpad-test/bin.
set -euo pipefail
cd "$(dirname "$0")"

bin=${HPAD_TEST_CACHE:-$HOME/.cache/hpad-test}/bin
PATH=$PATH:$bin
if command -v prometheus >/dev/null && command -v promtool >/dev/null; then
	exit
fi

directory=$(../tools/debian.sh prometheus)
mkdir -p "$bin"
ln -sf "$directory/usr/bin/prometheus" "$directory/usr/bin/promtool" "$bin/"
prometheus --version 2>&1 | head -n 1
