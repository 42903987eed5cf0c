"""Values of tuning_overrides that a kernel would refuse, or that are none of its: refused before the first change."""

from __future__ import annotations

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.plugin_utils import catalog, options
from ansible_collections.gpulab.node.plugins.plugin_utils.plan import resolve, tuning

from unit.inventory_check.make import check_variables

from .make import TODAY, facts

THERE = {"there": True, "writable": True, "value": "60", "words": [], "near": None}


def planned(asked=None, **overrides):
    """Return the plan's tuning of a node that said this of the names that are set."""
    made = facts(memory_mib=32768)
    made["tuning"]["asked"] = asked or {}
    return resolve(made, options.complete({"tuning_overrides": overrides}), catalog.load(), TODAY)["tuning"]


# What no node takes: (name, value, code). The first half was written before the code.
WRONG = [
    ("nofile", "abc", "P055"),
    ("memlock", "lots", "P055"),
    ("stack", "8M", "P055"),
    ("vm.swappiness", 300, "P055"),
    ("vm.swappiness", -1, "P055"),
    ("vm.swappiness", "ten", "P055"),
    ("kernel/../../../etc/passwd.x", 1, "P106"),
    ("vm/../../../etc/cron.d/x.y", 1, "P106"),
    ("vm.../x", 1, "P106"),
    ("vm.//.//.//.etc.shadow", 1, "P106"),
    (".vm.swappiness", 1, "P106"),
    ("vm.swappiness.", 1, "P106"),
    ("vm..swappiness", 1, "P106"),
    ("vm.swap piness", 1, "P106"),
    ("cpu_governor", "fast", "P055"),
    ("transparent_hugepage", "sometimes", "P055"),
    ("iommu", "passthrough", "P055"),
    ("nofile", "65536:1024", "P055"),
    ("nofile", "unlimited", "P055"),
    ("nofile", "1:2:3", "P055"),
    ("nofile", "0", "P055"),
    ("nofile", "-1", "P055"),
    ("memlock", "unlimited:65536", "P055"),
    ("memlock", "65537", "P055"),
    ("stack", "", "P055"),
    ("nfs_read_ahead_kb", "15381", "P055"),
    ("nfs_read_ahead_kb", "many", "P055"),
    ("swap_gib", "4G", "P055"),
    ("swap_gib", "-4", "P055"),
    ("swap_gib", 99999, "P055"),
    ("irqbalance", "started", "P075"),
    ("irqbalanse", "active", "P050"),
    ("vm.max_map_count", "99999999999", "P055"),
    ("vm.max_map_count", "1 2", "P055"),
    ("vm.max_map_count", "0x100", "P055"),
    ("vm.drop_caches", 3, "P106"),
    ("vm.compact_memory", 1, "P106"),
    ("net.ipv4.tcp_rmem", "4096", "P055"),
    ("net.ipv4.tcp_rmem", "4096 87380", "P055"),
    ("net.ipv4.tcp_rmem", "87380 4096 6291456", "P055"),
    ("net.ipv4.ip_local_port_range", "60999 32768", "P055"),
    ("net.ipv4.ip_local_port_range", "1024 70000", "P055"),
    ("net.ipv4.conf.eth0/100.rp_filter", "3", "P055"),
    ("net.ipv4.conf.*.rp_filter", "on", "P055"),
    ("net.core.rmem_max", "128M", "P055"),
    ("kernel.numa_balancing", "no", "P055"),
    ("kernel.pid_max", 300, "P055"),
    ("fs.nr_open", 1, "P055"),
    ("user.max_user_namespaces", "many", "P055"),
    ("vm.swappiness", True, "P051"),
    ("vm.swappiness", 1.5, "P051"),
    ("vm.swappiness", [1], "P051"),
    ("vm.swappiness", {"a": 1}, "P051"),
    ("vm.swappiness", "1\nkernel.sysrq = 1", "P051"),
]


@pytest.mark.parametrize(("name", "value", "code"), WRONG)
def test_what_no_kernel_takes_is_refused_in_the_check_and_in_the_plan(name, value, code):
    with pytest.raises(Refusal) as caught:
        planned(**{name: value})
    assert caught.value.code == code
    said = check_variables(tuning_overrides={name: value})
    assert said, "the check of the inventory has nothing to say"
    assert all(message.startswith("GPULAB-") for message in said)


