#!/usr/bin/env bash
# release.sh builds the files of a release in dist/: packages and images for all
# architectures, the build information of each program, with the versions and checksums of
# its modules, and SHA256SUMS. The checkout must be a commit with a version tag, such as
# v1.2.3, without changes.
#
#   SIGNING_KEY  the gpg key that signs SHA256SUMS (SHA256SUMS.asc); no signature by default
#   PUBLISH      "true" publishes all files as a GitHub release of the tag
set -euo pipefail
cd "$(dirname "$0")/.."

version=$(packaging/version.sh)
if [[ ! $version =~ ^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]+)?$ ]] || [[ $version == *-dev.* ]]; then
	echo "release.sh: $version is not a release version: check out a version tag, such as v1.2.3, without changes" >&2
	exit 1
fi
if [ -n "$(ls dist 2>/dev/null)" ]; then
	echo "release.sh: dist/ is not empty: move its files away" >&2
	exit 1
fi
if ! grep -q "^## $version" CHANGELOG.md; then
	echo "release.sh: CHANGELOG.md has no section \"## $version\"" >&2
	exit 1
fi

make packages FORMATS="deb rpm tar.gz image.tar"
if [ -n "${SIGNING_KEY:-}" ]; then
	gpg --batch --yes --local-user "$SIGNING_KEY" --armor --detach-sign --output dist/SHA256SUMS.asc dist/SHA256SUMS
fi
if [ "${PUBLISH:-}" = true ]; then
	gh release create "v$version" --verify-tag --title "$version" \
		--notes "$(awk -v head="## $version" 'index($0, "## ") == 1 { on = index($0, head) == 1; next } on' CHANGELOG.md)" dist/*
fi
