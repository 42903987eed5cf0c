"""What the expressions in roles' vars come to, for facts that no scenario has."""

import base64
import os
import subprocess
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
def test_images_that_nouveau_rebuilds(image, rebuilt_for_present, rebuilt_for_absent):
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


def test_the_gpus_are_tested_with_a_pytorch_that_has_cuda():
    builds = {"train": ("pytorch", "12.6"), "small": ("pytorch", None), "grads": ("jax", "12")}
    found = [
        {"python": name, "expected": {"framework": framework, "cuda": cuda}}
        for name, (framework, cuda) in builds.items()
    ]
    facts = {"gpulab_environments": [*found, {"python": "odd", "expected": None}]}
    assert value("verify", "__verify_pythons", {}, ansible_facts=facts) == ["train"]


@pytest.mark.parametrize(
    ("files", "own"),
    [(["/etc/systemd/system/nvidia-persistenced.service.d/gpulab.conf"], True), (["/etc/hosts"], False)],
)
def test_only_gpulabs_own_holds_are_released(files, own):
    assert value("nvidia_driver", "__nvidia_driver_own_holds", {"own_files": files}) is own


TIERS = [
    {"name": "data", "purpose": "datasets", "mount": "/mnt/data"},
    {"name": "coming", "purpose": "datasets", "mount": "/mnt/coming"},
    {"name": "scratch", "purpose": "scratch", "mount": "/scratch"},
]
MOUNTED = {"filesystems": [{"mount": place} for place in ("/", "/mnt/data", "/scratch", "/srv")]}


@pytest.mark.parametrize(
    ("named", "storage", "judged"),
    [
        (["/srv"], {"storage_tiers": TIERS}, ["/srv", "/mnt/data"]),
        (["/mnt/data"], {"storage_tiers": TIERS}, ["/mnt/data"]),
        (["/srv"], {"storage_tiers": TIERS, "storage_state": "absent"}, ["/srv"]),
        (["/srv"], {"storage_tiers": None}, ["/srv"]),
        ([], {}, []),
    ],
)
def test_the_preflight_judges_the_mounted_tiers_for_datasets(named, storage, judged):
    found = value("preflight", "__preflight_dataset_mounts", MOUNTED, preflight_dataset_mounts=named, **storage)
    assert found == judged


@pytest.mark.parametrize(
    ("named", "storage", "read"),
    [
        (
            [{"path": "/srv"}],
            {"storage_tiers": TIERS},
            [{"path": "/srv"}, {"path": "/mnt/data"}, {"path": "/mnt/coming"}],
        ),
        (
            [{"path": "/mnt/data", "least_mbs": 800}],
            {"storage_tiers": TIERS},
            [{"path": "/mnt/data", "least_mbs": 800}, {"path": "/mnt/coming"}],
        ),
        ([], {"storage_tiers": TIERS, "storage_state": "absent"}, []),
        ([], {"storage_tiers": None}, []),
        ([], {}, []),
    ],
)
def test_the_proof_reads_the_tiers_for_datasets(named, storage, read):
    assert value("verify", "__verify_mounts", {}, verify_mounts=named, **storage) == read


AWAKE = ROLES / "nvidia_driver/templates/gpulab-awake.j2"


@pytest.mark.parametrize(
    ("answer", "held"), [("4242\n", True), ("", False), ("NVIDIA-SMI has failed, status: 9\n", False)]
)
def test_the_node_is_kept_awake_only_while_a_process_computes(tmp_path, answer, held):
    """The programs that it calls are played: nvidia-smi answers so once, and then that nothing computes."""
    said = tmp_path / "said"
    programs = {
        "nvidia-smi": f'cat {tmp_path}/answer && : > {tmp_path}/answer; echo "smi $*" >> {said}',
        "systemd-inhibit": f'echo "$*" >> {said}; while [ "${{1#--}}" != "$1" ]; do shift; done; exec sh "$@"',
        "sleep": f'echo "sleep $*" >> {said}; [ $(grep -c sleep {said}) -lt 2 ] || kill -TERM $(cat {tmp_path}/pid)',
    }
    for name, script in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "answer").write_text(answer, encoding="utf-8")
    command = f"echo $$ > {tmp_path}/pid; exec sh {AWAKE}"
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    subprocess.run(["sh", "-c", command], env=environment, timeout=30, check=False)
    lines = said.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "smi --query-compute-apps=pid --format=csv,noheader"
    assert bool([line for line in lines if line.startswith("--what=sleep --mode=block")]) is held


# The door beside Slurm