RIGHT = [
    ("nofile", 65536),
    ("nofile", "1024:65536"),
    ("memlock", "unlimited"),
    ("memlock", "8388608:unlimited"),
    ("stack", "67108864:unlimited"),
    ("vm.swappiness", 0),
    ("vm.swappiness", "200"),
    ("vm.max_map_count", 262144),
    ("net.ipv4.tcp_rmem", "4096  87380 6291456"),
    ("net.ipv4.conf.eth0/100.rp_filter", 2),
    ("net.ipv4.conf.*.rp_filter", 2),
    ("kernel.core_pattern", "|/usr/lib/systemd/systemd-coredump %P %u %g %s %t 9223372036854775808 %h"),
    ("net.ipv4.ip_local_reserved_ports", "8080,9148"),
    ("net.ipv4.tcp_congestion_control", "bbr"),
    ("net.core.default_qdisc", "fq"),
    ("kernel.sem", "32000 1024000000 500 32000"),
    ("kernel.perf_event_paranoid", -1),
    ("fs.inotify.max_user_watches", "1048576"),
    ("cpu_governor", "schedutil"),
    ("iommu", "off"),
    ("transparent_hugepage", "never"),
    ("nfs_read_ahead_kb", 1024),
    ("swap_gib", 0),
    ("vm.swappiness", None),
    ("dev.hpet.max-user-freq", 64),
]


@pytest.mark.parametrize(("name", "value"), RIGHT)
def test_what_a_kernel_takes_passes(name, value):
    planned(**{name: value})
    assert check_variables(tuning_overrides={name: value}) == []


@pytest.mark.parametrize("record", catalog.load().tuning, ids=lambda record: f"{record['name']}={record['value']}")
def test_the_catalogs_own_values_are_of_their_form(record):
    tuning.check_overrides({record["name"]: record["value"]}, catalog.load())


# What this node does not take: what it says of the name, the value, and a part of the refusal.
OF_NODE = {
    "a sysctl that no kernel has": (
        "vm.no_such_knob",
        {"there": False, "near": None},
        1,
        "P106 tuning_overrides has vm.no_such_knob, which this node's kernel does not have",
    ),
    "a misspelt sysctl": (
        "vm.swapiness",
        {"there": False, "near": "vm.swappiness"},
        1,
        "Remedy: Did you mean vm.swappiness?",
    ),
    "a misspelt sysctl of the catalog's": (
        "net.ipv4.tcp_rnem",
        {"there": False, "near": None},
        "4096 8192 16384",
        "Did you mean net.ipv4.tcp_rmem?",
    ),
    "one that only tells": ("kernel.osrelease", {"writable": False}, "6.1", "which the kernel lets nobody change"),
    "a word for a number": (
        "dev.hpet.max-user-freq",
        {"value": "64"},
        "fast",
        "needs a whole number, as it has now (64)",
    ),
    "one number for three": ("net.ipv4.some_mem", {"value": "1 2 3"}, "7", "needs 3 whole numbers"),
    "more than 64 bits": ("dev.hpet.max-user-freq", {"value": "64"}, str(2**64), "needs a whole number"),
    "a governor that the processor lacks": (
        "cpu_governor",
        {"words": ["performance", "powersave"]},
        "ondemand",
        "needs one of those of this node: performance, powersave",
    ),
}


@pytest.mark.parametrize(("name", "said", "value", "told"), OF_NODE.values(), ids=OF_NODE)
def test_what_this_node_does_not_take_is_refused_in_the_plan(name, said, value, told):
    with pytest.raises(Refusal) as caught:
        planned({name: {**THERE, **said}}, **{name: value})
    assert told in str(caught.value)


def test_more_open_files_than_the_kernel_lets_a_process_have_are_refused():
    """PAM would fail to set the limit, and refuse every login."""
    asked = {"fs.nr_open": {**THERE, "value": "1048576"}}
    assert planned(asked, nofile="1048576")["limits"]["nofile"] == "1048576:1048576"
    with pytest.raises(Refusal, match=r"at most 1048576, which is fs.nr_open of this node"):
        planned(asked, nofile="1024:1048577")


def test_a_text_may_look_like_a_number():
    asked = {"kernel.core_pattern": {**THERE, "value": "1"}}
    assert planned(asked, **{"kernel.core_pattern": "core"})["values"]["kernel.core_pattern"] == "core"
