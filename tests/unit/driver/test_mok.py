"""The key that DKMS signs with: where it lies, and how it stands with the firmware."""

import subprocess

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.driver import mok
from ansible_collections.gpulab.node.plugins.module_utils.facts.system import signing_key

KEY, CERTIFICATE = "/var/lib/dkms/mok.key", "/var/lib/dkms/mok.pub"
SIGNER, FORMER, NOW = "DKMS module signing key", 1 << 100, 3 << 100
DER, OTHER = b"0\x82\x03 the certificate", b"0\x82\x03 another one"
ENROLLED, PENDING = (f"{mok.EFIVARS}/{name}-{mok.SHIM}" for name in ("MokListRT", "MokNew"))


@pytest.fixture
def paired(tree):
    return tree.file(KEY).file(CERTIFICATE, DER)


def lists(*certificates):
    """Return an EFI variable of signature lists: what is around the certificates does not matter."""
    return b"\x07\0\0\0" + b"".join(b"head of 44 bytes" + certificate for certificate in certificates)


def stands(tree):
    return mok.standing(tree.node(), mok.OF_DKMS)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, "absent"),
        ({ENROLLED: lists(OTHER)}, "absent"),
        ({ENROLLED: lists(OTHER, DER)}, "enrolled"),
        ({ENROLLED: lists(OTHER), PENDING: lists(DER)}, "pending"),
        ({ENROLLED: lists(DER), PENDING: lists(DER)}, "enrolled"),
        ({ENROLLED.replace("RT-", "RT1-"): lists(DER)}, "enrolled"),
        ({f"{mok.MOK_VARIABLES}/MokListRT": lists(DER)}, "enrolled"),
        ({ENROLLED.replace(mok.SHIM, "of-somebody-else"): lists(DER)}, "absent"),
    ],
)
def test_a_key_stands_as_the_variables_of_shim_say(paired, variables, expected):
    for path, content in variables.items():
        paired.file(path, content)
    assert stands(paired) == expected


def test_what_cannot_be_read_is_unknown(paired):
    paired.directory(ENROLLED)  # no file, so there is nothing to read
    assert stands(paired) == "unknown"


def test_a_certificate_that_cannot_be_read_is_unknown(tree):
    tree.file(KEY).file(CERTIFICATE, b"").file(ENROLLED, lists(DER))
    assert stands(tree) == "unknown"


@pytest.mark.parametrize(("there", "expected"), [((), "missing"), ((KEY,), "half"), ((CERTIFICATE,), "half")])
def test_a_pair_that_is_not_whole(tree, there, expected):
    for path in there:
        tree.file(path, DER)
    tree.file(ENROLLED, lists(DER))
    assert stands(tree) == expected


@pytest.mark.parametrize(
    ("state", "variables", "expected"),
    [
        ("enabled", {ENROLLED: lists(DER)}, (True, False)),
        ("enabled", {PENDING: lists(DER)}, (False, True)),
        ("enabled", {}, (False, False)),
        ("disabled", {ENROLLED: lists(DER)}, (None, None)),
        ("unsupported", {}, (None, None)),
    ],
)
def test_the_facts_of_the_key(paired, state, variables, expected):
    for path, content in variables.items():
        paired.file(path, content)
    assert signing_key(paired.node(), state, "debian") == expected


def test_a_key_that_dkms_would_only_make_is_not_enrolled(tree):
    assert signing_key(tree.node(), "enabled", "debian") == (False, False)


def test_facts_that_nobody_may_read(paired):
    paired.directory(ENROLLED)
    assert signing_key(paired.node(), "enabled", "debian") == (None, None)


CONFIG, DROP_IN = mok.CONFIGURATION, f"{mok.CONFIGURATION}.d/lab.conf"


