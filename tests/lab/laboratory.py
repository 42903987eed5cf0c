"""The lab as tests drive it: start and remove it, run playbooks on it as an operator does, look into its nodes."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DIRECTORY = ROOT / ".lab-test"
UP_SECONDS = 900  # the node images may have to be made
# What the person who waits sees of a run: plays, hosts at work, the recap. The rest is in its log.
TOLD = re.compile(r"(PLAY|RECAP) |[A-Za-z]\S*  \S|  \S+ +\S+ +[\d.hms]+  ok=")


@dataclass(frozen=True)
class Run:
    """How a run of ansible-playbook ended. recap: counts by host."""

    rc: int
    output: str
    log: Path
    seconds: float

    @property
    def recap(self):
        """Return {host: {"verdict": "ok", "changed": 0, "failed": 0, ...}}."""
        text = self.output.rpartition("\nRECAP")[2]
        rows = re.findall(r"^  (\S+) +(ok|changed|failed|unreachable) +\S+  (ok=.*)$", text, re.MULTILINE)
        return {
            host: {"verdict": verdict} | {name: int(count) for name, count in re.findall(r"(\w+)=(\d+)", counts)}
            for host, verdict, counts in rows
        }

    def said_of(self, host):
        """Return what the recap says of a host: its line and what was wrong with it."""
        text = self.output.rpartition("\nRECAP")[2]
        match = re.search(rf"^  {re.escape(host)} .*(?:\n    .*)*", text, re.MULTILINE)
        assert match, f"{host} is not in the recap; see {self.log}"
        return match[0]


class Playbook:
    """ansible-playbook at work, its output on its way to the log and, in part, to whoever watches."""

    def __init__(self, argv, environment, log, say):
        """Start it."""
        self.log, self._say, self._lines = log, say, []
        self._started = time.monotonic()
        self.process = subprocess.Popen(
            argv,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def output(self):
        """Return what it printed so far."""
        return "".join(self._lines)

    def wait(self, timeout):
        """Return its Run; fail, and kill it, after timeout seconds."""
        try:
            rc = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            pytest.fail(f"no end after {timeout} s; see {self.log}")
        self._reader.join(timeout=10)
        return Run(rc, self.output, self.log, time.monotonic() - self._started)

    def wait_until(self, holds, timeout, what):
        """Return as soon as holds() is true; fail after timeout seconds, or when the run ends before."""
        deadline = time.monotonic() + timeout
        while not holds():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                pytest.fail(f"waited in vain until {what}; see {self.log}")
            time.sleep(1)

    def kill(self):
        """Kill it as a crash would: it cleans up nothing."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(timeout=10)

    def _read(self):
        with self.log.open("w") as log:
            for line in self.process.stdout:
                self._lines.append(line)
                log.write(line)
                log.flush()
                if TOLD.match(line):
                    self._say(f"    {line.rstrip()}")


class Node:
    """A node as its own root sees it, past SSH and Ansible."""

    def __init__(self, container):
        """Name its container."""
        self.container = container

    def run(self, script, timeout=120):
        """Run a shell script on it; return what it printed, without the last line break. Fails when it fails."""
        argv = ["docker", "exec", self.container, "sh", "-ec", script]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=timeout)
        assert done.returncode == 0, f"{self.container}: {script}\n{done.stdout}{done.stderr}"
        return done.stdout.rstrip("\n")

    def holds(self, script):
        """Say whether a shell script succeeds on it."""
        argv = ["docker", "exec", self.container, "sh", "-ec", script]
        return subprocess.run(argv, capture_output=True, check=False, timeout=120).returncode == 0

    def start(self, script):
        """Start a shell script on it that goes on by itself."""
        argv = ["docker", "exec", "--detach", self.container, "sh", "-ec", script]
        subprocess.run(argv, check=True, capture_output=True, timeout=60)

    def boot(self):
        """Return what is new with every boot."""
        return self.run("cut -d' ' -f22 /proc/1/stat; cat /proc/sys/kernel/random/boot_id")


