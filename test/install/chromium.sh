#!/usr/bin/env bash
# chromium.sh provides Chromium, from PATH or Debian's, which it installs as root, and the
# accessibility checker axe-core, a pinned version from npm in ~/.cache/hpad-test.
set -euo pipefail
cd "$(dirname "$0")"

command -v chromium >/dev/null || ../tools/packages.sh chromium
chromium --version

version=4.14.1
sum=e6b0ce02b84d892e2e33e403485e7f3d6c29e2be6df65daf44d89ba564139745
directory=${HPAD_TEST_CACHE:-$HOME/.cache/hpad-test}/axe-core-v$version
[ ! -f "$directory/axe.min.js" ] || exit 0
command -v npm >/dev/null || ../tools/packages.sh npm
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
npm pack --silent --pack-destination "$work" "axe-core@$version" >/dev/null
echo "$sum  $work/axe-core-$version.tgz" | sha256sum --check --quiet
tar -xzf "$work/axe-core-$version.tgz" -C "$work"
mkdir -p "$directory"
mv "$work/package/axe.min.js" "$directory/axe.min.js"
