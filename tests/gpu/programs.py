"""What programs do on the GPUs of this machine: frameworks, a training, nvcc; and whether who holds a GPU is seen."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.cuda import nvcc
from ansible_collections.gpulab.node.plugins.module_utils.environments.builds import probe_source
from ansible_collections.gpulab.node.plugins.module_utils.facts import users
from ansible_collections.gpulab.node.plugins.module_utils.monitoring import collector
from ansible_collections.gpulab.node.plugins.module_utils.nvml.query import NvmlQuery

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node

MODULES = {"pytorch": "torch", "tensorflow": "tensorflow", "jax": "jax"}
SECONDS = 300
ANSWER_SECONDS = 10.0
LEAST_METRICS = 10  # of one GPU that answers
SAME = 0.02  # between torch.compile's answer and the model's, of values around 1


def work(node: Node, facts: dict[str, Any], python: str | None) -> dict[str, Any]:
    """Return what came of it.

    frameworks has the probe's answer (environments/probe.py) of each that the interpreter has; training that of
    training.py, with seen: whether the facts named its process as one that uses a GPU. compiled has what is wrong with
    each toolkit's program, None where nothing is. metrics counts the lines about GPUs that Prometheus would get.
    """
    found: dict[str, Any] = {"frameworks": {}, "training": None, "compiled": {}, "metrics": 0}
    for name, module in MODULES.items() if python else ():
        has = subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False).returncode == 0
        if has:
            argv = ["env", "XLA_PYTHON_CLIENT_PREALLOCATE=false", python, "-I", "-c", probe_source(), name]
            printed = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=SECONDS).stdout
            found["frameworks"][name] = json.loads(printed.splitlines()[-1]) if printed else None
    with tempfile.TemporaryDirectory() as directory:
        if python and facts["nvml"]["gpus"] and not facts["simulated"] and "pytorch" in found["frameworks"]:
            found["training"] = train(node, python, directory)
        known = (gpu.get("compute_capability") for gpu in facts["nvml"]["gpus"])
        capabilities = sorted({one for one in known if isinstance(one, str)})
        for toolkit in facts["cuda"]["toolkits"]:
            compiled = nvcc.compile_with(toolkit, capabilities, Path(directory), SECONDS)
            found["compiled"][toolkit["version"] or toolkit["prefix"]] = compiled["problem"]
        lines = collector.collect(node, Path(__file__)).splitlines()
    found["metrics"] = sum(line.startswith("gpulab_gpu_") for line in lines)
    return found


def train(node: Node, python: str, directory: str) -> dict[str, Any]:
    """Train, and look at the node while the program holds the GPU."""
    program = Path(__file__).with_name("training.py")
    argv = [python, str(program), directory]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin
        assert process.stdout
        held = process.stdout.readline()
        using = users.read(node, NvmlQuery(ANSWER_SECONDS).facts()["gpus"], 0)
        seen = any(one["pid"] == process.pid for one in using["who"]) and using["state"] == "busy"
        printed, _errors = process.communicate("\n", SECONDS)
    return {"seen": bool(held) and seen, **(json.loads(printed.splitlines()[-1]) if printed else {})}


def faults(worked: dict[str, Any]) -> Iterator[str]:
    """Yield what is wrong with what came of it."""
    for name, answer in worked["frameworks"].items():
        right = answer and not answer["failure"] and not answer["gpu_failure"] and answer["gpus"]
        if not right or not all(gpu["matmul"] for gpu in answer["gpus"]):
            yield f"{name} does not compute on the GPU: {answer}"
    training = worked["training"]
    if training:
        if not training["seen"]:
            yield "a program that holds the GPU was not seen as its user"
        if not training.get("amp_loss") or training["amp_loss"][1] >= training["amp_loss"][0]:
            yield f"the training learnt nothing: {training}"
        elif training["compiled_differs"] > SAME:
            yield f"torch.compile computes something else: {training}"
    if worked["metrics"] < LEAST_METRICS:
        yield "the collector does not read the GPU"
    yield from (f"CUDA {version}: {problem}" for version, problem in worked["compiled"].items() if problem)
