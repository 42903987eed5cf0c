"""The disks that the tests boot: lab nodes, made bootable. Each is made once per state of its sources."""

import fcntl
import hashlib
import json
import os
import shutil
import signal
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path

import disk

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".vm"
NODE = "vm"
WISHES = "tests/vm/wishes.yml"


@dataclass(frozen=True)
class Recipe:
    """What a disk is made of: a release of Debian, playbooks with their time limits, and the files of these."""

    name: str
    release: str
    plays: tuple[tuple[tuple[str, ...], int], ...]
    sources: tuple[str, ...]

    @property
    def lab(self):
        """Return the name of the lab that its node is in while the disk is made."""
        return f"gpulab-vm-{self.name}"

    def digest(self):
        """Return a hash of all files that the disk depends on; of Debian's packages it holds those of its day."""
        sources = ["lab", *(f"tests/vm/{name}" for name in ("bootable.yml", "disk.py", "golden.py")), *self.sources]
        listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *sources]
        names = subprocess.run(listing, cwd=ROOT, check=True, capture_output=True, text=True, timeout=60).stdout.split()
        digest = hashlib.sha256()
        for name in filter(lambda name: (ROOT / name).is_file(), sorted(names)):  # a link may lead to a directory
            digest.update(name.encode() + b"\0" + (ROOT / name).read_bytes())
        return digest.hexdigest()[:12]


class Golden:
    """A directory with the disk, and the key, the known host and the inventory of the node on it."""

    def __init__(self, recipe):
        """Name it by its sources."""
        self._recipe = recipe
        self.directory = CACHE / f"{recipe.name}-{recipe.digest()}"
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
        """Make the disk unless it is there; several tests may want it at one time."""
        CACHE.mkdir(exist_ok=True)
        with (CACHE / f"{self._recipe.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if self.disk.exists():
                say(f"the disk is there: {self.directory}")
            else:
                self._make(say)

    def _make(self, say):
        for former in CACHE.glob(f"{self._recipe.name}-*"):
            shutil.rmtree(former)
        lab = self._recipe.lab
        _remove(lab)
        try:
            nodes = [{"name": NODE, "release": self._recipe.release, "gpu": "none", "groups": ["workstations"]}]
            variables = {"lab_name": lab, "lab_directory": str(self.directory), "lab_nodes": nodes}
            play(say, "-i", "localhost,", "lab/up.yml", "-e", json.dumps(variables), timeout=900)
            for arguments, seconds in self._recipe.plays:
                play(say, "-i", self.inventory, *arguments, timeout=seconds)
            say("writing its disk")
            disk.make(f"{lab}-{NODE}", self.disk)
        finally:
            say("removing the node")
            _remove(lab)


def play(say, *arguments, timeout, rc=0, **environment):
    """Run ansible-playbook and return what it printed. Fails when it ends otherwise, or after timeout seconds."""
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
    assert process.returncode == rc, f"ansible-playbook ended with {process.returncode}"
    return "".join(lines)


def _remove(lab):
    """Remove the container and its network; the directory stays, for it has the keys to the disk."""
    for argv in (["docker", "rm", "--force", "--volumes", f"{lab}-{NODE}"], ["docker", "network", "rm", lab]):
        subprocess.run(argv, check=False, capture_output=True, timeout=60)
