#!/usr/bin/env bash
# compose.sh builds the Compose plugin of the Docker command line, by which the
# tests judge, into ~/.cache/hpad-test/compose-VERSION/docker-compose, and prints
# that path. A plugin built earlier is used again. It is a nested module, so that
# hpad itself does not depend on what only the plugin needs.
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
