#!/usr/bin/env bash
# update.sh has apt read its lists of packages anew, as root, once whoever else does so
# has ended.
set -euo pipefail

cache=${HPAD_TEST_CACHE:-$HOME/.cache/hpad-test}
mkdir -p "$cache"
update() {
	flock --close "$cache/lists.lock" apt-get -qq update >&2
}
update || update
