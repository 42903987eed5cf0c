"""Each alert fires on the series that it is for, and on no near miss; Debian's promtool judges."""

import json
import re
import shutil
import subprocess
from dataclasses import dataclass

import pytest
import yaml
from ansible_collections.gpulab.node.plugins.module_utils.checks.model import SEVERITIES
from ansible_collections.gpulab.node.plugins.module_utils.monitoring import metrics
from ansible_collections.gpulab.node.plugins.plugin_utils.report import formats

from unit.checks import nodes
from unit.report import runs

from .conftest import ROLE, ROOT
from .reading import facts

ALERTS = ROLE / "files/alerts.yml"
GROUPS = yaml.safe_load(ALERTS.read_text())["groups"]
RULES = {rule["alert"]: rule for group in GROUPS for rule in group["rules"] if "alert" in rule}
NODE = 'instance="node07"'
GPU = f'{NODE}, uuid="GPU-1", index="1", model="NVIDIA X"'
RECORDED = {rule["record"] for group in GROUPS for rule in group["rules"] if "record" in rule}
# What others measure: Prometheus itself, node exporter, and DCGM's exporter without any setting
FOREIGN = {"up", "ALERTS", "node_textfile_mtime_seconds", "node_textfile_scrape_error", "node_filesystem_device_error"}
FOREIGN |= {f"node_filesystem_{name}" for name in ("avail_bytes", "size_bytes", "readonly")}
FOREIGN |= {"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "DCGM_FI_PROF_DRAM_ACTIVE"}


@dataclass(frozen=True)
class Case:
    """Series by name, in promtool's notation with a minute between values, and how many alerts fire at a minute."""

    alert: str
    fires: int
    minute: int
    series: dict[str, str]


def gpu(name, values, **labels):
    more = "".join(f', {label}="{value}"' for label, value in labels.items())
    return {f"gpulab_gpu_{name}{{{GPU}{more}}}": values}


def node(name, values, **labels):
    more = "".join(f', {label}="{value}"' for label, value in labels.items())
    return {f"{name}{{{NODE}{more}}}": values}


def disk(free, readonly=0, fstype="ext4"):
    where = {"mountpoint": "/data", "fstype": fstype}
    values = {"avail_bytes": free, "size_bytes": 100, "readonly": readonly}
    return {
        series: text
        for name, value in values.items()
        for series, text in node(f"node_filesystem_{name}", f"{value}x20", **where).items()
    }


def check(rank, **labels):
    return node("gpulab_check_severity", f"{rank}x5", **{"check": "gpu-count", **labels})


UP = node("up", "0x20000", job="gpulab")
PROVEN, COLLECTED = "gpulab_verified_timestamp_seconds", "gpulab_collector_timestamp_seconds"
PROM = "/var/lib/prometheus/node-exporter/gpulab-gpu.prom"
ECC = {"type": "uncorrected", "since": "driver_load"}
KWH = "gpulab:user_gpu_kwh:1h"
A_DAY = 1440  # minutes
FIRES, SILENT = 1, 0  # how many alerts
IDLE = gpu("utilization_ratio", "0x300", unit="gpu")
HELD = gpu("processes", "1x300")
HELD_BY_LI, HELD_BY_WEI = (gpu("user_processes", "1x300", user=user) for user in ("li", "wei"))
SEEN = "gpulab_kernel_log_error_timestamp_seconds"
CASES = [
    Case("NodeFenced", FIRES, 0, node("gpulab_node_fenced", "1")),
    Case("NodeFenced", FIRES, 300, node("gpulab_node_fenced", "1 _x300")),
    Case("NodeFenced", SILENT, 370, node("gpulab_node_fenced", "1 _x370")),
    Case("NodeFenced", SILENT, 2, node("gpulab_node_fenced", "1 0 0")),
    Case("NodeExporterDown", FIRES, 6, node("up", "0x10", job="gpulab")),
    Case("NodeExporterDown", SILENT, 6, node("up", "0x3 1x7", job="gpulab")),
    Case("NodeExporterDown", SILENT, 6, node("up", "0x10", job="other")),
    Case("ProofFailed", FIRES, 0, check(5)),
    Case("ProofFailed", 2, 0, {**check(5), **check(5, check="ecc", uuid="GPU-1", bus_id="0000:19:00.0")}),
    Case("ProofFailed", SILENT, 0, {**check(4), **node("gpulab_host_severity", "4x5", state="verified")}),
    Case("ProofFailed", FIRES, 0, node("gpulab_host_severity", "5x5", state="failed")),
    Case("ProofFailed", FIRES, 0, {**check(5), **node("gpulab_host_severity", "5x5", state="verified")}),
    Case("ProofStale", FIRES, 10160, {**node(PROVEN, "0x20000"), **UP}),
    Case("ProofStale", SILENT, 10130, {**node(PROVEN, "0x20000"), **UP}),
    Case("ProofStale", FIRES, 10160, {**node(PROVEN, "0x3"), **node(COLLECTED, "0x3"), **UP}),
    Case(
        "ProofStale",
        SILENT,
        10160,
        {**node(PROVEN, "0x3"), **node(COLLECTED, "0x3"), **UP, f'up{{{NODE}, job="gpulab"}}': "1x3"},
    ),
    Case("ProofStale", FIRES, 80, node(COLLECTED, "0x100")),
    Case("ProofStale", SILENT, 80, {**node(COLLECTED, "0x100"), **node(PROVEN, "0x5 _x95")}),
    Case("DriverBelowFloor", FIRES, 0, check(4, check="driver-security")),
    Case("DriverBelowFloor", SILENT, 0, {**check(3, check="driver-security"), **check(4, check="driver-plan")}),
    Case("GpuMetricsStale", FIRES, 8, node("node_textfile_mtime_seconds", "60x10", file=PROM)),
    Case("GpuMetricsStale", SILENT, 8, node("node_textfile_mtime_seconds", "0+60x10", file=PROM)),
    Case("GpuMetricsStale", SILENT, 8, node("node_textfile_mtime_seconds", "60x10", file="/x/other.prom")),
    Case("GpuMetricsStale", FIRES, 3, node("node_textfile_scrape_error", "1x10")),
    Case("GpuMetricsStale", SILENT, 3, node("node_textfile_scrape_error", "0x10")),
    Case("GpuDriverHung", FIRES, 3, node("gpulab_nvml_state", "1x10", state="unresponsive")),
    Case("GpuDriverHung", SILENT, 3, node("gpulab_nvml_state", "1x10", state="ok")),
    Case("GpuDriverHung", SILENT, 3, node("gpulab_nvml_state", "1 0 1 0 1", state="unresponsive")),
    Case("GpuDown", FIRES, 3, node("gpulab_gpu_up", "0x10", bus_id="0000:19:00.0")),
    Case("GpuDown", SILENT, 3, node("gpulab_gpu_up", "1x10", bus_id="0000:19:00.0")),
    Case("GpuDriverMismatch", FIRES, 16, node("gpulab_driver_mismatch", "1x20")),
    Case("GpuDriverMismatch", SILENT, 16, node("gpulab_driver_mismatch", "1x10 0x10")),
    Case("GpuHot", FIRES, 6, gpu("temperature_celsius", "85x10", sensor="gpu")),
    Case("GpuHot", SILENT, 6, gpu("temperature_celsius", "84x10", sensor="gpu")),
    Case("GpuHot", SILENT, 6, gpu("temperature_celsius", "95x10", sensor="memory")),
    Case("GpuHot", FIRES, 6, gpu("temperature_margin_celsius", "4x10")),
    Case(
        "GpuHot",
        SILENT,
        6,
        {**gpu("temperature_celsius", "86x10", sensor="gpu"), **gpu("temperature_margin_celsius", "5x10")},
    ),
    Case("GpuXid", FIRES, 60, node(SEEN, "60x200", kind="xid", xid="79", bus_id="0000:19:00.0", severity="fail")),
    Case("GpuXid", FIRES, 60, node(SEEN, "60x200", kind="adapter_power", bus_id="0000:c1:00.0", severity="warn")),
    Case("GpuXid", SILENT, 60, node(SEEN, "60x200", kind="xid", xid="31", bus_id="0000:19:00.0", severity="info")),
    Case("GpuXid", SILENT, 62, node(SEEN, "60x200", kind="xid", xid="79", bus_id="0000:19:00.0", severity="fail")),
    Case(
        "GpuXid",
        FIRES,
        60,
        {
            **node(SEEN, "60x200", kind="xid", xid="149", bus_id="0000:19:00.0", severity="fail"),
            **node(SEEN, "0x200", kind="xid", xid="149", bus_id="0000:19:00.0", severity="warn"),
        },
    ),
    Case("GpuEccUncorrected", FIRES, 10, gpu("ecc_errors_total", "7x5 8x10", **ECC)),
    Case("GpuEccUncorrected", SILENT, 10, gpu("ecc_errors_total", "7x20", **ECC)),
    Case("GpuEccUncorrected", SILENT, 10, gpu("ecc_errors_total", "7x5 8x10", **{**ECC, "type": "corrected"})),
    Case("GpuRowRemapFailure", FIRES, 1, gpu("row_remap_failure", "1x5")),
    Case("GpuRowRemapFailure", SILENT, 1, gpu("row_remap_failure", "0x5")),
    Case("GpuRowRemapPending", FIRES, 1, gpu("row_remap_pending", "1x5")),
    Case("GpuRowRemapPending", SILENT, 1, gpu("row_remap_pending", "0x5")),
    Case("GpuPcieWidth", FIRES, 20, gpu("pcie_width", "16x4 8x30")),
    Case("GpuPcieWidth", SILENT, 11, {**gpu("pcie_width", "8x20"), **gpu("pcie_width_max", "16x20")}),
    Case("GpuPcieReplays", FIRES, 70, gpu("pcie_replays_total", "0+2x80")),
    Case("GpuPcieReplays", SILENT, 70, gpu("pcie_replays_total", "500+1x80")),
    Case("GpuNvlinkDown", FIRES, 10, gpu("nvlink_active", "1x3 0x20", link="3")),
    Case("GpuNvlinkDown", SILENT, 10, gpu("nvlink_active", "0x20", link="3")),
    Case(
        "GpuNvlinkDown",
        SILENT,
        10,
        {**gpu("nvlink_active", "0x20", link="3"), **gpu("nvlink_active", "1x20", link="4")},
    ),
    Case("GpuThrottled", FIRES, 11, gpu("clock_event", "1x20", reason="hw_thermal")),
    Case("GpuThrottled", SILENT, 11, gpu("clock_event", "1x5 0 1x14", reason="hw_thermal")),
    Case("GpuThrottled", SILENT, 11, gpu("clock_event", "1x20", reason="idle")),
    Case("GpuEccCorrected", FIRES, 60, gpu("ecc_errors_total", "0+3x70", **{**ECC, "type": "corrected"})),
    Case("GpuEccCorrected", SILENT, 60, gpu("ecc_errors_total", "500+1x70", **{**ECC, "type": "corrected"})),
    Case("GpuRecoveryAction", FIRES, 3, gpu("recovery_action", "2x5")),
    Case("GpuRecoveryAction", SILENT, 3, gpu("recovery_action", "0x5")),
    Case("GpuHeldIdle", FIRES, 250, {**gpu("memory_used_bytes", "3000000000x300"), **IDLE, **HELD}),
    Case("GpuHeldIdle", FIRES, 250, {**gpu("memory_used_bytes", "3000000000x300"), **IDLE, **HELD, **HELD_BY_LI}),
    Case(
        "GpuHeldIdle",
        2,
        250,
        {**gpu("memory_used_bytes", "3000000000x300"), **IDLE, **HELD, **HELD_BY_LI, **HELD_BY_WEI},
    ),
    Case("GpuHeldIdle", SILENT, 250, {**gpu("memory_used_bytes", "1000000000x300"), **IDLE, **HELD}),
    Case(
        "GpuHeldIdle", SILENT, 250, {**gpu("memory_used_bytes", "3000000000x300"), **IDLE, **gpu("processes", "0x300")}
    ),
    Case(
        "GpuHeldIdle",
        SILENT,
        250,
        {
            **gpu("memory_used_bytes", "3000000000x300"),
            **HELD,
            **gpu("utilization_ratio", "0x200 0.5 0x99", unit="gpu"),
        },
    ),
    Case("DiskFull", FIRES, 11, disk(4)),
    Case("DiskFull", SILENT, 11, disk(6)),
    Case("DiskFull", SILENT, 11, disk(0, fstype="squashfs")),
    Case("DiskFull", SILENT, 11, disk(0, readonly=1)),
    Case("MountGone", FIRES, 3, node("gpulab_mount_mounted", "0x5", mountpoint="/data")),
    Case("MountGone", SILENT, 3, node("gpulab_mount_mounted", "1x5", mountpoint="/data")),
    Case("MountDead", FIRES, 6, node("node_filesystem_device_error", "1x10", mountpoint="/data", fstype="nfs4")),
    Case("MountDead", SILENT, 6, node("node_filesystem_device_error", "0x10", mountpoint="/data", fstype="nfs4")),
    Case("MountDead", SILENT, 6, node("node_filesystem_device_error", "1x10", mountpoint="/run", fstype="tmpfs")),
]


@pytest.fixture
def promtool():
    """Return Debian's promtool."""
    path = shutil.which("promtool")
    assert path, "promtool is missing: make test-setup installs it"
    return path


@pytest.mark.parametrize("alert", RULES)
def test_every_alert_is_seen_to_fire_and_to_be_silent(alert):
    assert {FIRES, SILENT} <= {case.fires for case in CASES if case.alert == alert}


def count(case, expected):
    """Return a test of promtool's: how many alerts of this name fire."""
    name = f'count(ALERTS{{alertname="{case.alert}", alertstate="firing"}}) or vector(0)'
    return {
        "interval": "1m",
        "input_series": [{"series": series, "values": values} for series, values in case.series.items()],
        "promql_expr_test": [
            {"expr": name, "eval_time": f"{case.minute}m", "exp_samples": [{"labels": "{}", "value": expected}]}
        ],
    }


def judge(promtool, directory, tests, every="1m"):
    shutil.copy(ALERTS, directory)
    file = directory / "tests.yml"
    file.write_text(yaml.safe_dump({"rule_files": [ALERTS.name], "evaluation_interval": every, "tests": tests}))
    done = subprocess.run([promtool, "test", "rules", str(file)], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("every", ["1m", "10m"])
def test_alerts_fire_and_are_silent_as_they_should(promtool, tmp_path, every):
    """What takes a week is looked at every ten minutes."""
    cases = [case for case in CASES if (case.minute > A_DAY) == (every == "10m")]
    status, said = judge(promtool, tmp_path, [count(case, case.fires) for case in cases], every)
    assert status == 0, said


OTHER = 'instance="node08", uuid="GPU-2", index="1"'  # the same index on another node
COUNTS_600_W = gpu("energy_joules_total", "0+36000x60")
BY_LI = gpu("user_processes", "2x60", user="li")
FRESH = node("gpulab_collector_timestamp_seconds", "0+60x60")
DIED = node("gpulab_collector_timestamp_seconds", "0+60x25 1500x35")
AN_HOUR = {
    "one GPU for an hour, another for half of it": (
        "gpulab:user_gpu_hours:1h",
        {**BY_LI, f'gpulab_gpu_user_processes{{{NODE}, uuid="GPU-2", user="li"}}': "1x29 0x30"},
        {'instance="node07", user="li"': 1.5},
    ),
    "hours of the node, of its GPUs, and those in use": (
        "gpulab:gpu_hours:1h - on (instance) gpulab:gpu_busy_hours:1h + on (instance) gpulab:node_hours:1h",
        {
            **node("gpulab_gpu_up", "1x60", bus_id="a"),
            **node("gpulab_gpu_up", "1x60", bus_id="b"),
            **BY_LI,
        },
        {'instance="node07"': 2},
    ),
    "a collector that stands still is not measured": (
        "gpulab:node_hours:1h",
        DIED,
        {'instance="node07"': 0.5},
    ),
    "what a collector that died left behind is in no hours of GPUs": (
        "gpulab:gpu_hours:1h",
        {**DIED, **node("gpulab_gpu_up", "1x60", bus_id="a")},
        {'instance="node07"': 0.5},
    ),
    "nor in hours in use": ("gpulab:gpu_busy_hours:1h", {**DIED, **BY_LI}, {'instance="node07"': 0.5}),
    "nor in those of a user": ("gpulab:user_gpu_hours:1h", {**DIED, **BY_LI}, {'instance="node07", user="li"': 0.5}),
    "nor in the energy": (
        KWH,
        {**DIED, **gpu("power_watts", "600x60"), **BY_LI},
        {'estimated="yes", instance="node07", user="li"': 0.3},
    ),
    "a GPU that does not answer has no hours": (
        "gpulab:gpu_hours:1h",
        {**node("gpulab_gpu_up", "1x60", bus_id="a"), **node("gpulab_gpu_up", "0x60", bus_id="b")},
        {'instance="node07"': 1},
    ),
    "energy of one user": (KWH, {**COUNTS_600_W, **BY_LI}, {'instance="node07", user="li"': 0.6}),
    "energy is shared by those who share the GPU": (
        KWH,
        {**COUNTS_600_W, **BY_LI, **gpu("user_processes", "5x60", user="wei")},
        {'instance="node07", user="li"': 0.3, 'instance="node07", user="wei"': 0.3},
    ),
    "energy of an idle GPU is nobody's": (
        KWH,
        {**COUNTS_600_W, **gpu("user_processes", "1x29 0x31", user="li")},
        {'instance="node07", user="li"': 0.3, 'instance="node07", user="nobody"': 0.3},
    ),
    "a counter that begins again": (
        KWH,
        {**gpu("energy_joules_total", "0+36000x29 0+36000x30"), **BY_LI},
        {'instance="node07", user="li"': 0.6},
    ),
    "a GPU without a counter is estimated": (
        KWH,
        {**gpu("power_watts", "600x60"), **BY_LI},
        {'estimated="yes", instance="node07", user="li"': 0.6},
    ),
    "a counter is believed rather than a look": (
        KWH,
        {**COUNTS_600_W, **gpu("power_watts", "100x60"), **BY_LI},
        {'instance="node07", user="li"': 0.6},
    ),
    "the same index on another node is another GPU": (
        KWH,
        {
            **COUNTS_600_W,
            **BY_LI,
            'gpulab_collector_timestamp_seconds{instance="node08"}': "0+60x60",
            f"gpulab_gpu_energy_joules_total{{{OTHER}}}": "0+18000x60",
            f'gpulab_gpu_user_processes{{{OTHER}, user="wei"}}': "1x60",
        },
        {'instance="node07", user="li"': 0.6, 'instance="node08", user="wei"': 0.3},
    ),
    "more than a GPU can draw is cut off": (
        KWH,
        {**gpu("energy_joules_total", "0+1000000000000x60"), **BY_LI},
        {'instance="node07", user="li"': 3.0},
    ),
    "a node that makes up labels spoils nobody's energy": (
        KWH,
        {
            **COUNTS_600_W,
            **BY_LI,
            'gpulab_collector_timestamp_seconds{instance="node08"}': "0+60x60",
            **{f'gpulab_gpu_power_watts{{{OTHER}, estimated="{label}"}}': "600x60" for label in "ab"},
            f'gpulab_gpu_user_processes{{{OTHER}, user="wei"}}': "1x60",
        },
        {'instance="node07", user="li"': 0.6, 'estimated="yes", instance="node08", user="wei"': 0.6},
    ),
    "a node that says what the rules record spoils nobody's energy": (
        KWH,
        {
            **COUNTS_600_W,
            **BY_LI,
            **{
                f'gpulab:gpu_watts{{instance="node08", uuid="{uuid}", user="{user}"}}': "600x60"
                for uuid in ("GPU-2", "GPU-3")
                for user in ("x", "y")
            },
            f'gpulab_gpu_user_processes{{{OTHER}, user="wei"}}': "1x60",
        },
        {
            'instance="node07", user="li"': 0.6,
            'instance="node08", user="wei"': 0.6,
            'instance="node08", user="nobody"': 0.6,
        },
    ),
}


@pytest.mark.parametrize(("rule", "series", "recorded"), AN_HOUR.values(), ids=AN_HOUR)
def test_an_hour_is_recorded_by_user_and_node(rule, series, recorded, promtool, tmp_path):
    """A minute more or less is none."""
    samples = [{"labels": f"{{{labels}}}", "value": value} for labels, value in recorded.items()]
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in {**FRESH, **series}.items()],
        "promql_expr_test": [{"expr": f"round({rule}, 0.1)", "eval_time": "60m", "exp_samples": samples}],
    }
    status, said = judge(promtool, tmp_path, [test])
    assert status == 0, said


