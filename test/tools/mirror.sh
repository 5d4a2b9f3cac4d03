#!/usr/bin/env bash
# mirror.sh prints the URI of the Debian mirror that apt uses. It needs root only if apt has no
# package lists.
set -euo pipefail

mirrors() {
	# shellcheck disable=SC2016 # apt-get expands the names
	apt-get indextargets --format '$(ORIGIN)|$(COMPONENT)|$(CODENAME)|$(REPO_URI)' 'Created-By: Packages' |
		sed -n 's/^Debian|main|[a-z]*|//p' # not bookworm-security
}
mirror=$(mirrors)
[ -n "$mirror" ] || { "$(dirname "$0")/update.sh" && mirror=$(mirrors); }
[ -n "$mirror" ] || {
	echo "mirror.sh: apt has no mirror of Debian" >&2
	exit 1
}
echo "${mirror%%$'\n'*}"
