"""What looks like a fault and is none: each check stays silent, or says that it cannot tell."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.checks.runner import verify

from unit import machines

from . import loaded, nodes
from .driver_faults import forbid
from .environment_faults import EXPECTED, environment
from .faults import all_of, every_gpu, put
from .host_faults import tier
from .nccl_faults import H100X8, below_switch, nccl, nccl_file
from .settings_faults import cdi_for, cut_into
from .software_faults import SLURM, left, planned

KILLED_READER = "the reading process died (signal 9), at GPU 0"
NO_INFINIBAND = put("infiniband", [])
NO_NVLINK_NO_PEERS = put("nvml.peers.0", {"gpus": [0, 1], "ancestor": "single", "read": "not_supported"})
BRIDGED = "a100-pcie-bridged"
REDIRECTED = below_switch(redirecting_bridges=["0000:18:08.0"], iommu="DMA")


def gpu_plan(every=None, single=None):
    """Return a plan with settings of GPUs."""
    settings = {"all": every or {}, "gpus": single or {}, "power_budget_watts": None}
    return {"gpu_settings": {"settings": settings}}


LIMITED = all_of(put("nvml.gpus.1.power_mw.limit", 300_000), put("nvml.gpus.1.power_mw.enforced_limit", 300_000))
ONE_LIMIT = gpu_plan({"power_limit_watts": 450}, single={"1": {"power_limit_watts": 300}})
WITHOUT_ECC = put("nvml.gpus.0.ecc.mode", {"enabled": False, "pending": False})
PERSISTENCE_OFF = put("nvml.gpus.0.persistence", value=False)
MIG_ON = put("nvml.gpus.0.mig", {"enabled": True, "pending": True})
HALVES = {"mig_instances": ["3g.20gb", "1g.5gb"]}
NO_FABRIC = every_gpu("fabric.state", "not_started")
SHARED = {"people": 2, "differs": {}, "unlisted": [], "limits": None}
HIDDEN = put("nvml.gpus.0.mig_instances", {"error": "NO_PERMISSION", "code": 4})
ONE_IS_UP = put(
    "network",
    [
        {"name": "enp1s0", "up": False, "ipv4": None},
        {"name": "eth0", "up": True, "ipv4": None},
        {"name": "wg0", "up": False, "ipv4": "10.9.0.1"},
    ],
)
VIRTUAL = put("system.virtualization", "kvm")
NO_FABRIC_INFO = every_gpu("fabric", nodes.ABSENT)
OF_ANOTHER_MAKER = all_of(
    put("nvml.gpus.1.subsystem", "1043:889d"),
    put("nvml.gpus.1.vbios", "95.02.3c.80.f0"),
    *(put(f"nvml.gpus.1.power_mw.{name}", 480_000) for name in ("limit", "enforced_limit", "default_limit")),
)
ALONE = put("group.hosts", [])
NO_DRIVER_PLANNED = {"branch": "580", "version": None, "kernel_modules": None}
SHOWN = dict.fromkeys(("libGLX_nvidia.so.0", "libEGL_nvidia.so.0", "nvidia_drv.so"), nodes.DRIVER)
LENT = {"address": "0000:65:00.0", "device": "10de:2684", "driver": "vfio-pci"}
WORKS = every_gpu("utilization.gpu", 100)
USED = {
    "pid": 7,
    "user": "li",
    "command": "python3",
    "since": None,
    "device": "nvidia0",
    "kind": "gpu",
    "service": False,
}
SLOW = all_of(WORKS, every_gpu("clocks.sm", 600), every_gpu("processes", [{"pid": 7, "memory_mib": 9}]))
LICENSED = all_of(
    put("pci.gpus.0.vgpu", value=True),
    put("nvml.gpus.0.licence", {"product": "NVIDIA Virtual Compute Server", "licensed": True}),
)
GRIDD = put("services.nvidia-gridd", {"load": "loaded", "active": "active"})
CASES = [
    ("vgpu-licence", "ok", "t4", LICENSED, None),
    ("vgpu-licence", "unknown", "t4", all_of(put("nvml.gpus.0.vbios", "00.00.00.00.00"), GRIDD), None),
    ("busy-for-nobody", "ok", "t4", all_of(WORKS, put("users_of_gpus.who", [USED])), None),
    ("busy-for-nobody", "ok", "t4", all_of(WORKS, put("nvml.gpus.0.persistence", value=False)), None),
    ("clock-without-reason", "ok", "t4", all_of(SLOW, every_gpu("clocks.event_reasons", 0x4)), None),
    (
        "clock-without-reason",
        "ok",
        "t4",
        all_of(SLOW, every_gpu("clocks.event_reasons", 0), every_gpu("clocks.sm", 1200)),
        None,
    ),
    ("drift", "skipped", "rtx4090x2", lambda _: None, None),
    ("drift", "ok", "rtx4090x2", left(), None),
    ("drift", "info", "rtx4090x2", left(), {"drift": ["/etc/nccl.conf was edited"]}),
    ("gpu-count", "ok", "rtx4090x2", put("pci.lent", [LENT]), None),
    ("gpu-count", "ok", "rtx4090x2", put("pci.other_gpus", [{**LENT, "maker": "Intel"}]), None),
    ("display-match", "skipped", "rtx4090x2", lambda _: None, None),
    ("display-match", "inapplicable", "rtx4090x2", lambda _: None, {"driver": {"display": False}}),
    ("display-match", "ok", "rtx4090x2", put("driver.display", SHOWN), {"driver": {"display": True}}),
    ("display-match", "ok", "rtx4090x2", put("driver.display", SHOWN), None),
    ("display-match", "unknown", "rtx4090x2", put("driver.display", {**SHOWN, "nvidia_drv.so": None}), None),
    (
        "display-match",
        "skipped",
        "rtx4090x2",
        all_of(put("driver.display", SHOWN), put("modules.nvidia.version", "570.1")),
        None,
    ),
    ("display-match", "fail", "rtx4090x2", lambda _: None, {"driver": {"display": True}}),
    ("driver-plan", "inapplicable", "rtx4090x2", put("driver.library", None), {"driver": NO_DRIVER_PLANNED}),
    ("driver-responsive", "ok", "rtx4090x2", put("pci.lent", [LENT]), None),
    ("driver-responsive", "ok", "t4", forbid("blacklist nvidia", "by_itself"), None),
    ("disk-errors", "unknown", "t4", put("kernel_log.readable", value=False), None),
    ("out-of-memory", "unknown", "t4", put("kernel_log.readable", value=False), None),
    ("clock", "ok", "t4", put("system.clock_ahead_seconds", -60), None),
    (
        "driver-responsive",
        "unknown",
        "t4",
        all_of(put("nvml.state", "error"), put("nvml.error", {"code": None, "text": KILLED_READER})),
        None,
    ),
    ("driver-next-boot", "ok", "t4", forbid("blacklist nvidia", "by_itself"), None),
    ("pcie-width", "ok", "a10g", VIRTUAL, None),
    ("pcie-width", "inapplicable", "vr200x4", lambda _: None, None),
    ("pcie-width", "inapplicable", "gb10", lambda _: None, None),
    ("pcie-width", "info", "unknown-narrow", lambda _: None, None),
    ("pcie-width", "info", "h100x8", all_of(VIRTUAL, every_gpu("pcie.width", 8)), None),
    ("fabric-manager", "inapplicable", "gb200x4", lambda _: None, None),
    ("fabric-manager", "inapplicable", "b200x8", all_of(VIRTUAL, put("services", {})), None),
    ("fabric-manager", "inapplicable", "a100-pcie-x2", put("services", {}), None),
    ("fabric", "inapplicable", "gb200x4", all_of(NO_FABRIC_INFO, put("imex.nodes", [])), None),
    ("fabric", "inapplicable", "b200x8", all_of(VIRTUAL, NO_FABRIC_INFO), None),
    ("siblings-alike", "ok", "rtx4090x2", OF_ANOTHER_MAKER, None),
    (
        "siblings-alike",
        "ok",
        "a100-pcie-x2",
        all_of(WITHOUT_ECC, put("nvml.gpus.0.memory_mib.total", 43008)),
        None,
    ),
    ("row-remapping", "unknown", "a100-pcie-x2", all_of(VIRTUAL, every_gpu("remapped_rows", nodes.ABSENT)), None),
    ("row-remapping", "inapplicable", "a100-pcie-x2", cut_into("7g.40gb"), None),
    ("ecc-uncorrected", "ok", "a100-pcie-x2", cut_into("7g.40gb"), None),
    (
        "ecc-uncorrected",
        "info",
        "a100-pcie-x2",
        all_of(cut_into("7g.40gb"), every_gpu("ecc.aggregate.uncorrected", 3)),
        None,
    ),
    ("gpu-settings", "inapplicable", "l40s", lambda _: None, gpu_plan()),
    ("gpu-settings", "ok", "rtx4090x2", LIMITED, ONE_LIMIT),
    ("power-limit", "ok", "rtx4090x2", LIMITED, ONE_LIMIT),
    ("siblings-alike", "ok", "rtx4090x2", LIMITED, ONE_LIMIT),
    ("ecc-enabled", "inapplicable", "l40s", WITHOUT_ECC, gpu_plan({"ecc": False})),
    ("siblings-alike", "ok", "rtx4090x2", put("nvml.gpus.0.vbios", {"error": "GPU_IS_LOST", "code": 15}), None),
    ("mig", "ok", "h100x8", MIG_ON, gpu_plan(single={"0": {"mig": True}})),
    ("mig-instances", "ok", "a100-pcie-x2", cut_into("1g.5gb", "3g.20gb"), gpu_plan(HALVES)),
    ("mig-instances", "ok", "a100-pcie-x2", cut_into("1g.5gb"), gpu_plan({"mig": True})),
    ("mig-instances", "ok", "a100-pcie-x2", cut_into(), gpu_plan({"mig_instances": []})),
    ("mig-instances", "skipped", "a100-pcie-x2", lambda _: None, gpu_plan(HALVES)),
    ("mig-instances", "inapplicable", "t4", lambda _: None, None),
    ("gpu-settings", "ok", "a100-pcie-x2", cut_into("7g.40gb"), gpu_plan(HALVES)),
    ("storage-mounts", "info", "l40s", tier(mounted=None, waits=True), None),
    ("cdi-specification", "ok", "a100-pcie-x2", cdi_for("0:0", "0:1"), None),
    ("cdi-specification", "ok", "a100-pcie-x2", cdi_for("MIG-1", "MIG-2"), None),
    ("cdi-specification", "ok", "a100-pcie-x2", all_of(cdi_for("0:0"), MIG_ON, HIDDEN), None),
    ("cdi-specification", "ok", "a100-pcie-x2", cdi_for("0:0", "0:1", "MIG-1", "MIG-2"), None),
    ("fabric", "inapplicable", "h100x8", all_of(cut_into("1g.5gb"), NO_FABRIC), None),
    ("persistence", "inapplicable", "l40s", PERSISTENCE_OFF, gpu_plan({"persistence": False})),
    ("cuda-libraries", "ok", "l40s", lambda _: None, planned(cudnn="9.14.0.64", nccl="2.28")),
    ("cuda-libraries", "skipped", "l40s", put("libraries", {"cudnn": [], "nccl": [], "tensorrt": []}), None),
    ("nccl-interfaces", "ok", "l40s", nccl("NCCL_SOCKET_IFNAME", "eth,enp,ib"), None),
    ("nccl-interfaces", "ok", "l40s", nccl("NCCL_SOCKET_IFNAME", "=lo"), None),
    ("nccl-interfaces", "ok", "l40s", nccl("NCCL_SOCKET_IFNAME", "^docker,lo"), None),
    ("nccl-interfaces", "ok", "l40s", all_of(ONE_IS_UP, nccl("NCCL_SOCKET_IFNAME", "eth,enp")), None),
    ("nccl-interfaces", "ok", "l40s", all_of(ONE_IS_UP, nccl("NCCL_SOCKET_IFNAME", "=wg0")), None),
    ("nccl-interfaces", "ok", "l40s", all_of(ONE_IS_UP, nccl("NCCL_SOCKET_IFNAME", "^enp,lo")), None),
    ("nccl-interfaces", "ok", "l40s", nccl("NCCL_SOCKET_IFNAME", "^=docker0,lo"), None),
    ("nccl-interfaces", "ok", "l40s", nccl("NCCL_SOCKET_IFNAME", "^l"), None),
    ("nccl-interfaces", "ok", "l40s", all_of(ALONE, nccl("NCCL_SOCKET_IFNAME", "^docker0")), None),
    ("nccl-interfaces", "ok", "h100x8", nccl("NCCL_IB_HCA", "^mlx5_9"), None),
    ("nccl-interfaces", "ok", "h100x8", nccl("NCCL_IB_HCA", "mlx5"), None),
    ("nccl-interfaces", "inapplicable", "h100x8", put("nccl", []), None),
    ("nccl-transports", "ok", "h100x8", nccl("NCCL_P2P_DISABLE", "0"), None),
    ("nccl-transports", "ok", "a100-pcie-x2", all_of(NO_NVLINK_NO_PEERS, nccl("NCCL_P2P_DISABLE", "1")), None),
    ("nccl-transports", "ok", "l40s", nccl("NCCL_SHM_DISABLE", "1"), None),
    ("nccl-transports", "ok", "h100x8", all_of(NO_INFINIBAND, nccl("NCCL_IB_DISABLE", "1")), None),
    ("memlock", "inapplicable", "h100x8", all_of(NO_INFINIBAND, put("limits.sessions.memlock", 65536)), None),
    ("memlock", "ok", "h100x8", put("limits.sessions.memlock", 64 << 30), None),
    ("open-files", "skipped", "t4", all_of(put("limits.sessions.nofile", 64), put("nvml.gpus", [])), None),
    ("open-files", "ok", "t4", put("limits.sessions.nofile", "unlimited"), None),
    ("open-files", "unknown", "t4", put("limits.sessions.nofile", None), None),
    ("shared-memory", "inapplicable", "t4", put("limits.shared_memory_mib", 64), None),
    ("pcie-errors", "info", "t4", put("pci.gpus.0.errors.nonfatal", 1), None),
    ("pcie-errors", "ok", "t4", put("pci.gpus", []), None),
    ("pcie-acs", "inapplicable", BRIDGED, REDIRECTED, None),
    ("pcie-acs", "inapplicable", "a100-pcie-x2", all_of(REDIRECTED, NO_NVLINK_NO_PEERS), None),
    ("pcie-acs", "inapplicable", "a100-pcie-x2", put("pci.gpus.0.redirecting_bridges", ["0000:18:08.0"]), None),
    ("pcie-acs", "inapplicable", "a100-pcie-x2", all_of(REDIRECTED, put("system.virtualization", "kvm")), None),
    ("pcie-acs", "ok", "a100-pcie-x2", below_switch(), None),
    ("pcie-acs", "unknown", "a100-pcie-x2", below_switch(redirecting_bridges=None), None),
    ("iommu", "inapplicable", BRIDGED, REDIRECTED, None),
    ("iommu", "inapplicable", "a100-pcie-x2", all_of(REDIRECTED, NO_NVLINK_NO_PEERS), None),
    ("iommu", "inapplicable", "a100-pcie-x2", all_of(REDIRECTED, put("system.virtualization", "kvm")), None),
    ("iommu", "ok", "a100-pcie-x2", below_switch(iommu=None), None),
    ("container-runtime", "ok", "t4", put("containers.docker.default_runtime", "runc"), None),
    ("cdi-specification", "inapplicable", "t4", put("containers.cdi", []), None),
    ("nccl-files", "inapplicable", "t4", nccl("NCCL_NET_PLUGIN", "aws-ofi"), None),
    ("nccl-files", "ok", "h100x8", nccl_file("NCCL_TOPO_FILE", gpus=H100X8), None),
    ("nccl-files", "ok", "h100x8", nccl_file("NCCL_GRAPH_FILE", devices=list(range(8))), None),
    ("driver-next-boot", "ok", "t4", put("kernels.1.initramfs.nvidia", value=True), None),
    ("slurm-munge", "inapplicable", "t4", put("slurm", None), None),
    ("slurm-node", "inapplicable", "t4", put("slurm", None), None),
    ("slurm-gpus", "inapplicable", "t4", put("slurm", None), None),
    ("slurm-gpus", "skipped", "t4", put("slurm", {**SLURM, "node": None}), None),
    ("slurm-door", "inapplicable", "t4", put("slurm", None), None),
    ("slurm-door", "info", "t4", all_of(put("slurm", None), put("accounts", SHARED)), None),  # by manners
    ("slurm-door", "ok", "t4", all_of(put("slurm", SLURM), put("accounts", SHARED)), None),
    ("slurm-munge", "ok", "rtx4090x2", put("slurm", SLURM), None),
    ("slurm-node", "ok", "rtx4090x2", put("slurm", SLURM), None),
    ("slurm-gpus", "ok", "rtx4090x2", put("slurm", SLURM), None),
    ("slurm-accounting", "inapplicable", "t4", put("slurm", None), None),
    ("slurm-accounting", "inapplicable", "t4", put("slurm", {**SLURM, "accounting": None}), None),
    ("slurm-accounting", "ok", "rtx4090x2", put("slurm", SLURM), None),
    ("gpu-metrics", "inapplicable", "t4", put("monitoring.collector", None), None),
    ("gpu-metrics", "ok", "t4", put("monitoring.collector.age_seconds", 119), None),
    ("group-firewall", "inapplicable", "t4", put("group.own_firewall", {"wanted": False, "loaded": None}), None),
    ("group-firewall", "unknown", "t4", put("group.own_firewall.loaded", None), None),
    ("group-names", "inapplicable", "t4", put("group.hosts", []), None),
    ("group-names", "ok", "t4", put("group.hosts.1.leads", {"node2": "10.1.2.4", "node2.lab": "10.1.2.4"}), None),
    ("node-exporter", "inapplicable", "t4", put("monitoring.exporter.listen", None), None),
    (
        "cdi-specification",
        "inapplicable",
        "t4",
        all_of(
            put("containers.cdi", []), put("engines.podman", "5.4.2"), put("engines.nvidia_container_toolkit", None)
        ),
        None,
    ),
]


@pytest.mark.parametrize(("check", "severity", "model", "inject", "plan"), CASES)
def test_no_fault_is_made_of_it(check, severity, model, inject, plan):
    facts = nodes.healthy(model)
    inject(facts)
    assert {r.severity for r in verify(nodes.node(facts, plan)) if r.id == check} == {severity}


@pytest.mark.parametrize("model", ["h100x8", "a100-pcie-bridged", "h100-nvl-x2", "b200x8"])
def test_a_node_that_is_cut_as_declared_has_no_finding(model):
    facts = nodes.healthy(model)
    cut_into("3g.20gb", "4g.20gb")(facts)
    facts["gpu_settings"] = {"all": {"mig_instances": ["3g.20gb", "4g.20gb"]}}
    results = verify(nodes.node(facts))
    assert [r for r in results if r.severity in ("warn", "fail", "unknown")] == []
    assert {r.severity for r in results if r.id in ("nvlink", "peer-access")} == {"inapplicable"}


def test_a_framework_is_not_asked_for_gpus_that_are_cut():
    facts = nodes.healthy("a100-pcie-x2")
    facts["environments"] = [environment(gpus=[])]
    whole = next(r for r in verify(nodes.node(facts)) if r.id == "environment-gpus")
    cut_into("7g.40gb")(facts)
    cut = next(r for r in verify(nodes.node(facts)) if r.id == "environment-gpus")
    assert (whole.severity, cut.severity) == ("fail", "inapplicable")


def test_simulated_node_stands_for_a_machine_though_it_is_a_container():
    facts = nodes.healthy("a100-pcie-x2")
    REDIRECTED(facts)
    facts["system"].update(container=True, virtualization="docker")
    facts["simulated"] = "simulated A100"
    found = {r.id: r.severity for r in verify(nodes.node(facts))}
    assert (found["pcie-acs"], found["iommu"]) == ("warn", "warn")


NO_PYTORCH = {"state": "skipped", "reason": "no interpreter with PyTorch is set", "lacks_pytorch": True}
ALTERED = {"name": "vision", "expected": None, "answer": None, "gpus_tried": False}
CPU_ONLY = {**environment(cuda=None), "expected": {**EXPECTED, "cuda": None}}


@pytest.mark.parametrize(
    ("check", "record", "environments", "severity"),
    [
        ("all-reduce", NO_PYTORCH, [], "inapplicable"),
        ("all-reduce", NO_PYTORCH, [CPU_ONLY], "inapplicable"),
        ("all-reduce", NO_PYTORCH, [environment()], "skipped"),
        ("all-reduce", NO_PYTORCH, [ALTERED], "skipped"),
        ("all-reduce", {"state": "skipped", "reason": "in use by anna"}, [], "skipped"),
        ("all-reduce", {"state": "skipped", "reason": "needs two GPUs", "applies": False}, [], "inapplicable"),
        ("peer-copies", {"state": "skipped", "reason": "in use by anna"}, [], "skipped"),
        ("container-gpu", {"state": "skipped", "reason": "no image is set", "applies": False}, [], "inapplicable"),
    ],
)
def test_a_test_that_was_left_out_is_not_for_a_machine_that_needs_none(check, record, environments, severity):
    facts = loaded.measured("a100-pcie-x2")
    facts["environments"] = environments
    name = {"container-gpu": "container"}.get(check, check.replace("-", "_"))
    facts["measurements"][name] = record
    results = verify(nodes.node(facts, level="standard"))
    assert {r.severity for r in results if r.id == check} == {severity}


@pytest.mark.parametrize(
    ("model", "plan", "severity"),
    [
        ("l40s", None, "skipped"),
        ("rtx4090x2", None, "inapplicable"),
        ("l40s", gpu_plan({"ecc": False}), "inapplicable"),
    ],
)
def test_counters_that_a_board_hides_are_looked_for_where_its_model_has_them(model, plan, severity):
    facts = nodes.healthy(model)
    for gpu in facts["nvml"]["gpus"]:
        gpu["ecc"]["volatile"] = dict.fromkeys(gpu["ecc"]["volatile"], nodes.ABSENT)
        gpu["ecc"]["mode"] = {"enabled": False, "pending": False}
    found = [r for r in verify(nodes.node(facts, plan)) if r.id in ("ecc-corrected", "ecc-uncorrected")]
    assert {r.severity for r in found} == {severity}


IN_USE = {"state": "skipped", "reason": "in use by python3 (PID 4711, user anna)"}
LEFT_ALONE = all_of(
    put("measurements.gpus.0.tests", dict.fromkeys(("smoke", "copies", "memory", "matmul", "burn_in"), IN_USE)),
    put("measurements.gpus.0.errors.after", {"uncorrected": 1, "remapped_rows": 1, "kernel_log": {"79": 1}}),
)


@pytest.mark.parametrize(
    ("inject", "severity"),
    [
        (LEFT_ALONE, "skipped"),
        (
            all_of(
                put("measurements.gpus.0.errors.before.kernel_log", {"79": 2}),
                put("measurements.gpus.0.errors.after.kernel_log", {"79": 2}),
            ),
            "ok",
        ),
    ],
    ids=["of a GPU in use", "of earlier days"],
)
def test_errors_that_no_test_brought_are_none_under_load(inject, severity):
    facts = loaded.measured("l40s")
    inject(facts)
    results = verify(nodes.node(facts, level="burn-in"))
    assert {r.severity for r in results if r.id == "load-errors"} == {severity}


@pytest.mark.parametrize(
    ("check", "inject", "severity"),
    [
        ("memory-errors", put("hardware.memory.errors", None), "skipped"),
        ("boot-space", put("filesystems.0.mount", "/boot"), "ok"),
        (
            "boot-space",
            put("filesystems", [{**machines.FILESYSTEM, "mount": "/boot", "size_mib": 500, "free_mib": 120}]),
            "ok",
        ),
        ("boot-space", put("hardware.kernel_mib", None), "skipped"),
    ],
    ids=["nobody counts", "room", "just enough room", "no kernel"],
)
def test_parts_of_a_machine_that_are_as_they_should_be(check, inject, severity):
    facts = nodes.healthy("l40s")
    inject(facts)
    assert {r.severity for r in verify(nodes.node(facts)) if r.id == check} == {severity}


def test_a_full_file_system_with_several_places_is_one_finding():
    facts = nodes.healthy("l40s")
    (root,) = facts["filesystems"]
    other = {**root, "source": "/dev/sdb1", "mount": "/data"}
    facts["filesystems"] = [
        {**one, "free_mib": 0} for one in (root, {**root, "mount": "/boot"}, {**root, "mount": "/var"}, other)
    ]
    told = [r.summary.partition(":")[0] for r in verify(nodes.node(facts)) if r.id == "disks"]
    assert told == ["/ is full", "/data is full"]
