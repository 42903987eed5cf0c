"""The nodes of a group in /etc/hosts: what was there comes back, and no name leads elsewhere."""

import re
import shutil
from types import SimpleNamespace

import pytest
from ansible.errors import AnsibleFilterError
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
ONE = {"name": "node1", "address": "10.0.0.1", "names": ["node1"]}
TWO = {"name": "node2", "address": "10.0.0.2", "names": ["node2", "gpu-two"]}
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
    text = f"{ipv4}{own}\n{ipv6}{own}\nff02::1 ip6-allnodes ipv6-allnodes\n"
    found = says(merged(text, NODES, "node1", "localhost.localdomain").text)
    assert sorted(found) == sorted(
        [
            ipv4.split(),
            ipv6.split(),
            ["ff02::1", "ip6-allnodes", "ipv6-allnodes"],
            ["10.0.0.1", "node1"],
            ["10.0.0.2", "node2", "gpu-two"],
        ]
    )


def test_only_the_own_name_is_taken_from_the_loopback():
    with pytest.raises(Refusal, match="GPULAB-H140"):
        merged("127.0.0.1 localhost node2\n", NODES, "node1")


def test_a_node_of_which_nobody_knows_the_address_keeps_its_line():
    before = merged(INSTALLED, NODES, "node1").text
    dim = {**TWO, "address": None}
    assert merged(before, [ONE, dim], "node1").text == before
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
    nodes = [{"name": "gpu01", "address": "10.0.0.11", "names": ["gpu01"]}]
    once = merged(CAPITALS, nodes, "gpu01", "GPU01").text
    assert says(once) == [
        ["127.0.0.1", "localhost", "LOCALHOST.localdomain"],
        ["10.0.0.11", "GPU01.lab", "GPU01"],
    ]
    assert merged(once, nodes, "gpu01", "GPU01").text == once
    assert merged(once, [], "gpu01").text == CAPITALS
    two = {"name": "gpu02", "address": "10.0.0.12", "names": ["gpu02"]}
    with pytest.raises(Refusal, match=r"GPULAB-H140 /etc/hosts maps GPU02 to 192\.0\.2\.12"):
        merged(f"{CAPITALS}192.0.2.12 GPU02\n", [*nodes, two], "gpu01")
    assert merged(once, [{**nodes[0], "address": None}], "gpu01").unknown == ()


def test_an_address_of_ipv6_is_the_same_however_it_is_written():
    nodes = [{"name": "node1", "address": "fd00::2", "names": ["node1"]}]
    merged("FD00:0::2 node1\n", nodes, "other")
    with pytest.raises(Refusal, match="GPULAB-H140"):
        merged("fd00::3 node1\n", nodes, "other")


@pytest.mark.parametrize("text", ["", "127.0.1.1 node1\n", "127.0.1.1 node1.example.com node1\n"])
def test_a_nodes_whole_name_is_what_it_is_called(text):
    nodes = [ONE, {**TWO, "name": "node2.example.com", "names": ["node2", "node2.example.com"]}]
    once = merged(text, nodes, "node1", "node1.example.com").text
    assert says(once)[-2:] == [
        ["10.0.0.1", "node1.example.com", "node1"],
        ["10.0.0.2", "node2.example.com", "node2"],
    ]
    assert merged(once, nodes, "node1", "node1.example.com").text == once


def test_localhost_and_addresses_are_no_names():
    nodes = [
        {"name": "localhost", "address": "10.0.0.1", "names": ["localhost"]},
        {"name": "10.0.0.2", "address": "10.0.0.2", "names": ["10.0.0.2"]},
    ]
    found = merged("127.0.0.1 localhost\n", nodes, "localhost", "node1")
    assert says(found.text) == [["127.0.0.1", "localhost"], ["10.0.0.1", "node1"]]
    assert found.unknown == ("10.0.0.2",)


@pytest.mark.parametrize(
    "hostname", ["n1\nx", "10.0.0.9 nas01", "node1 # x", "localhost", "_gateway", "10.0.0.9", "", "a" * 64]
)
def test_what_a_node_calls_itself_is_in_its_own_file_where_it_is_a_name(hostname):
    assert says(merged("", NODES, "node1", hostname).text) == [
        ["10.0.0.1", "node1"],
        ["10.0.0.2", "node2", "gpu-two"],
    ]
    assert says(merged("", NODES, "node1", "big").text)[0] == ["10.0.0.1", "node1", "big"]


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


FACTS = {"gpulab": {"system": {"hostname": "nas01"}, "monitoring": {"routed_address": "10.0.0.7"}}}


@pytest.mark.parametrize(
    ("name", "variables", "address"),
    [
        ("node1", {"ansible_host": "10.0.0.1"}, "10.0.0.1"),
        ("node1", {"ansible_host": "10.0.0.1", "ansible_facts": FACTS}, "10.0.0.1"),
        ("node1", {"ansible_host": "10.0.0.1", "nccl_address": "10.9.0.1"}, "10.9.0.1"),
        ("node1", {"network_address": "10.8.0.1", "nccl_address": "10.9.0.1"}, "10.8.0.1"),
        ("node1", {"ansible_host": "node1.lab", "ansible_facts": FACTS}, "10.0.0.7"),
        ("localhost", {"ansible_host": "127.0.0.1", "ansible_facts": FACTS}, "10.0.0.7"),
        ("192.0.2.7", {}, "192.0.2.7"),
        ("node1", {"ansible_host": "FD00:0:0::0:07"}, "fd00::7"),
        ("node1", {}, None),
        ("node1", {"ansible_facts": {}}, None),
    ],
)
def test_the_inventory_comes_before_the_facts(name, variables, address):
    known = [{"address": "10.0.0.3", "names": ["other"]}]
    assert group_nodes([name], {name: variables}, known)[0]["address"] == address


