"""A node leaves service and comes back: whose fence it is, what is taken back, and whom it keeps out.

The numbers are of other projects' issues, whose defects are ruled out here.
"""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import replace

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.facts import fence as facts
from ansible_collections.gpulab.node.plugins.module_utils.fence import host, login
from ansible_collections.gpulab.node.plugins.module_utils.fence.host import FenceRequest, NodeFence

RUN, OTHER = "20261126T210000Z", "20261125T090000Z"
WISH = FenceRequest(RUN, "anna on laptop", "driver 550", "2099-01-01T00:00:00Z")
SSHD = "# PAM\naccount    required     pam_nologin.so\n@include common-account\n"
CONNECT_FAILURE = "slurm_load_node error: Unable to contact slurm controller (connect failure)\n"
NOT_SET_UP = "scontrol: fatal: Could not establish a configuration source\n"


class Module:
    """Stands for an AnsibleModule."""

    check_mode = False

    def __init__(self, tmpdir):
        """Take its temporary directory."""
        self.tmpdir = str(tmpdir)

    @staticmethod
    def atomic_move(source, target, **_more):
        """Move as Ansible does."""
        shutil.move(source, target)


class Machine:
    """A node below a directory, and a Slurm that has it; state and reason are None where it has not."""

    def __init__(self, root):
        """Make the node's files."""
        self.root, self.commands, self.walled = root, [], []
        self.state, self.reason, self.jobs, self.failure = None, "", "", None
        self.reservations, self.other = {}, None
        for path, text in (("/etc/pam.d/sshd", SSHD), ("/etc/pam.d/sudo", SSHD), ("/proc/stat", "btime 1\n")):
            self.path(path).parent.mkdir(parents=True, exist_ok=True)
            self.path(path).write_text(text)
        (root / "tmp").mkdir()
        self.module = Module(root / "tmp")

    def path(self, path):
        """Return where a path of the node is."""
        return self.root / path.lstrip("/")

    def joins_slurm(self, state="IDLE", reason=""):
        """Have slurmd, and be known to slurmctld."""
        self.path(host.SLURMD[0]).parent.mkdir(parents=True)
        self.path(host.SLURMD[0]).touch()
        self.state, self.reason = state, reason

    def call(self, argv):
        """Answer as Slurm does."""
        if argv[0] == "wall":
            self.walled.append(argv[1])
            return 0, "", ""
        if self.failure is not None:
            return 1, "", self.failure
        if argv[0] == "squeue":
            return 0, self.jobs, ""
        if argv[-1] == "reservation" or "ReservationName=" in " ".join(argv):
            return self.reserve(argv)
        if argv[1] == "update":
            self.commands.append(" ".join(argv[2:]))
            words = dict(word.split("=", 1) for word in argv[2:])
            drains = words["state"] == "drain"
            self.state = f"{self.state}+DRAIN" if drains else self.state.replace("+DRAIN", "")
            self.reason = words.get("reason", "")
            return 0, "", ""
        reason = f" Reason={self.reason} [root@2026-11-26T21:00:00]" if self.reason else ""
        known = f"NodeName=gpu-7 NodeHostName=node07 State={self.state} CfgTRES=cpu=2{reason}\n"
        return 0, known if self.state else "NodeName=other State=IDLE\n", ""

    def reserve(self, argv):
        """Answer as Slurm does about reservations, which it keeps from each other."""
        words = dict(word.split("=", 1) for word in argv if "=" in word)
        name = words.get("ReservationName")
        if argv[1] == "--oneliner":
            return 0, "".join(f"{line}\n" for line in self.reservations.values()), ""
        self.commands.append(" ".join(argv[1:]))
        if argv[1] == "delete":
            del self.reservations[name]
        elif self.other and argv[1] == "create":
            return 1, "", f"Error creating the reservation: {self.other}\n"
        else:
            start = time.strftime("%Y-%m-%dT%H:%M:%S")
            self.reservations[name] = f"ReservationName={name} StartTime={start} EndTime={words['EndTime']} Nodes=gpu-7"
        return 0, "", ""

    @property
    def fence(self):
        """Return the fence of this node."""
        return NodeFence(Node(self.root), self.call, self.module, "node07")

    @property
    def sshd(self):
        """Return what PAM reads for a login by SSH."""
        return self.path("/etc/pam.d/sshd").read_text()


@pytest.fixture
def machine(tmp_path, monkeypatch):
    monkeypatch.setattr(host.socket, "gethostname", lambda: "node07.lab.example")
    monkeypatch.setattr(host.users, "read", lambda *_: {"state": "idle", "who": [], "sessions": []})
    monkeypatch.setenv("SUDO_USER", "admin")
    return Machine(tmp_path)


