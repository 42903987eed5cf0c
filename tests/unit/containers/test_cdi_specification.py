"""The CDI specification when the container toolkit is to be removed, on a node that is played."""

from types import SimpleNamespace

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.containers import cdi
from ansible_collections.gpulab.node.plugins.module_utils.facts import containers
from ansible_collections.gpulab.node.plugins.modules import cdi_specification


@pytest.mark.parametrize(
    ("check_mode", "program", "goes"),
    [(False, None, True), (False, "/usr/bin/nvidia-ctk", False), (True, "/usr/bin/nvidia-ctk", True)],
)
def test_what_the_units_made_goes_with_them(tmp_path, monkeypatch, check_mode, program, goes):
    path, link = tmp_path / "nvidia.yaml", tmp_path / f"multi-user.target.wants/{cdi.WATCH}"
    path.touch()
    link.parent.mkdir()
    link.symlink_to("/usr/lib/systemd/system/gone")
    monkeypatch.setattr(cdi_specification, "UNITS", tmp_path)
    monkeypatch.setattr(cdi, "GENERATED", (str(tmp_path),))
    monkeypatch.setattr(containers, "cdi", lambda _node: [{"path": str(path), "kind": cdi.KIND}])
    module = SimpleNamespace(check_mode=check_mode, get_bin_path=lambda _name: program)
    assert cdi_specification.take_away(module)["changed"] == goes
    assert (path.exists(), link.is_symlink()) == ((not goes or check_mode),) * 2
