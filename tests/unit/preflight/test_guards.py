"""What keeps a plan from being carried out."""

from __future__ import annotations

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.plugin_utils import catalog, options
from ansible_collections.gpulab.node.plugins.plugin_utils.plan import resolve
from ansible_collections.gpulab.node.plugins.plugin_utils.plan.case import refuse_borrowed_drivers

from unit.plan import make as planned

from .make import DRIVER, PLAN, found, node, told

FULL = {"free_mib": 2499}


def test_an_interrupted_dpkg_fails_and_names_the_packages():
    facts = node(package_state="interrupted", packages_unfinished=["linux-image-amd64"])
    assert found(facts) == [("fail", "H047")]
    (text,) = told(facts)
    assert text.startswith(
        "GPULAB-H047 an earlier installation was cut off: linux-image-amd64 was interrupted. Remedy: Run"
    )


UNBUILT = ("nvidia-dkms-510", "nvidia-driver-510")
ERROR = "nv-linux.h:9:9: error: implicit declaration of function 'in_irq'"


def half_configured(*others, error=ERROR, version="510.39.01"):
    """Return a node with a driver whose build failed; others are unfinished packages beside it."""
    facts = node(package_state="interrupted", packages_unfinished=[*UNBUILT, *others])
    facts["driver"]["packages"] = [{"name": name, "version": "510.39.01-0ubuntu1"} for name in UNBUILT]
    build = {"module": "nvidia", "version": version, "state": "added", "source": True, "error": error}
    return {**facts, "kernels": [{"version": "6.8.0-40-generic", "dkms": [build]}]}


def test_a_driver_that_does_not_build_is_not_to_be_configured_once_more():
    """https://github.com/NVIDIA/open-gpu-kernel-modules/issues/188: dpkg --configure -a builds it again, and fails."""
    facts = half_configured()
    assert found(facts) == [("fail", "D040")]
    (text,) = told(facts)
    assert ERROR in text
    assert "Known cause" in text
    assert "apt-get remove nvidia-dkms-510 nvidia-driver-510" in text
    assert "dpkg --configure" not in text


def test_a_node_that_is_to_be_mended_keeps_the_driver_that_would_build():
    """A full disk, a missing compiler or library: no other driver builds there either."""
    (text,) = told(half_configured(error="cc1: fatal error: error writing to /tmp/x.s: No space left on device"))
    assert "Remedy: Free space in /tmp" in text
    assert "Then run dpkg --configure -a on the node" in text
    assert "apt-get remove" not in text


def test_what_else_was_cut_off_beside_it_is_named_for_itself():
    assert found(half_configured("bash")) == [("fail", "D040"), ("fail", "H047")]
    assert "nvidia" not in told(half_configured("bash"))[1]


def waiting_kernel(*others, error=ERROR, running="6.8.0-40-generic"):
    """Return a node whose new kernel waits for the driver that works on the one that runs."""
    names = ["linux-image-6.8.0-41-generic", "linux-headers-6.8.0-41-generic", "linux-generic", *others]
    facts = node(package_state="interrupted", packages_unfinished=names, kernel=running)
    facts["driver"]["packages"] = [{"name": name, "version": "510.39.01-0ubuntu1"} for name in UNBUILT]
    build = {"module": "nvidia", "version": "510.39.01", "state": "installed", "source": True, "error": None}
    failed = {**build, "state": "added", "error": error}
    kernels = [{"version": "6.8.0-40-generic", "dkms": [build]}, {"version": "6.8.0-41-generic", "dkms": [failed]}]
    return {**facts, "kernels": kernels}


def test_a_kernel_for_which_the_driver_does_not_build_is_not_to_be_configured_once_more():
    facts = waiting_kernel()
    assert found(facts) == [("fail", "D040")]
    (text,) = told(facts)
    assert "DKMS could not build nvidia 510.39.01 for kernel 6.8.0-41-generic" in text
    assert "apt-get remove linux-image-6.8.0-41-generic linux-headers-6.8.0-41-generic linux-generic" in text
    assert "Boot another kernel" not in text
    assert "dpkg --configure" not in text
    assert "Boot another kernel: this one runs" in told(waiting_kernel(running="6.8.0-41-generic"))[0]


