"""Three bare nodes with one kernel: the first compiles Debian's driver, the others load its result and sign it.

What compiles is counted in place of gcc's own compiler, cc1, which it then runs.
"""

import re

import pytest

pytestmark = pytest.mark.story
NAMES = ["node1", "node2", "node3"]
NODES = [{"name": name, "release": "bookworm", "gpu": "rtx4090-2", "groups": ["workstations"]} for name in NAMES]
SITE = ("site.yml", "--tags", "nvidia_driver")
SECONDS = 1800
KERNEL = "$(ls /lib/modules)"
COUNT = """
real=/usr/lib/gcc/x86_64-linux-gnu/12/cc1
dpkg-divert --local --rename --add $real
mkdir -p ${real%/*}
printf '#!/bin/sh\\necho >> /var/tmp/compiled\\nexec %s.distrib "$@"\\n' $real > $real
chmod +x $real
"""
SERIAL = "openssl x509 -inform DER -in /var/lib/dkms/mok.pub -noout -serial | cut -d= -f2"


def every(lab, script):
    return {name: lab.node(name).run(script) for name in NAMES}


def compiled(lab):
    """Return how often the compiler ran on each node since the last time."""
    return {name: int(count) for name, count in every(lab, "cat /var/tmp/compiled 2>/dev/null | wc -l").items()}


def took(run, name, task):
    """Return the seconds that a task which changed a node took."""
    minutes, seconds = re.search(rf"{name} +changed +nvidia_driver : {task} +(?:(\d+)m)?([\d.]+)s", run.output).groups()
    return 60 * int(minutes or 0) + float(seconds)


def test_one_node_compiles_for_all_three_which_load_in_a_fraction_of_the_time(lab, say):
    every(lab, COUNT)
    run = lab.play(*SITE, timeout=SECONDS)
    assert run.rc == 0, run.output[-3000:]
    found = compiled(lab)
    assert found["node1"] > 100
    assert (found["node2"], found["node3"]) == (0, 0)
    build = took(run, "node1", "Build the kernel modules for every kernel")
    loads = [took(run, name, "Load the kernel modules that a node like this one has built") for name in NAMES[1:]]
    say(f"compiled: {build:.0f} s; loaded: {loads} s")
    assert max(loads) < build / 2


def test_every_node_has_the_module_installed_and_signed_by_its_own_key(lab):
    status = every(lab, "dkms status")
    assert all(line.endswith(": installed") for line in status.values()), status
    keys = every(lab, SERIAL)
    signed = every(lab, f"modinfo -k {KERNEL} -F sig_key nvidia-current")
    assert {name: key.replace(":", "") for name, key in signed.items()} == keys
    assert len(set(keys.values())) == len(NAMES)
    assert len(set(every(lab, f"modinfo -k {KERNEL} -F srcversion nvidia-current").values())) == 1


def test_nothing_is_left_of_the_way_there(lab):
    left = "ls /etc/dkms/no-autoinstall /var/lib/gpulab/steps/*/programs 2>/dev/null || true"
    assert set(every(lab, left).values()) == {""}
    assert set(every(lab, "dpkg --audit").values()) == {""}


def test_a_second_run_changes_nothing(lab):
    run = lab.play(*SITE)
    assert run.rc == 0, run.output[-3000:]
    assert {name: counts["changed"] for name, counts in run.recap.items()} == dict.fromkeys(NAMES, 0)
