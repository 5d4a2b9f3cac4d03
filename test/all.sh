#!/usr/bin/env bash
# all.sh is "make test". It installs the engines while go vet and the unit tests run, and then
# runs all other tests, several packages at the same time. Unit tests use the race detector. The
# tests of an engine that cannot be installed are skipped with a reason, or fail if CI=true. Tests
# that call soak.Complete run only if CI=true. "all.sh unit" is "make test-unit": the unit tests
# without the race detector.
set -euo pipefail
cd "$(dirname "$0")/.."
. test/tools/building.sh

export PATH=$PATH:${HPAD_TEST_CACHE:-$HOME/.cache/hpad-test}/bin
unit=
[ "${1:-}" = unit ] && unit=1

# All files are in one directory, which is removed at the end, even after Ctrl-C. Its name is
# short, because the length of socket paths is limited, and usually the same, because it is part
# of the key of cached results.
parent=${TMPDIR:-/tmp}
TMPDIR=$parent/h.$(pwd | cksum | cut -c 1-6)
mkdir "$TMPDIR" 2>/dev/null || TMPDIR=$(mktemp -d "$parent/h.XXXX")
chmod 1777 "$TMPDIR"
disk=$TMPDIR # TMPDIR changes for some tests
# Unit tests write to /dev/shm if it is large enough and not mounted with noexec, because they
# would mostly wait for the disk. The files of go build stay on disk.
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
		for _ in {1..100}; do # wait while the scripts clean up
			kill -0 -- "-$installer" 2>/dev/null || break
			sleep 0.1
		done
	fi
	kill "${lanes[@]}" 2>/dev/null || true
	test/tools/leftovers.sh "$memory" || true # prints an error if it fails
	test/tools/leftovers.sh "$disk" || true
	if [ "$reporter" ]; then
		exec 3>&- 4>&- 5>&- 6>&-
		wait "$reporter" || true
	fi
}
trap clean EXIT
trap 'exit 130' INT TERM

