"""A node as its capture sees it, and what tests write and break."""

from __future__ import annotations

import hashlib
from pathlib import Path

from ansible_collections.gpulab.node.plugins.plugin_utils.capture import manifest as manifests
from ansible_collections.gpulab.node.plugins.plugin_utils.capture import store

from unit.filled import filled

CANARY = b"canary-7f3a"  # in each secret, and nowhere else
FILES = {
    "/etc/fstab": b"UUID=1 / ext4 defaults 0 1\n",
    "/etc/cron.d/backup": b"0 3 * * * root /usr/local/bin/backup\n",
    "/etc/odd\nname": b"newline\n",
    "/etc/\udcff\udcfe": b"not UTF-8\n",
    "/etc/empty": b"",
}
SECRETS = {
    "/etc/shadow": b"root:" + CANARY + b"-shadow:1::\n",
    "/etc/ssh/ssh_host_ed25519_key": b"-----BEGIN OPENSSH PRIVATE KEY-----\n" + CANARY + b"-key\n",
    "/root/\udcff.key": CANARY + b"\0\xff",
    "/root/empty": b"",
}
MADE = "2026-11-26T13:25:00Z"


def entry(path, data=b"", **more):
    """Return what the manifest says of a file."""
    names = {"owner": "root", "uid": 0, "group": "root", "gid": 0}
    return {"path": path, "kind": "file", "mode": "0644", **names, "size": len(data), **more}


def manifest(files, secrets, made=MADE, **more):
    """Return the manifest of a node with these files."""
    entries = [entry(path, data, sha256=hashlib.sha256(data).hexdigest()) for path, data in files.items()]
    entries += [entry(path, data, mode="0600", secret=True) for path, data in secrets.items()]
    whole = {
        "schema": 1,
        "gpulab": "0.4.0",
        "host": "node07",
        "made": made,
        "seconds": 1.5,
        "machine": {},
        "sections": {},
    }
    bins = {"captured": {"files": len(entries), "bytes": 40}}
    lists = {"kept": [], "acknowledged": [], "receipts": [], "remainder": []}
    return filled({**whole, "files": entries, "bins": bins, **lists, **more}, manifests.Manifest)


def capture(directory, cipher, files=FILES, *, secrets=SECRETS, keep=14, **more):
    """Write a capture of node07 as the action does; return it."""
    with store.open_store(Path(directory), "node07", keep) as opened:
        for path, data in files.items():
            opened.put(path, data)
        return opened.finish(manifest(files, secrets, **more), secrets, cipher)


def contents(directory):
    """Return all that lies below a directory: names and contents in one."""
    found = []
    for path in sorted(directory.rglob("*")):
        found.append(str(path).encode("utf-8", "surrogateescape"))
        if path.is_file() and not path.is_symlink():
            found.append(path.read_bytes())
    return b"\n".join(found)
