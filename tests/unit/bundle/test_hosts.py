"""What a host gets, from what tasks were asked and what was found there."""

from __future__ import annotations

import base64
import gzip

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.plugin_utils.bundle import hosts

from unit.packages.openpgp_keys import VERSION_6, VERSION_6_FINGERPRINT

DEBIAN = {
    "file": "/etc/apt/sources.list.d/debian.sources",
    "uri": "http://mirror.example/debian",
    "suite": "trixie",
    "components": ["main"],
    "options": [["Signed-By", "/usr/share/keyrings/debian-archive-keyring.gpg"]],
    "origin": "Debian",
}
THERE = {
    "architectures": ["amd64"],
    "sources": [DEBIAN, {**DEBIAN, "file": "/etc/apt/sources.list.d/gpulab-base.sources", "components": ["contrib"]}],
    "keyrings": {"/usr/share/keyrings/debian-archive-keyring.gpg": base64.b64encode(b"key").decode()},
    "preferences": "Package: x\nPin: version 1\nPin-Priority: 1\n",
    "status": base64.b64encode(gzip.compress(b"Package: x\n")).decode(),
    "machine": "x86_64",
    "libc": "2.41",
    "pythons": ["3.13"],
    "locks": {"vision": "click==1\n"},
}
VENDOR = {
    "name": "vendor",
    "url": "https://vendor.example/apt/",
    "key": VERSION_6,
    "fingerprint": VERSION_6_FINGERPRINT,
    "packages": ["driver-*"],
}


def environment(**fields):
    args = {"environments": [{"name": "vision", "python": "3.13", "requirements": ["click"], **fields}]}
    return ("gpulab.node.venv_environments", {**args, "uv_version": "0.1", "uv_sha256": "ab"})


def test_sources_are_those_that_a_run_leaves_there():
    tasks = [("gpulab.node.apt_components", {"name": "driver", "components": ["non-free"]})]
    tasks += [("gpulab.node.repository", VENDOR), ("gpulab.node.apt_repository", {"name": "gone", "state": "absent"})]
    system = hosts.of("node1", tasks, THERE).system
    assert [(source.uri, source.suite, source.components) for source in system.sources] == [
        ("http://mirror.example/debian", "trixie", ("main",)),
        ("http://mirror.example/debian", "trixie", ("non-free",)),
        ("https://vendor.example/apt/", "/", ()),
    ]
    assert dict(system.keyrings)["/etc/apt/keyrings/gpulab-vendor.asc"].startswith(b"-----BEGIN PGP")
    assert "Package: x\n" in system.preferences
    assert 'Package: driver-*\nPin: origin "vendor.example"\nPin-Priority: 600' in system.preferences


def test_a_key_that_is_not_the_pinned_one_is_refused():
    with pytest.raises(Refusal, match="H060"):
        hosts.of("node1", [("gpulab.node.repository", {**VENDOR, "fingerprint": "0" * 40})], THERE)


def test_what_is_removed_is_not_asked_for_and_what_is_fetched_is():
    tasks = [
        ("gpulab.node.packages", {"present": ["a=1.*"], "hold": ["a"], "retire": ["b"], "recommends": True}),
        ("gpulab.node.packages", {"retire": ["c"]}),
        ("gpulab.node.nvidia_runfile", {"state": "fetched", "url": "https://x.example/a/NV.run", "sha256": "ff"}),
    ]
    host = hosts.of("node1", tasks, THERE)
    assert [(one.wishes.present, one.wishes.retire, one.recommends) for one in host.wanted] == [(("a=1.*",), (), True)]
    assert [(file.path, file.url) for file in host.files] == [("files/ff/NV.run", "https://x.example/a/NV.run")]


def test_an_environment_keeps_its_lock_and_needs_the_python_of_the_system():
    host = hosts.of("node1", [environment()], THERE)
    assert (host.environments[0].lock, host.environments[0].platform) == ("click==1\n", "x86_64-manylinux_2_40")
    assert host.requirement == "uv==0.1 --hash=sha256:ab\n"
    with pytest.raises(Refusal, match=r"B022 .*vision of node1 .*3\.12.*3\.13"):
        hosts.of("node1", [environment(python="3.12")], THERE)


def test_what_no_bundle_has_is_said():
    tasks = [("gpulab.node.conda_environments", {"environments": [{"name": "x"}]})]
    tasks.append(("gpulab.node.cuda_wheels", {"toolkits": []}))
    assert hosts.lacking("node1", tasks) == ["The bundle has no conda environments, which node1 asks for."]
