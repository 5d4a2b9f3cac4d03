#!/usr/bin/env bash
# version.sh prints the version of the checkout: 1.2.3 for a tagged commit, 1.2.3+5.g3f2a9c1
# for the fifth commit after the tag, and 0.1.0-dev.534+g3f2a9c1 for the 534th commit if there
# is no tag. ".dirty" marks uncommitted changes.
set -euo pipefail
cd "$(dirname "$0")/.."

revision=g$(git rev-parse --short=7 HEAD)
git diff-index --quiet HEAD -- || revision+=.dirty
if described=$(git describe --tags --long --match 'v[0-9]*' 2>/dev/null); then
	# v1.2.3-5-g3f2a9c1
	described=${described%-g*}
	commits=${described##*-}
	tag=${described%-*}
	version=${tag#v}
	if [ "$commits" != 0 ]; then
		version+=+$commits.$revision
	elif [[ $revision == *.dirty ]]; then
		version+=+dirty
	fi
else
	version=0.1.0-dev.$(git rev-list --count HEAD)+$revision
fi
echo "$version"
