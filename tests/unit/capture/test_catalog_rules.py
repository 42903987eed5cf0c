"""What the catalog's patterns say of paths that may hold the only copy of something."""

from pathlib import Path

import pytest
import yaml
from ansible_collections.gpulab.node.plugins.module_utils.capture.rules import Rules

CATALOG = Path(__file__).parents[3] / "catalog"


def rules(name):
    return yaml.safe_load((CATALOG / f"{name}.yml").read_text(encoding="utf-8"))[name]


def found(path):
    """Return "secret", "cache", "captured" or None, in the order in which the walk asks."""
    captured = rules("captured")
    ordered = [(pattern, "secret") for one in captured if one["secret"] for pattern in one["patterns"]]
    ordered += [(pattern, "cache") for one in rules("ephemeral") for pattern in one["patterns"]]
    ordered += [(pattern, "captured") for one in captured if not one["secret"] for pattern in one["patterns"]]
    return Rules(ordered, ["/home/li"]).find(path)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/boot/efi/EFI/Microsoft/Boot/bootmgfw.efi", None),
        ("/home/li/.ansible/collections/own/galaxy.yml", None),
        ("/srv/lost+found/thesis", None),
        ("/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots/1/fs/own", None),
        ("/var/lib/containerd/io.containerd.content.v1.content/blobs/sha256/ab", None),
        ("/var/lib/private/ollama/model", None),
        ("/var/spool/postfix/deferred/A/ABC", None),
        ("/var/backups/own.sql", None),
        ("/var/tmp/results", None),  # noqa: S108
        ("/etc/ssh/sshd_config.dpkg-old", "captured"),
        ("/etc/ssl/certs/own-server.pem", "captured"),
        ("/var/lib/dpkg/statoverride", "captured"),
        ("/boot/grub2/user.cfg", "secret"),
        ("/home/li/.bash_history", "secret"),
        ("/var/lib/cloud/scripts/per-boot/own.sh", "secret"),
        ("/var/lib/selinux/targeted/active/ports.local", "secret"),
        ("/var/lib/ubuntu-advantage/private/machine-token.json", "secret"),
        ("/var/lib/dpkg/status", "cache"),
        ("/var/backups/dpkg.status.1.gz", "cache"),
        ("/var/lib/containerd/io.containerd.metadata.v1.bolt/meta.db", "cache"),
        ("/lost+found", "cache"),
    ],
)
def test_what_may_be_the_only_copy_is_no_cache(path, expected):
    assert found(path) == expected


@pytest.mark.parametrize(
    "path",
    [
        "/var/lib/shim-signed/mok/MOK.priv",  # trap 13: modules signed by another key do not load with Secure Boot
        "/var/lib/dkms/mok.key",
        "/etc/munge/munge.key",  # trap 14: a cluster knows its nodes by it
        "/etc/ssh/ssh_host_ed25519_key",  # trap 11: people would be warned of another machine
    ],
)
def test_keys_without_which_a_node_is_another_one_are_captured_as_secrets(path):
    assert found(path) == "secret"
