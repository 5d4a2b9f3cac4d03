#!/usr/bin/env bash
# debian.sh PACKAGE unpacks a Debian package in ~/.cache/hpad-test and prints the directory.
# It installs nothing and starts no service. It needs root only if apt has no package lists.
set -euo pipefail

package=$1
tools=$(cd "$(dirname "$0")" && pwd)
cache=${HPAD_TEST_CACHE:-$HOME/.cache/hpad-test}

fail() {
	echo "debian.sh: $package: $*" >&2
	exit 1
}

command -v apt-get >/dev/null || fail "apt-get is missing; install $package manually"

candidate() {
	apt-cache policy "$package" | sed -n 's/^  Candidate: //p' | grep -v none
}

update() {
	[ "$(id -u)" = 0 ] || fail "apt has no package lists; run 'apt-get update' as root or install $package manually"
	"$tools/update.sh" || fail "apt-get update failed twice"
}

download() {
	apt-get -qq -o APT::Sandbox::User="$(id -un)" download "$package=$1" >&2
}

version=$(candidate) || { update && version=$(candidate); } || fail "unknown package"
directory=$cache/debian/${package}_$version
if [ ! -d "$directory" ]; then
	mkdir -p "$cache/debian"
	work=$(mktemp -d "$cache/debian/unpack.XXXXXX")
	trap 'rm -rf "$work"' EXIT
	cd "$work"
	if ! download "$version"; then
		update
		version=$(candidate)
		directory=$cache/debian/${package}_$version
		download "$version" || fail "apt-get download failed twice"
	fi
	mkdir root
	dpkg-deb --extract ./*.deb root
	mv -T root "$directory" 2>/dev/null || [ -d "$directory" ] || fail "cannot create $directory"
fi
echo "$directory"
