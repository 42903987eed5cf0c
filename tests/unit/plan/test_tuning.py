"""What a host is tuned to: by its type, by what it has, and by what its operator wants otherwise."""

from __future__ import annotations

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.facts import tuning as facts_tuning
from ansible_collections.gpulab.node.plugins.module_utils.system import kernel_values
from ansible_collections.gpulab.node.plugins.plugin_utils import catalog, options
from ansible_collections.gpulab.node.plugins.plugin_utils.plan import resolve, tuning
from ansible_collections.gpulab.node.plugins.plugin_utils.plan.host_types import TypesOfHost

from .make import TODAY, facts

PORT = {"device": "mlx5_0", "port": 1, "link_layer": "infiniband", "state": "active", "rate_gbps": 400.0}
NIC = {"name": "ens1", "kind": "physical", "up": True, "speed_gbps": 100.0, "default_route": True}


def with_devices(device):
    """Return the PCI facts of a node with one GPU."""
    return facts(gpus=[device])["pci"]


def node(gpus=2, **changes):
    """Return a bare-metal node with less than 64 GiB; changes replace parts of its facts, or of its system's."""
    made = facts(gpus=["10de:20f1"] * gpus, **changes.pop("system", {"memory_mib": 32768}))
    for gpu in made["pci"]["gpus"]:
        gpu["iommu"] = changes.get("iommu")
    return {**made, **{key: value for key, value in changes.items() if key in made}}


def tuned(made, host_type, **overrides):
    given = options.complete({"tuning_overrides": overrides})
    return resolve(made, given, catalog.load(), TODAY, TypesOfHost((host_type,) if host_type else ()))["tuning"]


def all_values(plan):
    return {**plan["values"], **plan["limits"], "arguments": plan["kernel_arguments"]}


def test_a_workstation_gets_no_habits_of_a_cluster():
    assert all_values(tuned(node(), "workstations")) == {
        "vm.swappiness": "10",
        "vm.max_map_count": "1048576",
        "nofile": "1048576:1048576",
        "arguments": [],
    }


CONDITIONS = {
    "memory": ({}, {"system": {"memory_mib": 64_202}}, "vm.swappiness", "10", "1"),  # a machine with 64 GiB shows that
    "numa": ({}, {"system": {"numa_nodes": 2, "memory_mib": 1}}, "kernel.numa_balancing", None, "0"),
    "fast nic": (
        {"network": [{**NIC, "speed_gbps": 10.0}]},
        {"network": [NIC]},
        "net.core.rmem_max",
        None,
        "134217728",
    ),
    "nic that is up": (
        {"network": [{**NIC, "up": False}]},
        {"network": [NIC]},
        "net.ipv4.tcp_rmem",
        None,
        "4096 131072 67108864",
    ),
    "fabric": (
        {"infiniband": [{**PORT, "link_layer": "ethernet"}]},
        {"infiniband": [PORT]},
        "net.ipv4.neigh.default.gc_thresh3",
        None,
        "16384",
    ),
    "bare metal": (
        {"system": {"virtualization": "kvm", "memory_mib": 1}},
        {},
        "cpu_governor",
        None,
        "performance",
    ),
    "nfs": (
        {},
        {"filesystems": [{"mount": "/data", "type": "nfs4", "free_mib": 9}]},
        "nfs_read_ahead_kb",
        None,
        "15380",
    ),
    "iommu": ({"iommu": "identity"}, {"iommu": "DMA-FQ"}, "arguments", [], ["iommu=pt"]),
    "memory that the kernel takes over": (
        {},
        {"pci": with_devices("10de:2342")},
        "arguments",
        [],
        ["memhp_default_state=online_movable"],
    ),
    "one gpu": ({"gpus": 1, "iommu": "DMA"}, {"iommu": "DMA"}, "arguments", [], ["iommu=pt"]),
}


@pytest.mark.parametrize(("without", "having", "name", "otherwise", "value"), CONDITIONS.values(), ids=CONDITIONS)
def test_a_condition_decides(without, having, name, otherwise, value):
    assert all_values(tuned(node(**without), "training_servers")).get(name) == otherwise
    assert all_values(tuned(node(**having), "training_servers")).get(name) == value


def test_every_condition_of_the_catalog_is_known_and_every_known_one_used():
    asked = {name for record in catalog.load().tuning for name in record.get("when", {})}
    assert asked == set(tuning.CONDITIONS)


