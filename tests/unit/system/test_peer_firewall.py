"""What a firewall is told of a node's peers: gpulab's rules come and go, those of the owner stay."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.system.peer_firewall import (
    NOBODY,
    Wish,
    firewalld_rules,
    firewalld_steps,
    ufw_rules,
    ufw_steps,
)

WISH = Wish(("10.0.0.2", "fd00::2"), ((23456, 23456), (32768, 60999)))
ADDED = """Added user rules (see 'ufw status' for running firewall):
ufw allow from 10.0.0.2 to any port 23456,32768:60999 proto tcp comment 'gpulab network'
ufw allow 22/tcp
ufw allow from 10.0.0.9 to any port 23456,32768:60999 proto tcp comment 'gpulab network'
ufw allow from 10.0.0.8 to any port 23456 proto tcp comment 'mine'
"""
ZONES = """\
block
  target: %%REJECT%%
  rich rules:

public (default, active)
  target: default
  services: ssh
  ports: 8080/tcp
  rich rules:
	rule family="ipv4" source address="10.0.0.8" port port="23456" protocol="tcp" accept
	rule priority="23456" family="ipv4" source address="10.0.0.2" port port="23456" protocol="tcp" accept
	rule priority="23456" family="ipv4" source address="10.0.0.9" port port="23456" protocol="tcp" accept
"""


def test_ufw():
    assert [" ".join(step.argv) for step in ufw_steps(ufw_rules(ADDED), WISH)] == [
        "ufw delete allow from 10.0.0.9 to any port 23456,32768:60999 proto tcp",
        "ufw allow from fd00::2 to any port 23456,32768:60999 proto tcp comment gpulab network",
    ]


def test_ufw_keeps_ports_in_rising_order_and_addresses_in_their_shortest_form():
    wish = Wish(("10.0.0.2", "FD00:0:0::2"), ((61000, 61000), (23456, 23456), (32768, 60999)))
    assert [step.rule for step in ufw_steps([], wish)] == [
        "allow from 10.0.0.2 to any port 23456,32768:60999,61000 proto tcp",
        "allow from fd00::2 to any port 23456,32768:60999,61000 proto tcp",
    ]


def test_all_of_ufws_that_are_gpulabs_go():
    assert [step.adds for step in ufw_steps(ufw_rules(ADDED), NOBODY)] == [False, False]
    assert all("10.0.0.8" not in step.argv for step in ufw_steps(ufw_rules(ADDED), NOBODY))


@pytest.mark.parametrize(("permanent", "option"), [(True, ["--permanent"]), (False, [])])
def test_firewalld(permanent, option):
    found = firewalld_rules(ZONES)
    assert {zone: len(rules) for zone, rules in found.items()} == {"block": 0, "public": 2}
    steps = firewalld_steps(found["public"], WISH, "public", permanent=permanent)
    start = 'rule priority="23456" family='
    assert [(list(step.argv[:-1]), step.argv[-1]) for step in steps] == [
        (["firewall-cmd", "--zone=public", *option], f"--{action}-rich-rule={start}{rule}")
        for action, rule in (
            ("remove", '"ipv4" source address="10.0.0.9" port port="23456" protocol="tcp" accept'),
            ("add", '"ipv4" source address="10.0.0.2" port port="32768-60999" protocol="tcp" accept'),
            ("add", '"ipv6" source address="fd00::2" port port="23456" protocol="tcp" accept'),
            ("add", '"ipv6" source address="fd00::2" port port="32768-60999" protocol="tcp" accept'),
        )
    ]


def test_nothing_is_done_twice():
    rules = [step.rule.partition(" in the zone")[0] for step in firewalld_steps([], WISH, "public", permanent=True)]
    assert firewalld_steps(rules, WISH, "public", permanent=True) == []
    assert ufw_steps([step.rule for step in ufw_steps([], WISH)], WISH) == []
