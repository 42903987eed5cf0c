"""What mok_enrolment does to a node, with a mokutil and an openssl that keep what they are told below a directory."""

import json
import stat
from pathlib import Path

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.driver import mok
from ansible_collections.gpulab.node.plugins.modules.mok_enrolment import RECORD, KeyEnrolment

ONCE = "for-this-once"
OTHER = b"0\x82 a certificate of somebody else's"


class Module:
    """An AnsibleModule whose programs are stand-ins: they write below root as the real ones do to a node."""

    def __init__(self, root):
        """Start with no key waiting; usage is what dkms says of itself, None without dkms."""
        self.root, self.usage, self.takes = root, None, True
        self.ran, self.told, self.hash_files, self.warned = [], [], [], []
        self.tmpdir = str(root / "tmp")
        Path(self.tmpdir).mkdir(parents=True)

    @property
    def waiting(self):
        """Return the certificates in the request."""
        found = self.variable("MokNew")
        return found.read_bytes().split(b"|")[1:] if found.exists() else []

    def variable(self, name):
        """Return the file of a variable of shim's."""
        return self.root / mok.EFIVARS.lstrip("/") / f"{name}-{mok.SHIM}"

    def let_wait(self, *certificates):
        """Let just these wait."""
        file = self.variable("MokNew")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)
        if certificates:
            file.write_bytes(b"|" + b"|".join(certificates))

    def get_bin_path(self, name):
        """Know of dkms where it has a usage."""
        return name if name == "dkms" and self.usage else None

    def warn(self, text):
        """Keep it."""
        self.warned.append(text)

    @staticmethod
    def atomic_move(draft, path, **_):
        """Move it."""
        Path(draft).replace(path)

    def run_command(self, argv, data=None, environ_update=None, umask=None):
        """Do what the program would."""
        self.ran.append(argv)
        self.told.append(data)
        program, verb = argv[0], argv[1]
        if verb == "--help":
            return 0, self.usage, ""
        if program == "openssl" and verb == "passwd":
            return 0, "$6$salt$hash\n", ""
        if program == "mokutil":
            return self._mokutil(argv)
        assert umask == 0o077
        assert environ_update["SHIM_NOTRIGGER"] == "y"
        return self._make(argv)

    def _mokutil(self, argv):
        certificate = (self.root / argv[2].lstrip("/")).read_bytes() if argv[2:] else b""
        if argv[1] == "--import":
            self.hash_files.append(Path(argv[4]))
            assert argv[4] == str(self.hash_files[-1])
            assert self.hash_files[-1].read_text() == "$6$salt$hash\n"
            assert stat.S_IMODE(self.hash_files[-1].stat().st_mode) == 0o600
            if not self.takes:
                return 255, "", "Failed to access kernel trusted keyring: no\nFailed to enroll new keys\n"
            self.let_wait(certificate, *self.waiting)
        elif argv[1] == "--list-new":
            lines = (f"[key 1]\nSHA1 Fingerprint: {mok.fingerprint(one)}\nCertificate:\n" for one in self.waiting)
            return 0, "".join(lines), ""
        elif argv[1] == "--revoke-import":
            self.let_wait()
        elif argv[1] == "--delete":
            self.let_wait(*(one for one in self.waiting if one != certificate))
        return 0, "", ""

    def _make(self, argv):
        places = mok.OF_UBUNTU if argv[0] == "update-secureboot-policy" else mok.OF_DKMS
        if not self.takes:
            return 1, "", "openssl: no entropy\n"
        (self.root / places.private.lstrip("/")).write_bytes(b"private")
        (self.root / places.certificate.lstrip("/")).write_bytes(b"0\x82 a new certificate")
        return 0, "", ""


@pytest.fixture
def module(tmp_path):
    return Module(tmp_path)


@pytest.fixture
def work(module):
    return KeyEnrolment(module, Node(module.root))


def put(module, path, content=b""):
    file = module.root / path.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    return file


def paired(module, content=b"0\x82 the certificate"):
    """Let DKMS have a key already."""
    put(module, mok.OF_DKMS.private, b"private")
    return put(module, mok.OF_DKMS.certificate, content)


def seen(module):
    """Return all files below the root, with their content."""
    return {path: path.read_bytes() for path in module.root.rglob("*") if path.is_file()}


def enrolled(module, *certificates):
    put(module, f"{mok.EFIVARS}/MokListRT-{mok.SHIM}", b"|".join(certificates))


def prepare(work, *, check_mode=False):
    return work.prepare(ONCE, check_mode=check_mode)


MADE = ["make the key /var/lib/dkms/mok.key", "ask the firmware to enrol /var/lib/dkms/mok.pub"]
BACK = "take the request to enrol /var/lib/dkms/mok.pub back"
DELETED = "delete the key /var/lib/dkms/mok.key"


def test_a_key_is_made_and_waits(module, work):
    assert prepare(work) == MADE
    assert work.standing == "pending"
    modes = [stat.S_IMODE((module.root / path.lstrip("/")).stat().st_mode) for path in mok.OF_DKMS.files]
    assert modes == [0o600, 0o644]


