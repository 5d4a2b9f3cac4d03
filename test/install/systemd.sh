#!/usr/bin/env bash
# systemd.sh sees to systemd and a bus for the tests, which run service managers of
# their own beside whatever the machine has for PID 1, and prints the manager's
# path. As root it installs Debian's packages if they are missing; they do not become
# the machine's init.
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