def test_a_cured_iommu_keeps_its_argument():
    """After the reboot the IOMMU passes through, because of the argument; without it, it would translate again."""
    arguments = {"wanted": ["iommu=pt"], "in_menu": True, "running": ["iommu=pt"]}
    kept = {"grub": True, "boot_entries": {}, "later": {}, "kernel_arguments": arguments}
    assert tuned(node(iommu="identity", tuning=kept), "training_servers")["kernel_arguments"] == ["iommu=pt"]


def test_rdma_frees_memlock_on_a_workstation_too():
    assert "memlock" not in tuned(node(), "workstations")["limits"]
    assert tuned(node(infiniband=[PORT]), "workstations")["limits"]["memlock"] == "unlimited:unlimited"


def test_huge_pages_differ_by_host_type():
    types = ("workstations", "training_servers", "inference_servers")
    found = [tuned(node(), kind)["values"].get("transparent_hugepage") for kind in types]
    assert found == [None, "always", "madvise"]


def test_a_host_of_no_type_gets_what_holds_for_all():
    assert set(tuned(node(), None)["values"]) == {"vm.swappiness", "vm.max_map_count"}


LATER = {"value": "60", "file": "/etc/sysctl.conf", "line": 7}


@pytest.mark.parametrize(
    ("later", "overrides", "container", "warned"),
    [
        (LATER, {}, False, True),
        ({**LATER, "value": "10"}, {}, False, False),
        (LATER, {"vm.swappiness": 60}, False, False),
        (LATER, {"vm.swappiness": None}, False, False),
        (LATER, {}, True, False),
    ],
)
def test_a_file_that_undoes_a_value_at_every_boot_is_told(later, overrides, container, warned):
    made = node(system={"memory_mib": 32768, "container": container})
    made["tuning"]["later"] = {"vm.swappiness": later}
    plan = resolve(
        made,
        options.complete({"tuning_overrides": overrides}),
        catalog.load(),
        TODAY,
        TypesOfHost(("training_servers",)),
    )
    assert any("/etc/sysctl.conf, line 7, sets vm.swappiness = 60" in one for one in plan["warnings"]) is warned


def test_overrides_replace_add_and_leave_alone():
    overrides = {"vm.swappiness": 60, "vm.max_map_count": None, "fs.aio-max-nr": "1000", "stack": "8388608"}
    plan = tuned(node(), "workstations", **overrides)
    assert plan["values"] == {"vm.swappiness": "60", "fs.aio-max-nr": "1000"}
    assert plan["limits"]["stack"] == "8388608:8388608"
    assert plan["because"][1] == "tuning_overrides sets vm.swappiness, vm.max_map_count, fs.aio-max-nr, stack."


def test_a_server_of_its_own_has_its_interrupts_balanced():
    wanted = [tuned(node(), kind)["services"]["irqbalance"] for kind in ("workstations", "training_servers")]
    assert wanted == [False, True]
    assert tuned(node(), "training_servers", irqbalance=None)["services"] == {"irqbalance": False}
    assert tuned(node(), "workstations", irqbalance="active")["services"] == {"irqbalance": True}


@pytest.mark.parametrize(
    "value", [True, 1.5, "1\nkernel.sysrq = 1", {}], ids=["boolean", "fraction", "two lines", "dictionary"]
)
def test_a_value_that_no_file_can_hold_is_refused(value):
    with pytest.raises(Refusal, match="P051"):
        tuned(node(), "workstations", **{"vm.swappiness": value})


@pytest.mark.parametrize(
    "place",
    [{"system": {"container": True}}, {"tuning": {**facts()["tuning"], "grub": False}}],
    ids=["container", "no"],
)
def test_without_grub_the_command_line_is_left_to_the_operator(place):
    made = {**node(iommu="DMA", **place)}
    made["system"]["virtualization"] = "none"
    plan = resolve(made, options.complete({}), catalog.load(), TODAY, TypesOfHost(("training_servers",)))
    assert plan["tuning"]["kernel_arguments"] == []
    assert plan["tuning"]["boot_files"] == {facts_tuning.GRUB_FILE: ""}
    assert any("iommu=pt" in warning for warning in plan["warnings"])


