"""What the module lists on a node, and what the action makes of it; dpkg and the node are played."""

import json
from types import SimpleNamespace

import pytest
from ansible.plugins.action import ActionBase
from ansible_collections.gpulab.node.plugins.action import advisories as action
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
from ansible_collections.gpulab.node.plugins.modules import advisories

FACTS = {
    "driver": {"library": "580.95.05"},
    "modules": {},
    "cuda": {"toolkits": []},
    "libraries": {"tensorrt": []},
    "engines": {},
}


def test_packages_and_the_wheels_of_environments_are_listed(tmp_path, monkeypatch):
    site = "opt/venvs/vision/lib/python3.12/site-packages"
    for path in (
        f"{site}/tensorrt_cu12-10.16.1.11.dist-info",
        f"{site}/numpy-2.4.0.dist-info",
        f"{site}/~ensorrt_cu12-9.0.dist-info",
        "opt/conda/envs/llm/conda-meta",
        "opt/venvs/.builds/vision/7",
    ):
        (tmp_path / path).mkdir(parents=True)
    (tmp_path / "opt/conda/envs/llm/conda-meta/tensorrt-10.3.0.26-py312_0.json").touch()
    asked = []

    def query(_node, *names):
        asked.extend(names)
        return SimpleNamespace(installed=[SimpleNamespace(name="nvidia-container-toolkit", version="1.17.7-1")])

    monkeypatch.setattr(advisories, "PackagesQuery", query)
    names = ["nvidia-container-toolkit", "tensorrt", "tensorrt-cu??"]
    found = advisories.packages(Node(tmp_path), names, ["/opt/venvs", "/opt/conda/envs", None])
    assert asked == names
    assert found == [
        {"name": "nvidia-container-toolkit", "version": "1.17.7-1", "place": ""},
        {"name": "tensorrt-cu12", "version": "10.16.1.11", "place": "/opt/venvs/vision"},
        {"name": "tensorrt", "version": "10.3.0.26", "place": "/opt/conda/envs/llm"},
    ]


class Played(action.ActionModule):
    """An action whose module answers."""

    def __init__(self, accepted, answer):
        """Take what is accepted, and what the module answers."""
        self._accepted, self._answer, self.asked = accepted, answer, []

    def validate_argument_spec(self, _spec):
        """Return the arguments."""
        return None, {"directory": "/opt/venvs", "conda_directory": None, "accepted": self._accepted}

    def _execute_module(self, module_name, module_args, task_vars):
        assert task_vars
        self.asked.append((module_name, module_args))
        return self._answer


@pytest.fixture
def run(monkeypatch, tmp_path):
    monkeypatch.setattr(ActionBase, "run", lambda *_args, **_more: {})
    monkeypatch.chdir(tmp_path)

    def result(accepted=(), answer=None, facts=FACTS):
        played = Played(list(accepted), answer or {"packages": []})
        variables = {"inventory_hostname": "node07", "ansible_facts": {"gpulab": facts}}
        return played.run(None, variables), played.asked

    return result


def test_the_findings_are_told_and_written(run, tmp_path):
    answer = {"packages": [{"name": "nvidia-container-toolkit", "version": "1.17.7-1", "place": ""}]}
    found, ((name, asked),) = run(answer=answer)
    written = json.loads((tmp_path / "reports/advisories/node07.json").read_text())
    assert (name, asked["directory"]) == ("gpulab.node.advisories", "/opt/venvs")
    assert "nvidia-container-toolkit" in asked["names"]
    assert written["findings"] == found["findings"]
    assert {one["package"] for one in found["findings"]} == {"driver", "nvidia-container-toolkit"}
    assert found["changed"] is False
    assert found["lines"][-1] == "page: reports/advisories/node07.json"


def test_an_accepted_hole_that_no_bulletin_has_is_refused_before_the_node_is_asked(run, tmp_path):
    accepted = [{"cve": "CVE-1999-0001", "because": "old", "until": "2027-01-01", "by": "Ada"}]
    result, asked = run(accepted)
    assert result["refusal"]["code"].endswith("V006")
    assert "no bulletin has CVE-1999-0001" in result["msg"]
    assert not asked
    assert not (tmp_path / "reports").exists()


def test_a_node_without_facts_is_refused(run):
    result, asked = run(facts=None)
    assert result["refusal"]["code"].endswith("V002")
    assert not asked


def test_a_module_that_fails_is_the_failure(run):
    assert run(answer={"msg": "no python"})[0] == {"failed": True, "msg": "no python"}
