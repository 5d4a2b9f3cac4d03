#!/usr/bin/env bash
# lxc.sh provides LXC and busybox for its containers, from PATH or Debian's, which it installs as root.
set -euo pipefail
cd "$(dirname "$0")"

packages=()
command -v lxc-start >/dev/null || packages+=(lxc)
command -v busybox >/dev/null || packages+=(busybox-static)
command -v python3 >/dev/null || packages+=(python3)
[ ${#packages[@]} -eq 0 ] || ../tools/packages.sh "${packages[@]}"
lxc-start --version
