#!/usr/bin/env bash
# background.sh NICE COMMAND... runs a command that gives way to all others, the more so the
# nicer it is, up to 19, in a session of its own: the scheduler shares the processors between
# sessions first, and inside of one by nice.
set -euo pipefail
if [ "$(ps -o sid= -p $$)" -ne $$ ]; then
	exec setsid --wait "$0" "$@"
fi
echo "$1" 2>/dev/null >/proc/self/autogroup || true # where the kernel has it
exec nice -n "$@"
