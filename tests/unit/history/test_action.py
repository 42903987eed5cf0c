"""What report and history.yml say of a rate that falls, from the files of a history."""

import json
from datetime import datetime, timedelta, timezone
from unittest.mock import Mock

import pytest
from ansible_collections.gpulab.node.plugins.action.history import ActionModule
from ansible_collections.gpulab.node.plugins.plugin_utils.history import files
from ansible_collections.gpulab.node.plugins.plugin_utils.history.lines import line
from ansible_collections.gpulab.node.plugins.plugin_utils.history.memory import Memory, Settings
from ansible_collections.gpulab.node.plugins.plugin_utils.report import document, formats

from unit.checks import loaded
from unit.report import runs

HOSTS = ("a", "b", "c", "d", "e")


@pytest.fixture
def lab(tmp_path):
    """Return a function that proves the lab as verify.yml does, some hosts at a share of their rate of memory."""
    facts = loaded.measured("h100x8")
    state = {"night": 0}

    def prove(slow=(), share=0.9):
        created = datetime.now(timezone.utc) - timedelta(days=60 - state["night"])
        state["night"] += 1
        report = document.build({host: runs.judged(facts) for host in HOSTS}, f"{created:%Y-%m-%dT%H:%M:%SZ}")
        for host in report["hosts"]:
            for gpu in host["gpus"]:
                key = f"{host['name']}-{gpu['index']}"
                rates = {**gpu["rates"]}
                rates["memory_gbs"] *= share if key in slow or host["name"] in slow else 1
                gpu.update(uuid=key, rates=rates)
        memory = Memory(tmp_path, Settings())
        report = document.with_history(report, lambda host: files.read(tmp_path, host), memory)
        files.append(tmp_path, {host["name"]: line(report, host) for host in report["hosts"]})
        memory.write()
        return report

    return prove


def history(directory, *hosts, **options):
    task = Mock(check_mode=False, async_val=0, action="history", args={"directory": str(directory), **options})
    plugin = ActionModule(task, Mock(), Mock(), Mock(), Mock(), Mock())
    plugin._connection._shell.tmpdir = None  # noqa: SLF001
    return plugin.run(None, {"ansible_play_hosts_all": list(hosts or HOSTS)})


def test_a_gpu_that_falls_is_told_by_the_report_and_the_history(lab, tmp_path):
    for _night in range(20):
        assert lab()["trends"] == []
    (found,) = [lab(slow=["b-3"]) for _night in range(5)][-1]["trends"]
    assert (found["host"], found["rule"], found["gpu"]["index"]) == ("b", "slower", 3)
    known = history(tmp_path, page=str(tmp_path / "page.html"))
    assert [(host["host"], len(host["trends"])) for host in known["hosts"] if host["trends"]] == [("b", 1)]
    assert [text for text in known["msg"] if text.startswith("worse:")] == [
        f"worse: b [GPU 3] {found['summary']} -> repeat_proof"
    ]
    assert found["summary"] in (tmp_path / "page.html").read_text(encoding="utf-8")
    json.dumps(known["hosts"])


def test_a_driver_that_slows_all_is_one_line_of_the_report_and_of_the_history(lab, tmp_path):
    for _night in range(20):
        lab()
    report = [lab(slow=HOSTS) for _night in range(6)][-1]
    (found,) = report["trends"]
    assert found["host"] == "a, b, c and 2 more"
    assert "on 40 of 40 NVIDIA H100" in found["summary"]
    assert found["remediation"] in report["remedies"]
    assert sum("worse:" in text for text in formats.terminal(report)) == 1
    known = history(tmp_path, page=str(tmp_path / "page.html"))
    assert sum("worse:" in text for text in known["msg"]) == 1
    assert (tmp_path / "page.html").read_text(encoding="utf-8").count("on 40 of 40 NVIDIA H100") == 1


def test_a_short_history_says_that_it_learns(lab, tmp_path):
    for _night in range(7):
        lab()
    known = history(tmp_path)
    assert {host["learning"] for host in known["hosts"]} == {"learning, 7 of 20"}
    assert "rates: learning, 7 of 20" in known["msg"][0]
    assert history(tmp_path, "nobody")["hosts"][0]["learning"] is None
    before = sorted((path.name, path.read_bytes()) for path in tmp_path.iterdir())
    history(tmp_path)
    assert sorted((path.name, path.read_bytes()) for path in tmp_path.iterdir()) == before
