"""The nodes of a group in /etc/hosts: what was there comes back, and no name leads elsewhere."""

import re
import shutil
from types import SimpleNamespace

import pytest
from ansible_collections.gpulab.node.plugins.filter.group_nodes import group_nodes
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.system import hosts_file
from ansible_collections.gpulab.node.plugins.module_utils.system.hosts_file import (
    into_template,
    merged,
    template,
    without,
)
from ansible_collections.gpulab.node.plugins.modules import group_hosts

INSTALLED = """127.0.0.1\tlocalhost
127.0.1.1\tnode1.lab\tnode1  # by the installer

::1     localhost ip6-localhost ip6-loopback
192.0.2.80 printer
"""
ONE = {"name": "node1", "address": "10.0.0.1", "hostname": "node1"}
TWO = {"name": "node2", "address": "10.0.0.2", "hostname": "gpu-two"}
NODES = [ONE, TWO]


def says(text):
    """Return what the file says, line by line."""
    lines = (line.partition("#")[0].split() for line in text.splitlines())
    return [line for line in lines if line]


def test_the_own_name_leads_away_from_the_loopback():
    assert says(merged(INSTALLED, NODES, "node1").text) == [
        ["127.0.0.1", "localhost"],
        ["::1", "localhost", "ip6-localhost", "ip6-loopback"],
        ["192.0.2.80", "printer"],
        ["10.0.0.1", "node1.lab", "node1"],
        ["10.0.0.2", "node2", "gpu-two"],
    ]


@pytest.mark.parametrize("text", [INSTALLED, INSTALLED.rstrip(), INSTALLED.replace("\n", "\r\n"), "", None])
def test_it_is_done_once_and_undone_wholly(text):
    once = merged(text, NODES, "node1").text
    assert merged(once, NODES, "node1").text == once
    undone = merged(once, [], "node1").text
    assert (undone or "").split() == (text or "").split()
    if text == INSTALLED:
        assert undone == text
    assert merged(undone, [], "node1").text == undone


def test_localhost_stays_where_the_own_name_shared_its_line():
    found = says(merged("127.0.0.1 localhost node1 alias\n", NODES, "node1").text)
    assert found[:2] == [["127.0.0.1", "localhost"], ["10.0.0.1", "node1", "alias"]]


@pytest.mark.parametrize("own", ["", " node1"])
def test_what_the_stock_files_call_local_stays(own):
    ipv4 = "127.0.0.1   localhost localhost.localdomain localhost4 localhost4.localdomain4"
    ipv6 = "::1         localhost localhost.localdomain localhost6 localhost6.localdomain6 ip6-loopback ipv6-localhost"
    nodes = [{**node, "hostname": "localhost.localdomain"} for node in NODES]
    found = says(merged(f"{ipv4}{own}\n{ipv6}{own}\nff02::1 ip6-allnodes ipv6-allnodes\n", nodes, "node1").text)
    assert sorted(found) == sorted(
        [
            ipv4.split(),
            ipv6.split(),
            ["ff02::1", "ip6-allnodes", "ipv6-allnodes"],
            ["10.0.0.1", "node1"],
            ["10.0.0.2", "node2"],
        ]
    )


def test_only_the_own_name_is_taken_from_the_loopback():
    with pytest.raises(Refusal, match="GPULAB-H140"):
        merged("127.0.0.1 localhost node2\n", NODES, "node1")


def test_a_node_of_which_nobody_knows_the_address_keeps_its_line():
    before = merged(INSTALLED, NODES, "node1").text
    dim = {"name": "node2", "address": None, "hostname": None}
    assert merged(before, [ONE, dim], "node1").text == before
    # and what its facts told stays while they are not read
    assert merged(before, [ONE, {**TWO, "hostname": None}], "node1").text == before
    found = merged(INSTALLED, [ONE, dim], "node1")
    assert found.unknown == ("node2",)
    assert "node2" not in found.text


def test_a_node_that_left_the_group_goes():
    before = merged(INSTALLED, NODES, "node1").text
    assert "node2" not in merged(before, [ONE], "node1").text