def with_entries(*entries, wanted=()):
    """Return a node with these arguments in its boot entries, of which gpulab put the wanted ones there."""
    arguments = {"wanted": list(wanted), "in_menu": True, "running": []}
    made = {f"/boot/loader/entries/{number}.conf": entry.split() for number, entry in enumerate(entries)}
    return node(iommu="DMA", tuning={"grub": False, "boot_entries": made, "later": {}, "kernel_arguments": arguments})


def test_entries_of_the_boot_loader_are_told_instead_of_grubs_files():
    plan = tuned(with_entries("ro quiet", "ro quiet"), "training_servers")
    assert plan["kernel_arguments"] == ["iommu=pt"]
    assert plan["boot_files"] == {facts_tuning.GRUB_FILE: ""}


def test_an_argument_that_somebody_set_otherwise_is_refused_unless_it_is_left_alone():
    with pytest.raises(Refusal, match="H173"):
        tuned(with_entries("ro iommu=nopt", "ro"), "training_servers")
    assert tuned(with_entries("ro iommu=nopt"), "training_servers", iommu=None)["kernel_arguments"] == []
    own = with_entries("ro iommu=nopt", wanted=["iommu=nopt"])
    assert tuned(own, "training_servers")["kernel_arguments"] == ["iommu=pt"]


def test_every_setting_says_why_and_who_says_so():
    for setting in tuned(node(infiniband=[PORT], network=[NIC], iommu="DMA"), "training_servers")["settings"]:
        assert setting["because"]
        assert setting["source"]


def test_the_files_say_what_the_facts_read_back():
    """What is written and what is read are two pieces of code that have to agree."""
    plan = tuned(node(infiniband=[PORT], network=[NIC], iommu="DMA"), "training_servers")
    limits = plan["files"]["/etc/security/limits.d/90-gpulab.conf"]
    assert facts_tuning.pam_limits(limits) == plan["limits"]
    system = plan["files"]["/etc/systemd/system.conf.d/90-gpulab.conf"]
    for line in system.splitlines():
        assert line.startswith(("[Manager]", "# ", "DefaultLimit"))
    assert "DefaultLimitSTACK=67108864:infinity" in system.splitlines()
    assert facts_tuning.grub_arguments(plan["boot_files"][facts_tuning.GRUB_FILE]) == ["iommu=pt"]
    assert "net.ipv4.tcp_wmem = 4096 65536 67108864" in plan["files"][facts_tuning.SYSCTL_FILE].splitlines()


def test_every_value_of_the_catalog_is_read_by_the_facts():
    planned = {record["name"] for record in catalog.load().tuning if record["kind"] in ("sysctl", "knob")}
    assert planned <= set(facts_tuning.VALUES)
    assert {record["name"] for record in catalog.load().tuning if record["kind"] == "limit"} == set(facts_tuning.LIMITS)
    assert set(kernel_values.KNOBS) == {record["name"] for record in catalog.load().tuning if record["kind"] == "knob"}


def swap(made, **wishes):
    plan = resolve(made, options.complete(wishes), catalog.load(), TODAY)
    return plan["tuning"]["swap"], [one["value"] for one in plan["tuning"]["settings"] if one["kind"] == "swap"]


SWAPS = {
    "nothing declared": (node(), {}, None, []),
    "a file": (node(), {"tuning_swap": "/swapfile"}, ("/swapfile", 16384), ["16"]),
    "memory of 64 GB": (node(system={"memory_mib": 61440}), {"tuning_swap": "/swapfile"}, None, ["0"]),
    "a size of its own": (
        node(system={"memory_mib": 61440}),
        {"tuning_swap": "UUID=5d", "tuning_overrides": {"swap_gib": 4}},
        ("UUID=5d", 4096),
        ["4"],
    ),
    "left alone": (node(), {"tuning_swap": "/swapfile", "tuning_overrides": {"swap_gib": None}}, None, []),
    "a container": (
        node(system={"memory_mib": 32768, "container": True}), {"tuning_swap": "/swapfile"}, None, [],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("made", "wishes", "place", "values"), SWAPS.values(), ids=SWAPS)
def test_swap_goes_by_memory_and_only_where_it_is_declared(made, wishes, place, values):
    found, told = swap(made, **wishes)
    assert (found["place"] and (found["place"], found["mib"]), told) == (place, values)


def test_a_size_of_swap_is_a_number():
    with pytest.raises(Refusal) as caught:
        swap(node(), tuning_swap="/swapfile", tuning_overrides={"swap_gib": "4G"})
    assert caught.value.code == "P055"