def code(call, *arguments, **more):
    """Return the code that a call is refused with."""
    with pytest.raises(Refusal) as refused:
        call(*arguments, **more)
    return refused.value.code


def test_without_an_engine_people_are_kept_out_but_not_who_mends_the_node(machine):
    assert machine.fence.drain(replace(WISH, reason="driver 550.", passing=("nurse",))) == [
        facts.RECORD, "/etc/pam.d/sshd", login.MESSAGE,
    ]  # fmt: skip
    first = [line for line in machine.sshd.splitlines() if not line.startswith("#")][:2]
    assert first[0].endswith("quiet user in admin:nurse:root")
    assert first[1] == f"account requisite pam_nologin.so file={login.MESSAGE}"
    said = machine.path(login.MESSAGE).read_text()
    assert all(part in said for part in ("anna on laptop", "driver 550", "2099-01-01T00:00:00Z", RUN))
    assert ".." not in said
    assert machine.walled == [said.rstrip("\n")]
    assert machine.path("/etc/pam.d/sudo").read_text() == SSHD


def test_nothing_of_it_is_where_a_boot_removes_it():
    """systemd-user-sessions removes /run/nologin and /etc/nologin, as seen on Debian 12."""
    assert login.MESSAGE not in {"/etc/nologin", "/run/nologin"}
    assert login.MESSAGE.startswith("/etc/")
    assert facts.RECORD.startswith("/var/lib/")


def test_the_node_is_open_again_after_the_resume_and_its_files_are_as_before(machine):
    machine.fence.drain(WISH)
    changed, left = machine.fence.resume(RUN)
    assert changed == [login.MESSAGE, "/etc/pam.d/sshd", facts.RECORD]
    assert (left, machine.sshd, machine.fence.record()) == ("", SSHD, None)
    assert not machine.path(login.MESSAGE).exists()


def test_a_second_time_nothing_changes(machine):
    machine.joins_slurm()
    machine.fence.drain(WISH)
    before = (machine.commands[:], machine.walled[:])
    assert machine.fence.drain(WISH) == []
    machine.fence.resume(RUN)
    assert machine.fence.resume(RUN) == ([], "")
    assert (machine.commands[:-1], machine.walled) == before


@pytest.mark.parametrize("slurm", [False, True])
def test_check_mode_says_what_would_change_and_changes_nothing(machine, slurm):
    if slurm:
        machine.joins_slurm()
    machine.module.check_mode = True
    would = machine.fence.drain(WISH)
    assert machine.fence.record() is None
    machine.module.check_mode = False
    assert machine.fence.drain(WISH) == would
    done = (machine.sshd, machine.commands[:], machine.fence.record())
    machine.module.check_mode = True
    would = machine.fence.resume(RUN)
    assert (machine.sshd, machine.commands, machine.fence.record()) == done
    machine.module.check_mode = False
    assert machine.fence.resume(RUN) == would


def test_the_fence_of_another_run_is_neither_taken_over_nor_lifted(machine):
    """NVSentinel#1424: nodes that somebody else had cordoned were uncordoned."""
    machine.fence.drain(replace(WISH, run=OTHER))
    closed = machine.sshd
    assert code(machine.fence.drain, WISH) == "F007"
    assert code(machine.fence.resume, RUN) == "F007"
    assert machine.sshd == closed
    assert machine.fence.record()["run"] == OTHER
    machine.fence.resume(RUN, force=True)
    assert machine.fence.record() is None


def test_a_lost_record_lifts_nothing(machine):
    """A play of DeepOps (PR 804) took back all drains, those of health checks included."""
    machine.joins_slurm("IDLE+DRAIN", "fan broken")
    assert machine.fence.resume(RUN) == ([], "")
    assert machine.commands == []


def test_under_slurm_a_node_is_drained_and_resumed_and_logins_stay_open_for_the_jobs(machine):
    machine.joins_slurm("MIXED")
    machine.jobs = "17 anna RUNNING NONE train all\n18 ben RUNNING 2026-11-29T14:00:00 gpulab-jupyter\n"
    machine.fence.drain(WISH)
    assert machine.commands == [f"nodename=gpu-7 state=drain reason=gpulab {RUN}: driver 550"]
    assert machine.sshd == SSHD
    notebook = "the notebook of ben (job 18, running, until 2026-11-29 14:00:00 at the latest)"
    assert machine.fence.users(1) == f"job 17 of anna (running), {notebook}"
    machine.jobs = ""
    assert machine.fence.users(1) == ""
    machine.fence.close(machine.fence.record(), ())
    assert machine.sshd != SSHD
    assert machine.fence.resume(RUN)[1] == ""
    assert machine.commands[1:] == ["nodename=gpu-7 state=resume"]
    assert (machine.sshd, machine.state) == (SSHD, "MIXED")


