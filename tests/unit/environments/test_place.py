"""Environments lie only where nobody but root can put another directory: root's programs work there by name."""

import os
from types import SimpleNamespace

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.modules import conda_environments, venv_environments

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")


class Asked(dict):
    """What a task gives; what this test does not name is empty."""

    def __missing__(self, _name):
        """Return what an option is that nobody set."""
        return ""


@pytest.mark.parametrize("operate", [venv_environments.operate, conda_environments.operate])
@pytest.mark.parametrize("below", ["", "venvs", "deep/venvs"])
def test_a_directory_of_people_is_refused_before_anything_is_made(tmp_path, operate, below):
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o2775)
    module = SimpleNamespace(
        params=Asked(directory=str(shared / below), environments=[], absent=[], operation="look", state="present"),
        check_mode=False,
        gpulab_evidence=[],
    )
    with pytest.raises(Refusal, match="E037") as refused:
        operate(module)
    assert str(shared) in refused.value.cause
    assert list(shared.iterdir()) == []
