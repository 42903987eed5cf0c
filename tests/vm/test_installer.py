"""The installer on machines of its own: it wipes one disk, and where anything is not as planned, none."""

import concurrent.futures
import gzip
import hashlib
import json
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import secure
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.facts.system import SBAT_LEVEL
from ansible_collections.gpulab.node.plugins.module_utils.installer.cpio import Member, Writer
from ansible_collections.gpulab.node.plugins.module_utils.installer.plan import guid, identified
from ansible_collections.gpulab.node.plugins.module_utils.system import boot_once
from ansible_collections.gpulab.node.plugins.plugin_utils.catalog import Catalog
from ansible_collections.gpulab.node.plugins.plugin_utils.installer import image, recipe
from ansible_collections.gpulab.node.plugins.plugin_utils.installer.archive import host_part
from ansible_collections.gpulab.node.plugins.plugin_utils.rebuild import planned
from ansible_collections.gpulab.node.plugins.plugin_utils.rebuild.new_system import NewFile
from bare import Bare
from golden import CACHE
from test_boot_once import generated

MIB = 1 << 20
UUID, OTHER = "4c4c4544-0042-3010-8051-b7c04f4a3532", "4c4c4544-0042-3010-8051-b7c04f4a0000"
SYSTEM_HELD, DATA_HELD = "9a551f2f-0001-4000-8000-000000000001", "9a551f2f-0002-4000-8000-000000000002"
# In MiB: the disk with data is the larger one, and the first that the kernel finds. Small ones do for looking alone.
SIZES = {"system": 4608, "data": 5120, "more": 64}
SMALL = {"system": 96, "data": 128}
AT_ONCE = 3  # machines that only look, in 3 GiB of memory each
ARGUMENTS = ["console=ttyS0", "no_timer_check"]  # a busy machine may miss the ticks that the kernel waits for
ENFORCED = "secureboot: Secure boot enabled"  # the installer's kernel says so
# SATA's disks are probed side by side, so that either may be the first.
ONE_LEFT = "|".join(
    f"only /dev/{one} is left; out of the kernel: nvme0n1, {other}" for one, other in (("sda", "sdb"), ("sdb", "sda"))
)
NETWORK = "[Match]\nName=en*\n[Network]\nDHCP=yes\n"


@dataclass(frozen=True)
class Case:
    """A machine that is not as planned: what is on its console, and how it ends ("reboot" or "poweroff")."""

    said: str
    disks: tuple[tuple[str, str], ...] = (("DATA1", "data"), ("SYSTEM1", "system"))  # serial number, which disk
    uuid: str = UUID
    ends: str = "poweroff"
    plan: dict = field(default_factory=dict)
    hangs: bool = False
    killed: bool = False


CASES = {
    "no-such-disk": Case("No disk has the serial number SYSTEM1", (("DATA1", "data"), ("SYSTEM2", "system"))),
    "two-such-disks": Case(
        "2 disks (/dev/vda, /dev/vdb) have the serial number SYSTEM1", (("SYSTEM1", "data"), ("SYSTEM1", "system"))
    ),
    "swapped": Case(
        "The disk with the serial number SYSTEM1 holds nothing of what it held at the capture. The disk with the serial"
        " number SYSTEM1 holds what a disk that is kept held",
        (("SYSTEM1", "data"), ("DATA1", "system")),
    ),
    "kept-missing": Case("No disk has the serial number DATA1 of a disk that is kept", (("SYSTEM1", "system"),)),
    "other-machine": Case(f"This is another machine: its UUID is {OTHER}", uuid=OTHER, ends="reboot"),
    "hangs": Case(
        "LATE: nothing was written to any disk after 1 minutes", ends="reboot", plan={"minutes": 1}, hangs=True
    ),
    "killed": Case("only /dev/vdb is left; out of the kernel: vda", killed=True),
}


