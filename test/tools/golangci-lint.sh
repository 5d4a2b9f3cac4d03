#!/usr/bin/env bash
# golangci-lint.sh ARGUMENTS... runs golangci-lint, which it builds from its module
# into ~/.cache/hpad-test, once for each version.
#
# What golangci-lint keeps of a package names files by the checkout that was linted
# and is found again by the package's files, below the checkout, and what is in them.
# So it sees each checkout at one place, where a mount of its own puts it: what was found
# in one is found for another with the same files, by the names that they have there.
# Where nothing can be mounted, as without root, each checkout has a cache of its own,
# since a second one would be told of files in the first, even of deleted ones, past every
# exclusion.
set -euo pipefail

version=v2.12.2
cache=${HPAD_TEST_CACHE:-$HOME/.cache/hpad-test}
directory=$cache/golangci-lint-$version-$(go env GOVERSION)
if [ ! -x "$directory/golangci-lint" ]; then
	echo "building golangci-lint $version" >&2
	# Outside of any module, so that this one's go.mod plays no part.
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
