"""No parser of facts raises, whatever a node's files and commands hold."""

import contextlib
import io
import tempfile
from pathlib import Path

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core import account_files, mount_table, unit_states
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
from ansible_collections.gpulab.node.plugins.module_utils.driver import mok, runfile
from ansible_collections.gpulab.node.plugins.module_utils.facts import (
    driver,
    engines,
    filesystems,
    guests,
    initramfs,
    kernel_log,
    kernels,
    libraries,
    limits,
    logins,
    modprobe,
    monitoring,
    nccl,
    packages,
    pci,
    processes,
    services,
    smbios,
    system,
    units,
    users,
)
from ansible_collections.gpulab.node.plugins.module_utils.monitoring import collector, metrics
from ansible_collections.gpulab.node.plugins.module_utils.nvml import readings
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

# Text near what the parsers look for reaches further into them than any text
WORDS = [
    "0x10de", "Status:", "Package: ", "blacklist", "install", "nouveau", "menuentry 'x' {", "submenu 'a' {", "}",
    "\t", "linux /vmlinuz-6.1", "$menuentry_id_option 'b'", "=", ":", "\n", " - ", "8:1", "/", "\\040", "\\777", "(",
    ")", "\x00", "nvidia.ko", ".so.", "535.261.03", "GT/s", "²", "9" * 5000, "-1", "USER=a", "CLASS=user", "LEADER=",
    "REALTIME=", "libnvidia-ml.so.1 (libc6,x86-64) => ", "NVRM version:", "btime ", "GRUB_DEFAULT=", "saved",
    "next_entry=", ">", "rw", "NVRM: Xid (PCI:", "): 79, ", "NVRM: GPU ", "fallen off the bus",
    "NV_ERR_RESET_REQUIRED", "NVRM: Xid (:.): 7", "Id=a.service", "include x/Makefile", "processor:",
    "MemTotal:  1 kB", "hi ", "ii ", "modprobe.blacklist=", "flags:", "\ud800",
    "NCCL_IB_HCA=", "export ", '"', "* soft memlock ", "unlimited", "DefaultLimitNOFILE=", "TOTAL_ERR_FATAL ",
    "0::/user.slice/user-1000.slice/session-1.scope", "libnccl.so.2 (libc6,x86-64) => ",
    "nvidia", "options ", "linux /vmlinuz-", "set default=",
]  # fmt: skip
TEXT = st.one_of(st.text(max_size=300), st.lists(st.sampled_from(WORDS), max_size=40).map(" ".join))
KNOWN = ["6.1.0-50-amd64", "6.12"]

PARSERS = {
    "speed_gts": pci.speed_gts,
    "link_width": pci.link_width,
    "blacklisted": lambda text: modprobe.blacklisted([text]),
    "blacklisted_by_kernel": modprobe.blacklisted_by_kernel,
    "stand_in": lambda text: modprobe.stand_in([text], "nvidia"),
    "driver_version": modprobe.driver_version,
    "version_key": lambda text: kernels.version_key(text) < kernels.version_key("6.1.0-50-amd64"),
    "grub_kernel": lambda text: kernels.grub_kernel(text, "0"),
    "grub_kernel_default": lambda text: kernels.grub_kernel("menuentry 'x' {", text),
    "grub_default": lambda text: kernels.grub_default(text, text),
    "next_boot": lambda text: kernels.next_boot(KNOWN, text, text),
    "nvidia_modules": kernels.nvidia_modules,
    "modinfo_fields": kernels.modinfo_fields,
    "os_release": lambda text: system.distribution(system.os_release(text)),
    "memory_mib": system.memory_mib,
    "unfinished_packages": system.unfinished_packages,
    "packages": lambda text: driver.packages([*packages.of_dpkg(text), *packages.of_rpm(text)]),
    "nvml": libraries.nvml,
    "nvml_version": libraries.driver_version,
    "runfile_version": lambda text: runfile.installed_version(text, text),
    "boot_time": processes.boot_time,
    "process_fields": processes.process_fields,
    "control_group": processes.control_group,
    "logind_session": logins.logind_session,
    "user_name": processes.user_name,
    "units": lambda text: [units.judged(unit) for unit in unit_states.parse(text)],
    "unit_files": unit_states.file_states,
    "users": account_files.users,
    "groups": account_files.groups,
    "secrets": account_files.secrets,
    "ranges": account_files.ranges,
    "swaps": mount_table.swaps,
    "guest": lambda text: guests.guest(text, text),
    "kernel_log": kernel_log.events,
    "services": services.units,
    "engine_version": engines.engine_version,
    "mounts": lambda text: filesystems.worth_knowing(mount_table.mounts(text)),
    "total_errors": pci.total_errors,
    "library_paths": lambda text: libraries.paths(text, "libnccl"),
    "nccl_settings": nccl.settings,
    "pam_limits": limits.pam_limits,
    "systemd_limits": limits.systemd_limits,
    "own_addresses": lambda text: monitoring.own_addresses(text, text),
    "exporter_arguments": monitoring.arguments,
    "fstab": lambda text: collector.mounts(text, text),
    "log_time": metrics.seconds_of,
    "sysfs_address": readings.sysfs_address,
}


