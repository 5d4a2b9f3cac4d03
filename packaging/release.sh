#!/usr/bin/env bash
# release.sh makes what a release has, in dist/: packages and images for all
# architectures, the build information of each program, which names its modules with
# their versions and checksums, and SHA256SUMS of all. The commit has to bear the tag of
# its version, v1.2.3, with nothing changed since.
#
#   SIGNING_KEY  the key of gpg that SHA256SUMS is signed with, as SHA256SUMS.asc;
#                without one nothing is signed
#   PUBLISH      "true" has GitHub's client make a release of the tag with all of it
set -euo pipefail
cd "$(dirname "$0")/.."

version=$(packaging/version.sh)
if [[ ! $version =~ ^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]+)?$ ]] || [[ $version == *-dev.* ]]; then
	echo "release.sh: $version is no release: check out its tag, v1.2.3, with nothing changed" >&2
	exit 1
fi
if [ -n "$(ls dist 2>/dev/null)" ]; then
	echo "release.sh: dist/ has files of before: move them away" >&2
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
