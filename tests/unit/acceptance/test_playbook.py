"""Work of the action from what was registered of each node, and playbooks/acceptance_verify.yml."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from ansible_collections.gpulab.node.plugins.action.acceptance import ActionModule
from ansible_collections.gpulab.node.plugins.module_utils.core import signatures
from ansible_collections.gpulab.node.plugins.plugin_utils.acceptance import certificate, state

from unit import machines
from unit.acceptance.clusters import Cluster, named
from unit.acceptance.test_certificate import made
from unit.acceptance.test_node import GPU

ROOT = Path(__file__).parents[3]
OWN = {"board": "NVIDIA H200", "transport": "gloo", "value_gbs": 1, "source": "me"}
INTERFACE = {**machines.INTERFACE, "name": "eth0", "ipv4": "192.0.2.1"}


def known(count=8, users="", **changes):
    """Return what the tasks before have registered of a node with so many simulated GPUs."""
    facts = machines.machine({"nvml": {"gpus": [GPU] * count}, "simulated": "simulated GPU", "network": [INTERFACE]})
    return {
        "ansible_facts": {"gpulab": facts, "gpulab_measurements": {"python": "/p", "simulated": True, "gpus": []}},
        "__acceptance_reading": {"changed": False},
        "__acceptance_users": {"users": users},
        "__acceptance_serial": {"stdout": "S1"},
        **changes,
    }


class Play:
    """A play over hosts, and its directory on the controller."""

    def __init__(self, directory, hosts):
        """Take hostvars by name."""
        self.directory, self.hosts, self.file, self.check = directory, hosts, None, False

    def work(self, work, **arguments):
        """Run the action once for all hosts."""
        action = ActionModule.__new__(ActionModule)
        action._task = SimpleNamespace(check_mode=self.check)  # noqa: SLF001
        defaults = {name: option.get("default") for name, option in ActionModule.spec.items()}
        given = {"directory": self.directory, "key": self.directory / "keys/signing", "file": self.file}
        variables = {"ansible_play_hosts_all": [*self.hosts], "hostvars": self.hosts}
        return action.for_hosts({**defaults, **given, "work": work, **arguments}, variables)

    def begin(self, **arguments):
        """Begin the acceptance."""
        begun = self.work("begin", **arguments)
        self.file = begun.get("file")
        return begun

    def go(self, cluster):
        """Measure until the end, as the role does."""
        while (wanted := self.work("next"))["group"]:
            result = cluster.result(SimpleNamespace(step=wanted["step"], nodes=tuple(wanted["group"])))
            for name in wanted["group"]:
                record = {"state": "done", "wrong": 0, "backend": "gloo", "interface": "eth0"}
                rates = {"all_reduce_gbs": result.rate, "lowest_gbs": result.lowest, "highest_gbs": result.highest}
                silent = {"state": "missing", "missing": {"n": result.why}}
                facts = {"gpulab_nodes_all_reduce": {**record, **rates} if result.rate is not None else silent}
                self.hosts[name]["__acceptance_ended"] = {"ansible_facts": facts}
            self.work("note", **{key: wanted[key] for key in ("group", "step", "began")})
        return self.work("end")


@pytest.fixture
def play(tmp_path):
    return Play(tmp_path / "acceptances", {name: known() for name in named(4)})


def test_a_whole_acceptance_ends_with_a_signed_certificate(play):
    assert play.begin()["go"]
    play.work("test")
    ended = play.go(Cluster(4))
    assert (ended["accepted"], ended["refused"]) == (True, None), ended["lines"]
    path = Path(play.file).with_name(certificate.FILE)
    assert play.work("verify", certificate=path)["accepted"]
    told = json.loads(path.read_bytes())
    assert told["nodes"]["n00"]["gpu_serials"] == ["165"] * 8
    assert "best pair" in told["floor"]["source"]
    assert path.with_name(certificate.PAGE).exists()


def test_a_bad_node_is_refused_by_name(play):
    play.begin()
    play.work("test")
    ended = play.go(Cluster(4, bad=["n02"]))
    assert ended["refused"]["code"] == "F148"
    assert ended["refused"]["cause"].startswith("the nodes are not accepted: failed: n02")


def test_the_next_acceptance_names_the_last_certificate_and_says_what_is_slower(play):
    for cluster in (Cluster(4), Cluster(4, trunks=[({"n00"}, {"n01"})])):
        play.begin()
        play.work("test")
        ended = play.go(cluster)
        state_file = Path(play.file)
        state_file.parent.rename(state_file.parents[1] / f"0{len([*play.directory.glob('0*')])}")
    assert any("since the last certificate: n00, n01: 4.3 -> 0.19" in line for line in ended["lines"])
    told = json.loads((play.directory / "01" / certificate.FILE).read_bytes())
    first = certificate.digest((play.directory / "00" / certificate.FILE).read_bytes())
    assert told["last"]["sha256"] == first


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"users": "python (42) of ann"}, "F140"),
        ({"count": 7}, ""),  # it is named, and the others go on
    ],
)
def test_a_node_that_is_not_as_the_others_is_told_before_anything_is_measured(play, change, code):
    play.hosts["n03"] = known(**change)
    begun = play.begin(floors=[OWN])
    assert begun.get("refusal", {}).get("code", "") == code
    if not code:
        assert any("n03: GPUs 7, the others 8" in line for line in begun["lines"])


def test_behind_a_fence_the_users_are_waited_for(play):
    play.hosts["n03"] = known(users="python (42) of ann")
    assert "refusal" not in play.begin(fenced=True)


def booked(start, name="course"):
    """Return a node that Slurm has reserved for others."""
    return known(__acceptance_users={"users": "", "reservations": [{"name": name, "start": start, "end": "2099"}]})


def test_a_reservation_of_others_is_refused_where_it_begins_before_the_end(play):
    play.hosts["n03"] = booked("2098-01-01T08:00:00Z")
    assert "refusal" not in play.begin()  # nothing is reserved
    refusal = play.begin(fenced=True, until="2098-01-01T08:00:01Z")["refusal"]
    assert (refusal["code"], "n03" in refusal["cause"], "course" in refusal["cause"]) == ("F016", True, True)
    assert "refusal" not in play.begin(fenced=True, until="2098-01-01T08:00:00Z")
    assert "refusal" not in play.begin(fenced=True)


def test_a_run_that_goes_on_finds_its_own_reservation(play):
    run = play.begin(fenced=True)["run"]
    play.hosts["n03"] = booked("2026-01-01T08:00:00Z", f"gpulab-{run}-n03")
    assert play.begin(fenced=True)["run"] == run
    play.hosts["n03"] = booked("2026-01-01T08:00:00Z", "gpulab-20250101T000000Z-other-n03")
    assert play.begin(fenced=True)["refusal"]["code"] == "F016"


def test_users_are_waited_for_no_longer_than_until_the_nodes_are_back(play):
    until = time.strftime(state.TIME, time.gmtime(time.time() + 3600))
    begun = play.begin(fenced=True, until=until, wait_minutes=120)
    assert begun["until"] == until
    assert 59 < begun["wait_minutes"] <= 60
    assert play.begin(fenced=True, until=until, wait_minutes=5)["wait_minutes"] == 5
    assert 59 < play.begin(fenced=True, until=until)["wait_minutes"] <= 60
    assert "until" not in play.begin()
    over = play.begin(fenced=True, until="2026-01-01T00:00:00Z")["refusal"]
    assert (over["code"], "acceptance_until" in over["cause"]) == ("F004", True)


def test_no_measurement_begins_that_would_end_after_the_nodes_are_back(play):
    """A job may begin there then."""
    play.begin(fenced=True, until=time.strftime(state.TIME, time.gmtime(time.time() + 240)))
    play.work("test")
    assert play.work("next", minutes_each=2)["group"]
    assert play.work("next", minutes_each=3)["group"] == []
    ended = play.work("end", minutes_each=3)
    assert ended["refused"]["code"] == "F148"
    told = json.loads(Path(play.file).with_name(certificate.FILE).read_bytes())
    assert "no measurement would have ended by" in told["nodes"]["n00"]["why"]


def test_of_a_node_whose_jobs_nobody_knows_nothing_is_measured(play):
    play.hosts["n03"]["__acceptance_users"] = {"failed": True, "msg": "GPULAB-F008 Slurm's controller does not answer"}
    play.begin(floors=[OWN])
    assert "F008" in state.read(Path(play.file)).nodes["n03"].untested


def test_check_mode_says_whom_it_would_wait_for_and_until_when(play):
    play.check = True
    play.hosts["n03"] = known(users="job 17 of anna (running)")
    lines = play.begin(fenced=True, until="2098-01-01T08:00:00Z")["lines"]
    assert lines[1:] == [
        "  out of service until 2098-01-01T08:00:00Z at the latest", "  n03: waits for job 17 of anna (running)",
    ]  # fmt: skip


def test_a_key_that_others_may_read_is_refused(play):
    key = play.directory / "keys/signing"
    signatures.make_key(key, certificate.PURPOSE)
    key.chmod(0o640)
    assert play.begin()["refusal"]["code"] == "F143"


def test_two_nodes_without_a_floor_are_refused(play):
    play.hosts = {name: play.hosts[name] for name in ("n00", "n01")}
    assert play.begin()["refusal"]["code"] == "F142"
    assert play.begin(floors=[OWN])["go"]


def test_other_versions_than_at_the_beginning_are_refused(play):
    play.begin()
    play.hosts["n01"]["ansible_facts"]["gpulab"]["driver"]["library"] = "999"
    refusal = play.begin()["refusal"]
    assert (refusal["code"], "driver" in refusal["cause"]) == ("F144", True)


def test_the_same_command_goes_on_where_it_was_cut_off(play):
    play.begin()
    play.work("test")
    wanted = play.work("next")
    play.work("note", **{key: wanted[key] for key in ("group", "step", "began")})
    file = play.file
    assert "1 groups were measured before" in play.begin()["lines"][0]
    assert play.file == file


def test_a_measurement_that_was_cut_off_is_waited_for(play):
    assert play.begin()["wait"] == 0
    play.work("test")
    wanted = play.work("next", minutes_each=2)
    assert 200 < play.begin()["wait"] <= 210
    play.work("note", **{key: wanted[key] for key in ("group", "step", "began")})
    assert play.begin()["wait"] == 0


def test_check_mode_writes_nothing(play):
    play.check = True
    assert play.begin()["go"] is False
    assert not play.directory.exists()


def test_a_node_that_fails_its_proof_or_stays_in_use_is_not_measured(play):
    findings = [{"id": "ecc", "summary": "3 errors", "severity": "fail"}]
    play.hosts["n00"]["__acceptance_kept"] = {"failed": True, "msg": "GPULAB-V001 ...", "findings": findings}
    play.hosts["n01"]["__acceptance_kept"] = {"failed": True, "msg": "GPULAB-F006 n01 was still in use"}
    play.begin()
    play.work("test")
    nodes = state.read(Path(play.file)).nodes
    assert nodes["n00"].failed == "its proof failed: ecc: 3 errors"
    assert "still in use" in nodes["n01"].untested


def test_a_node_that_cannot_be_reached_is_not_tested(play):
    play.hosts["n03"] = {"ansible_facts": {}, "__acceptance_reading": {"unreachable": True}}
    play.begin(floors=[OWN])
    play.work("test")
    play.go(Cluster(3))
    told = json.loads(Path(play.file).with_name(certificate.FILE).read_bytes())
    assert (told["accepted"], told["nodes"]["n03"]["verdict"]) == (False, "not tested")


@pytest.mark.parametrize(
    "record", [{"all_reduce_gbs": "fast"}, {"all_reduce_gbs": float("nan")}, {"wrong": 3}, {"lowest_gbs": True}, {}]
)
def test_what_a_node_says_is_no_number_unless_it_is_one(play, record):
    play.begin()
    play.work("test")
    wanted = play.work("next")
    good = {"state": "done", "wrong": 0, "all_reduce_gbs": 1.0, "lowest_gbs": 1.0, "highest_gbs": 1.0}
    for name in wanted["group"]:
        facts = {"gpulab_nodes_all_reduce": {**good, **record} if record else {}}
        play.hosts[name]["__acceptance_ended"] = {"ansible_facts": facts}
    play.work("note", **{key: wanted[key] for key in ("group", "step", "began")})
    (measured,) = state.read(Path(play.file)).results
    assert (measured.rate, bool(measured.why)) == (None, True)


@pytest.mark.slow
def test_the_playbook_verifies_a_certificate_and_refuses_one_that_was_changed(tmp_path):
    path, key = tmp_path / "1" / certificate.FILE, tmp_path / "signing"
    path.parent.mkdir()
    path.write_bytes(certificate.canonical(made(Cluster(4))))
    signatures.make_key(key, certificate.PURPOSE)
    signatures.sign(path, key, certificate.PURPOSE)
    settings = {"acceptance_certificate": str(path), "acceptance_signers": str(tmp_path / signatures.SIGNERS)}
    call = ["ansible-playbook", "playbooks/acceptance_verify.yml", "-i", "localhost,", "-e", json.dumps(settings)]
    done = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, ": accepted" in done.stdout) == (0, True), done.stdout
    path.write_bytes(path.read_bytes().replace(b'"gbs":4.3', b'"gbs":4.4'))
    done = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, "GPULAB-F145" in done.stdout) == (2, True), done.stdout
