#!/usr/bin/env bash
# soak.sh is "make soak": it runs every test of the packages where one has a long form,
# in that form. The engines are those that "make test" set up.
set -euo pipefail
cd "$(dirname "$0")/.."

export PATH=$PATH:${HPAD_TEST_CACHE:-$HOME/.cache/hpad-test}/bin
export HPAD_SOAK=1

packages=$(grep -rl --include='*_test.go' 'hpad/test/soak"$' . | xargs dirname | sort -u)
mapfile -t packages <<<"$packages"
# One at a time: what they hold hpad to is timed.
go test -count=1 -p 1 -timeout 3h -json "$@" "${packages[@]}" | go run ./test/report
