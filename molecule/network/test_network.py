"""The network role, seen from the nodes, and from this machine, which is none of theirs: it plays the world."""

import socket

import pytest
import scenario

FIRST = """
import socket, sys
for name in sys.argv[1:]:
    print(name, socket.getaddrinfo(name, 1, type=socket.SOCK_STREAM)[0][4][0], socket.gethostbyname(name))
"""
GROUPS, OWN, OTHER = (23456, 23457, 45000, 61000), 8080, 9999  # 45000 is an ephemeral port, 8080 the owner's
PORTS = (*GROUPS, OWN, OTHER)
SERVE = f"""
for port in {" ".join(map(str, PORTS))}; do
    systemd-run --quiet --unit=serve-$port python3 -m http.server --bind 0.0.0.0 $port
done
for turn in $(seq 100); do
    [ $(ss -Hltn | grep -c -E ':({"|".join(map(str, PORTS))}) ') = {len(PORTS)} ] && exit
    sleep 0.2
done
exit 1
"""


@pytest.fixture(scope="module")
def nodes():
    """Return each node by name, with the address that it has on the nodes' network."""
    addresses = scenario.each(lambda host: host.check_output("hostname --all-ip-addresses").split()[0])
    return {name: (host, addresses[name]) for name, host in scenario.nodes().items()}


@pytest.fixture(scope="module")
def connections(nodes):
    """Let something answer on ports of every node; return who reaches which node at which port."""
    for host, _address in nodes.values():
        host.check_output(SERVE)
    return tried(nodes)


def tried(nodes):
    """Return (from, to, port) of each connection that is taken."""
    targets = [(name, address, port) for name, (_host, address) in nodes.items() for port in (22, *PORTS)]
    line = " ".join(
        f"(timeout 5 bash -c '</dev/tcp/{to}/{port}' && echo {name} {port}) &" for name, to, port in targets
    )
    found = {("world", name, port) for name, address, port in targets if taken(address, port)}
    for start, (host, _address) in nodes.items():
        for words in map(str.split, host.run(f"{{ {line} wait; }} 2>/dev/null").stdout.splitlines()):
            found.add((start, words[0], int(words[1])))
    return found


def taken(address, port):
    """Tell whether this machine's connection is taken."""
    try:
        socket.create_connection((address, port), 2).close()
    except OSError:
        return False
    return True


def test_every_name_leads_to_its_node_on_every_node(nodes):
    for host, _address in nodes.values():
        lines = host.check_output(f"python3 -c %s {' '.join(nodes)}", FIRST).splitlines()
        assert lines == [f"{name} {address} {address}" for name, (_host, address) in nodes.items()]


def test_a_node_keeps_its_whole_name(host):
    assert host.check_output("hostname --fqdn") == host.check_output("hostname") + ".lab"


def test_what_else_the_file_says_stays(host):
    found = host.check_output("getent ahostsv4 localhost; getent hosts printer").splitlines()
    assert found[0].split()[0] == "127.0.0.1"
    assert found[-1].split() == ["192.0.2.80", "printer"]


def test_one_service_keeps_the_clock(host):
    """Enabled only: a container has its host's clock, and the service does not run there."""
    own = host.check_output("hostname") == "node1"
    assert host.file("/usr/sbin/chronyd").exists != own
    assert host.service("systemd-timesyncd" if own else "chrony").is_enabled


def test_peers_reach_each_other_at_the_groups_ports(nodes, connections):
    assert {(start, to, port) for start in nodes for to in nodes for port in GROUPS} <= connections


def test_the_world_reaches_ssh_and_none_of_the_groups_ports(nodes, connections):
    world = {(to, port) for start, to, port in connections if start == "world"}
    assert {(to, 22) for to in nodes} <= world
    assert not world & {(to, port) for to in nodes for port in GROUPS}


@pytest.mark.parametrize("name", ["node1", "node2"])
def test_a_firewall_of_the_owners_decides_on_all_else(nodes, connections, name):
    others = {*nodes, "world"} - {name}
    assert {start for start, to, port in connections if (to, port) == (name, OWN)} >= others
    assert not {start for start, to, port in connections if (to, port) == (name, OTHER)} & others


def test_the_own_table_closes_nothing_else(nodes, connections):
    assert {(start, "node3", port) for start in (*nodes, "world") for port in (OWN, OTHER)} <= connections


def test_the_rules_outlive_their_firewall(nodes, connections):
    """As after a boot: what runs is forgotten, and read again from what is kept.

    Debian's own service empties all tables when it starts, and again when it reloads.
    """
    own = "systemctl start nftables; systemctl restart gpulab-peers; systemctl reload nftables"
    loaded = "until nft list table inet gpulab_network; do sleep 0.2; done"
    again = {
        "node1": "ufw reload",
        "node2": "firewall-cmd --complete-reload",
        "node3": f"{own}; timeout 10 sh -c '{loaded}'",
    }
    for name, command in again.items():
        nodes[name][0].check_output(command)
    assert tried(nodes) == connections
    assert nodes["node3"][0].service("gpulab-peers").is_enabled
