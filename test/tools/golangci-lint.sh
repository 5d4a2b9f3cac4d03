#!/usr/bin/env bash
# golangci-lint.sh ARGUMENTS... runs golangci-lint, which it builds from its module
# into ~/.cache/hpad-test, once for each version.
#
# What golangci-lint keeps of a package names files by the checkout that was linted
# and is found again by the package's content alone, so that a second checkout is
# told of files in the first, even of deleted ones, past every exclusion. So each
# checkout has a cache of its own.
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
GOLANGCI_LINT_CACHE=$cache/golangci-lint-$version-findings/$(sha256sum <<<"$root" | cut -c1-16)
export GOLANGCI_LINT_CACHE
exec "$directory/golangci-lint" "$@"
