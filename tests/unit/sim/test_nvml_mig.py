"""The simulated Multi-Instance GPU, cut by NVIDIA's own Python binding: what fits is made, what does not is refused."""

import os
from pathlib import Path

import pytest

MODELS = Path(__file__).parents[2] / "sim/models"
A100 = (MODELS / "a100-pcie-2.conf").read_text()
ON = A100 + "gpu.*.mig = 1\ngpu.*.mig_pending = 1\n"
NOT_SUPPORTED, NO_PERMISSION, IN_USE, INSUFFICIENT_RESOURCES = 3, 4, 19, 23

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="setting needs root, in the simulation as on a GPU")


def test_the_profiles_are_those_of_nvidia_smi(run):
    node = run("nvml_mig.py", A100)
    assert node["profiles"]["MIG 3g.20gb"] == [9, 3, 2, 20096, 42]
    assert node["placements"]["MIG 3g.20gb"] == [[0, 4], [4, 4]]
    assert node["placements"]["MIG 1g.5gb"] == [[start, 1] for start in range(7)]
    assert sorted(node["profiles"]) == [
        "MIG 1g.10gb", "MIG 1g.5gb", "MIG 1g.5gb+me", "MIG 2g.10gb", "MIG 3g.20gb", "MIG 4g.20gb", "MIG 7g.40gb",
    ]  # fmt: skip


@pytest.mark.parametrize("model", ["h100-sxm-8", "h200-sxm-8", "b200-sxm-8"])
def test_every_profile_of_a_model_has_as_many_places_as_it_fits(run, model):
    node = run("nvml_mig.py", (MODELS / f"{model}.conf").read_text())
    assert len(node["profiles"]) == 7
    for name, (_id, slices, count, *_rest) in node["profiles"].items():
        assert name.startswith(f"MIG {slices}g.")
        assert len(node["placements"][name]) == (7 if name.endswith("+me") else count)


@needs_root
def test_what_is_made_is_there_for_the_next_program_with_its_device(run):
    made = run("nvml_mig.py", ON, "make:3g.20gb/2", "make:2g.10gb/0", "make:1g.5gb")
    assert made["errors"] == [None, None, None]
    seen = run("nvml_mig.py", ON)
    assert sorted(seen["instances"]) == ["1/9/0/0.2", "2/14/4/0.0", "3/19/6/-"]
    assert seen["devices"] == [
        ["MIG-51301a7e-0000-0100-8000-000000000000", "NVIDIA A100-PCIE-40GB MIG 3g.20gb", 0, 1, 0],
        ["MIG-51301a7e-0000-0200-8000-000000000000", "NVIDIA A100-PCIE-40GB MIG 2g.10gb", 0, 2, 0],
    ]


@needs_root
@pytest.mark.parametrize(
    ("steps", "error"),
    [
        (["make:3g.20gb", "make:3g.20gb", "make:1g.5gb"], INSUFFICIENT_RESOURCES),  # memory: 4 + 4 + 1 of 8
        (["make:4g.20gb", "make:4g.20gb"], INSUFFICIENT_RESOURCES),
        (["make:4g.20gb", "make:3g.20gb"], None),
        ([*["make:1g.5gb"] * 7, "make:1g.5gb"], INSUFFICIENT_RESOURCES),
        (["make:1g.5gb+me", "make:1g.5gb+me"], INSUFFICIENT_RESOURCES),
        (["make:3g.20gb/3"], NOT_SUPPORTED),  # four slices in three
        (["make:7g.40gb/4", "destroy:"], IN_USE),  # its compute instance is still there
        (["make:7g.40gb/4", "mode:0"], IN_USE),
        (["make:7g.40gb/4", "destroy:all", "mode:0"], None),
    ],
)
def test_what_does_not_fit_is_refused(run, steps, error):
    assert run("nvml_mig.py", ON, *steps)["errors"] == [None] * (len(steps) - 1) + [error]


@needs_root
@pytest.mark.parametrize(
    ("fault", "steps", "error"),
    [
        ("gpu.0.mig_refuse = 9", ["make:3g.20gb"], INSUFFICIENT_RESOURCES),
        ("gpu.0.mig_refuse_compute = 2", ["make:3g.20gb/2"], INSUFFICIENT_RESOURCES),
        ("gpu.0.set_mig_instances = ERR:4", ["make:3g.20gb/2"], NO_PERMISSION),
        ("gpu.0.mig = 0", ["make:3g.20gb"], NOT_SUPPORTED),
        ("gpu.0.mig_instances = 1/9/0/-\ngpu.0.processes = 4242:100", ["destroy:all"], IN_USE),
    ],
)
def test_a_fault_keeps_instances_from_changing(run, fault, steps, error):
    assert run("nvml_mig.py", f"{ON}{fault}\n", *steps)["errors"] == [error]


@needs_root
@pytest.mark.parametrize(("at_once", "instances"), [(0, None), (1, [])])
def test_the_mode_turns_over_at_once_or_at_a_boot(run, at_once, instances):
    node = run("nvml_mig.py", f"{A100}gpu.*.mig_at_once = {at_once}\n", "mode:1")
    assert (node["errors"], node["instances"]) == ([None], instances)


def test_a_gpu_in_instances_tells_no_utilization_and_reaches_no_peer(run):
    gpu, whole = run("read_nvml.py", f"{ON}gpu.0.mig_instances = 1/9/0/0.2\ngpu.1.mig = 0\n")["gpus"]
    assert (gpu["utilization"], gpu["p2p"], gpu["mig_instances"]) == ("error 3", 5, "1/9/0/0.2")
    assert (whole["utilization"], whole["p2p"], whole["mig_instances"]) == (0, 0, "error 3")
