#!/usr/bin/env bash
# packages.sh PACKAGE... installs Debian's packages with CI=true, as root. Anywhere else
# it says what to install, and fails.
set -euo pipefail

if [ "${CI:-}" != true ] || [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
	echo "missing: $* (apt-get install --no-install-recommends $*)" >&2
	exit 1
fi
export DEBIAN_FRONTEND=noninteractive
# Others who install meanwhile are waited for.
install() {
	apt-get -qq -o DPkg::Lock::Timeout=1800 install -y --no-install-recommends "$@" >&2
}
install "$@" || {
	"$(dirname "$0")/update.sh"
	install "$@"
}
