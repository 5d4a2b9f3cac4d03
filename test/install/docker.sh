#!/usr/bin/env bash
# docker.sh unpacks Debian's packages of the Docker engine and CLI in
# ~/.cache/hpad-test/docker and prints that path. It installs nothing and starts no service.
# The tests start their own engines, which need root.
set -euo pipefail
cd "$(dirname "$0")"

docker=${HPAD_TEST_CACHE:-$HOME/.cache/hpad-test}/docker
if [ -e "$docker/bin/dockerd" ] && "$docker/bin/docker" --version >/dev/null; then
	echo "$docker"
	exit
fi

mkdir -p "$(dirname "$docker")"
work=$(mktemp -d "$docker.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin" "$work/lib" "$work/xtables"

# programs PACKAGE links the programs of a package.
programs() {
	local root
	root=$(../tools/debian.sh "$1")
	find "$root" -path '*/*bin/*' ! -type d -exec ln -sf -t "$work/bin" {} +
}

programs docker.io
# Debian 13 has a separate package for the CLI.
[ -e "$work/bin/docker" ] || programs docker-cli
programs containerd
programs runc
programs tini
ln -sf tini-static "$work/bin/docker-init"

# The program selects its mode by the name of the link.
iptables=$(../tools/debian.sh iptables)
for name in iptables iptables-save iptables-restore ip6tables ip6tables-save ip6tables-restore; do
	ln -s "$iptables/usr/sbin/xtables-nft-multi" "$work/bin/$name"
done
find "$iptables" -path '*/xtables/*' -name '*.so' -exec ln -s -t "$work/xtables" {} +

# Add the libraries that a minimal Debian lacks.
for package in libdevmapper1.02.1 libseccomp2 libip4tc2 libip6tc2 libxtables12 libmnl0 libnftnl11 libnetfilter-conntrack3 libnfnetlink0; do
	root=$(../tools/debian.sh "$package")
	find "$root" -name '*.so.*' -exec ln -s -t "$work/lib" {} +
done

for program in dockerd containerd runc docker-init iptables; do
	LD_LIBRARY_PATH=$work/lib "$work/bin/$program" --version >/dev/null || {
		echo "docker.sh: $program of Debian's packages does not run here, see above" >&2
		exit 1
	}
done
chmod 755 "$work"
rm -rf "$docker"
mv -T "$work" "$docker"
echo "$docker"
