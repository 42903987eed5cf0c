#!/usr/bin/env python3
"""Benchmarks, as ratios within one run on one machine: absolute times depend on what else the machine does.

Needs the provisioned lab (`make lab`). Each figure is the least of several runs. Words choose benchmarks by their
titles: tests/bench/run.py "64 nodes". One that cannot be measured is named, and the others go on.
"""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
RUNS = 3
NODES = 64
INVENTORY = ".lab/inventory"
SETUP = "-m setup"
NODE = ("docker", "exec", "gpulab-node12", "sh", "-ec")
ADDRESSES = "for one in $(seq 100 $((99 + {nodes}))); do ip address replace {subnet}.$one/24 dev eth0; done"
UNKNOWN_HOSTS = "-o UserKnownHostsFile=/dev/null -o StrictHostKeyChecking=no -o IdentitiesOnly=yes"
RECEIPTS = "/var/lib/gpulab/receipts/*.json"


def took(command: list[Any]) -> float:
    """Return the wall time of a command that must succeed."""
    start = time.monotonic()
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=600)
    return time.monotonic() - start


def seconds(command: list[Any]) -> float:
    """Return the least wall time of a command that must succeed."""
    return min(took(command) for _run in range(RUNS))


def in_turn(base: str, commands: dict[str, list[Any]]) -> dict[str, float]:
    """Return the least time of each command, and how many times as long it takes as the base, least and median.

    They run in turn, so that what else the machine does falls on all of them.
    """
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _run in range(RUNS):
        for name, command in commands.items():
            times[name].append(took(command))
    results = {}
    for name, all_times in times.items():
        results[f"{name} (s)"] = min(all_times)
        if name != base:
            ratios = sorted(one / other for one, other in zip(all_times, times[base]))
            results[f"{name} / {base}, least"] = ratios[0]
            results[f"{name} / {base}, median"] = ratios[len(ratios) // 2]
    return results


def playbook(name: str, *options: str, inventory: str = INVENTORY, host: str = "node12") -> list[Any]:
    """Return the command that runs a playbook on one node."""
    return ["ansible-playbook", "-i", inventory, "-l", host, name, *options]


def setup(inventory: str = INVENTORY, host: str = "node12") -> list[Any]:
    """Return the command that gathers Ansible's own facts of one node."""
    return ["ansible", "-i", inventory, host, "-m", "ansible.builtin.setup"]


def nothing_to_do() -> dict[str, float]:
    """Return what runs cost that find nothing to do on one node, against full fact gathering and against pyinfra.

    At most 2 times -m setup are promised for site.yml and 1.5 times for verify.yml where it need not try the software.
    pyinfra gets the same state, but neither plans nor proves; it looks at the units, and holds the packages once more.
    """
    took(playbook("site.yml"))
    with tempfile.TemporaryDirectory() as directory:
        return in_turn(
            SETUP,
            {
                SETUP: setup(),
                "site.yml": playbook("site.yml"),
                "site.yml, software tried": playbook("site.yml", "-e", "verify_software=all"),
                "verify.yml": playbook("playbooks/verify.yml"),
                "verify.yml, software unchanged": playbook("playbooks/verify.yml", "-e", "verify_software=changed"),
                "plan.yml": playbook("playbooks/plan.yml"),
                "diagnose.yml": playbook("playbooks/diagnose.yml"),
                "pyinfra, the same state": pyinfra_on(Path(directory)),
            },
        )


def capturing() -> dict[str, float]:
    """Return what a capture of one node costs that finds nothing new, against a list of all its files by find."""
    with tempfile.TemporaryDirectory() as directory:
        options = ["-e", f"capture_directory={directory}", "--vault-password-file=molecule/capture/vault_password"]
        command = playbook("playbooks/capture.yml", *options)
        took(command)
        listing = [*NODE, "find / -xdev -printf '%p %y %m %U:%G %s %T@ %l\\n'"]
        return in_turn("find -printf", {"find -printf": listing, "capture.yml": command, SETUP: setup()})


def bare() -> dict[str, float]:
    """Return what the preview of a node costs on which everything is to be done: node12 as `make lab-up` leaves it.

    6 s are the goal on two cores.
    """
    with tempfile.TemporaryDirectory() as directory:
        lab = ["-i", "localhost,", "-e", f"lab_name=gpulab-bench lab_directory={directory}"]
        nodes = yaml.safe_load((ROOT / "lab/nodes.yml").read_text())["lab_nodes"]
        node = {**next(one for one in nodes if one["name"] == "node12"), "name": "bare"}
        wanted = json.dumps({"lab_nodes": [node], "lab_without": []})
        inventory = f"{directory}/inventory"
        try:
            took(["ansible-playbook", *lab, "-e", wanted, "lab/up.yml"])
            took(["ansible-playbook", "-i", inventory, "lab/software.yml"])
            preview = playbook("playbooks/plan.yml", inventory=inventory, host="bare")
            return in_turn(SETUP, {SETUP: setup(inventory, "bare"), "plan.yml": preview})
        finally:
            took(["ansible-playbook", *lab, "lab/down.yml"])


def pyinfra_on(directory: Path) -> list[str]:
    """Return pyinfra's command for what the receipts of node12 name; it is written to the directory."""
    subprocess.run([sys.executable, "-m", "venv", directory / "venv"], check=True)
    install = [directory / "venv/bin/pip", "install", "--quiet", "--require-hashes", "--requirement"]
    subprocess.run([*install, ROOT / "requirements/bench.txt"], check=True)
    printed = subprocess.run([*NODE, f"cat {RECEIPTS}"], check=True, capture_output=True, text=True).stdout
    items = {item: value for one in json_values(printed) for item, value in one["items"].items() if value is not None}
    state: dict[str, Any] = {"files": {}, "packages": [], "holds": [], "units": []}
    for item, value in items.items():
        kind, _colon, name = item.partition(":")
        if kind == "file" and value.startswith("file "):
            text = subprocess.run([*NODE, f"cat '{name}'"], check=True, capture_output=True).stdout
            (directory / str(len(state["files"]))).write_bytes(text)
            state["files"][name] = (str(len(state["files"])), value.split()[1])
        elif kind == "package":
            state["packages"] += value
            state["holds"] += [package for package, version in value.items() if version.endswith("on hold")]
        elif kind == "unit" and value == "enabled":
            state["units"].append(name)
    (directory / "state.json").write_text(json.dumps(state))
    os.environ["GPULAB_STATE"] = str(directory)
    ssh = ["--ssh-user", "admin", "--ssh-key", str(ROOT / ".lab/id"), "--data", "ssh_strict_host_key_checking=no"]
    return [
        str(directory / "venv/bin/pyinfra"),
        "-y",
        *ssh,
        f"{subnet()}.10",
        str(ROOT / "tests/bench/state.py"),
    ]


def subnet() -> str:
    """Return the lab's network, without the last number of an address; node12 is number 10 there."""
    hosts = (ROOT / INVENTORY / "hosts.yml").read_text()
    return re.search(r"ansible_host: (\S+)\.10$", hosts, re.MULTILINE)[1]


def json_values(text: str) -> Iterator[Any]:
    """Yield the values of concatenated JSON texts."""
    decoder, at = json.JSONDecoder(), 0
    while at < len(text):
        value, at = decoder.raw_decode(text, at)
        yield value
        at += len(text[at:]) - len(text[at:].lstrip())


def many_nodes() -> dict[str, float]:
    """Return what site.yml costs the controller on 64 nodes with nothing to do: one lab node at 64 addresses.

    At most 60 s of its processor and 300 MB are promised.
    """
    subprocess.run([*NODE, ADDRESSES.format(nodes=NODES, subnet=subnet())], check=True)
    inventory = yaml.safe_load((ROOT / INVENTORY / "hosts.yml").read_text())
    group = next(name for name, group in inventory.items() if "node12" in group.get("hosts", {}))
    addresses = [f"{subnet()}.{100 + n}" for n in range(NODES)]  # no names, which the node would have to have
    inventory[group]["hosts"] = dict.fromkeys(addresses)
    inventory["all"]["vars"]["ansible_ssh_common_args"] = UNKNOWN_HOSTS
    with tempfile.TemporaryDirectory() as directory:
        made = shutil.copytree(ROOT / INVENTORY, Path(directory, "inventory"))  # with its group_vars
        (made / "hosts.yml").write_text(yaml.safe_dump(inventory))
        command = ["ansible-playbook", "-i", made, "site.yml", "--forks", "10"]
        command += ["-e", f"verify_report_directory={directory}"]
        printed = partial(subprocess.run, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True, timeout=900)
        printed([*command, "-l", addresses[0]])
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        start = time.monotonic()
        printed([*command, "-l", group])
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    return {
        "wall (s)": time.monotonic() - start,
        "controller's processor (s)": processor,
        "promised at most (s)": 60,
        "the largest process (MB)": used.ru_maxrss / 1000,
    }


def measured_by(name: str) -> dict[str, float]:
    """Return what another file of this directory measures."""
    command = [sys.executable, f"tests/bench/{name}.py"]
    output = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=600).stdout
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


