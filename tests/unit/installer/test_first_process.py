"""How the installer ends, whatever happens in it; nothing here mounts or reboots."""

from __future__ import annotations

import json

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.installer import apart, first_process, install
from ansible_collections.gpulab.node.plugins.module_utils.installer.texts import Start

from .plans import BLANK, DATA, DISKS, MACHINE, NAMELESS, SYSTEM, plan


class EndError(Exception):
    """The machine reboots or powers off."""


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """Return a machine as planned: what it does is in its list, and a test replaces what it wants otherwise."""
    seen = []

    class Dog:
        count = 1
        in_time = True

        def __init__(self, seconds, expired):
            seen.append(f"watchdog {seconds:.0f}")
            self.expired = expired

        def extend(self, _seconds):
            return self.in_time

        def close(self):
            seen.append("rest")

    class Installation:
        def __init__(self, _plan, disk, started, _say):
            seen.append(f"install {disk} {started.refused}")

        def run(self):
            pass

    def reboot(how):
        seen.append(how)
        raise EndError

    left = iter([DISKS, [SYSTEM]])
    (tmp_path / "plan.json").write_text(json.dumps(plan()))
    (tmp_path / "cmdline").write_text("gpulab.refused=reboot gpulab.from=disk")
    monkeypatch.setattr(first_process, "PLAN", tmp_path / "plan.json")
    monkeypatch.setattr(first_process, "PATIENCE", 0.0)
    monkeypatch.setattr(first_process, "_mount", lambda: None)
    monkeypatch.setattr(first_process, "_begin", lambda: None)
    monkeypatch.setattr(first_process, "_started", lambda: Start("reboot", "disk"))
    monkeypatch.setattr(first_process, "Watchdog", Dog)
    monkeypatch.setattr(first_process, "_reboot", reboot)
    monkeypatch.setattr(first_process.time, "sleep", lambda _seconds: None)
    monkeypatch.setattr(first_process.machine, "machine", lambda _node: MACHINE)
    monkeypatch.setattr(first_process.machine, "disks", lambda: next(left))
    monkeypatch.setattr(install, "hindrances", lambda _plan: [])
    monkeypatch.setattr(apart, "separate", lambda name: seen.append(f"only {name}") or {"sda": []})
    monkeypatch.setattr(install, "pack", lambda: seen.append("pack"))
    monkeypatch.setattr(install, "Installation", Installation)
    monkeypatch.setattr(first_process, "say", lambda text: seen.append(text.split(":")[0].split(".")[0]))
    return seen


def ends(machine):
    """Let the installer run; return all that it did after it knew its plan."""
    with pytest.raises(EndError):
        first_process.main()
    return machine


def raising(error):
    def fail(*_arguments):
        raise error

    return fail


def test_a_machine_as_planned_is_installed(machine):
    done = ends(machine)
    assert [one for one in done if not one.startswith(("the installer", "only /dev"))] == [
        *("watchdog 900", "only sdb", "pack", "POINT OF NO RETURN", "install /dev/sdb reboot", "rest", "DONE", "reboot")
    ]


@pytest.mark.parametrize("started", [Start("reboot", "disk"), Start("poweroff", "media")])
@pytest.mark.parametrize(
    ("place", "replaced"),
    [
        pytest.param((first_process, "_begin"), raising(OSError("no udev")), id="no-devices"),
        pytest.param((first_process, "_mount"), raising(install.FailedError("no proc")), id="no-proc"),
        pytest.param((first_process.machine, "disks"), lambda: [SYSTEM], id="kept-missing"),
        pytest.param((install, "hindrances"), lambda _plan: ["no GRUB"], id="other-image"),
        pytest.param((apart, "separate"), raising(apart.InseparableError("shared")), id="inseparable"),
        pytest.param((install, "pack"), raising(MemoryError()), id="no-memory"),
        pytest.param((first_process.json, "loads"), raising(ValueError("no JSON")), id="no-plan"),
    ],
)
def test_what_fails_before_the_point_of_no_return_writes_nothing(machine, monkeypatch, place, replaced, started):
    said = []
    monkeypatch.setattr(*place, replaced)
    monkeypatch.setattr(first_process, "_started", lambda: started)
    monkeypatch.setattr(first_process, "say", said.append)
    done = ends(machine)
    assert not any(one.startswith(("POINT", "install")) for one in [*done, *said])
    assert done[-1] == ("poweroff" if place[1] == "_mount" else started.refused)
    # The start before this one may have wiped the disk: after a power cut, the installer starts again from it.
    assert any("Nothing was written to any disk by this start" in one for one in said)


@pytest.mark.parametrize(
    "left",
    [
        pytest.param([SYSTEM, DATA], id="another-is-left"),
        pytest.param([DATA], id="only-another-is-left"),
        pytest.param([], id="none-is-left"),
        pytest.param([BLANK, NAMELESS, SYSTEM], id="more-are-left"),
    ],
)
def test_nothing_is_wiped_unless_the_planned_disk_alone_is_left(machine, monkeypatch, left):
    both = iter([DISKS, left])
    monkeypatch.setattr(first_process.machine, "disks", lambda: next(both))
    assert not any(one.startswith(("POINT", "install")) for one in ends(machine))


def test_the_point_of_no_return_is_not_passed_when_the_time_is_over(machine, monkeypatch):
    monkeypatch.setattr(first_process.Watchdog, "in_time", False)
    assert not any(one.startswith(("POINT", "install")) for one in ends(machine))


def test_what_fails_afterwards_starts_the_installer_from_the_disk(machine, monkeypatch):
    monkeypatch.setattr(first_process, "_started", lambda: Start("poweroff", "media"))
    monkeypatch.setattr(install.Installation, "run", raising(install.FailedError("mkfs")))
    done = ends(machine)
    assert "DONE" not in done
    assert done[-1] == "reboot"


def test_nothing_assembles_or_starts_what_is_on_other_disks(monkeypatch, tmp_path):
    """Traps 7, 19, 20: the rules are off before the first device is announced."""
    rules, off, seen = tmp_path / "rules", tmp_path / "off", []
    rules.mkdir()
    there = ["64-md-raid-assembly.rules", "69-lvm.rules", "95-dm-notify.rules", "60-multipath.rules", "64-btrfs.rules"]
    for name in [*there, "69-bcache.rules", "90-zfs.rules", "60-persistent-storage.rules"]:
        (rules / name).write_text("")

    def run(argv, given=""):
        if argv[0].endswith("systemd-udevd"):
            seen.extend(sorted(path.name for path in off.iterdir() if path.readlink().name == "null"))
        return given

    monkeypatch.setattr(first_process, "_RULES_AT", rules)
    monkeypatch.setattr(first_process, "_RULES_OFF", off)
    monkeypatch.setattr(first_process, "_EFIVARS", str(tmp_path / "none"))
    monkeypatch.setattr(install, "run", run)
    monkeypatch.setattr(first_process.subprocess, "run", lambda *_arguments, **_more: None)
    first_process._begin()  # noqa: SLF001 - the step alone
    assert seen == sorted([*there, "69-bcache.rules", "90-zfs.rules"])
