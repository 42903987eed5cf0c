#!/usr/bin/env python3
"""Run every gate, two at a time, say what runs and how long it took, and end with one line of counts.

Output of a gate goes to .ansible/test/<gate>.log, and its end is shown when the gate fails; a line every 30 s says that
it lives.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
LOGS = ROOT / ".ansible" / "test"
HEARTBEAT = 30  # seconds
AT_ONCE = 2  # gates wait for packages, nodes and reboots more than they compute
TAIL = 80  # lines shown of a gate that failed
# Left to make test-full, so that make test ends in time on a machine of half the speed, too: lab-test builds the driver
# of the first on the same systems, the second downloads 2 GB, the third PyTorch, the others work long on stand-ins.
SLOW_SCENARIOS = {
    "nvidia_driver",
    "cuda_distribution",
    "across_nodes",
    "conda",
    "cuda",
    "nvidia_rpm",
    "nvidia_runfile",
    "nvidia_ubuntu",
    "secure_boot",
}
LONGEST_SCENARIO = "nvidia_repository"  # begun early, it does not run on alone at the end
# Their other node is left to make test-full, for the same reason.
ONE_NODE = {LONGEST_SCENARIO: ("LAB_NODES=debian13",), "container_toolkit": ("LAB_NODES=debian13",)}
COUNTED = re.compile(r"(\d+) (passed|failed|skipped|error)")


@dataclass(frozen=True)
class Gate:
    """One make target; minutes bound how long it may take."""

    name: str
    minutes: int
    arguments: tuple[str, ...] = ()


def scenarios() -> list[str]:
    """Return the molecule scenarios by name."""
    return sorted(path.parent.name for path in (ROOT / "molecule").glob("*/molecule.yml"))


def gates(*, full: bool) -> list[Gate]:
    """Return the gates in order, lint first, then the longest."""
    wanted = [name for name in scenarios() if full or name not in SLOW_SCENARIOS]
    wanted.sort(key=lambda name: name != LONGEST_SCENARIO)
    chosen = [Gate("lint", 10), Gate("lab-test", 75), Gate("unit", 30)]
    fewer = {} if full else ONE_NODE
    chosen += [Gate("molecule", 60, (f"SCENARIO=-s {name}", *fewer.get(name, ()))) for name in wanted]
    chosen.append(Gate("sanity", 20))
    return chosen + ([Gate("kill-test", 120), Gate("test-vm", 90)] if full else [])


def run(gate: Gate) -> tuple[bool, str]:
    """Run a gate to its end or its time limit; return whether it passed, and its output."""
    label = " ".join([gate.name, *gate.arguments])
    log = LOGS / (re.sub(r"\W+", "-", label) + ".log")
    command = ["make", "--no-print-directory", gate.name, *gate.arguments]
    print(f"== {label}", flush=True)
    start = time.monotonic()
    with log.open("w") as output:
        process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
        while not ended(process):
            elapsed = time.monotonic() - start
            print(f"   {label}: {elapsed:4.0f} s  {last_line(log)}", flush=True)
            if elapsed > gate.minutes * 60:
                os.killpg(process.pid, signal.SIGKILL)
    text = log.read_text(errors="replace")
    passed = process.returncode == 0
    verdict = "passed" if passed else "FAILED"
    print(f"   {label}: {verdict} in {time.monotonic() - start:.0f} s  {summary(text)}", flush=True)
    if not passed:
        print("\n".join(text.splitlines()[-TAIL:]), flush=True)
        print(f"   the whole log: {log}", flush=True)
    return passed, text


def ended(process: subprocess.Popen[bytes]) -> bool:
    """Wait one heartbeat for the process; return whether it ended."""
    try:
        process.wait(HEARTBEAT)
    except subprocess.TimeoutExpired:
        return False
    return True


def last_line(log: Path) -> str:
    """Return the last line that a gate wrote, without colours, cut to what a terminal shows."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", log.read_text(errors="replace"))
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip()[:100] if lines else ""


def counts(text: str) -> dict[str, int]:
    """Add up what pytest's closing lines count."""
    total = {"passed": 0, "failed": 0, "skipped": 0}
    for line in text.splitlines():
        if re.search(r" in \d+[.\d]*s", line):
            for number, what in COUNTED.findall(line):
                total["failed" if what == "error" else what] += int(number)
    return total


def summary(text: str) -> str:
    """Return the tests that ran in a gate, as text; empty where it counts none."""
    found = counts(text)
    return ", ".join(f"{number} {what}" for what, number in found.items() if number)


def main() -> int:
    """Run the gates; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="the slow gates too")
    LOGS.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    total = {"passed": 0, "failed": 0, "skipped": 0}
    full = parser.parse_args().full
    with ThreadPoolExecutor(AT_ONCE) as pool:
        ended_gates = list(pool.map(run, gates(full=full)))
    if full:
        ended_gates.append(run(Gate("bench", 30)))
    for passed, text in ended_gates:
        found = counts(text)
        # A gate counts as one check beside the tests in it.
        found["passed" if passed else "failed"] += 1
        total = {what: total[what] + found[what] for what in total}
    print(f"== all gates: {time.monotonic() - start:.0f} s")
    print(f"{total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped")
    return 1 if total["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
