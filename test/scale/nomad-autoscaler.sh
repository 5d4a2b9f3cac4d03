#!/usr/bin/env bash
# nomad-autoscaler.sh builds nomad-autoscaler for comparison, in
# ~/.cache/hpad-test/nomad-autoscaler-VERSION/nomad-autoscaler, unless it exists, and prints
# that path. It builds in a copy of the module with the module's own go.sum.
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
		echo "nomad-autoscaler.sh: $module@$version has an unexpected checksum: $answer" >&2
		exit 1
	fi
	cp -r "$(sed -n 's/.*"Dir": "\(.*\)".*/\1/p' <<<"$answer")" "$copy/module"
	chmod -R u+w "$copy/module"
	(cd "$copy/module" && CGO_ENABLED=0 go build -mod=readonly -trimpath -ldflags '-s -w' -o "$copy/nomad-autoscaler" .)
	mv "$copy/nomad-autoscaler" "$directory/nomad-autoscaler"
fi
echo "$directory/nomad-autoscaler"