@pytest.mark.parametrize("parser", PARSERS.values(), ids=PARSERS)
@given(text=TEXT)
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
def test_parser_never_raises(parser, text):
    parser(text)


@given(data=st.binary(max_size=2000))
@settings(max_examples=100)
def test_utmp_never_raises(data):
    logins.utmp_sessions(data)


@given(data=st.binary(max_size=400).map(lambda tail: b"\x11\x28" + tail))
@example(data=b"\x11\x10" + b"\xff" * 14 + b"\0\0")
@example(data=b"\x10\x04\0\0\0\0")
@settings(max_examples=200)
def test_smbios_never_raises(data):
    smbios.parse(data)


@given(seconds=st.floats(allow_nan=False))
@settings(max_examples=100)
def test_timestamp_never_raises(seconds):
    processes.timestamp(seconds)


@given(data=st.binary(max_size=400).map(lambda tail: bytes(0x100) + tail))
@example(data=bytes(0x100) + b"\xff" * 300)
@settings(max_examples=200)
def test_acs_never_raises(data):
    pci.acs_redirects(data)


@given(data=st.one_of(st.binary(max_size=1500), st.binary(max_size=600).map(lambda tail: b"070701" + tail)))
@example(data=b"070701" + b"f" * 104)
@settings(max_examples=200)
def test_cpio_raises_nothing_but_its_own(data):
    with contextlib.suppress(ValueError):
        list(initramfs.cpio_entries(io.BytesIO(data)))


READERS = {
    "pci": (
        pci.read,
        "/sys/bus/pci/devices/0000:01:00.0/{}",
        ["vendor", "class", "device", "current_link_speed", "config", "driver_override"],
    ),
    "system": (system.read, "/{}", ["etc/os-release", "proc/cpuinfo", "proc/1/stat", "var/lib/dpkg/status"]),
    "modules": (
        modprobe.loaded,
        "/{}",
        ["proc/modules", "proc/driver/nvidia/version", "sys/module/nvidia/version"],
    ),
    "forbidden": (
        lambda node: modprobe.forbidden(node, modprobe.configuration(node), None),
        "/{}",
        ["proc/cmdline", "etc/modprobe.d/a.conf", "usr/bin/dracut", "lib/modprobe.d/b.conf"],
    ),
    "users": (
        lambda node: users.read(node, [], 7),
        "/{}",
        [
            "proc/7/stat",
            "proc/8/stat",
            "proc/8/cgroup",
            "proc/8/status",
            "proc/locks",
            "run/utmp",
            "run/systemd/sessions/1",
            "run/systemd/inhibit/1",
            "etc/passwd",
            "etc/login.defs",
            "var/lib/dnf/rpmdb_lock.pid",
        ],
    ),
    "kernels": (
        lambda node: kernels.KernelsQuery(node, "x", {}, mok.OF_DKMS).facts(),
        "/{}",
        [
            "lib/modules/6.1/modules.dep",
            "boot/grub/grub.cfg",
            "etc/default/grub",
            "usr/src/linux-headers-6.1/Makefile",
            "boot/loader/entries/a.conf",
            "boot/grub/grubenv",
        ],
    ),
}


@pytest.mark.parametrize("reader", READERS)
@given(
    contents=st.lists(st.one_of(st.binary(max_size=200), TEXT.map(lambda t: t.encode("utf-8", "replace"))), min_size=4)
)
@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
def test_reader_never_raises(reader, contents):
    read, place, names = READERS[reader]
    with tempfile.TemporaryDirectory() as root:
        for name, content in zip(names, contents):
            file = Path(root) / place.format(name).lstrip("/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        read(Node(Path(root)))
