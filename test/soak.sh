#!/usr/bin/env bash
# soak.sh is "make soak". It runs all tests of the packages that have a long form, in that
# form. Run "make test" first to install the engines.
set -euo pipefail
cd "$(dirname "$0")/.."

export PATH=$PATH:${HPAD_TEST_CACHE:-$HOME/.cache/hpad-test}/bin
export HPAD_SOAK=1

packages=$(grep -rl --include='*_test.go' 'hpad/test/soak"$' . | xargs dirname | sort -u)
mapfile -t packages <<<"$packages"
# Run one package at a time, because the tests check times.
go test -count=1 -p 1 -timeout 3h -json "$@" "${packages[@]}" | go run ./test/report
