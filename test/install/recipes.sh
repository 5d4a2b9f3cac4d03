#!/usr/bin/env bash
# recipes.sh provides Redis, RabbitMQ, PostgreSQL, nginx and the programs in docs/recipes.md. As root it installs
# Debian's packages if they are missing.
set -euo pipefail
cd "$(dirname "$0")"

packages=()
command -v redis-server >/dev/null || packages+=(redis-server)
command -v prometheus-redis-exporter >/dev/null || packages+=(prometheus-redis-exporter)
command -v rabbitmq-server >/dev/null || [ -x /usr/sbin/rabbitmq-server ] || packages+=(rabbitmq-server)
command -v amqp-consume >/dev/null || packages+=(amqp-tools)
ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || packages+=(postgresql)
[ -x /usr/sbin/nginx ] || packages+=(nginx-light)
command -v openssl >/dev/null || packages+=(openssl)
command -v ansible-playbook >/dev/null || packages+=(ansible-core)
/usr/bin/python3 -c 'import redis' 2>/dev/null || packages+=(python3-redis)
# The tests start their own servers. RUNLEVEL=1 prevents that a container's init starts them.
[ ${#packages[@]} -eq 0 ] || RUNLEVEL=1 ../tools/packages.sh "${packages[@]}"
redis-server --version
