"""NVIDIA devices from a sysfs tree."""

import struct

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.facts import pci as facts_pci

H100 = {
    "vendor": "0x10de",
    "device": "0x2330",
    "class": "0x030200",
    "subsystem_vendor": "0x10de",
    "subsystem_device": "0x16c1",
    "numa_node": "1",
    "current_link_width": "16",
    "max_link_width": "16",
    "current_link_speed": "2.5 GT/s PCIe",
    "max_link_speed": "32.0 GT/s PCIe",
}
SYSFS = "/sys/bus/pci/devices"


def device(tree, address, files, parent="pci0000:10/0000:10:01.0", driver=None):
    home = f"/sys/devices/{parent}/{address}"
    for name, text in files.items():
        tree.file(f"{home}/{name}", text + "\n")
    if driver:
        tree.link(f"{home}/driver", f"../../../../bus/pci/drivers/{driver}")
    tree.link(f"{SYSFS}/{address}", f"../../../devices/{parent}/{address}")


def test_gpu(tree):
    device(tree, "0000:19:00.0", H100, driver="nvidia")
    tree.file("/sys/devices/pci0000:10/0000:10:01.0/current_link_width", "8\n")
    tree.file("/sys/devices/pci0000:10/0000:10:01.0/0000:19:00.0/iommu_group/type", "DMA-FQ\n")
    pci, simulated = facts_pci.read(tree.node())
    assert simulated is None
    assert pci == {
        "gpus": [
            {
                "address": "0000:19:00.0",
                "device": "10de:2330",
                "subsystem": "10de:16c1",
                "class": "0302",
                "driver": "nvidia",
                "vgpu": None,
                "boot_vga": None,
                "monitors": [],
                "numa_node": 1,
                "link": {"width": 16, "max_width": 16, "speed_gts": 2.5, "max_speed_gts": 32.0},
                "bridge_link": {"width": 8, "max_width": None, "speed_gts": None, "max_speed_gts": None},
                "redirecting_bridges": [],
                "iommu": "DMA-FQ",
                "errors": {"correctable": None, "nonfatal": None, "fatal": None},
            }
        ],
        "lent": [],
        "other_gpus": [],
        "nvswitches": [],
    }


@pytest.mark.parametrize(
    ("changes", "gpus", "nvswitches"),
    [
        pytest.param({"class": "0x030000"}, 1, 0, id="vga"),
        pytest.param({"class": "0x038000"}, 1, 0, id="display"),
        pytest.param({"class": "0x120000"}, 1, 0, id="accelerator"),
        pytest.param({"class": "0x040300"}, 0, 0, id="its-audio"),
        pytest.param({"class": "0x0c0330"}, 0, 0, id="its-usb"),
        pytest.param({"class": "0x068000", "device": "0x22a3"}, 0, 1, id="nvswitch"),
        pytest.param({"vendor": "0x1002"}, 0, 0, id="another-vendor"),
        pytest.param({"vendor": ""}, 0, 0, id="unreadable"),
    ],
)
def test_what_counts(tree, changes, gpus, nvswitches):
    device(tree, "0000:19:00.0", {**H100, **changes})
    pci, _ = facts_pci.read(tree.node())
    assert len(pci["gpus"]) == gpus
    assert len(pci["nvswitches"]) == nvswitches


def test_simulated_gpu_says_so(tree):
    device(tree, "0000:19:00.0", {**H100, "simulated": "simulated GPU: NVIDIA H100\nmore"})
    assert facts_pci.read(tree.node())[1] == "simulated GPU: NVIDIA H100"


def test_gpu_at_the_root_without_driver_or_node(tree):
    device(tree, "0000:00:05.0", {**H100, "numa_node": "-1"}, parent="pci0000:00")
    gpu = facts_pci.read(tree.node())[0]["gpus"][0]
    assert gpu["bridge_link"] is None
    assert gpu["driver"] is None
    assert gpu["numa_node"] is None


def test_no_pci_bus(tree):
    assert facts_pci.read(tree.node()) == ({"gpus": [], "lent": [], "other_gpus": [], "nvswitches": []}, None)


