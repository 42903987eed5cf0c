"""The software of a node, with APT and with dnf; never what opens a repository."""

import json
import sqlite3
from dataclasses import asdict

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.capture import software
from ansible_collections.gpulab.node.plugins.module_utils.packages import dnf_history

from unit.packages.openpgp_keys import VERSION_6, VERSION_6_FINGERPRINT

CANARY = "canary"
DPKG = """\
dpkg\tamd64\t1.21.22\tinstall\tinstalled\t
libc6\tamd64\t2.36-9\tinstall\tinstalled\t
libc6\ti386\t2.36-9\tinstall\tinstalled\t
adduser\tall\t3.134\tinstall\tinstalled\t
cuda-drivers\tamd64\t580.95.05-1\thold\tinstalled\t
sl\tamd64\t5.02-1\tdeinstall\tconfig-files\t
"""
STATES = """\
Package: libc6
Architecture: amd64
Auto-Installed: 1

Package: adduser
Architecture: amd64
Auto-Installed: 1
"""
RPM = """\
kernel\t0\t5.14.0-1.el9\tx86_64\t
kernel\t0\t5.14.0-2.el9\tx86_64\t
cuda-drivers\t3\t580.95.05-1\tx86_64\t
glibc\t0\t2.34-1.el9\tx86_64\t
gpg-pubkey\t0\t3e1f25-4d5\t(none)
"""


@pytest.fixture
def debian(tree):
    tree.file("/var/lib/dpkg/status").file("/var/lib/apt/extended_states", STATES)
    return tree.prints("dpkg-query --show", DPKG)


@pytest.fixture
def rhel(tree):
    return tree.prints("rpm -qa", RPM)


def read(tree):
    return asdict(software.read(tree.node()))


def deb822(**fields):
    return "".join(f"{name.replace('_', '-')}: {value}\n" for name, value in fields.items())


def test_packages_of_dpkg(debian):
    found = read(debian)
    assert found["packages"][1:4] == [
        {"name": "libc6", "version": "2.36-9", "architecture": "amd64"},
        {"name": "libc6", "version": "2.36-9", "architecture": "i386"},
        {"name": "adduser", "version": "3.134", "architecture": "all"},
    ]
    assert "sl" not in {one["name"] for one in found["packages"]}
    assert found["manual"] == ["dpkg", "libc6:i386", "cuda-drivers"]
    assert found["holds"] == ["cuda-drivers"]


def test_a_package_manager_that_does_not_answer(tree):
    tree.file("/var/lib/dpkg/status")
    found = read(tree)
    assert (found["packages"], found["manual"]) == (None, None)


def test_preferences_of_apt(debian):
    text = "Explanation: ours\nPackage: cuda-*\n nvidia-*\nPin: version 580.*\nPin-Priority: 1001\n\nPackage: x\n"
    debian.file("/etc/apt/preferences", text.replace("580", "575")).file("/etc/apt/preferences.d/nvidia.pref", text)
    debian.file("/etc/apt/preferences.d/plain", text).file("/etc/apt/preferences.d/off.disabled", text)
    pin = {"packages": "cuda-* nvidia-*", "pin": "version 580.*", "priority": "1001"}
    assert read(debian)["pins"] == [
        {"file": "/etc/apt/preferences", **pin, "pin": "version 575.*"},
        {"file": "/etc/apt/preferences.d/nvidia.pref", **pin},
        {"file": "/etc/apt/preferences.d/plain", **pin},
    ]


def test_a_source_in_one_line_with_its_keyring(debian):
    debian.file("/usr/share/keyrings/lab.asc", VERSION_6).file(
        "/etc/apt/sources.list.d/lab.list",
        "deb [arch=amd64,i386 signed-by=/usr/share/keyrings/lab.asc] https://lab.example/apt stable main extra\n",
    )
    found = read(debian)
    assert found["sources"] == [
        {
            "file": "/etc/apt/sources.list.d/lab.list",
            "name": "",
            "uris": ["https://lab.example/apt"],
            "suite": "stable",
            "components": ["main", "extra"],
            "options": {"Architectures": "amd64 i386"},
            "key_files": ["/usr/share/keyrings/lab.asc"],
            "keys": [VERSION_6_FINGERPRINT],
        }
    ]
    assert found["keys"] == [
        {"file": "/usr/share/keyrings/lab.asc", "fingerprints": [VERSION_6_FINGERPRINT], "problem": None}
    ]


def test_a_source_that_holds_its_key(debian):
    key = "\n" + "".join(f" {line or '.'}\n" for line in VERSION_6.splitlines())
    fields = deb822(Types="deb", URIs="https://lab.example/apt", Suites="./", Signed_By=key)
    debian.file("/etc/apt/sources.list.d/lab.sources", fields)
    found = read(debian)
    assert [(one["key_files"], one["keys"], one["options"]) for one in found["sources"]] == [
        ([], [VERSION_6_FINGERPRINT], {})
    ]
    assert found["keys"] == []


