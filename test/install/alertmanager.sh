#!/usr/bin/env bash
# alertmanager.sh provides alertmanager: from PATH, or Debian's in ~/.cache/hpad-test/bin.
# It needs root to copy the templates to their fixed directory.
set -euo pipefail
cd "$(dirname "$0")"

bin=${HPAD_TEST_CACHE:-$HOME/.cache/hpad-test}/bin
PATH=$PATH:$bin
templates=/usr/share/prometheus/alertmanager
if command -v alertmanager >/dev/null && [ -e "$templates/default.tmpl" ]; then
	exit
fi

directory=$(../tools/debian.sh prometheus-alertmanager)
mkdir -p "$bin"
ln -sf "$directory/usr/bin/prometheus-alertmanager" "$bin/alertmanager"
if [ ! -e "$templates/default.tmpl" ]; then
	mkdir -p "$templates"
	cp "$directory$templates/"*.tmpl "$templates/"
fi
alertmanager --version 2>&1 | head -n 1
