"""What a node says of itself, put together."""

import json
from types import SimpleNamespace

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.capture import disks, look
from ansible_collections.gpulab.node.plugins.module_utils.capture.asked import Asked
from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.disks import Disks
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node

from unit.filled import typed

NOTHING = SimpleNamespace(output=lambda: None, result=lambda: None)
WISHES = {
    "captured": [
        {"section": "credentials", "secret": True, "patterns": ["~/.cache/token"]},
        {"section": "configuration", "secret": False, "patterns": ["/etc/**"]},
    ],
    "ephemeral": [{"reason": "caches", "patterns": ["/etc/cache", "~/.cache/**", "/var/log/**"]}],
    "leaves": [
        {
            "role": "nccl",
            "fate": "comes_back",
            "paths": ["{file:/usr/local/lib/*}", "/opt/gpulab/**", "/var/lib/gpulab/**"],
        },
        {"role": "nouveau", "fate": "comes_back", "paths": ["/etc/modprobe.d/gpulab-nouveau.conf"]},
        {"role": "secure_boot", "fate": "captured", "paths": ["/srv/key"]},
    ],
    "paths": ["/var/log/kept"],
    "acknowledged": [{"path": "/opt/tool", "reason": "of the campus"}],
    "receipts": [],
    "largest": 1 << 20,
}


@pytest.fixture
def node(tmp_path, monkeypatch):
    """Return a node with /home on a file system of its own, and what happened on it."""
    for path in (
        *("etc/fstab", "etc/cache", "etc/modprobe.d/gpulab-nouveau.conf", "var/log/syslog", "var/log/kept/a"),
        *("srv/key", "usr/local/lib/libours.so"),
        *("opt/tool/x", "opt/gpulab/uv", "home/li/.cache/token", "home/li/.cache/x"),
        "home/li/thesis",
    ):
        put(tmp_path, path, "x")
    put(tmp_path, "etc/passwd", "root:x:0:0::/root:/bin/bash\nli:x:2001:2001::/home/li:/bin/bash\n")
    receipt = {"schema": 1, "inputs": {}, "sealed": True}
    items = {"file:/usr/local/lib/libours.so": "x", "file:/etc/fstab": "y", "package:x": "1"}
    put(tmp_path, "var/lib/gpulab/receipts/nccl.json", json.dumps({**receipt, "items": items}))
    mountinfo = "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 8:2 / /home rw - ext4 /dev/sda2 rw\n"
    put(tmp_path, "proc/self/mountinfo", mountinfo)
    systems = [{"mount": "/", "on_root_disk": True}, {"mount": "/data", "on_root_disk": False}]
    read = {"walked": ["/", "/home"], "filesystems": systems}
    monkeypatch.setattr(disks, "read", lambda _node: typed(read, Disks))
    return Node(tmp_path, lambda _argv: NOTHING)


def put(root, path, text):
    place = root / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)


def test_each_path_is_where_the_rules_and_receipts_put_it(node):
    found = look.look(node, typed(WISHES, Asked))
    files = {one["path"]: one for one in found["files"] if one["kind"] == "file"}
    of_etc = {"/etc/fstab", "/etc/passwd"}  # gpulab's receipt names /etc/fstab, but others have lines in it, too
    assert set(files) == {*of_etc, "/srv/key", "/home/li/.cache/token", "/var/log/kept/a"}
    assert files["/home/li/.cache/token"]["secret"], "a secret counts before a cache"
    bins = {name: one["bytes"] for name, one in found["bins"].items()}
    assert (bins["acknowledged"], bins["cache"]) == (1, 3)
    assert [one["path"] for one in found["remainder"] if not one["path"].startswith("/proc")] == ["/home/li/thesis"]


def test_what_lies_on_other_disks_is_listed_as_kept(node):
    assert [one["mount"] for one in look.look(node, typed(WISHES, Asked))["kept"]] == ["/data"]


def test_the_locks_of_gpulabs_environments_are_taken_along(node, tmp_path):
    items = {"environment:/opt/venvs/pytorch": {}, "environment:/opt/venvs/gone": {}}
    receipt = {"schema": 1, "inputs": {}, "sealed": True, "items": items}
    put(tmp_path, "var/lib/gpulab/receipts/environments.json", json.dumps(receipt))
    put(tmp_path, "opt/venvs/pytorch/gpulab.lock", "six==1.17.0 --hash=sha256:0\n")
    lock = {"path": "/opt/venvs/pytorch", "text": "six==1.17.0 --hash=sha256:0\n"}
    assert look.look(node, typed(WISHES, Asked))["sections"]["gpulab"]["locks"] == [lock]


@pytest.mark.parametrize(
    ("built", "left"), [("nvidia.ko.xz", []), ("other.ko.xz", ["nvidia.ko.xz"]), (None, ["nvidia.ko.xz"])]
)
def test_a_kernel_module_that_dkms_has_not_built_is_left_over(node, tmp_path, built, left):
    put(tmp_path, "usr/lib/modules/6.1.0/extra/nvidia.ko.xz", "module")
    if built:
        put(tmp_path, f"var/lib/dkms/nvidia/595/6.1.0/x86_64/module/{built}", "module")
    found = [one["path"] for one in look.look(node, typed(WISHES, Asked))["remainder"]]
    assert [path for path in found if "/modules/" in path] == [f"/usr/lib/modules/6.1.0/extra/{name}" for name in left]


@pytest.mark.parametrize(("record", "brought"), [(None, []), ('["g++-14"]', ["g++-14"]), ('["g++', [])])
def test_what_only_came_with_gpulabs_packages_is_told(node, tmp_path, record, brought):
    if record:
        put(tmp_path, "var/lib/gpulab/packages.json", record)
    assert look.look(node, typed(WISHES, Asked))["sections"]["gpulab"]["brought"] == brought


def test_what_gpulab_brings_back_is_known_by_its_receipts(node):
    assert look.look(node, typed(WISHES, Asked))["sections"]["gpulab"]["receipts"] == {
        "nccl": ["file:/etc/fstab", "file:/usr/local/lib/libours.so", "package:x"]
    }


def test_what_opens_encrypted_disks_is_captured_wherever_it_lies_and_secret(node, tmp_path):
    put(tmp_path, "etc/crypttab", "data UUID=1 /root/keys/data luks,header=/srv/data.header\n")
    for path in ("root/keys/data", "srv/data.header", "srv/other"):
        put(tmp_path, path, "canary-7f3a")
    found = look.look(node, typed(WISHES, Asked))
    secret = {one["path"] for one in found["files"] if one.get("secret")}
    assert {"/root/keys/data", "/srv/data.header"} <= secret
    assert "/srv/other" in [one["path"] for one in found["remainder"]]
