#!/usr/bin/env bash
# all.sh is "make test": it sets up the engines that the tests talk to, beside go vet and
# the unit tests, and then runs all other tests, most of them under the race detector. An
# engine that cannot be had is skipped with a reason; with CI=true that is a failure.
# "all.sh unit" is "make test-unit": only what needs no engine.
set -euo pipefail
cd "$(dirname "$0")/.."
. test/tools/building.sh

export PATH=$PATH:${HPAD_TEST_CACHE:-$HOME/.cache/hpad-test}/bin
unit=
[ "${1:-}" = unit ] && unit=1

# What is written is in one directory, which goes at the end, also by Ctrl-C. Its name
# is short, since those of sockets below it are bounded, and the same each time, unless
# another run has it, since results are cached by it.
parent=${TMPDIR:-/tmp}
TMPDIR=$parent/h.$(pwd | cksum | cut -c 1-6)
mkdir "$TMPDIR" 2>/dev/null || TMPDIR=$(mktemp -d "$parent/h.XXXX")
chmod 1777 "$TMPDIR"
# Unit tests write in memory where that has room and lets programs run, since much of their
# time were waits for the disk; what go test builds stays on it.
memory=$TMPDIR
room=$(df --output=avail -k /dev/shm 2>/dev/null | tail -n 1) || true # in KiB
if [ "${room:-0}" -gt $((4 << 20)) ] && ! findmnt -no OPTIONS /dev/shm | grep -qw noexec; then
	memory=/dev/shm/${TMPDIR##*/}
	mkdir "$memory" 2>/dev/null || memory=$(mktemp -d /dev/shm/h.XXXX)
	chmod 1777 "$memory"
fi
export TMPDIR GOTMPDIR=$TMPDIR
installer= reporter= lane= status=0
clean() {
	trap '' INT TERM
	if [ "$installer" ]; then
		kill -TERM -- "-$installer" 2>/dev/null || true
		for _ in {1..100}; do # while the scripts remove what they did not end
			kill -0 -- "-$installer" 2>/dev/null || break
			sleep 0.1
		done
	fi
	[ ! "$lane" ] || kill "$lane" 2>/dev/null || true
	test/tools/leftovers.sh "$memory" || true # it says what stays
	test/tools/leftovers.sh "$TMPDIR" || true
	if [ "$reporter" ]; then
		exec 3>&- 4>&-
		wait "$reporter" || true
	fi
}
trap clean EXIT
trap 'exit 130' INT TERM

# install runs the scripts of test/install beside each other, since one compiles while
# another waits for the network, and prints what each said as it ends.
install() {
	local -A scripts=()
	local script pid verdict
	for script in test/install/*.sh; do
		"$script" </dev/null >"$TMPDIR/${script##*/}.log" 2>&1 &
		scripts[$!]=$script
	done
	while [ ${#scripts[@]} -gt 0 ]; do
		verdict='ok  '
		wait -n -p pid "${!scripts[@]}" || verdict=FAIL
		script=${scripts[$pid]}
		unset "scripts[$pid]"
		[ "$verdict" != FAIL ] || echo "$script" >>"$TMPDIR/failed"
		grep -v '^go: downloading' "$TMPDIR/${script##*/}.log" || true
		printf '%s\t%s\t%ds\n' "$verdict" "$script" "$SECONDS"
	done
}
if [ ! "$unit" ]; then
	# A group of its own can be ended as a whole.
	set -m
	install &
	installer=$!
	set +m
fi

mkfifo "$TMPDIR/events" "$TMPDIR/others"
go build -o "$TMPDIR/report" ./test/report
# Its TMPDIR says that it is none of the tests, which end before it.
TMPDIR=$parent "$TMPDIR/report" "$TMPDIR/events" "$TMPDIR/others" &
reporter=$!
exec 3<>"$TMPDIR/events" 4<>"$TMPDIR/others" # which wait for no reader
skip() {
	if [ "${CI:-}" = true ]; then
		echo "all.sh: $1, which CI=true does not allow" >&2
		exit 1
	fi
	printf '{"Action":"note","Output":"%s"}\n' "$1" >&3
}

race=(-race)
if [ "$(go env CGO_ENABLED)" != 1 ] || ! command -v "$(go env CC)" >/dev/null; then
	skip "race detector: it needs a C compiler (apt-get install gcc)"
	race=()
fi
# run tests packages, which vet has seen before, and reports. They are linked without what
# only debuggers read. No program that a test leaves keeps the pipes open. It is waited for
# in the background, where Ctrl-C ends the waiting at once.
run() {
	go test -vet=off -ldflags=-w -timeout 45m -json "$@" >&3 3>&- 4>&- &
	wait $! || status=$?
}

CGO_ENABLED=0 go vet ./...
# The race detector makes code some five times as slow. It has nothing to say of policy,
# which starts nothing, nor of tests that do very many times what others do as well, or one
# thing after the other; of the models of a cluster it sees some schedules.
long='^(TestScript|TestAnHourOfLoad|TestEightDays|TestFollows|TestLabelsAreAsAFile|TestLateWrites'
long+='|TestMisfitIsOneMistake|TestNextComesTrue|TestRestartChangesNothing|TestVerifyFindsOneBit|TestWrittenInParts)$'
mapfile -t packages < <(go list ./... | grep -v '/hpad/test/\|/hpad/policy$')
TMPDIR=$memory run "${race[@]}" -p 3 -skip "$long" "${packages[@]}"
mapfile -t packages < <(grep -rlE --include='*_test.go' "^func ${long:1:-1}\(" ./cmd ./daemon ./targets | xargs dirname | sort -u)
CGO_ENABLED=0 TMPDIR=$memory run -run "$long" "${packages[@]}"
CGO_ENABLED=0 TMPDIR=$memory run ./policy
CGO_ENABLED=0 TMPDIR=$memory GOGC=400 run -run 'Model$' ./daemon/cluster -args -schedules 150
if [ ! "$unit" ]; then
	wait "$installer"
	installer=
	if [ -e "$TMPDIR/failed" ]; then
		while read -r script; do
			skip "tests that need the engine of $script, which failed, see above"
		done <"$TMPDIR/failed"
	fi
	# The hpad of all packages, built as test/internal/gobuild does.
	export HPAD_TEST_PROGRAM=$TMPDIR/program/hpad
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$HPAD_TEST_PROGRAM" ./cmd/hpad
	# Where hpad is a program of its own the race detector has little to see. What is tested
	# on engines that run programs of others is timed, and has little beside it. Members of
	# clusters, and the rounds of scale, have nothing; the servers of stores write in memory,
	# since they are what waits most for the disk.
	programs='/test/(crash|e2e|faults|monitoring)$'
	others='/test/(packages|page)$'
	engines='/test/(docker|nomad)$'
	clusters='/test/(etcd|nomadha|scale)$'
	of() { go list ./test/... | grep -E "$1"; }
	mapfile -t packages < <(go list ./test/... | grep -vE "$programs|$others|$engines|$clusters")
	run "${race[@]}" -p 3 "${packages[@]}"
	mapfile -t packages < <(of "$programs")
	CGO_ENABLED=0 run -p 3 "${packages[@]}"
	mapfile -t packages < <(of "$others")
	{
		CGO_ENABLED=0 run -p 1 "${packages[@]}"
		exit "$status"
	} 3>&4 &
	lane=$!
	mapfile -t packages < <(of "$engines")
	run "${race[@]}" -p 1 "${packages[@]}"
	wait "$lane" || status=1
	lane=
	mapfile -t packages < <(of "$clusters")
	CGO_ENABLED=0 TMPDIR=$memory run -p 1 "${packages[@]}"
fi
exec 3>&- 4>&-
wait "$reporter" || status=$?
reporter=
exit "$status"
