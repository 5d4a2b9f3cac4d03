#!/usr/bin/env bash
# leftovers.sh DIRECTORY cleans up after a test run with DIRECTORY as TMPDIR, even if it was
# killed. It kills processes with that TMPDIR, removes control groups named after its
# subdirectories or after Nomad allocations in it, unmounts everything in it, and removes it.
set -euo pipefail

directory=$1
if [ "${TMPDIR:-}" = "$directory" ]; then
	exec env -u TMPDIR "$0" "$@" # otherwise this script would kill itself
fi

# tests prints the process IDs of the run.
tests() {
	grep -lzxF "TMPDIR=$directory" /proc/[0-9]*/environ 2>/dev/null | cut -d / -f 3 || true
}
# groups prints its control groups, innermost first.
groups() {
	local names
	names=$(find "$directory" -mindepth 1 -maxdepth 6 -type d \( -path "$directory/hpad-*" -o -path '*/alloc/*-*-*-*-*' \) -prune -printf '/%f/\n/%f.\n' 2>/dev/null) || true
	[ "$names" ] || return 0 # an empty pattern would match all groups
	find /sys/fs/cgroup -depth -type d -printf '%p/\n' 2>/dev/null | grep -F "$names" || true
}
mounts() {
	awk -v below="$directory/" 'index($2, below) == 1 { print $2 }' /proc/self/mounts | tac
}

for _ in {1..50}; do
	# 0 stands for a process in another PID namespace, but kill would use it for this group.
	mapfile -t processes < <({ tests && groups | sed 's|$|/cgroup.procs|' | xargs -r cat 2>/dev/null; } | grep -vx 0)
	[ ${#processes[@]} -gt 0 ] || break
	kill -KILL "${processes[@]}" 2>/dev/null || true
	sleep 0.1
done
groups | xargs -r rmdir 2>/dev/null || true
mounts | xargs -r -n 1 umount --lazy || true
if [ "$(mounts)" ]; then
	echo "leftovers.sh: $directory is not removed because of a mount" >&2
	exit 1
fi
rm -rf "$directory"
