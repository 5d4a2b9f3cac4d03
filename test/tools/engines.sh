#!/usr/bin/env bash
# engines.sh SCRIPT... [-- SCRIPT...] runs scripts of test/install and prints the output of each when
# it ends. The scripts before -- run in parallel, the others one after another. A failed script is
# reported as FAIL if CI=true, otherwise as SKIP. It adds a line to $TMPDIR/failed with its name, a tab
# and the last line of its output. When a script ends, engines.sh creates $TMPDIR/ended/NAME, and at
# last $TMPDIR/ended/all.
set -euo pipefail

failure=SKIP
[ "${CI:-}" != true ] || failure=FAIL
mkdir -p "$TMPDIR/ended"
trap 'touch "$TMPDIR/ended/all"' EXIT
install() {
	local script=$1 verdict='ok  ' log=$TMPDIR/${1##*/}.log
	"$script" </dev/null >"$log" 2>&1 || verdict=$failure
	[ "$verdict" != "$failure" ] || printf '%s\t%s\n' "$script" "$(tail -n 1 "$log" | tr -d '\000-\037')" >>"$TMPDIR/failed"
	{
		grep -v '^go: downloading' "$log" || true
		printf '%s\t%s\t%ds\n' "$verdict" "$script" "$SECONDS"
	} >"$log.result"
	cat "$log.result"
	touch "$TMPDIR/ended/${script##*/}"
}
while [ $# -gt 0 ] && [ "$1" != -- ]; do
	install "$1" &
	shift
done
shift || true
for script in "$@"; do
	install "$script"
done
wait
