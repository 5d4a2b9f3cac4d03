#!/bin/sh
# ha-certs.sh creates the certificates of ha-etcd.toml. Each VM has one certificate, which
# etcd and hpad use as servers and as clients:
#
#   sh ha-certs.sh DIR NAME=ADDRESS[,ADDRESS...]...
#
# List all addresses that the VM uses for incoming and outgoing connections, because etcd
# verifies them.
#
# Copy DIR/NAME/ to /etc/hpad/tls on that VM: ca.crt, vm.crt and vm.key, valid for two years.
# Do not copy DIR/ca.key to a VM. Keep it to create more certificates.
set -eu

dir=$1
shift
umask 077
mkdir -p "$dir"
cd "$dir"
curve="-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"
# shellcheck disable=SC2086 # words
[ -e ca.key ] || openssl req -x509 $curve -keyout ca.key -out ca.crt -days 3650 -subj "/CN=hpad cluster"
for vm in "$@"; do
	name=${vm%%=*} addresses=$(echo "${vm#*=}" | sed 's/,/,IP:/g')
	mkdir -p "$name"
	cp ca.crt "$name/ca.crt"
	# shellcheck disable=SC2086
	openssl req $curve -keyout "$name/vm.key" -out "$name/vm.csr" -subj "/CN=$name"
	printf 'subjectAltName=DNS:%s,IP:%s\nkeyUsage=digitalSignature\nextendedKeyUsage=serverAuth,clientAuth\n' "$name" "$addresses" >"$name/vm.ext"
	openssl x509 -req -in "$name/vm.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 730 -extfile "$name/vm.ext" -out "$name/vm.crt"
	rm "$name/vm.csr" "$name/vm.ext"
done
