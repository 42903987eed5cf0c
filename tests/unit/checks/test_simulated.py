"""The models of tests/sim, read as gpu_facts reads a node, are healthy to the checks too; their faults are found."""

from pathlib import Path

import pytest
from ansible_collections.gpulab.node.plugins.module_utils import facts_pci
from ansible_collections.gpulab.node.plugins.module_utils.checks.runner import verify
from ansible_collections.gpulab.node.plugins.module_utils.facts_node import Node
from ansible_collections.gpulab.node.plugins.module_utils.nvml_facts import NvmlQuery
from sim.build import build
from sim.hardware import write_pci
from sim.settings import Settings

from . import nodes

MODELS = sorted((Path(__file__).parents[2] / "sim/models").glob("*.conf"))
PROVISIONED = f"driver_version = {nodes.DRIVER}\ngpu.*.persistence = 1\n"
DEADLINE = 20.0


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return build(tmp_path_factory.mktemp("simulated")) / "libnvidia-ml.so.1"


@pytest.fixture
def simulate(library, tmp_path, monkeypatch):
    """Return a function that simulates a model with more settings and returns the node's facts."""

    def read(model, settings=""):
        file = tmp_path / "gpu.conf"
        file.write_text(model.read_text(encoding="utf-8") + PROVISIONED + settings, encoding="utf-8")
        monkeypatch.setenv("GPULAB_SIMULATION", str(file))
        write_pci(tmp_path / "root", Settings(file), "nvidia")
        pci, simulated = facts_pci.read(Node(tmp_path / "root"))
        facts = nodes.healthy("t4")
        facts.update(simulated=simulated, pci=pci, nvml=NvmlQuery(DEADLINE, str(library)).facts())
        facts["system"].update(container=True, memory_mib=4_000_000)
        return facts

    return read


def grave(facts):
    return {(r.id, r.severity, r.remediation) for r in verify(nodes.node(facts)) if r.severity in ("warn", "fail")}


def keys(data):
    """Return the keys of nested mappings; a reading that failed has none."""
    if not isinstance(data, dict) or {"unsupported", "error"} & set(data):
        return None
    return {key: keys(value) for key, value in data.items()}


def test_made_nodes_are_laid_out_as_read_ones(simulate):
    read, made = simulate(next(path for path in MODELS if path.stem == "h100-sxm-8")), nodes.healthy("h100x8")
    assert keys(made["nvml"]["gpus"][0]) == keys(read["nvml"]["gpus"][0])
    assert keys(made["nvml"]["gpus"][0]["nvlink"]["links"][0]) == keys(read["nvml"]["gpus"][0]["nvlink"]["links"][0])
    assert keys(made["nvml"]["peers"][0]) == keys(read["nvml"]["peers"][0])
    assert keys(made["pci"]["gpus"][0]) == keys(read["pci"]["gpus"][0])


@pytest.mark.parametrize("model", MODELS, ids=lambda path: path.stem)
def test_simulated_model_has_no_finding(simulate, model):
    facts = simulate(model)
    assert facts["nvml"]["gpus"]
    assert grave(facts) == set()


@pytest.mark.parametrize(
    ("model", "settings", "finding"),
    [
        ("h100-sxm-8", "gpu.2.pcie_width = 8", ("pcie-width", "fail", "check_seating")),
        ("h100-sxm-8", "gpu.1.clock_event_reasons = 0x40", ("clock-events", "fail", "check_cooling")),
        ("a100-pcie-2", "gpu.0.ecc = 0\ngpu.0.ecc_pending = 0", ("ecc-enabled", "fail", "configure")),
        ("h100-sxm-8", "gpu.3.lost = 15", ("gpu-count", "fail", "reboot")),
        ("h200-sxm-8", "gpu.5.lost = 16", ("gpu-count", "fail", "reset_gpu")),
        ("b200-sxm-8", "gpu.1.recovery_action = 2", ("recovery-action", "fail", "reboot")),
        ("rtx4090-2", "gpu.0.pcie_width = 8", ("pcie-width", "warn", "check_seating")),
        ("t4", "gpu.0.persistence = 0", ("persistence", "warn", "configure")),
        ("l40s", "gpu.0.inforom_valid = ERR:14", ("inforom", "fail", "contact_support")),
    ],
)
def test_simulated_fault_is_found(simulate, model, settings, finding):
    facts = simulate(next(path for path in MODELS if path.stem == model), settings)
    assert grave(facts) == {finding}
