"""When a reboot is due: a table over what is bound, loaded and on disk."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.checks.reboot import reboot

NOUVEAU = "nouveau holds GPU 0000:01:00.0 until a reboot"
NOVA = "NovaCore holds GPU 0000:01:00.0 until a reboot"
STALE = "the NVIDIA driver 535.1 is loaded, but 550.2 is installed"
STALE_LIBRARY = f"{STALE}, with its library: new programs fail until the reboot"
ARGUMENT = "iommu=pt is set in the boot loader, but not on the running kernel's command line"
OTHER_KERNEL = "the NVIDIA driver 550.2 is installed for the next kernel, but not for the running kernel 6.1.0-1"


def facts(gpus=1, **node):
    """Describe a node by what differs from a bare one.

    Its keys: driver (bound), blacklisted, nova_blacklisted, and the NVIDIA driver's versions: loaded, running and
    coming (on disk for the running and the next kernel), library.
    """
    driver, loaded, coming = node.get("driver"), node.get("loaded"), node.get("coming")
    bound = ["0000:01:00.0"] if driver in {"nouveau", "NovaCore"} else []
    return {
        "system": {"kernel": "6.1.0-1", "container": node.get("container", False)},
        "pci": {"gpus": [{"address": "0000:01:00.0", "driver": driver}] * gpus},
        "kernels": [
            {"version": "6.1.0-1", "running": True, "next_boot": False, "nvidia_module": node.get("running")},
            {"version": "6.1.0-2", "running": False, "next_boot": True, "nvidia_module": coming},
        ],
        "modules": {"nvidia": {"loaded": loaded is not None, "version": loaded}},
        "nouveau": {
            "blacklisted": node.get("blacklisted"),
            "nova_blacklisted": node.get("nova_blacklisted"),
            "bound": bound,
        },
        "driver": {"module_on_disk": coming, "library": node.get("library")},
        "tuning": {"kernel_arguments": {"wanted": ["iommu=pt"], "running": node.get("running_with", ["iommu=pt"])}},
        "forbidden": {"now": [], "next_boot": []},
        "module_options": {"wanted": {}, "running": {}, "new": False},
        "nvml": {"gpus": []},
        "gpu_settings": {},
    }


@pytest.mark.parametrize(
    ("node", "reasons", "loadable"),
    [
        pytest.param(
            {"driver": "nvidia", "loaded": "550.2", "running": "550.2", "coming": "550.2"}, [], False, id="well"
        ),
        pytest.param({"driver": None}, [], False, id="bare"),
        pytest.param({"driver": "nouveau"}, [], False, id="nouveau-in-use-and-no-driver"),
        pytest.param({"driver": "nouveau", "blacklisted": True}, [NOUVEAU], False, id="nouveau-blacklisted-and-bound"),
        pytest.param(
            {"driver": "nouveau", "coming": "550.2", "running": "550.2"}, [NOUVEAU], False, id="installed-over-nouveau"
        ),
        pytest.param({"driver": "NovaCore", "nova_blacklisted": True}, [NOVA], False, id="nova-blacklisted-and-bound"),
        pytest.param(
            {"driver": "NovaCore", "blacklisted": True}, [], False, id="nova-bound-and-only-nouveau-blacklisted"
        ),
        pytest.param({"coming": "550.2", "running": "550.2"}, [], True, id="fresh-install-modprobe-is-enough"),
        pytest.param({"coming": "550.2"}, [OTHER_KERNEL], False, id="fresh-install-for-the-next-kernel"),
        pytest.param({"running": "550.2"}, [], True, id="driver-only-for-the-running-kernel"),
        pytest.param(
            {"driver": "nvidia", "loaded": "535.1", "running": "550.2", "coming": "550.2"},
            [STALE],
            False,
            id="upgraded",
        ),
        pytest.param(
            {"driver": "nvidia", "loaded": "535.1", "coming": "550.2", "library": "550.2"},
            [STALE_LIBRARY],
            False,
            id="upgraded-with-library",
        ),
        pytest.param(
            {"driver": "nvidia", "loaded": "535.1", "running": "535.1", "library": "550.2"},
            [],
            False,
            id="library-that-no-module-on-disk-fits",
        ),
        pytest.param({"driver": "nvidia", "loaded": "", "coming": "550.2"}, [], False, id="loaded-version-unknown"),
        pytest.param({"gpus": 0, "coming": "550.2"}, [], False, id="driver-without-gpu"),
        pytest.param({"running_with": ["quiet"]}, [ARGUMENT], False, id="kernel-argument-to-come"),
        pytest.param({"running_with": ["quiet"], "container": True}, [], False, id="kernel-of-a-container-host"),
        pytest.param({"gpus": 0, "loaded": "535.1", "coming": "550.2"}, [], False, id="upgrade-without-gpu"),
    ],
)
def test_reboot(node, reasons, loadable):
    assert reboot(facts(**node)) == {"reasons": reasons, "loadable": loadable}


@pytest.mark.parametrize(("declared", "reasons"), [(False, 1), (None, 0)])
def test_ecc_that_was_asked_for_takes_a_reboot(declared, reasons):
    node = facts(driver="nvidia", loaded="550.2", running="550.2", coming="550.2")
    modes = {"enabled": True, "pending": False}
    gpu = {"index": 0, "uuid": "GPU-1", "bus_id": "0000:01:00.0", "ecc": {"mode": modes}, "mig": {"unsupported": "X"}}
    node.update(nvml={"gpus": [gpu]}, gpu_settings={"all": {"ecc": declared}})
    assert reboot(node)["reasons"] == ["ECC of GPU 0000:01:00.0 turns off only at a reboot"] * reasons


@pytest.mark.parametrize(
    ("now", "following", "reasons", "loadable"),
    [
        (
            "never",
            None,
            ["module_blacklist=nvidia on the running kernel's command line blocks the NVIDIA driver"],
            False,
        ),
        ("never", "never", [], False),  # no reboot helps
        ("by_itself", "by_itself", [], True),
        (None, "never", [], True),
    ],
)
def test_a_driver_that_is_forbidden(now, following, reasons, loadable):
    node = facts(running="550.2", coming="550.2")
    forbidden = {"module": "nvidia", "by": "the kernel's command line", "line": "module_blacklist=nvidia"}
    node["forbidden"] = {
        when: [{**forbidden, "how": how}] if how else [] for when, how in (("now", now), ("next_boot", following))
    }
    assert reboot(node) == {"reasons": reasons, "loadable": loadable}


def test_held_gpus_are_named_on_one_line():
    node = facts(driver="nouveau", blacklisted=True)
    node["pci"]["gpus"].append({"address": "0000:02:00.0", "driver": "nouveau"})
    node["nouveau"]["bound"].append("0000:02:00.0")
    assert reboot(node)["reasons"] == ["nouveau holds GPU 0000:01:00.0, 0000:02:00.0 until a reboot"]


@pytest.mark.parametrize(("value", "new", "reasons"), [("Y", True, 0), ("0", True, 1), ("0", False, 0)])
def test_an_option_of_the_module_that_does_not_hold_yet_waits_for_one_reboot(value, new, reasons):
    node = facts(driver="nvidia", loaded="550.2", running="550.2", coming="550.2")
    options = {"wanted": {"nvidia_drm.modeset": "1"}, "running": {"nvidia_drm.modeset": value}}
    node["module_options"] = {**options, "new": new}
    told = ["nvidia_drm.modeset of the NVIDIA driver is 0, and 1 when it is reloaded"]
    assert reboot(node)["reasons"] == told[:reasons]
