#!/usr/bin/env bash
# nomad.sh builds the Nomad agent in ~/.cache/hpad-test/nomad-VERSION/nomad, unless it
# exists, and prints that path. Its nested module keeps the agent's dependencies out of
# hpad's.
set -euo pipefail
cd "$(dirname "$0")/../nomad/agent"
. ../../tools/building.sh

module=github.com/hashicorp/nomad
version=$(sed -n "s|.*$module \(v[^ ]*\).*|\1|p" go.mod)

directory=${HPAD_TEST_CACHE:-$HOME/.cache/hpad-test}/nomad-$version
if [ ! -x "$directory/nomad" ]; then
	mkdir -p "$directory"
	built=$(mktemp "$directory/building.XXXXXX")
	trap 'rm -f "$built"' EXIT
	# Without the tag "release" the agent includes mock_driver.
	engine go build -mod=readonly -ldflags '-s -w' -o "$built" "$module"
	chmod 755 "$built"
	mv "$built" "$directory/nomad"
fi
echo "$directory/nomad"
