"""Processors, memory, lanes, disks and kernels of a machine, from trees of sysfs and tables of SMBIOS."""

import struct

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.facts import hardware, smbios

CPUS = "/sys/devices/system/cpu"
KIB_OF_L3 = "32768K"


def structure(kind, fields, *texts, length=0x5C):
    """Return a structure of SMBIOS: fields are (offset, format, value)."""
    body = bytearray(length)
    body[0:4] = struct.pack("<BBH", kind, length, 7)
    for at, form, value in fields:
        struct.pack_into(form, body, at, value)
    return bytes(body) + b"".join(text.encode() + b"\0" for text in texts) + (b"\0" if texts else b"\0\0")


def array(correction, use=3):
    return structure(16, [(5, "<B", use), (6, "<B", correction)], length=0x17)


def module(slot="DIMM 0", beside=(), **figures):
    given = {"size": 0x7FFF, "extended": 65536, "kind": 0x22, "rated": 5600, "running": 4800, **figures}
    places = {"size": "C<H", "kind": "12<B", "rated": "15<H", "extended": "1C<I", "running": "20<H"}
    fields = [(int(at.partition("<")[0], 16), at[-2:], given[name]) for name, at in places.items()]
    return structure(17, [(0x10, "<B", 2), *fields, *beside], "P0 CHANNEL A", slot)


def test_modules_of_a_server():
    table = (
        structure(0, [], "vendor") + array(5) + module() + module(size=16384, kind=0x1A, slot="DIMM 1") + b"\x7f\x04"
    )
    assert smbios.parse(table) == (
        [
            {"slot": "DIMM 0", "mib": 65536, "type": "DDR5", "mts": 4800, "rated_mts": 5600},
            {"slot": "DIMM 1", "mib": 16384, "type": "DDR4", "mts": 4800, "rated_mts": 5600},
        ],
        True,
    )


@pytest.mark.parametrize(
    ("table", "ecc"),
    [
        (array(3), False),
        (array(5) + array(6), True),
        (array(5) + array(3), False),
        (array(5) + array(3, use=4), True),  # the other is of a video card
        (array(2), None),
        (b"", None),
    ],
    ids=["none", "two-kinds", "one-without", "not-the-systems", "unknown", "not-readable"],
)
def test_ecc(table, ecc):
    assert smbios.parse(table)[1] is ecc


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"size": 0}, None),
        ({"size": 0xFFFF}, None),
        ({"size": 0x8000 | 2048}, (2, 4800, 5600)),  # in KiB
        ({"running": 0}, (65536, None, 5600)),
        ({"running": 0xFFFF, "beside": [(0x58, "<I", 70000)]}, (65536, 70000, 5600)),
    ],
    ids=["empty-slot", "size-unknown", "kib", "speed-unknown", "extended-speed"],
)
def test_module(given, found):
    modules, _ecc = smbios.parse(module(**given))
    assert [(one["mib"], one["mts"], one["rated_mts"]) for one in modules] == ([found] if found else [])


def test_a_table_that_is_cut_off_ends_there():
    assert len(smbios.parse(module() + module()[:-1])[0]) == 1


def cpu(tree, number, shared, policy=None, **cppc):
    for index, (level, size) in enumerate(((1, "32K"), (2, "1024K"), (3, KIB_OF_L3))):
        home = f"{CPUS}/cpu{number}/cache/index{index}"
        tree.file(f"{home}/level", str(level)).file(f"{home}/size", size)
        tree.file(f"{home}/shared_cpu_list", shared if level == 3 else str(number))
    for name, value in (policy or {}).items():
        tree.file(f"{CPUS}/cpufreq/policy{number}/{name}", str(value))
    for name, value in cppc.items():
        tree.file(f"{CPUS}/cpu{number}/acpi_cppc/{name}", str(value))


INTEL = {"scaling_driver": "intel_pstate", "base_frequency": 2000000, "cpuinfo_max_freq": 3800000}
ACPI = {"scaling_driver": "acpi-cpufreq", "cpuinfo_max_freq": 2250000, "affected_cpus": "0 1"}


def test_caches_of_several_processors_add_up(tree):
    for number, shared in enumerate(("0-1", "0-1", "2-3", "2-3")):
        cpu(tree, number, shared)
    tree.file(f"{CPUS}/cpufreq/x").file(f"{CPUS}/cpuidle/x")
    assert hardware.l3_mib(tree.node()) == 64


@pytest.mark.parametrize(
    ("policy", "cppc", "files", "found"),
    [
        (INTEL, {}, {"intel_pstate/no_turbo": "0"}, (2000, 3800, True)),
        (INTEL, {}, {"intel_pstate/no_turbo": "1"}, (2000, 3800, False)),
        (ACPI, {}, {"cpufreq/boost": "1"}, (None, None, True)),
        (
            ACPI,
            {"nominal_freq": 2250, "nominal_perf": 150, "highest_perf": 228},
            {"cpufreq/boost": "0"},
            (2250, 3420, False),
        ),
        (None, {}, {}, (None, None, None)),
    ],
    ids=["intel", "turbo-off", "acpi-shows-no-boost", "boost-off", "virtual"],
)
def test_clocks(tree, policy, cppc, files, found):
    cpu(tree, 0, "0", policy, **cppc)
    for name, text in files.items():
        tree.file(f"{CPUS}/{name}", text)
    told = hardware.processor(tree.node())
    assert (told["base_mhz"], told["boost_mhz"], told["boosts"]) == found


