"""What the expressions in roles' vars come to, for facts that no scenario has."""

from pathlib import Path

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

ROOT = Path(__file__).parents[2]
ROLES = ROOT / "roles"


def value(role, name, facts, **variables):
    """Return what a variable of a role comes to on a node with these facts."""
    texts = yaml.safe_load((ROLES / role / "vars/main.yml").read_text(encoding="utf-8"))
    own = {key: trust_as_template(text) if isinstance(text, str) else text for key, text in texts.items()}
    templar = Templar(loader=DataLoader(), variables={**own, "ansible_facts": {"gpulab": facts}, **variables})
    return templar.template(trust_as_template(f"{{{{ {name} }}}}"))


def initramfs(*, nouveau=False, blacklist=False, nova=False, nova_blacklist=False):
    return {"nouveau": nouveau, "blacklist": blacklist, "nova": nova, "nova_blacklist": nova_blacklist}


@pytest.mark.parametrize(
    ("image", "rebuilt_for_present", "rebuilt_for_absent"),
    [
        (initramfs(), False, False),
        (initramfs(nouveau=True), True, False),
        (initramfs(nouveau=True, blacklist=True), False, True),
        (initramfs(nova=True), True, False),
        (initramfs(nova=True, blacklist=True), True, False),
        (initramfs(nova=True, nova_blacklist=True), False, True),
        (None, False, False),
    ],
)
def test_images_that_nouveau_makes_anew(image, rebuilt_for_present, rebuilt_for_absent):
    facts = {"kernels": [{"initramfs": image}], "nouveau": {"blacklisted": False}}
    found = {
        state: len(value("nouveau", "__nouveau_images_open", facts, nouveau_state=state, __nouveau_files={}))
        for state in ("present", "absent")
    }
    assert (found["present"] > 0, found["absent"] > 0) == (rebuilt_for_present, rebuilt_for_absent)


@pytest.mark.parametrize(
    ("programs", "program", "omitted"),
    [
        (["update-initramfs"], "update-initramfs", False),
        (["dracut"], "dracut", True),
        (["dracut", "update-initramfs"], "update-initramfs", True),
    ],
)
def test_what_makes_the_initramfs(programs, program, omitted):
    facts = {"system": {"initramfs_programs": programs}}
    assert value("nouveau", "__nouveau_rebuild", facts)[0] == program
    written = value("nouveau", "__nouveau_files_wanted", facts, nouveau_state="present")
    assert ("/etc/dracut.conf.d/gpulab-nouveau.conf" in written) is omitted


@pytest.mark.parametrize(("compiler", "lines"), [("g++-13", 2), (None, 0)])
def test_the_profile_names_the_host_compiler_where_the_toolkit_needs_another_than_the_systems(compiler, lines):
    text = (ROLES / "cuda/templates/gpulab-cuda.sh.j2").read_text(encoding="utf-8")
    known = {"__cuda_plan": {"home": "/usr/local/cuda"}, "__cuda_default": {"host_compiler": compiler}}
    made = Templar(loader=DataLoader(), variables=known).template(trust_as_template(text))
    assert "export CUDA_HOME=/usr/local/cuda\n" in made
    named = [line for line in made.splitlines() if "CUDAHOSTCXX" in line]
    session = [f"export CUDAHOSTCXX=/usr/bin/{compiler}", 'export NVCC_PREPEND_FLAGS="-ccbin $CUDAHOSTCXX"']
    assert named == session[:lines]


@pytest.mark.parametrize(
    ("headers_decide", "change", "family", "first"),
    [
        (False, None, "debian", False),
        (True, None, "debian", True),
        (False, {"from": "580.178.04", "to": "595.91.07"}, "debian", True),
        (False, None, "redhat", True),
    ],
)
def test_what_builds_modules_comes_before_the_driver_where_it_has_to(headers_decide, change, family, first):
    driver = {"headers_decide": headers_decide, "change": change}
    facts = {"system": {"family": family}}
    assert value("nvidia_driver", "__nvidia_driver_headers_first", facts, __nvidia_driver_plan=driver) is first


CHANGE = {"from": "580.178.04 (nvidia)", "to": "595.91.07 (nvidia, open modules)"}


@pytest.mark.parametrize(
    ("planned", "newer", "change"),
    [
        (None, {}, None),
        (None, {"skipped": True}, None),
        (None, {"foreseen": {"change": {}}}, None),
        (None, {"foreseen": {"change": {"linux-image": ["6", "7"], "libcuda1": ["1", "2"]}}}, {"from": "1", "to": "2"}),
        (CHANGE, {"foreseen": {"change": {"nvidia-smi": ["1", "2"]}}}, CHANGE),
    ],
)
def test_a_newer_driver_of_the_distribution_is_a_change_of_the_driver(planned, newer, change):
    known = {"__nvidia_driver_plan": {"change": planned}, "__nvidia_driver_newer": newer, "inventory_hostname": "a"}
    known["__nvidia_driver_packages_wanted"] = ["libcuda1"]
    known.update(nvidia_driver_change_force=None, __nvidia_driver_imex={"restart": False})
    assert value("nvidia_driver", "__nvidia_driver_change", {}, **known) == change
    assert value("nvidia_driver", "__nvidia_driver_idle_required", {}, **known) is (change is not None)