def prolog() -> dict[str, float]:
    """Return what Slurm's prolog costs before a job on eight simulated GPUs, against a start of Python.

    1 s is promised. What it has to see is that Slurm expects a ninth GPU.
    """
    with tempfile.TemporaryDirectory() as directory:
        make = [sys.executable, "tests/bench/prolog.py", directory]
        subprocess.run(make, cwd=ROOT, check=True)
        subprocess.run([sys.executable, "tests/sim/build.py", directory], cwd=ROOT, check=True)
        model = ROOT / "tests/sim/models/h100-sxm-8.conf"
        os.environ.update(LD_LIBRARY_PATH=directory, GPULAB_SIMULATION=str(model), SLURM_JOB_GPUS="0-7")
        seen = subprocess.run([f"{directory}/9/prolog.py"], check=False, capture_output=True, text=True, timeout=60)
        if seen.returncode != 1 or "8 of 9 GPUs" not in seen.stdout:
            raise SystemExit(seen.stdout + seen.stderr)
        took = seconds([f"{directory}/8/prolog.py"])
        del os.environ["LD_LIBRARY_PATH"], os.environ["GPULAB_SIMULATION"], os.environ["SLURM_JOB_GPUS"]
    python = seconds(["/usr/bin/python3", "-BEs", "-c", ""])
    return {"prolog (s)": took, "python3 (s)": python, "promised at most (s)": 1.0}


def main() -> None:
    """Run the benchmarks and print them."""
    benchmarks = {
        "nothing to do, one node": nothing_to_do,
        "a bare node": bare,
        "capture of one node": capturing,
        "nothing to do, 64 nodes": many_nodes,
        "plan of 1,000 hosts": partial(measured_by, "plan"),
        "facts of 8 simulated GPUs": reading,
        "Slurm's prolog, 8 simulated GPUs": prolog,
        "report of 200 and 2,000 nodes": partial(measured_by, "report"),
        "record of a rollout": partial(measured_by, "rollout"),
        "history of a year": partial(measured_by, "history"),
        "walk of a capture": partial(measured_by, "walk"),
        "10 environments of 300 packages": environments,
    }
    for title, benchmark in benchmarks.items():
        if not all(word in title for word in sys.argv[1:]):
            continue
        print(f"== {title}", flush=True)
        try:
            for name, value in benchmark().items():
                print(f"   {name:48} {value:.2f}", flush=True)
        except subprocess.CalledProcessError as error:
            print(f"   could not be measured: {error}\n{(error.stdout or '')[-3000:]}", flush=True)


if __name__ == "__main__":
    main()