def test_memory_errors(tree):
    assert hardware.memory_errors(tree.node()) is None
    home = "/sys/devices/system/edac/mc/mc0"
    tree.file(f"{home}/ce_noinfo_count", "1").file(f"{home}/ue_noinfo_count", "0").file(f"{home}/size_mb", "65536")
    for number, corrected in enumerate((0, 17)):
        dimm = f"{home}/dimm{number}"
        tree.file(f"{dimm}/dimm_label", f"CPU0_A{number}").file(f"{dimm}/dimm_ce_count", str(corrected))
        tree.file(f"{dimm}/dimm_ue_count", str(2 * number))
    assert hardware.memory_errors(tree.node()) == [
        {"module": "CPU0_A0", "corrected": 0, "uncorrected": 0},
        {"module": "CPU0_A1", "corrected": 17, "uncorrected": 2},
        {"module": "mc0", "corrected": 1, "uncorrected": 0},
    ]


def port(tree, address, width, speed, **more):
    parent = more.get("parent", "pci0000:00")
    home = f"/sys/devices/{parent}/{address}"
    kind = more.get("kind", "0x060400")
    for name, text in {"class": kind, "max_link_width": width, "max_link_speed": speed}.items():
        tree.file(f"{home}/{name}", text)
    tree.link(f"/sys/bus/pci/devices/{address}", f"../../../devices/{parent}/{address}")


def test_lanes_are_those_of_root_ports_that_are_fast_enough(tree):
    assert hardware.pcie4_lanes(tree.node()) is None
    port(tree, "0000:00:01.0", "16", "32.0 GT/s PCIe")
    port(tree, "0000:00:02.0", "4", "16.0 GT/s PCIe")
    port(tree, "0000:00:03.0", "8", "8.0 GT/s PCIe")
    port(tree, "0000:01:00.0", "16", "16.0 GT/s PCIe", parent="pci0000:00/0000:00:01.0")  # a port of a switch
    port(tree, "0000:00:1f.0", "16", "16.0 GT/s PCIe", kind="0x060100")
    assert hardware.pcie4_lanes(tree.node()) == 20


def block(tree, name, gb, below, **files):
    home = f"/sys/devices/{below}/{name}"
    for file, text in {"size": str(gb * 10**9 // 512), "removable": "0", "queue/rotational": "0", **files}.items():
        tree.file(f"{home}/{file}", text)
    tree.link(f"/sys/block/{name}", f"../devices/{below}/{name}")


def test_disks(tree):
    for address, width in (("0000:00:01.0", "4"), ("0000:02:00.0", "2")):
        parent = "pci0000:00" if address < "0000:01" else "pci0000:00/0000:00:01.0"
        tree.file(f"/sys/devices/{parent}/{address}/current_link_width", width)
        tree.link(f"/sys/bus/pci/devices/{address}", f"../../../devices/{parent}/{address}")
    controller = "pci0000:00/0000:00:01.0/0000:02:00.0/nvme/nvme0"
    block(tree, "nvme0n1", 1920, controller, **{"device/model": "KIOXIA"})
    block(tree, "sda", 8001, "pci0000:00/0000:00:17.0/ata1/host0/block", **{"queue/rotational": "1"})
    block(tree, "sdb", 480, "pci0000:00/0000:00:17.0/ata2/host1/block")
    block(tree, "sdc", 16, "pci0000:00/0000:00:14.0/usb1/block", removable="1")
    block(tree, "vda", 100, "pci0000:00/0000:00:05.0/virtio1/block")
    block(tree, "loop0", 1, "virtual/block")
    block(tree, "sdd", 0, "pci0000:00/0000:00:17.0/ata3/host2/block")
    found = {one["name"]: one for one in hardware.disks(tree.node())}
    assert {name: (one["class"], one["gb"]) for name, one in found.items()} == {
        "nvme0n1": ("nvme", 1920),
        "sda": ("hdd", 8001),
        "sdb": ("ssd", 480),
        "vda": ("virtual", 100),
    }
    assert found["nvme0n1"]["model"] == "KIOXIA"
    assert (found["nvme0n1"]["link"]["width"], found["nvme0n1"]["port_link"]["width"]) == (2, 4)
    assert found["sda"]["link"] is None


def test_link_of_a_disk_with_several_paths(tree):
    tree.file("/sys/devices/pci0000:00/0000:02:00.0/current_link_width", "4")
    tree.link("/sys/bus/pci/devices/0000:02:00.0", "../../../devices/pci0000:00/0000:02:00.0")
    tree.link("/sys/class/nvme/nvme0", "../../devices/pci0000:00/0000:02:00.0/nvme/nvme0")
    block(tree, "nvme0n1", 1920, "virtual/nvme-subsystem/nvme-subsys0")
    (disk,) = hardware.disks(tree.node())
    assert disk["link"]["width"] == 4


def test_what_the_largest_kernel_takes_in_boot(tree):
    assert hardware.kernel_mib(tree.node()) is None
    for version, mib in (("6.1.0-9-amd64", 3), ("6.1.0-10-amd64", 5)):
        tree.file(f"/boot/vmlinuz-{version}", bytes(1 << 20)).file(f"/boot/initrd.img-{version}", bytes(mib << 20))
        tree.file(f"/boot/config-{version}", b"x")
    tree.file("/boot/vmlinuz-0-rescue-5d", bytes(20 << 20)).file("/boot/grub/grub.cfg")
    assert hardware.kernel_mib(tree.node()) == 7  # 6 MiB and one byte


def test_initramfs_of_dracut_counts(tree):
    tree.file("/boot/vmlinuz-5.14.0-1.el9.x86_64", b"x").file("/boot/initramfs-5.14.0-1.el9.x86_64.img", bytes(2 << 20))
    tree.file("/boot/initramfs-5.14.0-1.el9.x86_64kdump.img", bytes(9 << 20))
    assert hardware.kernel_mib(tree.node()) == 3
