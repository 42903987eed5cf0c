"""One command reinstalls a machine over SSH, and its people, jobs and data are back: on this release, then on the next.

The machine has a larger, earlier disk with data, in LVM. Its first system is made by the installer, too, from a medium.
Whenever the machine restarts, nothing runs on it for a moment, and the data disk is hashed.
"""

import json
import re
import threading
import time
from pathlib import Path

import pytest
import yaml
from bare import SECONDS, Bare
from golden import ROOT, play
from test_installer import UUID, Lab, images, line, sha256  # noqa: F401 - images is a fixture

HOST = "node07"
SYSTEM, DATA = "SYSTEM1", "DATA1"
SIZES = {"system": 12288, "data": 13312}  # MiB: room for a second installer, and what the preflight asks for
SYSTEMS = {"bios": ("debian-12", "debian-13"), "uefi": ("debian-13",)}  # by the firmware; both begin as Debian 12
PEOPLE = Path(__file__).with_name("people.sh")
OPTIONS = {
    "gpulab_without_gpu": True,
    "nvidia_driver_state": "absent",
    "cuda_toolkits": [],  # the machines reach Debian's archive only
    "verify_expected_gpus": 0,
    "tuning_overrides": {"vm.swappiness": 10},
}


class Watched(Bare):
    """A machine that is started again whenever it restarts or goes off; hashes are those of its data disks then."""

    def __init__(self, *arguments, data, **further):
        """Nothing is started yet."""
        super().__init__(*arguments, **further)
        self._data = data
        self._over = threading.Event()
        self._thread = None
        self.hashes = []

    def live(self, serial):
        """Boot a disk, and again whenever the machine ends."""
        self._start("-no-reboot", first=serial)
        self._thread = threading.Thread(target=self._go_on, args=(serial,), daemon=True)
        self._thread.start()

    def _go_on(self, serial):
        self._process.wait()
        while not self._over.is_set():
            self.hashes.append([sha256(path) for path in self._data])
            self._start("-no-reboot", first=serial)
            self._process.wait()

    def reboot(self, ssh):
        """Let it reboot by itself, and return when all of it is up again."""
        before = len(self.hashes)
        self.run("systemctl --no-block reboot", ssh)
        deadline = time.monotonic() + SECONDS
        while len(self.hashes) == before:
            assert time.monotonic() < deadline, f"the machine did not reboot:\n{self.console()[-2000:]}"
            time.sleep(1)
        self.wait_for_ssh(ssh)
        self.run("systemctl is-system-running --wait || true", ssh, SECONDS)

    def kill(self):
        """Pull the plug for good."""
        self._over.set()
        super().kill()
        while self._thread and self._thread.is_alive():  # it may just be starting the machine again
            self._thread.join(1)
            super().kill()


class Story:
    """A machine, and the controller of its lab."""

    def __init__(self, machine, lab, directory, say, firmware):
        """Write the inventory."""
        self.firmware = firmware
        self.machine, self.lab, self.directory, self.say = machine, lab, directory, say
        (directory / "vault").write_text("only for this test\n")
        ssh = ["-o", f"UserKnownHostsFile={lab.directory}/known_hosts", "-o", f"HostKeyAlias={HOST}"]
        variables = {
            "ansible_host": "127.0.0.1",
            "ansible_port": machine.port,
            "ansible_user": "admin",
            "ansible_python_interpreter": "/usr/bin/python3",
            "ansible_ssh_private_key_file": f"{lab.directory}/id",
            "ansible_ssh_common_args": " ".join([*ssh, "-o", "StrictHostKeyChecking=yes", "-o", "IdentitiesOnly=yes"]),
            "capture_directory": f"{directory}/captures",
            "reinstall_images": str(ROOT / ".vm/installers"),
            "verify_report_directory": f"{directory}/reports",
            **OPTIONS,
        }
        types = yaml.safe_load((ROOT / "catalog/host_types.yml").read_text())["host_types"]
        nothing = {one["option"]: None for host_type in types for one in host_type["options"]}
        hosts = {"workstations": {"hosts": {HOST: {**nothing, **variables}}}}
        inventory = {"gpu-nodes": {"children": hosts}}
        (directory / "hosts.yml").write_text(json.dumps(inventory))

    def play(self, path, *options, rc=0, timeout=7200, **variables):
        """Run a playbook of the project on the machine."""
        arguments = ["-i", self.directory / "hosts.yml", "--vault-password-file", self.directory / "vault", path]
        arguments += options
        settings = {"ANSIBLE_SSH_CONTROL_PATH_DIR": str(self.directory / "cp"), "ANSIBLE_TIMEOUT": "60"}
        return play(self.say, *arguments, "-e", json.dumps(variables), timeout=timeout, rc=rc, **settings)

    def run(self, script, timeout=900):
        """Run a script on the machine as root."""
        found = self.machine.run(script, self.lab.ssh, timeout)
        assert found is not None, f"the machine does not answer:\n{self.machine.console()[-2000:]}"
        return found