if [ ! "$unit" ]; then
	# A separate process group can be killed as a whole.
	set -m
	# The builds with Go run one after another, the longest last.
	builds=(test/install/{compose,dockerd,promserver,conformance,nomad}.sh)
	mapfile -t packaged < <(printf '%s\n' test/install/*.sh "${builds[@]}" | sort | uniq -u)
	test/tools/engines.sh "${packaged[@]}" -- "${builds[@]}" &
	installer=$!
	set +m
fi

pipes=(events background docker nomad) # one for each lane, because long lines would mix
(cd "$TMPDIR" && mkfifo "${pipes[@]}")
again go list -deps -test ./... >/dev/null # downloads missing modules
go build -o "$TMPDIR/report" ./test/report
# Its TMPDIR is different, so that leftovers.sh does not kill it.
TMPDIR=$parent "$TMPDIR/report" "${pipes[@]/#/$TMPDIR/}" &
reporter=$!
# These do not block without a reader.
exec 3<>"$TMPDIR/events" 4<>"$TMPDIR/background" 5<>"$TMPDIR/docker" 6<>"$TMPDIR/nomad"
skip() {
	if [ "${CI:-}" = true ]; then
		echo "all.sh: $1, not allowed with CI=true" >&2
		exit 1
	fi
	printf '{"Action":"note","Output":"%s"}\n' "$1" >&3
}

# Most tests do not need the SDKs of the clouds, which take up to half of the link time.
few=(-tags noaws,noazure,nogce)
race=(-race "${few[@]}")
if [ ! "$unit" ] && { [ "$(go env CGO_ENABLED)" != 1 ] || ! command -v "$(go env CC)" >/dev/null; }; then
	skip "race detector: it needs a C compiler (apt-get install gcc)"
	race=()
fi
# run tests packages and sends the events to the reporter. It skips vet, which runs separately,
# and debug information. It closes the pipes for the tests, so that processes left by a test do
# not keep them open, and waits in the background, so that Ctrl-C works. prefix is a command that
# runs it.
prefix=()
run() {
	"${prefix[@]}" go test -vet=off '-ldflags=-s -w' -timeout 45m -json "$@" >&3 3>&- 4>&- 5>&- 6>&- &
	wait $! || status=$?
}

# The heaps are small: a higher GOGC saves a tenth of the CPU time.
export GOGC=400

CGO_ENABLED=0 go vet ./...
mapfile -t packages < <(go list ./... | grep -v '/hpad/test/')
if [ "$unit" ]; then
	CGO_ENABLED=0 TMPDIR=$memory run -p 3 "${packages[@]}"
else
	# The race detector makes code about five times slower. It is not used for packages without
	# goroutines and for long tests that repeat what other tests do. These run in the background
	# with low priority, because they do not depend on external programs.
	starts='\bgo (func|[A-Za-z.]+\()|\.Go\(|AfterFunc|errgroup|httptest\.|synctest|t\.Parallel|net\.Listen|exec\.'
	# The tests of the configuration need all kinds of fleets.
	complete='/(policy|daemon/config|cmd/hpad/manifest)$'
	raced=() still=(./policy ./daemon/config ./cmd/hpad/manifest)
	while read -r package; do
		if grep -qE "$starts" "$package"/*.go; then raced+=("$package"); else still+=("$package"); fi
	done < <(go list -f '{{.Dir}}' "${packages[@]}" | grep -vE "$complete")
	# The longest packages are first, so that the CPUs are not idle at the end.
	longest='/(cmd/hpad|daemon/(api|cluster|round)|targets/(exec|process))$'
	mapfile -t raced < <(printf '%s\n' "${raced[@]}" | grep -E "$longest" && printf '%s\n' "${raced[@]}" | grep -vE "$longest")
	long='^(TestScript|TestAnHourOfLoad|TestAnyInterleaving|TestEightDays|TestEveryReasonIsReported|TestFollows'
	long+='|TestLateWrites|TestNoSecretIsShown|TestRandomDamage|TestSchedule|TestScheduleExamples|TestScheduleStop|TestScheduleStopByHand|TestSimulatePage'
	long+='|TestSimulationAgainstItself|TestConcurrentUp|TestElapsed|TestRestartChangesNothing|TestShortage'
	long+='|TestUnconfigured|TestUnworkable|TestVerify)$'
	TMPDIR=$memory run "${race[@]}" -p 4 -skip "$long" "${raced[@]}"
	mapfile -t packages < <(grep -slE "^func ${long:1:-1}\(" $(printf '%s/*_test.go ' "${raced[@]}") /dev/null | xargs dirname | sort -u | grep -v '/daemon/cluster$')
	{
		prefix=(test/tools/background.sh 15)
		export CGO_ENABLED=0 TMPDIR=$memory
		run -run "$long" "${packages[@]}"
		run -p 1 "${still[@]}"
		run -run "Model\$|$long" ./daemon/cluster -args -schedules 30
		exit "$status"
	} 3>&4 &
	lanes+=($!)

	# The hpad of all packages, built like in test/internal/gobuild.
	export HPAD_TEST_PROGRAM=$TMPDIR/program/hpad
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$HPAD_TEST_PROGRAM" ./cmd/hpad
	export CGO_ENABLED=0
	# engines waits for scripts of test/install. On a new host, the builds take longer than all tests.
	# If CI is not true, the tests therefore do not wait for builds that take more than 15 minutes.
	engines() {
		local name
		for name in "$@"; do
			until [ -e "$TMPDIR/ended/$name" ] || [ -e "$TMPDIR/ended/all" ] || { [ "${CI:-}" != true ] && ((SECONDS > 900)); }; do
				sleep 0.2
			done
		done
	}
	# tests runs the packages of test/ whose names match a pattern. The first argument is the number
	# of packages at the same time.
	tests() {
		local at=$1 pattern=$2 packages
		mapfile -t packages < <(go list ./test/... | grep -E "/test/($pattern)\$")
		run "${few[@]}" -p "$at" "${packages[@]}"
	}
	# lane runs a function in the background, with its own pipe. Integration tests do not use the race detector,
	# because hpad is a separate process in most of them. Two lanes of about the same length run side by
	# side: more lanes would make the tests compete for two CPUs. The servers of clusters write to memory, because they mostly wait for the disk.
	lane() {
		{
			"$1"
			exit "$status"
		} 3>&"$2" &
		lanes+=($!)
	}
	docker_lane() {
		# etcd first: at the same time as nomadha, the members would compete for the CPUs.
		engines etcd.sh
		TMPDIR=$memory tests 1 etcd
		engines docker.sh dockerd.sh compose.sh ssh.sh podman.sh
		tests 1 docker
		package_tests
	}
	nomad_lane() {
		few=() # the simulated clouds need the SDKs, and most of them need Nomad
		prefix=(test/tools/background.sh 10) # linking the SDKs must not delay the elections of etcd
		tests 4 'aws|azure|gce|docs'         # mostly wait
		prefix=()
		engines nomad.sh prometheus.sh promserver.sh
		tests 2 'clouds|crash|monitoring'
		few=(-tags noaws,noazure,nogce)
		tests 1 nomad
		TMPDIR=$memory tests 1 nomadha
		other_tests
	}
	other_tests() {
		local separate='adapters|aws|azure|gce|docs|clouds|crash|monitoring|docker|etcd|nomad|nomadha|packages|page'
		engines "${packaged[@]##*/}" compose.sh dockerd.sh
		tests 2 'faults|systemd' # the servers of faults need a CPU; systemd mostly waits
		tests 2 'e2e|recipes|proxy'
		engines nomad.sh promserver.sh conformance.sh
		mapfile -t packages < <(go list ./test/... | grep -vE "/test/($separate|e2e|faults|recipes|systemd|proxy)\$")
		run "${few[@]}" -p 3 "${packages[@]}" # scale mostly waits
	}
	package_tests() {
		engines "${packaged[@]##*/}"
		tests 1 packages
		tests 2 'adapters|page' # adapters mostly waits
	}
	lane docker_lane 5
	lane nomad_lane 6
	for lane in "${lanes[@]}"; do
		wait "$lane" || status=1
	done
	lanes=()
	if [ "${CI:-}" = true ] || [ -e "$TMPDIR/ended/all" ]; then
		wait "$installer"
		installer=
	fi
	for script in "${packaged[@]}" "${builds[@]}"; do
		[ -e "$TMPDIR/ended/${script##*/}" ] || skip "tests that need the engine of $script: the build takes too long; run the script, then make test again"
	done
	if [ -e "$TMPDIR/failed" ]; then
		while IFS=$'\t' read -r script reason; do
			skip "tests that need the engine of $script: ${reason//[\"\\]/\'}"
		done <"$TMPDIR/failed"
	fi
fi
exec 3>&- 4>&- 5>&- 6>&-
wait "$reporter" || status=$?
reporter=
exit "$status"
