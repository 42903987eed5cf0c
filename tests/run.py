#!/usr/bin/env python3
"""Run every gate, some at a time, say what runs and how long it took, and end with one line of counts.

Lint, the unit tests and sanity come first; a fault that they find is shown within minutes, and ends all others. The
output of a gate goes to .ansible/test/<gate>.log, and its end is shown when the gate fails; every 30 s, a line shows
that it is alive. make test-full writes docs/tested.md: when each gate last ran, where and how long.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, repeat
from math import inf
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import gates
from gates import Gate

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = Path(__file__).parents[1]
LOGS = ROOT / ".ansible" / "test"
HEARTBEAT = 30  # seconds
AT_ONCE = 3  # each gate waits for packages, nodes and reboots about as long as it computes
TAIL = 80  # lines shown of a gate that failed
TESTED = ROOT / "docs" / "tested.md"
COUNTED = re.compile(r"(\d+) (passed|failed|skipped|error)")


@dataclass(frozen=True)
class Result:
    """How a gate ended."""

    gate: Gate
    passed: bool
    seconds: float
    text: str


def run(gate: Gate, given_up: Event) -> Result:
    """Run a gate to its end, to its time limit, or until it is given up."""
    label = " ".join([gate.name, *gate.arguments[1:]])
    log = LOGS / f"{gate.name}.log"
    command = ["make", "--no-print-directory", gate.target, *gate.arguments]
    print(f"== {label}", flush=True)
    start = time.monotonic()
    signals = chain([signal.SIGTERM], repeat(signal.SIGKILL))
    with log.open("w") as output:
        process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
        while not ended(process):
            elapsed = time.monotonic() - start
            print(f"   {label}: {elapsed:4.0f} s  {last_line(log)}", flush=True)
            if given_up.is_set() or elapsed > gate.minutes * 60:
                os.killpg(process.pid, next(signals))
    text = log.read_text(errors="replace")
    passed = process.returncode == 0
    seconds = time.monotonic() - start
    outcome = "passed" if passed else "ended" if given_up.is_set() else "FAILED"
    print(f"   {label}: {outcome} in {seconds:.0f} s  {summary(text)}", flush=True)
    if outcome == "FAILED":
        print("\n".join(text.splitlines()[-TAIL:]), flush=True)
        print(f"   the whole log: {log}", flush=True)
    return Result(gate, passed, seconds, text)


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


def run_all(chosen: Iterable[Gate], end: float) -> list[Result]:
    """Run gates, some at a time, until one of the first fails; leave out what comes in turn and would end later.

    end: minutes from now.
    """
    start, given_up = time.monotonic(), Event()
    slower = 1.0  # on a slow machine all take longer

    def run_in_time(gate: Gate) -> Result | None:
        nonlocal slower
        if gate in gates.FIRST:
            result = run(gate, Event())
            slower = max(slower, result.seconds / 60 / gates.FIRST_MINUTES)
            if not result.passed:
                print(f"== {gate.name} failed: all others are ended, and nothing else is begun", flush=True)
                given_up.set()
            return result
        if given_up.is_set():
            return None
        elapsed = (time.monotonic() - start) / 60
        if gate.name not in gates.ALWAYS and elapsed + slower * gate.takes > end:
            print(f"== {gate.name}: LEFT OUT, not enough time is left for it", flush=True)
            return None
        result = run(gate, given_up)
        return None if given_up.is_set() else result

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return [result for result in pool.map(run_in_time, chosen) if result]


def record(results: list[Result], commit: str) -> None:
    """Write down when each gate last ran, where, how long and how it ended."""
    head = ["| gate | date | commit | machine | seconds | result |", "| --- | --- | --- | --- | --- | --- |"]
    old = TESTED.read_text(encoding="utf-8") if TESTED.exists() else ""
    rows = {line.split(" ")[1]: line for line in old.splitlines() if line.startswith("| ") and line not in head}
    machine = f"{platform.freedesktop_os_release()['PRETTY_NAME']}, {os.cpu_count()} cores"
    for result in results:
        outcome = "passed" if result.passed else "failed"
        fields = (result.gate.name, time.strftime("%Y-%m-%d"), commit[:9], machine, f"{result.seconds:.0f}")
        rows[result.gate.name] = f"| {' | '.join(fields)} | {outcome}: {summary(result.text) or '1 check'} |"
    title = ["# When each gate last ran", "", "Written by `make test-full` and by `tests/run.py GATE ...`.", ""]
    TESTED.write_text("\n".join([*title, *head, *(rows[name] for name in sorted(rows)), ""]), encoding="utf-8")


def processor_seconds() -> float:
    """Return how long this machine's processors have been at work since its boot."""
    fields = [int(text) for text in Path("/proc/stat").read_text(encoding="ascii").split("\n")[0].split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")  # but for idle and waiting for disks


def main() -> int:
    """Run the gates; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="all gates, and every scenario whole")
    parser.add_argument("--changed", metavar="BRANCH", help="the gates that changes since this branch concern")
    parser.add_argument("gates", nargs="*", help="these gates only, each whole: lab-test, nccl, ...")
    given = parser.parse_args()
    LOGS.mkdir(parents=True, exist_ok=True)
    start, busy, commit = time.monotonic(), processor_seconds(), gates.git("rev-parse", "HEAD").strip()
    if given.gates:
        results = run_all(gates.named(given.gates), inf)
    elif given.full or given.changed:
        chosen = gates.of_full() if given.full else gates.named(gates.touched(gates.changed_since(given.changed)))
        results = run_all([*gates.FIRST, *chosen], inf)
    else:
        results = run_all([*gates.FIRST, *gates.of_test(gates.day_of(commit))], gates.END)
    if given.full and all(result.passed for result in results[: len(gates.FIRST)]):
        results.append(run(gates.target("bench", 30), Event()))
    if given.full or given.gates:
        record(results, commit)
    total = {"passed": 0, "failed": 0, "skipped": 0}
    for result in results:
        found = counts(result.text)
        # A gate counts as one check beside the tests in it.
        found["passed" if result.passed else "failed"] += 1
        total = {what: total[what] + found[what] for what in total}
    seconds, busy = time.monotonic() - start, processor_seconds() - busy
    print(f"== all gates: {seconds:.0f} s; processors at work: {100 * busy / seconds / (os.cpu_count() or 1):.0f} %")
    print(f"{total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped")
    return 1 if total["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
