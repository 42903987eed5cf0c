#!/usr/bin/env python3
"""Run gpulab's facts, active tests and proof on the GPUs of this machine, and record what came of it: make test-gpu.

Needs an NVIDIA driver and Python 3.9 or later, no Ansible. Where PyTorch is, it measures matrix products and trains a
little; where PyYAML is (the catalogue is YAML), it judges, and shows each rate as a share of the card's limit. Each
CUDA toolkit compiles, and a program that holds a GPU has to be seen. Run it as root, on idle GPUs: another user does
not see who uses them, and then none is loaded.

The recording, without names, uuids and serial numbers, goes to tests/gpu/recordings/<board>-<driver>.json, where the
unit tests replay it. On simulated GPUs it goes to reports/ and proves nothing about hardware.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "collections"), str(ROOT / "tests")]

from ansible_collections.gpulab.node.plugins.module_utils.active.session import BURN_IN, STANDARD, Wishes, measure
from ansible_collections.gpulab.node.plugins.module_utils.checks.measurements.gpus import LANE_GBS
from ansible_collections.gpulab.node.plugins.module_utils.checks.reboot import judged
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
from ansible_collections.gpulab.node.plugins.module_utils.facts.collect import collect
from ansible_collections.gpulab.node.plugins.plugin_utils.recording import recorded
from gpu import figures, programs

RECORDINGS = ROOT / "tests/gpu/recordings"
SIMULATED = ROOT / "reports"
ANSWER_SECONDS = 10
NOT_JUDGED = f"""NOT JUDGED: {sys.executable} has no PyYAML, so no findings or limits are above. To have it judged:
  apt-get install python3-yaml   (dnf install python3-pyyaml), and make test-gpu again
  or: python3 -m venv .venv && .venv/bin/pip install -r requirements/run.txt  (make test-gpu takes .venv)"""
COPIES = ("to_device_gbs", "to_host_gbs")


def main() -> int:
    """Run everything; return 1 where no GPU could be tested, or the proof finds a failure."""
    wanted = arguments()
    python = wanted.python or with_pytorch()
    print(f"PyTorch: {python or 'no interpreter has it, so no matrix products (--python names one)'}")
    wishes = Wishes(level=wanted.level, python=python, burn_in_minutes=wanted.minutes)
    measurements = measure(Node(), wishes)
    facts = judged(collect(Node(), ANSWER_SECONDS))
    show_tests(measurements)
    worked = programs.work(Node(), facts, python)
    faults = list(programs.faults(worked))
    print(f"programs: {json.dumps(worked)}")
    for fault in faults:
        print(f"fail programs: {fault}")
    failures = judge_and_show(facts, measurements)
    simulated = facts["simulated"] or measurements["simulated"]
    directory = Path(wanted.directory) if wanted.directory else SIMULATED if simulated else RECORDINGS
    if simulated:
        print(f"SIMULATED: {simulated}. Nothing here was measured on a GPU.")
    parts = {"facts": facts, "measurements": measurements, "programs": worked}
    try:
        made = recorded.build(parts, time.strftime("%Y-%m-%d", time.gmtime()))
    except recorded.UnfitError as error:
        print(f"NOT RECORDED: {error} is not known, so that it might tell a name")
        return 1
    path = directory / recorded.file_name(made, ".json")
    directory.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    print(f"recording: {path}")
    if failures is None:
        print(NOT_JUDGED)
    tested = any(gpu["tests"]["smoke"]["state"] != "skipped" for gpu in measurements["gpus"])
    return 0 if tested and not failures and not faults else 1


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--python", help="an interpreter that has PyTorch; by default the first one found")
    parser.add_argument("--level", choices=[STANDARD, BURN_IN], default=STANDARD)
    parser.add_argument("--minutes", type=float, default=60, help="of the burn-in")
    parser.add_argument("--directory", help="where the recording goes")
    return parser.parse_args()


def with_pytorch() -> str | None:
    """Find an interpreter that has PyTorch: this one, or the PATH's."""
    if importlib.util.find_spec("torch"):
        return sys.executable
    for name in ("python3", "python"):
        path = shutil.which(name)
        probe = "import importlib.util, sys; sys.exit(not importlib.util.find_spec('torch'))"
        if path and subprocess.run([path, "-c", probe], check=False).returncode == 0:
            return path
    return None


def show_tests(measurements: dict[str, Any]) -> None:
    """Print how each test ended."""
    for gpu in measurements["gpus"]:
        print(f"GPU {gpu['index']}: {gpu['name']}, {gpu['bus_id']}")
        for name, test in gpu["tests"].items():
            why = test.get("reason") or test.get("error", {}).get("name") or ""
            print(f"  {name:<8} {test['state']:<8} {why}")
    between = measurements["peer_copies"]
    print(f"copies between GPUs {between['state']} {between.get('reason', '')}")
    for pair in between.get("pairs", ()):
        way = "straight" if pair.get("straight") else "through the host"
        rate = f"{pair['gbs']} GB/s, {pair['wrong_mib']} MiB wrong" if "gbs" in pair else ""
        print(f"  GPU {pair['from']} to GPU {pair['to']} {pair['state']}, {way} {rate}")
    print(f"all_reduce {measurements['all_reduce']['state']} {measurements['all_reduce'].get('reason', '')}")


def judge_and_show(facts: dict[str, Any], measurements: dict[str, Any]) -> int | None:
    """Print rates with their share of the card's limit, then the findings; return how many of these are failures.

    None where this Python has no PyYAML: then nothing is judged.
    """
    try:
        from ansible_collections.gpulab.node.plugins.plugin_utils import proof  # noqa: PLC0415 - it needs PyYAML
    except ImportError:
        return None
    profiles = proof.catalog()["profiles"]
    links = {gpu.get("uuid"): gpu["pcie"] for gpu in facts["nvml"]["gpus"] if "pcie" in gpu}

    def limit(gpu: dict[str, Any], key: str) -> float | None:
        link = links.get(gpu["uuid"])
        if key in COPIES and link and link["max_generation"] in LANE_GBS:
            lanes: float = LANE_GBS[link["max_generation"]] * link["width"]
            return lanes
        known: dict[str, float] = profiles.get(gpu["device"], {}).get("limits", {})
        return known.get(key)

    for gpu, what, value, unit, share in figures.figures(measurements, limit):
        print(f"{gpu:<7}{what:<18}{value:>9.1f} {unit:<7}{'' if share is None else f'{share:>5.0%} of the limit'}")
    results, _not_for_this_machine = proof.judge(
        {**facts, "measurements": measurements}, None, {"level": measurements["level"]}
    )
    grave = [result for result in results if result["severity"] in ("warn", "fail")]
    for result in grave:
        print(f"{result['severity']} {result['id']}: {result['summary']} -> {result['remediation']}")
    print(f"proof: {len(results)} answers, {len(grave)} of warn or above")
    return sum(result["severity"] == "fail" for result in grave)


if __name__ == "__main__":
    sys.exit(main())
