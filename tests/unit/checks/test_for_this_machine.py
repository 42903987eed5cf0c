"""A check says itself whether it is for a machine, and what is for it is looked at: at each level, broken or not."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.checks.model import INAPPLICABLE
from ansible_collections.gpulab.node.plugins.module_utils.checks.runner import checks, verify
from ansible_collections.gpulab.node.plugins.plugin_utils.proof import facts_of

from . import loaded, nodes, roce_faults
from .cuda_faults import COMPAT_PLAN, NEW, OLD, compiled
from .environment_faults import GPU, environment
from .host_faults import PLAN, export, images, models
from .nccl_faults import below_switch
from .settings_faults import cut_into
from .software_faults import SLURM, directory, people
from .test_faults import FAULTS

DECLARED = {"across_nodes": True, "group_names": True}
LEVELS = ("quick", "standard", "burn-in")
LOOKED = ("ok", "info", "warn", "fail")
# An idle GPU saves power: nobody can tell how fast its link is until it works.
IDLE_ONLY = "pcie-generation"


def complete(model: str) -> dict[str, Any]:
    """Return the facts of a machine with all that gpulab can put on one, after the level burn-in."""
    facts = loaded.measured(model)
    count = nodes.MODELS[model]["count"]
    export()(facts)
    people()(facts)
    directory()(facts)
    models()(facts)
    images()(facts)
    facts["receipts"] = {"base": {"inputs": {}, "plan": {}, "problem": "", "differs": [], "drift": []}}
    facts["cuda"] = {"toolkits": [OLD, NEW], "default": OLD["prefix"], "compat": ["/usr/local/cuda-13.2/compat"]}
    facts["cuda_compiled"] = [compiled(None)]
    facts["environments"] = [environment(gpus=[GPU] * count)]
    facts["slurm"] = {**SLURM, "node": {**SLURM["node"], "gpus": count}}
    facts["hardware"]["memory"].update(ecc=True, errors=[])
    facts["hardware"]["kernel_mib"] = 60
    facts["driver"]["display"] = {"libGLX_nvidia.so.0": nodes.DRIVER}
    facts["engines"].update(podman="5.4.2", containerd="2.1.3")
    facts["containers"].update(selinux={"enforcing": True, "devices": True}, toolkit_root="/")
    topology = sorted(gpu["address"] for gpu in facts["pci"]["gpus"])
    facts["nccl"].append({"name": "NCCL_TOPO_FILE", "value": "/etc/topology.xml", "file": "/etc/nccl.conf"})
    facts["nccl_files"] = {"/etc/topology.xml": {"gpus": topology, "devices": []}}
    facts["filesystems"].append({**facts["filesystems"][0], "mount": "/boot"})
    facts["services"]["irqbalance"] = {"load": "loaded", "active": "active", "sub": "running", "enabled": "enabled"}
    facts["tuning"]["swaps"] = {"/dev/sda3": ["/dev/sda3"]}
    return facts


def planned(model: str) -> dict[str, Any]:
    """Return what was applied on it."""
    watts = nodes.MODELS[model]["watts"]
    settings = {} if nodes.MODELS[model].get("unified") else {"power_limit_watts": watts}
    flavour = "proprietary" if nodes.MODELS[model]["architecture"] == "volta" else "open"
    return {
        **PLAN,
        "driver": {**PLAN["driver"], "kernel_modules": flavour},
        "cuda": {**COMPAT_PLAN["cuda"], "home": "/usr/local/cuda", "compute_capabilities": ["8.9"]},
        "libraries": {"cudnn": {"version": "9.14.0.64"}, "nccl": {"version": "2.28.3"}, "tensorrt": None},
        "container_toolkit": {"engines": ["docker", "podman", "containerd"], "packages": []},
        "environments": [{"name": "vision"}],
        "gpu_settings": {"settings": {"all": settings, "gpus": {}, "power_budget_watts": None}},
        "tuning": {
            "values": {"vm.swappiness": "10"},
            "limits": {"nofile": "1048576:1048576"},
            "services": {"irqbalance": True},
            "swap": {"place": "/dev/sda3", "mib": 4096},
        },
    }


def cut() -> dict[str, Any]:
    """Return a node whose GPUs are cut into MIG instances."""
    facts = complete("a100-pcie-x2")
    cut_into("3g.20gb", "3g.20gb")(facts)
    return facts


def switched() -> dict[str, Any]:
    """Return a node whose GPUs reach each other through a PCIe switch."""
    facts = complete("a100-pcie-x2")
    below_switch()(facts)
    return facts


def at_work() -> dict[str, Any]:
    """Return a node whose GPUs work."""
    facts = complete("t4")
    for gpu in facts["nvml"]["gpus"]:
        gpu["utilization"]["gpu"], gpu["processes"] = 97, [{"pid": 7, "memory_mib": 900}]
        gpu["clocks"].update(sm=1900, event_reasons=0x4)
    return facts


def guest() -> dict[str, Any]:
    """Return a node with a licensed vGPU."""
    facts = complete("t4")
    facts["pci"]["gpus"][0]["vgpu"] = True
    facts["nvml"]["gpus"][0]["licence"] = {"product": "NVIDIA Virtual Compute Server", "licensed": True}
    return facts


def with_roce() -> dict[str, Any]:
    """Return a node with RoCE in place of InfiniBand."""
    ports = roce_faults.healthy("h100x8")
    return {**complete("h100x8"), "infiniband": ports["infiniband"], "network": ports["network"]}


MACHINES = {
    **{model: (complete(model), planned(model)) for model in nodes.MODELS},
    "cut": (cut(), {**planned("a100-pcie-x2"), "gpu_settings": {"settings": {"all": {"mig": True}, "gpus": {}}}}),
    "switched": (switched(), planned("a100-pcie-x2")),
    "roce": (with_roce(), planned("h100x8")),
    "at work": (at_work(), planned("t4")),
    "guest": (guest(), planned("t4")),
}


def judged(machine: str, level: str = "burn-in") -> list[Any]:
    """Return the results of a machine; a level sees what its tests measured, as the proof hands it out."""
    whole, plan = MACHINES[machine]
    known = {"gpulab": {name: part for name, part in whole.items() if name != "measurements"}}
    known["gpulab_environments"], known["gpulab_cuda_compiled"] = whole["environments"], whole["cuda_compiled"]
    known["gpulab_container_started"] = whole["container_started"]
    known["gpulab_measurements"] = {**whole["measurements"], "level": level}
    for name in ("nodes_all_reduce", "nodes_rdma"):
        known[f"gpulab_{name}"] = whole["measurements"][name]
    facts = facts_of(known, level)
    assert facts
    budget = None if machine == "gb10" else 100_000  # it tells of no limit
    gpus = len(whole["nvml"]["gpus"])
    return verify(nodes.node(facts, plan, level=level, gpus=gpus, power_budget_watts=budget, **DECLARED))


def test_each_check_gives_a_healthy_machine_of_its_kind_a_verdict():
    ids = {result.id for machine in MACHINES for result in judged(machine) if result.severity == "ok"}
    assert ids == {check.id for check in checks()}


@pytest.mark.parametrize("machine", MACHINES)
def test_a_machine_that_has_everything_has_nothing_that_could_not_be_looked_at(machine):
    results = judged(machine)
    assert {r.id for r in results} == {check.id for check in checks()}
    left = {
        (r.id, r.severity, r.reason or r.summary)
        for r in results
        if r.severity in ("skipped", "unknown", "warn", "fail")
    }
    assert {entry for entry in left if entry[0] != IDLE_ONLY} == set()


@pytest.mark.parametrize("machine", MACHINES)
def test_each_level_holds_the_one_below(machine):
    verdicts = [
        {(r.id, r.gpu and r.gpu["uuid"]) for r in judged(machine, level) if r.severity in LOOKED} for level in LEVELS
    ]
    assert verdicts[0] <= verdicts[1] <= verdicts[2]
    assert verdicts[0] < verdicts[1]


def is_taken_away(check: str, facts: dict[str, Any]) -> bool:
    """Tell whether what a check looks at is not on the node any more, so that nothing of it can be wrong."""
    gone = {
        "cdi-specification": not facts["containers"]["cdi"],
        "nccl-interfaces": not any(one["name"].endswith("IFNAME") for one in facts["nccl"]),
        "iommu": not any(pair["read"] == "ok" for pair in facts["nvml"]["peers"]),
    }
    cut = any(gpu.get("mig", {}).get("enabled") is True for gpu in facts["nvml"]["gpus"])
    return bool(gone.get(check)) or (
        cut and check in ("row-remapping", "ecc-corrected", "nvlink", "peer-access", "iommu", "busy-for-nobody")
    )


@pytest.mark.parametrize(
    "fault", [one for one in FAULTS if one.declared.get("gpus") != 0], ids=lambda fault: fault.name
)
def test_a_fault_makes_no_check_one_for_another_machine(fault):
    """What a healthy machine is asked, a broken one is asked as well: nothing hides behind what is broken."""
    facts = fault.facts()
    broken = verify(nodes.node(facts, fault.plan, **fault.declared))
    healthy = verify(nodes.node(fault.healthy(fault.model), fault.plan, **fault.declared))
    asked = {r.id for r in healthy if r.severity != INAPPLICABLE}
    hidden = asked - {r.id for r in broken if r.severity != INAPPLICABLE}
    assert {check for check in hidden if not is_taken_away(check, facts)} == set()
