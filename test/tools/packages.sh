#!/usr/bin/env bash
# packages.sh PACKAGE... installs Debian's packages with CI=true, as root. Anywhere else
# it says what to install, and fails.
set -euo pipefail

if [ "${CI:-}" != true ] || [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
	echo "missing: $* (apt-get install --no-install-recommends $*)" >&2
	exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get -qq install -y --no-install-recommends "$@" >&2 || {
	apt-get -qq update >&2
	apt-get -qq install -y --no-install-recommends "$@" >&2
}
