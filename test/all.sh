#!/usr/bin/env bash
# all.sh is "make test": it sets up the engines that the tests talk to, then runs
# go vet and every test: unit tests under the race detector, the upstream vectors,
# command-line scripts and integration tests. An engine that cannot be had is
# skipped with a reason; with CI=true that is a failure.
# "all.sh unit" is "make test-unit": only what needs no engine, under the race detector.
set -euo pipefail
cd "$(dirname "$0")/.."

export PATH=$PATH:${HPAD_TEST_CACHE:-$HOME/.cache/hpad-test}/bin
skipped=()

skip() {
	if [ "${CI:-}" = true ]; then
		echo "all.sh: $1, which CI=true does not allow" >&2
		exit 1
	fi
	skipped+=(-note "$1")
}

unit=
[ "${1:-}" = unit ] && unit=1

if [ ! "$unit" ]; then
	for script in test/install/*.sh; do
		"$script" || skip "tests that need the engine of $script, which failed, see above"
	done
fi

race=(-race)
if [ "$(go env CGO_ENABLED)" != 1 ] || ! command -v "$(go env CC)" >/dev/null; then
	skip "race detector: it needs a C compiler (apt-get install gcc)"
	race=()
fi

# What tests write is in one directory, which goes when they end, also by Ctrl-C. Its name
# is short, since those of sockets below it are bounded, and the same each time, unless
# another run has it, since results are cached by it.
parent=${TMPDIR:-/tmp}
TMPDIR=$parent/h.$(pwd | cksum | cut -c 1-6)
mkdir "$TMPDIR" 2>/dev/null || TMPDIR=$(mktemp -d "$parent/h.XXXX")
chmod 1777 "$TMPDIR"
export TMPDIR
clean() {
	if grep -qF " $TMPDIR/" /proc/self/mounts; then
		echo "all.sh: $TMPDIR stays, since something is mounted there" >&2
	else
		rm -rf "$TMPDIR"
	fi
}
trap clean EXIT
trap 'exit 130' INT TERM

go vet ./...

# Engines that run programs of others are heavy, and what is tested on them is
# timed: those packages run one at a time, after all others.
heavy='/test/(clouds|crash|docker|nomad|packages|page|scale|systemd)$'
if [ "$unit" ]; then
	heavy='/hpad/test/'
fi
mapfile -t light < <(go list ./... | grep -vE "$heavy")
mapfile -t engines < <(go list ./... | grep -E "$heavy")
run() {
	go test "${race[@]}" -timeout 45m -json "$@"
}
{
	status=0
	run "${light[@]}" || status=$?
	[ "$unit" ] || run -p 1 "${engines[@]}" || status=$?
	exit "$status"
} | go run ./test/report "${skipped[@]}"
