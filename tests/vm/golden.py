"""The disk that the tests boot: a lab node, made bootable and provisioned. Made once per state of its sources."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import threading
from pathlib import Path

import disk

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".vm"
LAB = "gpulab-vm"
NODE = "vm"
NODES = [{"name": NODE, "release": "bookworm", "gpu": "none", "groups": ["workstations"]}]
WISHES = "tests/vm/wishes.yml"
# What the disk depends on; of Debian's packages it holds those of the day it was made.
SOURCES = ["site.yml", "playbooks", "roles", "plugins", "catalog", "lab"]
SOURCES += [f"tests/vm/{name}" for name in ("bootable.yml", "disk.py", "golden.py", "wishes.yml")]


class Golden:
    """A directory with the disk, and the key, the known host and the inventory of the node on it."""

    def __init__(self):
        """Name it by its sources."""
        self.directory = CACHE / _digest()
        self.disk = self.directory / "disk.raw"
        self.inventory = self.directory / "inventory"

    @property
    def ssh_options(self):
        """Return how to log in, as lines of ssh_config: the machine is the lab's node at another address."""
        known_hosts = self.directory / "known_hosts"
        return [
            "User admin",
            f"IdentityFile {self.directory}/id",
            "IdentitiesOnly yes",
            f"UserKnownHostsFile {known_hosts}",
            f"HostKeyAlias {known_hosts.read_text().split()[0]}",
        ]

    def make(self, say):
        """Make the disk unless it is there."""
        if self.disk.exists():
            say(f"the disk is there: {self.directory}")
            return
        shutil.rmtree(CACHE, ignore_errors=True)
        _remove_lab()
        try:
            lab = {"lab_name": LAB, "lab_directory": str(self.directory), "lab_nodes": NODES}
            play(say, "-i", "localhost,", "lab/up.yml", "-e", json.dumps(lab), timeout=900)
            play(say, "-i", self.inventory, "tests/vm/bootable.yml", timeout=600)
            # Without the proof, which a container on a kernel that is not its own does not pass; the machine does.
            site = ["site.yml", "-l", "gpu-nodes", "-e", f"@{WISHES}", "-e", "verify_hosts=!all"]
            play(say, "-i", self.inventory, *site, timeout=1800)
            say("writing its disk")
            disk.make(f"{LAB}-{NODE}", self.disk)
        finally:
            say("removing the node")
            _remove_lab()


def play(say, *arguments, timeout, **environment):
    """Run ansible-playbook and return what it printed. Fails when it fails, or after timeout seconds."""
    say(f"ansible-playbook {' '.join(map(str, arguments))[:150]}")
    settings = {"ANSIBLE_HOME": str(ROOT / ".ansible"), "PYTHONUNBUFFERED": "1", **environment}
    lines = []
    with subprocess.Popen(
        ["ansible-playbook", *arguments],
        cwd=ROOT,
        env={**os.environ, **settings},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        alarm = threading.Timer(timeout, os.killpg, (process.pid, signal.SIGKILL))
        alarm.start()
        try:
            for line in process.stdout:
                lines.append(line)
                say(f"    {line.rstrip()}")
            process.wait()
        except BaseException:
            os.killpg(process.pid, signal.SIGTERM)
            raise
        finally:
            alarm.cancel()
    assert process.returncode == 0, f"ansible-playbook ended with {process.returncode}"
    return "".join(lines)


def _digest():
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *SOURCES]
    names = subprocess.run(listing, cwd=ROOT, check=True, capture_output=True, text=True, timeout=60).stdout.split()
    digest = hashlib.sha256()
    for name in sorted(names):
        digest.update(name.encode() + b"\0" + (ROOT / name).read_bytes())
    return digest.hexdigest()[:12]


def _remove_lab():
    """Remove the container and its network; the directory stays, for it has the keys to the disk."""
    for argv in (["docker", "rm", "--force", "--volumes", f"{LAB}-{NODE}"], ["docker", "network", "rm", LAB]):
        subprocess.run(argv, check=False, capture_output=True, timeout=60)
