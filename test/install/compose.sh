#!/usr/bin/env bash
# compose.sh builds the Docker Compose plugin in
# ~/.cache/hpad-test/compose-VERSION/docker-compose, unless it exists, and prints that path.
# Its nested module keeps the plugin's dependencies out of hpad's. Without CI=true, it takes the
# plugin of Debian 13, because a build takes minutes.
set -euo pipefail
cd "$(dirname "$0")/../docker/composeplugin"
. ../../tools/building.sh

module=github.com/docker/compose/v2
version=$(sed -n "s|^require $module \(v[^ ]*\).*|\1|p" go.mod)

cache=${HPAD_TEST_CACHE:-$HOME/.cache/hpad-test}
directory=$cache/compose-$version
packaged() {
	local root
	root=$(../../tools/debian.sh docker-compose trixie) || return
	"$root/usr/libexec/docker/cli-plugins/docker-compose" version >&2 || return
	directory=$cache/compose-v${root##*_}
	mkdir -p "$directory"
	ln -sf "$root/usr/libexec/docker/cli-plugins/docker-compose" "$directory/"
}
if [ ! -x "$directory/docker-compose" ] && { [ "${CI:-}" = true ] || ! packaged; }; then
	mkdir -p "$directory"
	built=$(mktemp "$directory/building.XXXXXX")
	trap 'rm -f "$built"' EXIT
	CGO_ENABLED=0 engine go build -mod=readonly -ldflags "-s -w -X $module/internal.Version=$version" -o "$built" "$module/cmd"
	chmod 755 "$built"
	mv "$built" "$directory/docker-compose"
fi
echo "$directory/docker-compose"
