#!/usr/bin/env bash
# az.sh provides the Azure CLI: from PATH, or Debian's, which it installs as root because it
# consists of a hundred packages.
set -euo pipefail
cd "$(dirname "$0")"

command -v az >/dev/null || ../tools/packages.sh azure-cli
command -v az
