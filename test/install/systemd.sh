#!/usr/bin/env bash
# systemd.sh provides systemd and D-Bus and prints the path of the service manager. As root it
# installs Debian's packages if they are missing. The tests run their own service managers,
# and the host's init does not change.
set -euo pipefail
cd "$(dirname "$0")"

manager=/usr/lib/systemd/systemd
packages=()
[ -x "$manager" ] && command -v systemctl >/dev/null || packages+=(systemd)
command -v dbus-daemon >/dev/null || packages+=(dbus-daemon)

[ ${#packages[@]} -eq 0 ] || ../tools/packages.sh "${packages[@]}"
[ -x "$manager" ] || manager=/lib/systemd/systemd
"$manager" --version >/dev/null
echo "$manager"