def test_a_source_that_names_a_fingerprint(debian):
    fields = deb822(
        Types="deb", URIs="https://lab.example", Suites="./", Signed_By=f"{VERSION_6_FINGERPRINT}, /gone.gpg"
    )
    debian.file("/etc/apt/sources.list.d/lab.sources", fields)
    source = read(debian)["sources"][0]
    assert (source["keys"], source["key_files"]) == ([VERSION_6_FINGERPRINT], ["/gone.gpg"])


def test_sources_that_are_off_or_not_read(debian):
    fields = deb822(Types="deb", URIs="https://lab.example", Suites="./")
    debian.file("/etc/apt/sources.list.d/off.sources", f"{fields}Enabled: no\n").file(
        "/etc/apt/sources.list", "#deb x y z\n"
    )
    debian.file("/etc/apt/sources.list.d/lab.list.save", "deb https://lab.example ./\n")
    assert read(debian)["sources"] == []


def test_keys_that_apt_trusts_for_everything(debian):
    debian.file("/etc/apt/trusted.gpg.d/lab.asc", VERSION_6).file("/etc/apt/trusted.gpg", b"\x99")
    debian.file("/etc/apt/keyrings/page.asc", "<html>").file("/etc/apt/keyrings/empty.gpg", "")
    found = {key["file"]: key["fingerprints"] for key in read(debian)["keys"]}
    assert found == {
        "/etc/apt/trusted.gpg.d/lab.asc": [VERSION_6_FINGERPRINT],
        "/etc/apt/keyrings/page.asc": [],
        "/etc/apt/keyrings/empty.gpg": [],
        "/etc/apt/trusted.gpg": [],
    }
    assert all(key["problem"] or key["fingerprints"] for key in read(debian)["keys"])


def test_no_secret_of_a_source_is_returned(debian):
    debian.file("/etc/apt/auth.conf", f"machine lab.example login a password {CANARY}\n")
    debian.file(
        "/etc/apt/sources.list",
        f"deb https://wei:{CANARY}@lab.example/apt stable main\ndeb https://{CANARY}@lab.example/apt2 stable main\n"
        f"deb [password={CANARY}] https://lab.example/t/{CANARY}-0123456789/x stable main\n",
    )
    secret = "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n" + CANARY + "\n-----END PGP PRIVATE KEY BLOCK-----\n"
    debian.file("/etc/apt/keyrings/lab.asc", secret)
    debian.file(
        "/etc/apt/sources.list.d/a.sources", deb822(Types="deb", URIs="https://l", Suites="./", Signed_By=secret)
    )
    found = read(debian)
    assert len(found["sources"]) == 4
    assert CANARY not in json.dumps(found)


def history(tree):
    path = tree.file(dnf_history.PATH).root / dnf_history.PATH.lstrip("/")
    with sqlite3.connect(path) as file:
        file.executescript(
            "CREATE TABLE trans (id, state); CREATE TABLE rpm (item_id, name, arch);"
            "CREATE TABLE trans_item (trans_id, item_id, action, reason);"
            "INSERT INTO trans VALUES (1, 1); INSERT INTO rpm VALUES (1, 'glibc', 'x86_64');"
            "INSERT INTO trans_item VALUES (1, 1, 1, 1);"
        )


def test_packages_of_rpm(rhel):
    history(rhel)
    found = read(rhel)
    assert found["packages"] == [
        {"name": "kernel", "version": "5.14.0-1.el9", "architecture": "x86_64"},
        {"name": "kernel", "version": "5.14.0-2.el9", "architecture": "x86_64"},
        {"name": "cuda-drivers", "version": "3:580.95.05-1", "architecture": "x86_64"},
        {"name": "glibc", "version": "2.34-1.el9", "architecture": "x86_64"},
    ]
    assert found["manual"] == ["cuda-drivers.x86_64", "kernel.x86_64"]


def test_without_dnfs_history_nobody_knows_what_was_asked_for(rhel):
    assert read(rhel)["manual"] is None


def test_locks_and_exclusions_of_dnf(rhel):
    lines = "# Added lock\ncuda-drivers-3:580.95.05-1.*\n!kernel-0:5.14.0-3.*\n"
    rhel.file("/etc/dnf/plugins/versionlock.list", lines)
    rhel.file("/etc/dnf/dnf.conf", "[main]\nexcludepkgs=nvidia-open*,\n  sl\n")
    rhel.file("/etc/yum.repos.d/lab.repo", "[lab]\nbaseurl=https://lab.example\nexclude=cuda*\n")
    found = read(rhel)
    assert found["holds"] == ["cuda-drivers-3:580.95.05-1.*"]
    assert found["pins"] == [
        {"file": "/etc/dnf/dnf.conf", "packages": "nvidia-open* sl", "pin": "excluded in main", "priority": ""},
        {"file": "/etc/yum.repos.d/lab.repo", "packages": "cuda*", "pin": "excluded in lab", "priority": ""},
        {
            "file": "/etc/dnf/plugins/versionlock.list",
            "packages": "kernel-0:5.14.0-3.*",
            "pin": "excluded",
            "priority": "",
        },
    ]


