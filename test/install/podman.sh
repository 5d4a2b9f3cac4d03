#!/usr/bin/env bash
# podman.sh unpacks Debian's packages of Podman and podman-compose in ~/.cache/hpad-test/podman and
# prints that path. It installs nothing and starts no service. bin/podman uses the service at
# $CONTAINER_HOST. Without that variable, it stores all data in $HPAD_PODMAN.
set -euo pipefail
cd "$(dirname "$0")"

podman=${HPAD_TEST_CACHE:-$HOME/.cache/hpad-test}/podman
if [ -e "$podman/bin/podman" ] && HPAD_PODMAN=/nonexistent "$podman/bin/podman" --version >/dev/null; then
	echo "$podman"
	exit
fi

mkdir -p "$(dirname "$podman")"
work=$(mktemp -d "$podman.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{bin,lib,libexec,xtables,python,home/.config/containers}

for package in podman conmon crun netavark aardvark-dns catatonit; do
	root=$(../tools/debian.sh "$package")
	find "$root" -type f -perm /111 \( -path '*/bin/*' -o -path '*/lib/podman/*' \) -exec ln -sf -t "$work/libexec" {} +
done
for package in libgpgme11 libassuan0 libsubid4 libyajl2 libseccomp2 libdevmapper1.02.1 libip4tc2 libip6tc2 libxtables12 libmnl0 libnftnl11 libnetfilter-conntrack3 libnfnetlink0; do
	root=$(../tools/debian.sh "$package")
	find "$root" -name '*.so.*' -exec ln -sf -t "$work/lib" {} +
done
iptables=$(../tools/debian.sh iptables)
for name in iptables iptables-save iptables-restore ip6tables ip6tables-save ip6tables-restore; do
	ln -s "$iptables/usr/sbin/xtables-nft-multi" "$work/libexec/$name"
done
find "$iptables" -path '*/xtables/*' -name '*.so' -exec ln -s -t "$work/xtables" {} +
for package in podman-compose python3-dotenv python3-yaml; do
	root=$(../tools/debian.sh "$package")
	find "$root/usr/lib/python3/dist-packages" -mindepth 1 -maxdepth 1 -exec ln -sf -t "$work/python" {} +
done

# Debian 13 has Quadlet. Podman 4.3 of Debian 12 runs the units that the generator of 4.4 writes.
if quadlet=$(find "$(../tools/debian.sh podman)" -name quadlet -type f | grep .); then
	ln -sf "$quadlet" "$work/libexec/quadlet"
else
	(cd ../systemd/quadlet && . ../../tools/building.sh && CGO_ENABLED=0 engine go build -mod=readonly -o "$work/libexec/quadlet" github.com/containers/podman/v4/cmd/quadlet)
fi

# conmon starts crun without LD_LIBRARY_PATH.
crun=$(readlink "$work/libexec/crun")
rm "$work/libexec/crun"
cat >"$work/libexec/crun" <<END
#!/bin/sh
LD_LIBRARY_PATH=$podman/lib exec $crun "\$@"
END
cat >"$work/containers.conf" <<END
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
[engine]
conmon_path = ["$podman/libexec/conmon"]
helper_binaries_dir = ["$podman/libexec"]
runtime = "crun"
cgroup_manager = "cgroupfs"
events_logger = "file"
[engine.runtimes]
crun = ["$podman/libexec/crun"]
[network]
network_backend = "netavark"
END
echo 'unqualified-search-registries = []' >"$work/registries.conf"
echo '{ "default": [{ "type": "insecureAcceptAnything" }] }' >"$work/home/.config/containers/policy.json"
cat >"$work/bin/podman" <<END
#!/bin/sh
export HOME=$podman/home PATH=$podman/libexec:\$PATH LD_LIBRARY_PATH=$podman/lib XTABLES_LIBDIR=$podman/xtables
export CONTAINERS_CONF=$podman/containers.conf CONTAINERS_REGISTRIES_CONF=$podman/registries.conf
[ -z "\$CONTAINER_HOST" ] || exec $podman/libexec/podman --remote "\$@"
exec $podman/libexec/podman --root "\$HPAD_PODMAN/data" --runroot "\$HPAD_PODMAN/run" --tmpdir "\$HPAD_PODMAN/tmp" \
	--network-config-dir "\$HPAD_PODMAN/networks" "\$@"
END
cat >"$work/bin/podman-compose" <<END
#!/bin/sh
PATH=$podman/bin:\$PATH PYTHONPATH=$podman/python exec /usr/bin/python3 $podman/python/podman_compose.py "\$@"
END
chmod 755 "$work" "$work"/bin/* "$work/libexec/crun"
rm -rf "$podman"
mv -T "$work" "$podman"
HPAD_PODMAN=/nonexistent "$podman/bin/podman" --version >&2 || {
	echo "podman.sh: podman of Debian's packages does not run here, see above" >&2
	exit 1
}
echo "$podman"
