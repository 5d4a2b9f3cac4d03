#!/usr/bin/env bash
# ssh.sh provides an ssh server and client in ~/.cache/hpad-test/ssh, with bin/sshd, bin/ssh
# and lib, and prints that directory. It unpacks Debian's packages and uses ssh of the host if
# it exists. It installs nothing and starts no service. The tests start their own servers,
# which need root.
set -euo pipefail
cd "$(dirname "$0")"

ssh=${HPAD_TEST_CACHE:-$HOME/.cache/hpad-test}/ssh
runs() {
	LD_LIBRARY_PATH=$1/lib "$1/bin/ssh" -V 2>/dev/null && [ -x "$1/bin/sshd" ] &&
		! LD_LIBRARY_PATH=$1/lib ldd "$1/bin/sshd" | grep 'not found' >&2
}
if [ -e "$ssh" ] && runs "$ssh"; then
	echo "$ssh"
	exit
fi

mkdir -p "$(dirname "$ssh")"
work=$(mktemp -d "$ssh.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin" "$work/lib"

server=$(../tools/debian.sh openssh-server)
ln -s "$server/usr/sbin/sshd" "$work/bin/sshd"
# Since Debian 13, sshd runs helper programs for each connection.
ln -s "$server/usr/lib/openssh" "$work/libexec"
client=$(command -v ssh) || client=$(../tools/debian.sh openssh-client)/usr/bin/ssh
ln -s "$client" "$work/bin/ssh"

# Add the libraries that a minimal Debian lacks.
if ! runs "$work" 2>/dev/null; then
	for package in libwrap0 libnsl2 libtirpc3 libgssapi-krb5-2 libkrb5-3 libk5crypto3 libkrb5support0 libkeyutils1 libssl3; do
		root=$(../tools/debian.sh "$package")
		find "$root" -name '*.so.*' -exec ln -sf -t "$work/lib" {} +
	done
	runs "$work" || {
		echo "ssh.sh: Debian's packages do not run here, see above" >&2
		exit 1
	}
fi
chmod 755 "$work"
rm -rf "$ssh"
mv -T "$work" "$ssh"
echo "$ssh"