def sha256(path):
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def run(*argv, given=None):
    subprocess.run(argv, check=True, timeout=120, input=given, text=True)


class Lab:
    """Makes disks as they are before a reinstall, and what the installer of a host gets."""

    def __init__(self, directory, say):
        """Make the keys of the host and of who connects to it, unless they are there."""
        self.directory, self.say = directory, say
        for name in (name for name in ("id", "host") if not (directory / name).exists()):
            run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", directory / name)
        public = (directory / "host.pub").read_text()
        (directory / "known_hosts").write_text(f"node07 {public}")
        known = ["-o", f"UserKnownHostsFile={directory}/known_hosts", "-o", "HostKeyAlias=node07"]
        self.ssh = ["-F", "/dev/null", "-i", str(directory / "id"), "-o", "IdentitiesOnly=yes", "-l", "admin", *known]

    def disk(self, place, which, sizes=SIZES):
        """Write a disk with a file system and a file."""
        path = place / f"{which}.raw"
        tree = self.directory / f"tree-{which}"
        tree.mkdir(exist_ok=True)
        (tree / "content").write_bytes(hashlib.shake_256(which.encode()).digest(8 * MIB))
        with path.open("wb") as file:
            file.truncate(sizes[which] * MIB)
        held = {"system": SYSTEM_HELD, "data": DATA_HELD}.get(which)
        run("mkfs.ext4", "-q", *(["-U", held] if held else []), "-d", tree, path)
        return path

    def plan(self, firmware="bios", sizes=SIZES, **changes):
        """Return the plan of the host, with some parts replaced."""
        system, data = (sizes[which] * MIB for which in ("system", "data"))
        return identified(
            {
                "schema": 1,
                "host": "node07",
                "capture": "20261126T021500Z",
                "made": "2026-11-26T02:15:00Z",
                "machine": {"dmi_uuid": UUID.upper()},
                "disk": {"kind": "serial", "value": "SYSTEM1", "size": system, "holds": [SYSTEM_HELD]},
                "kept": [{"kind": "serial", "value": "DATA1", "size": data, "holds": [DATA_HELD]}],
                "firmware": firmware,
                "hostname": "node07",
                "user": {
                    "name": "admin",
                    "uid": 1234,
                    "gid": 1235,
                    "group": "lab",
                    "gecos": "Lab admin",
                    "home": "/home/admin",
                    "shell": "/bin/bash",
                    "password": None,
                },
                "kernel_arguments": ARGUMENTS,
                "minutes": 15,
                "least": {"memory": 2816 * MIB, "disk": system},
                **changes,
            }
        )

    def host_part(self, plan, place):
        """Write what belongs to the host."""

        def file(content, mode, uid=0, gid=0):
            return NewFile(content.encode(), mode, uid, gid)

        files = {
            "/etc/ssh/ssh_host_ed25519_key": file((self.directory / "host").read_text(), 0o600),
            "/etc/ssh/ssh_host_ed25519_key.pub": file((self.directory / "host.pub").read_text(), 0o644),
            "/etc/machine-id": file("0123456789abcdef0123456789abcdef\n", 0o444),
            "/etc/hosts": file("127.0.0.1 localhost\n127.0.1.1 node07\n", 0o644),
            "/etc/systemd/network/10-dhcp.network": file(NETWORK, 0o644),
            "/etc/sudoers.d/gpulab-reinstall": file("admin ALL=(ALL) NOPASSWD: ALL\n", 0o440),
            "/home/admin/.ssh/authorized_keys": file((self.directory / "id.pub").read_text(), 0o600, 1234, 1235),
        }
        path = place / "host.cpio.gz"
        path.write_bytes(host_part(plan, files))
        return path


@pytest.fixture(scope="module")
def lab(tmp_path_factory, say):
    return Lab(tmp_path_factory.mktemp("lab"), say)


