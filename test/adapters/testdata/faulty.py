"""faulty.py DIRECTORY is an adapter with faults. Each target is a file with its count. The file "fault"
contains the name of the current fault."""
import json
import os
import sys
import time

os.chdir(sys.argv[1])
with open("pid", "w") as file:
    file.write(str(os.getpid()))


def fault():
    try:
        with open("fault") as file:
            return file.read()
    except OSError:
        return ""


for line in sys.stdin:
    request = json.loads(line)
    response = {"id": request["id"]}
    if request["call"] == "describe":
        response.update(protocol=1, name="faulty 1.0", calls=[])
    elif fault() == "exits":
        sys.exit("the platform is on fire, password=hunter2")
    elif fault() == "hangs":
        time.sleep(1000)
    elif fault() == "garbage":
        print("Traceback of something")
    elif fault() == "100 MB":
        print("x" * 100_000_000)
    elif fault() == "ends on each line":
        print(json.dumps(response), flush=True)
        sys.exit(1)
    elif fault() == "loses targets":
        response["targets"] = {}
    elif fault() == "returns null":
        response["targets"] = {name: {"count": None} for name in request["targets"]}
    elif request["call"] == "snapshot":
        response["targets"] = {name: {"count": int(open(name).read())} for name in request["targets"]}
    elif request["call"] == "scale":
        with open(request["target"], "w") as file:
            file.write(str(request["to"]))
    print(json.dumps(response), flush=True)
