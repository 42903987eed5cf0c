"""How dnf_repository comes to a node and leaves it: files below a directory, and an rpm that is played."""

from pathlib import Path

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.packages import vendor_key
from ansible_collections.gpulab.node.plugins.module_utils.packages.former import FormerRpms
from ansible_collections.gpulab.node.plugins.modules import dnf_repository

NVIDIA, MIRROR = "610C7B14E068A878070DA4E99CD0A493D42D0685", "F" * 40
STREAM = "etc/dnf/modules.d/nvidia-driver.module"
OTHER = "[nvidia-driver]\nname=nvidia-driver\nstream=580-dkms\nprofiles=\nstate=enabled\n"


class DoneError(Exception):
    """The module has ended."""


class Node:
    """An AnsibleModule on a node: what lies below its root, and the fingerprints that rpm trusts."""

    def __init__(self, root):
        """Begin with nothing."""
        self.root, self.trusted, self.check_mode, self.tmpdir = root, set(), False, str(root)

    def declare(self, name="nvidia-cuda", fingerprint=NVIDIA, stream="", *, former=None, check=False):
        """Declare a repository; return whether that changed anything."""
        self.check_mode = check
        wish = {"fingerprint": fingerprint, "key": fingerprint, "module_stream": stream, "former": former}
        return self._run(name=name, state="present", **wish)

    def forget(self, name="nvidia-cuda", *, check=False):
        """Take a repository away, by its name alone; return whether that changed anything."""
        self.check_mode = check
        return self._run(name=name, state="absent", fingerprint=None, key=None, module_stream="", former=None)

    def _run(self, **params):
        self.params = {"url": "https://mirror.example/", "key_url": None, **params}
        with pytest.raises(DoneError) as done:
            dnf_repository.main()
        return done.value.args[0]

    def stream(self):
        """Return the state of the driver's module; None where there is no file of it."""
        path = self.root / STREAM
        return path.read_text() if path.exists() else None

    def enable(self, text):
        """Enable a stream as somebody else."""
        (self.root / STREAM).parent.mkdir(parents=True, exist_ok=True)
        (self.root / STREAM).write_text(text)

    def run_command(self, argv, check_rc):
        """Do what rpm would."""
        assert check_rc
        if argv[1] == "--import":
            self.trusted.add((self.root / argv[2].lstrip("/")).read_text().strip())
        elif argv[1] == "--erase":
            self.trusted -= {key for key in self.trusted if f"gpg-pubkey-{key[-8:].lower()}-1" in argv}
        return 0, "".join(f"{key[-8:].lower()}\tgpg-pubkey-{key[-8:].lower()}-1\n" for key in self.trusted), ""

    @staticmethod
    def atomic_move(draft, path, **_):
        """Move it."""
        Path(draft).replace(path)

    @staticmethod
    def exit_json(**result):
        """End."""
        raise DoneError(result["changed"])


@pytest.fixture
def node(tmp_path, monkeypatch):
    node = Node(tmp_path)
    monkeypatch.setattr(dnf_repository, "AnsibleModule", lambda **_: node)
    monkeypatch.setattr(dnf_repository, "Path", lambda path: tmp_path / str(path).lstrip("/"))
    monkeypatch.setattr(dnf_repository, "RECORD", tmp_path / "var/lib/gpulab/dnf-repositories.json")
    monkeypatch.setattr(dnf_repository, "FormerRpms", lambda name: FormerRpms(name, tmp_path / "former"))
    monkeypatch.setattr(vendor_key, "check", lambda *_: None)
    return node


def test_the_stream_that_another_takes_the_place_of_is_kept(node, tmp_path):
    kept = FormerRpms("driver", tmp_path / "former")
    node.enable(OTHER)
    node.declare(stream="nvidia-driver:595-open", former="driver", check=True)
    assert not kept.read().files
    node.declare(stream="nvidia-driver:595-open", former="driver")
    assert kept.read().files == {f"/{STREAM}": OTHER}
    kept.forget()
    node.declare(stream="nvidia-driver:595-open", former="driver")
    assert not kept.read().files


def test_what_was_set_goes_by_the_name_alone(node):
    assert node.declare(stream="nvidia-driver:595-open")
    assert not node.declare(stream="nvidia-driver:595-open")
    assert (node.trusted, "595-open" in node.stream()) == ({NVIDIA}, True)
    assert node.forget(check=True)
    assert node.trusted
    assert node.forget()
    assert not node.forget()
    assert (node.trusted, node.stream()) == (set(), None)
    assert not [path for path in node.root.rglob("*") if path.is_file()]


def test_what_was_there_before_stays(node):
    node.trusted.add(NVIDIA)
    node.enable(OTHER)
    node.declare(stream="nvidia-driver:595-open")
    node.declare(stream="nvidia-driver:610-open")
    assert "610-open" in node.stream()
    node.forget()
    assert (node.trusted, node.stream()) == ({NVIDIA}, OTHER)


def test_a_stream_that_somebody_has_chosen_stays(node):
    node.enable(OTHER)
    node.declare(stream="nvidia-driver:580-dkms")
    node.forget()
    assert node.stream() == OTHER
    node.declare(stream="nvidia-driver:595-open")
    node.enable(OTHER)
    node.forget()
    assert node.stream() == OTHER


def test_a_stream_that_is_wanted_no_longer_is_given_up(node):
    node.declare(stream="nvidia-driver:595-open")
    assert node.declare()
    assert not node.declare()
    assert (node.trusted, node.stream()) == ({NVIDIA}, None)


def test_a_key_stays_as_long_as_one_of_the_repositories_has_it(node):
    node.declare()
    node.declare("nvidia-container-toolkit")
    node.forget()
    assert node.trusted == {NVIDIA}
    node.declare("nvidia-container-toolkit", MIRROR)
    assert node.trusted == {MIRROR}
