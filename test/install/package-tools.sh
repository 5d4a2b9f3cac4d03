#!/usr/bin/env bash
# package-tools.sh creates a Debian 12 root directory with lintian, rpm, mandoc,
# systemd-analyze and shells in ~/.cache/hpad-test/package-tools-RECIPE, and prints that
# directory. The tests use it with chroot in their own mount namespace. It also installs gpg
# on the host, for the signatures of releases.
set -euo pipefail
cd "$(dirname "$0")"

command -v gpg >/dev/null || ../tools/packages.sh gpg gpg-agent

# Increase recipe when the list of packages changes.
recipe=1
packages=(lintian rpm mandoc systemd bash-completion zsh fish)

directory=${HPAD_TEST_CACHE:-$HOME/.cache/hpad-test}/package-tools-$recipe
if [ ! -d "$directory" ]; then
	mkdir -p "$(dirname "$directory")"
	work=$(mktemp -d "$directory.XXXXXX")
	trap 'rm -rf "$work"' EXIT
	../tools/debootstrap.sh "$work/root" "${packages[@]}"
	mv -T "$work/root" "$directory"
fi
echo "$directory"
