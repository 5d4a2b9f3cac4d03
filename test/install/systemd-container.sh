#!/usr/bin/env bash
# systemd-container.sh creates a Debian 12 image that boots systemd in a container, in
# ~/.cache/hpad-test/systemd-container-RECIPE/root.tar, and prints that path. The package
# tests import it into their own Docker engine.
set -euo pipefail
cd "$(dirname "$0")"

# Increase recipe when the list of packages changes.
recipe=2
packages=(systemd systemd-sysv dbus procps libpam-systemd polkitd haproxy nginx-light python3 socat)

directory=${HPAD_TEST_CACHE:-$HOME/.cache/hpad-test}/systemd-container-$recipe
if [ ! -e "$directory/root.tar" ]; then
	mkdir -p "$directory"
	work=$(mktemp -d "$directory/making.XXXXXX")
	trap 'rm -rf "$work"' EXIT
	../tools/debootstrap.sh "$work/root" "${packages[@]}"
	chroot "$work/root" systemctl disable haproxy nginx # tests start them
	tar --directory "$work/root" --numeric-owner --create --file "$work/root.tar" .
	mv "$work/root.tar" "$directory/root.tar"
fi
echo "$directory/root.tar"
