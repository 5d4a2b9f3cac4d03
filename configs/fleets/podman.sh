#!/bin/sh
# podman.sh is an adapter for pools of equal Podman containers. It needs Podman 4.
#
#   podman.sh DIRECTORY read TARGET
#   podman.sh DIRECTORY scale TARGET FROM TO
#
# The file DIRECTORY/TARGET contains the arguments of "podman run", one per line, such as
# "--restart=always", "--stop-timeout=60" and the image. Lines that begin with # are comments. The
# containers are called TARGET-1, TARGET-2, … and have the label hpad.pool=TARGET. A container that
# is being removed has the name TARGET-N.leaving.ID. hpad.toml:
#
#   [fleets.containers]
#   kind    = "exec"
#   command = ["/etc/hpad/fleets/podman.sh", "/etc/hpad/pools"]
#   mode    = "oneshot"
set -eu
directory=$1 call=$2 target=$3

case $target in
*[!a-zA-Z0-9_-]* | -*) echo "the name $target of a pool has other characters than letters, digits, _ and -" >&2; exit 66 ;;
esac
[ -f "$directory/$target" ] || { echo "there is no file $directory/$target" >&2; exit 66; }

# list prints the ID, name, start time and status of each container, the highest numbers last.
list() {
	podman ps --all --no-trunc --filter "label=hpad.pool=$target" --format '{{.ID}} {{.Names}} {{.StartedAt}} {{.Status}}' |
		sort -t - -k "$(($(printf %s "$target" | tr -cd - | wc -c) + 2))n"
}

containers=$(list)
staying=$(printf '%s\n' "$containers" | grep -v -e ' [^ ]*\.leaving\.[^ ]* ' -e '^$' || true)
leaving=$(printf '%s\n' "$containers" | grep ' [^ ]*\.leaving\.[^ ]* ' || true)
count=$(printf '%s' "$staying" | grep -c '' || true)

# remove stops and removes containers. It does not wait for them.
remove() {
	[ $# -eq 0 ] || setsid podman rm --force --ignore "$@" >/dev/null 2>&1 </dev/null &
}

# start_abandoned starts the containers that "podman run" created more than a minute ago. If this
# adapter is killed, "podman run" may end before it starts its container.
start_abandoned() {
	podman ps --all --quiet --filter "label=hpad.pool=$target" --filter status=created --filter until=1m |
		while read -r id; do setsid podman start "$id" >/dev/null 2>&1 </dev/null & done
}

# instance prints one container as JSON.
instance() {
	id=$1 name=$2 started=$3
	shift 3
	ready=false
	case "$*" in
	*'(unhealthy)' | *'(starting)' | Paused* | Stopping*) phase=running ;;
	Up*) phase=running ready=true ;;
	Exited*) phase=failed ;;
	*) phase=pending ;;
	esac
	addresses=$(podman inspect --format '{{range .NetworkSettings.Networks}}"{{.IPAddress}}" {{end}}' "$id" 2>/dev/null | tr -s ' ' '\n' | grep -v '^""$' | paste -s -d , -) || true
	printf '{"id": "%s", "name": "%s", "phase": "%s", "ready": %s, "addresses": [%s]' "$id" "${name%%.leaving.*}" "$phase" "$ready" "$addresses"
	[ "$started" -le 0 ] || printf ', "started_at": "%s"' "$(date -u -d "@$started" +%Y-%m-%dT%H:%M:%SZ)"
	case $name in *.leaving.*) printf ', "terminating": true' ;; esac
	printf '}'
}

if [ "$call" = read ]; then
	# shellcheck disable=SC2046 # IDs contain no spaces
	remove $(printf '%s\n' "$leaving" | cut -d ' ' -f 1) # also after this adapter was killed
	case $staying in *' Created'*) start_abandoned ;; esac
	printf '{"count": %d, "instances": [' "$count"
	printf '%s\n' "$containers" | grep . | {
		comma=
		while read -r line; do
			printf '%s' "$comma"
			# shellcheck disable=SC2086 # the fields of a container
			instance $line
			comma=', '
		done
	} || true
	echo ']}'
	exit
fi

from=$4 to=$5
if [ "$count" -ne "$from" ]; then
	echo "there are $count containers instead of $from" >&2
	exit 75
fi

# Exited containers are removed first, then the highest numbers.
victims=$(printf '%s\n' "$staying" | awk 'NF { print ($4 == "Exited" ? 0 : 1), NR, $1, $2 }' | sort -k 1,1n -k 2,2nr |
	head -n "$((from > to ? from - to : 0))" | cut -d ' ' -f 3-)
printf '%s\n' "$victims" | while read -r id name; do
	[ -z "$id" ] || podman rename "$id" "$name.leaving.$(printf %.12s "$id")"
done
# shellcheck disable=SC2046 # IDs contain no spaces
remove $(printf '%s\n' "$victims" | cut -d ' ' -f 1)

set --
while IFS= read -r line || [ -n "$line" ]; do
	case $line in '' | '#'*) ;; *) set -- "$@" "$line" ;; esac
done <"$directory/$target"
number=0
while [ "$count" -lt "$to" ]; do
	number=$((number + 1))
	if ! printf '%s\n' "$staying" | grep -q "^[^ ]* $target-$number "; then
		podman run --detach --name "$target-$number" --label "hpad.pool=$target" "$@" >/dev/null
		count=$((count + 1))
	fi
done
