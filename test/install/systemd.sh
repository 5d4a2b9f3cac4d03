#!/usr/bin/env bash
# systemd.sh sees to systemd and a bus for the tests, which run service managers of
# their own beside whatever the machine has for PID 1, and prints the manager's
# path. With CI=true it installs Debian's packages where they are missing: they do
# not become the machine's init. Anywhere else it says what to install.
set -euo pipefail

manager=/usr/lib/systemd/systemd
packages=()
[ -x "$manager" ] && command -v systemctl >/dev/null || packages+=(systemd)
command -v dbus-daemon >/dev/null || packages+=(dbus-daemon)

if [ ${#packages[@]} -gt 0 ]; then
	if [ "${CI:-}" != true ] || [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
		echo "systemd.sh: missing: ${packages[*]} (apt-get install --no-install-recommends ${packages[*]})" >&2
		exit 1
	fi
	export DEBIAN_FRONTEND=noninteractive
	apt-get -qq install -y --no-install-recommends "${packages[@]}" >&2 || {
		apt-get -qq update >&2
		apt-get -qq install -y --no-install-recommends "${packages[@]}" >&2
	}
fi
[ -x "$manager" ] || manager=/lib/systemd/systemd
"$manager" --version >/dev/null
echo "$manager"
