#!/usr/bin/env bash
# proxies.sh provides HAProxy, nginx, socat and Python 3, from PATH or Debian's, which it installs
# as root.
set -euo pipefail
cd "$(dirname "$0")"

PATH=$PATH:/usr/sbin
packages=()
command -v haproxy >/dev/null || packages+=(haproxy)
command -v nginx >/dev/null || packages+=(nginx-light)
command -v socat >/dev/null || packages+=(socat)
command -v python3 >/dev/null || packages+=(python3)
[ ${#packages[@]} -eq 0 ] || ../tools/packages.sh "${packages[@]}"
haproxy -v
nginx -v
