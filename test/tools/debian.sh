#!/usr/bin/env bash
# debian.sh PACKAGE [RELEASE] unpacks a Debian package in ~/.cache/hpad-test and prints the directory.
# RELEASE is the name of another release than that of the host, for example trixie. The script
# installs nothing and starts no service. It needs root only if apt has no package lists.
set -euo pipefail

package=$1
release=${2:-}
tools=$(cd "$(dirname "$0")" && pwd)
cache=${HPAD_TEST_CACHE:-$HOME/.cache/hpad-test}

fail() {
	echo "debian.sh: $package: $*" >&2
	exit 1
}

command -v apt-get >/dev/null || fail "apt-get is missing; install $package manually"

candidate() {
	apt-cache "${apt[@]}" policy "$package" | sed -n 's/^  Candidate: //p' | grep -v none
}

update() {
	if [ "$release" ]; then
		flock --close "$cache/lists.lock" apt-get -qq "${apt[@]}" update >&2 || fail "apt-get update failed for $release"
		return
	fi
	[ "$(id -u)" = 0 ] || fail "apt has no package lists; run 'apt-get update' as root or install $package manually"
	"$tools/update.sh" || fail "apt-get update failed twice"
}

download() {
	apt-get -qq "${apt[@]}" -o APT::Sandbox::User="$(id -un)" download "$package=$1" >&2
}

# Other releases have their own package lists.
apt=()
if [ "$release" ]; then
	mirror=$("$tools/mirror.sh")
	lists=$cache/debian/lists-$release
	mkdir -p "$lists/partial"
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $release main" >"$lists.list"
	apt=(-o "Dir::Etc::SourceList=$lists.list" -o Dir::Etc::SourceParts=- -o "Dir::State::Lists=$lists" -o APT::Sandbox::User="$(id -un)")
fi
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
