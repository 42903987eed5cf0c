"""An upgrade of gpulab makes only those roles due whose own work it changes."""

import ast
import shutil
from pathlib import Path

import pytest
from ansible_collections.gpulab.node.plugins.plugin_utils.roles.code import RoleCode
from ansible_collections.gpulab.node.plugins.plugin_utils.roles.known import with_receipt

ROOT = Path(__file__).parents[3]
COLLECTION = "ansible_collections.gpulab.node."


@pytest.fixture(scope="module")
def gpulab(tmp_path_factory):
    """Return a copy of gpulab that a test may change."""
    copy = tmp_path_factory.mktemp("gpulab")
    for top in ("plugins", "roles"):
        shutil.copytree(ROOT / top, copy / top, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


def digests(root):
    code = RoleCode(root)
    return {role: code.digest(role) for role in with_receipt()}


@pytest.mark.parametrize(
    ("changed", "roles"),
    [
        ("roles/base/templates/pip.conf.j2", {"base"}),
        ("roles/monitoring/files/dashboard.json", {"monitoring"}),
        ("roles/reboot/tasks/main.yml", {"nvidia_driver"}),  # it includes the role
        ("plugins/modules/swap_space.py", {"tuning"}),
        ("plugins/module_utils/system/swap.py", {"tuning"}),  # its module imports it
        ("plugins/module_utils/storage/blank.py", {"storage", "tuning"}),  # imported by what its module imports
        ("plugins/filter/driver_steps.py", {"nvidia_driver"}),
        ("plugins/plugin_utils/plan/driver_steps.py", {"nvidia_driver"}),
        ("plugins/action/dkms.py", {"nvidia_driver"}),
        ("plugins/module_utils/monitoring/collector.py", {"monitoring"}),  # a program of the role imports it
        ("plugins/module_utils/core/files.py", set(with_receipt())),
        ("plugins/plugin_utils/plan/cuda.py", set()),  # the digest of the plan tells
        ("plugins/plugin_utils/facts/model.py", set()),  # imported for types alone
        ("plugins/module_utils/core/refusals/packages.py", set()),
        ("plugins/modules/gpu_facts.py", set()),
        ("roles/base/README.md", set()),
        ("roles/base/meta/argument_specs.yml", set()),
    ],
)
def test_a_change_makes_those_roles_due_that_work_with_the_file(gpulab, changed, roles):
    before = digests(gpulab)
    with (gpulab / changed).open("a", encoding="utf-8") as file:
        file.write("\n# changed\n")
    after = digests(gpulab)
    assert {role for role in with_receipt() if before[role] != after[role]} == roles


def test_a_file_that_comes_or_goes_is_a_change(gpulab):
    before = digests(gpulab)["nouveau"]
    (gpulab / "roles/nouveau/templates").mkdir()
    (gpulab / "roles/nouveau/templates/new.conf.j2").touch()
    assert digests(gpulab)["nouveau"] != before


def imported(path):
    """Return the files that a module imports, as Python's own parser sees them; those for types alone are left out."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    typing = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        module = getattr(node, "module", None) or ""
        if isinstance(node, ast.ImportFrom) and module.startswith(COLLECTION) and node not in typing:
            place = ROOT / module.removeprefix(COLLECTION).replace(".", "/")
            for name in [alias.name for alias in node.names] if place.is_dir() else [""]:
                places = (place / f"{name}.py", place / name / "__init__.py", place / "__init__.py")
                yield next(one for one in places if one.is_file()) if name else place.with_suffix(".py")


def test_what_code_imports_is_read_as_python_reads_it():
    code = RoleCode(ROOT)
    for path in (ROOT / "plugins").rglob("*.py"):
        names = {str(one.relative_to(ROOT)) for one in imported(path)}
        assert code.imported(path.read_text(encoding="utf-8")) == names, path


def test_no_code_is_imported_in_another_way():
    for path in [*(ROOT / "plugins").rglob("*.py"), *(ROOT / "roles").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            assert not (isinstance(node, ast.ImportFrom) and node.level), path
            assert not (isinstance(node, ast.Import) and any("gpulab" in one.name for one in node.names)), path