def test_a_line_of_somebody_elses_is_not_contradicted():
    with pytest.raises(Refusal, match=r"GPULAB-H140 /etc/hosts maps gpu-two to 10\.0\.0\.9"):
        merged(INSTALLED + "10.0.0.9 gpu-two\n", NODES, "node1")
    agreeing = INSTALLED + "10.0.0.2 gpu-two\nfd00::2 gpu-two\n"
    assert merged(agreeing, NODES, "node1").text.startswith(agreeing[:20])


CAPITALS = "127.0.0.1 localhost LOCALHOST.localdomain\n127.0.1.1 GPU01.lab GPU01\n"


def test_capital_letters_make_no_other_name():
    nodes = [{"name": "gpu01", "address": "10.0.0.11", "hostname": "GPU01"}]
    once = merged(CAPITALS, nodes, "gpu01").text
    assert says(once) == [
        ["127.0.0.1", "localhost", "LOCALHOST.localdomain"],
        ["10.0.0.11", "GPU01.lab", "GPU01"],
    ]
    assert merged(once, nodes, "gpu01").text == once
    assert merged(once, [], "gpu01").text == CAPITALS
    two = {"name": "gpu02", "address": "10.0.0.12", "hostname": None}
    with pytest.raises(Refusal, match=r"GPULAB-H140 /etc/hosts maps GPU02 to 192\.0\.2\.12"):
        merged(f"{CAPITALS}192.0.2.12 GPU02\n", [*nodes, two], "gpu01")
    assert merged(once, [{**nodes[0], "address": None}], "gpu01").unknown == ()


def test_an_address_of_ipv6_is_the_same_however_it_is_written():
    nodes = [{"name": "node1", "address": "fd00::2", "hostname": None}]
    merged("FD00:0::2 node1\n", nodes, "other")
    with pytest.raises(Refusal, match="GPULAB-H140"):
        merged("fd00::3 node1\n", nodes, "other")


@pytest.mark.parametrize("text", ["", "127.0.1.1 node1\n", "127.0.1.1 node1.example.com node1\n"])
def test_a_nodes_whole_name_is_what_it_is_called(text):
    nodes = [{**ONE, "hostname": "node1.example.com"}, {**TWO, "name": "node2.example.com", "hostname": "node2"}]
    once = merged(text, nodes, "node1").text
    assert says(once)[-2:] == [
        ["10.0.0.1", "node1.example.com", "node1"],
        ["10.0.0.2", "node2.example.com", "node2"],
    ]
    unread = [{**ONE, "hostname": None}, {**TWO, "hostname": None}]
    assert merged(once, unread, "node1").text == once


def test_localhost_and_addresses_are_no_names():
    nodes = [
        {"name": "localhost", "address": "10.0.0.1", "hostname": "node1"},
        {"name": "10.0.0.2", "address": "10.0.0.2", "hostname": None},
    ]
    found = merged("127.0.0.1 localhost\n", nodes, "localhost")
    assert says(found.text) == [["127.0.0.1", "localhost"], ["10.0.0.1", "node1"]]
    assert found.unknown == ("10.0.0.2",)


def test_what_was_set_aside_is_told_from_other_comments():
    assert without("# 127.0.1.1 node1\n") == "# 127.0.1.1 node1\n"


HEAD = """\
# Your system has configured 'manage_etc_hosts' as True.
# As a result, if you wish for changes to this file to persist
# then you will need to either
# a.) make changes to the master file in /etc/cloud/templates/hosts.debian.tmpl
# b.) change or remove the value of 'manage_etc_hosts' in
#     /etc/cloud/cloud.cfg or cloud-config from user-data
#
"""
TEMPLATE = f"""\
## template:jinja
{{#
This file (/etc/cloud/templates/hosts.debian.tmpl) is only utilized
-#}}
{HEAD}127.0.1.1 {{{{fqdn}}}} {{{{hostname}}}}
127.0.0.1 localhost
::1 {{{{fqdn}}}} {{{{hostname}}}}
::1 localhost ip6-localhost

"""


def rendered(text):
    """Return what cloud-init makes of a template at a boot."""
    text = re.sub(r"\A## template:jinja\n|\{#.*?-#\}\s*", "", text, flags=re.DOTALL)
    return text.replace("{{fqdn}}", "node1.lab").replace("{{hostname}}", "node1")


