#!/usr/bin/env bash
# golangci-lint.sh builds golangci-lint from its module into ~/.cache/hpad-test,
# once for each version, and prints its path.
set -euo pipefail

version=v2.12.2
directory=${HPAD_TEST_CACHE:-$HOME/.cache/hpad-test}/golangci-lint-$version-$(go env GOVERSION)
if [ ! -x "$directory/golangci-lint" ]; then
	echo "building golangci-lint $version" >&2
	# Outside of any module, so that this one's go.mod plays no part.
	mkdir -p "$directory"
	(cd "$directory" && GOBIN=$directory GOFLAGS= go install "github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$version") >&2
fi
echo "$directory/golangci-lint"