@pytest.fixture(scope="module", params=SYSTEMS)
def story(request, images, tmp_path_factory, say):  # noqa: F811
    """Return a machine with that firmware on which people have lived; each test goes on from the one before."""
    directory = tmp_path_factory.mktemp("story")
    lab = Lab(directory, say)
    system, data = (lab.disk(directory, which, SIZES) for which in ("system", "data"))
    machine = Watched(directory, [(DATA, data), (SYSTEM, system)], UUID, request.param, data=[data])
    try:
        made = images("debian-12", request.param)
        plan = lab.plan(request.param, sizes=SIZES)
        say("the first system")
        machine.boot_kernel(made.kernel, [made.tree, lab.host_part(plan, directory)], line("poweroff", "media"))
        assert "DONE: the system is installed" in machine.wait_for_end()
        machine.live(SYSTEM)
        machine.wait_for_ssh(lab.ssh)
        say("people live on it")
        found = Story(machine, lab, directory, say, request.param)
        found.run(f"export DATA=/dev/vda\n{PEOPLE.read_text()}", 1800)
        found.play("site.yml")
        yield found
    finally:
        machine.kill()


RELEASE = ". /etc/os-release; echo $ID-$VERSION_ID"
LOOK = """
getent passwd root wei li instrument admin; getent group students instrument sudo
getent shadow li wei | cut -d: -f1-2,8
cat /etc/machine-id /etc/lab/name; readlink /etc/localtime; tail -1 /etc/bash.bashrc
stat -c '%a %U %G %n' /etc/lab/name
sha256sum /etc/ssh/ssh_host_*_key /data/instrument/run1 /data/home/wei/thesis /home/li/.ssh/authorized_keys
crontab -l; systemctl is-enabled lab-job.timer atd; systemctl is-active lab-job.timer atd || true
apt-mark showhold; findmnt --noheadings --output TARGET,FSTYPE,LABEL /data
cat /etc/ssh/sshd_config.d/lab.conf; sysctl -n vm.swappiness
"""


ENVIRONMENT = "/home/li/venv"  # of the system's own Python: another release has another one, which the report says


def test_one_command_brings_the_machine_back(story):
    for system in SYSTEMS[story.firmware]:
        before, starts = story.run(LOOK), len(story.machine.hashes)
        same = story.run(RELEASE) == system
        story.play("playbooks/reinstall.yml", reinstall_system=system, reinstall_confirm=HOST)
        assert story.run(RELEASE) == system
        assert story.run(LOOK) == before
        into, out_of = story.machine.hashes[starts : starts + 2]
        assert into == out_of, "the data disk differs after the installer"
        state = json.loads((story.directory / f"captures/{HOST}/rebuild.json").read_text())
        assert state["state"] == "proven"
        missing = {one["name"] for one in state["missing"]}
        assert missing == set() if same else any(name.startswith(f"{ENVIRONMENT}: Python 3.11") for name in missing)
        assert story.run(f"{ENVIRONMENT}/bin/pip --version")


def test_a_second_rebuild_changes_nothing(story):
    output = story.play("playbooks/rebuild.yml")
    assert re.search(rf"^  {HOST} +ok +.* changed=0\b", output.rpartition("\nRECAP")[2], re.MULTILINE)
