"""Loaded modules, and what modprobe's configuration forbids."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.facts import modprobe


@pytest.mark.parametrize(
    ("text", "forbidden"),
    [
        ("blacklist nouveau", {"nouveau"}),
        ("  blacklist   nova-core # why", {"nova_core"}),
        ("#blacklist nouveau", set()),
        ("install nouveau /bin/false", {"nouveau"}),
        ("install nouveau /sbin/modprobe -i nouveau", set()),
        ("alias nouveau off", {"nouveau"}),
        ("alias pci:v000010DE* nouveau", set()),
        ("options nouveau modeset=0", set()),
        ("blacklist", set()),
    ],
)
def test_blacklisted(text, forbidden):
    assert modprobe.blacklisted([text]) == forbidden


@pytest.mark.parametrize(
    ("cmdline", "forbidden"),
    [
        ("root=/dev/vda modprobe.blacklist=nouveau,nova-core quiet", {"nouveau", "nova_core"}),
        ("module_blacklist=nouveau", {"nouveau"}),
        ("nouveau.modeset=0", set()),
    ],
)
def test_blacklisted_by_kernel(cmdline, forbidden):
    assert modprobe.blacklisted_by_kernel(cmdline) == forbidden


def test_file_in_etc_hides_the_one_of_its_name(tree):
    tree.file("/lib/modprobe.d/nvidia.conf", "blacklist nouveau").file("/etc/modprobe.d/nvidia.conf", "# nothing")
    tree.file("/etc/modprobe.d/README", "blacklist nouveau")
    files = modprobe.configuration(tree.node())
    assert files == {"/etc/modprobe.d/nvidia.conf": "# nothing"}


def test_a_line_that_goes_on_after_a_backslash_is_one(tree):
    tree.file("/etc/modprobe.d/own.conf", "blacklist \\\n nouveau\ninstall nvidia \\\n/bin/false\n")
    files = modprobe.configuration(tree.node())
    assert modprobe.blacklisted(files.values()) == {"nouveau", "nvidia"}


OWN = "nvidia modprobe -i nvidia-current $CMDLINE_OPTS"


def forbids(tree, files=None, cmdline="", following=None):
    """Return what forbids the driver's modules now and at the next boot, each as (line, how)."""
    tree.file("/proc/cmdline", cmdline)
    following = following.split() if following is not None else None
    found = modprobe.forbidden(tree.node(), files or {}, following)
    return tuple([(one["line"], one["how"]) for one in found[when]] for when in ("now", "next_boot"))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("blacklist nvidia", [("blacklist nvidia", "by_itself")]),
        ("blacklist nvidiafb\nblacklist nvidia_drm\nblacklist nouveau", []),
        ("#blacklist nvidia", []),
        ("blacklist nvidia-uvm", []),  # it is loaded by its name
        ("install nvidia /bin/false", [("install nvidia /bin/false", "never")]),
        ("install nvidia /usr/bin/logger no", [("install nvidia /usr/bin/logger no", "never")]),
        ("install nvidia-uvm /bin/true # why", [("install nvidia-uvm /bin/true", "never")]),
        ("install nvidia-uvm modprobe -i nvidia-current-uvm", []),
        ("alias nvidia off", [("alias nvidia off", "never")]),
        ("alias nvidia nvidia-current", []),
        ("install", []),
        (f"install {OWN}\nblacklist nvidia-current", [("blacklist nvidia-current", "by_itself")]),
        (f"install {OWN}\nblacklist nvidia", []),  # the device asks for nvidia-current
        (f"install {OWN}\ninstall nvidia /bin/false", []),  # the first line is obeyed
        (f"install nvidia /bin/false\ninstall {OWN}", [("install nvidia /bin/false", "never")]),
    ],
)
def test_lines_that_forbid_the_driver(tree, text, found):
    assert forbids(tree, {"/etc/modprobe.d/a.conf": text}) == (found, found)


def test_the_first_install_line_is_that_of_the_first_file_by_name(tree):
    files = {"/lib/modprobe.d/b.conf": f"install {OWN}", "/etc/modprobe.d/a.conf": "install nvidia /bin/false"}
    assert forbids(tree, files)[0] == [("install nvidia /bin/false", "never")]
    renamed = {"/lib/modprobe.d/b.conf": f"install {OWN}", "/etc/modprobe.d/c.conf": "install nvidia /bin/false"}
    assert forbids(tree, renamed)[0] == []


@pytest.mark.parametrize(
    ("argument", "how", "dracut"),
    [
        ("module_blacklist=nouveau,nvidia,nvidia_drm", "never", False),
        ("module_blacklist=nvidia_uvm", "never", False),
        ("modprobe.blacklist=nvidia", "by_itself", False),
        ("modprobe.blacklist=nvidia-uvm", None, False),
        ("rd.driver.blacklist=nvidia", "by_itself", True),
        ("rd.driver.blacklist=nvidia", None, False),
        ("module_blacklist=nouveau", None, False),
        ("nvidia-drm.modeset=1", None, False),
    ],
)
def test_arguments_that_forbid_the_driver(tree, argument, how, dracut):
    if dracut:
        tree.file("/usr/bin/dracut")
    found = [(argument, how)] if how else []
    assert forbids(tree, cmdline=f"ro {argument} quiet") == (found, found)
    assert forbids(tree, cmdline="ro", following=f"ro {argument}") == ([], found)
    assert forbids(tree, cmdline=f"ro {argument}", following="ro") == (found, [])


