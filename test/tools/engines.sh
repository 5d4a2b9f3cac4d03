#!/usr/bin/env bash
# engines.sh SCRIPT... runs the scripts of test/install in parallel and prints the output of
# each when it ends. A failed script is reported as FAIL if CI=true, otherwise as SKIP. It adds
# a line to $TMPDIR/failed with its name, a tab and the last line of its output.
set -euo pipefail

failure=SKIP
[ "${CI:-}" != true ] || failure=FAIL
declare -A scripts=()
for script in "$@"; do
	"$script" </dev/null >"$TMPDIR/${script##*/}.log" 2>&1 &
	scripts[$!]=$script
done
while [ ${#scripts[@]} -gt 0 ]; do
	verdict='ok  '
	wait -n -p pid "${!scripts[@]}" || verdict=$failure
	script=${scripts[$pid]}
	unset "scripts[$pid]"
	log=$TMPDIR/${script##*/}.log
	grep -v '^go: downloading' "$log" || true
	[ "$verdict" != "$failure" ] || printf '%s\t%s\n' "$script" "$(tail -n 1 "$log" | tr -d '\000-\037')" >>"$TMPDIR/failed"
	printf '%s\t%s\t%ds\n' "$verdict" "$script" "$SECONDS"
done
