"""Monitoring, seen from the nodes. Node exporter and Prometheus are Debian's; the driver and the GPUs are simulated."""

import json
import os
import re
import time
from pathlib import Path

import pytest
import yaml

OWNERS = "debian12"  # its node exporter was there before
WATCHER = "debian13"  # Prometheus runs here
DCGM = "debian13"  # its boards are those of a data centre
PROM = "/var/lib/prometheus/node-exporter/gpulab-gpu.prom"
FILES = Path(os.environ["MOLECULE_PROJECT_DIRECTORY"]) / "roles/monitoring/files"
TARGETS = Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"]) / "lab/targets"


@pytest.fixture
def name(host):
    return host.check_output("hostname")


@pytest.fixture
def address(host):
    route = host.check_output("ip route get 192.0.2.1").split()
    return route[route.index("src") + 1]


@pytest.fixture
def scrape(host, address):
    """Return a function that returns the value of a series as node exporter serves it now; None where it does not."""

    def value(series):
        text = host.check_output("curl --silent --fail http://%s:9100/metrics", address)
        match = re.search(rf"^{re.escape(series)} (\S+)$", text, re.MULTILINE)
        return float(match.group(1)) if match else None

    return value


@pytest.fixture
def fault(host):
    """Return a function that breaks a simulated GPU; it is healed after the test."""
    yield lambda *settings: host.check_output(
        "gpulab-simulate fault " + " ".join(f"'{setting}'" for setting in settings)
    )
    host.check_output("gpulab-simulate heal")


def wait(what, seconds=30):
    """Return the first true answer within some seconds, else the last one."""
    end = time.monotonic() + seconds
    while not (answer := what()) and time.monotonic() < end:
        time.sleep(1)
    return answer


def test_node_exporter_answers_on_one_address(host, address):
    listening = host.check_output("ss --listening --tcp --numeric --no-header 'sport = :9100'")
    assert [line.split()[3] for line in listening.splitlines()] == [f"{address}:9100"]
    assert host.run("curl --silent --max-time 5 http://127.0.0.1:9100/metrics").rc == 7  # refused
    assert host.run("curl --silent --max-time 5 --fail http://%s:9100/metrics", address).rc == 0


def test_it_never_answered_on_every_address(host, name):
    """Not in the moment after its package came either."""
    told = host.check_output("journalctl --no-pager --unit prometheus-node-exporter")
    everywhere = re.findall(r"Listening on.*address=(\[::\]|:9100\b|0\.0\.0\.0)", told)
    assert re.search(r"Listening on.*address=", told)
    assert bool(everywhere) == (name == OWNERS)  # where it was the owner's own, before


def test_the_owners_arguments_are_kept(host, name, scrape):
    assert scrape("node_textfile_scrape_error") == 0
    if name == OWNERS:
        defaults = host.file("/etc/default/prometheus-node-exporter")
        assert defaults.content_string.startswith("# mine\n")
        assert defaults.mode == 0o640
        assert scrape("node_load1") is None
    else:
        assert scrape("node_load1") is not None


def test_the_gpus_are_served_and_named_as_simulated(name, scrape, host, address):
    text = host.check_output("curl --silent --fail http://%s:9100/metrics", address)
    assert scrape("gpulab_gpus_simulated") == 1
    assert scrape('gpulab_nvml_state{state="ok"}') == 1
    up = re.findall(r"^gpulab_gpu_up\{(.*)\} (\S+)$", text, re.MULTILINE)
    assert len(up) == 2
    model = "NVIDIA GeForce RTX 4090" if name == "debian12" else "NVIDIA A100-PCIE-40GB"
    assert all(value == "1" and f'model="{model}"' in labels for labels, value in up)


def test_metrics_are_read_again_and_again(host):
    first = host.check_output("stat --format=%%Y %s", PROM)
    assert wait(lambda: host.check_output("stat --format=%%Y %s", PROM) != first)


def test_systemd_takes_many_readings_for_no_fault(host):
    # By its own rule it refuses the sixth start within ten seconds, and the timer ends with it.
    host.check_output("for n in 1 2 3 4 5 6; do systemctl start gpulab-metrics.service || exit 1; done")
    assert host.service("gpulab-metrics.timer").is_running


def test_a_hot_gpu_is_seen(scrape, fault, host, address):
    fault("gpu.1.temp = 91")
    pattern = r'^gpulab_gpu_temperature_celsius\{[^}]*index="1"[^}]*sensor="gpu"[^}]*\} 91$'
    assert wait(
        lambda: re.search(pattern, host.check_output("curl --silent http://%s:9100/metrics", address), re.MULTILINE)
    )
    assert scrape("node_textfile_scrape_error") == 0


def test_a_driver_that_hangs_is_told_and_nothing_piles_up(host, scrape, fault):
    fault("hang = 1")
    assert wait(lambda: scrape('gpulab_nvml_state{state="unresponsive"}') == 1, 40)
    text = host.file(PROM).content_string
    assert re.findall(r"^gpulab_gpu_up\{.*\} (\S+)$", text, re.MULTILINE) == ["0", "0"]
    time.sleep(15)  # more readings
    readers = host.run("pgrep --count --full '[g]pulab-monitoring/collect.py'")
    assert int(readers.stdout) <= 2  # one reading: the collector, and the child that asks the driver
    host.check_output("gpulab-simulate heal")
    assert wait(lambda: scrape('gpulab_nvml_state{state="ok"}') == 1, 40)


