"""What the controller's side of a rebuild does: asks, sends contents, confirms a network, and reconnects."""

from unittest.mock import MagicMock

import pytest
from ansible.errors import AnsibleConnectionFailure
from ansible_collections.gpulab.node.plugins.action import restore
from ansible_collections.gpulab.node.plugins.module_utils.rebuild.present import Present
from ansible_collections.gpulab.node.plugins.plugin_utils.capture import rebuild_state as state

from unit.captures import captured
from unit.captures.conftest import vault, vault_password  # noqa: F401 - fixtures
from unit.filled import filled

SYSTEM = {"id": "debian", "version": "12", "name": "Debian 12", "family": "debian"}
MACHINE = {"dmi_uuid": "4c4c4544", "dmi_serial": "", "product": "", "system": SYSTEM}
DISKS = {"container": "docker", "root": {"source": "overlay", "type": "overlay"}}
SECTIONS = {"disks": DISKS}
FOUND = filled({"machine": MACHINE, "disks": DISKS}, Present)
CHANGED = {"changed": True, "changes": [{"action": "write", "what": "/etc/motd"}], "missing": [], "diff": []}


@pytest.fixture
def captures(tmp_path, vault):  # noqa: F811
    """Return the directory of captures, with one of node07."""
    captured.capture(tmp_path, vault, sections=SECTIONS, machine=MACHINE)
    return tmp_path


@pytest.fixture
def run(captures, monkeypatch):
    """Return a function that runs a work while the node gives these answers, in turn; asked notes what it was asked."""
    monkeypatch.setattr(restore.time, "sleep", lambda _seconds: None)

    def run(work, *answers, check=False, **more):
        task = MagicMock(args={"directory": str(captures), "work": work, **more}, check_mode=check, async_val=0)
        connection = MagicMock()
        connection.has_option = lambda _name: False
        action = restore.ActionModule(task, connection, MagicMock(remote_user="wei"), None, None, None)
        left = list(answers)
        run.asked, run.connection = [], connection

        def ask(_module, args, asked):
            assert args["work"] == work
            run.asked.append(asked)
            answer = left.pop(0) if len(left) > 1 else left[0]
            if isinstance(answer, Exception):
                raise answer
            return dict(answer) if isinstance(answer, dict) else answer

        action.ask = ask
        return action.run(None, {"inventory_hostname": "node07"})

    return run


def test_gates_pass_and_say_what_storage_needs(run):
    found = run("gates", FOUND)
    assert (found["changed"], found["missing"], found["packages"]) == (False, [], [])
    assert found["same_release"]


def test_gates_refuse_by_code(run):
    other = {**FOUND, "machine": {**FOUND["machine"], "dmi_uuid": "other"}}
    found = run("gates", other)
    assert (found["failed"], found["refusal"]["code"]) == (True, "R003")
    assert "failed" not in run("gates", other, allow=["hardware"])


@pytest.mark.parametrize("damage", ["files/etc/fstab", "secrets.vault"])
def test_gates_refuse_a_damaged_capture_before_the_node_is_asked(run, captures, damage):
    path = captures / "node07" / "latest" / damage
    path.write_bytes(path.read_bytes() + b"x")
    assert run("gates", FOUND)["refusal"]["code"] == "R006"
    assert run.asked == []


def test_gates_refuse_without_the_password(run, vault_password):  # noqa: F811
    vault_password(default="another")
    assert run("gates", FOUND)["refusal"]["code"] == "R006"


def test_the_plan_of_the_reinstall_counts_for_its_capture(run, captures):
    name = (captures / "node07" / "latest").readlink().name
    marker = f'{{"plan": "{"a" * 16}", "capture": "{name}", "host": "node07"}}'
    state.advance(captures / "node07", state.State("node07", name, "a" * 16, "reachable"))
    assert "failed" not in run("gates", {**FOUND, "marker": marker})
    state.advance(captures / "node07", state.State("node07", name, "b" * 16, "reachable"))
    assert run("gates", {**FOUND, "marker": marker})["refusal"]["code"] == "R011"


def test_a_host_without_a_capture_is_refused(run):
    assert run("accounts", CHANGED, capture="20200101T000000Z")["refusal"]["code"] == "R001"


def test_contents_are_sent_until_none_is_wanted(run):
    run("files", {**CHANGED, "wanted": []})
    wanted = [next(entry["sha256"] for entry in run.asked[0][1]["entries"] if "sha256" in entry)]
    found = run("files", {**CHANGED, "wanted": wanted}, None, {**CHANGED, "wanted": []})
    assert [step for step, _asked in run.asked] == ["restore", "stage", "restore"]
    assert "wanted" not in found


def test_contents_that_never_arrive_are_refused(run):
    run("files", {**CHANGED, "wanted": []})
    wanted = [next(entry["sha256"] for entry in run.asked[0][1]["entries"] if "sha256" in entry)]
    found = run("files", {**CHANGED, "wanted": wanted})
    assert found["refusal"]["code"] == "R042"


def test_check_mode_sends_nothing(run):
    found = run("files", {**CHANGED, "wanted": ["0" * 64]}, check=True)
    assert (len(run.asked), found["changed"]) == (1, True)


def test_a_connection_whose_user_got_another_number_is_made_again(run):
    run("accounts", {**CHANGED, "reconnect": True, "stale": []})
    assert run.connection.reset.called
    run("accounts", {**CHANGED, "reconnect": False, "stale": []})
    assert not run.connection.reset.called


TRYING = {**CHANGED, "trying": True, "paths": ["/etc/network/interfaces"]}


def test_a_network_that_answers_is_confirmed(run):
    lost = AnsibleConnectionFailure("no route to host")
    found = run("network", TRYING, lost, "waiting", "confirmed")
    assert (found["changed"], found["missing"]) == (True, [])
    assert [step for step, _asked in run.asked] == ["restore", "confirm", "confirm", "confirm"]
    assert run.asked[-1][1] == ["/etc/network/interfaces"]
    assert not {"trying", "paths"} & found.keys()


def test_a_network_that_was_undone_is_missing(run):
    found = run("network", TRYING, AnsibleConnectionFailure("timed out"), "undone")
    assert (found["changed"], found["changes"]) == (False, [])
    assert found["missing"][0]["section"] == "network"


def test_a_node_that_stays_silent_is_a_failure(run, monkeypatch):
    clock = iter(range(0, 10_000, 60))
    monkeypatch.setattr(restore.time, "monotonic", lambda: next(clock))
    found = run("network", TRYING, AnsibleConnectionFailure("timed out"))
    assert found["refusal"]["code"] == "R043"


def test_what_the_node_refuses_is_the_result(run):
    refused = restore.FailedError({"failed": True, "msg": "GPULAB-R041"})
    assert run("accounts", refused) == {"failed": True, "msg": "GPULAB-R041"}
