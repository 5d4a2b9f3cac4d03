# shellcheck shell=bash
# building.sh is sourced by scripts that build with Go. The compiler and the linker collect
# no garbage below 2 GiB, which saves a third of their CPU time. -trimpath makes the results
# independent of the directory, so that other checkouts can use Go's cache. The settings do
# not affect the built programs and the tests.
case " ${GOFLAGS:-} " in
*" '-toolexec="*) ;;
*) export GOFLAGS="${GOFLAGS:-} -trimpath '-toolexec=env GOGC=off GOMEMLIMIT=2GiB'" ;;
esac

# again COMMAND... runs a command up to three times until it succeeds, because downloads fail
# occasionally.
again() {
	local pause
	for pause in 2 5; do
		"$@" && return
		sleep "$pause"
	done
	"$@"
}

# engine COMMAND... builds an engine with low priority, one at a time, because each build
# needs all CPUs and some gigabytes.
engine() {
	local cache=${HPAD_TEST_CACHE:-$HOME/.cache/hpad-test}
	mkdir -p "$cache"
	again flock --close "$cache/building.lock" nice -n 19 "$@"
}
