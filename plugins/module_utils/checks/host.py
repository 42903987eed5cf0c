# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of the node around the GPUs: processors, memory, disks, kernels, clock, and whether it serves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.checks.model import (
    NO_KERNEL_LOG,
    Unread,
    check,
    fail,
    inapplicable,
    info,
    ok,
    skipped,
    unknown,
    warn,
)
from ansible_collections.gpulab.node.plugins.module_utils.core.mount_table import LOCAL
from ansible_collections.gpulab.node.plugins.module_utils.core.shown import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.checks.model import Facts, Node, Result

SIZING = "https://github.com/stas00/ml-engineering/tree/master/compute"
# For each GPU one process and two workers that load data; and some for the system.
CORES_PER_GPU, CORES_FOR_SYSTEM = 3, 4
EDAC = "https://docs.kernel.org/admin-guide/ras.html"
FULL_PERCENT = 95
MOST_SECONDS_APART = 60
DISK_FILESYSTEMS = ("ext4", "ext3", "xfs", "btrfs", "zfs", "f2fs")


@check("cpu-cores", proves="the node has enough processor cores to feed the GPUs", source=SIZING)
def cpu_cores(node: Node) -> Iterator[Result]:
    """Tell of a node with few cores: it works, but its GPUs wait for data."""
    cores, wanted = node.facts["system.cpu_cores"], CORES_PER_GPU * len(node.gpus) + CORES_FOR_SYSTEM
    if not node.gpus:
        yield node.without("NVML lists no GPU (see driver-responsive)")
    elif cores < wanted:
        yield info(
            f"{cores} cores for {len(node.gpus)} GPUs, {wanted} recommended",
            observed=cores,
            expected=wanted,
            unit="cores",
        )
    else:
        yield ok(f"{cores} cores for {len(node.gpus)} GPUs", cores)


@check("host-memory", proves="the node has at least as much memory as its GPUs", source=SIZING)
def host_memory(node: Node) -> Iterator[Result]:
    """Tell of a node with less memory than its GPUs have."""
    memory = node.facts["system.memory_mib"]
    try:
        wanted = sum(gpu["memory_mib.total"] for gpu in node.gpus)
    except Unread as unread:
        yield (inapplicable if unread.unsupported else skipped)(f"{unread.path} is not available")
        return
    if not wanted:
        yield node.without("NVML lists no GPU (see driver-responsive)")
    elif memory < wanted:
        yield info(f"{memory} MiB of memory, {wanted} MiB on the GPUs", observed=memory, expected=wanted, unit="MiB")
    else:
        yield ok(f"{memory} MiB of memory, {wanted} MiB on the GPUs", memory)


@check(
    "memory-errors",
    proves="the memory's modules count no errors that could not be corrected",
    source=EDAC,
    on_host=True,
)
def memory_errors(node: Node) -> Iterator[Result]:
    """Warn of a module with errors that stayed; tell of what was repaired, for one reading of a counter is no rate."""
    modules = node.facts["hardware.memory"].optional("errors")
    if modules is None:
        if node.facts.get("hardware.memory.ecc") is False:
            yield inapplicable("the memory has no ECC")
        else:
            yield skipped("the kernel does not count the memory's errors (no EDAC driver)")
        return
    wrong = [one for one in modules if one["uncorrected"] or one["corrected"]]
    for one in wrong:
        lost, repaired = one["uncorrected"], one["corrected"]
        text = f"memory module {one['module']}: {lost} uncorrectable and {repaired} corrected errors since boot"
        if lost:
            yield warn(text, "replace_memory", observed=lost, expected=0, unit="errors")
        else:
            yield info(text, observed=repaired, expected=0, unit="errors")
    if not wrong:
        yield ok("no memory errors", 0)


@check(
    "boot-space",
    proves="/boot has room for one more kernel and its initramfs",
    source="https://man7.org/linux/man-pages/man7/file-hierarchy.7.html",
    on_host=True,
)
def boot_space(node: Node) -> Iterator[Result]:
    """Compare with what the largest kernel takes: once to stay, and once more while its initramfs is made."""
    boot = next((one for one in node.facts["filesystems"] if one["mount"] == "/boot"), None)
    takes, free = node.facts["hardware"].optional("kernel_mib"), boot.get("free_mib") if boot else None
    if takes is None or free is None:
        yield skipped("no kernel was found in /boot")
    elif free < 2 * takes:
        yield warn(
            f"/boot has {free} MiB free; the next kernel takes {2 * takes} MiB while it is installed",
            "free_space",
            observed=free,
            expected=2 * takes,
            unit="MiB",
            reason="apt-get autoremove, or dnf remove --oldinstallonly, removes kernels that are no longer used",
        )
    else:
        yield ok(f"/boot has {free} MiB free", free)


@check(
    "disks",
    proves="file systems are writable and have free space",
    source="https://man7.org/linux/man-pages/man2/statfs.2.html",
)
def disks(node: Node) -> Iterator[Result]:
    """Look at every file system on a disk; one that has several places here is named by the first."""
    tiers = [tier.get("mount") for tier in node.facts.get("storage", [])]  # of these, storage-options judges
    found: dict[tuple[str | None, str], Result] = {}
    for disk in node.facts["filesystems"]:
        wrong = _wrong_with(disk, tiers)
        if wrong:
            found.setdefault((disk.get("source"), wrong.remediation), wrong)
    yield from found.values()
    if not found:
        yield ok("file systems are writable and have free space")