@pytest.fixture(scope="module")
def images(say):
    """Return a function that gives the image of a system for a firmware, from this machine's mirror of Debian."""

    def made(system, firmware, packages=(), architecture="x86_64"):
        listed = subprocess.run(
            ["apt-get", "indextargets", "--format", "$(CODENAME) $(REPO_URI)", "Created-By: Packages"],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout.split("\n")
        mirrors = {("security" in line): line.split()[1] for line in listed if "/debian" in line}
        addresses = mirrors[False], mirrors[True]
        wanted = recipe.of(Catalog().installers[system], (architecture, firmware), addresses, [*packages], None)
        say(f"the image {wanted.name()}")
        return image.make(CACHE / "installers", wanted, 4096 * MIB)[0]

    return made


def line(ends, origin, arguments=ARGUMENTS):
    return " ".join(["rdinit=/gpulab/init panic=60", f"gpulab.refused={ends} gpulab.from={origin}", *arguments])


def old_system(place, made, host, plan):
    """Write the system disk with Debian's signed boot loaders, as the command that reinstalls a host leaves it."""
    path, tree = place / "system.raw", place / "old"
    choose(tree, made, host, plan)
    with path.open("wb") as file:
        file.truncate(SIZES["system"] * MIB)
    table = f"label: gpt\nsize={secure.ESP_MIB}MiB, type=uefi\ntype=linux\n"
    run("sfdisk", "--quiet", path, given=table)
    run("dd", f"if={secure.esp(place / 'esp.raw')}", f"of={path}", "bs=1M", "seek=1", "conv=notrunc", "status=none")
    start = secure.ESP_MIB + 1
    size = f"{SIZES['system'] - start - 1}M"
    run("mkfs.ext4", "-q", "-F", "-U", SYSTEM_HELD, "-d", tree, "-E", f"offset={start * MIB}", path, size)
    return path


def choose(tree, made, host, plan):
    """Let GRUB start the installer once from a file system."""
    of_grub, here = tree / "boot/grub", tree / f"boot/{boot_once.ENTRY}"
    for directory in (of_grub, here):
        directory.mkdir(parents=True)
    files = [made.kernel, made.tree, host]
    for path in files:
        shutil.copyfile(path, here / path.name)
    where = boot_once.Place(*[f"/boot/{boot_once.ENTRY}"] * 2, SYSTEM_HELD, ("part_gpt", "part_msdos", "ext2"))
    kernel, *initrds = (path.name for path in files)
    arguments = planned.kernel_arguments(plan, refused="reboot", source="disk")
    entry = boot_once.entry(where, "gpulab: reinstall node07", kernel, initrds, arguments)
    (of_grub / "custom.cfg").write_text(entry)
    (of_grub / "grub.cfg").write_text(generated("00_header") + generated("41_custom"))
    for words in (["create"], ["set", f"{boot_once.NEXT}={boot_once.ENTRY}"]):
        run("grub-editenv", of_grub / "grubenv", *words)


def hanging(place):
    """Return an archive that puts a program into the tree which never ends, where the installer packs itself."""
    script = b"#!/bin/sh\nexec sleep 86400\n"
    path = place / "hanging.cpio.gz"
    parts = []
    writer = Writer(parts.append)
    writer.add(Member(b"usr/bin/zstd", 0o100755, size=len(script)), [script])
    writer.end()
    path.write_bytes(gzip.compress(b"".join(parts)))
    return path


@pytest.fixture(scope="module")
def outcomes(lab, images, tmp_path_factory):
    """Return what came of each case, by its name: the console, and whether each disk is as it was."""
    made = images("debian-12", "bios")

    def look(name):
        case, place = CASES[name], tmp_path_factory.mktemp(name)
        disks = {which: lab.disk(place, which, SMALL) for _serial, which in case.disks}
        before = {which: sha256(path) for which, path in disks.items()}
        initrds = [
            made.tree,
            lab.host_part(lab.plan(sizes=SMALL, **case.plan), place),
            *([hanging(place)] if case.hangs else []),
        ]
        machine = Bare(place, [(serial, disks[which]) for serial, which in case.disks], case.uuid, cpus=1)
        try:
            lab.say(f"{name}: booting")
            machine.boot_kernel(made.kernel, initrds, line(case.ends, "media"))
            if case.killed:
                machine.wait_for(case.said)
            else:
                machine.wait_for_end()
        finally:
            machine.kill()
        console = machine.console()
        lab.say(f"{name}: over")
        after = {which: sha256(path) for which, path in disks.items()}
        for path in disks.values():
            path.unlink()
        return console, {which: after[which] == digest for which, digest in before.items()}

    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip(CASES, pool.map(look, CASES)))


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_written_where_something_is_not_as_planned(outcomes, name):
    console, equal = outcomes[name]
    case = CASES[name]
    assert case.said in console
    assert equal == {which: True for _serial, which in case.disks}
    assert "POINT OF NO RETURN" not in console
    if not case.killed:
        assert f"gpulab: {case.ends} in 20 s" in console
        assert ("reboot: Restarting system" if case.ends == "reboot" else "reboot: Power down") in console


