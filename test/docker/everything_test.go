package docker

import (
	"fmt"
	"testing"

	"github.com/hpad/hpad/test/docker/dockertest"
)

// everything is a Compose file whose service web uses every option that replicas must share or
// must not share. The long timeout allows for a busy host.
const everything = `
services:
  db:
    image: worker:1
    command: []
    healthcheck: { test: [CMD, /worker, check], interval: 3s }
    networks: [back]
  web:
    image: volumes:1
    scale: 2
    init: true
    restart: unless-stopped
    stop_signal: SIGUSR1
    stop_grace_period: 3s
    depends_on: { db: { condition: service_healthy } }
    working_dir: /tmp
    user: "0:7"
    group_add: ["8"]
    env_file: [web.env]
    environment: { PLAIN: value, WORKER_FILES: "/etc/web.conf:/etc/content.conf:/etc/short.conf" }
    labels: { com.example.team: shop }
    healthcheck: { test: [CMD, /worker, check], interval: 3s, timeout: 30s, retries: 5, start_period: 5s }
    networks:
      front: { aliases: [www, shop.example.com] }
      back: {}
    ports: ["%d-%d:8080", "127.0.0.1:%d-%d:9090"]
    expose: ["7070"]
    volumes:
      - named:/data
      - /scratch
      - ./conf:/conf:ro
      - { type: volume, target: /long, volume: { nocopy: true } }
      - { type: volume, source: named, target: /again, read_only: true }
      - { type: tmpfs, target: /fast, tmpfs: { size: 1m } }
    tmpfs: [/faster]
    secrets:
      - of_file
      - of_environment
      - { source: of_environment, target: renamed, mode: 0440 }
    configs:
      - { source: of_file, target: /etc/web.conf }
      - { source: of_content, target: /etc/content.conf }
    ulimits: { nproc: 300, nofile: 900 }
    sysctls: { net.core.somaxconn: 1024 }
    shm_size: 32m
    cap_add: [NET_ADMIN]
    cap_drop: [MKNOD]
    security_opt: [no-new-privileges]
    extra_hosts: ["elsewhere:192.0.2.7"]
    dns: [192.0.2.53]
    dns_search: [example.com]
    oom_score_adj: 500
    logging: { driver: json-file, options: { max-size: 1m, max-file: "2" } }
    deploy:
      resources:
        limits: { cpus: "0.5", memory: 64M, pids: 50 }
        reservations: { memory: 16M }
networks: { front: {}, back: { internal: true } }
volumes: { named: {} }
secrets:
  of_file: { file: ./secret }
  of_environment: { environment: SHELL_SECRET }
configs:
  of_file: { file: ./web.conf }
  of_content: { content: "made by Compose\n" }
`

// newEverything creates the project with 20 host ports starting at port.
func newEverything(t testing.TB, e *dockertest.Engine, name string, port int) *dockertest.Project {
	t.Helper()
	p := e.Project(t, name, fmt.Sprintf(everything, port, port+9, port+10, port+19))
	p.Write("web.env", "FROM_FILE=value of the file\n")
	p.Write("secret", "secret of a file\n")
	p.Write("web.conf", "config of a file\n")
	p.Write("conf/file", "bound\n")
	p.Write(".env", "SHELL_SECRET=secret of the environment\n")
	return p
}
