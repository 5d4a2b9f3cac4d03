#!/usr/bin/env bash
# packages.sh PACKAGE... installs Debian packages as root. Without root, or on another system,
# it prints the packages and fails.
set -euo pipefail

if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
	echo "missing: $*; run as root: apt-get install --no-install-recommends $*" >&2
	exit 1
fi
export DEBIAN_FRONTEND=noninteractive
# apt-get waits for other installations. A separate session and the default TMPDIR prevent
# Ctrl-C in "make test" from leaving a package half installed.
install() {
	env -u TMPDIR setsid --wait apt-get -qq -o DPkg::Lock::Timeout=1800 install -y --no-install-recommends "$@" >&2
}
install "$@" || {
	"$(dirname "$0")/update.sh"
	install "$@"
}