def check(machine, lab, plan, system):
    """Look at the installed system from within."""

    def run(script):
        return machine.run(script, lab.ssh, 600)

    assert run("systemctl is-system-running --wait || systemctl --failed") == "running"
    assert json.loads(run("cat /etc/gpulab-installed-by"))["plan"] == plan["id"]
    assert run(". /etc/os-release; echo $ID-$VERSION_ID") == system
    assert run("hostname; cat /etc/machine-id").split() == ["node07", "0123456789abcdef0123456789abcdef"]
    assert run("getent passwd admin") == "admin:x:1234:1235:Lab admin:/home/admin:/bin/bash"
    assert run("getent shadow admin").split(":")[1] == "*"
    assert run("stat -c '%a %u %g' /home/admin /home/admin/.ssh /home/admin/.ssh/authorized_keys").split("\n") == [
        *("700 1234 1235", "700 1234 1235", "600 1234 1235")
    ]
    assert run("ls /etc/ssh/ssh_host_*").split("\n") == [
        *("/etc/ssh/ssh_host_ed25519_key", "/etc/ssh/ssh_host_ed25519_key.pub")
    ]
    root = guid(plan, "root-fs")
    assert run("findmnt --noheadings --output UUID /") == root
    assert f"root=UUID={root}" in run("cat /proc/cmdline")
    assert plan["kernel_arguments"][0] in run("cat /proc/cmdline").split()
    assert run("ls -d /gpulab /boot/gpulab 2>/dev/null || true") == "", "the plan and its secrets stay behind"
    assert run(
        "lsblk --nodeps --noheadings --output PTUUID $(findmnt --noheadings --output SOURCE / | sed 's/p*[0-9]*$//')"
    ) == (guid(plan, "done"))
    assert run("dpkg --audit") == ""


def test_a_bios_machine_is_installed_and_boots(lab, images, tmp_path):
    made = images("debian-12", "bios")
    system, data = lab.disk(tmp_path, "system"), lab.disk(tmp_path, "data")
    before = sha256(data)
    plan = lab.plan()
    machine = Bare(tmp_path, [("DATA1", data), ("SYSTEM1", system)], UUID)
    initrds = [made.tree, lab.host_part(plan, tmp_path)]
    try:
        machine.boot_kernel(made.kernel, initrds, line("poweroff", "media"))
        console = machine.wait_for_end()
        assert "only /dev/vdb is left; out of the kernel: vda" in console
        assert "DONE: the system is installed" in console
        assert sha256(data) == before
        lab.say("installed; booting the medium again, as if it had been left in")
        installed = sha256(system)
        machine.boot_kernel(made.kernel, initrds, line("poweroff", "media"))
        assert "was installed by this plan already" in machine.wait_for_end()
        assert (sha256(system), sha256(data)) == (installed, before)
        lab.say("booting the disk")
        machine.boot_disk("SYSTEM1")
        machine.wait_for_ssh(lab.ssh)
        check(machine, lab, plan, "debian-12")
    finally:
        machine.kill()
    assert sha256(data) == before