def test_a_kernel_for_which_the_driver_would_build_is_configured_once_the_node_is_mended():
    (text,) = told(waiting_kernel(error="cc1: fatal error: error writing to /tmp/x.s: No space left on device"))
    assert "Then run dpkg --configure -a on the node" in text
    assert "apt-get remove" not in text


def test_what_else_was_cut_off_beside_a_kernel_stays():
    assert found(waiting_kernel("linux-libc-dev")) == [("fail", "D040"), ("fail", "H047")]
    assert "linux-libc-dev" not in told(waiting_kernel("linux-libc-dev"))[0]
    assert found(waiting_kernel(error=None)) == [("fail", "H047")]


@pytest.mark.parametrize("given", [{"error": None}, {"version": "535.54.03"}], ids=["no log", "of another driver"])
def test_a_driver_that_was_merely_cut_off_is_configured(given):
    assert found(half_configured(**given)) == [("fail", "H047")]


def test_what_the_plan_takes_off_is_not_in_its_way():
    plan = {
        **PLAN,
        "driver": {
            **DRIVER,
            "conflicting_packages": ["nvidia-dkms-510:i386"],
            "remove_packages": ["nvidia-driver-510"],
        },
    }
    assert found(half_configured(), plan=plan) == []
    assert found(half_configured("bash"), plan=plan) == [("fail", "H047")]
    journal = node(package_state="interrupted", packages_unfinished=[])
    assert found(journal, plan=plan) == [("fail", "H047")]


@pytest.mark.parametrize(
    ("root", "code"),
    [({"responsive": False, "free_mib": None, "free_inodes": None}, "H080"), ({"read_only": True}, "H081")],
    ids=["silent", "read-only"],
)
@pytest.mark.parametrize("driver", [None, "535.309.01"])
def test_a_file_system_of_the_plan_that_cannot_be_written_fails(root, code, driver):
    assert found(node(root=root, driver=driver)) == [("fail", code)]


def test_a_file_system_the_plan_does_not_touch_is_left_alone():
    assert found(node(data={"read_only": True, "responsive": False, "free_mib": 0, "free_inodes": 0})) == []


@pytest.mark.parametrize(
    ("root", "findings"),
    [
        ({"free_mib": 2500}, []),
        (FULL, [("fail", "H082")]),
        ({"free_inodes": 50_000}, []),
        ({"free_inodes": 49_999}, [("fail", "H083")]),
        ({"free_inodes": None}, []),
    ],
)
def test_space_and_inodes_for_the_plan(root, findings):
    assert found(node(root=root)) == findings


def test_a_node_with_its_driver_is_only_warned_of_little_space():
    assert found(node(root=FULL, driver="535.309.01")) == [("warn", "H082")]


def test_everything_comes_at_once_and_failures_first():
    facts = node(root={**FULL, "read_only": True}, cpu_cores=4, package_state="interrupted")
    assert found(facts) == [("fail", "H047"), ("fail", "H081"), ("fail", "H082"), ("warn", "H071")]


def test_a_container_is_not_spared_what_is_its_own():
    assert found(node(root=FULL, container=True, virtualization="docker")) == [("fail", "H082")]


@pytest.mark.parametrize(
    ("kernel", "code"),
    [("5.15.148-tegra", "H084"), ("5.15.167.4-microsoft-standard-WSL2", "H085"), ("4.4.0-19041-Microsoft", "H085")],
)
def test_a_system_with_a_borrowed_driver_is_refused_before_its_missing_gpu(kernel, code):
    with pytest.raises(Refusal) as caught:
        resolve(planned.facts(gpus=(), running=kernel), options.complete({}), catalog.load(), planned.TODAY)
    assert caught.value.code == code