def test_what_a_node_knows_already_comes_last():
    known = [{"address": "10.0.0.3", "names": ["node1", "host"]}]
    assert group_nodes(["node1"], {"node1": {}}, known)[0]["address"] == "10.0.0.3"
    assert group_nodes(["node1"], {"node1": {"ansible_host": "10.0.0.1"}}, known)[0]["address"] == "10.0.0.1"


TAKEN = ["nas01", "node2", "deb.debian.org", "localhost", "node1.evil.example", "node1\n10.6.6.6 nas01"]


@pytest.mark.parametrize("hostname", TAKEN)
def test_a_node_does_not_choose_its_names_on_its_peers(hostname):
    """It could take those of another node, of a file server or of a package server; two clones do so by accident."""
    facts = {"gpulab": {"system": {"hostname": hostname}, "monitoring": {"routed_address": "10.6.6.6"}}}
    variables = {
        "node1": {"ansible_host": "10.0.0.1", "ansible_facts": facts},
        "node2": {"ansible_host": "10.0.0.2"},
        "node3": {"ansible_host": "10.0.0.3"},
    }
    nodes = group_nodes(list(variables), variables)
    assert says(merged("", nodes, "node3", "node3").text) == [
        ["10.0.0.1", "node1"],
        ["10.0.0.2", "node2"],
        ["10.0.0.3", "node3"],
    ]


@pytest.mark.parametrize(
    ("name", "listed", "expected"),
    [
        ("node1", None, ["node1"]),
        ("node1", ["node1.lab", "gpu7"], ["node1", "node1.lab", "gpu7"]),
        ("node1", "gpu7", ["node1", "gpu7"]),
        ("node1.lab", [], ["node1.lab", "node1"]),
        ("localhost", ["gpu7"], ["gpu7"]),
        ("localhost.localdomain", [], []),
        ("10.0.0.1", ["gpu7.lab"], ["gpu7.lab", "gpu7"]),
        ("10.lab", [], ["10.lab"]),
        ("node 1", ["a b", "c\nd", "localhost", "Node1"], ["Node1"]),
    ],
)
def test_a_node_is_called_what_the_inventory_says(name, listed, expected):
    variables = {name: {"gpulab_host_names": listed, "ansible_facts": FACTS}}
    assert group_nodes([name], variables)[0]["names"] == expected


@pytest.mark.parametrize(
    "variables",
    [
        {"a": {"gpulab_host_names": ["gpu7"]}, "b": {"gpulab_host_names": ["GPU7"]}},
        {"a": {"gpulab_host_names": ["b"]}, "b": {}},
        {"a": {}, "b": {"gpulab_host_names": ["A"]}},
    ],
)
def test_two_nodes_of_one_name_are_refused(variables):
    with pytest.raises(AnsibleFilterError, match="GPULAB-H149 the inventory calls both a and b"):
        group_nodes(["a", "b"], variables)


def test_a_short_name_that_two_nodes_would_have_is_nobodys():
    found = group_nodes(["n.one", "n.two", "m.one"], {"n.one": {}, "n.two": {}, "m.one": {}})
    assert [node["names"] for node in found] == [["n.one"], ["n.two"], ["m.one", "m"]]
    found = group_nodes(["n", "n.two"], {"n": {}, "n.two": {}})
    assert [node["names"] for node in found] == [["n"], ["n.two"]]


def calling(**hostnames):
    """Return the variables of nodes whose facts say that they call themselves so."""
    return {
        name: {"ansible_facts": {"gpulab": {"system": {"hostname": hostname}}}} if hostname else {}
        for name, hostname in hostnames.items()
    }


@pytest.mark.parametrize(
    ("variables", "why"),
    [
        (calling(a="b", b=""), "the inventory calls b so"),
        (calling(a="B.lab", b="b"), "the inventory calls b so"),
        (calling(a="debian", b="debian"), "so does b"),  # two clones
    ],
)
def test_a_node_that_calls_itself_as_another_one_is_refused(variables, why):
    with pytest.raises(AnsibleFilterError, match=f"GPULAB-H148 a calls itself .*: {why}"):
        group_nodes(["a", "b"], variables, [], "a")
    assert len(group_nodes(["a", "b"], variables, [])) == 2
    if "inventory" in why:  # whoever has the name by right goes on
        assert len(group_nodes(["a", "b"], variables, [], "b")) == 2


@pytest.mark.parametrize(
    "variables",
    [
        calling(a="a", b="b"),
        calling(a="a.lab", b=""),
        calling(a="A", b=""),
        calling(a="localhost", b="localhost"),
        calling(a="other", b=""),
        calling(a="", b=""),
    ],
)
def test_a_node_that_calls_itself_by_a_name_of_nobodys_is_none_of_those(variables):
    assert len(group_nodes(["a", "b"], variables, [], "a")) == 2


def test_names_are_plain_texts_for_ansible():
    (node,) = group_nodes(["a"], {"a": {}})
    assert {type(name) for name in node["names"]} == {str}
