#!/bin/sh
# ha-certs.sh makes the certificates of ha-etcd.toml, one for each VM, which shows it as
# server and as client, to etcd and to the other hpads:
#
#   sh ha-certs.sh DIR NAME=ADDRESS[,ADDRESS...]...
#
# ADDRESSes are all those from which the VM connects, and at which it is reached: etcd
# compares them.
#
# DIR/NAME/ then has what belongs into /etc/hpad/tls of that VM: ca.crt, vm.crt and vm.key,
# valid for two years. DIR/ca.key belongs on none of them: keep it, to make others with it.
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
