#!/usr/bin/env bash
# package-tools.sh makes a Debian 12 with what judges packages and the unit:
# lintian, rpm, mandoc, systemd-analyze and the shells that completions are for,
# as ~/.cache/hpad-test/package-tools-RECIPE, and prints that directory. The tests
# change their root into it, in a mount namespace of their own. gpg, which releases are
# signed with, is the machine's.
set -euo pipefail
cd "$(dirname "$0")"

command -v gpg >/dev/null || ../tools/packages.sh gpg gpg-agent

# Change the recipe's number with what is in it.
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
