"""Small files on a node, put where they belong by Ansible's own atomic_move."""

import os
import stat

import pytest
from ansible.module_utils import basic
from ansible.module_utils.testing import patch_module_args
from ansible_collections.gpulab.node.plugins.module_utils.core import files


@pytest.fixture
def module(monkeypatch, tmp_path):
    monkeypatch.setattr(basic, "_ANSIBLE_PROFILE", "legacy", raising=False)
    with patch_module_args({"_ansible_remote_tmp": str(tmp_path)}):
        return basic.AnsibleModule({})


@pytest.fixture(params=[0o022, 0o077, 0])
def umask(request):
    before = os.umask(request.param)
    yield request.param
    assert os.umask(before) == request.param  # a module leaves it as it was


def permissions(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.usefixtures("umask")
@pytest.mark.parametrize("mode", [0o644, 0o600, 0o755])
def test_a_new_file_has_its_mode_whatever_the_umask(module, tmp_path, mode):
    path = tmp_path / "new"
    files.put(module, path, "text\n", mode)
    assert (path.read_text(), permissions(path)) == ("text\n", mode)


@pytest.mark.usefixtures("umask")
def test_a_file_that_is_there_keeps_its_mode(module, tmp_path):
    path = tmp_path / "there"
    path.write_text("before")
    path.chmod(0o640)
    files.put(module, path, "after", 0o644)
    assert (path.read_text(), permissions(path)) == ("after", 0o640)


@pytest.mark.usefixtures("umask")
@pytest.mark.parametrize("mode", [0o755, 0o700])
def test_a_new_directory_has_its_mode_and_those_above_it_are_open_whatever_the_umask(tmp_path, mode):
    tmp_path.chmod(0o750)
    files.make_directory(tmp_path / "above/new", mode)
    assert (permissions(tmp_path / "above"), permissions(tmp_path / "above/new")) == (0o755, mode)
    assert permissions(tmp_path) == 0o750  # it was there


@pytest.mark.usefixtures("umask")
def test_a_directory_that_is_made_for_a_file_can_be_read_by_everybody(module, tmp_path):
    files.put(module, tmp_path / "xdg/pip/pip.conf", "text\n")
    assert (permissions(tmp_path / "xdg"), permissions(tmp_path / "xdg/pip")) == (0o755, 0o755)
