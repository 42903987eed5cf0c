"""Print each injected fault with what the proof makes of it: python tests/fault_table.py."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import conftest  # noqa: F401 - makes the collection importable
from ansible_collections.gpulab.node.plugins.module_utils.checks.runner import verify
from unit.checks import nodes
from unit.checks.test_faults import FAULTS


def main() -> int:
    """Print the table; return 1 when a fault was not found by its check with its remedy."""
    missed = 0
    sys.stdout.write(f"{'fault':<52} {'model':<18} {'check':<20} {'severity':<8} {'remedy':<20} found\n")
    for fault in FAULTS:
        results = verify(nodes.node(fault.facts(), fault.plan, **fault.declared))
        match = [
            r for r in results if (r.id, r.severity, r.remediation) == (fault.check, fault.severity, fault.remediation)
        ]
        missed += not match
        found = match[0].summary if match else "NOT FOUND"
        row = f"{fault.name:<52} {fault.model:<18} {fault.check:<20} {fault.severity:<8} {fault.remediation:<20}"
        sys.stdout.write(f"{row} {found}\n")
    sys.stdout.write(f"{len(FAULTS) - missed} of {len(FAULTS)} faults found\n")
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
