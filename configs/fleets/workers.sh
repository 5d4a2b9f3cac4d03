#!/bin/sh
# workers.sh DIRECTORY read TARGET | DIRECTORY scale TARGET FROM TO
set -eu
cd "$1/$3" || exit 66
workers() {
	for file in *.pid; do
		if [ -e "$file" ] && kill -0 "${file%.pid}"; then echo "$file"; else rm -f "$file"; fi
	done 2>/dev/null
}
count=$(workers | wc -l)
if [ "$2" = read ]; then echo "$count"; exit; fi
if [ "$count" -ne "$4" ]; then echo "there are $count workers" >&2; exit 75; fi # hpad tries again
if [ -e hold ]; then cat hold >&2; exit 65; fi                                 # hpad waits, and shows the reason
while [ "$count" -lt "$5" ]; do
	setsid ./run >/dev/null 2>&1 </dev/null &
	touch "$!.pid"
	count=$((count + 1))
done
for file in $(workers | tail -n +$(($5 + 1))); do kill "${file%.pid}" && rm "$file"; done