def test_a_mount_that_is_gone_is_told(host, scrape):
    host.check_output("mkdir -p /data")
    host.check_output("echo 'tmpfs /data tmpfs nofail 0 0' >> /etc/fstab")
    try:
        assert wait(lambda: scrape('gpulab_mount_mounted{mountpoint="/data"}') == 0)
        host.check_output("mount /data")
        assert wait(lambda: scrape('gpulab_mount_mounted{mountpoint="/data"}') == 1)
    finally:
        host.run("umount /data")
        host.check_output("sed -i '\\|/data|d' /etc/fstab")


def test_dcgms_exporter_answers_on_that_address_only(host, name, address):
    listening = host.check_output("ss --listening --tcp --numeric --no-header 'sport = :9400'").splitlines()
    assert [line.split()[3] for line in listening] == ([f"{address}:9400"] if name == DCGM else [])
    if name == DCGM:
        assert "DCGM_FI_DEV_GPU_TEMP" in host.check_output("curl --silent --fail http://%s:9400/metrics", address)
        assert host.service("nvidia-dcgm-exporter").is_enabled


def test_both_come_back_at_boot(host):
    for unit in ("prometheus-node-exporter.service", "gpulab-metrics.timer"):
        assert host.service(unit).is_enabled
        assert host.service(unit).is_running


def test_systemd_has_nothing_to_say_against_the_units(host):
    done = host.run(
        "systemd-analyze verify prometheus-node-exporter.service gpulab-metrics.service gpulab-metrics.timer"
    )
    assert "gpulab" not in done.stderr


def test_a_reading_costs_little(host):
    """Less than one part in twenty of a core at the default interval of half a minute."""
    duration = host.check_output("grep ^gpulab_collector_duration_seconds %s", PROM).split()[1]
    assert float(duration) < 1.5


def test_no_reading_compiles_the_collector(host):
    sources = host.check_output("find /usr/local/lib/gpulab-monitoring/ansible_collections -name '*.py' | wc -l")
    compiled = host.check_output("find /usr/local/lib/gpulab-monitoring -name '*.pyc' | wc -l")
    assert int(compiled) == int(sources) > 10
    said = host.run("/usr/bin/python3 -vBEs /usr/local/lib/gpulab-monitoring/collect.py /run/none.prom").stderr
    assert "code object from /usr/local/lib/gpulab-monitoring" not in said
    assert "gpulab-monitoring/ansible_collections" in said


def test_prometheus_is_told_of_the_node(name, address):
    told = yaml.safe_load((TARGETS / f"{name}.yml").read_text())
    group = "workstations" if name == "debian12" else "training_servers"
    labels = {"instance": name, "host_type": group}
    own = {"targets": [f"{address}:9100"], "labels": labels}
    dcgm = {"targets": [f"{address}:9400"], "labels": {**labels, "exporter": "dcgm"}}
    assert told == ([own, dcgm] if name == DCGM else [own])


@pytest.fixture
def prometheus(host, name):
    """Run Debian's Prometheus with the role's files on one node; return a function that asks it."""
    if name != WATCHER:
        pytest.skip("Prometheus runs on one node")
    host.check_output("apt-get update -qq && apt-get install -qq --yes --no-install-recommends prometheus")
    host.check_output("systemctl stop prometheus")
    host.check_output("mkdir -p /etc/prometheus/targets")
    places = {f"/etc/prometheus/{name}": FILES / name for name in ("alerts.yml", "prometheus.yml")}
    places |= {f"/etc/prometheus/targets/{file.name}": file for file in TARGETS.glob("*.yml")}
    for place, file in places.items():
        text = file.read_text()
        if file.name == "prometheus.yml":
            text += "global: {scrape_interval: 1s, evaluation_interval: 1s}\n"
        host.check_output("printf %%s %s > %s", text, place)
    host.check_output("systemctl start prometheus")

    def ask(query):
        done = host.run("curl --silent --get --data-urlencode query=%s http://127.0.0.1:9090/api/v1/query", query)
        return json.loads(done.stdout)["data"]["result"] if done.rc == 0 and done.stdout.startswith("{") else []

    yield ask
    host.check_output("systemctl stop prometheus && rm -r /etc/prometheus/targets")
    host.check_output("apt-get purge -qq --yes prometheus && apt-get autoremove --purge -qq --yes")


def test_prometheus_watches_both_nodes_and_warns(host, prometheus, fault):
    assert wait(lambda: len(prometheus('up{job="gpulab"} == 1')) == 3)
    assert prometheus("DCGM_FI_DEV_GPU_TEMP")[0]["metric"]["instance"] == DCGM
    assert wait(lambda: len(prometheus("gpulab_gpu_up == 1")) == 4)
    assert prometheus("ALERTS") == []
    fault("gpu.0.remapped_failure = 1", "gpu.1.temp = 91")
    fired = wait(lambda: prometheus('ALERTS{alertname="GpuRowRemapFailure", alertstate="firing"}'))
    assert [(alert["metric"]["instance"], alert["metric"]["index"]) for alert in fired] == [(WATCHER, "0")]
    assert wait(lambda: prometheus('ALERTS{alertname="GpuHot", alertstate="pending"}'))
    assert host.service("prometheus").is_running