def test_who_holds_an_idle_gpu_is_named(promtool, tmp_path):
    case = Case("GpuHeldIdle", 1, 250, {**gpu("memory_used_bytes", "3000000000x300"), **IDLE, **HELD, **HELD_BY_LI})
    test = count(case, 1)
    test["promql_expr_test"][0]["expr"] = 'count(ALERTS{alertname="GpuHeldIdle", user="li", index="1"})'
    status, said = judge(promtool, tmp_path, [test])
    assert status == 0, said


@pytest.mark.parametrize("case", [CASES[0], CASES[1]], ids=["fires", "silent"])
def test_promtool_would_say_if_they_did_not(promtool, tmp_path, case):
    status, said = judge(promtool, tmp_path, [count(case, 1 - case.fires)])
    assert status != 0
    assert "FAILED" in said


def test_a_slow_gpu_is_told_by_reasons_that_there_are():
    (reasons,) = re.findall(r'reason=~"([^"]+)"', RULES["GpuThrottled"]["expr"])
    assert set(reasons.split("|")) <= metrics.EVENT_REASONS.keys()


def test_the_ranks_of_a_proof_are_those_of_its_severities():
    ranks = {
        alert: re.findall(r">?== (\d)|>= (\d)", RULES[alert]["expr"]) for alert in ("ProofFailed", "DriverBelowFloor")
    }
    assert {max(pair) for pair in ranks["ProofFailed"]} == {str(SEVERITIES.index("fail"))}
    assert {max(pair) for pair in ranks["DriverBelowFloor"]} == {str(SEVERITIES.index("warn"))}