RESERVES = replace(WISH, reserve=True, until=time.strftime(facts.TIME, time.gmtime(time.time() + 7200)))
NAME = f"gpulab-{RUN}-gpu-7"
COURSE = "ReservationName=course StartTime={} EndTime=2099-01-01T00:00:00 Nodes=gpu-[6-8]"


def test_a_node_that_comes_back_by_itself_is_reserved_and_not_drained(machine):
    machine.joins_slurm("MIXED")
    machine.jobs = "17 anna RUNNING NONE train\n"
    assert machine.fence.drain(RESERVES) == [facts.RECORD, f"Slurm: reserve gpu-7 until {RESERVES.until}"]
    (command,) = machine.commands
    assert command.startswith(f"create reservation ReservationName={NAME} StartTime=now EndTime=")
    assert command.endswith("Nodes=gpu-7 Users=root Flags=IGNORE_JOBS")
    assert (machine.state, machine.sshd) == ("MIXED", SSHD)
    assert machine.fence.users(1) == "job 17 of anna (running)"
    assert machine.fence.drain(RESERVES) == []
    assert machine.fence.resume(RUN) == ([f"Slurm: delete the reservation {NAME}", facts.RECORD], "")
    assert machine.reservations == {}


def test_a_reservation_that_is_over_is_made_again_and_its_end_moves_with_the_run(machine):
    machine.joins_slurm()
    machine.fence.drain(RESERVES)
    later = replace(RESERVES, until=time.strftime(facts.TIME, time.gmtime(time.time() + 9000)))
    machine.fence.drain(later)
    assert machine.commands[-1].startswith(f"update ReservationName={NAME} EndTime=")
    machine.reservations.clear()
    machine.fence.drain(later)
    assert machine.commands[-1].startswith("create reservation")
    machine.reservations.clear()
    assert machine.fence.resume(RUN) == ([facts.RECORD], "")


def test_a_reservation_of_others_before_that_time_is_refused_before_anything_changes(machine):
    machine.joins_slurm()
    later, before = (time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time.time() + part)) for part in (9000, 3600))
    machine.reservations["course"] = COURSE.format(before)
    assert code(machine.fence.drain, RESERVES) == "F016"
    assert (machine.fence.record(), machine.commands) == (None, [])
    name, (found,) = machine.fence.reserved(host.AUTO)
    assert (name, found["name"], found["end"]) == ("gpu-7", "course", "2099-01-01T00:00:00Z")
    machine.reservations["course"] = COURSE.format(later)
    assert machine.fence.drain(RESERVES)


def test_a_reservation_that_slurm_refuses_is_told_in_its_words(machine):
    machine.joins_slurm()
    machine.other = "Requested nodes are busy"
    with pytest.raises(Refusal, match=r"F016.*: Error creating the reservation: Requested nodes are busy"):
        machine.fence.drain(RESERVES)
    machine.fence.resume(RUN)
    assert machine.fence.record() is None


@pytest.mark.parametrize("until", [None, "tomorrow", "2026-01-01T00:00:00Z"])
def test_a_reservation_has_an_end_that_is_to_come(machine, until):
    machine.joins_slurm()
    assert code(machine.fence.drain, replace(RESERVES, until=until)) == "F004"
    assert machine.fence.record() is None


def test_check_mode_reserves_nothing(machine):
    machine.joins_slurm()
    machine.module.check_mode = True
    assert f"Slurm: reserve gpu-7 until {RESERVES.until}" in machine.fence.drain(RESERVES)
    assert (machine.commands, machine.reservations) == ([], {})


def test_without_slurm_there_is_nothing_to_reserve(machine):
    assert facts.RECORD in machine.fence.drain(replace(RESERVES, until=None))
    assert machine.fence.reserved(host.AUTO) == (None, [])
    assert machine.commands == []


def test_a_job_counts_on_a_node_that_has_no_fence_where_slurm_knows_it(machine):
    machine.joins_slurm()
    machine.jobs = "17 anna RUNNING NONE train\n"
    assert machine.fence.users(1) == ""
    assert machine.fence.users(1, machine.fence.reserved(host.AUTO)[0]) == "job 17 of anna (running)"


