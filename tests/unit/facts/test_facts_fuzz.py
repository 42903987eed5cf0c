"""No parser of facts raises, whatever a node's files and commands hold."""

import contextlib
import io
import tempfile
from pathlib import Path

import pytest
from ansible_collections.gpulab.node.plugins.module_utils import (
    facts_driver,
    facts_engines,
    facts_filesystems,
    facts_initramfs,
    facts_kernel_log,
    facts_kernels,
    facts_libraries,
    facts_limits,
    facts_modprobe,
    facts_monitoring,
    facts_nccl,
    facts_packages,
    facts_pci,
    facts_processes,
    facts_services,
    facts_system,
    facts_users,
    gpu_collector,
    gpu_metrics,
    mount_table,
    nvml_gpu,
    runfile,
)
from ansible_collections.gpulab.node.plugins.module_utils.facts_node import Node
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
    "speed_gts": facts_pci.speed_gts,
    "link_width": facts_pci.link_width,
    "blacklisted": lambda text: facts_modprobe.blacklisted([text]),
    "blacklisted_by_kernel": facts_modprobe.blacklisted_by_kernel,
    "stand_in": lambda text: facts_modprobe.stand_in([text], "nvidia"),
    "driver_version": facts_modprobe.driver_version,
    "version_key": lambda text: facts_kernels.version_key(text) < facts_kernels.version_key("6.1.0-50-amd64"),
    "grub_kernel": lambda text: facts_kernels.grub_kernel(text, "0"),
    "grub_kernel_default": lambda text: facts_kernels.grub_kernel("menuentry 'x' {", text),
    "grub_default": lambda text: facts_kernels.grub_default(text, text),
    "next_boot": lambda text: facts_kernels.next_boot(KNOWN, text, text),
    "nvidia_modules": facts_kernels.nvidia_modules,
    "modinfo_fields": facts_kernels.modinfo_fields,
    "os_release": lambda text: facts_system.distribution(facts_system.os_release(text)),
    "memory_mib": facts_system.memory_mib,
    "unfinished_packages": facts_system.unfinished_packages,
    "packages": lambda text: facts_driver.packages(facts_packages.installed(text)),
    "nvml": facts_libraries.nvml,
    "nvml_version": facts_libraries.driver_version,
    "runfile_version": lambda text: runfile.installed_version(text, text),
    "boot_time": facts_processes.boot_time,
    "process_fields": facts_processes.process_fields,
    "control_group": facts_processes.control_group,
    "logind_session": facts_processes.logind_session,
    "user_name": facts_processes.user_name,
    "kernel_log": facts_kernel_log.events,
    "services": facts_services.units,
    "engine_version": facts_engines.engine_version,
    "mounts": lambda text: facts_filesystems.worth_knowing(mount_table.mounts(text)),
    "total_errors": facts_pci.total_errors,
    "library_paths": lambda text: facts_libraries.paths(text, "libnccl"),
    "nccl_settings": facts_nccl.settings,
    "pam_limits": facts_limits.pam_limits,
    "systemd_limits": facts_limits.systemd_limits,
    "own_addresses": lambda text: facts_monitoring.own_addresses(text, text),
    "exporter_arguments": facts_monitoring.arguments,
    "fstab": lambda text: gpu_collector.mounts(text, text),
    "log_time": gpu_metrics.seconds_of,
    "sysfs_address": nvml_gpu.sysfs_address,
}


@pytest.mark.parametrize("parser", PARSERS.values(), ids=PARSERS)
@given(text=TEXT)
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
def test_parser_never_raises(parser, text):
    parser(text)


@given(data=st.binary(max_size=2000))
@settings(max_examples=100)
def test_utmp_never_raises(data):
    facts_processes.utmp_sessions(data)


@given(seconds=st.floats(allow_nan=False))
@settings(max_examples=100)
def test_timestamp_never_raises(seconds):
    facts_processes.timestamp(seconds)


@given(data=st.binary(max_size=400).map(lambda tail: bytes(0x100) + tail))
@example(data=bytes(0x100) + b"\xff" * 300)
@settings(max_examples=200)
def test_acs_never_raises(data):
    facts_pci.acs_redirects(data)


@given(data=st.one_of(st.binary(max_size=1500), st.binary(max_size=600).map(lambda tail: b"070701" + tail)))
@example(data=b"070701" + b"f" * 104)
@settings(max_examples=200)
def test_cpio_raises_nothing_but_its_own(data):
    with contextlib.suppress(ValueError):
        list(facts_initramfs.cpio_entries(io.BytesIO(data)))


READERS = {
    "pci": (
        facts_pci.read,
        "/sys/bus/pci/devices/0000:01:00.0/{}",
        ["vendor", "class", "device", "current_link_speed", "config", "driver_override"],
    ),
    "system": (facts_system.read, "/{}", ["etc/os-release", "proc/cpuinfo", "proc/1/stat", "var/lib/dpkg/status"]),
    "modules": (
        facts_modprobe.loaded,
        "/{}",
        ["proc/modules", "proc/driver/nvidia/version", "sys/module/nvidia/version"],
    ),
    "forbidden": (
        lambda node: facts_modprobe.forbidden(node, facts_modprobe.configuration(node), None),
        "/{}",
        ["proc/cmdline", "etc/modprobe.d/a.conf", "usr/bin/dracut", "lib/modprobe.d/b.conf"],
    ),
    "users": (
        lambda node: facts_users.read(node, [], 7),
        "/{}",
        ["proc/7/stat", "proc/7/cgroup", "run/utmp", "run/systemd/sessions/1"],
    ),
    "kernels": (
        lambda node: facts_kernels.KernelsQuery(node, "x", {}, signers=False).facts(),
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