def known_metrics():
    """Return the names that the collector knows, from boards that differ."""
    event = {"kind": "xid", "xid": 79, "bus_id": "0000:19:00.0", "count": 1, "time": None}
    log = {"readable": True, "events": [event]}
    proven = next(host for host in runs.mixed()["hosts"] if host["state"] == "verified")
    found = FOREIGN | RECORDED | set(re.findall(r"^# HELP (\w+)", formats.prometheus(proven, 0.0), re.MULTILINE))
    for model in nodes.MODELS:
        given = facts(model, kernel_log=log, mounts={"/data": True}, owners={7: "li"})
        given["nvml"]["gpus"][0]["processes"] = [{"pid": 7, "memory_mib": 1}]
        found |= set(metrics.measure(given).names())
    return found


def named(expression):
    """Return the metrics that an expression names, recorded ones too."""
    bare = re.sub(r"\{[^}]*\}|\[[^\]]*\]|\b(?:on|by) \([^)]*\)", "", expression)
    return set(re.findall(r"\b(?:gpulab_|node_|DCGM_)\w+|\bgpulab:[\w:]+|\bup\b|\bALERTS\b", bare))


@pytest.mark.parametrize("alert", RULES)
def test_alerts_ask_for_metrics_that_there_are(alert):
    assert named(RULES[alert]["expr"])
    assert named(RULES[alert]["expr"]) <= known_metrics()