def test_a_drain_that_was_there_before_is_still_there_afterwards(machine):
    machine.joins_slurm("IDLE+DRAIN", "fan broken")
    machine.fence.drain(WISH)
    assert machine.fence.resume(RUN)[1] == "fan broken"
    assert (machine.commands, machine.state) == ([], "IDLE+DRAIN")


def test_a_drain_for_another_reason_that_came_meanwhile_stays(machine):
    machine.joins_slurm()
    machine.fence.drain(WISH)
    machine.reason = "Node unexpectedly rebooted"
    assert machine.fence.resume(RUN)[1] == "Node unexpectedly rebooted"
    assert machine.state == "IDLE+DRAIN"


def test_a_failure_becomes_the_reason_in_slurm_and_for_people(machine):
    machine.joins_slurm()
    machine.fence.drain(WISH)
    since = machine.fence.record()["since"]
    machine.fence.drain(replace(WISH, reason="the proof failed: gpu-count", held=True, until=None))
    assert machine.reason == f"gpulab {RUN}: the proof failed: gpu-count"
    record = machine.fence.record()
    assert (record["since"], record["held"], record["before"]["drained"]) == (since, True, False)
    assert machine.fence.resume(RUN)[1] == ""
    assert machine.state == "IDLE"


def test_slurms_controller_that_is_down_is_refused_before_anything_changes(machine):
    machine.joins_slurm()
    machine.failure = CONNECT_FAILURE
    assert code(machine.fence.drain, WISH) == "F008"
    assert (machine.fence.record(), machine.sshd) == (None, SSHD)


def test_what_a_controller_does_not_believe_says_where_to_look(machine):
    machine.joins_slurm()
    machine.failure = "slurm_load_node error: Protocol authentication error\n"
    with pytest.raises(Refusal, match="the MUNGE keys or the clocks of the two differ"):
        machine.fence.drain(WISH)


def test_a_fence_stays_where_slurms_controller_cannot_be_asked_to_lift_it(machine):
    machine.joins_slurm()
    machine.fence.drain(WISH)
    machine.failure = CONNECT_FAILURE
    assert code(machine.fence.resume, RUN) == "F008"
    assert code(machine.fence.users, 1) == "F008"
    assert machine.fence.record() is not None


def test_slurm_that_is_only_installed_or_does_not_know_the_node_is_no_engine(machine):
    machine.joins_slurm()
    machine.failure = NOT_SET_UP
    machine.fence.drain(WISH)
    assert machine.fence.record()["engine"] == host.NONE
    machine.fence.resume(RUN)
    machine.failure, machine.state = None, None
    machine.fence.drain(WISH)
    assert machine.fence.record()["engine"] == host.NONE


def test_slurm_by_name_has_to_know_the_node(machine):
    assert code(machine.fence.drain, replace(WISH, engine=host.SLURM)) == "F009"
    assert machine.fence.record() is None


def test_a_node_into_which_nobody_logs_in_by_pam_is_refused(machine):
    machine.path("/etc/pam.d/sshd").unlink()
    assert code(machine.fence.drain, WISH) == "F010"
    assert machine.fence.record() is None


def test_who_is_at_work_is_in_use(machine, monkeypatch):
    person = {"user": "wei", "since": None, "desktop": False, "logged_in": True, "commands": ["python"]}
    monkeypatch.setattr(host.users, "read", lambda *_: {"state": "idle", "who": [], "sessions": [person]})
    assert machine.fence.users(1) == "wei, who is logged in (python)"


def test_the_facts_say_whether_the_node_should_be_back(machine):
    assert facts.read(Node(machine.root)) is None
    machine.fence.drain(WISH)
    assert facts.read(Node(machine.root))["overdue"] is False
    machine.fence.drain(replace(WISH, until="2026-11-26T21:00:00Z"))
    assert facts.read(Node(machine.root))["overdue"] is True
    machine.fence.drain(replace(WISH, until=None))
    assert facts.read(Node(machine.root))["overdue"] is False


def test_a_damaged_record_is_refused_and_not_taken_for_a_node_in_service(machine):
    machine.fence.drain(WISH)
    machine.path(facts.RECORD).write_text("{")
    assert code(machine.fence.drain, WISH) == "H220"
    assert code(facts.read, Node(machine.root)) == "H220"


def test_the_record_says_everything_in_json(machine):
    machine.fence.drain(WISH)
    assert json.loads(machine.path(facts.RECORD).read_text()) == machine.fence.record()
