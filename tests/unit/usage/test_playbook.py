"""The playbook against a real Prometheus with a month that was recorded, and against none."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
import yaml

from unit.shapes import misfits

from .months import BERLIN, at

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[3]
# By the hour, for all hours that end in October 2026 in Berlin: one GPU of two is used all the time, at 500 W.
RECORDED = {
    'gpulab:node_hours:1h{instance="gpu-"}': 1,
    'gpulab:gpu_hours:1h{instance="gpu-"}': 2,
    'gpulab:gpu_busy_hours:1h{instance="gpu-"}': 1,
    'gpulab:user_gpu_hours:1h{instance="gpu-",user="ada"}': 1,
    'gpulab:user_gpu_kwh:1h{instance="gpu-",user="ada"}': 0.5,
    'gpulab:user_gpu_kwh:1h{instance="gpu-",user="nobody"}': 0.1,
}


def record(directory):
    """Write the month as blocks of Prometheus; hours of the months beside it are there, too, and ten times as large."""
    start, end = at("2026-10-01T00:00"), at("2026-11-01T00:00")
    lines = []
    for series, value in RECORDED.items():
        lines.append(f"# TYPE {series.partition('{')[0]} gauge")
        for moment in range(start - 5 * 3600, end + 6 * 3600, 3600):
            within = start < moment + 1800 <= end  # recorded at half past
            lines.append(f"{series} {value if within else value * 10} {moment + 1800}")
    lines = [line for at_, line in enumerate(lines) if line not in lines[:at_]]
    text = directory / "recorded"
    text.write_text("\n".join([*lines, "# EOF\n"]), encoding="utf-8")
    argv = ["promtool", "tsdb", "create-blocks-from", "openmetrics", text, directory / "data"]
    subprocess.run(argv, check=True, capture_output=True)


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory):
    """Return the address of a Prometheus that knows the month."""
    program = shutil.which("prometheus")
    assert program, "prometheus is missing: make test-setup installs it"
    directory = tmp_path_factory.mktemp("prometheus")
    record(directory)
    (directory / "prometheus.yml").write_text("global: {}\n", encoding="utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    storage = [f"--storage.tsdb.path={directory / 'data'}", "--storage.tsdb.retention.time=50y"]
    argv = [program, f"--config.file={directory / 'prometheus.yml'}", f"--web.listen-address={address}", *storage]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        end = time.monotonic() + 60
        while not ready(address):
            assert process.poll() is None
            assert time.monotonic() < end
            time.sleep(0.2)
        yield f"http://{address}"
        process.terminate()


def ready(address):
    try:
        with urllib.request.urlopen(f"http://{address}/-/ready", timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False


@pytest.fixture
def play(tmp_path):
    """Return a function that runs the playbook for a lab of one node, and returns its output and the month's data."""
    away = {"ansible_host": "127.0.0.1", "ansible_port": 1}
    environment = {
        **os.environ,
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
        "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections"),
        "ANSIBLE_STDOUT_CALLBACK": "default",
        "ANSIBLE_HOME": str(tmp_path / "home"),
    }

    def run(*arguments, groups=(), **settings):
        hosts = {group: {"hosts": {group[:4]: away}} for group in ("gpu-nodes", *groups)}
        (tmp_path / "hosts.yml").write_text(yaml.safe_dump({"all": {"children": hosts}}), encoding="utf-8")
        settings = {"usage_month": "2026-10", "usage_time_zone": BERLIN, **settings}
        program = Path(sys.executable).with_name("ansible-playbook")
        argv = [
            program,
            "-i",
            tmp_path / "hosts.yml",
            ROOT / "playbooks/usage.yml",
            "-e",
            json.dumps(settings),
            *arguments,
        ]
        done = subprocess.run(
            argv, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=200, check=False
        )
        file = tmp_path / "reports/usage/2026-10/usage.json"
        return done, json.loads(file.read_text(encoding="utf-8")) if file.exists() else None

    return run


@pytest.mark.parametrize("arguments", [[], ["--check"]], ids=["run", "check mode"])
def test_a_recorded_month_is_on_the_page(arguments, play, prometheus, tmp_path):
    people = [{"name": "ada", "uid": 20001, "groups": ["vision"]}]
    done, data = play(
        *arguments, usage_prometheus_url=prometheus, usage_price_kwh=0.5, usage_currency="EUR", users_people=people
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "changed=0" in done.stdout
    assert misfits("usage", data) == []
    (vision,) = data["groups"]
    assert (vision["name"], vision["used"], vision["kwh"], vision["cost"]) == ("vision", 745, 372.5, 186.25)
    (node,) = data["nodes"]
    assert (node["measured"], node["gpus"], node["kwh"]) == (745, 1490, 447)
    assert (vision["held"], data["users"], data["notes"]) == (None, None, [])
    assert [source["known"] for source in data["sources"]] == [False, True]
    page = tmp_path / "reports/usage/2026-10/usage.html"
    assert "372.5" in page.read_text(encoding="utf-8")
    assert "page: reports/usage/2026-10/usage.html" in done.stdout
    assert "GPU hours - held, 745.0 used" in done.stdout
    assert '"ada"' not in (tmp_path / "reports/usage/2026-10/usage.json").read_text(encoding="utf-8")


def test_hosts_that_cannot_be_reached_are_named_and_stop_nothing(play):
    done, data = play(groups=("slurm_controllers", "monitoring_server"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert [source["name"] for source in data["sources"]] == ["Slurm on slur", "Prometheus, asked from moni"]
    for source in data["sources"]:
        assert not source["known"]
        assert "Connection refused" in source["text"]
    assert {data["total"][figure] for figure in ("held", "used", "idle", "kwh", "cost")} == {None}


def test_a_lab_of_which_nothing_is_known_says_so(play):
    done, data = play(usage_prometheus_url="http://127.0.0.1:9", usage_names=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [source["known"] for source in data["sources"]] == [False, False]
    assert "no answer" in data["sources"][1]["text"]
    assert {data["total"][figure] for figure in ("held", "used", "idle", "kwh", "cost")} == {None}
    assert data["users"] == []


def test_a_month_that_there_is_not_is_refused_before_anybody_is_asked(play):
    done, data = play(usage_month="2026-13")
    assert done.returncode == 2
    assert "GPULAB-I030" in done.stdout
    assert "Ask Prometheus" not in done.stdout
    assert data is None