LENDING = ("vfio-pci", "nvgrace-gpu-vfio-pci", "nvidia-vgpu-vfio", "nvidia-vfio", "pci-stub", "pciback", "xen-pciback")


def devices(tree, files=None):
    """Return the addresses of the GPUs that the node may use, and what is said of those that it may not."""
    pci, _ = facts_pci.read(tree.node(), files)
    return [gpu["address"] for gpu in pci["gpus"]], [(gpu["address"], gpu["driver"]) for gpu in pci["lent"]]


@pytest.mark.parametrize("driver", LENDING)
def test_a_gpu_of_a_virtual_machine_is_none_of_the_nodes(tree, driver):
    device(tree, "0000:19:00.0", H100, driver=driver)
    device(tree, "0000:1a:00.0", H100, driver="nvidia")
    assert devices(tree) == (["0000:1a:00.0"], [("0000:19:00.0", driver)])


@pytest.mark.parametrize("driver", ["nvidia", "nouveau", "NovaCore", None])
def test_a_gpu_that_any_other_driver_has_is_the_nodes(tree, driver):
    device(tree, "0000:19:00.0", H100, driver=driver)
    assert devices(tree) == (["0000:19:00.0"], [])


@pytest.mark.parametrize(
    ("override", "driver", "lent"),
    [("vfio-pci", None, True), ("vfio-pci", "nvidia", False), ("(null)", None, False), ("nvidia", None, False)],
)
def test_a_gpu_that_is_to_get_no_other_driver_is_lent(tree, override, driver, lent):
    """As driverctl and libvirt leave it while nothing is bound."""
    device(tree, "0000:19:00.0", {**H100, "driver_override": override}, driver=driver)
    assert bool(devices(tree)[1]) is lent


@pytest.mark.parametrize(
    ("text", "cmdline", "driver", "lent"),
    [
        ("options vfio-pci ids=10de:2330,10de:1aeb disable_vga=1", "", None, True),
        ("options vfio_pci ids=10DE:2330:ffffffff:ffffffff", "", None, True),
        ("", "quiet vfio-pci.ids=10de:2330", None, True),
        ("options vfio-pci ids=10de:2330", "", "nouveau", False),
        ("options vfio-pci ids=10de:2331", "", None, False),
        ("#options vfio-pci ids=10de:2330", "", None, False),
    ],
)
def test_a_gpu_that_is_reserved_for_vfio_and_unbound_is_lent(tree, text, cmdline, driver, lent):
    device(tree, "0000:19:00.0", H100, driver=driver)
    tree.file("/proc/cmdline", cmdline)
    assert bool(devices(tree, {"/etc/modprobe.d/vfio.conf": text})[1]) is lent


def test_a_gpu_that_this_host_cuts_and_its_parts_are_none_of_the_nodes(tree):
    device(tree, "0000:19:00.0", H100, driver="nvidia")
    tree.directory(f"{SYSFS}/0000:19:00.0/mdev_supported_types")
    device(tree, "0000:1a:00.0", H100, driver="nvidia")
    device(tree, "0000:1a:00.4", H100, driver="nvidia")
    tree.link(f"{SYSFS}/0000:1a:00.4/physfn", "../0000:1a:00.0")
    assert devices(tree) == (["0000:1a:00.0"], [("0000:19:00.0", "nvidia-vgpu-vfio")])


@pytest.mark.parametrize("sign", ["mdev_supported_types/nvidia-556/name", "nvidia/current_vgpu_type"])
def test_a_gpu_whose_virtual_functions_are_vgpus_is_lent(tree, sign):
    """From Ampere on; since Linux 6.8 without mediated devices, and the functions' driver is called nvidia, too."""
    device(tree, "0001:c8:00.0", {**H100, "sriov_numvfs": "48"}, driver="nvidia")
    device(tree, "0001:c8:04.5", {**H100, sign: "1164"}, driver="nvidia")
    tree.link(f"{SYSFS}/0001:c8:04.5/physfn", "../0001:c8:00.0")
    device(tree, "0001:c9:00.0", H100, driver="nvidia")
    assert devices(tree) == (["0001:c9:00.0"], [("0001:c8:00.0", "nvidia-vgpu-vfio")])


