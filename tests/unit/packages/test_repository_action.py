"""The action repository: the module of the node's package manager gets the options that it knows, and no others."""

from importlib import import_module
from types import SimpleNamespace

import pytest
from ansible_collections.gpulab.node.plugins.action.repository import MODULES, OF_ONE, ActionModule
from ansible_collections.gpulab.node.plugins.doc_fragments.vendor_repository import ModuleDocFragment
from ansible_collections.gpulab.node.plugins.modules import repository
from yaml import safe_load


def options_of(module):
    """Return the options of a module, those of its documentation fragment, too."""
    return {**safe_load(ModuleDocFragment.DOCUMENTATION)["options"], **safe_load(module.DOCUMENTATION)["options"]}


OPTIONS = options_of(repository)
GIVEN = dict.fromkeys(OPTIONS, "it")


@pytest.mark.parametrize("family", MODULES)
def test_each_package_manager_gets_its_own_options(monkeypatch, family):
    action = ActionModule.__new__(ActionModule)
    action._task = SimpleNamespace(args=GIVEN)  # noqa: SLF001 - what Ansible gives to it
    handed = []
    monkeypatch.setattr(action, "_execute_module", lambda *given, **_: handed.append(given) or {"changed": True})
    monkeypatch.setattr("ansible.plugins.action.ActionBase.run", lambda *_: {})
    assert action.run(None, {"ansible_facts": {"gpulab": {"system": {"family": family}}}}) == {"changed": True}
    ((module, options),) = handed
    assert module == MODULES[family]
    source = import_module(f"ansible_collections.gpulab.node.plugins.modules.{module.rpartition('.')[2]}")
    assert options.keys() == options_of(source).keys() - {"release"}  # which a bundle says


def test_what_one_alone_knows_is_documented():
    assert {name for names in OF_ONE.values() for name in names} < OPTIONS.keys()
