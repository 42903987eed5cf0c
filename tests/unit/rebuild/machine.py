"""The capture of a machine that can be reinstalled, and what the node says of itself at that time."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.plugin_utils.capture import manifest as manifests
from ansible_collections.gpulab.node.plugins.plugin_utils.rebuild import case, installation

from unit.capture import hardware
from unit.captures import captured

if TYPE_CHECKING:
    from pathlib import Path

    from ansible_collections.gpulab.node.plugins.plugin_utils.capture.manifest import Manifest

UUID = "4c4c4544-0042-4a10-8031-c4c04f503733"
MAC = "b8:ca:3a:00:00:01"
KEY = "ssh-ed25519 AAAAC3Nz admin@controller\n"
HASH = "$y$j9T$canary7f3a"
SHADOW, HOST_KEY = "/etc/shadow", "/etc/ssh/ssh_host_ed25519_key"
CONTENTS = {
    "/etc/hosts": b"127.0.0.1 localhost\n10.0.0.7 node07.lab node07\n",
    f"{HOST_KEY}.pub": b"ssh-ed25519 AAAAC3Nz node07\n",
    SHADOW: f"root:*:1::\nadmin:{HASH}:19000:0:99999:7:::\n".encode(),
    HOST_KEY: b"-----BEGIN OPENSSH PRIVATE KEY-----\ncanary7f3a\n",
}
ARCHITECTURES: dict[str, dict[str, Any]] = {"x86_64": {"bios": [], "uefi": []}, "aarch64": {"uefi": []}}
INSTALLERS = [
    case.Installer(f"debian-{version}", codename, ARCHITECTURES, least_memory_mib=2816, least_disk_mib=4096)
    for version, codename in (("12", "bookworm"), ("13", "trixie"))
]


def interface(name: str = "eno1", **more: Any) -> dict[str, Any]:
    """Return an interface as the section ``network`` has it: Ethernet with a fixed address and the default route."""
    return {
        "name": name,
        "kind": "physical",
        "link_layer": "ethernet",
        "driver": "igb",
        "speed_gbps": 1.0,
        "up": True,
        "default_route": True,
        "ipv4": "10.0.0.7",
        "mac": MAC,
        "permanent_mac": None,
        "mtu": 1500,
        "master": None,
        "addresses": [{"address": "10.0.0.7/24", "dynamic": False}],
        **more,
    }


def account(name: str, uid: int, **more: Any) -> dict[str, Any]:
    """Return an account as the section ``users`` has it."""
    home = "/root" if name == "root" else f"/home/{name}"
    return {
        "name": name,
        "uid": uid,
        "gid": uid,
        "gecos": "",
        "home": home,
        "home_on_root_disk": True,
        "shell": "/bin/bash",
        "password": "set",
        **more,
    }


class Machine:
    """A machine whose capture and present state a test changes before it is planned."""

    def __init__(self, root: Path, disks: hardware.Hardware | None = None) -> None:
        """Start with a system disk and a disk for data."""
        self.contents = dict(CONTENTS)
        self.installers = INSTALLERS
        self.found: dict[str, Any] = {
            "dmi_uuid": UUID,
            "memory": 64 << 30,
            "user": "admin",
            "authorized_keys": KEY,
            "server": "10.0.0.7",
            "client": "10.0.0.2",
        }
        self.network = {
            "interfaces": [interface()],
            "routes": [{"to": "default", "via": "10.0.0.1", "interface": "eno1", "metric": None, "by": "static"}],
            "dns": {"servers": ["10.0.0.3"], "search": ["lab"], "options": [], "managed_by": None},
            "tools": [{"name": "ifupdown", "files": ["/etc/network/interfaces"], "active": True}],
        }
        self.sections: dict[str, Any] = {
            "disks": (disks or hardware.with_data()).read(root),
            "identity": {"hostname": "node07", "static_hostname": "node07", "machine_id": "5" * 32},
            "ssh": {
                "host_keys": [{"path": HOST_KEY, "type": "ssh-ed25519", "fingerprint": "SHA256:x", "private": True}],
                "files": [],
                "options": {},
            },
            "network": self.network,
            "boot": {
                "firmware": "uefi",
                "secure_boot": "disabled",
                "sbat_level": None,
                "command_line": "BOOT_IMAGE=/vmlinuz root=UUID=1 ro console=ttyS0,115200n8",
            },
            "users": [account("root", 0), account("admin", 1000)],
            "groups": [{"name": "root", "gid": 0, "members": []}, {"name": "admin", "gid": 1000, "members": []}],
            "sources": [
                {"suite": "bookworm", "components": ["main"], "uris": ["https://mirror.lab/debian"]},
                {"suite": "bookworm-security", "components": ["main"], "uris": ["https://mirror.lab/security"]},
            ],
        }
        system = {"id": "debian", "version": "12", "codename": "bookworm", "architecture": "x86_64"}
        self.machine = {"dmi_uuid": UUID, "system": system}
        self.more: dict[str, Any] = {}

    def manifest(self) -> Manifest:
        """Return the manifest as it is after it was written and read."""
        return manifests.typed(json.loads(json.dumps(self.document())))

    def document(self) -> dict[str, Any]:
        """Return the manifest as it is written."""
        secret = {path: data for path, data in self.contents.items() if path in (SHADOW, HOST_KEY)}
        plain = {path: data for path, data in self.contents.items() if path not in secret}
        more = {"machine": self.machine, "sections": self.sections, **self.more}
        return captured.manifest(plain, secret, **copy.deepcopy(more))

    def plan(self, **wishes: Any) -> installation.Installation:
        """Plan its installation."""
        node = case.Captured(self.manifest(), self.contents.get)
        return installation.plan(node, case.Found(**self.found), case.Wishes(**wishes), self.installers)