def _wrong_with(disk: Facts, tiers: list[str | None]) -> Result | None:
    size, free = disk.get("size_mib", 0), disk.get("free_mib", 0)
    if disk.get("responsive") is False:
        where, remedy = disk["mount"], "reboot"
        if disk.get("type") not in LOCAL:
            where, remedy = f"{where} ({disk.get('type')} of {disk.get('source')})", "check_storage"
        return fail(f"{where} does not answer", remedy, observed="no answer")
    if disk.get("type") not in DISK_FILESYSTEMS or not size:
        return None
    if disk.get("read_only") and disk["mount"] not in tiers:
        return fail(f"{disk['mount']} is read-only", "save_disk", observed="read-only", expected="writable")
    if free * 100 < size * (100 - FULL_PERCENT) or disk.get("free_inodes", 1) == 0:
        return warn(f"{disk['mount']} is full: {free} of {size} MiB free", "free_space", observed=free, unit="MiB")
    return None


@check(
    "disk-errors",
    proves="the kernel has seen no error of a disk or of a file system",
    source="https://docs.kernel.org/filesystems/ext4/super.html",
    on_host=True,
)
def disk_errors(node: Node) -> Iterator[Result]:
    """Look at each file system once, and at the kernel log; of network file systems, their server judges."""
    seen, found = set(), False
    for disk in node.facts["filesystems"]:
        if disk.get("type") not in LOCAL or disk["source"] in seen:
            continue
        seen.add(disk["source"])
        count = disk.get("errors")
        if disk.get("readable") is False:
            found = True
            yield fail(f"{disk['mount']} ({disk['source']}) cannot be read", "save_disk", observed="I/O error")
        elif count:
            found = True
            told = f"ext4 has counted {counted(count, 'error')} in {disk['mount']} ({disk['source']})"
            yield warn(told, "save_disk", observed=count, expected=0)
    for disk in node.facts["kernel_log.disks"]:
        found = True
        last = f", last at {disk['time']}" if disk.get("time") else ""
        told = (
            f"{disk['device']} has failed to read or write {counted(disk['count'], 'time')} since the node booted{last}"
        )
        yield warn(told, "save_disk", observed=disk["count"], expected=0)
    if not found and not node.facts["kernel_log.readable"] and not node.facts.get("system.container"):
        yield unknown(NO_KERNEL_LOG)
    elif not found:
        yield ok("the kernel has seen no error of a disk or of a file system", 0)


@check(
    "out-of-memory",
    proves="no program was killed for want of memory since the node booted",
    source="https://docs.kernel.org/admin-guide/mm/concepts.html#oom-killer",
    on_host=True,
)
def out_of_memory(node: Node) -> Iterator[Result]:
    """Tell whom the kernel killed, for its user looks for a fault of the GPU; it says nothing against the node."""
    killed = node.facts["kernel_log"].get("killed", [])
    for one in killed:
        last = f", last at {one['time']}" if one.get("time") else ""
        yield info(
            f"the kernel has killed {one['command']} for want of memory {counted(one['count'], 'time')}{last}",
            observed=one["count"],
            expected=0,
            reason="its user started more than the memory of the node, or of the job's limit, holds",
        )
    if killed:
        return
    if node.facts["kernel_log.readable"]:
        yield ok("no program was killed for want of memory", 0)
    elif node.facts.get("system.container"):
        yield inapplicable("a container has its host's kernel log")
    else:
        yield unknown(NO_KERNEL_LOG)


@check(
    "clock",
    proves="the clock is synchronised, and the controller's says the same; logs, certificates and NCCL rely on it",
    source="https://man7.org/linux/man-pages/man2/adjtimex.2.html",
)
def clock(node: Node) -> Iterator[Result]:
    """Compare it with the controller's, and ask the kernel."""
    ahead = node.facts.get("system.clock_ahead_seconds") or 0
    if node.facts.get("system.container"):
        yield inapplicable("a container has its host's clock")
    elif abs(ahead) > MOST_SECONDS_APART:
        hours, minutes = divmod(abs(ahead) // 60, 60)
        kept = node.facts.get("system.clock_synchronized")
        yield warn(
            f"the clock is {hours} h {minutes:02} min {'ahead of' if ahead > 0 else 'behind'} the controller's",
            "set_clock",
            observed=ahead,
            expected=0,
            unit="s",
            reason=f"the node's own is {'' if kept else 'not '}synchronised; both ought to be",
        )
    elif node.facts["system.clock_synchronized"]:
        yield ok("the clock is synchronised", observed=True)
    else:
        yield warn(
            "the clock is not synchronised",
            "start_service",
            observed=False,
            expected=True,
            reason="systemd-timesyncd or chrony",
        )


@check(
    "reboot-pending",
    proves="no change waits for a reboot",
    source="plugins/module_utils/checks/reboot.py",
    on_host=True,
)
def reboot_pending(node: Node) -> Iterator[Result]:
    """Tell what a reboot would change; what is wrong until then has its own finding."""
    reasons = node.facts["reboot.reasons"]
    if reasons:
        yield info(f"a reboot is pending: {'; '.join(reasons)}", "reboot", observed=len(reasons), expected=0)
    else:
        yield ok("no reboot is pending")


@check("fleet-fence", proves="the node is in service, or has been taken out no longer than announced", source="gpulab")
def fence(node: Node) -> Iterator[Result]:
    """Warn of a fence that a failure or a run that died has left behind; one that is at work is no fault."""
    found = node.facts.optional("fence")
    if not found:
        yield ok("the node is in service")
        return
    said = f"out of service since {found['since']} by {found['by']} (run {found['run']}): {found['reason']}"
    if found["held"] or found["overdue"]:
        yield warn(said, "lift_fence", observed="fenced", expected="in service")
    else:
        yield info(said)
