"""A change goes over four nodes, one after the other: a bad canary stops it, people at work keep theirs, it goes on.

The GPUs are simulated, and their driver is a stand-in that is not installed: what is shown is the order, the fence and
the way back.
"""

import json

import pytest
from rollouts import CHANGED, FENCED, boot_with_a_driver, roll, start, states, wishes_of

NODES = [
    {"name": name, "release": release, "gpu": gpu, "groups": ["workstations"]}
    for name, release, gpu in (
        ("n1", "bookworm", "rtx4090-2"),
        ("n2", "bookworm", "rtx4090-2"),
        ("n3", "bookworm", "rtx4090-2"),
        ("n4", "trixie", "a100-pcie-2"),
    )
]
WISHES = {"rollout_batch": "2", "rollout_out_at_once": "3", "rollout_wait_minutes": 0.5}
pytestmark = pytest.mark.story


@pytest.fixture(scope="module")
def wishes(lab, tmp_path_factory):
    """Boot the nodes; return what all runs wish."""
    (lab.inventory / "another.yml").write_text('{"others": {"hosts": {"desk": {}}}}')  # the first of all hosts
    boot_with_a_driver(lab, [node["name"] for node in NODES], tmp_path_factory.mktemp("driver"))
    return wishes_of(lab, WISHES)


def with_settings(lab, **hosts):
    """Give hosts variables of their own."""
    text = json.dumps({"workstations": {"hosts": hosts}})
    (lab.inventory / "settings.yml").write_text(text)


def test_check_mode_shows_the_order_and_fences_nobody(lab, wishes):
    run = roll(lab, wishes, "--check")
    assert run.rc == 0, run.output[-3000:]
    rows = [line.split()[:2] for line in run.output.splitlines() if line.strip().startswith(("canary ", "batch "))]
    assert rows == [["canary", "n1:"], ["canary", "n4:"], ["batch", "3"], ["batch", "3"]]
    assert not any(lab.node(node["name"]).holds(FENCED) for node in NODES)
    assert not (lab.directory / "rollouts").exists()


def test_a_canary_that_fails_its_proof_stays_fenced_and_the_others_stay_as_they_were(lab, wishes):
    with_settings(lab, n1={"verify_expected_gpus": 3})
    run = roll(lab, wishes)
    assert run.rc == 2
    assert "GPULAB-F005" in run.output
    assert states(lab) == {"n1": "failed", "n2": "waiting", "n3": "waiting", "n4": "waiting"}
    assert lab.node("n1").holds(f"{FENCED} && {CHANGED} && grep -q gpu-count /etc/gpulab-fence")
    assert not any(lab.node(name).holds(f"{FENCED} || {CHANGED}") for name in ("n2", "n3", "n4"))


def test_the_fence_lets_nobody_in_but_who_mends_the_node(lab, wishes):
    node = lab.node("n1")
    node.run("useradd --create-home wei && cp -r /home/admin/.ssh /home/wei && chown -R wei: /home/wei")
    assert lab.log_in("n1", "true").wait(60) == 0
    assert lab.log_in("n1", "true", user="wei").wait(60) != 0
    report = lab.directory / "report"
    lab.play("playbooks/verify.yml", "-l", "n1", "-e", json.dumps({**wishes, "verify_report_directory": str(report)}))
    host = json.loads((report / "report.json").read_text())["hosts"][0]
    found = next(result for result in host["results"] if result["id"] == "fleet-fence")
    assert (found["severity"], "gpu-count" in found["summary"]) == ("warn", True)


def test_people_at_work_are_waited_for_and_their_node_is_as_it_was(lab, wishes):
    with_settings(lab, n1={})
    lab.node("n2").run("useradd --create-home wei && cp -r /home/admin/.ssh /home/wei && chown -R wei: /home/wei")
    working = lab.log_in("n2", "exec sleep 3000", user="wei")
    try:
        run = roll(lab, wishes)
        assert working.poll() is None
        assert lab.node("n2").holds("pgrep -u wei sleep")
    finally:
        lab.node("n2").run("pkill -u wei sleep")
        working.wait(60)
    assert run.rc == 2
    assert "GPULAB-F006" in run.said_of("n2")
    assert "wei" in run.said_of("n2")
    assert states(lab) == {"n1": "done", "n2": "busy", "n3": "done", "n4": "done"}
    assert lab.node("n2").holds(f"! {{ {FENCED}; }} && ! {CHANGED}")
    assert all(lab.node(name).holds(f"! {{ {FENCED}; }} && {CHANGED}") for name in ("n1", "n3", "n4"))


def test_a_killed_run_goes_on_where_it_was(lab, wishes):
    begun = start(lab, wishes)
    begun.wait_until(lambda: states(lab)["n2"] == "changing", 300, "the change begins")
    begun.kill()
    assert lab.node("n2").holds(FENCED)
    run = roll(lab, wishes)
    assert run.rc == 0, run.output[-3000:]
    assert set(states(lab).values()) == {"done"}
    assert lab.node("n2").holds(f"! {{ {FENCED}; }} && {CHANGED}")


def test_a_second_run_changes_nothing(lab, wishes):
    run = roll(lab, wishes)
    assert run.rc == 0
    assert {host["changed"] for host in run.recap.values()} == {0}


def test_nothing_begins_in_a_freeze(lab, wishes):
    (lab.directory / "freeze").write_text("paper deadline\n")
    run = roll(lab, wishes, tuning_overrides={"vm.swappiness": 9})
    assert run.rc == 2
    assert "GPULAB-F001" in run.output
    assert "paper deadline" in run.output
    assert all(lab.node(node["name"]).holds(f"! {{ {FENCED}; }} && {CHANGED}") for node in NODES)
