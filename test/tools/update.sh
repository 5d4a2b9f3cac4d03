#!/usr/bin/env bash
# update.sh updates apt's package lists as root. Concurrent calls wait for each other.
set -euo pipefail

cache=${HPAD_TEST_CACHE:-$HOME/.cache/hpad-test}
mkdir -p "$cache"
update() {
	flock --close "$cache/lists.lock" apt-get -qq update >&2
}
update || update
