#!/usr/bin/env bash
# promserver.sh builds the Prometheus server and promtool in the version that the embedded
# source uses, in ~/.cache/hpad-test/prometheus-VERSION, unless they exist, and prints the
# path of the server. Its nested module keeps their dependencies out of hpad's.
set -euo pipefail
cd "$(dirname "$0")/../embedded/promserver"
. ../../tools/building.sh

module=github.com/prometheus/prometheus
version=$(sed -n "s|.*$module \(v[^ ]*\).*|\1|p" go.mod)
wanted=$(sed -n "s|.*$module \(v[^ ]*\).*|\1|p" ../../../go.mod)
if [ "$version" != "$wanted" ]; then
	echo "promserver.sh: hpad uses Prometheus $wanted and test/embedded/promserver/go.mod $version: make them the same" >&2
	exit 1
fi

directory=${HPAD_TEST_CACHE:-$HOME/.cache/hpad-test}/prometheus-$version
if [ ! -x "$directory/prometheus" ] || [ ! -x "$directory/promtool" ]; then
	mkdir -p "$directory"
	built=$(mktemp -d "$directory/building.XXXXXX")
	trap 'rm -rf "$built"' EXIT
	# Include only file-based service discovery, because the others are most of the server's size.
	CGO_ENABLED=0 engine go build -mod=readonly -tags remove_all_sd -ldflags '-s -w' -o "$built/" "$module/cmd/prometheus" "$module/cmd/promtool"
	mv "$built"/* "$directory/"
fi
echo "$directory/prometheus"
