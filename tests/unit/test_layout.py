"""Who may import whom: each room imports what stands below it, and plugin_utils stands above all of module_utils."""

import ast

import layout
import pytest
from layout import PLUGINS, files, imported

# A module's payload holds all of module_utils that it names, also for types alone. So the types of the facts are where
# no node gets them.
TYPES = tuple(f"plugin_utils.facts.{name}" for name in ("model", "machine", "driver", "services"))
LOOSE = {"proof", "refusals"}


@pytest.mark.parametrize("half", layout.LEVELS)
def test_every_room_has_a_level(half):
    assert {room for room, _path in files(half)} == layout.rooms(half).keys()


@pytest.mark.parametrize("half", layout.LEVELS)
def test_imports_lead_down(half):
    level = layout.rooms(half)
    upwards = [f"{room} -> {other}" for room, named in layout.arrows(half).items() for other in named]
    assert [arrow for arrow in upwards if level[arrow.split()[2]] >= level[arrow.split()[0]]] == []


def test_every_file_is_in_a_room():
    assert {path.stem for half in layout.LEVELS for path in (PLUGINS / half).glob("*.py")} == LOOSE


@pytest.mark.parametrize(("half", "known"), [("module_utils", TYPES), ("plugin_utils", ("plugin_utils.",))])
def test_a_half_knows_no_plugin_and_a_node_nothing_of_the_controller(half, known):
    foreign = [
        f"{path.relative_to(PLUGINS)} imports {name}"
        for _room, path in files(half)
        for name in sorted(imported(path))
        if not name.startswith(("module_utils.", *known))
    ]
    assert foreign == []


def test_no_action_is_made_of_another():
    """What two have in common is in plugin_utils: an action that inherits from another one has its works, too."""
    paths = sorted((PLUGINS / "action").glob("*.py"))
    assert [path.name for path in paths if any(name.startswith("action.") for name in imported(path))] == []


def test_no_module_loads_the_types_of_the_facts():
    loading = [
        str(path.relative_to(PLUGINS))
        for top in ("modules", "module_utils")
        for path in sorted((PLUGINS / top).rglob("*.py"))
        for node in ast.parse(path.read_text(encoding="utf-8")).body  # below TYPE_CHECKING nothing is loaded
        if isinstance(node, ast.ImportFrom) and ".plugin_utils" in (node.module or "")
    ]
    assert loading == []


def test_one_module_reads_the_facts():
    """Another one leaves something out, such as the receipts, and passes by the forms that facts must have."""
    collecting = [
        str(path.relative_to(PLUGINS))
        for path in sorted(PLUGINS.rglob("*.py"))
        if "module_utils.facts.collect.collect" in imported(path)
    ]
    assert collecting == ["module_utils/reading/look.py"]
