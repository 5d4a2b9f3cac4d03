#!/usr/bin/env bash
# uplot.sh fetches the pinned version of uPlot, which draws the graphs, from npm, and copies
# the files that the page needs, with the license, to assets/.
set -euo pipefail
cd "$(dirname "$0")"
version=1.6.32
sum=4b8a8191e425658e3ea8c8c1314b0fc679c861ee3a1af2b20c7b16ba50b5133d

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
npm pack --silent --pack-destination "$work" "uplot@$version" >/dev/null
echo "$sum  $work/uplot-$version.tgz" | sha256sum --check --quiet
tar -xzf "$work/uplot-$version.tgz" -C "$work"
cp "$work/package/dist/uPlot.iife.min.js" assets/uplot.js
cp "$work/package/dist/uPlot.min.css" assets/uplot.css
cp "$work/package/LICENSE" assets/uplot.LICENSE
