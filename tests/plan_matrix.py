"""Print what is planned for every GPU of the catalog on every platform, or the code of the refusal."""

from __future__ import annotations

import sys
from datetime import datetime, timezone
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent / "unit")]
import conftest  # noqa: F401  it makes this checkout importable as a collection
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.plugin_utils import catalog, options
from ansible_collections.gpulab.node.plugins.plugin_utils.plan import resolve
from plan.make import SYSTEMS, facts
from rich.console import Console
from rich.table import Table


def main() -> None:
    """Plan each pair with no wishes at all, as of today."""
    today = datetime.now(tz=timezone.utc).date()
    known, refusals = catalog.load(), {}
    table = Table("GPU", *SYSTEMS, title="driver branch, kernel modules, CUDA (P...: refused)")
    table.columns[0].no_wrap = True
    for gpu in known.read("gpus")["gpus"]:
        cells = []
        for platform in SYSTEMS:
            form = known.gpus[gpu["pci_ids"][0]]["form"]
            node = facts(platform, gpu["pci_ids"][:1], architecture="aarch64" if form == "superchip" else "x86_64")
            try:
                plan = resolve(node, options.complete({}), known, today)
                driver = plan["driver"]
                cells.append(f"{driver['branch']} {driver['kernel_modules'][:4]} {plan['cuda']['default'] or '-'}")
            except Refusal as refusal:
                refusals.setdefault(refusal.code, refusal)
                cells.append(refusal.code)
        table.add_row(gpu["id"], *cells)
    console = Console(width=max(Console().width, 150))
    console.print(table)
    for refusal in refusals.values():
        console.print(f"for example {refusal}", style="dim")


if __name__ == "__main__":
    main()
