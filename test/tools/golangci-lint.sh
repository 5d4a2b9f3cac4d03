#!/usr/bin/env bash
# golangci-lint.sh ARGUMENTS... runs golangci-lint and builds it in ~/.cache/hpad-test if
# necessary.
#
# The cache of golangci-lint contains absolute file names but is keyed by relative names and
# content. So that checkouts can share the cache, the script mounts the checkout at a fixed
# path. If it cannot mount, for example without root, each checkout gets its own cache, because
# otherwise findings would refer to files of other checkouts.
set -euo pipefail

version=v2.12.2
cache=${HPAD_TEST_CACHE:-$HOME/.cache/hpad-test}
directory=$cache/golangci-lint-$version-$(go env GOVERSION)
if [ ! -x "$directory/golangci-lint" ]; then
	echo "building golangci-lint $version" >&2
	# Build outside of any module, so that go.mod is not used.
	mkdir -p "$directory"
	(cd "$directory" && GOBIN=$directory GOFLAGS= GOGC=off GOMEMLIMIT=2GiB go install "github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$version") >&2
fi
root=$(cd "$(dirname "$0")/../.." && pwd)
findings=$cache/golangci-lint-$version-findings
place=$findings/checkout
mkdir -p "$place"
enter=(unshare --mount --propagation private bash -euc
	'mount --bind "$1" "$2"; cd "$2/$3"; shift 3; exec "$@"' enter "$root" "$place" "$(realpath --relative-base "$root" .)")
if "${enter[@]}" true 2>/dev/null; then
	export GOLANGCI_LINT_CACHE=$findings/shared
else
	enter=()
	GOLANGCI_LINT_CACHE=$findings/$(sha256sum <<<"$root" | cut -c1-16)
	export GOLANGCI_LINT_CACHE
fi
exec "${enter[@]}" "$directory/golangci-lint" "$@"
