"""The models of tests/sim, read as gpu_facts reads a node, are healthy to the checks too; their faults are found."""

from pathlib import Path

import pytest
from ansible_collections.gpulab.node.plugins.module_utils import facts_kernel_log, facts_pci
from ansible_collections.gpulab.node.plugins.module_utils.checks.runner import verify
from ansible_collections.gpulab.node.plugins.module_utils.facts_node import Node
from ansible_collections.gpulab.node.plugins.module_utils.nvml_facts import NvmlQuery
from sim.build import build
from sim.hardware import write_kernel_log, write_pci
from sim.settings import Settings

from . import nodes
from .simulated_faults import SIMULATED_FAULTS

MODELS = sorted((Path(__file__).parents[2] / "sim/models").glob("*.conf"))
PROVISIONED = f"driver_version = {nodes.DRIVER}\ngpu.*.persistence = 1\n"
DEADLINE = 60.0


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
        write_kernel_log(tmp_path, Settings(file), "nvidia", nodes.DRIVER)
        pci, simulated = facts_pci.read(Node(tmp_path / "root"))
        log = (tmp_path / "kernel.log").read_text(encoding="utf-8")
        facts = nodes.healthy("t4")
        facts.update(simulated=simulated, pci=pci, nvml=NvmlQuery(DEADLINE, str(library)).facts())
        facts["kernel_log"]["events"] = facts_kernel_log.events(log)
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


@pytest.mark.parametrize(("model", "settings", "finding"), SIMULATED_FAULTS)
def test_simulated_fault_is_found(simulate, model, settings, finding):
    facts = simulate(next(path for path in MODELS if path.stem == model), settings)
    assert grave(facts) == {finding}


def test_simulated_faults_are_many_and_distinct():
    assert len({(model, settings) for model, settings, _finding in SIMULATED_FAULTS}) == len(SIMULATED_FAULTS) >= 60
    assert {model for model, _settings, _finding in SIMULATED_FAULTS} == {path.stem for path in MODELS}
