#!/usr/bin/env bash
# engines.sh SCRIPT... runs the scripts of test/install side by side, because one compiles
# while another waits for the network, and prints the output of each as it ends. A script
# that fails is a FAIL with CI=true and a SKIP otherwise; a line of $TMPDIR/failed then has
# its name, a tab and the last line of its output.
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
