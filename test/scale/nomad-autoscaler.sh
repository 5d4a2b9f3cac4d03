#!/usr/bin/env bash
# nomad-autoscaler.sh builds the nomad-autoscaler that hpad is measured beside, into
# ~/.cache/hpad-test/nomad-autoscaler-VERSION/nomad-autoscaler, and prints that path.
# One built earlier is used again. It is built in a copy of its own module, with what
# that module's go.sum says.
set -euo pipefail

module=github.com/hashicorp/nomad-autoscaler
version=v0.4.7
sum=h1:rjWGNeTdVJBo/iSrf+Oc4ecbFRas7vZrYl5CJ68X2lw=

directory=${HPAD_TEST_CACHE:-$HOME/.cache/hpad-test}/nomad-autoscaler-$version
if [ ! -x "$directory/nomad-autoscaler" ]; then
	mkdir -p "$directory"
	copy=$(mktemp -d "$directory/building.XXXXXX")
	trap 'rm -rf "$copy"' EXIT
	answer=$(cd "$copy" && go mod download -json "$module@$version")
	if ! grep -qF "\"Sum\": \"$sum\"" <<<"$answer"; then
		echo "nomad-autoscaler.sh: $module@$version is not what it was: $answer" >&2
		exit 1
	fi
	cp -r "$(sed -n 's/.*"Dir": "\(.*\)".*/\1/p' <<<"$answer")" "$copy/module"
	chmod -R u+w "$copy/module"
	(cd "$copy/module" && CGO_ENABLED=0 go build -mod=readonly -trimpath -ldflags '-s -w' -o "$copy/nomad-autoscaler" .)
	mv "$copy/nomad-autoscaler" "$directory/nomad-autoscaler"
fi
echo "$directory/nomad-autoscaler"