def test_who_forbids_the_driver_is_named(tree):
    tree.file("/proc/cmdline", "module_blacklist=nvidia")
    files = {
        "/etc/modprobe.d/a.conf": "alias nvidia off",
        "/run/modprobe.d/initramfsblacklist.conf": "blacklist nvidia",
    }
    now = modprobe.forbidden(tree.node(), files, None)["now"]
    assert [one["by"] for one in now] == ["/etc/modprobe.d/a.conf", "the kernel's command line"]


def test_nouveau(tree):
    tree.file("/usr/lib/modprobe.d/a.conf", "blacklist nouveau")
    gpus = [
        {"address": "0000:01:00.0", "driver": "nouveau"},
        {"address": "0000:02:00.0", "driver": "NovaCore"},
        {"address": "0000:03:00.0", "driver": "nvidia"},
        {"address": "0000:04:00.0", "driver": None},
    ]
    files = modprobe.configuration(tree.node())
    assert modprobe.nouveau(tree.node(), files, gpus, container=False) == {
        "blacklisted": True,
        "nova_blacklisted": False,
        "files": ["/usr/lib/modprobe.d/a.conf"],
        "bound": ["0000:01:00.0", "0000:02:00.0"],
        "unused": False,
    }


@pytest.mark.parametrize(
    ("users", "container", "unused"), [("0\n", False, True), ("1\n", False, False), ("0\n", True, False)]
)
def test_nouveau_is_unused_where_nothing_on_the_node_refers_to_it(tree, users, container, unused):
    tree.file("/sys/module/nouveau/refcnt", users)
    assert modprobe.nouveau(tree.node(), {}, [], container=container)["unused"] is unused


def test_module_that_stands_in_for_nvidia():
    debian = "install nvidia modprobe -i nvidia-current $CMDLINE_OPTS\nremove nvidia modprobe -r -i nvidia-current\n"
    assert modprobe.stand_in([debian], "nvidia") == "nvidia-current"
    assert modprobe.stand_in(["install nvidia-uvm modprobe -i nvidia-current-uvm"], "nvidia") is None


@pytest.mark.parametrize(
    ("text", "version"),
    [
        (
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.261.03  Tue Jun 10 2025\nGCC version: 12.2",
            "535.261.03",
        ),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  590.48.01  Release Build", "590.48.01"),
        ("GCC version: gcc 12.2.0", None),
        ("", None),
    ],
)
def test_driver_version(text, version):
    assert modprobe.driver_version(text) == version


def test_loaded_modules(tree):
    tree.file("/proc/modules", "nvidia_uvm 1 0 - Live 0x0\nnouveau 3 1 drm, Live 0x0\n")
    tree.file("/sys/module/nvidia/version", "535.261.03\n").file("/sys/module/nova_core/parameters/x", "1")
    found = modprobe.loaded(tree.node())
    assert found["nvidia"] == {"loaded": True, "version": "535.261.03"}
    assert found["nvidia_uvm"] == {"loaded": True, "version": None}
    assert found["nouveau"]["loaded"] is True
    assert found["nova_core"] == {"loaded": False, "version": None}


def test_nothing_loaded(tree):
    assert not any(module["loaded"] for module in modprobe.loaded(tree.node()).values())


OPTIONS = """\
# Written by gpulab
options nvidia NVreg_RestrictProfilingToAdminUsers=0 NVreg_RegistryDwords="a=1; b=2" NVreg_Unknown=1
options nvidia-current NVreg_RestrictProfilingToAdminUsers=0
options nvidia-drm modeset=1
options nouveau
options
options nvidia NVreg_Open="a
"""


def test_options_of_the_drivers_modules_that_are_wanted_and_those_that_hold(tree):
    tree.file("/etc/modprobe.d/gpulab-nvidia-driver.conf", OPTIONS)
    tree.file("/etc/modprobe.d/another.conf", "options nvidia NVreg_EnableMSI=0\n")
    wanted = {
        "nvidia.NVreg_RestrictProfilingToAdminUsers": "0",
        "nvidia.NVreg_RegistryDwords": "a=1; b=2",
        "nvidia.NVreg_Unknown": "1",
        "nvidia_drm.modeset": "1",
    }
    assert modprobe.options(tree.node()) == {"wanted": wanted, "running": {}, "new": True}
    tree.file("/proc/driver/nvidia/params", 'EnableMSI: 1\nRmProfilingAdminOnly: 1\nRegistryDwords: "a=1; b=2"\n')
    tree.file("/sys/module/nvidia_drm/parameters/modeset", "Y\n")
    assert modprobe.options(tree.node())["running"] == {
        "nvidia.NVreg_RestrictProfilingToAdminUsers": "1",
        "nvidia.NVreg_RegistryDwords": "a=1; b=2",
        "nvidia_drm.modeset": "Y",
    }


def test_options_are_new_until_the_next_boot(tree):
    assert modprobe.options(tree.node()) == {"wanted": {}, "running": {}, "new": False}
    tree.file("/etc/modprobe.d/gpulab-nvidia-driver.conf", OPTIONS).file("/proc/stat", "btime 1000\n")
    assert modprobe.options(tree.node())["new"]
    tree.file("/proc/stat", "btime 99999999999\n")
    assert not modprobe.options(tree.node())["new"]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("1", "Y", True),
        ("0", "N", True),
        ("-1", "4294967295", True),
        ("0x10", "16", True),
        ("a=1", "a=1", True),
        ("1", "0", False),
        ("a=1", "a=2", False),
        ("", "0", False),
    ],
)
def test_values_of_options_are_compared_by_what_they_mean(one, other, same):
    assert modprobe.same_value(one, other) is same
