"""The module munge_key, on a directory of the test's."""

import base64
import getpass
import hashlib

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.modules import munge_key

KEY, OTHER = (hashlib.shake_256(name).digest(128) for name in (b"one", b"other"))


class Module:
    """What the operation asks of an AnsibleModule."""

    def __init__(self, path, key=None, *, check=False):
        """Take what a task gives."""
        coded = base64.b64encode(key).decode() if isinstance(key, bytes) else key
        self.params = {"host": "node1", "key": coded, "path": str(path), "owner": getpass.getuser()}
        self.check_mode = check


@pytest.fixture
def path(tmp_path):
    return tmp_path / "munge/munge.key"


def test_a_key_is_made_at_random_once(path):
    first = munge_key.keep(Module(path))
    assert first["changed"]
    assert base64.b64decode(first["key"]) == path.read_bytes()
    assert (len(path.read_bytes()), path.stat().st_mode & 0o777) == (128, 0o400)
    assert munge_key.keep(Module(path)) == {"changed": False, "changes": [], "key": first["key"]}
    path.unlink()
    assert munge_key.keep(Module(path))["key"] != first["key"]


def test_a_given_key_replaces_one_that_is_kept_beside_it_once(path):
    munge_key.keep(Module(path))
    before = path.read_bytes()
    assert munge_key.keep(Module(path, KEY))["changed"]
    assert not munge_key.keep(Module(path, KEY))["changed"]
    munge_key.keep(Module(path, OTHER))
    assert path.read_bytes() == OTHER
    assert path.with_name("munge.key.former").read_bytes() == before


@pytest.mark.parametrize("key", [b"short", b"\0" * 128, "no Base64!"])
def test_a_weak_key_is_refused_and_the_old_one_stays(path, key):
    munge_key.keep(Module(path, KEY))
    with pytest.raises(Refusal) as refused:
        munge_key.keep(Module(path, key))
    assert refused.value.code == "F032"
    assert path.read_bytes() == KEY


def test_a_weak_key_that_is_there_is_refused(path):
    path.parent.mkdir()
    path.write_bytes(b"deepops" * 20)
    with pytest.raises(Refusal) as refused:
        munge_key.keep(Module(path))
    assert refused.value.code == "F032"


def test_check_mode_changes_nothing(path):
    written = [{"action": "write", "what": str(path)}]
    assert munge_key.keep(Module(path, check=True)) == {"changed": True, "changes": written}
    assert munge_key.keep(Module(path, KEY, check=True))["changed"]
    assert not path.parent.exists()


def test_a_link_of_the_owner_leads_the_key_and_the_former_one_nowhere(path, tmp_path):
    munge_key.keep(Module(path, KEY))
    victim = tmp_path / "shadow"
    victim.write_text("root's")
    path.with_name("munge.key.former").symlink_to(victim)
    munge_key.keep(Module(path, OTHER))
    assert (victim.read_text(), path.read_bytes()) == ("root's", OTHER)