@pytest.mark.parametrize(
    ("distribution", "files", "expected"),
    [
        ("debian", {}, mok.OF_DKMS),
        ("rhel", {}, mok.OF_DKMS),
        ("ubuntu", {}, mok.OF_UBUNTU),
        ("ubuntu", {CONFIG: "mok_certificate=/root/alone.der\n"}, mok.OF_UBUNTU),
        ("ubuntu", {CONFIG: "mok_signing_key=/root/a.key\n"}, mok.KeyPair("/root/a.key", CERTIFICATE)),
        ("debian", {CONFIG: "# mok_signing_key=/root/a.key\n"}, mok.OF_DKMS),
        (
            "debian",
            {CONFIG: "mok_certificate=/root/old.der\n", DROP_IN: 'mok_certificate="/root/lab.der"\n'},
            mok.KeyPair(KEY, "/root/lab.der"),
        ),
    ],
)
def test_the_pair_that_dkms_uses(tree, distribution, files, expected):
    for path, text in files.items():
        tree.file(path, text)
    assert mok.key_pair(tree.node(), distribution) == expected


def test_a_private_key_in_a_token_is_no_file(tree):
    tree.file(CERTIFICATE, DER)
    assert mok.standing(tree.node(), mok.KeyPair("pkcs11:token=lab", CERTIFICATE)) == "absent"


@pytest.mark.parametrize(
    ("pair", "usage", "expected"),
    [
        (mok.OF_DKMS, "", "openssl"),
        (mok.OF_DKMS, "Usage: dkms [action] = { add | remove | status }", "openssl"),
        (mok.OF_DKMS, "Usage: dkms [action] = { add | status | generate_mok }", "dkms"),
        (mok.OF_UBUNTU, "{ add | generate_mok }", "update-secureboot-policy"),
    ],
)
def test_who_makes_the_pair(pair, usage, expected):
    assert mok.maker(pair, usage)[0] == expected


def test_a_password_that_a_console_takes():
    assert mok.typeable("correct-horse")
    assert not any(map(mok.typeable, ("short", "with space", "grün-und-gelb", "two\nlines-of-it", "")))


def serial(number):
    """Return a certificate's number as modinfo prints it of a module that its key signed."""
    return number.to_bytes(-(-number.bit_length() // 8), "big").hex(":").upper()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """Return a function that makes a certificate as DKMS does."""
    place = tmp_path_factory.mktemp("keys") / "der"

    def made(number):
        who = ["-subj", f"/CN={SIGNER}", "-set_serial", str(number)]
        files = ["-newkey", "rsa:2048", "-keyout", "/dev/null", "-outform", "DER", "-out", place]
        subprocess.run(["openssl", "req", "-new", "-x509", "-nodes", *who, *files], check=True, timeout=60)
        return place.read_bytes()

    return made


@pytest.mark.parametrize("number", [0x2771F680E863E9CBA8583F2DFD52EF42, 0x80 << 120])
def test_a_module_that_an_enrolled_key_signed_is_accepted(paired, certificate, number):
    now = certificate(number)
    paired.file(CERTIFICATE, now).file(ENROLLED, lists(OTHER, now))
    assert mok.accepts(paired.node(), mok.OF_DKMS, SIGNER, serial(number)) is True


def test_a_module_that_a_former_key_of_dkms_signed_is_not(paired, certificate):
    former, now = certificate(FORMER), certificate(NOW)
    paired.file(CERTIFICATE, now).file(ENROLLED, lists(now))
    assert mok.accepts(paired.node(), mok.OF_DKMS, SIGNER, serial(FORMER)) is False
    paired.file(ENROLLED, lists(now, former))
    assert mok.accepts(paired.node(), mok.OF_DKMS, SIGNER, serial(FORMER)) is True


def test_nobody_knows_of_a_distributions_key_nor_without_the_variables(paired, certificate):
    paired.file(CERTIFICATE, certificate(NOW)).file(ENROLLED, lists(OTHER))
    assert mok.accepts(paired.node(), mok.OF_DKMS, SIGNER, serial(NOW)) is False
    assert mok.accepts(paired.node(), mok.OF_DKMS, "Build time autogenerated kernel key", "07:01") is None
    assert mok.accepts(paired.node(), mok.OF_DKMS, SIGNER, "no number") is None
    paired.directory(ENROLLED.replace("RT-", "RT1-"))  # no file, so there is nothing to read
    assert mok.accepts(paired.node(), mok.OF_DKMS, SIGNER, serial(NOW)) is None
