#!/usr/bin/env python3
"""Benchmarks, as ratios within one run on one machine: absolute times depend on what else the machine does.

Needs the provisioned lab (`make lab`). Each figure is the least of several runs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
RUNS = 3
INVENTORY = [".lab/inventory"]


def seconds(command: list[str]) -> float:
    """Return the least wall time of a command that must succeed."""
    times = []
    for _run in range(RUNS):
        start = time.monotonic()
        subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=300)
        times.append(time.monotonic() - start)
    return min(times)


def no_op_site() -> dict[str, float]:
    """Return what a site.yml that changes nothing costs on one node, against one full fact gathering."""
    site = seconds(["ansible-playbook", "-i", *INVENTORY, "site.yml", "-l", "node12"])
    setup = seconds(["ansible", "-i", *INVENTORY, "node12", "-m", "ansible.builtin.setup"])
    return {"site.yml, nothing to change (s)": site, "-m setup (s)": setup, "ratio": site / setup}


def planning() -> dict[str, float]:
    """Return what planning 1,000 hosts costs."""
    output = subprocess.run(
        [sys.executable, "tests/bench/plan.py"], cwd=ROOT, check=True, capture_output=True, text=True, timeout=300
    ).stdout
    return json.loads(output)


def environments() -> dict[str, float]:
    """Return what finding ten environments of 300 packages as they are wanted costs, against a ping.

    2 s on a node are promised for each kind. What is found is that nothing is to do, or this is no benchmark of it.
    """
    with tempfile.TemporaryDirectory() as directory:
        make = [sys.executable, "tests/bench/environments.py", directory]
        given = subprocess.run(make, cwd=ROOT, check=True, capture_output=True, text=True, timeout=300).stdout
        local = ["ansible", "-i", "localhost,", "-c", "local", "localhost"]
        local += ["-e", f"ansible_python_interpreter={sys.executable}"]
        ping = seconds([*local, "-m", "ansible.builtin.ping"])
        results = {"-m ping (s)": ping, "promised at most (s)": 2.0}
        for module, options in json.loads(given).items():
            call = [*local, "-m", f"gpulab.node.{module}", "-a", json.dumps(options)]
            told = subprocess.run(call, cwd=ROOT, check=True, capture_output=True, text=True, timeout=300).stdout
            if "changed: false" not in told:
                raise SystemExit(told)
            found = seconds(call)
            results.update({f"{module} (s)": found, f"{module}, ratio to ping": found / ping})
    return results


def reading() -> dict[str, float]:
    """Return what reading a node of eight simulated GPUs costs, against a ping: the level quick's one call to it."""
    local = ["ansible", "-i", "localhost,", "-c", "local", "localhost"]
    local += ["-e", f"ansible_python_interpreter={sys.executable}"]
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run([sys.executable, "tests/sim/build.py", directory], cwd=ROOT, check=True)
        os.environ.update(LD_LIBRARY_PATH=directory, GPULAB_SIMULATION=str(ROOT / "tests/sim/models/h100-sxm-8.conf"))
        read = seconds([*local, "-m", "gpulab.node.gpu_facts"])
        del os.environ["LD_LIBRARY_PATH"], os.environ["GPULAB_SIMULATION"]
    ping = seconds([*local, "-m", "ansible.builtin.ping"])
    return {"gpu_facts (s)": read, "-m ping (s)": ping, "difference (s)": read - ping, "promised (s)": 2.0}


def report() -> dict[str, float]:
    """Return what the report of 64 nodes costs."""
    output = subprocess.run(
        [sys.executable, "tests/bench/report.py"], cwd=ROOT, check=True, capture_output=True, text=True, timeout=300
    ).stdout
    return json.loads(output)


def main() -> None:
    """Run the benchmarks and print them."""
    benchmarks = {
        "no-op site.yml": no_op_site,
        "plan of 1,000 hosts": planning,
        "facts of 8 simulated GPUs": reading,
        "report of 64 nodes": report,
        "10 environments of 300 packages": environments,
    }
    for title, benchmark in benchmarks.items():
        print(f"== {title}", flush=True)
        for name, value in benchmark().items():
            print(f"   {name:34} {value:.2f}", flush=True)


if __name__ == "__main__":
    main()
