"""NVIDIA devices from a sysfs tree."""

import struct

import pytest
from ansible_collections.gpulab.node.plugins.module_utils import facts_pci

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
                "numa_node": 1,
                "link": {"width": 16, "max_width": 16, "speed_gts": 2.5, "max_speed_gts": 32.0},
                "bridge_link": {"width": 8, "max_width": None, "speed_gts": None, "max_speed_gts": None},
                "redirecting_bridges": [],
                "iommu": "DMA-FQ",
                "errors": {"correctable": None, "nonfatal": None, "fatal": None},
            }
        ],
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
    assert facts_pci.read(tree.node()) == ({"gpus": [], "nvswitches": []}, None)


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
