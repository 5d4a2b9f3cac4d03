#!/usr/bin/env bash
# all.sh is "make test": it sets up the engines that the tests talk to, beside go vet and
# the unit tests, and then runs all other tests, most of them under the race detector. An
# engine that cannot be had is skipped with a reason; with CI=true that is a failure.
# "all.sh unit" is "make test-unit": only what needs no engine, without that detector.
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
disk=$TMPDIR # also where TMPDIR is another for a while
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
installer= reporter= status=0
lanes=()
clean() {
	trap '' INT TERM
	if [ "$installer" ]; then
		kill -TERM -- "-$installer" 2>/dev/null || true
		for _ in {1..100}; do # while the scripts remove what they did not end
			kill -0 -- "-$installer" 2>/dev/null || break
			sleep 0.1
		done
	fi
	kill "${lanes[@]}" 2>/dev/null || true
	test/tools/leftovers.sh "$memory" || true # it says what stays
	test/tools/leftovers.sh "$disk" || true
	if [ "$reporter" ]; then
		exec 3>&- 4>&- 5>&-
		wait "$reporter" || true
	fi
}
trap clean EXIT
trap 'exit 130' INT TERM

if [ ! "$unit" ]; then
	# A group of its own can be ended as a whole.
	set -m
	test/tools/engines.sh test/install/*.sh &
	installer=$!
	set +m
fi

mkfifo "$TMPDIR"/{events,others,background}
again go list -deps -test ./... >/dev/null # which fetches what is missing
go build -o "$TMPDIR/report" ./test/report
# Its TMPDIR says that it is none of the tests, which end before it.
TMPDIR=$parent "$TMPDIR/report" "$TMPDIR"/{events,others,background} &
reporter=$!
exec 3<>"$TMPDIR/events" 4<>"$TMPDIR/others" 5<>"$TMPDIR/background" # which wait for no reader
skip() {
	if [ "${CI:-}" = true ]; then
		echo "all.sh: $1, which CI=true does not allow" >&2
		exit 1
	fi
	printf '{"Action":"note","Output":"%s"}\n' "$1" >&3
}

# The SDKs of the clouds, which most tests do not use, take much of the time to link, with the
# race detector half of it.
few=(-tags noaws,noazure,nogce)
race=(-race "${few[@]}")
if [ ! "$unit" ] && { [ "$(go env CGO_ENABLED)" != 1 ] || ! command -v "$(go env CC)" >/dev/null; }; then
	skip "race detector: it needs a C compiler (apt-get install gcc)"
	race=()
fi
# run tests packages, which vet has seen before, and reports. They are linked without what
# only debuggers read. No program that a test leaves keeps the pipes open. It is waited for
# in the background, where Ctrl-C ends the waiting at once. Prefix is what runs it.
prefix=()
run() {
	"${prefix[@]}" go test -vet=off '-ldflags=-s -w' -timeout 45m -json "$@" >&3 3>&- 4>&- 5>&- &
	wait $! || status=$?
}

# Tests, engines and hpads hold little: that their garbage is collected when there is four
# times as much saves a tenth of what they take of the processors.
export GOGC=400

CGO_ENABLED=0 go vet ./...
mapfile -t packages < <(go list ./... | grep -v '/hpad/test/')
if [ "$unit" ]; then
	CGO_ENABLED=0 TMPDIR=$memory run -p 3 "${packages[@]}"
else
	# The race detector makes code some five times as slow, and takes a while to link. It has
	# nothing to say of packages that start nothing, nor of tests that do very many times what
	# others do as well, or one thing after the other; of the models of a cluster it sees some
	# schedules. Those, and two that need the clouds, wait for nothing outside, and run in what
	# others leave of the processors; those of daemon/cluster together.
	starts='\bgo (func|[A-Za-z.]+\()|\.Go\(|AfterFunc|errgroup|httptest\.|synctest|t\.Parallel|net\.Listen|exec\.'
	raced=() still=(./policy)
	while read -r package; do
		if grep -qE "$starts" "$package"/*.go; then raced+=("$package"); else still+=("$package"); fi
	done < <(go list -f '{{.Dir}}' "${packages[@]}" | grep -v '/policy$')
	long='^(TestScript|TestAnHourOfLoad|TestAnyInterleaving|TestEightDays|TestEveryReasonIsReported|TestFollows'
	long+='|TestLabelsAreAsAFile|TestLateWrites|TestMisfitIsOneMistake|TestNextComesTrue|TestNoSecretIsTold|TestRandomDamage'
	long+='|TestRenewedMeanwhile|TestRestartChangesNothing|TestRestartedBesideCompose|TestShortage|TestThousand|TestThousandSets'
	long+='|TestUnconfigured|TestUnworkable|TestVerify|TestWatchedCalls)$'
	TMPDIR=$memory run "${race[@]}" -p 4 -skip "$long" "${raced[@]}"
	mapfile -t packages < <(grep -slE "^func ${long:1:-1}\(" $(printf '%s/*_test.go ' "${raced[@]}") /dev/null | xargs dirname | sort -u | grep -v '/daemon/cluster$')
	{
		prefix=(test/tools/background.sh 15)
		export CGO_ENABLED=0 TMPDIR=$memory
		run -run "$long" "${packages[@]}"
		run -p 1 "${still[@]}"
		run -run "Model\$|$long" ./daemon/cluster -args -schedules 100
		exit "$status"
	} 3>&5 &
	lanes+=($!)

	wait "$installer"
	installer=
	if [ -e "$TMPDIR/failed" ]; then
		while IFS=$'\t' read -r script reason; do
			skip "tests that need the engine of $script: ${reason//[\"\\]/\'}"
		done <"$TMPDIR/failed"
	fi
	# The hpad of all packages, built as test/internal/gobuild does.
	export HPAD_TEST_PROGRAM=$TMPDIR/program/hpad
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$HPAD_TEST_PROGRAM" ./cmd/hpad
	# The race detector has little to see where hpad is a program of its own, or what the unit
	# tests do is done with an engine, and takes too much where engines do. What is timed on
	# engines, in clusters and by scale has nothing beside it but what runs in the background:
	# the tests above, what is done with imitated clouds, and what takes one after the other.
	# The servers of stores write in memory, since they are what waits most for the disk.
	clouds='/test/(aws|azure|clouds|crash|docs|gce|monitoring)$'
	others='/test/(packages|page)$'
	first='/test/(e2e|faults|systemd)$' # the longest ones
	docker='/test/docker$'
	nomad='/test/nomad$'
	clusters='/test/(etcd|nomadha)$'
	scale='/test/scale$'
	of() { mapfile -t packages < <(go list ./test/... | grep -E "$1"); }
	export CGO_ENABLED=0
	{
		of "$clouds"
		run -p 2 "${packages[@]}"
		exit "$status"
	} 3>&4 &
	lanes+=($!)
	of "$first"
	mapfile -t -O "${#packages[@]}" packages < <(go list ./test/... | grep -vE "$clouds|$others|$first|$docker|$nomad|$clusters|$scale")
	run "${few[@]}" -p 2 "${packages[@]}"
	of "$docker"
	run "${few[@]}" "${packages[@]}"
	{ # what follows waits a lot
		prefix=(test/tools/background.sh 5)
		of "$others"
		run "${few[@]}" -p 1 "${packages[@]}"
		exit "$status"
	} 3>&4 &
	lanes+=($!)
	of "$nomad"
	run "${few[@]}" "${packages[@]}"
	of "$clusters"
	TMPDIR=$memory run "${few[@]}" -p 1 "${packages[@]}"
	unset GOGC # what is measured is as users have it
	of "$scale"
	run "${few[@]}" "${packages[@]}"
	for lane in "${lanes[@]}"; do
		wait "$lane" || status=1
	done
	lanes=()
fi
exec 3>&- 4>&- 5>&-
wait "$reporter" || status=$?
reporter=
exit "$status"
