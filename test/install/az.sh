#!/usr/bin/env bash
# az.sh makes Azure's own command line available to the tests, which have it speak to
# their Azure: the one on the PATH, or Debian's, which is a hundred packages of Python and
# is installed as root.
set -euo pipefail
cd "$(dirname "$0")"

command -v az >/dev/null || ../tools/packages.sh azure-cli
command -v az