def test_repositories_keys_and_streams_of_dnf(rhel):
    rhel.file("/etc/pki/rpm-gpg/RPM-GPG-KEY-lab", VERSION_6).file(
        "/etc/yum.repos.d/lab.repo",
        f"[lab]\nname=Lab\nbaseurl=https://wei:{CANARY}@lab.example/$basearch\n https://two.example\npriority=10\n"
        f"username=wei\npassword={CANARY}\nproxy_password={CANARY}\ngpgkey=file:///etc/pki/rpm-gpg/RPM-GPG-KEY-lab\n"
        f" https://{CANARY}@lab.example/key\n[off]\nenabled=0\nbaseurl=https://off.example\n"
        f"[mirrors]\nmetalink=https://m.example/?token={CANARY}\n",
    ).file("/etc/yum.repos.d/old.repo.rpmsave", "[old]\nbaseurl=https://old.example\n")
    rhel.file("/etc/yum.repos.d/damaged.repo", "no section\n").file(
        "/etc/dnf/modules.d/nvidia.module", "[nvidia-driver]\nstream=580-dkms\nstate=enabled\n"
    )
    rhel.prints("rpm -q gpg-pubkey", f"gpg-pubkey-1-1\n{VERSION_6}\ngpg-pubkey-2-1\n(none)\n")
    found = read(rhel)
    assert found["sources"] == [
        {
            "file": "/etc/yum.repos.d/lab.repo",
            "name": "lab",
            "uris": ["https://***@lab.example/$basearch", "https://two.example"],
            "suite": "",
            "components": [],
            "options": {"priority": "10"},
            "key_files": ["/etc/pki/rpm-gpg/RPM-GPG-KEY-lab"],
            "keys": [VERSION_6_FINGERPRINT],
        },
        {
            "file": "/etc/yum.repos.d/lab.repo",
            "name": "mirrors",
            "uris": ["https://m.example/?***"],
            "suite": "",
            "components": [],
            "options": {},
            "key_files": [],
            "keys": [],
        },
    ]
    assert [(key["file"], key["fingerprints"]) for key in found["keys"]] == [
        ("/etc/pki/rpm-gpg/RPM-GPG-KEY-lab", [VERSION_6_FINGERPRINT]),
        ("rpm:gpg-pubkey-1-1", [VERSION_6_FINGERPRINT]),
        ("rpm:gpg-pubkey-2-1", []),
    ]
    assert found["streams"] == [{"name": "nvidia-driver", "stream": "580-dkms", "state": "enabled"}]
    assert CANARY not in json.dumps(found)


SNAPS = "Name    Version  Rev    Tracking       Publisher   Notes\ncode  1.9  200  latest/stable  vscode**  classic\n"


def test_snaps(debian):
    debian.file("/var/lib/snapd/snaps/code_200.snap").prints("snap list", SNAPS)
    assert read(debian)["snaps"] == [
        {
            "name": "code",
            "version": "1.9",
            "revision": "200",
            "channel": "latest/stable",
            "publisher": "vscode**",
            "notes": "classic",
        }
    ]


def test_flatpaks(debian):
    debian.directory("/var/lib/flatpak/app/org.gimp.GIMP").prints(
        "flatpak list --system", "org.gimp.GIMP\tstable\tflathub\t3.0 beta\n"
    )
    assert read(debian)["flatpaks"] == [
        {"name": "org.gimp.GIMP", "branch": "stable", "origin": "flathub", "version": "3.0 beta"}
    ]


def test_snaps_and_flatpaks_that_do_not_answer(debian):
    debian.file("/var/lib/snapd/snaps/code_200.snap").directory("/var/lib/flatpak/app/org.gimp.GIMP")
    found = read(debian)
    assert (found["snaps"], found["flatpaks"]) == (None, None)


def test_snaps_and_flatpaks_that_are_not_there(debian):
    debian.prints("snap list", SNAPS).prints("flatpak list", "x\ty\tz\t1\n").file("/var/lib/snapd/snaps/partial/x", "")
    found = read(debian)
    assert (found["snaps"], found["flatpaks"]) == ([], [])


@pytest.mark.parametrize("family", ["debian", "rhel"])
def test_damaged_files(family, request):
    tree = request.getfixturevalue(family)
    for path in (
        "/etc/apt/sources.list", "/etc/apt/sources.list.d/a.sources", "/etc/apt/preferences", "/etc/apt/trusted.gpg",
        "/etc/yum.repos.d/a.repo", "/etc/dnf/dnf.conf", "/etc/dnf/modules.d/a.module", "/var/lib/apt/extended_states",
        dnf_history.PATH, "/etc/pki/rpm-gpg/a", "/etc/dnf/plugins/versionlock.list",
    ):  # fmt: skip
        tree.file(path, b"\xff[x\n]=\0:\n\n \xc6\x80Pin:\n[a]\n[a]\nb=%(c)s\n\xd9")
    json.dumps(read(tree))
