"""Tiers that other machines may mount over NFS: who may, how, and what is put into and taken out of the server."""

from dataclasses import replace

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core import mount_table, owned_files
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.storage import exports as storage_exports
from ansible_collections.gpulab.node.plugins.module_utils.storage import plan as storage
from ansible_collections.gpulab.node.plugins.module_utils.storage import tiers
from ansible_collections.gpulab.node.plugins.module_utils.storage.exports import FILE, Export, Server

from . import nodes
from .nodes import tier

UNTOUCHED = "UUID=0d3b6a4e-8f3c-4f0e-9a51-0e6a1c9cbb10 / ext4 errors=remount-ro 0 1\n"
SAFE = "rw,sync,no_subtree_check,root_squash,mountpoint"
FULL = f"{SAFE},wdelay,hide,secure,no_all_squash,acl,sec=sys"
LAB = tier(export_to=["10.1.2.0/24"])
RUNS = Server(runs=True, at_boot=True)
STATES = """- 0x0100000001: { type: open, access: rw, deny: --, superblock: "103:0b:13", filename: "a", owner: "x" }
- 0x0200000001: { type: deleg, access: r, superblock: "103:0c:14", filename: "b" }
"""


def info(address):
    return f'clientid: 0x1\naddress: "{address}:871"\nname: "x"'


def holders(address):
    return storage_exports.holders([(info(address), STATES)])


def text_of(*lines):
    return owned_files.wanted_text("\n".join(lines), "storage")


def state(server=RUNS, declared=LAB):
    """Return a node on which the tier is mounted, and that has this server."""
    machine = nodes.workstation(nodes.EXT4)
    machine.mount("259:11", "/mnt/data", "/dev/nvme1n1")
    bare = machine.state(UNTOUCHED)
    plain = tiers.read([{**declared, "export_to": None}])
    text = next(step.text for step in storage.plan(plain, bare) if step.kind == "fstab")
    return replace(bare, fstab=text, server=server)


def plan(server=RUNS, declared=LAB):
    return storage.plan(tiers.read([declared]), state(server, declared))


def refused(server=RUNS, declared=LAB):
    with pytest.raises(Refusal) as caught:
        plan(server, declared)
    return caught.value


def given(**more):
    """Return a server that has in file and table what gpulab exports there."""
    file = {FILE: text_of(f"/mnt/data 10.1.2.0/24({SAFE})")}
    there = {"files": file, "table": f"/mnt/data\t10.1.2.0/24({FULL})\n", "runs": True, "at_boot": True}
    return Server(**{**there, **more})


# Who may mount it


@pytest.mark.parametrize("client", ["*", "0.0.0.0/0", "::/0", "*.*", "10.0.0.0/0", "0.0.0.0/0.0.0.0"])
def test_nothing_is_open_to_everybody_unasked(client):
    found = refused(declared=tier(export_to=["10.1.2.3", client]))
    assert found.code == "H166"
    assert client in found.cause


def test_everybody_has_to_be_meant():
    steps = plan(declared=tier(export_to=["*"], export_to_everybody=True))
    assert steps[-1].argv[-1] == "*:/mnt/data"


@pytest.mark.parametrize("client", ["10.1.2.300", "10.1.2.0/33", "a b", "node2(rw)", "node2,x", "", "node2/24", "-rw"])
def test_what_names_no_client_is_refused(client):
    assert refused(declared=tier(export_to=[client])).code == "H150"


@pytest.mark.parametrize(
    "client",
    ["10.1.2.3", "10.1.2.0/24", "10.1.2.0/255.255.255.0", "2001:db8::/32", "node2", "node?.lab", "*.lab", "@nodes"],
)
def test_hosts_networks_patterns_and_netgroups_are_clients(client):
    assert plan(declared=tier(export_to=[client]))


@pytest.mark.parametrize("option", ["rw,no_root_squash", "exec", "rw)", ""])
def test_an_option_that_is_not_known_is_refused(option):
    assert refused(declared={**LAB, "export_options": [option]}).code == "H150"


def test_what_is_mounted_from_another_server_is_not_exported():
    shared = {"name": "shared", "purpose": "datasets", "mount": "/mnt/shared", "nfs": "server:/export"}
    with pytest.raises(Refusal) as caught:
        tiers.read([{**shared, "export_to": ["node2"]}])
    assert caught.value.code == "H150"