@pytest.mark.parametrize("kernel", ["6.1.0-50-cloud-amd64", "6.8.0-1020-nvidia-64k", "6.8.0-1031-azure"])
def test_other_kernels_are_no_reason_to_refuse(kernel):
    refuse_borrowed_drivers(kernel)


FILE = {"module": "nvidia", "by": "/etc/modprobe.d/a.conf"}
NEVER = {**FILE, "line": "install nvidia /bin/false", "how": "never"}
BY_ITSELF = {**FILE, "line": "blacklist nvidia", "how": "by_itself"}
ARGUMENT = {**NEVER, "by": "the kernel's command line", "line": "module_blacklist=nvidia"}
LOADED = {"modules": {"nvidia": {"loaded": True}}}
WITH_DRIVER = {**PLAN, "driver": {**DRIVER, "packages": ["nvidia-open"]}}


@pytest.mark.parametrize(
    ("forbidden", "more", "plan", "findings"),
    [
        (NEVER, {}, WITH_DRIVER, [("fail", "H200")]),
        (NEVER, LOADED, WITH_DRIVER, [("fail", "H200")]),
        (NEVER, {}, {**PLAN, "driver": {"packages": [], "source": "runfile"}}, [("fail", "H200")]),
        (NEVER, {}, {**PLAN, "driver": {"packages": [], "source": "nvidia"}}, []),
        (NEVER, {"pci": {"gpus": []}}, WITH_DRIVER, []),
        (BY_ITSELF, {}, WITH_DRIVER, [("warn", "H201")]),
        (BY_ITSELF, LOADED, WITH_DRIVER, []),
    ],
)
def test_what_forbids_the_driver_is_named_before_it_is_installed(forbidden, more, plan, findings):
    facts = {**node(), "forbidden": {"now": [], "next_boot": [forbidden]}, **more}
    assert found(facts, plan=plan) == findings
    for text in told(facts, plan=plan):
        assert f"/etc/modprobe.d/a.conf has {forbidden['line']}" in text


def test_an_argument_that_forbids_the_driver_is_taken_out_where_it_is_kept():
    facts = {**node(), "forbidden": {"now": [ARGUMENT], "next_boot": [ARGUMENT]}}
    (text,) = told(facts, plan=WITH_DRIVER)
    assert "--remove-args=module_blacklist=nvidia; then reboot" in text
    assert found({**facts, "forbidden": {"now": [ARGUMENT], "next_boot": []}}, plan=WITH_DRIVER) == []


AT_A_DESKTOP = {"users_of_gpus": {"sessions": [{"user": "ana", "desktop": True}, {"user": "ben", "desktop": False}]}}
DISPLAY_MANAGER = {"services": {"display-manager": {"active": "active"}}}
VGA = {"class": "0300"}


@pytest.mark.parametrize(
    ("more", "gpu", "driver", "who"),
    [
        (AT_A_DESKTOP, VGA, None, "ana"),
        (DISPLAY_MANAGER, VGA, None, "display-manager.service"),
        ({"services": {"display-manager": {"active": "inactive"}}}, VGA, None, None),
        ({"services": None}, VGA, None, None),
        (DISPLAY_MANAGER, {**VGA, "boot_vga": False}, None, None),
        (DISPLAY_MANAGER, VGA, "580.178.04", None),
    ],
)
def test_a_desktop_that_would_lose_its_display_is_warned_of(more, gpu, driver, who):
    plan = {**PLAN, "driver": {**DRIVER, "packages": ["nvidia-driver-cuda"]}}
    facts = {**node(gpu=gpu, driver=driver), **more}
    assert found(facts, plan=plan) == ([("warn", "H086")] if who else [])
    assert all(f"({who})" in text for text in told(facts, plan=plan))
    assert found(facts, plan={**plan, "driver": {**plan["driver"], "display": True}}) == []
    assert found(facts, plan={**plan, "driver": {**plan["driver"], "packages": [], "source": "runfile"}}) == []
