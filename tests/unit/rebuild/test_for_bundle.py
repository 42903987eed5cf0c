"""What a bundle takes of a capture: what a rebuild brings back, and nothing that a node could slip in."""

from __future__ import annotations

from types import SimpleNamespace

from ansible_collections.gpulab.node.plugins.plugin_utils.bundle.hosts import Captured
from ansible_collections.gpulab.node.plugins.plugin_utils.capture import manifest as manifests
from ansible_collections.gpulab.node.plugins.plugin_utils.rebuild import for_bundle

from unit.captures import captured
from unit.captures.captured import manifest
from unit.captures.conftest import vault, vault_password  # noqa: F401 - fixtures

THERE = {"architectures": ["amd64"], "machine": "x86_64", "libc": "2.41", "pythons": ["3.13"]}
DEBIAN = {"id": "debian", "version": "13", "name": "Debian 13"}


def of(system="debian 13 x86_64", packages=(), manual=(), environments=(), **gpulab):
    debs = [{"name": name, "architecture": architecture} for name, architecture in packages]
    sections = {"packages": debs, "manual": [*manual], "environments": [*environments], "gpulab": gpulab}
    document = manifest({}, {}, machine={"system": DEBIAN}, sections=sections)
    return for_bundle.of("node1", system, SimpleNamespace(manifest=manifests.typed(document)), THERE)


def environment(path="/home/ada/venv", kind="venv", python="3.13.5", lock=("click==8.1",)):
    return {"path": path, "kind": kind, "python": python, "lock": [*lock]}


def test_packages_are_those_that_a_rebuild_brings_back():
    had = [("tree", "amd64"), ("libtree", "amd64"), ("wine", "i386"), ("linux-image-6.12.1-amd64", "amd64")]
    had += [("nvidia-driver", "amd64"), ("docker.io", "amd64")]
    found = of(packages=had, manual=["tree"], receipts={"container_toolkit": ["package:docker.io"]})
    assert found.packages == ("tree", "libtree", "wine:i386", "docker.io")


def test_for_another_release_only_what_people_asked_for_is_taken():
    had = [("tree", "amd64"), ("libtree", "amd64")]
    assert of("debian 14 x86_64", packages=had, manual=["tree"]).packages == ("tree",)


def test_environments_are_taken_by_their_locks():
    found = of(environments=[environment(lock=["click==8.1", "torch==2.5.1+cu124"])])
    (asked,) = found.environments.values()
    assert [*found.environments] == ["/home/ada/venv"]
    assert (asked.wanted.python, asked.wanted.requirements) == ("3.13", ("click==8.1", "torch==2.5.1+cu124"))


def test_those_of_conda_or_of_a_python_that_the_system_lacks_are_left():
    lock = ["@EXPLICIT", "https://conda.example/click-8.1.conda"]
    assert of(environments=[environment(kind="conda", lock=lock), environment(python="3.9.2")]).environments == {}


def test_nothing_of_a_capture_becomes_an_option_or_an_address():
    lines = ["--index-url=http://evil.example", "-r /etc/shadow", "x @ file:///etc", "x@file:///etc", "x==1; import os"]
    found = of(packages=[("-oDir=/tmp", "amd64"), ("tree", "amd64")], environments=[environment(lock=lines)])
    assert found == Captured(("tree",), {})


def test_of_a_capture_that_somebody_changed_nothing_is_taken_and_that_is_said(tmp_path, vault):  # noqa: F811
    captured.capture(tmp_path, vault)
    assert for_bundle.last(tmp_path, "node07", "debian 13 x86_64", THERE).fault == ""
    with (tmp_path / "node07/latest/manifest.json").open("a") as file:
        file.write(" ")
    found = for_bundle.last(tmp_path, "node07", "debian 13 x86_64", THERE)
    assert found == Captured(fault=found.fault)
    assert "manifest.json was changed" in found.fault


def test_a_host_without_a_capture_gets_what_its_roles_ask_for(tmp_path):
    assert for_bundle.last(tmp_path, "node07", "debian 13 x86_64", THERE) == Captured()