@pytest.mark.parametrize(
    ("asked", "options"),
    [
        ([], SAFE),
        (["ro"], "sync,no_subtree_check,root_squash,ro,mountpoint"),
        (["no_root_squash", "async"], "rw,no_subtree_check,no_root_squash,async,mountpoint"),
        (["all_squash", "anonuid=1000"], "rw,sync,no_subtree_check,root_squash,all_squash,anonuid=1000,mountpoint"),
    ],
)
def test_a_wish_takes_the_place_of_the_default_that_it_contradicts(asked, options):
    assert ",".join(storage_exports.options(asked)) == options


# What is put into the server


def test_an_export_is_for_now_and_for_every_boot():
    steps = plan(Server())
    assert [step.kind for step in steps] == ["exports", "enable", "serve", "export"]
    assert steps[0].text == text_of(f"/mnt/data 10.1.2.0/24({SAFE})")
    assert steps[-1].argv == ("exportfs", "-o", SAFE, "10.1.2.0/24:/mnt/data")


def test_what_is_not_mounted_yet_is_mounted_before():
    bare = nodes.workstation(nodes.EXT4).state(UNTOUCHED, server=Server())
    kinds = [step.kind for step in storage.plan(tiers.read([LAB]), bare)]
    assert kinds == ["fstab", "directory", "mount", "exports", "enable", "serve", "export"]


def test_a_second_run_changes_nothing():
    assert plan(given()) == []


def test_what_somebody_took_out_of_the_table_is_put_back():
    assert [step.kind for step in plan(given(table=""))] == ["export"]


def test_an_export_with_other_options_is_corrected():
    other = given(table=f"/mnt/data\t10.1.2.0/24({FULL.replace('rw', 'ro')})\n")
    assert [step.kind for step in plan(other)] == ["export"]


def test_a_host_is_in_the_table_by_its_first_name():
    declared = tier(export_to=["node2"])
    server = given(
        files={FILE: text_of(f"/mnt/data node2({SAFE})")},
        table=f"/mnt/data\tnode2.lab({FULL})\n",
        hosts="10.1.2.2 node2.lab node2 # mine\n",
    )
    assert plan(server, declared) == []
    assert [step.kind for step in plan(replace(server, hosts=""), declared)] == ["export"]


def test_an_address_of_ipv6_is_bracketed():
    assert plan(declared=tier(export_to=["2001:db8::5"]))[-1].argv[-1] == "[2001:db8::5]:/mnt/data"


def test_the_packages_are_those_of_the_server():
    wanted = tiers.read([LAB])
    assert storage.programs(wanted, storage.plan(wanted, state(Server()))) == ["exportfs"]


# What is taken out of it


NOBODY = tier()


def test_an_export_that_is_no_longer_requested_is_withdrawn():
    steps = plan(given(), NOBODY)
    assert [step.kind for step in steps] == ["withdraw", "exports"]
    assert steps[0].argv == ("exportfs", "-u", "10.1.2.0/24:/mnt/data")
    assert steps[1].text == ""


def test_it_is_withdrawn_before_it_is_unmounted():
    assert [step.kind for step in storage.plan([], state(given()))] == ["withdraw", "unmount", "fstab", "exports"]


def test_a_client_that_is_not_named_any_more_is_withdrawn_and_the_other_stays():
    file = text_of(f"/mnt/data 10.1.2.0/24({SAFE}) node2({SAFE})")
    table = f"/mnt/data\t10.1.2.0/24({FULL})\n/mnt/data\tnode2({FULL})\n"
    steps = plan(given(files={FILE: file}, table=table))
    assert [step.kind for step in steps] == ["withdraw", "exports"]
    assert steps[0].argv[-1] == "node2:/mnt/data"


def test_what_clients_have_open_is_not_withdrawn():
    server = given(holders=holders("10.1.2.7"))
    found = refused(server, NOBODY)
    assert (found.code, "10.1.2.7" in found.cause) == ("H169", True)
    assert plan(server) == []


def test_what_a_client_of_another_export_has_open_is_no_obstacle():
    other = given(holders=holders("10.9.9.9"))
    assert [step.kind for step in plan(other, NOBODY)] == ["withdraw", "exports"]


