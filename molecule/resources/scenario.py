"""What the tests of scenarios have in common: all nodes at once, tasks on a node, playbooks on the scenario's nodes."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import testinfra

PROJECT = Path(os.environ["MOLECULE_PROJECT_DIRECTORY"])
SCENARIO = Path(os.environ["MOLECULE_SCENARIO_DIRECTORY"])
# What a run of the scenario makes, its lab among it
EPHEMERAL = Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"])
LAB = EPHEMERAL / "lab"
CONTAINERS = f"gpulab-{os.environ['MOLECULE_SCENARIO_NAME'].replace('_', '-')}"
CONVERGE = "molecule/resources/converge.yml"


@dataclass(frozen=True)
class Run:
    """A run of a playbook: its status, all that it printed, and what was to be seen of each node by name after it."""

    status: int
    output: str
    nodes: dict[str, Any]

    @property
    def changed(self):
        """Return the number of changed tasks by node."""
        found = re.findall(r"(\S+)\s+(?::|\S+\s+\S+)\s+ok=\d+\s+changed=(\d+)", self.output)
        return {name: int(count) for name, count in found}


def nodes():
    """Return the nodes by name."""
    found = testinfra.get_hosts(["ansible://gpu-nodes"], ansible_inventory=str(LAB / "inventory"), sudo=True)
    return {host.backend.host: host for host in found}


def each(look):
    """Return what a function finds on each node, by the node's name."""
    return {name: look(host) for name, host in nodes().items()}


def everywhere(command):
    """Run a command on every node."""
    for host in nodes().values():
        host.check_output(command)


def task(host, module, /, *, check=False, **options):
    """Run a task on the node; return its result, refused or not."""
    given = json.dumps(options) if options else None
    try:
        return host.ansible(module, given, check=check, diff=True, become=True)
    except host.ansible.AnsibleException as error:
        return error.result


def reboot(host):
    """Reboot a node, and wait until it is back. While it goes down, it answers with another boot's ID already."""
    result = task(host, "ansible.builtin.reboot", post_reboot_delay=15)
    assert result.get("rebooted"), result


def hide(pattern, *, back=False):
    """Take files out of the repository that the scenario serves, as vendors do, or put them back."""
    for path in (LAB / "repository").rglob(f"{pattern}{'.hidden' if back else ''}"):
        path.rename(path.with_suffix("") if back else f"{path}.hidden")


def nothing(host):
    """See nothing of a node."""


def start(path, *options, **variables):
    """Start a playbook of the project on the scenario's nodes, in a process group of its own."""
    inventories = [f"--inventory={place}" for place in (EPHEMERAL / "inventory", LAB / "inventory")]
    program = Path(sys.executable).with_name("ansible-playbook")
    return subprocess.Popen(
        [program, *inventories, f"--extra-vars={json.dumps(variables)}", *options, PROJECT / path],
        cwd=PROJECT,
        env={**os.environ, "ANSIBLE_FORCE_COLOR": "0"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def playbook(path, *options, look=nothing, **variables):
    """Run a playbook of the project on the scenario's nodes; look returns what there is to be seen of one."""
    with start(path, *options, **variables) as process:
        output, _none = process.communicate()
    return Run(process.returncode, output, each(look))


def succeeds(name, command):
    """Say whether a shell command succeeds on a node. It logs nobody in: somebody at work would keep the driver."""
    return not subprocess.run(["docker", "exec", f"{CONTAINERS}-{name}", "sh", "-c", command], check=False).returncode


def cut_off(path, *options, when, look=nothing, timeout=300, **variables):
    """Run a playbook, and kill the controller once a shell command succeeds on every node, or a function is true."""
    reached = when if callable(when) else lambda: all(succeeds(name, when) for name in nodes())
    with start(path, *options, **variables) as process:
        deadline = time.monotonic() + timeout
        while not reached():
            assert process.poll() is None, process.communicate()[0]
            assert time.monotonic() < deadline, f"{when} did not come to succeed on every node"
            time.sleep(0.5)
        os.killpg(process.pid, signal.SIGKILL)
        output, _none = process.communicate()
    return Run(process.returncode, output, each(look))
