#!/usr/bin/env bash
# conformance.sh [path] [1.37|1.38] builds the HorizontalPodAutoscaler controller of one version of
# Kubernetes, by default of both, with the test in test/conformance/upstream as a part of its
# package, in ~/.cache/hpad-test/conformance-VERSION-HASH/upstream.test, and prints that path. HASH
# covers all inputs of the build. With "path" it only prints the path. Its nested module keeps
# Kubernetes out of hpad's dependencies.
#
# 1.38 is the source of 1.37.1 with unmodified files of the beta, because the beta needs a newer Go.
# Of horizontal.go, which depends on the rest of the beta, it takes the changed lines.
set -euo pipefail
cd "$(dirname "$0")/../conformance/upstream"
. ../../tools/building.sh

module=k8s.io/kubernetes
package=$module/pkg/controller/podautoscaler
beta=v1.38.0-beta.0
beta_sum=h1:WFbB3UeD/H3scT6yNJUpD3nkTFrcZkxluHqOEshQvgA=
beta_files="replica_calculator.go metrics/utilization.go"
patch=$PWD/horizontal-1.38.patch

# beta_zip prints the path of the downloaded module. The command fails on an older Go, but
# downloads and verifies the file before that.
beta_zip() {
	local answer
	answer=$(cd / && GOTOOLCHAIN=local go mod download -json "$module@$beta") || true
	grep -qF "\"Sum\": \"$beta_sum\"" <<<"$answer" || {
		echo "download $module@$beta: the checksum is not $beta_sum: $answer" >&2
		return 1
	}
	sed -n 's/.*"Zip": "\(.*\)".*/\1/p' <<<"$answer"
}

# overlay_beta DIRECTORY UPSTREAM puts the files of the beta into the directory and prints lines of
# an overlay of the upstream directory.
overlay_beta() {
	local zip file
	zip=$(again beta_zip)
	mkdir -p "$1/metrics"
	for file in $beta_files horizontal.go; do
		(cd ../../.. && go run ./test/tools/modulefile "$zip" "$module@$beta/pkg/controller/podautoscaler/$file") >"$1/$file"
	done
	for file in $beta_files; do
		printf '\n  "%s": "%s",' "$2/$file" "$1/$file"
	done
	# The beta must contain exactly the patched lines, and 1.37.1 the lines before.
	(
		cd "$1"
		export GIT_CEILING_DIRECTORIES=${1%/*}
		git apply --check --reverse "$patch"
		cp -f "$2/horizontal.go" .
		chmod u+w horizontal.go
		git apply "$patch"
	)
	printf '\n  "%s": "%s",' "$2/horizontal.go" "$1/horizontal.go"
}

build() {
	local version=$1 directory=$2 upstream file
	mkdir -p "$directory"
	work=$(mktemp -d "$directory/building.XXXXXX")
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
		[ "$version" = 1.37 ] || overlay_beta "$work/beta" "$upstream"
		printf '\n  "%s": "%s"\n}}\n' "$upstream/hpad_play_test.go" "$PWD/play_test.go"
	} >"$work/overlay.json"
	(cd "$work" && CGO_ENABLED=0 engine go test -mod=mod -c -overlay overlay.json -ldflags '-s -w' -o upstream.test "$package")
	mv "$work/upstream.test" "$directory/upstream.test"
	rm -rf "$work"
}

work=
trap '[ -z "$work" ] || rm -rf "$work"' EXIT
only=
[ "${1:-}" != path ] || { only=path && shift; }
for version in ${1:-1.37 1.38}; do
	inputs="go.mod go.sum play_test.go ../sim/*.go"
	[ "$version" = 1.37 ] || inputs="$inputs $patch ../../install/conformance.sh"
	# shellcheck disable=SC2086
	hash=$(cat $inputs | sha256sum | cut -c 1-16)
	directory=${HPAD_TEST_CACHE:-$HOME/.cache/hpad-test}/conformance-$version-$hash
	[ -n "$only" ] || [ -x "$directory/upstream.test" ] || build "$version" "$directory"
	echo "$directory/upstream.test"
done
