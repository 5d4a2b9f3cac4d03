#!/usr/bin/env bash
# conformance.sh [path] builds the HorizontalPodAutoscaler controller of Kubernetes, with the
# test in test/conformance/upstream as a part of its package, in
# ~/.cache/hpad-test/conformance-HASH/upstream.test, and prints that path. HASH covers all
# inputs of the build. With "path" it only prints the path. Its nested module keeps
# Kubernetes out of hpad's dependencies.
set -euo pipefail
cd "$(dirname "$0")/../conformance/upstream"
. ../../tools/building.sh

module=k8s.io/kubernetes
package=$module/pkg/controller/podautoscaler
hash=$(cat go.mod go.sum play_test.go ../sim/*.go | sha256sum | cut -c 1-16)
directory=${HPAD_TEST_CACHE:-$HOME/.cache/hpad-test}/conformance-$hash
if [ "${1:-}" != path ] && [ ! -x "$directory/upstream.test" ]; then
	mkdir -p "$directory"
	work=$(mktemp -d "$directory/building.XXXXXX")
	trap 'rm -rf "$work"' EXIT
	again go mod download "$module"
	# An overlay must not change the module cache, but may change a link to it.
	ln -s "$(go list -m -f '{{.Dir}}' "$module")" "$work/kubernetes"
	cp -R go.mod go.sum ../sim "$work"
	go mod edit -replace "$module=./kubernetes" "$work/go.mod"
	upstream=$work/kubernetes/pkg/controller/podautoscaler
	# The overlay removes upstream's own tests from the package and adds ours.
	{
		printf '{"Replace": {'
		for file in "$upstream"/*_test.go; do
			printf '\n  "%s": "",' "$file"
		done
		printf '\n  "%s": "%s"\n}}\n' "$upstream/hpad_play_test.go" "$PWD/play_test.go"
	} >"$work/overlay.json"
	(cd "$work" && CGO_ENABLED=0 engine go test -mod=mod -c -overlay overlay.json -ldflags '-s -w' -o upstream.test "$package")
	mv "$work/upstream.test" "$directory/upstream.test"
fi
echo "$directory/upstream.test"
