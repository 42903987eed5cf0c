# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of the Python environments: what each one's own interpreter answered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.checks.model import (
    check,
    fail,
    inapplicable,
    ok,
    skipped,
    warn,
)
from ansible_collections.gpulab.node.plugins.module_utils.environments import venv

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.checks.model import Facts, Node, Result

INSTALL_GUIDE = "https://pytorch.org/get-started/locally/"
CAPABILITIES = "https://docs.nvidia.com/cuda/cuda-programming-guide/"


def tried(node: Node) -> list[Facts]:
    """Return the environments of the node."""
    found: list[Facts] = node.facts.get("environments", [])
    return found


def _silent(node: Node, *, cuda: bool = False) -> Result:
    """Answer where no environment did: one that should have answered is a finding of the check environments."""
    kind = "environment with a CUDA build" if cuda else "environment with a framework"
    due = [one for one in tried(node) if one.get("expected") is None or one.get("expected.framework")]
    if any(one.get("expected") is None or not cuda or one.get("expected.cuda") for one in due):
        return skipped(f"no {kind} answered (see environments)")
    return inapplicable(f"gpulab created no {kind} here")


def answering(node: Node) -> Iterator[tuple[str, Facts, Facts]]:
    """Yield name, expectation and answer of each environment whose framework could be imported."""
    for environment in tried(node):
        answer = environment.get("answer")
        if answer and not answer.get("failure"):
            yield environment["name"], environment["expected"], answer


@check(
    "environments",
    proves="each Python environment imports its framework in the planned version and CUDA build, and computes",
    source=INSTALL_GUIDE,
)
def environments(node: Node) -> Iterator[Result]:
    """Compare what each interpreter answered with what the environment was made for."""
    found = tried(node)
    there = {environment["name"] for environment in found}
    planned = node.plan.get("environments", []) if node.plan else []
    missing = [one["name"] for one in planned if one["name"] not in there]
    for name in missing:
        yield fail(f"the planned environment {name} does not exist", "rebuild_environment", expected=name)
    for environment in found:
        name, expected, answer = environment["name"], environment.get("expected"), environment.get("answer")
        if expected is None:
            yield fail(f"{name} is incomplete or was altered", "rebuild_environment")
        elif expected.get("framework") is None:
            yield ok(f"{name} has no framework to test")
        elif answer is None:
            yield fail(f"{name} gave no answer when its framework was tested", "rebuild_environment")
        else:
            faults = venv.faults(answer.data, expected.data)
            for fault in faults:
                yield fail(f"{name}: {fault}", "rebuild_environment")
            if not faults:
                works = f"{name} works: {expected['framework']} {answer['version']}"
                yield ok(works + node.when_tried, answer["version"])
    if not found and not missing:
        node.planned("environments")
        yield inapplicable("no Python environment is planned")


@check(
    "environment-memory",
    proves="frameworks allocate GPU memory as needed",
    source="https://docs.pytorch.org/docs/stable/notes/cuda.html",
)
def environment_memory(node: Node) -> Iterator[Result]:
    """Expect the variables that an environment sets, unless the user's own are in place."""
    answers = list(answering(node))
    for name, _expected, answer in answers:
        unset = answer.get("unset", [])
        if unset:
            yield warn(f"{name} does not set {', '.join(unset)}", "rebuild_environment", observed=unset)
        else:
            yield ok(f"{name} sets all expected variables")
    if not answers:
        yield _silent(node)


@check(
    "environment-kernels",
    proves="the CUDA build of each environment has kernels for every GPU, also where no driver answers",
    source=CAPABILITIES,
)
def environment_kernels(node: Node) -> Iterator[Result]:
    """Compare what a framework is compiled for with the GPUs that it sees, or else with those of the plan."""
    planned = node.plan.get("cuda", {}).get("compute_capabilities", []) if node.plan else []
    answers = [(name, answer) for name, expected, answer in answering(node) if expected.get("cuda")]
    for name, answer in answers:
        kernels, cuda = answer.get("architectures"), answer.get("cuda")
        capabilities = sorted({gpu["compute_capability"] for gpu in answer.get("gpus", [])}) or planned
        foreign = [one for one in capabilities if kernels and not _runs(kernels, one)]
        for one in foreign:
            yield fail(
                f"{name} has no kernels for compute capability {one}",
                "upgrade_software",
                observed=kernels,
                expected=one,
            )
        if not kernels:
            yield skipped(f"{name}: its framework does not tell which kernels it has")
        elif not capabilities:
            yield skipped(f"{name}: the compute capabilities of the GPUs are unknown")
        elif not foreign:
            yield ok(f"{name}, built for CUDA {cuda}, has kernels for {', '.join(capabilities)}", kernels)
    if not answers:
        yield _silent(node, cuda=True)


@check(
    "environment-gpus",
    proves="each environment sees every GPU and computes the same results on it as on the CPU",
    source=CAPABILITIES,
)
def environment_gpus(node: Node) -> Iterator[Result]:
    """Compare the GPUs that a framework sees with those of NVML, and their products with the CPU's."""
    answers = [(name, answer) for name, expected, answer in answering(node) if expected.get("cuda")]
    tried_on_gpus = all(environment["gpus_tried"] for environment in tried(node))
    if not answers:
        yield _silent(node, cuda=True)
    elif not node.gpus:
        reasons = sorted({answer["gpu_failure"] for _name, answer in answers if answer.get("gpu_failure")})
        yield node.without(": ".join(["no GPU", *reasons]))
    elif node.facts.get("simulated"):
        yield skipped("the GPUs are simulated")
    elif any(gpu.get("mig.enabled", False) for gpu in node.gpus):
        yield inapplicable("MIG is on: a framework sees at most one instance")
    elif not tried_on_gpus:
        yield skipped("the GPUs are in use, or their use is unknown, so no framework was tested on them")
    else:
        for name, answer in answers:
            yield from _on_gpus(name, answer, len(node.gpus))


def _on_gpus(name: str, answer: Facts, count: int) -> Iterator[Result]:
    seen = answer.get("gpus", [])
    wrong = [gpu for gpu in seen if not gpu["matmul"]]
    if len(seen) != count:
        yield fail(
            f"{name} sees {len(seen)} of {count} GPUs",
            "reinstall_driver",
            observed=len(seen),
            expected=count,
            reason=answer.get("gpu_failure"),
        )
    for gpu in wrong:
        yield fail(
            f"{name} gives different results on {gpu['name']} and on the CPU", "contact_support", observed=gpu["name"]
        )
    if len(seen) == count and not wrong:
        yield ok(f"{name} gives the same results on {count} GPUs as on the CPU", count)


def _runs(kernels: list[str], compute_capability: str) -> bool:
    """Tell whether kernels such as sm_86 (of this major version, no newer), or PTX such as compute_90, run."""
    major, minor = map(int, compute_capability.split("."))
    for kernel in kernels:
        kind, _underscore, number = kernel.partition("_")
        digits = number.rstrip("af")
        known = (int(digits[:-1]), int(digits[-1]))
        if known <= (major, minor) and (kind == "compute" or known[0] == major):
            return True
    return False
