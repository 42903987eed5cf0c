"""Every module that changes a node says what it changes."""

import re
from pathlib import Path

import pytest
import yaml
from ansible_collections.gpulab.node.plugins.module_utils.core.changes import changes, of_files

ROOT = Path(__file__).parents[3]
# What these do is shown by their own playbooks, not by plan.yml.
OF_OTHER_PLAYBOOKS = {"bmc", "boot_once", "bundle", "installer_boot", "installer_image", "installer_media"}
MODULES = sorted(path for path in (ROOT / "plugins/modules").glob("*.py") if path.stem not in OF_OTHER_PLAYBOOKS)


def sources(module):
    """Return the text of a module and of the action plugin of the same name."""
    paths = [module, ROOT / "plugins/action" / module.name]
    return "\n".join(path.read_text(encoding="utf-8") for path in paths if path.exists())


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.stem)
def test_a_module_that_changes_something_returns_what(module):
    text = sources(module)
    documented = yaml.safe_load(re.search(r'^RETURN = r"""\n(.*?)"""', text, re.MULTILINE | re.DOTALL)[1]) or {}
    changed = set(re.findall(r'\bchanged"?(?: =|=|:) ?(\w+)|\*\*\w+\.(outcome)\(', text))  # an outcome has both
    never_changes = {word for words in changed for word in words} <= {"False", ""}
    assert ("changes" in documented) != never_changes


def test_each_thing_has_its_action():
    assert changes(write=["/a", "/b"], delete=[], set=["c = 1"]) == [
        {"action": "write", "what": "/a"},
        {"action": "write", "what": "/b"},
        {"action": "set", "what": "c = 1"},
    ]


@pytest.mark.parametrize("gone", [None, ""])
def test_a_file_without_text_goes(gone):
    assert of_files({"/gone": gone, "/new": "text"}) == changes(write=["/new"], delete=["/gone"])