def test_what_cloud_init_writes_at_a_boot_is_what_was_there():
    assert template(INSTALLED) is None
    assert template(rendered(TEMPLATE)) == "/etc/cloud/templates/hosts.debian.tmpl"
    hosts = merged(rendered(TEMPLATE), NODES, "node1").text
    assert ["10.0.0.1", "node1.lab", "node1"] in says(hosts)
    kept = into_template(TEMPLATE, hosts)
    assert rendered(kept) == hosts
    assert into_template(kept, hosts) == kept
    assert into_template(kept, merged(hosts, [], "node1").text) == TEMPLATE


def test_a_template_that_somebody_wrote_is_kept_as_it_is_where_it_does_not_contradict():
    hosts = merged(rendered(TEMPLATE), NODES, "node1").text
    own = "127.0.1.1 node1\n127.0.0.1 localhost\n192.0.2.80 printer ${hostname}-printer\n"
    assert says(into_template(own, hosts))[:2] == [
        ["127.0.0.1", "localhost"],
        ["192.0.2.80", "printer", "${hostname}-printer"],
    ]


@pytest.fixture
def module(tmp_path):
    def move(draft, path, **_):
        shutil.copyfile(draft, path)

    said = []
    return SimpleNamespace(tmpdir=str(tmp_path), check_mode=False, warn=said.append, warnings=said, atomic_move=move)


def test_the_template_is_written_once(module, monkeypatch, tmp_path):
    path = tmp_path / "hosts.debian.tmpl"
    monkeypatch.setattr(hosts_file, "template", lambda text: str(path) if text else None)
    before = rendered(TEMPLATE)
    wanted = merged(before, NODES, "node1").text
    assert group_hosts.template(module, before, wanted) == []
    assert str(path) in module.warnings[0]
    path.write_text(TEMPLATE)
    module.check_mode = True
    assert group_hosts.template(module, before, wanted)[0]["after_header"] == str(path)
    assert path.read_text() == TEMPLATE
    module.check_mode = False
    assert len(group_hosts.template(module, before, wanted)) == 1
    assert rendered(path.read_text()) == wanted
    assert group_hosts.template(module, before, wanted) == []
    assert group_hosts.template(module, "", None) == []


FACTS = {"gpulab": {"system": {"hostname": "host"}, "monitoring": {"routed_address": "10.0.0.7"}}}


@pytest.mark.parametrize(
    ("name", "variables", "address", "hostname"),
    [
        ("node1", {"ansible_host": "10.0.0.1"}, "10.0.0.1", None),
        ("node1", {"ansible_host": "10.0.0.1", "ansible_facts": FACTS}, "10.0.0.1", "host"),
        ("node1", {"ansible_host": "10.0.0.1", "nccl_address": "10.9.0.1"}, "10.9.0.1", None),
        ("node1", {"network_address": "10.8.0.1", "nccl_address": "10.9.0.1"}, "10.8.0.1", None),
        ("node1", {"ansible_host": "node1.lab", "ansible_facts": FACTS}, "10.0.0.7", "host"),
        ("localhost", {"ansible_host": "127.0.0.1", "ansible_facts": FACTS}, "10.0.0.7", "host"),
        ("192.0.2.7", {}, "192.0.2.7", None),
        ("node1", {"ansible_host": "FD00:0:0::0:07"}, "fd00::7", None),
        ("node1", {}, None, None),
        ("node1", {"ansible_facts": {}}, None, None),
    ],
)
def test_the_inventory_comes_before_the_facts(name, variables, address, hostname):
    known = [{"address": "10.0.0.3", "names": ["other"]}]
    assert group_nodes([name], {name: variables}, known) == [{"name": name, "address": address, "hostname": hostname}]


def test_what_a_node_knows_already_comes_last():
    known = [{"address": "10.0.0.3", "names": ["node1", "host"]}]
    assert group_nodes(["node1"], {"node1": {}}, known)[0]["address"] == "10.0.0.3"
    assert group_nodes(["node1"], {"node1": {"ansible_host": "10.0.0.1"}}, known)[0]["address"] == "10.0.0.1"
