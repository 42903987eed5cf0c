"""A receipt names what to read again: whatever differs then is seen, and said in words."""

from __future__ import annotations

import copy
import json

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core import owned_block
from ansible_collections.gpulab.node.plugins.module_utils.receipts import items, store

from unit import machines

INPUTS = {"gpulab": "1", "settings": "2"}
PLAN = {"driver": {"branch": "580"}}
SHOW = "--property=Id,Names,UnitFileState,ActiveState"
DPKG = "dpkg-query"


@pytest.fixture
def node(tree, monkeypatch):
    """Return a node with one of each kind of item, and the names of all."""
    monkeypatch.setattr(store, "DIRECTORY", "/var/lib/gpulab/receipts")
    tree.file("/var/lib/dpkg/status")
    write(tree, "/etc/own.conf", "a\n")
    tree.link("/usr/local/bin/tool", "/opt/tool")
    tree.directory("/srv/data").node().path("/srv/data").chmod(0o755)
    tree.file("/etc/hosts", owned_block.merged("127.0.0.1 localhost\n", "10.0.0.1 a", "network"))
    tree.file("/proc/sys/vm/swappiness", "10\n")
    tree.file("/proc/self/mountinfo", "21 1 8:1 / /srv/data rw - xfs /dev/sda1 rw\n")
    tree.file("/opt/venvs/vision/gpulab.lock", "torch==2.9\n")
    tree.directory("/opt/venvs/vision/lib/python3.11/site-packages/torch-2.9.dist-info")
    tree.prints(DPKG, packages(("libnvidia-ml1", "535.1", "hold"), ("chrony", "4.3", "install")))
    tree.prints("systemctl", units(enabled="enabled", active="active"))
    return tree


NAMES = [
    "file:/etc/own.conf", "file:/usr/local/bin/tool", "file:/srv/data", "file:/etc/never", "block:/etc/hosts#network",
    "package:libnvidia-*", "package:chrony", "unit:chrony.service", "running:chrony.service", "value:vm.swappiness",
    "mount:/srv/data", "environment:/opt/venvs/vision", "fact:kernels", "fact:nvml",
]  # fmt: skip


def packages(*rows):
    listed = [("dpkg", "1.21", "install"), *rows]
    return "".join(f"{name}\tamd64\t{version}\t{want}\tinstalled\tDebian\n" for name, version, want in listed)


def units(enabled, active):
    return f"Id=chrony.service\nNames=chrony.service\nUnitFileState={enabled}\nActiveState={active}\n"


def sealed(node, facts):
    """Leave a receipt as a run does: written by the role, sealed at the end."""
    receipt = {"schema": store.SCHEMA, "inputs": INPUTS, "plan": PLAN, "sealed": False, "items": dict.fromkeys(NAMES)}
    node.file("/var/lib/gpulab/receipts/base.json", json.dumps(receipt))
    store.NodeReceipts(node.node()).seal(facts)


@pytest.fixture
def facts():
    return copy.deepcopy(machines.machine())


def read(node, facts):
    return store.NodeReceipts(node.node()).facts(facts)["base"]


def test_nothing_differs_where_nothing_changed(node, facts):
    sealed(node, facts)
    assert read(node, facts) == {"inputs": INPUTS, "plan": PLAN, "problem": "", "differs": [], "drift": []}
    kept = json.loads(node.node().text("/var/lib/gpulab/receipts/base.json"))["items"]
    assert [name for name in NAMES if kept[name] is None] == ["file:/etc/never"]  # each kind reads something


def relink(node):
    node.node().path("/usr/local/bin/tool").unlink()
    node.link("/usr/local/bin/tool", "/opt/other")


def listed(node, *rows):
    node.prints(DPKG, packages(*rows, ("chrony", "4.3", "install")))


def write(node, path, text):
    node.file(path, text).node().path(path).chmod(0o644)


def edit(node, path, old, new):
    node.file(path, node.node().text(path).replace(old, new))


