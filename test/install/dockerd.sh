#!/usr/bin/env bash
# dockerd.sh builds the Docker engine in the version of hpad's client library in
# ~/.cache/hpad-test/dockerd-VERSION, unless it exists, and prints that directory. Its nested
# module keeps the engine's dependencies out of hpad's.
set -euo pipefail
cd "$(dirname "$0")/../docker/dockerd"
. ../../tools/building.sh

module=github.com/docker/docker
version=$(sed -n "s|.*$module \(v[^ ]*\)+incompatible.*|\1|p" go.mod)
wanted=$(sed -n "s|.*$module \(v[^ ]*\)+incompatible.*|\1|p" ../../../go.mod)
if [ "$version" != "$wanted" ]; then
	echo "dockerd.sh: hpad uses Docker's client $wanted and test/docker/dockerd/go.mod $version: make them the same" >&2
	exit 1
fi

directory=${HPAD_TEST_CACHE:-$HOME/.cache/hpad-test}/dockerd-$version
if [ ! -x "$directory/dockerd" ]; then
	mkdir -p "$(dirname "$directory")"
	work=$(mktemp -d "$directory.XXXXXX")
	trap 'rm -rf "$work"' EXIT
	CGO_ENABLED=0 engine go build -mod=readonly -tags "netgo osusergo no_btrfs exclude_graphdriver_btrfs" \
		-ldflags "-s -w -X $module/dockerversion.Version=${version#v}" -o "$work/" "$module/cmd/dockerd" "$module/cmd/docker-proxy"
	chmod 755 "$work"
	rm -rf "$directory"
	mv -T "$work" "$directory"
fi
echo "$directory"