@pytest.mark.parametrize(("driver", "lent"), [("nvidia", True), (None, False), ("nouveau", False)])
def test_a_host_of_vgpus_lends_what_its_driver_has(tree, driver, lent):
    """Before its virtual functions are there, or on a GPU that lends itself in slices of time."""
    device(tree, "0000:19:00.0", H100, driver=driver)
    tree.directory("/sys/module/nvidia_vgpu_vfio")
    assert bool(devices(tree)[1]) is lent


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"vendor": "0x1002", "device": "0x74a1", "class": "0x120000"}, ["AMD 1002:74a1"]),
        ({"vendor": "0x8086", "device": "0x0bd5", "class": "0x038000"}, ["Intel 8086:0bd5"]),
        ({"vendor": "0x8086", "class": "0x020000"}, []),
        ({"vendor": "0x1a03", "class": "0x030000"}, []),  # draws the console of a server
    ],
)
def test_gpus_of_other_makers(tree, changes, found):
    device(tree, "0000:19:00.0", {**H100, **changes})
    pci, _ = facts_pci.read(tree.node())
    assert [f"{gpu['maker']} {gpu['device']}" for gpu in pci["other_gpus"]] == found
    assert pci["gpus"] == []


def test_a_virtual_function_of_another_makers_gpu_is_a_part_of_it(tree):
    device(tree, "0000:00:02.0", {**H100, "vendor": "0x8086", "class": "0x030000"}, driver="i915")
    device(tree, "0000:00:02.1", {**H100, "vendor": "0x8086", "class": "0x030000"})
    tree.link(f"{SYSFS}/0000:00:02.1/physfn", "../0000:00:02.0")
    (gpu,) = facts_pci.read(tree.node())[0]["other_gpus"]
    assert (gpu["address"], gpu["driver"]) == ("0000:00:02.0", "i915")


@pytest.mark.parametrize(
    ("boot_vga", "status", "shown"),
    [
        ("1", "connected", {"boot_vga": True, "monitors": ["DP-1"]}),
        ("0", "disconnected", {"boot_vga": False, "monitors": []}),
        (None, None, {"boot_vga": None, "monitors": []}),
    ],
)
@pytest.mark.parametrize("vendor", ["0x10de", "0x8086"])
def test_where_the_display_is(tree, vendor, boot_vga, status, shown):
    files = {**H100, "vendor": vendor, "class": "0x030000", **({"boot_vga": boot_vga} if boot_vga else {})}
    device(tree, "0000:01:00.0", files)
    if status:
        tree.file(f"{SYSFS}/0000:01:00.0/drm/card1/card1-DP-1/status", f"{status}\n")
        tree.file(f"{SYSFS}/0000:01:00.0/drm/card1/card1-HDMI-A-1/status", "unknown\n")
        tree.file(f"{SYSFS}/0000:01:00.0/drm/renderD128/dev", "226:128\n")
    pci, _ = facts_pci.read(tree.node())
    (gpu,) = pci["gpus"] or pci["other_gpus"]
    assert {name: gpu[name] for name in shown} == shown


def with_capabilities(*capabilities, size=256):
    """Return a configuration space with this list of capabilities: (id, what follows the pointer to the next)."""
    space, place = bytearray(size), 0x40
    space[0x34] = place if capabilities else 0
    for number, (kind, rest) in enumerate(capabilities, start=1):
        following = place + 0x20 if number < len(capabilities) else 0
        space[place : place + 2 + len(rest)] = bytes([kind, following]) + rest
        place = following
    return bytes(space)


POWER, VGPU, OTHER = (0x01, b"\x03\x00"), (0x09, b"\x16VF\x00"), (0x09, b"\x14\x01\x02\x00")


