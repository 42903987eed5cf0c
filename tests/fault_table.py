"""Print each injected fault with what the proof makes of it: python tests/fault_table.py.

First those of made facts; then, where there is a C compiler, the settings of the simulated driver.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import conftest  # noqa: F401 - makes the collection importable
from ansible_collections.gpulab.node.plugins.module_utils.checks.runner import verify
from sim.build import build
from unit.checks import nodes, simulated_faults
from unit.checks.test_faults import FAULTS

HEADINGS, NOT_FOUND = ("check", "severity", "remedy"), "NOT FOUND"


def main() -> int:
    """Print the tables; return 1 when a fault was not found by its check with its remedy."""
    missed = made()
    if shutil.which("gcc"):
        missed += simulated()
    else:
        sys.stdout.write("no gcc, so the simulated driver is not built and its faults are not tried\n")
    return bool(missed)


def made() -> int:
    """Print the faults of made facts; return how many were missed."""
    missed = 0
    row("fault", "model", HEADINGS, "found")
    for fault in FAULTS:
        results = verify(nodes.node(fault.facts(), fault.plan, **fault.declared))
        finding = (fault.check, fault.severity, fault.remediation)
        match = [r for r in results if (r.id, r.severity, r.remediation) == finding]
        missed += not match
        found = match[0].summary if match else NOT_FOUND
        row(fault.name, fault.model, finding, found)
    sys.stdout.write(f"{len(FAULTS) - missed} of {len(FAULTS)} faults found\n")
    return missed


def simulated() -> int:
    """Print the faults of the simulated driver; return how many were missed."""
    missed = 0
    row("\nsettings of the simulated driver", "model", HEADINGS, "found")
    models = {path.stem: path for path in simulated_faults.MODELS}
    with tempfile.TemporaryDirectory() as directory:
        library = build(Path(directory)) / "libnvidia-ml.so.1"
        for model, settings, finding in simulated_faults.SIMULATED_FAULTS:
            with tempfile.TemporaryDirectory(dir=directory) as own:
                facts = simulated_faults.read(models[model], settings, library, Path(own))
            found = simulated_faults.grave(facts).get(finding)
            missed += found is None
            row("; ".join(settings.splitlines()), model, finding, found or NOT_FOUND)
    count = len(simulated_faults.SIMULATED_FAULTS)
    sys.stdout.write(f"{count - missed} of {count} faults found through the simulated driver\n")
    return missed


def row(name: str, model: str, finding: tuple[str, str, str], found: str) -> None:
    """Print one line. The finding is check, severity and remedy."""
    check, severity, remedy = finding
    sys.stdout.write(f"{name:<52} {model:<18} {check:<20} {severity:<8} {remedy:<20} {found}\n")


if __name__ == "__main__":
    sys.exit(main())