class Lab:
    """A lab of its own beside the one of `make lab`. say tells the person who waits what goes on."""

    def __init__(self, name, say):
        """Claim its name; nothing is started yet."""
        self.name, self._say = name, say
        self._claim()
        self._runs = 0
        self.logs = DIRECTORY / "logs"
        # Of its own: a connection that Ansible keeps open must not outlive its node. Short: it holds sockets.
        self._sockets = tempfile.mkdtemp(prefix="gpulab-")
        self.directory = DIRECTORY / name
        self.inventory = self.directory / "inventory"

    def up(self, nodes):
        """Start these nodes (see lab/nodes.yml), after removing what a killed run of any checkout left."""
        argv = ["docker", "ps", "--all", "--quiet", "--filter", f"label=gpulab={self.name}"]
        if subprocess.run(argv, check=True, capture_output=True, timeout=60).stdout:
            self._manage("down.yml", "{}")
        self._say(f"starting {', '.join(node['name'] for node in nodes)}")
        run = self._manage("up.yml", json.dumps({"lab_nodes": nodes}))
        assert run.rc == 0, f"the lab did not start; see {run.log}"

    def renew(self, name, nodes):
        """Replace one of these nodes by a fresh one, as from the installer, with the former host keys."""
        container, known = self.node(name).container, self.directory / "known_hosts"
        former = known.read_bytes()
        keys = subprocess.run(
            ["docker", "exec", container, "sh", "-c", "cd /etc/ssh && tar -c ssh_host_*"],
            check=True,
            capture_output=True,
        ).stdout
        subprocess.run(["docker", "rm", "--force", "--volumes", container], check=True, capture_output=True)
        run = self._manage("up.yml", json.dumps({"lab_nodes": nodes}))
        assert run.rc == 0, f"the node did not start; see {run.log}"
        back = "rm /etc/ssh/ssh_host_*; tar -xC /etc/ssh && systemctl restart ssh"
        argv = ["docker", "exec", "--interactive", container, "sh", "-c", back]
        subprocess.run(argv, check=True, capture_output=True, input=keys)
        known.write_bytes(former)

    def down(self):
        """Remove all of it but the logs."""
        self._say("removing the nodes")
        run = self._manage("down.yml", "{}")
        shutil.rmtree(self._sockets)
        assert run.rc == 0, f"the lab could not be removed; see {run.log}"

    def node(self, name):
        """Return a node."""
        return Node(f"{self.name}-{name}")

    def start(self, playbook, *arguments, **environment):
        """Start ansible-playbook on the lab's inventory; variables are of the environment."""
        return self._start("-i", str(self.inventory), playbook, *arguments, **environment)

    def play(self, playbook, *arguments, timeout=600, **environment):
        """Run ansible-playbook to its end and return its Run."""
        return self.start(playbook, *arguments, **environment).wait(timeout)

    def ssh(self, name, command, user="admin", key="id"):
        """Return the words that run a command on a node by SSH, as a user with a key of the lab's directory."""
        inventory = yaml.safe_load((self.inventory / "hosts.yml").read_text())
        known = next(group["hosts"][name] for group in inventory.values() if name in group.get("hosts", {}))
        options = (f"UserKnownHostsFile={self.directory}/known_hosts", "IdentitiesOnly=yes", "BatchMode=yes")
        argv = ["ssh", "-i", f"{self.directory}/{key}", *(f"-o{option}" for option in options)]
        return [*argv, f"{user}@{known['ansible_host']}", command]

    def log_in(self, name, command, user="admin"):
        """Start a command on a node as somebody who comes by SSH; return the process of the connection."""
        return subprocess.Popen(self.ssh(name, command, user), stdin=subprocess.DEVNULL)

    def serve_drivers(self, system, *drivers):
        """Serve a stand-in for NVIDIA's repository; return the variables by which nodes take their driver from it.

        system: theirs, as NVIDIA calls it. drivers: as tests/stubs/nvidia_repository.py takes them.
        """
        known = (self.inventory / "hosts.yml").read_text()
        address = re.search(r"ansible_host: \"?([\d.]+)\.\d+", known)[1] + ".1"
        directory = self.directory / "repository"
        serving = {"stub_directory": str(directory), "stub_address": address, "stub_contents": drivers}
        run = self.play(
            "molecule/resources/nvidia_repository.yml", "-e", json.dumps(serving), MOLECULE_PROJECT_DIRECTORY=str(ROOT)
        )
        assert run.rc == 0, run.output[-3000:]
        return {
            "nvidia_driver_source": "nvidia",
            "gpulab_nvidia_repository_url": f"http://{address}:8642/compute/cuda/repos/{system}/x86_64/",
            "gpulab_nvidia_repository_fingerprint": (directory / "fingerprint").read_text().strip(),
        }

    def _claim(self):
        """Hold the lab's name for as long as this process lives: two checkouts would work on the same nodes."""
        self._claimed = (Path(tempfile.gettempdir()) / f"{self.name}.lock").open("w")
        try:
            fcntl.flock(self._claimed, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pytest.fail(f"another run is at work on the lab {self.name}")

    def _manage(self, playbook, variables):
        own = json.dumps({"lab_name": self.name, "lab_directory": str(self.directory)})
        return self._start("-i", "localhost,", f"lab/{playbook}", "-e", own, "-e", variables).wait(UP_SECONDS)

    def _start(self, *arguments, **environment):
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        self.logs.mkdir(parents=True, exist_ok=True)
        self._runs += 1
        playbook = next(Path(word).stem for word in arguments if word.endswith(".yml"))
        log = self.logs / f"{time.strftime('%H%M%S')}-{self._runs:02}-{playbook}.log"
        self._say(f"ansible-playbook {playbook} {' '.join(arguments[3:])[:150]}")
        return Playbook(
            ["ansible-playbook", *arguments],
            {
                **kept,
                "ANSIBLE_HOME": str(ROOT / ".ansible"),
                "ANSIBLE_SSH_CONTROL_PATH_DIR": self._sockets,
                "PYTHONUNBUFFERED": "1",
                "ANSIBLE_TIMEOUT": "60",  # a busy machine is no node that is gone
                "GPULAB_PLAIN_INTERVAL": "10",
                **environment,
            },
            log,
            self._say,
        )
