"""No reader of the capture raises, whatever the files of a node hold and its programs print."""

import json
import tempfile
from dataclasses import asdict
from pathlib import Path

from ansible_collections.gpulab.node.plugins.module_utils.capture import cron, homes, jobs, people, software, system
from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.accounts import Accounts
from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.jobs import Jobs
from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.software import Software
from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.system import System
from ansible_collections.gpulab.node.plugins.module_utils.core import records
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
from ansible_collections.gpulab.node.plugins.module_utils.packages import dnf_history
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from unit.conftest import Canned, Tree

FILES = [
    "/etc/passwd", people.SHADOW, people.GROUP, people.SUBUID, people.SUBGID, people.LOGIN_DEFS, people.NSSWITCH,
    people.SSSD, people.KERBEROS, cron.SYSTEM, f"{cron.PARTS}/a", cron.ANACRON, "/var/spool/cron/wei",
    "/var/spool/at/a0000101c4a2d8", "/etc/systemd/system/a.timer", "/etc/systemd/system/a@.service",
    "/etc/systemd/system/b.service.d/x.conf", "/home/wei/.config/systemd/user/a.timer", "/etc/apt/sources.list",
    "/etc/apt/sources.list.d/a.sources", "/etc/apt/preferences", "/etc/apt/trusted.gpg", "/etc/pki/rpm-gpg/a",
    "/var/lib/apt/extended_states", "/etc/yum.repos.d/a.repo", "/etc/dnf/dnf.conf", "/etc/dnf/modules.d/a.module",
    "/etc/dnf/plugins/versionlock.list", dnf_history.PATH, "/var/lib/snapd/snaps/a.snap", system.SSHD, system.RESOLV,
    "/etc/ssh/ssh_host_a_key.pub", "/etc/hosts", "/etc/locale.conf", "/etc/ufw/ufw.conf", "/usr/sbin/ufw",
    "/proc/cmdline", "/proc/sys/kernel/hostname", "/proc/sys/kernel/osrelease", "/boot/grub/grub.cfg",
    "/etc/os-release",
    "/sys/class/net/eno1/type", "/sys/class/net/eno1/address", "/sys/firmware/efi/efivars/SecureBoot", homes.LINGER,
    "/proc/self/mountinfo",
]  # fmt: skip
WORDS = [
    b":", b"\n", b"x", b"0", b"1000", b"=", b"@daily ", b"* * * * * ", b"root ", b"%", b"\\", b"\xff", b"\0", b"\t",
    b'"',
    b"deb ", b"https://", b"@", b"/", b"[", b"]", b"-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n", b"Package: ", b"Pin: ",
    b"Types: deb\nURIs: ", b"\nSuites: ./", b"\nSigned-By: ", b"OnCalendar=", b"Port ", b"nameserver ", b"{", b"}",
    b"[{",
    b'"addr_info"', b"null", b"Id=", b"Names=", b"BootOrder: ", b"Boot0001* ", b"9" * 30, b"gpg-pubkey-", b"UID_MIN ",
    b"passwd: sss", b"wei", b" - ", b"8:1", b"ext4", b"enabled ", b"\xc2\xb2", b"\xe2\x80\xa8",
]  # fmt: skip
CONTENT = st.one_of(st.binary(max_size=60), st.lists(st.sampled_from(WORDS), max_size=25).map(b"".join))


@settings(max_examples=40, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(st.lists(CONTENT, min_size=len(FILES), max_size=len(FILES)), CONTENT, st.booleans())
def test_no_node_is_too_odd(contents, printed, debian):
    with tempfile.TemporaryDirectory() as directory:
        tree = Tree(Path(directory))
        for path, content in zip(FILES, contents, strict=True):
            tree.file(path, content)
        if debian:
            tree.file("/var/lib/dpkg/status")
        node = Node(tree.root, lambda _argv: Canned(printed.decode("utf-8", "replace")))
        found = [
            asdict(system.read(node)),
            asdict(people.read(node, {0, 4242}, {0, 4242})),
            asdict(jobs.read(node, frozenset().__contains__)),
            asdict(software.read(node)),
        ]
        json.dumps(found).encode("ascii")
        for section, kind in zip(found, (System, Accounts, Jobs, Software), strict=True):
            assert list(records.faults(section, kind)) == []