def test_imex_is_restarted_only_while_the_gpus_are_idle_or_the_node_is_named():
    known = {"__nvidia_driver_change": None, "inventory_hostname": "a", "nvidia_driver_change_force": None}
    for restart in (True, False):
        known["__nvidia_driver_imex"] = {"restart": restart}
        assert value("nvidia_driver", "__nvidia_driver_idle_required", {}, **known) is restart
    forced = {**known, "__nvidia_driver_imex": {"restart": True}, "nvidia_driver_change_force": "a"}
    assert value("nvidia_driver", "__nvidia_driver_idle_required", {}, **forced) is False


@pytest.mark.parametrize(("needed", "left"), [(True, []), (False, ["nvidia-imex", "nvidia-imex-595"])])
def test_the_packages_of_imex_are_retired_where_it_is_not_needed(needed, left):
    names = ("libnvidia-compute", "nvidia-imex", "nvidia-imex-595", "nvidia-kernel-common")
    facts = {"driver": {"packages": [{"name": name} for name in names]}}
    known = {"__nvidia_driver_imex": {"needed": needed, "service": "nvidia-imex"}}
    assert value("nvidia_driver", "__nvidia_driver_imex_packages_left", facts, **known) == left


def test_the_drivers_channel_of_imex_comes_with_it_and_the_inventory_has_the_last_word():
    known = {"__nvidia_driver_imex": {"needed": True}, "nvidia_driver_module_options": {"nvidia": {"NVreg_A": 1}}}
    (wanted,) = value("nvidia_driver", "__nvidia_driver_options_wanted", {}, **known)
    assert wanted == {"key": "nvidia", "value": {"NVreg_CreateImexChannel0": 1, "NVreg_A": 1}}
    known["nvidia_driver_module_options"] = {"nvidia": {"NVreg_CreateImexChannel0": 0}}
    (wanted,) = value("nvidia_driver", "__nvidia_driver_options_wanted", {}, **known)
    assert wanted["value"] == {"NVreg_CreateImexChannel0": 0}
    known["__nvidia_driver_imex"] = {"needed": False}
    assert (
        value("nvidia_driver", "__nvidia_driver_options_wanted", {}, **known | {"nvidia_driver_module_options": {}})
        == []
    )


@pytest.mark.parametrize(
    ("different", "wanted"),
    [
        ({}, ["nvidia-cuda-toolkit", "g++"]),
        ({"nvidia_driver_with_cuda": False}, []),
        ({"source": "nvidia"}, []),
        ({"apt_components": ["multiverse"]}, []),
        ({"toolkits": []}, []),
        ({"__nvidia_driver_change": CHANGE}, []),
    ],
)
def test_the_toolkit_comes_with_a_driver_that_replaces_none_from_the_same_sources(different, wanted):
    cuda = {"source": "distribution", "apt_components": ["non-free"]}
    cuda["toolkits"] = [{"packages": ["nvidia-cuda-toolkit", "g++"]}]
    driver = {"source": "distribution", "apt_components": ["contrib", "non-free"], "pin_package": None}
    known = {"nvidia_driver_with_cuda": True, "__nvidia_driver_change": None, **different}
    known["__nvidia_driver_cuda"] = {name: different.get(name, value) for name, value in cuda.items()}
    known["__nvidia_driver_plan"] = driver
    known["__nvidia_driver_packages_wanted"] = ["nvidia-driver=535"]
    assert value("nvidia_driver", "__nvidia_driver_toolkit", {}, **known) == wanted
    new, there = (
        value("nvidia_driver", "__nvidia_driver_brought", {"cuda": {"toolkits": toolkits}}, **known)
        for toolkits in ([], [{"prefix": "/usr", "version": "11.8"}])
    )
    assert new == ["nvidia-driver", *wanted]
    assert there == ["nvidia-driver"]  # what was there before stays


@pytest.mark.parametrize(
    ("tags", "skipped", "expected"),
    [
        (["all"], [], True),
        (["nvidia_driver", "cuda"], [], True),
        (["nvidia_driver"], [], False),
        (["all"], ["cuda"], False),
    ],
)
def test_the_toolkit_comes_with_the_driver_where_its_own_role_runs(tags, skipped, expected):
    roles = yaml.safe_load((ROOT / "playbooks/tasks/roles.yml").read_text(encoding="utf-8"))
    (text,) = (role["vars"]["nvidia_driver_with_cuda"] for role in roles if "vars" in role)
    known = {"ansible_run_tags": tags, "ansible_skip_tags": skipped}
    assert Templar(loader=DataLoader(), variables=known).template(trust_as_template(text)) is expected


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
    facts = {"system": {"packages_unfinished": unfinished}}
    known = {"__nvidia_driver_plan": driver, "nvidia_driver_keep_former": True, "__nvidia_driver_newer": {}}
    assert value("nvidia_driver", "__nvidia_driver_half_configured", facts, **known) is broken
    assert value("nvidia_driver", "__nvidia_driver_way_back", facts, **known) is not broken


@pytest.mark.parametrize(
    ("files", "own"),
    [(["/etc/systemd/system/nvidia-persistenced.service.d/gpulab.conf"], True), (["/etc/hosts"], False)],
)
def test_only_gpulabs_own_holds_are_released(files, own):
    assert value("nvidia_driver", "__nvidia_driver_own_holds", {"own_files": files}) is own