DISTURBED = {
    "/etc/own.conf: edited": lambda node: write(node, "/etc/own.conf", "b\n"),
    "/etc/own.conf: mode was 0644, is 0600": lambda node: node.node().path("/etc/own.conf").chmod(0o600),
    "/etc/own.conf was removed": lambda node: node.node().path("/etc/own.conf").unlink(),
    "/etc/never was made": lambda node: node.file("/etc/never", "x"),
    "/usr/local/bin/tool: led to /opt/tool, leads to /opt/other": relink,
    "/srv/data: mode was 0755, is 0700": lambda node: node.node().path("/srv/data").chmod(0o700),
    "/etc/hosts was edited": lambda node: edit(node, "/etc/hosts", ".1 a", ".2 a"),
    "/etc/hosts was removed": lambda node: node.file("/etc/hosts", "127.0.0.1 localhost\n"),
    "libnvidia-ml1 is 550.1, on hold, was 535.1, on hold": lambda node: listed(
        node, ("libnvidia-ml1", "550.1", "hold")
    ),
    "libnvidia-ml1 is 535.1, was 535.1, on hold": lambda node: listed(node, ("libnvidia-ml1", "535.1", "install")),
    "libnvidia-ml1 was removed": listed,
    "chrony.service was enabled, is masked": lambda node: node.prints("systemctl", units("masked", "active")),
    "chrony.service was active, is inactive": lambda node: node.prints("systemctl", units("enabled", "inactive")),
    "/proc/sys/vm/swappiness is 60, was 10": lambda node: node.file("/proc/sys/vm/swappiness", "60\n"),
    "/srv/data was removed": lambda node: node.file("/proc/self/mountinfo", ""),
    "/srv/data was xfs /dev/sda1, is xfs /dev/sdb1": lambda node: node.file(
        "/proc/self/mountinfo", "21 1 8:1 / /srv/data rw - xfs /dev/sdb1 rw\n"
    ),
    "/opt/venvs/vision was changed": lambda node: node.directory(
        "/opt/venvs/vision/lib/python3.11/site-packages/numpy-2.0.dist-info"
    ),
}


@pytest.mark.parametrize("words", DISTURBED)
def test_every_kind_of_change_is_seen_and_said(node, facts, words):
    sealed(node, facts)
    DISTURBED[words](node)
    found = read(node, facts)
    assert found["differs"] == [words]
    assert found["drift"] == [words]


def test_people_who_differ_are_named_with_what_somebody_changed(node, facts, monkeypatch):
    accounts = {"people": 2, "differs": {"ben": ["lingers"]}, "unlisted": [], "limits": None}
    monkeypatch.setattr("unit.receipts.test_receipts.NAMES", ["people:accounts"])
    facts["accounts"] = accounts
    sealed(node, facts)
    assert read(node, facts)["drift"] == []
    facts["accounts"] = {**accounts, "differs": {"ada": ["has other keys", "is in the group sudo"]}}
    told = ["ada has other keys, is in the group sudo; ben is again as the inventory has it"]
    assert read(node, facts)["drift"] == told


def test_facts_that_differ_are_no_doing_of_a_persons(node, facts):
    sealed(node, facts)
    facts["kernels"].append({**facts["kernels"][0], "version": "6.99"})
    assert read(node, facts) == {**read(node, facts), "differs": ["kernels differs on the node"], "drift": []}


def test_what_is_measured_of_a_gpu_is_no_difference_and_its_settings_are(node, facts):
    facts["nvml"]["gpus"] = [{"uuid": "GPU-1", "persistence": True, "temperature": {"gpu": 30}}]
    sealed(node, facts)
    facts["nvml"]["gpus"][0]["temperature"]["gpu"] = 80
    assert read(node, facts)["differs"] == []
    facts["nvml"]["gpus"][0]["persistence"] = False
    assert read(node, facts)["differs"] == ["nvml differs on the node"]


