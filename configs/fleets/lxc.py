#!/usr/bin/env python3
"""An adapter for LXC containers: docs/fleets-http.md describes the protocol.

A target is a stopped container. Its instances web-1, web-2, … are copies that share its root directory.
The LXC tools usually need root, and hpad's service is not root: let it run "ssh root@HOST lxc.py".
"""
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import threading
import time

PATH = os.environ.get("LXC_PATH", "/var/lib/lxc")
STOP = os.environ.get("LXC_STOP_SECONDS", "30")  # until lxc-stop kills a container
BOOT = next(float(line.split()[1]) for line in open("/proc/stat") if line.startswith("btime"))
TIME = "%Y-%m-%dT%H:%M:%SZ"
FAILURES = (subprocess.SubprocessError, OSError)


class Refused(Exception):
    """Contains an error of the protocol."""


def lxc(tool, *arguments):
    return subprocess.run([f"lxc-{tool}", "-P", PATH, *arguments], check=True, text=True, timeout=120,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE).stdout


def failed(code, e, **more):
    return {"code": code, "message": (getattr(e, "stderr", "") or str(e)).strip(), **more}


def containers():
    # Listed first, because these files exist longer than their containers.
    marked = set(os.listdir(PATH))
    lines = lxc("ls", "-f", "-F", "NAME,STATE,PID,IPV4").replace(",", " ").splitlines()[1:]
    return {name: (state, pid, [a for a in addresses if a != "-"], f"hpad-terminating-{name}" in marked)
            for name, state, pid, *addresses in map(str.split, lines)}


def instance_of(name, state, pid, addresses, terminating):
    instance = {"id": name, "addresses": addresses, "phase": "running", "terminating": terminating}
    try:
        with open(f"/proc/{pid}/stat") as stat:
            ticks = int(stat.read().rsplit(")", 1)[1].split()[19])
        instance["started_at"] = time.strftime(TIME, time.gmtime(BOOT + ticks / os.sysconf("SC_CLK_TCK")))
    except OSError:  # it has no process
        instance.update(phase="pending" if state == "STARTING" else "failed", unready_reason=state.lower())
    return instance


def read(target, found):
    if target not in found:
        raise Refused(failed("not_found", f"there is no container {target}"))
    instances = [instance_of(name, *found[name]) for name in found
                 if name.rpartition("-")[0] == target and name.rpartition("-")[2].isdigit()]
    live = sorted(i["id"] for i in instances if not i["terminating"])
    version = hashlib.sha256(" ".join(live).encode()).hexdigest()[:16]
    return {"count": len(live), "version": version, "instances": instances}


def create(target):
    """Starts a copy with a number that no earlier copy had."""
    path = f"{PATH}/{target}/hpad-next"
    number = int(open(path).read()) if os.path.exists(path) else 1
    with open(path, "w") as file:
        file.write(str(number + 1))
    name = f"{target}-{number}"
    lxc("copy", "-n", target, "-N", name, "-s", "-B", "overlay")
    try:
        lxc("start", "-n", name)
    except FAILURES:
        lxc("destroy", "-n", name)
        raise


def remove(names):
    for name in names:
        open(f"{PATH}/hpad-terminating-{name}", "w").close()
        threading.Thread(target=stop, args=(name,)).start()


def stop(name):
    try:
        if "RUNNING" in lxc("info", "-n", name, "-s"):
            lxc("stop", "-n", name, "-t", STOP)
        lxc("destroy", "-n", name, "-f")
    except FAILURES as e:
        if os.path.exists(f"{PATH}/{name}/config"):  # no other adapter has removed it
            return print(f"remove {name}:", failed("", e)["message"], file=sys.stderr)
    pathlib.Path(f"{PATH}/hpad-terminating-{name}").unlink(missing_ok=True)


def change(request):
    state = read(request["target"], containers())
    if request.get("version", state["version"]) != state["version"]:
        raise Refused(failed("conflict", f"the version is {state['version']}"))
    live = [i for i in state["instances"] if not i["terminating"]]
    if request["call"] == "remove":
        return remove([i["id"] for i in live if i["id"] in request["instances"]])
    if len(live) > request["to"]:  # failed instances first, then the newest
        live.sort(key=lambda i: (i["phase"] != "running", int(i["id"].rpartition("-")[2])), reverse=True)
        return remove([i["id"] for i in live[:len(live) - request["to"]]])
    for reached in range(len(live), request["to"]):
        try:
            create(request["target"])
        except FAILURES as e:
            raise Refused(failed("partial", e, reached=reached))


last = {}  # the time and the cpu time of the last sample of each instance


def samples(target, found):
    for name in [n for n in found if n.rpartition("-")[0] == target and found[n][0] == "RUNNING"]:
        values = dict(line.split(":") for line in lxc("info", "-n", name, "-S", "-H").splitlines())
        now, cpu = time.time(), int(values["CPU use"])
        before, last[name] = last.get(name), (now, cpu)
        if before and cpu >= before[1]:
            usage = {"cpu": f"{(cpu - before[1]) / (now - before[0]):.0f}n", "memory": values["Memory use"].strip()}
            yield {"id": name, "at": time.strftime(TIME, time.gmtime(now)), "window": now - before[0], "usage": usage}


def respond(request):
    if request["call"] == "describe":
        return {"protocol": 1, "name": "lxc 1.0", "calls": ["samples", "remove"]}
    if request["call"] in ("scale", "remove"):
        return change(request) or {}
    found = containers()
    if request["call"] == "samples":
        return {"samples": {name: list(samples(name, found)) for name in request["targets"]}}
    return {"targets": {name: attempt(read, name, found) for name in request["targets"]}}


def attempt(do, *arguments):
    try:
        return do(*arguments)
    except Refused as e:
        return {"error": e.args[0]}
    except FAILURES as e:
        return {"error": failed("failed", e)}


remove([name for name, found in containers().items() if found[3]])
for line in sys.stdin:
    request = json.loads(line)
    print(json.dumps({"id": request["id"], **attempt(respond, request)}), flush=True)
