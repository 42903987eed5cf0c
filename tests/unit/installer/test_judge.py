"""Each guard of the installer alone: everything else is as the plan says."""

from __future__ import annotations

from dataclasses import replace

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.installer.judge import chosen, is_marked, judge
from ansible_collections.gpulab.node.plugins.module_utils.installer.plan import guid

from .plans import BLANK, DATA, DISKS, GIB, MACHINE, NAMELESS, PLAN, SYSTEM, changed, plan


def other(*disks):
    """Return the disks of the machine, some replaced by path."""
    given = {disk.path: disk for disk in [*DISKS, *disks]}
    return list(given.values())


def without(gone):
    return [disk for disk in DISKS if disk != gone]


MARKED = replace(SYSTEM, holds=frozenset({guid(plan())}), table=guid(plan()))


def test_the_planned_machine_is_accepted():
    assert judge(plan(), MACHINE, DISKS) == []
    assert chosen(plan(), DISKS) == SYSTEM


def test_after_the_point_of_no_return_the_same_plan_goes_on():
    assert judge(plan(), MACHINE, other(MARKED)) == []
    assert is_marked(plan(), MARKED)
    assert not is_marked(plan(), SYSTEM)


@pytest.mark.parametrize(
    ("machine", "disks", "reason"),
    [
        pytest.param(replace(MACHINE, dmi_uuid="other"), DISKS, "another machine: its UUID is other", id="machine"),
        pytest.param(replace(MACHINE, dmi_uuid=""), DISKS, "its UUID is unknown", id="machine-silent"),
        pytest.param(
            replace(MACHINE, firmware="bios"), DISKS, "started by BIOS, but the plan is for UEFI", id="firmware"
        ),
        pytest.param(
            replace(MACHINE, memory=2 * GIB), DISKS, "2048 MiB of memory, and this needs 3072 MiB", id="memory"
        ),
        pytest.param(MACHINE, without(SYSTEM), "No disk has the serial number SYS1", id="no-such-disk"),
        pytest.param(
            MACHINE,
            [*DISKS, replace(SYSTEM, path="/dev/sdz")],
            "2 disks (/dev/sdb, /dev/sdz) have the serial",
            id="two",
        ),
        pytest.param(MACHINE, other(replace(SYSTEM, size=8 * GIB)), "has 8589934592 bytes, but had", id="other-size"),
        pytest.param(
            MACHINE, other(replace(SYSTEM, holds=frozenset({"x"}))), "holds nothing of what it held", id="other-content"
        ),
        pytest.param(MACHINE, other(replace(SYSTEM, holds=frozenset())), "holds nothing of what it held", id="blank"),
        pytest.param(
            MACHINE,
            other(replace(MARKED, table=guid(plan(), "done"), holds=frozenset())),
            "was installed by this plan already",
            id="installed",
        ),
        pytest.param(
            MACHINE,
            other(replace(SYSTEM, holds=SYSTEM.holds | {"dddd-1"})),
            "holds what a disk that is kept held",
            id="kept-content",
        ),
        pytest.param(
            MACHINE,
            other(replace(MARKED, table=guid(changed("disk", value="SYS2")), holds=frozenset())),
            "holds nothing of what it held",
            id="mark-of-another-plan",
        ),
        pytest.param(
            MACHINE, without(DATA), "No disk has the serial number DATA1 of a disk that is kept", id="kept-gone"
        ),
        pytest.param(
            MACHINE, without(BLANK), "No disk has the WWN eui.0025 of a disk that is kept", id="blank-kept-gone"
        ),
        pytest.param(MACHINE, without(NAMELESS), "A disk that is kept is missing", id="nameless-gone"),
        pytest.param(
            MACHINE, other(replace(NAMELESS, holds=frozenset())), "A disk that is kept is missing", id="nameless-other"
        ),
        pytest.param(
            MACHINE, [*DISKS, replace(DATA, path="/dev/sdz")], "2 disks (/dev/sda, /dev/sdz) have", id="two-kept"
        ),
        pytest.param(
            MACHINE,
            other(replace(DATA, holds=frozenset({"x"}))),
            "The kept disk with the serial number DATA1",
            id="kept",
        ),
    ],
)
def test_a_reason_against_it(machine, disks, reason):
    (found,) = judge(plan(), machine, disks)
    assert reason in found


def test_swapped_serial_numbers_are_noticed():
    swapped = other(replace(SYSTEM, serial="DATA1"), replace(DATA, serial="SYS1"))
    reasons = " ".join(judge(plan(), MACHINE, swapped))
    assert "The disk with the serial number SYS1 holds nothing of what it held" in reasons
    assert "holds what a disk that is kept held" in reasons


def test_a_disk_must_be_large_enough():
    small = changed("disk", size=GIB)
    (found,) = judge(small, MACHINE, other(replace(SYSTEM, size=GIB)))
    assert "is too small" in found


def test_a_nameless_kept_disk_is_not_the_one_to_wipe():
    alone = {"kind": None, "value": None, "size": SYSTEM.size, "holds": []}
    (found,) = judge(plan(kept=[alone]), MACHINE, [SYSTEM])
    assert "A disk that is kept is missing" in found


def test_a_disk_is_found_by_its_wwn():
    by_wwn = changed("disk", kind="wwn", value="0x5000C5")
    assert judge(by_wwn, MACHINE, other(replace(SYSTEM, serial="", wwn="0x5000c5"))) == []


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        pytest.param({**plan(), "host": "node08"}, "the plan was changed", id="changed"),
        pytest.param({}, "the plan has no schema", id="empty"),
        pytest.param([], "the plan is not an object", id="no-object"),
        pytest.param(plan(schema=2), "schema 2, but this installer knows schema 1", id="schema"),
        pytest.param(changed("machine", dmi_uuid=""), "the plan names no machine", id="no-machine"),
        pytest.param(changed("disk", kind="path"), "does not name its disk by serial number or WWN", id="by-path"),
        pytest.param(changed("disk", value=" "), "does not name its disk by serial number or WWN", id="no-serial"),
        pytest.param(changed("disk", holds=[]), "does not say what its disk holds", id="no-holds"),
        pytest.param(plan(kept=[PLAN["disk"]]), "the plan keeps the disk that it wipes", id="keeps-what-it-wipes"),
        pytest.param(plan(kept=[{**PLAN["disk"], "kind": "path"}]), "names a disk by 'path'", id="kept-by-path"),
        pytest.param(plan(firmware="coreboot"), "the firmware 'coreboot'", id="firmware"),
        pytest.param(plan(minutes=0), "gives 0 minutes", id="no-time"),
        pytest.param(plan(hostname="a b"), "the hostname 'a b'", id="hostname"),
        pytest.param(plan(hostname="a..b"), "the hostname 'a..b'", id="empty-label"),
        pytest.param(plan(hostname="10.1"), "the hostname '10.1'", id="address"),
        pytest.param(plan(kernel_arguments=['a"; reboot']), "the kernel argument", id="argument"),
        pytest.param(changed("user", name="a:b"), "the user 'a:b'", id="user"),
        pytest.param(changed("user", gecos="a\nroot::0:0:::"), "do not fit into passwd", id="field"),
        pytest.param(changed("user", shell=""), "no home or no shell", id="shell"),
    ],
)
def test_a_plan_that_must_not_be_carried_out(wrong, reason):
    reasons = judge(wrong, MACHINE, DISKS)
    assert any(reason in one for one in reasons), reasons
