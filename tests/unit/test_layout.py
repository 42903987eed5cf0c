"""Who may import whom: each package of module_utils imports what stands below it, and plugin_utils stands above all."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
PREFIX = "ansible_collections.gpulab.node.plugins."
# From the ground up. A package imports its own modules and those of lower levels; packages of one level do not know
# each other.
LEVELS = (
    {"core"},
    {"nvml", "driver", "cuda", "containers", "environments", "system", "storage", "installer", "slurm"},
    {"packages", "gpu_settings"},
    {"facts"},
    {"checks", "fence", "monitoring", "receipts"},
    {"active", "capture", "diagnosis", "slurm_node"},
    {"rebuild"},
)
# A module's payload holds all of module_utils that it names, also for types alone. So the types of the facts are where
# no node gets them.
TYPES = "plugin_utils.facts.model"
LEVEL = {package: level for level, packages in enumerate(LEVELS) for package in packages}


def imported(path):
    """Return what a module imports of the collection, below plugins/, in dots."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PREFIX):
            module = node.module[len(PREFIX) :]
            found |= {f"{module}.{alias.name}" for alias in node.names}
    return found


def test_every_package_has_a_level():
    packages = {path.name for path in (ROOT / "plugins/module_utils").iterdir() if path.suffix != ".pyc"}
    assert packages - {"__pycache__"} == LEVEL.keys()


def test_imports_lead_down():
    upwards = []
    for path in sorted((ROOT / "plugins/module_utils").rglob("*.py")):
        own = path.relative_to(ROOT / "plugins/module_utils").parts[0]
        for name in sorted(imported(path)):
            if name.startswith(TYPES):
                continue
            kind, _dot, rest = name.partition(".")
            other = rest.partition(".")[0]
            if kind != "module_utils" or (other != own and LEVEL[other] >= LEVEL[own]):
                upwards.append(f"{path.relative_to(ROOT)} imports {name}")
    assert upwards == []


def test_no_module_loads_the_types_of_the_facts():
    loading = [
        str(path.relative_to(ROOT))
        for top in ("modules", "module_utils")
        for path in sorted((ROOT / "plugins" / top).rglob("*.py"))
        for node in ast.parse(path.read_text(encoding="utf-8")).body  # below TYPE_CHECKING nothing is loaded
        if isinstance(node, ast.ImportFrom) and ".plugin_utils" in (node.module or "")
    ]
    assert loading == []


def test_the_controllers_code_imports_no_plugin():
    allowed = ("module_utils.", "plugin_utils.")
    foreign = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in sorted((ROOT / "plugins/plugin_utils").rglob("*.py"))
        for name in sorted(imported(path))
        if not name.startswith(allowed)
    ]
    assert foreign == []


def test_one_module_reads_the_facts():
    """Another one leaves something out, such as the receipts, and passes by the forms that facts must have."""
    collecting = [
        str(path.relative_to(ROOT / "plugins"))
        for path in sorted((ROOT / "plugins").rglob("*.py"))
        if "module_utils.facts.collect.collect" in imported(path)
    ]
    assert collecting == ["modules/gpu_facts.py"]