def test_who_cannot_be_told_may_be_anybody():
    assert refused(given(holders={"259:11": [""]}), NOBODY).code == "H169"


@pytest.mark.parametrize(("told", "address"), [("10.1.2.7", "10.1.2.7"), ("[2001:db8::7]", "2001:db8::7")])
def test_open_files_are_held_and_what_is_lent_to_a_client_too(told, address):
    assert holders(told) == {"259:11": [address], "259:12": [address]}


def test_a_node_that_is_its_own_client_lets_go_as_a_client_first():
    shared = {"name": "shared", "purpose": "datasets", "mount": "/mnt/shared", "nfs": "127.0.0.1:/mnt/data"}
    server = state(given())
    text = next(step.text for step in storage.plan(tiers.read([LAB, shared]), server) if step.kind == "fstab")
    mount = mount_table.Mount("/mnt/shared", "127.0.0.1:/mnt/data", "nfs4", "0:50", frozenset({"rw"}))
    known = replace(server.known, mounts=(*server.known.mounts, mount))
    steps = storage.plan([], replace(server, fstab=text, known=known))
    assert [(step.kind, step.place) for step in steps[:3]] == [
        ("unmount", "/mnt/shared"),
        ("withdraw", "/mnt/data"),
        ("unmount", "/mnt/data"),
    ]


def test_a_server_that_gpulab_enabled_rests_when_it_has_nothing_to_export():
    assert plan(given(enabled=True), NOBODY)[-1].argv == ("systemctl", "disable", "--now", "nfs-server.service")


@pytest.mark.parametrize(
    "more",
    [
        {"enabled": False},
        {"files": {**given().files, "/etc/exports": "/srv *(ro)\n"}},
        {"table": given().table + "/srv\t10.1.2.9(ro)\n"},
    ],
    ids=["enabled by somebody else", "another file", "exported by hand"],
)
def test_a_server_that_somebody_else_needs_stays(more):
    assert [step.kind for step in plan(given(**{"enabled": True, **more}), NOBODY)] == ["withdraw", "exports"]


def test_packages_go_only_when_nobody_needs_them():
    own, wanted = state(given()), tiers.read([LAB])
    assert storage.server_is_needless([], own)
    assert not storage.server_is_needless(wanted, own)
    assert not storage.server_is_needless([], state(given(files={"/etc/exports": "/srv *(ro)\n"})))
    machine = nodes.workstation(nodes.EXT4).mount("0:50", "/mnt/x", "server:/x", kind="nfs4")
    assert not storage.server_is_needless([], machine.state())


# Refusals


def test_a_node_that_cannot_serve_is_refused():
    found = refused(Server(unable="this node is a container"))
    assert (found.code, "a container" in found.cause) == ("H167", True)
    assert plan(Server(unable="this node is a container"), NOBODY) == []


@pytest.mark.parametrize(
    "line",
    ["/mnt/data 10.1.2.9(ro)", '"/mnt/data/"\t10.1.2.9', "/mnt/data/ -ro 10.1.2.9", "/mnt/data \\\n 10.1.2.9(ro)"],
)
def test_what_somebody_else_exports_is_refused(line):
    found = refused(Server(files={"/etc/exports": f"# mine\n{line}\n"}))
    assert found.code == "H168"
    assert "/etc/exports already exports /mnt/data to 10.1.2.9" in found.cause


def test_a_file_of_somebody_else_is_not_replaced():
    assert refused(Server(files={FILE: "/srv *(ro)\n"})).code == "H020"


@pytest.mark.parametrize(
    ("text", "exports"),
    [
        ("", []),
        ("# /a b(rw)\n\n", []),
        ("/a b(rw,sync) c(ro) # d(rw)\n", [Export("/a", "b", ("rw", "sync")), Export("/a", "c", ("ro",))]),
        ('"/a" \\\n b(rw)', [Export("/a", "b", ("rw",))]),
        ("/a\t10.0.0.0/8(rw)", [Export("/a", "10.0.0.0/8", ("rw",))]),
        ("/a node2", [Export("/a", "node2", ("",))]),
        ("/a", [Export("/a", "*", ("",))]),
    ],
)
def test_files_of_exports_are_read(text, exports):
    assert storage_exports.parse(text) == exports
