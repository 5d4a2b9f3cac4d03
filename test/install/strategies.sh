#!/usr/bin/env bash
# strategies.sh builds the program in test/strategies/plugins, which runs the strategies of
# nomad-autoscaler, in ~/.cache/hpad-test/strategies-HASH, unless it exists, and prints its path. HASH
# covers all inputs of the build. Its nested module keeps nomad-autoscaler out of hpad's dependencies.
set -euo pipefail
cd "$(dirname "$0")/../strategies/plugins"
. ../../tools/building.sh

hash=$(cat go.mod go.sum main.go | sha256sum | cut -c 1-16)
directory=${HPAD_TEST_CACHE:-$HOME/.cache/hpad-test}/strategies-$hash
if [ ! -x "$directory/plugins" ]; then
	mkdir -p "$directory"
	built=$(mktemp -d "$directory/building.XXXXXX")
	trap 'rm -rf "$built"' EXIT
	CGO_ENABLED=0 engine go build -mod=readonly -ldflags '-s -w' -o "$built/plugins" .
	mv "$built/plugins" "$directory/"
fi
echo "$directory/plugins"