def boot_order(machine, lab):
    """Return what the firmware starts first, and how many entries are of the installed system."""
    told = machine.run("efibootmgr", lab.ssh)
    first = re.search(r"^BootOrder: (\w+)", told, re.MULTILINE)[1]
    entries = dict(re.findall(r"^Boot(\w{4})\*? (\S+)", told, re.MULTILINE))
    return entries[first], [*entries.values()].count("debian")


def test_an_installation_under_secure_boot_that_lost_power_goes_on_from_the_disk(lab, images, tmp_path):
    """With Debian 13, firmware that enforces Secure Boot, and disks on three kinds of controllers.

    The signed GRUB of the old system starts the installer, that of the new one what comes then.
    """
    made = images("debian-13", "uefi")
    plan = lab.plan(
        "uefi",
        kept=[
            *lab.plan()["kept"],
            {"kind": "serial", "value": "MORE1", "size": SIZES["more"] * MIB, "holds": []},
        ],
    )
    system = old_system(tmp_path, made, lab.host_part(plan, tmp_path), plan)
    data, more = (lab.disk(tmp_path, which) for which in ("data", "more"))
    before = sha256(data), sha256(more)
    disks = [("DATA1", data, "nvme"), ("MORE1", more, "sata"), ("SYSTEM1", system, "sata")]
    machine = Bare(tmp_path, disks, UUID, "secure")
    try:
        machine.boot_disk("SYSTEM1")
        machine.wait_for(ENFORCED)
        machine.wait_for(ONE_LEFT)
        machine.wait_for("3 of 5: the system")
        assert "takes no boot entry" not in machine.console()
        lab.say("pulling the plug in the middle of the installation")
        machine.kill()
        assert (sha256(data), sha256(more)) == before
        machine.boot_disk("SYSTEM1")
        machine.wait_for(ENFORCED)
        machine.wait_for("the installer of node07, plan")
        machine.wait_for(ONE_LEFT)
        machine.wait_for("DONE: the system is installed")
        lab.say("installed; it boots by itself")
        machine.wait_for_ssh(lab.ssh)
        check(machine, lab, plan, "debian-13")
        assert machine.run("findmnt --noheadings --output FSTYPE /boot/efi", lab.ssh) == "vfat"
        assert machine.run(f"od -An -tu1 {secure.STATE}", lab.ssh).split()[-1] == "1"
        assert "[integrity]" in machine.run("cat /sys/kernel/security/lockdown", lab.ssh)
        assert boot_order(machine, lab) == ("debian", 1)
        level = machine.run(f"cat {SBAT_LEVEL} | tail --bytes=+5", lab.ssh)  # after four bytes of attributes
        assert level.startswith("sbat,1,")
        assert [Path(path).name for path in made.loaders] == ["grubx64.efi.signed", "shimx64.efi.signed"]
        made.check_loaders("node07", level)
        with pytest.raises(Refusal, match="GPULAB-R038"):
            made.check_loaders("node07", f"{level}\ngrub,99")
        lab.say("booting it with a firmware that has forgotten its entries")
        machine.run("sync", lab.ssh)
        machine.kill()
        (tmp_path / "variables.fd").unlink()
        machine.boot_disk("SYSTEM1")
        machine.wait_for_ssh(lab.ssh)
        # The removable path has no fallback of shim's, which would write entries of its own and restart the machine.
        assert boot_order(machine, lab) == ("UEFI", 0)
        assert machine.run(f"od -An -tu1 {secure.STATE}", lab.ssh).split()[-1] == "1"
    finally:
        machine.kill()
    assert (sha256(data), sha256(more)) == before