@pytest.mark.parametrize("alert", RULES)
def test_alerts_say_what_to_do(alert):
    rule = RULES[alert]
    assert rule["labels"]["severity"] in ("warning", "critical")
    assert "$labels.instance" in rule["annotations"]["summary"]
    assert rule["annotations"]["description"].endswith(".")
    assert rule["annotations"]["remedy"]


HEADING = re.compile(r"^#+ (.*)", re.MULTILINE)


@pytest.mark.parametrize("alert", RULES)
def test_a_link_leads_to_where_the_alert_is_explained(alert):
    page, anchor = RULES[alert]["annotations"]["runbook_url"].split("#")
    repository = yaml.safe_load((ROOT / "galaxy.yml").read_text())["repository"]
    place = page.removeprefix(f"{repository}/blob/main/")
    assert anchor == alert.lower()
    assert anchor in [title.lower().replace(" ", "-") for title in HEADING.findall((ROOT / place).read_text())]


HOSTS, GPUS_OF_A_HOST, LINES = 50, 8, 10


def panels():
    """Return the dashboard's panels, those of rows that are folded too."""
    outer = json.loads((ROLE / "files/dashboard.json").read_text())["panels"]
    return [inner for panel in outer for inner in (panel, *panel.get("panels", []))]


def expressions(*kinds, lines=LINES):
    """Return what the panels of these kinds ask for, with Grafana's variables filled in."""
    texts = [target["expr"] for panel in panels() if panel["type"] in kinds for target in panel["targets"]]
    filled = {"$instance": ".*", "$gpu": ".*", "$lines": str(lines), "$__range": "10m"}
    return [re.sub(r"\$\w+", lambda found: filled[found[0]], text) for text in texts]