def test_who_is_logged_in_makes_no_difference_and_a_limit_that_does_not_hold_does(facts):
    limits = {"slices": 1, "differs": []}
    facts["accounts"] = {"people": 1, "differs": {}, "unlisted": [], "limits": limits}
    before = items.section(facts, "accounts")
    assert (
        items.section({**facts, "accounts": {**facts["accounts"], "limits": {**limits, "slices": 2}}}, "accounts")
        == before
    )
    differs = {**limits, "differs": [{"user": "ada"}]}
    assert items.section({**facts, "accounts": {**facts["accounts"], "limits": differs}}, "accounts") != before


def test_another_driver_for_a_kernel_is_no_other_initramfs(facts):
    before = items.section(facts, "initramfs")
    facts["kernels"][0]["nvidia_module"] = "595.91.07"
    assert items.section(facts, "initramfs") == before
    facts["kernels"][0]["initramfs"] = {"nouveau": True, "blacklist": False}
    assert items.section(facts, "initramfs") != before


@pytest.mark.parametrize("section", items.PASSING)
def test_what_changes_by_itself_is_no_difference(facts, section):
    before = items.section(facts, section)
    for one in facts[section] if isinstance(facts[section], list) else [facts[section] or {}]:
        for name in items.PASSING[section]:
            if name in one:
                one[name] = "something else"
    assert items.section(facts, section) == before


def test_a_receipt_counts_once_the_run_has_ended(node, facts):
    receipt = {"schema": store.SCHEMA, "inputs": INPUTS, "sealed": False, "items": dict.fromkeys(NAMES)}
    node.file("/var/lib/gpulab/receipts/base.json", json.dumps(receipt))
    assert read(node, facts)["problem"] == "the run that wrote its receipt did not end well"
    receipts = store.NodeReceipts(node.node())
    receipts.seal(facts)
    assert receipts.facts(facts)["base"]["problem"] == ""


def test_a_sealed_receipt_is_not_sealed_again(node, facts):
    """What a person changed during a run that left the role out is still seen by the next one."""
    sealed(node, facts)
    node.file("/etc/own.conf", "b\n")
    store.NodeReceipts(node.node()).seal(facts)
    assert read(node, facts)["differs"] == ["/etc/own.conf: edited"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "its receipt is damaged"),
        ('{"schema": 1, "inputs": {', "its receipt is damaged"),
        ('{"schema": 1, "inputs": {}, "sealed": true}', "its receipt is damaged"),
        ('{"schema": 2, "anything": 1}', "its receipt has another schema (2)"),
    ],
)
def test_a_receipt_that_cannot_be_read_does_not_count(node, facts, text, problem):
    node.file("/var/lib/gpulab/receipts/base.json", text)
    assert read(node, facts) == {"inputs": {}, "plan": {}, "problem": problem, "differs": [], "drift": []}
    store.NodeReceipts(node.node()).seal(facts)
    assert node.node().text("/var/lib/gpulab/receipts/base.json") == text


def test_a_receipt_of_an_earlier_gpulab_holds_no_plan(node, facts):
    sealed(node, facts)
    path = node.node().path("/var/lib/gpulab/receipts/base.json")
    kept = json.loads(path.read_text())
    del kept["plan"]
    path.write_text(json.dumps(kept))
    assert read(node, facts) == {"inputs": INPUTS, "plan": {}, "problem": "", "differs": [], "drift": []}


def test_a_plan_outlives_the_seal(node, facts):
    receipt = {"schema": store.SCHEMA, "inputs": INPUTS, "plan": PLAN, "sealed": False, "items": {}}
    node.file("/var/lib/gpulab/receipts/base.json", json.dumps(receipt))
    assert (read(node, facts)["plan"], read(node, facts)["problem"]) == (PLAN, store.NOT_ENDED)
    store.NodeReceipts(node.node()).seal(facts)
    assert (read(node, facts)["plan"], read(node, facts)["problem"]) == (PLAN, "")


def test_an_item_of_an_unknown_kind_is_nothing(node, facts):
    assert items.Reading(node.node(), ["moon:full"]).values(facts) == {"moon:full": None}