CLOSED = "/etc/systemd/system/user-.slice.d/50-gpulab-slurm.conf"
ADMIN = "/etc/systemd/system/user-1000.slice.d/60-gpulab-slurm.conf"
OTHER = "/etc/systemd/system/user-2000.slice.d/60-gpulab-slurm.conf"
ROOT_SLICE = "/etc/systemd/system/user-0.slice.d/60-gpulab-slurm.conf"


def door(name="__slurm_door_contents", *, desktop="not-found", own_files=(), cgroup="", **variables):
    """Return a variable of role slurm on a node, as a run by Ansible's user 1000 sees it."""
    facts = {"services": {"display-manager": {"load": desktop}}, "own_files": list(own_files)}
    given = {"slurm_state": "present", "slurm_door": "auto", **variables}
    if cgroup is not None:
        cgroup = cgroup or "5:devices:/user.slice\n0::/user.slice/user-1000.slice/session-4.scope\n"
        given["__slurm_own_cgroup"] = {"content": base64.b64encode(cgroup.encode()).decode()}
    return value("slurm", name, facts, **given)


def test_the_door_is_closed_but_for_root_and_ansibles_user():
    found = door()
    assert set(found) == {CLOSED, ADMIN, ROOT_SLICE}
    policy = found[CLOSED].splitlines()
    assert policy[:2] == ["[Slice]", "DevicePolicy=closed"]
    assert all(line.startswith("DeviceAllow=") and "nvidia" not in line and "char-*" not in line for line in policy[2:])
    assert found[ADMIN] == found[ROOT_SLICE] == "[Slice]\nDevicePolicy=auto\nDeviceAllow=\n"


@pytest.mark.parametrize("cgroup", ["0::/system.slice/cron.service\n", "0::/\n"])
def test_a_run_that_is_no_login_exempts_nobody(cgroup):
    assert set(door(cgroup=cgroup)) == {CLOSED, ROOT_SLICE}


def test_whom_a_former_run_exempted_stays_so():
    """Two people with accounts of their own run gpulab in turn, and the second run of each changes nothing."""
    assert set(door(own_files=[OTHER, CLOSED, "/etc/x/gpulab"])) == {CLOSED, ADMIN, ROOT_SLICE, OTHER}


@pytest.mark.parametrize("variables", [{"slurm_door": "open"}, {"desktop": "loaded"}, {"slurm_state": "absent"}])
def test_an_open_door_leaves_no_file(variables):
    found = door(own_files=[OTHER, CLOSED], **variables)
    assert set(found.values()) == {""}
    assert {CLOSED, ADMIN, ROOT_SLICE, OTHER} == set(found)


def test_a_node_that_leaves_is_not_looked_at_and_loses_its_files():
    found = door(own_files=[CLOSED, OTHER], slurm_state="absent", cgroup=None)
    assert (set(found), set(found.values())) == ({CLOSED, ROOT_SLICE, OTHER}, {""})


def test_a_shell_says_that_the_door_is_closed_only_where_it_is():
    (closed,) = door("__slurm_door_message").values()
    assert "srun --gres=gpu:1 --pty bash" in closed
    for variables in ({"slurm_door": "open"}, {"slurm_state": "absent"}, {"desktop": "loaded"}):
        assert set(door("__slurm_door_message", **variables).values()) == {""}


def test_a_desktops_user_is_never_shut_out():
    assert door("__slurm_closed", desktop="loaded") is False
    assert door("__slurm_closed", desktop="loaded", slurm_door="closed") is True  # which is refused


TANK, SHARE = {"mount": "/tank"}, {"mount": "/share", "nfs": "server:/share"}


@pytest.mark.parametrize(
    ("mounted", "unmounted"),
    [
        ([], {"/tank": "disk", "/share": "server"}),
        ([{"mount": "/tank", "mounted": "/dev/sdb", "waits": False}], {"/share": "server"}),
        ([{"mount": "/tank", "mounted": None, "waits": True}], {"/share": "server"}),
        ([{"mount": "/tank", "mounted": None, "waits": False}], {"/tank": "disk", "/share": "server"}),
    ],
)
def test_this_run_mounts_the_tiers_where_nothing_is_mounted_yet(mounted, unmounted):
    variables = {"storage_tiers": [TANK, SHARE], "storage_state": "present"}
    assert value("users", "__users_unmounted", {"storage": mounted}, **variables) == unmounted
    variables["storage_state"] = "absent"
    assert value("users", "__users_unmounted", {"storage": mounted}, **variables) == {}


@pytest.mark.parametrize(
    ("accounts", "differ"),
    [
        (None, False),
        ({"limits": None}, False),
        ({"limits": {"differs": []}}, False),
        ({"limits": {"differs": [1]}}, True),
    ],
)
def test_a_limit_that_systemd_has_not_read_is_read_by_the_next_run(accounts, differ):
    assert value("users", "__users_limits_differ", {"accounts": accounts}) is differ
