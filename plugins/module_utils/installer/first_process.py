# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The installer: the first process of a machine, whose only file system is its memory.

Where it ends by itself, the kernel panics and reboots. Whatever is refused or fails before the point of no return
leaves all disks as they are.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.installer.plan import Plan

from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
from ansible_collections.gpulab.node.plugins.module_utils.installer import apart, install, machine, texts
from ansible_collections.gpulab.node.plugins.module_utils.installer.console import say
from ansible_collections.gpulab.node.plugins.module_utils.installer.judge import chosen, judge
from ansible_collections.gpulab.node.plugins.module_utils.installer.watchdog import SECONDS, Watchdog

PLAN = install.OWN / "plan.json"
PATIENCE = 30.0  # seconds for disks to appear
SHOWN = 20.0  # seconds that a reason stays on the console
AFTERWARDS = 60 * 60.0  # seconds for the installation, after the point of no return
_REBOOT = {"reboot": 0x01234567, "poweroff": 0x4321FEDC}  # linux/reboot.h
# Rules of udev that would assemble or start what is on other disks.
_RULES = ("md-raid", "lvm", "dm-", "mpath", "multipath", "bcache", "zfs", "btrfs")
_RULES_AT, _RULES_OFF = Path("/usr/lib/udev/rules.d"), Path("/run/udev/rules.d")
_MOUNTS = (
    ("proc", "proc", "/proc", ""),
    ("sysfs", "sys", "/sys", ""),
    ("devtmpfs", "dev", "/dev", "mode=0755"),
    ("tmpfs", "run", "/run", "mode=0755,size=70%"),
)
_EFIVARS = "/sys/firmware/efi/efivars"


class RefusedError(Exception):
    """The plan must not be carried out here."""


def main() -> None:
    """Be the first process: judge, install, reboot."""
    started = texts.start("")
    passed: list[bool] = []
    try:
        _mount()
        started = _started()
        _begin()
        _install(started, passed)
    except BaseException as error:  # noqa: BLE001 - whatever happens, people see it and the machine goes on
        if passed:
            say(f"FAILED: {error}. The disk is wiped. The installer starts again from it, if that was written.")
            _end("reboot")
        word = "REFUSED" if isinstance(error, RefusedError) else f"FAILED ({type(error).__name__})"
        say(f"{word}: {error} Nothing was written to any disk by this start of the installer.")
        _end(started.refused)
    say("DONE: the system is installed; it boots now")
    _reboot("reboot")


def _mount() -> None:
    """Mount the kernel's file systems."""
    os.environ.update({"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "HOME": "/root"})
    for kind, source, place, options in _MOUNTS:
        Path(place).mkdir(exist_ok=True)
        install.run(["mount", "-t", kind, *(["-o", options] if options else []), source, place])


def _started() -> texts.Start:
    return texts.start(Path("/proc/cmdline").read_text(encoding="utf-8"))


def _begin() -> None:
    """Let the devices appear, and nothing be assembled of them."""
    if Path(_EFIVARS).is_dir():
        install.run(["mount", "-t", "efivarfs", "efivarfs", _EFIVARS])
    _RULES_OFF.mkdir(parents=True, exist_ok=True)
    for path in _RULES_AT.iterdir():
        if any(word in path.name for word in _RULES):
            (_RULES_OFF / path.name).symlink_to("/dev/null")
    install.run(["/usr/lib/systemd/systemd-udevd", "--daemon"])
    for kind in ("subsystems", "devices"):
        install.run(["udevadm", "trigger", f"--type={kind}", "--action=add"])
    subprocess.run(["udevadm", "settle", "--timeout=120"], check=False, timeout=180)
    subprocess.run(["modprobe", "softdog"], check=False, timeout=60)


def _install(started: texts.Start, passed: list[bool]) -> None:
    """Carry out the plan; passed gets a member at the point of no return."""
    plan: Plan = json.loads(PLAN.read_bytes())
    minutes = plan["minutes"]
    watchdog = Watchdog(minutes * 60.0, lambda: _late(minutes, started, passed))
    say(f"the installer of {plan['host']}, plan {plan['id']}: {minutes} minutes to judge, {watchdog.count} watchdogs")
    disk = _judged(plan)
    others = apart.separate(Path(disk).name)
    say(f"only {disk} is left; out of the kernel: {', '.join(sorted(others)) or 'nothing'}")
    if _judged_alone(plan) != disk:
        message = f"{disk} is another disk now."
        raise RefusedError(message)
    install.pack()
    if not watchdog.extend(AFTERWARDS):
        time.sleep(SECONDS * 2)  # the time is over, and the machine about to reboot
        _end(started.refused)
    passed.append(True)
    say(f"POINT OF NO RETURN: {disk} is wiped now")
    install.Installation(plan, disk, started, say).run()
    watchdog.close()


def _judged(plan: Plan) -> str:
    """Return the path of the disk to install on. Raises RefusedError; disks may need some time to appear."""
    deadline = time.monotonic() + PATIENCE
    while True:
        found = machine.disks()
        reasons = judge(plan, machine.machine(Node()), found)
        if not reasons:
            reasons = list(install.hindrances(plan))
            if not reasons:
                return chosen(plan, found).path
        if time.monotonic() > deadline:
            raise RefusedError(" ".join(reasons))
        time.sleep(2)


def _judged_alone(plan: Plan) -> str:
    """Return the path of the planned disk among those that are left, which is one. Raises RefusedError."""
    found = machine.disks()
    if len(found) != 1:
        message = f"{len(found)} disks are in the kernel, but only one must be."
        raise RefusedError(message)
    return chosen(plan, found).path


def _late(minutes: int, started: texts.Start, passed: list[bool]) -> None:
    if passed:
        say("the installation takes too long; the machine reboots, and the installer starts again from the disk")
    else:
        say(f"LATE: nothing was written to any disk by this start of the installer, in {minutes} minutes")
    _end("reboot" if passed else started.refused)


def _end(how: str) -> None:
    """Let people read the console, then reboot or power off."""
    say(f"{how} in {SHOWN:.0f} s")
    time.sleep(SHOWN)
    _reboot(how)


def _reboot(how: str) -> None:
    os.sync()
    ctypes.CDLL(None).reboot(_REBOOT[how])
    time.sleep(SECONDS)  # the watchdogs are not fed any more
    Path("/proc/sysrq-trigger").write_text("b", encoding="ascii")
