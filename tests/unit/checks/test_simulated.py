"""The models of tests/sim, read as gpu_facts reads a node, are healthy to the checks too; their faults are found."""

import pytest
from sim.build import build

from . import nodes, simulated_faults
from .simulated_faults import MODELS, SECONDS, SIMULATED_FAULTS, grave


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return build(tmp_path_factory.mktemp("simulated")) / "libnvidia-ml.so.1"


@pytest.fixture
def simulate(library, tmp_path, monkeypatch):
    """Return a function that simulates a model with more settings and returns the node's facts."""
    monkeypatch.setenv("GPULAB_SIMULATION", "")  # what the function sets is taken back

    def read(name, settings="", seconds=SECONDS):
        model = next(path for path in MODELS if path.stem == name)
        return simulated_faults.read(model, settings, library, tmp_path, seconds)

    return read


def keys(data):
    """Return the keys of nested mappings; a reading that failed has none."""
    if not isinstance(data, dict) or {"unsupported", "error"} & set(data):
        return None
    return {key: keys(value) for key, value in data.items()}


def test_made_nodes_are_laid_out_as_read_ones(simulate):
    read, made = simulate("h100-sxm-8"), nodes.healthy("h100x8")
    assert keys(made["nvml"]["gpus"][0]) == keys(read["nvml"]["gpus"][0])
    assert keys(made["nvml"]["gpus"][0]["nvlink"]["links"][0]) == keys(read["nvml"]["gpus"][0]["nvlink"]["links"][0])
    assert keys(made["nvml"]["peers"][0]) == keys(read["nvml"]["peers"][0])
    assert keys(made["pci"]["gpus"][0]) == keys(read["pci"]["gpus"][0])


@pytest.mark.parametrize("model", [path.stem for path in MODELS])
def test_simulated_model_has_no_finding(simulate, model):
    facts = simulate(model)
    assert facts["nvml"]["gpus"]
    assert set(grave(facts)) == set()


CUT = ("mig = 1", "mig_pending = 1", "mig_instances = 1/9/0/0.2 2/14/4/0.1", "nvlinks_down = 0 1 2 3 4 5")
MIG_MODELS = [path.stem for path in MODELS if "gpu.*.mig = N/A" not in path.read_text(encoding="utf-8")]


@pytest.mark.parametrize("model", MIG_MODELS)
def test_simulated_model_that_is_cut_as_declared_has_no_finding(simulate, model):
    facts = simulate(model, "\n".join(f"gpu.*.{line}" for line in CUT))
    gpus = facts["nvml"]["gpus"]
    facts["containers"]["cdi"][0]["mig_devices"] = [f"{gpu['index']}:{device}" for gpu in gpus for device in range(2)]
    names = [one["name"] for one in gpus[0]["mig_instances"]]
    facts["gpu_settings"] = {"all": {"mig_instances": names}}
    assert gpus[0]["remapped_rows"] == gpus[0]["ecc"]["volatile"]["uncorrected"] == nodes.ABSENT
    assert set(grave(facts)) == set()
    facts["gpu_settings"] = {"all": {"mig_instances": names[:1] * 2}}
    assert set(grave(facts)) == {("mig-instances", "fail", "configure")}


@pytest.mark.parametrize(("model", "settings", "finding"), SIMULATED_FAULTS)
def test_simulated_fault_is_found(simulate, model, settings, finding):
    assert set(grave(simulate(model, settings))) == {finding}


def test_simulated_faults_are_many_and_distinct():
    assert len({(model, settings) for model, settings, _finding in SIMULATED_FAULTS}) == len(SIMULATED_FAULTS) >= 60
    assert {model for model, _settings, _finding in SIMULATED_FAULTS} == {path.stem for path in MODELS}


@pytest.mark.parametrize("setting", ["hang = 1", "gpu.1.hang = 1", "delay_ms = 2000"])
def test_a_driver_that_does_not_answer_is_a_finding(simulate, setting):
    facts = simulate("a100-pcie-2", setting, seconds=1.0)
    assert set(grave(facts)) == {("driver-responsive", "fail", "reboot")}
