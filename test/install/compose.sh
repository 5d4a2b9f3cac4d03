#!/usr/bin/env bash
# compose.sh builds the Docker Compose plugin in
# ~/.cache/hpad-test/compose-VERSION/docker-compose, unless it exists, and prints that path.
# Its nested module keeps the plugin's dependencies out of hpad's.
set -euo pipefail
cd "$(dirname "$0")/../docker/composeplugin"
. ../../tools/building.sh

module=github.com/docker/compose/v2
version=$(sed -n "s|^require $module \(v[^ ]*\).*|\1|p" go.mod)

directory=${HPAD_TEST_CACHE:-$HOME/.cache/hpad-test}/compose-$version
if [ ! -x "$directory/docker-compose" ]; then
	mkdir -p "$directory"
	built=$(mktemp "$directory/building.XXXXXX")
	trap 'rm -f "$built"' EXIT
	CGO_ENABLED=0 engine go build -mod=readonly -ldflags "-s -w -X $module/internal.Version=$version" -o "$built" "$module/cmd"
	chmod 755 "$built"
	mv "$built" "$directory/docker-compose"
fi
echo "$directory/docker-compose"
