"""Small files on a node, put where they belong by Ansible's own atomic_move."""

import json
import os
import socket
import stat

import pytest
from ansible.module_utils import basic
from ansible.module_utils.testing import patch_module_args
from ansible_collections.gpulab.node.plugins.module_utils.core import files
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.modules import owned_block, owned_files


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


def in_place_of_a_file(kind, path):
    """Put something else where a file belongs."""
    if kind == "a socket":
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))
    elif kind == "a named pipe":
        os.mkfifo(path)
    elif kind == "a device":
        path.symlink_to("/dev/null")
    else:
        path.mkdir()


KINDS = ("a directory", "a named pipe", "a socket", "a device")


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_file_in_the_place_of_one_is_refused(tmp_path, kind):
    in_place_of_a_file(kind, tmp_path / "there")
    with pytest.raises(Refusal, match=f"{tmp_path}/there is {kind}") as refusal:
        files.own_text(tmp_path / "there")
    assert refusal.value.code == "H222"


def test_a_file_is_read_and_a_missing_one_is_none(tmp_path):
    (tmp_path / "there").write_text("text")
    (tmp_path / "link").symlink_to("there")
    (tmp_path / "dangling").symlink_to("nowhere")
    names = ("there", "link", "dangling", "missing", "there/below")
    assert [files.own_text(tmp_path / name) for name in names] == ["text", "text", None, None, None]


def ended(monkeypatch, capsys, plugin, tmp_path, *, check, **arguments):
    """Run a module, and return what it printed."""
    monkeypatch.setattr(basic, "_ANSIBLE_PROFILE", "legacy", raising=False)
    given = {**arguments, "_ansible_remote_tmp": str(tmp_path), "_ansible_check_mode": check}
    with patch_module_args(given), pytest.raises(SystemExit):
        plugin.main()
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("plugin", "argument"),
    [
        (owned_files, lambda path: {"owner": "hello", "files": {path: "text", f"{path}.other": "text"}}),
        (owned_block, lambda path: {"owner": "hello", "path": path, "content": "text"}),
    ],
)
def test_a_module_refuses_it_in_check_mode_too_and_writes_no_other_file(  # noqa: PLR0913, PLR0917
    monkeypatch, capsys, tmp_path, plugin, argument, kind, check
):
    path = tmp_path / "etc"
    in_place_of_a_file(kind, path)
    result = ended(monkeypatch, capsys, plugin, tmp_path, check=check, **argument(str(path)))
    assert (result["failed"], result["refusal"]["code"]) == (True, "H222")
    assert sorted(tmp_path.iterdir()) == [path]


def test_a_file_that_shall_not_be_there_is_not_missed_where_a_directory_is(monkeypatch, capsys, tmp_path):
    (tmp_path / "there").mkdir()
    wanted = {"owner": "hello", "files": {str(tmp_path / "there"): ""}}
    assert ended(monkeypatch, capsys, owned_files, tmp_path, check=False, **wanted)["changed"] is False
    assert (tmp_path / "there").is_dir()


@pytest.fixture
def lent(tmp_path):
    """Return a directory of a person's below which gpulab has a file."""
    if os.geteuid() != 0:
        pytest.skip("only root may give files away")
    place = tmp_path / "lent"
    place.mkdir()
    os.chown(place, 1500, 1500)
    return place


def test_below_a_directory_of_others_no_link_is_followed(module, lent, tmp_path):
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/conf").write_text("root's\n")
    (lent / "link").symlink_to(tmp_path / "etc")
    for do in (
        lambda path: files.put(module, path, "new\n"),
        lambda path: files.put(module, path, None),
        lambda path: files.set_rights(path, 0o666),
        lambda path: files.make_directory(path.parent / "made"),
    ):
        with pytest.raises(OSError, match="a link is on the way"):
            do(lent / "link/conf")
    assert [(one.name, one.read_text()) for one in (tmp_path / "etc").iterdir()] == [("conf", "root's\n")]
    assert permissions(tmp_path / "etc/conf") == 0o644


def test_below_a_directory_of_others_a_file_is_written_and_goes_as_elsewhere(module, lent, monkeypatch):
    monkeypatch.setattr(module, "atomic_move", None)  # which goes by the name
    files.put(module, lent / "new/conf", "text\n", 0o640)
    files.set_rights(lent / "new/conf", 0o600)
    assert ((lent / "new/conf").read_text(), permissions(lent / "new/conf")) == ("text\n", 0o600)
    files.put(module, lent / "new/conf", None)
    assert not (lent / "new/conf").exists()


def test_a_second_name_of_another_file_gets_no_rights(lent, tmp_path):
    (tmp_path / "shadow").touch(0o600)
    (lent / "conf").hardlink_to(tmp_path / "shadow")
    with pytest.raises(PermissionError):
        files.set_rights(lent / "conf", 0o666)
    assert permissions(tmp_path / "shadow") == 0o600


@pytest.mark.parametrize(
    ("wanted", "found", "right"),
    [(0o600, 0o600, True), (0o600, 0o640, True), (0o600, 0o644, False), (0o600, 0o660, False), (0o644, 0o640, False)],
)
def test_a_secret_may_be_the_group_roots_and_no_others(tmp_path, wanted, found, right):
    path = tmp_path / "conf"
    path.touch()
    path.chmod(found)
    assert files.has_rights(path, wanted) is right