@pytest.mark.parametrize(
    ("config", "vgpu"),
    [
        (with_capabilities(POWER, VGPU), True),
        (with_capabilities(VGPU), True),
        (with_capabilities(POWER, OTHER), False),
        (with_capabilities(OTHER, VGPU), True),
        (with_capabilities(), False),
        (with_capabilities(VGPU)[:64], None),
        (b"", None),
        (bytes([0x40]) * 256, False),  # a list without an end
    ],
)
def test_a_virtual_gpu_tells_so_in_its_configuration_space(tree, config, vgpu):
    device(tree, "0000:19:00.0", H100, driver="nvidia")
    tree.file(f"{SYSFS}/0000:19:00.0/config", config)
    assert facts_pci.read(tree.node())[0]["gpus"][0]["vgpu"] is vgpu


@pytest.mark.parametrize(("text", "width"), [("16", 16), ("0", None), ("255", None), ("63", None), ("", None)])
def test_link_width(text, width):
    assert facts_pci.link_width(text) == width


@pytest.mark.parametrize(
    ("text", "speed"), [("32.0 GT/s PCIe", 32.0), ("8 GT/s", 8.0), ("Unknown", None), ("Unknown speed", None)]
)
def test_link_speed(text, speed):
    assert facts_pci.speed_gts(text) == speed


def configuration(*capabilities):
    """Return a whole configuration space with these extended capabilities: (id, place, control)."""
    space = bytearray(4096)
    for (identity, place, control), following in zip(capabilities, [*[c[1] for c in capabilities[1:]], 0]):
        struct.pack_into("<IHH", space, place, identity | 1 << 16 | following << 20, 0x7F, control)
    return bytes(space)


@pytest.mark.parametrize(
    ("config", "redirects"),
    [
        (configuration((0x01, 0x100, 0), (0x0D, 0x2A0, 0x1D)), True),
        (configuration((0x0D, 0x100, 0x08)), True),
        (configuration((0x0D, 0x100, 0x11)), False),  # source validation, upstream forwarding
        (configuration((0x01, 0x100, 0xFF)), False),
        (bytes(256), False),  # conventional PCI
        (b"\xff" * 4096, False),  # gone
        (bytes(0x100) + struct.pack("<I", 0x01 | 0x100 << 20) * 960, False),  # a capability that follows itself
        (configuration((0x0D, 0x100, 0x1D))[:64], None),  # not root
        (b"", None),
    ],
)
def test_acs_is_read_from_the_configuration_space(config, redirects):
    assert facts_pci.acs_redirects(config) is redirects


def test_bridges_of_switches_redirect_and_root_ports_do_not_count(tree):
    home, redirecting = "/sys/devices/pci0000:16/", configuration((0x0D, 0x100, 0x1D))
    chain = ["0000:16:01.0", "0000:17:00.0", "0000:18:08.0", "0000:19:00.0"]
    for depth in range(1, 5):
        place = home + "/".join(chain[:depth])
        tree.file(f"{place}/config", configuration() if depth == 2 else redirecting)
        tree.link(f"{SYSFS}/{chain[depth - 1]}", f"../../../..{place}")
    node = tree.node()
    device = f"{SYSFS}/{chain[-1]}"
    assert facts_pci.bridges_above(node, device) == ["0000:18:08.0", "0000:17:00.0", "0000:16:01.0"]
    assert facts_pci.redirecting_bridges(node, device) == ["0000:18:08.0"]
    tree.file(f"{home}/{'/'.join(chain[:3])}/config", redirecting[:64])
    assert facts_pci.redirecting_bridges(node, device) is None


def test_kernels_error_counters_are_read(tree):
    device = f"{SYSFS}/0000:19:00.0"
    tree.file(f"{device}/aer_dev_fatal", "Undefined 0\nDLP 1\nTOTAL_ERR_FATAL 1\n")
    tree.file(f"{device}/aer_dev_correctable", "RxErr 4\nTOTAL_ERR_COR 4\n")
    assert facts_pci.read_errors(tree.node(), device) == {"correctable": 4, "nonfatal": None, "fatal": 1}
