"""What the role nvidia_driver does with its part of the plan."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template
from ansible_collections.gpulab.node.plugins.plugin_utils import catalog, options
from ansible_collections.gpulab.node.plugins.plugin_utils.plan import resolve
from ansible_collections.gpulab.node.plugins.plugin_utils.plan.driver_steps import Asked, driver_steps

from .make import TODAY, facts

CHANGE = {"from": "580.178.04 (nvidia)", "to": "595.91.07 (nvidia, open modules)"}
DKMS = {"module": "nvidia", "state": "installed", "version": "580.1", "source": True}


def steps(node=None, newer=None, asked=None, **parts):
    """Return the steps for a bare node; parts are what differs in the plan, by part."""
    node = node or on_node()
    plan = resolve(facts(), options.complete({}), catalog.load(), TODAY)
    plan.update({name: {**plan[name], **part} for name, part in parts.items()})
    return driver_steps(plan, node, newer or {}, asked or Asked())


def on_node(*, system=None, kernels=None, cuda=None, imex=None, **driver):
    node = facts()
    node["driver"] = {**node["driver"], "library": None, "module_on_disk": None, **driver}
    node["system"] = {**node["system"], "packages_unfinished": [], **(system or {})}
    node["kernels"] = [{"next_boot": False, "initramfs": None, **one} for one in kernels or node["kernels"]]
    return {**node, "cuda": cuda or {"toolkits": []}, "imex": imex or node["imex"]}


@pytest.mark.parametrize(
    ("headers_decide", "change", "family", "first"),
    [
        (False, None, "debian", False),
        (True, None, "debian", True),
        (False, CHANGE, "debian", True),
        (False, None, "redhat", True),
    ],
)
def test_what_builds_modules_comes_before_the_driver_where_it_has_to(headers_decide, change, family, first):
    node = on_node(system={"family": family})
    assert steps(node, driver={"headers_decide": headers_decide, "change": change})["builds_first"] is first


@pytest.mark.parametrize(
    ("installed", "driver", "family", "shares"),
    [
        ([], {}, "debian", True),
        (["6.1"], {}, "debian", True),
        (["6.1", "6.12"], {}, "debian", False),
        (["6.1", "6.12"], {"change": CHANGE}, "debian", True),
        ([], {}, "redhat", False),
        ([], {"dkms_module": None}, "debian", False),
        ([], {"source": "runfile"}, "debian", False),
    ],
)
def test_builds_are_shared_where_packages_leave_modules_to_dkms_that_it_does_not_have(
    installed, driver, family, shares
):
    builds = {kernel: [DKMS] if kernel in installed else [{**DKMS, "state": "built"}] for kernel in ("6.1", "6.12")}
    node = on_node(
        system={"family": family}, kernels=[{"version": kernel, "dkms": builds[kernel]} for kernel in builds]
    )
    wanted = {"dkms_module": "nvidia", "kernels": ["6.1", "6.12"], "change": None, **driver}
    assert steps(node, driver=wanted)["shares"] is shares


@pytest.mark.parametrize(
    ("library", "change", "keep_former", "later"),
    [
        (None, None, True, True),
        ("580.1", CHANGE, True, True),
        ("580.1", CHANGE, False, False),
        ("580.1", None, True, False),
    ],
)
def test_a_transaction_leaves_builds_out_only_where_the_role_can_take_it_back(library, change, keep_former, later):
    node = on_node(library=library)
    assert steps(node, asked=Asked(keep_former=keep_former), driver={"change": change})["build_later"] is later


@pytest.mark.parametrize(
    ("planned", "newer", "change"),
    [
        (None, {}, None),
        (None, {"linux-image": ["6", "7"], "libcuda1": ["1", "2"]}, {"from": "1", "to": "2"}),
        (None, {"linux-image": ["6", "7"]}, {"from": "6", "to": "7"}),
        (CHANGE, {"libcuda1": ["1", "2"]}, CHANGE),
    ],
)
def test_a_newer_driver_of_the_distribution_is_a_change_of_the_driver(planned, newer, change):
    found = steps(newer=newer, driver={"change": planned, "packages": ["libcuda1"]})
    assert found["change"] == change
    assert found["needs_idle_node"] is (change is not None)
    assert found["upgrade"] is bool(newer)


@pytest.mark.parametrize("restart", [True, False])
def test_imex_is_restarted_only_while_the_gpus_are_idle_or_the_node_is_named(restart):
    assert steps(imex={"restart": restart})["needs_idle_node"] is restart
    assert steps(imex={"restart": restart}, asked=Asked(forced=True))["needs_idle_node"] is False


@pytest.mark.parametrize(("needed", "left"), [(True, []), (False, ["nvidia-imex", "nvidia-imex-595"])])
def test_the_packages_of_imex_are_retired_where_it_is_not_needed(needed, left):
    names = ("libnvidia-compute", "nvidia-imex", "nvidia-imex-595", "nvidia-kernel-common")
    node = on_node(packages=[{"name": name, "version": "1", "source": "nvidia"} for name in names])
    assert steps(node, imex={"needed": needed})["imex_packages"] == left


@pytest.mark.parametrize(
    ("own", "needed", "removed"), [(True, False, True), (True, True, False), (False, False, False)]
)
def test_imex_goes_where_gpulab_set_it_up_and_nothing_needs_it(own, needed, removed):
    node = on_node(imex={"own": own, "nodes": []})
    assert steps(node, imex={"needed": needed})["remove_imex"] is removed


def test_the_drivers_channel_of_imex_comes_with_it_and_the_inventory_has_the_last_word():
    def options(own, *, needed=True):
        return steps(imex={"needed": needed}, asked=Asked(module_options=own))["module_options"]

    assert options({"nvidia": {"NVreg_A": 1}}) == {"nvidia": {"NVreg_CreateImexChannel0": 1, "NVreg_A": 1}}
    assert options({"nvidia": {"NVreg_CreateImexChannel0": 0}}) == {"nvidia": {"NVreg_CreateImexChannel0": 0}}
    assert options({"nvidia_drm": {"modeset": True}, "nvidia": {}}, needed=False) == {"nvidia_drm": {"modeset": True}}
    assert options({}, needed=False) == {}


def test_kernel_mode_setting_comes_with_a_display_and_the_inventory_has_the_last_word():
    def options(own, *, display=True):
        return steps(driver={"display": display}, asked=Asked(module_options=own))["module_options"]

    assert options({}) == {"nvidia_drm": {"modeset": 1}}
    assert options({"nvidia_drm": {"modeset": 0, "fbdev": 1}}) == {"nvidia_drm": {"modeset": 0, "fbdev": 1}}
    assert options({}, display=False) == {}


@pytest.mark.parametrize(
    ("driver", "newer", "stays"),
    [
        ({}, {}, True),
        ({"version": "535.261.03"}, {}, False),
        ({"source": "nvidia"}, {}, False),
        ({"change": CHANGE}, {}, False),
        ({}, {"libcuda1": ["1", "2"]}, False),
    ],
)
def test_a_driver_of_the_distribution_stays_in_its_version_where_it_is_not_changed(driver, newer, stays):
    own = {"source": "distribution", "version": None, "change": None, "packages": ["libcuda1"]}
    assert steps(driver={**own, **driver}, newer=newer)["stays"] is stays


@pytest.mark.parametrize(
    ("unfinished", "broken"),
    [
        (["nvidia-dkms-510", "nvidia-driver-510"], True),
        (["libcuda1"], True),
        (["linux-image-amd64"], False),
        ([], False),
    ],
)
def test_a_driver_that_cannot_be_configured_goes_first_and_is_none_to_go_back_to(unfinished, broken):
    driver = {"conflicting_packages": ["nvidia-dkms-510", "nvidia-driver-510", "libcuda1:i386"], "change": CHANGE}
    found = steps(on_node(system={"packages_unfinished": unfinished}), driver=driver)
    assert (found["unfinished"], found["way_back"]) == (broken, not broken)


@pytest.mark.parametrize(
    ("change", "keep", "source", "way_back", "former"),
    [
        (CHANGE, True, "nvidia", True, "nvidia-driver"),
        (CHANGE, True, "runfile", True, None),
        (CHANGE, False, "nvidia", False, None),
        (None, True, "nvidia", False, None),
    ],
)
def test_the_former_driver_is_kept_where_one_is_replaced(change, keep, source, way_back, former):
    found = steps(asked=Asked(keep_former=keep), driver={"change": change, "source": source})
    assert (found["way_back"], found["former"]) == (way_back, former)


@pytest.mark.parametrize(
    ("present", "source", "first"),
    [
        ({"library": None, "module_on_disk": None}, "nvidia", True),
        ({"library": "580.1", "module_on_disk": None}, "nvidia", False),
        ({"library": None, "module_on_disk": "580.1"}, "nvidia", False),
        ({"library": None, "module_on_disk": None}, "runfile", False),
    ],
)
def test_only_packages_where_no_driver_was_are_taken_off_again(present, source, first):
    assert steps(on_node(**present), driver={"source": source})["first"] is first


def test_what_goes_with_the_driver_is_named_once_and_without_versions():
    package = {"name": "nvidia-driver", "version": "1", "source": "nvidia"}
    driver = {
        "header_packages": ["linux-headers-amd64"],
        "build_packages": ["dkms"],
        "release_packages": ["epel-release"],
    }
    fabric = {"packages": ["nvidia-fabricmanager=580.1*", "nvidia-driver=580.1*"]}
    assert steps(on_node(packages=[package]), driver=driver, fabric_manager=fabric)["retired"] == [
        "nvidia-driver",
        "linux-headers-amd64",
        "dkms",
        "epel-release",
        "nvidia-fabricmanager",
        "dpkg-repack",
    ]


def test_the_former_driver_is_built_for_the_planned_kernels_that_lack_it():
    built = {"version": "6.1", "dkms": [DKMS]}
    open_ = {"version": "6.2", "dkms": [{**DKMS, "state": "added"}, {**DKMS, "state": "added", "version": "595.1"}]}
    removed = {"version": "6.3", "dkms": [{**DKMS, "state": "added"}]}
    node = on_node(kernels=[built, open_, removed], library="580.1")
    assert steps(node, driver={"kernels": ["6.1", "6.2"]})["former_builds"] == [
        {"kernel": "6.2", "module": "nvidia", "version": "580.1"}
    ]


@pytest.mark.parametrize(("headers", "built"), [("/usr/src/linux-headers-6.2", ["6.2"]), (None, [])])
def test_the_former_driver_is_built_for_a_kernel_that_the_plan_leaves_out_or_that_came_since(headers, built):
    kernels = [
        {"version": "6.1", "dkms": [DKMS]},
        {"version": "6.2", "dkms": [{**DKMS, "state": "added"}], "installed": True, "headers": headers},
    ]
    found = steps(on_node(kernels=kernels, library="580.1"), driver={"kernels": ["6.1"]})["former_builds"]
    assert [one["kernel"] for one in found] == built


def test_the_former_driver_is_the_one_whose_packages_are_there_whatever_library_the_linker_finds():
    """On RHEL's family, where the packages build nothing and the failed driver is loaded until the reboot."""
    kernel = {"version": "6.1", "dkms": [{**DKMS, "state": "added"}, {**DKMS, "state": "added", "version": "615.1"}]}
    package = {"name": "kmod-nvidia-open-dkms", "version": "3:580.1-1.el9", "source": "nvidia"}
    node = on_node(kernels=[kernel], packages=[package], library="615.1")
    assert steps(node, driver={"kernels": ["6.1"]})["former_builds"] == [
        {"kernel": "6.1", "module": "nvidia", "version": "580.1"}
    ]


