#!/usr/bin/env bash
# debootstrap.sh DIRECTORY PACKAGE... creates a minimal Debian 12 with packages in a new
# directory, from the Debian mirror of the host. It needs root. The base system is cached in
# ~/.cache/hpad-test.
set -euo pipefail

directory=$1
shift
fail() {
	echo "debootstrap.sh: $*" >&2
	exit 1
}
[ "$(id -u)" = 0 ] || fail "root is required"
command -v wget >/dev/null || "$(dirname "$0")/packages.sh" wget

mirrors() {
	# shellcheck disable=SC2016 # apt-get expands the names
	apt-get indextargets --format '$(ORIGIN)|$(COMPONENT)|$(CODENAME)|$(REPO_URI)' 'Created-By: Packages' |
		sed -n 's/^Debian|main|bookworm|//p'
}

base=${HPAD_TEST_CACHE:-$HOME/.cache/hpad-test}/debian/minbase-bookworm.tar
# Only one process creates the base system.
mkdir -p "$(dirname "$base")"
exec {lock}>"$base.lock"
flock "$lock"
if [ ! -e "$base" ]; then
	tool=$("$(dirname "$0")/debian.sh" debootstrap)
	mirror=$(mirrors)
	[ -n "$mirror" ] || { "$(dirname "$0")/update.sh" && mirror=$(mirrors); }
	[ -n "$mirror" ] || fail "apt has no mirror of Debian 12 (bookworm)"
	work=$(mktemp -d "$base.XXXXXX")
	trap 'rm -rf "$work"' EXIT
	# Use a separate mount namespace, so that no mounts remain on the host after an interruption
	# when the directory is removed.
	DEBOOTSTRAP_DIR=$tool/usr/share/debootstrap unshare --mount --propagation private \
		"$tool/usr/sbin/debootstrap" --variant=minbase bookworm "$work/root" "${mirror%%$'\n'*}" >"$work/log" 2>&1 || {
		tail -n 30 "$work/log" "$work/root/debootstrap/debootstrap.log" >&2 || true
		fail "debootstrap failed, see above"
	}
	tar --directory "$work/root" --numeric-owner --create --file "$work/root.tar" .
	mv "$work/root.tar" "$base"
fi
exec {lock}>&-

mkdir "$directory"
tar --directory "$directory" --numeric-owner --extract --file "$base"
# This file prevents packages from starting services.
printf '#!/bin/sh\nexit 101\n' >"$directory/usr/sbin/policy-rc.d"
chmod 755 "$directory/usr/sbin/policy-rc.d"
cp /etc/resolv.conf "$directory/etc/resolv.conf"
# The host's TMPDIR does not exist in the root directory.
env -u TMPDIR DEBIAN_FRONTEND=noninteractive chroot "$directory" sh -euc '
	apt-get -qq update || apt-get -qq update
	apt-get -qq install --yes --no-install-recommends "$@"
	apt-get clean' sh "$@" >"$directory/install.log" 2>&1 || {
	tail -n 30 "$directory/install.log" >&2
	fail "$* could not be installed, see above"
}
rm -rf "$directory/install.log" "$directory/usr/sbin/policy-rc.d" "$directory"/var/lib/apt/lists/*
