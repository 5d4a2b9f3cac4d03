#!/usr/bin/env bash
# background.sh NICE COMMAND... runs a command with low priority, up to 19, in its own
# session, because the scheduler divides the CPUs among sessions first and uses nice only
# inside a session.
set -euo pipefail
if [ "$(ps -o sid= -p $$)" -ne $$ ]; then
	exec setsid --wait "$0" "$@"
fi
echo "$1" 2>/dev/null >/proc/self/autogroup || true # not supported by all kernels
exec nice -n "$@"
