#!/usr/bin/env bash
# systemd-container.sh makes a Debian 12 that boots systemd in a container, as
# ~/.cache/hpad-test/systemd-container-RECIPE/root.tar, and prints that path. The
# tests of packages import it into a Docker engine of their own.
set -euo pipefail
cd "$(dirname "$0")"

# Change the recipe's number with what is in it.
recipe=1
packages=(systemd systemd-sysv dbus procps libpam-systemd polkitd)

directory=${HPAD_TEST_CACHE:-$HOME/.cache/hpad-test}/systemd-container-$recipe
if [ ! -e "$directory/root.tar" ]; then
	mkdir -p "$directory"
	work=$(mktemp -d "$directory/making.XXXXXX")
	trap 'rm -rf "$work"' EXIT
	../tools/debootstrap.sh "$work/root" "${packages[@]}"
	tar --directory "$work/root" --numeric-owner --create --file "$work/root.tar" .
	mv "$work/root.tar" "$directory/root.tar"
fi
echo "$directory/root.tar"