def test_the_dashboard_asks_for_metrics_that_there_are():
    for expression in expressions("stat", "table", "timeseries"):
        assert named(expression)
        assert named(expression) <= known_metrics()


@pytest.fixture(scope="module")
def many_gpus():
    """Return the series of 400 GPUs, each a little different from the others."""
    series = {}
    events = [{"kind": "xid", "xid": 79, "bus_id": f"0000:{n}:00.0", "count": 1, "time": None} for n in range(8)]
    log = {"readable": True, "events": events}
    asked = set().union(*(named(one) for one in expressions("stat", "table", "timeseries")))
    for line in metrics.measure(facts("h100x8", kernel_log=log)).text().splitlines():
        name, labels, value = re.fullmatch(r"(\w*)(?:\{(.*)\})?.* (\S+)", line).groups()
        for host in range(HOSTS) if name in asked else ():
            own = (labels or "").replace('uuid="', f'uuid="{host}-')
            step = 1 if name == "gpulab_gpu_ecc_errors_total" else 0  # every GPU has errors
            series[f'{name}{{instance="n{host}",{own}}}'] = f"{float(value) + host}+{step}x10"
    return [{"series": name, "values": values} for name, values in series.items()]


def counted(promtool, directory, series, wanted):
    """Return promtool's verdict on {expression: how many series it has}, after ten minutes."""
    tests = [
        {"expr": f"count({expression}) or vector(0)", "eval_time": "10m", "exp_samples": [{"labels": "{}", "value": n}]}
        for expression, n in wanted.items()
    ]
    file = directory / "tests.json"
    document = {"interval": "1m", "input_series": series, "promql_expr_test": tests}
    file.write_text(json.dumps({"tests": [document], "evaluation_interval": "10m"}))
    done = subprocess.run([promtool, "test", "rules", str(file)], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_no_chart_has_more_lines_than_asked_for_at_400_gpus(promtool, tmp_path, many_gpus):
    few = {f"({one}) and on () (count({one}) > {LINES})": 0 for one in expressions("timeseries")}
    all_of_them = [one for one in expressions("timeseries", lines=1000) if "temperature" in one]
    every = dict.fromkeys(all_of_them, HOSTS * GPUS_OF_A_HOST)
    assert len(every) == 2
    status, said = counted(promtool, tmp_path, many_gpus, {**few, **every})
    assert status == 0, said


def test_the_table_has_a_line_for_each_node(promtool, tmp_path, many_gpus):
    columns = [one for one in expressions("table") if "ALERTS" not in one]
    status, said = counted(promtool, tmp_path, many_gpus, dict.fromkeys(columns, HOSTS))
    assert status == 0, said


def test_panels_have_a_place_of_their_own():
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels()]
    assert len(set(places)) == len(places)
    assert len({panel["id"] for panel in panels()}) == len(places)


def test_prometheus_takes_the_scrape_configuration(promtool, tmp_path):
    (tmp_path / "targets").mkdir()
    for name in ("alerts.yml", "prometheus.yml"):
        shutil.copy(ROLE / "files" / name, tmp_path)
    target = [{"targets": ["10.1.2.3:9100"], "labels": {"instance": "node07", "host_type": "workstations"}}]
    (tmp_path / "targets/node07.yml").write_text(yaml.safe_dump(target))
    done = subprocess.run(
        [promtool, "check", "config", str(tmp_path / "prometheus.yml")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", ["monitoring/files/prometheus.yml", "monitoring_server/templates/prometheus.yml.j2"])
def test_no_node_can_say_what_the_rules_record(path):
    text = re.sub(r"\{\{.*?\}\}", "x", (ROLE.parent / path).read_text())
    for job in yaml.safe_load(text)["scrape_configs"]:
        (rule,) = job["metric_relabel_configs"]
        assert (rule["source_labels"], rule["action"]) == (["__name__"], "drop")
        assert all(re.fullmatch(rule["regex"], name) for name in RECORDED)
        assert not re.fullmatch(rule["regex"], "gpulab_gpu_up")
