"""What a node knows of its peers is read off gpulab's lines, and by looking the names up."""

import time

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.facts import system
from ansible_collections.gpulab.node.plugins.module_utils.facts.group import GroupQuery
from ansible_collections.gpulab.node.plugins.module_utils.system.hosts_file import merged

NODES = [
    {"name": "node1", "address": "10.0.0.1", "names": ["node1"]},
    {"name": "node2", "address": "10.0.0.2", "names": ["node2", "gpu-two"]},
]


@pytest.fixture
def machine(tree):
    tree.file("/proc/sys/kernel/hostname", "node1\n")
    tree.file("/proc/sys/net/ipv4/ip_local_port_range", "32768\t60999\n")
    return tree.file("/etc/hosts", merged("127.0.0.1 localhost\n10.0.0.9 other\n", NODES, "node1").text)


def test_where_the_names_lead(machine):
    leads = {"node1": "127.0.1.1", "node2": "10.0.0.2", "gpu-two": None}
    assert GroupQuery(machine.node(), 5, leads.get).facts() == {
        "hosts": [
            {"address": "10.0.0.1", "own": True, "names": ["node1"], "leads": {"node1": "127.0.1.1"}},
            {
                "address": "10.0.0.2",
                "own": False,
                "names": ["node2", "gpu-two"],
                "leads": {"node2": "10.0.0.2", "gpu-two": None},
            },
        ],
        "ephemeral_ports": [32768, 60999],
        "ssh_ports": [],
        "firewalls": [],
        "firewall": None,
        "own_firewall": {"wanted": False, "loaded": None},
    }


def test_a_name_service_that_hangs_is_not_waited_for(machine):
    start = time.monotonic()
    found = GroupQuery(machine.node(), 0.2, lambda _name: time.sleep(60)).facts()
    assert time.monotonic() - start < 10
    assert [host["leads"] for host in found["hosts"]] == [{}, {}]


def test_without_lines_nobody_is_asked(tree):
    asked = []
    assert GroupQuery(tree.node(), 5, asked.append).facts()["hosts"] == []
    assert asked == []


SOCKETS = """\
LISTEN 0      128          0.0.0.0:22         0.0.0.0:*    users:(("sshd",pid=1,fd=3))
LISTEN 0      4096               *:50022            *:*    users:(("systemd",pid=1,fd=44))
LISTEN 0      128             [::]:22            [::]:*    users:(("sshd",pid=1,fd=4))
LISTEN 0      5            0.0.0.0:40000      0.0.0.0:*    users:(("python3",pid=9,fd=3))
"""


def test_where_ssh_may_listen(tree):
    tree.prints("ss ", SOCKETS)
    assert GroupQuery(tree.node(), 5).facts()["ssh_ports"] == [22, 50022]


@pytest.mark.parametrize(
    ("settings", "firewalld", "expected"),
    [("ENABLED=no", "inactive", None), ("ENABLED=yes", "inactive", "ufw"), ("ENABLED=no", "active", "firewalld")],
)
def test_the_firewall_that_is_switched_on(tree, settings, firewalld, expected):
    tree.file("/etc/ufw/ufw.conf", f"# ENABLED=yes\n{settings}\nLOGLEVEL=low\n").file("/usr/sbin/ufw")
    tree.prints("systemctl is-active firewalld", f"{firewalld}\n")
    found = GroupQuery(tree.node(), 5).facts()
    assert found["firewall"] == expected
    assert found["firewalls"] == ["ufw"]


def test_a_firewall_that_is_off_is_installed_all_the_same(tree):
    """What rules it has counts when it is switched on."""
    tree.file("/usr/bin/firewall-cmd").file("/usr/sbin/ufw")
    found = GroupQuery(tree.node(), 5).facts()
    assert (found["firewalls"], found["firewall"]) == (["ufw", "firewalld"], None)


@pytest.mark.parametrize(
    ("tables", "loaded"),
    [
        ("table inet filter\ntable inet gpulab_network\n", True),
        ("table inet filter\ntable ip gpulab_network\n", False),
        ("", False),
        (None, None),
    ],
)
def test_whether_the_own_table_is_loaded(tree, tables, loaded):
    tree.prints("nft list tables", tables)
    assert GroupQuery(tree.node(), 5).facts()["own_firewall"] == {"wanted": False, "loaded": None}
    tree.file("/etc/systemd/system/gpulab-peers.service", "[Unit]\n")
    assert GroupQuery(tree.node(), 5).facts()["own_firewall"] == {"wanted": True, "loaded": loaded}


def test_clock_services(tree):
    tree.file("/usr/lib/systemd/system/systemd-timesyncd.service", "[Unit]\n")
    assert system.clock_services(tree.node()) == ["systemd-timesyncd.service"]
    tree.file("/usr/lib/systemd/system/chrony.service", "[Unit]\n")
    tree.link("/etc/systemd/system/chronyd.service", "/usr/lib/systemd/system/chrony.service")
    assert system.clock_services(tree.node()) == ["chrony.service", "systemd-timesyncd.service"]
    tree.link("/etc/systemd/system/chrony.service", "/dev/null")
    assert system.clock_services(tree.node()) == ["systemd-timesyncd.service"]


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (["/usr/sbin/update-initramfs"], ["update-initramfs"]),
        (["/usr/bin/dracut"], ["dracut"]),
        (["/usr/bin/dracut", "/usr/sbin/update-initramfs"], ["dracut", "update-initramfs"]),
    ],
)
def test_initramfs_programs(tree, files, expected):
    for file in files:
        tree.file(file)
    assert system.initramfs_programs(tree.node()) == expected
