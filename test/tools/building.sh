# shellcheck shell=bash
# building.sh is sourced by the scripts that build with Go. It sets what their builds have
# in common: the compiler and the linker collect no garbage below 2 GiB, which saves a
# third of their processor time, and what they make does not depend on where the
# checkout is, so that another checkout finds it in Go's cache. What is built, and tests,
# run with the settings that they would have anyway.
case " ${GOFLAGS:-} " in
*" '-toolexec="*) ;;
*) export GOFLAGS="${GOFLAGS:-} -trimpath '-toolexec=env GOGC=off GOMEMLIMIT=2GiB'" ;;
esac

# again COMMAND... runs a command up to three times, until it succeeds: downloads fail now and
# then, and what arrived before is kept.
again() {
	local pause
	for pause in 2 5; do
		"$@" && return
		sleep "$pause"
	done
	"$@"
}

# engine COMMAND... runs a command of Go that builds an engine. Only one runs at a time, since
# each takes all processors and some gigabytes, and at low priority.
engine() {
	local cache=${HPAD_TEST_CACHE:-$HOME/.cache/hpad-test}
	mkdir -p "$cache"
	again flock --close "$cache/building.lock" nice -n 19 "$@"
}
