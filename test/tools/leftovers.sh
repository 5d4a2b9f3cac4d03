#!/usr/bin/env bash
# leftovers.sh DIRECTORY removes what a run of tests left that had the directory as its
# TMPDIR, also one that was killed: processes with that in their environment, control
# groups named after a directory in it, or after an allocation of a Nomad agent in it, with
# all their processes, what is mounted below it, and the directory itself.
set -euo pipefail

directory=$1
if [ "${TMPDIR:-}" = "$directory" ]; then
	exec env -u TMPDIR "$0" "$@" # or it were one of the run itself
fi

# tests prints the processes of the run.
tests() {
	grep -lzxF "TMPDIR=$directory" /proc/[0-9]*/environ 2>/dev/null | cut -d / -f 3 || true
}
# groups prints its control groups, the innermost first.
groups() {
	local names
	names=$(find "$directory" -mindepth 1 -maxdepth 6 -type d \( -path "$directory/hpad-*" -o -path '*/alloc/*-*-*-*-*' \) -prune -printf '/%f/\n/%f.\n' 2>/dev/null) || true
	[ "$names" ] || return 0 # or it were every group
	find /sys/fs/cgroup -depth -type d -printf '%p/\n' 2>/dev/null | grep -F "$names" || true
}
mounts() {
	awk -v below="$directory/" 'index($2, below) == 1 { print $2 }' /proc/self/mounts | tac
}

for _ in {1..50}; do
	# 0 is a process of elsewhere, and for kill the processes of this script.
	mapfile -t processes < <({ tests && groups | sed 's|$|/cgroup.procs|' | xargs -r cat 2>/dev/null; } | grep -vx 0)
	[ ${#processes[@]} -gt 0 ] || break
	kill -KILL "${processes[@]}" 2>/dev/null || true
	sleep 0.1
done
groups | xargs -r rmdir 2>/dev/null || true
mounts | xargs -r -n 1 umount --lazy || true
if [ "$(mounts)" ]; then
	echo "leftovers.sh: $directory stays, since something is mounted there" >&2
	exit 1
fi
rm -rf "$directory"