def test_a_key_that_is_there_is_the_one_that_waits(module, work):
    certificate = paired(module)
    assert prepare(work) == MADE[1:]
    assert module.waiting == [certificate.read_bytes()]


@pytest.mark.parametrize("state", ["pending", "enrolled"])
def test_nothing_is_done_twice(module, work, state):
    certificate = paired(module).read_bytes()
    if state == "pending":
        prepare(work)
    else:
        enrolled(module, certificate)
    before, module.ran = seen(module), []
    assert prepare(work) == []
    assert (seen(module), module.ran) == (before, [])


def test_check_mode_says_the_same_and_changes_nothing(module, work):
    before = seen(module)
    assert prepare(work, check_mode=True) == MADE
    assert (seen(module), module.ran) == (before, [])


def test_the_password_is_on_no_command_line_and_in_no_file(module, work):
    prepare(work)
    assert ONCE not in str(module.ran)
    assert [data for data in module.told if data] == [ONCE]
    assert not any(ONCE.encode() in content for content in seen(module).values())
    assert not any(path.exists() for path in module.hash_files)


@pytest.mark.parametrize(
    ("usage", "distribution", "program"),
    [
        (None, "debian", "openssl"),
        ("{ add | generate_mok }", "debian", "dkms"),
        (None, "ubuntu", "update-secureboot-policy"),
    ],
)
def test_the_key_is_made_as_this_dkms_makes_it(module, usage, distribution, program):
    module.usage = usage
    put(module, "/etc/os-release", f"ID={distribution}\n".encode())
    work = KeyEnrolment(module, Node(module.root))
    prepare(work)
    assert program in [argv[0] for argv in module.ran if argv[1] != "passwd"]
    assert work.standing == "pending"


@pytest.mark.parametrize("half", mok.OF_DKMS.files)
@pytest.mark.parametrize("check_mode", [True, False])
def test_half_a_key_is_refused_before_anything(module, work, half, check_mode):
    put(module, half, b"half")
    before = seen(module)
    with pytest.raises(Refusal) as refused:
        prepare(work, check_mode=check_mode)
    assert refused.value.code == "H170"
    assert refused.value.cause.startswith(f"{half} exists without ")
    assert seen(module) == before


def test_a_key_that_cannot_be_made_is_said(module, work):
    module.takes = False
    with pytest.raises(Refusal) as refused:
        prepare(work)
    assert (refused.value.code, "no entropy" in refused.value.cause) == ("H171", True)


def test_a_request_that_does_not_wait_afterwards_is_said(module, work):
    paired(module)
    module.takes = False
    with pytest.raises(Refusal) as refused:
        prepare(work)
    assert (refused.value.code, "Failed to enroll new keys" in refused.value.cause) == ("H172", True)
    assert not module.hash_files[-1].exists()


def test_what_was_made_goes_again(module, work):
    before = seen(module)
    prepare(work)
    assert work.revoke(check_mode=True) == [BACK, DELETED]
    assert work.revoke(check_mode=False) == [BACK, DELETED]
    assert seen(module) == before
    assert work.revoke(check_mode=False) == []


def test_a_key_that_was_there_stays(module, work):
    certificate = paired(module)
    prepare(work)
    assert work.revoke(check_mode=False) == [BACK]
    assert certificate.exists()
    assert module.waiting == []


def test_a_missed_console_does_not_make_an_own_key_a_strangers(module, work):
    prepare(work)
    module.let_wait()
    assert prepare(work) == ["ask the firmware once more to enrol /var/lib/dkms/mok.pub"]
    assert DELETED in work.revoke(check_mode=False)


def test_a_key_that_signed_a_module_stays(module, work):
    prepare(work)
    put(module, "/var/lib/dkms/zfs/2.2/6.1.0-50-amd64/x86_64/module/zfs.ko.xz")
    assert work.revoke(check_mode=False) == [BACK]
    assert work.standing == "absent"


def test_an_enrolled_key_stays(module, work):
    prepare(work)
    enrolled(module, (module.root / "var/lib/dkms/mok.pub").read_bytes())
    module.let_wait()
    assert work.revoke(check_mode=False) == []
    assert work.standing == "enrolled"
    assert ["mokutil --delete /var/lib/dkms/mok.pub" in text for text in module.warned] == [True]


def test_requests_for_other_keys_stay(module, work):
    module.let_wait(OTHER)
    prepare(work)
    assert work.revoke(check_mode=False) == [BACK, DELETED]
    assert module.waiting == [OTHER]


@pytest.mark.parametrize("record", [None, {"fingerprint": "of:another:key", "made": True}])
def test_a_request_that_somebody_else_made_stays(module, work, record):
    certificate = paired(module).read_bytes()
    module.let_wait(certificate)
    if record:
        put(module, RECORD, json.dumps(record).encode())
    assert work.revoke(check_mode=False) == []
    assert module.waiting == [certificate]
