"""Values in files of other programs: each reader finds the one value that the inventory gave, or it was refused."""

from __future__ import annotations

import configparser
import json
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template
from ansible_collections.gpulab.node.plugins.module_utils.core import quoting
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.environments import builds
from ansible_collections.gpulab.node.plugins.module_utils.packages import apt_sources
from ansible_collections.gpulab.node.plugins.module_utils.storage import plan, tiers
from ansible_collections.gpulab.node.plugins.module_utils.system import hosts_file
from ansible_collections.gpulab.node.plugins.plugin_utils.options import forms
from ansible_collections.gpulab.node.plugins.plugin_utils.plan import tuning_files
from jinja2 import Environment, nodes

from .inventory_check.bad_texts import PIECES, inventory, places, texts
from .inventory_check.make import check_variables

ROOT = Path(__file__).parents[2]
TEMPLATES = sorted(ROOT.glob("roles/*/templates/*.j2"))
PLACES = dict(places())
MARKS = """it's "$HOME" `id`;%22\\ä#x"""
BASE = {"base_http_proxy": None, "base_https_proxy": None, "base_no_proxy": [], "base_ca_certificates": []}
BASE["__base_bundle"] = {}
DUMP = ("apt-config", "dump", "--format", "%F=%v%n")
MODPROBE = shutil.which("modprobe", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")


def written(template, **variables):
    """Return what a role's template writes."""
    text = (ROOT / "roles" / template).read_text(encoding="utf-8")
    templar = Templar(loader=DataLoader(), variables=variables)
    return templar.template(trust_as_template(text))


def output(*command, **environment):
    """Return what a program prints."""
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", **environment}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=20).stdout


@pytest.fixture
def put(tmp_path):
    """Return a function that writes a text into a file and returns its path."""

    def write(text, name="file"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8", newline="")
        return str(path)

    return write


# How each program reads its file: the values of one setting.


def by_sh(path, name):
    return [output("sh", "-euc", f'. "$1"; printf %s "${name}"', "sh", path)]


def by_apt(path, name):
    dump = output(*DUMP, APT_CONFIG=path).splitlines()
    others = [line for line in dump if not line.startswith("Acquire::http")]
    assert others == [line for line in output(*DUMP).splitlines() if not line.startswith("Acquire::http")]
    return [line.partition("=")[2] for line in dump if line.startswith(f"{name}=")]


def by_configparser(path, section, name):
    parser = configparser.RawConfigParser()
    parser.read(path, encoding="utf-8")
    assert parser.sections() == [section]
    assert parser.options(section) == [name]
    return [parser.get(section, name)]


def by_modprobe(directory, module):
    """Return a module's options, from kmod itself where it is there, else by its rules: a backslash quotes a letter."""
    if MODPROBE:
        found = output(MODPROBE, "--showconfig", "--config", directory, "--set-version", "none")
        assert not re.search("^(install|remove|softdep)", found, re.MULTILINE)
        return [line for line in found.splitlines() if line.split()[:2] == ["options", module]]
    (file,) = Path(directory).iterdir()
    lines = re.sub(r"\\(.)", r"\1", file.read_text(encoding="utf-8").replace("\\\n", "")).splitlines()
    assert all(line.split()[0] == "options" for line in lines if line)
    return [line for line in lines if line.split()[:2] == ["options", module]]


def proxies(put, value):
    """Yield what every reader of the proxies finds."""
    known = {**BASE, "base_http_proxy": value, "base_https_proxy": value}
    session = put(written("base/templates/gpulab-base.sh.j2", **known))
    for name in ("http_proxy", "HTTPS_PROXY"):
        yield by_sh(session, name)
    apt = put(written("base/templates/apt-proxy.j2", **known))
    for scheme in ("http", "https"):
        yield by_apt(apt, f"Acquire::{scheme}::Proxy")
    yield by_configparser(put(written("base/templates/pip.conf.j2", **known)), "global", "proxy")
    yield [f"[main]\nproxy={value}".splitlines()[-1].partition("=")[2]]


def no_proxy(put, value):
    known = {**BASE, "base_http_proxy": "http://a", "base_no_proxy": [value]}
    yield by_sh(put(written("base/templates/gpulab-base.sh.j2", **known)), "no_proxy")
    dump = output("apt-config", "dump", APT_CONFIG=put(written("base/templates/apt-proxy.j2", **known)))
    assert dump.count('"DIRECT"') == 2
    assert "Pre-Invoke" not in dump
    yield [value]


def component(_put, value):
    archive = apt_sources.Source("/etc/apt/sources.list", "http://deb.example/debian", "stable", ("main",))
    text = apt_sources.render(apt_sources.missing([archive], [value]))
    (source,) = apt_sources.parse("a.sources", text, "amd64")
    assert (source.uri, source.suite, source.options) == (archive.uri, "stable", ())
    yield list(source.components)
    assert [line.partition(":")[0] for line in text.splitlines()[1:]] == ["Types", "URIs", "Suites", "Components"]


def conda_directory(put, value):
    known = {"conda_directory": value, "conda_channels": [], "conda_channel_alias": None, "__conda_bundle": "/b"}
    yield by_sh(put(written("conda/templates/profile.sh.j2", **known)), "MAMBA_ROOT_PREFIX")
    yield [yaml.safe_load(written("conda/templates/condarc.yml.j2", **known))["envs_dirs"][1].removesuffix("/envs")]


def conda_alias(_put, value):
    known = {"conda_directory": "/c", "conda_channels": [value], "conda_channel_alias": value, "__conda_bundle": "/b"}
    settings = yaml.safe_load(written("conda/templates/condarc.yml.j2", **known))
    yield [settings["channel_alias"]]
    yield settings["channels"]


def meeting(put, value):
    known = {"__nccl_group": "workstations", "__nccl_nodes": ["a"], "__nccl_first": value, "__nccl_own": value}
    text = written("nccl/templates/torchrun.sh.j2", **known, nccl_rendezvous_port=1)
    program = put('#!/bin/sh\nprintf "%s\\n" "$@"\n', "torchrun")
    Path(program).chmod(0o755)
    path = f"{Path(program).parent}:{os.environ['PATH']}"
    given = output("sh", put(text, "start.sh"), PATH=path).split("\n")
    yield [one.partition("=")[2] for one in given if one.startswith("--local-addr=")]
    yield [one.partition("=")[2].removesuffix(":1") for one in given if one.startswith("--rdzv-endpoint=")]


def parameter(put, value):
    wanted = {"nvidia": {"NVreg_A": value, "NVreg_B": 1}}
    known = {"__nvidia_driver_steps": {"module_options": wanted}, "__nvidia_driver_module_names": ["nvidia"]}
    path = put(written("nvidia_driver/templates/modprobe.conf.j2", **known), "a.conf")
    (line,) = by_modprobe(str(Path(path).parent), "nvidia")
    shown = f'"{value}"' if not value or re.search(r"\s", value) else value  # the kernel takes these quotes away
    assert line == f"options nvidia NVreg_A={shown} NVreg_B=1"
    yield [value]


def docker_root(_put, value):
    line = f"RequiresMountsFor={quoting.quoted(value, 'systemd', 'a')}"
    yield [word.replace("%%", "%") for word in shlex.split(line.partition("=")[2])]


def tier(put, **fields):
    record = {"name": "a", "purpose": "datasets", "mount": "/m", "nfs": "server:/e", "options": ["ro"], **fields}
    (found,) = tiers.read([record])
    line = plan.Entry(found.nfs, found.mount, "nfs", found.options).line()
    told = json.loads(output("findmnt", "--tab-file", put(f"{line}\n"), "--json", "--output", "SOURCE,TARGET,OPTIONS"))
    (entry,) = told["filesystems"]
    return entry


def grub(put, value):
    settings = [{"kind": "kernel_argument", "name": "iommu", "value": value, "because": "so"}]
    (text,) = tuning_files.boot_files(settings).values()
    (found,) = by_sh(put(f"GRUB_CMDLINE_LINUX=quiet\n{text}"), "GRUB_CMDLINE_LINUX")
    yield [word.partition("=")[2] for word in found.split(" ")[1:]]


WRITERS = {
    "base_http_proxy": proxies,
    "base_https_proxy": proxies,
    "base_no_proxy": no_proxy,
    "base_apt_components": component,
    "conda_directory": conda_directory,
    "conda_channel_alias": conda_alias,
    "nccl_address": meeting,
    "nvidia_driver_module_options.nvidia": parameter,
    "container_toolkit_docker_data_root": docker_root,
    "storage_tiers.nfs": lambda put, value: [[tier(put, nfs=value)["source"]]],
    "storage_tiers.mount": lambda put, value: [[tier(put, mount=value)["target"]]],
    "storage_tiers.options": lambda put, value: [[tier(put, options=[value])["options"].split(",")[0]]],
    "tuning_overrides": grub,
}


def values(place):
    """Return the values to try, and how the inventory gives each."""
    form = forms.OPTIONS[place]
    if not form.entries:
        return [(text, text) for text in texts(form)]
    name = {"tuning_overrides": "iommu"}.get(place, "NVreg_A")
    return [(text, {name: text}) for piece in PIECES for text in (piece, f"a{piece}b", f"{piece}b", f"a{piece}")]


@pytest.mark.parametrize("place", WRITERS)
def test_the_reader_of_a_file_finds_the_one_value_that_was_given(place, put):
    taken = 0
    for text, given in values(place):
        wrong = {message.split()[0] for message in check_variables(**inventory(PLACES[place], given))}
        if not wrong & {"GPULAB-I007", "GPULAB-I030", "GPULAB-I031"}:
            taken += 1
            for found in WRITERS[place](put, text):
                assert found == [text], repr(text)
    assert taken > 0


def test_a_proxys_password_reaches_every_reader_whatever_marks_are_in_it(put):
    value = f"http://user:{MARKS.replace(' ', '')}@proxy.example:3128"
    assert list(proxies(put, value)) == [[value]] * 6


@pytest.mark.parametrize("file_format", [name for name in quoting.FORMATS if name != "shell"])
@pytest.mark.parametrize("text", ["a\nb", "a\rb", "a\0b", "a\tb", "\x1b[2J"])
def test_what_no_line_can_hold_is_refused_by_every_format_without_showing_it(file_format, text):
    with pytest.raises(Refusal) as caught:
        quoting.quoted(f"canary{text}", file_format, "base_http_proxy")
    assert caught.value.code == "I032"
    assert "base_http_proxy" in str(caught.value)
    assert "canary" not in str(caught.value)


# What a template may put down as it is: constants of the roles, and what the catalog and the plan alone decide.
OWN = {
    "__base_trust_store",
    "__conda_bundle",
    "__cuda_compat",
    "__cuda_default.host_compiler",
    "__cuda_plan.home",
    "__nccl_group",
    "__nccl_nodes",
    "__network_table",
    "family",
    "name",
    "module",
}
VETTED = {"__network_peers", "__network_ranges", "found"}  # addresses, by hosts_file.is_address, and numbers


def unquoted(node):
    """Yield the names that an expression of a template puts down without a filter that quotes."""
    if isinstance(node, nodes.Filter):
        if node.name not in ("gpulab.node.quoted", "to_json", "length"):
            yield from unquoted(node.node)
    elif isinstance(node, nodes.Getattr):
        yield f"{node.node.name}.{node.attr}" if isinstance(node.node, nodes.Name) else "?"
    elif isinstance(node, nodes.Name):
        yield node.name
    else:
        for child in node.iter_child_nodes(exclude=("test",) if isinstance(node, nodes.CondExpr) else ()):
            yield from unquoted(child)


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_a_template_quotes_all_that_it_puts_down(path):
    environment = Environment(extensions=["jinja2.ext.do"])  # noqa: S701 - it renders nothing
    environment.filters = dict.fromkeys(re.findall(r"\| ?([\w.]+)", path.read_text(encoding="utf-8")), str)
    tree = environment.parse(path.read_text(encoding="utf-8"))
    assigned = {one.target.name: one.node for one in tree.find_all(nodes.Assign) if isinstance(one.target, nodes.Name)}
    names = [name for put in tree.find_all(nodes.Output) for part in put.nodes for name in unquoted(part)]
    plain = {
        name
        for name in names
        if name not in OWN | VETTED and not (name in assigned and not list(unquoted(assigned[name])))
    }
    assert plain == set()


def test_a_node_with_a_name_of_several_lines_gets_none_into_the_hosts_of_others():
    nodes_of_group = [
        {"name": "node1", "address": "10.0.0.1", "names": ["node1", "x\n10.9.9.9 deb.debian.org"]},
        {"name": "node2", "address": "10.0.0.2", "names": ["node2.lab", "node2"]},
    ]
    text = hosts_file.merged("127.0.0.1 localhost\n", nodes_of_group, "node2").text
    assert "10.9.9.9" not in text
    assert "10.0.0.1 node1\n10.0.0.2 node2.lab node2\n" in text


def test_an_address_has_no_second_line_in_its_scope():
    assert hosts_file.is_address("fe80::1%eth0")
    assert not hosts_file.is_address("fe80::1%eth0\n10.9.9.9 deb.debian.org")


@pytest.mark.parametrize("name", ["../../../srv/x", "..", ".builds", "a/b", "", "-x", "a\nb"])
def test_no_environment_lies_outside_of_its_directory(name, tmp_path):
    with pytest.raises(Refusal, match=r"^GPULAB-I030 an environment's name has "):
        builds.Builds(tmp_path / "envs").build(name)
