"""The metrics of a proof come to a node whole, and fail no run."""

import subprocess
from types import SimpleNamespace

import pytest
from ansible.errors import AnsibleConnectionFailure
from ansible.playbook.task import Task
from ansible_collections.gpulab.node.plugins.action import proof_metrics
from ansible_collections.gpulab.node.plugins.action.proof_metrics import ActionModule

TEXT = 'gpulab_proof_ok{host="node1",why="it\'s 5 $HOME"} 1\n' * 80


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Return what runs the action on a node whose directory is the test's own."""
    node = tmp_path / "node"
    node.mkdir()
    (tmp_path / "node1.prom").write_text(TEXT)
    monkeypatch.setattr(proof_metrics, "FILE", f"{node}/gpulab-proof.prom")

    connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir="unused"))

    def execute(_action, command):
        return {"rc": subprocess.run(["sh", "-c", command], check=False).returncode}

    def run(*, check_mode=False, execute=execute):
        monkeypatch.setattr(ActionModule, "_low_level_execute_command", execute)
        task = Task()
        task.args, task.check_mode = {"metrics": str(tmp_path / "node1.prom")}, check_mode
        result = ActionModule(task, connection, None, None, None, None).run()
        assert result["changed"] is False
        return result["written"], {path.name: path.read_text() for path in node.glob("*")}

    return run


def test_metrics_take_the_place_of_former_ones(written, tmp_path):
    (tmp_path / "node/gpulab-proof.prom").write_text("former")
    assert written() == (True, {"gpulab-proof.prom": TEXT})
    assert (tmp_path / "node/gpulab-proof.prom").stat().st_mode & 0o777 == 0o644


def test_a_link_that_lies_in_wait_leads_nowhere(written, tmp_path):
    victim = tmp_path / "shadow"
    victim.write_text("secret")
    (tmp_path / "node/gpulab-proof.prom.new").symlink_to(victim)
    assert written() == (True, {"gpulab-proof.prom": TEXT})
    assert victim.read_text() == "secret"


def test_check_mode_writes_nothing(written):
    assert written(check_mode=True) == (False, {})


def test_a_node_that_cannot_take_them_fails_no_run(written, tmp_path):
    (tmp_path / "node").rmdir()
    assert written() == (False, {})


def test_a_node_that_is_gone_fails_no_run(written):
    def gone(_action, _command):
        raise AnsibleConnectionFailure

    assert written(execute=gone) == (False, {})