def test_the_role_asks_with_its_own_variables():
    """The variable of the role, with all that it hands to the filter."""
    role = yaml.safe_load((Path(__file__).parents[3] / "roles/nvidia_driver/vars/main.yml").read_text(encoding="utf-8"))
    plan = resolve(facts(), options.complete({}), catalog.load(), TODAY)
    plan["driver"]["change"] = CHANGE
    known = {
        "ansible_facts": {"gpulab": on_node(), "gpulab_plan": plan},
        "inventory_hostname": "a",
        "nvidia_driver_change_force": "a",
        "nvidia_driver_keep_former": "no",
        "nvidia_driver_module_options": {"nvidia": {"NVreg_A": 1}},
    }
    text = trust_as_template(role["__nvidia_driver_steps"])

    def found(**other):
        return Templar(loader=DataLoader(), variables={**known, **other}).template(text)

    first = found()
    assert (first["change"], first["needs_idle_node"], first["way_back"]) == (CHANGE, False, False)
    assert first["module_options"] == {"nvidia": {"NVreg_A": 1}}
    second = found(nvidia_driver_change_force=None, nvidia_driver_keep_former=True)
    assert (second["needs_idle_node"], second["way_back"], second["upgrade"]) == (True, True, False)
    newer = {"predicted": {"change": {"libcuda1": ["1", "2"]}}}
    assert found(__nvidia_driver_newer=newer)["upgrade"] is True
    assert found(__nvidia_driver_newer={"skipped": True})["upgrade"] is False


@pytest.mark.parametrize(
    ("image", "change", "rebuilt"),
    [
        (None, CHANGE, False),
        ({"nvidia": False, "nvidia_version": None}, CHANGE, False),
        ({"nvidia": None, "nvidia_version": None}, CHANGE, False),  # it could not be read
        ({"nvidia": True, "nvidia_version": "580.1"}, None, False),
        ({"nvidia": True, "nvidia_version": "580.1"}, CHANGE, True),
        ({"nvidia": True, "nvidia_version": "570.1"}, None, True),
        ({"nvidia": True, "nvidia_version": None}, None, False),  # nobody can tell, and it would be so in each run
        ({"nvidia": True, "nvidia_version": None}, CHANGE, True),
    ],
)
def test_an_initramfs_with_another_driver_is_made_again(image, change, rebuilt):
    kernels = [{"version": "6.1.0-50-amd64", "dkms": [], "next_boot": True, "initramfs": image}]
    node = on_node(kernels=kernels, module_on_disk="580.1")
    assert steps(node, driver={"change": change})["rebuild_initramfs"] is rebuilt
