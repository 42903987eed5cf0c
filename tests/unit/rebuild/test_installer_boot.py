"""What each work of a reinstall asks the node, and when it does not go on."""

import gzip
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace

import pytest
from ansible.errors import AnsibleConnectionFailure
from ansible_collections.gpulab.node.plugins.action import installer_boot
from ansible_collections.gpulab.node.plugins.plugin_utils.capture import rebuild_state as states
from ansible_collections.gpulab.node.plugins.plugin_utils.installer import image
from ansible_collections.gpulab.node.plugins.plugin_utils.rebuild.case import Captured

from unit.capture import hardware
from unit.rebuild import machine as machines
from unit.rebuild.machine import KEY, UUID

BOOT = "11111111-2222-3333-4444-555555555555"
PLAN, NAME = "0123456789abcdef", "20261126T132500Z"


class Action(installer_boot.ActionModule):
    """The action on a node that answers as a test says; what it asks is noted."""

    def __init__(self, machine, *, check=False, **args):
        """Work on a machine with these arguments."""
        defaults = {name: one.get("default") for name, one in installer_boot.ARGUMENTS.items()}
        self._args = {**defaults, "hosts": ["node07"], "confirmed": "node07", **args}
        self._host, self.machine = "node07", machine
        self.users = {"state": "idle", "who": [], "sessions": []}
        self.variables = {"ansible_facts": {"gpulab": {"users_of_gpus": self.users}}}
        self._task = SimpleNamespace(check_mode=check)
        self.look = {
            "obstacle": "",
            "boot_id": BOOT,
            "here": {},
            "dmi_uuid": UUID,
            "memory": 64 << 30,
        }
        self.keys, self.keys_read = f"\n{KEY.strip()}", []
        self.reasons, self.asked, self.transferred, self.answers = [], [], {}, []
        shell = SimpleNamespace(tmpdir="/remote/tmp", join_path=lambda *parts: "/".join(parts))
        self._connection = SimpleNamespace(_shell=shell, reset=lambda: None)

    def _captured(self):
        content = self.machine.contents.get
        return Captured(self.machine.manifest(), content, "20261126T132501Z"), ["told"]

    def _on_node(self, work, **asked):
        self.asked.append((work, asked))
        if work == "look":
            return dict(self.look)
        return {"reasons": self.reasons} if work == "judge" else {"changed": True}

    def _low_level_execute_command(self, cmd, **_more):
        if cmd == installer_boot.WHO:
            return {"stdout": f"{self.machine.found['user']}\n10.0.0.2 50000 10.0.0.7 22\n"}
        if cmd.startswith("cat /home"):
            self.keys_read.append(cmd)
            return {"stdout": self.keys}
        answer = self.answers.pop(0) if self.answers else ""
        if isinstance(answer, Exception):
            raise answer
        return {"stdout": answer}

    def _make_tmp_path(self):
        pass

    def _transfer_file(self, local, remote):
        self.transferred[remote] = Path(local).read_bytes()

    def works(self):
        """Return what the node was asked to do."""
        return [work for work, _asked in self.asked]


@pytest.fixture
def machine(tmp_path):
    return machines.Machine(tmp_path / "node")


@pytest.fixture
def ready(tmp_path, monkeypatch):
    """Return the directory of an image."""
    place = tmp_path / "image"
    place.mkdir()
    for name in (image.KERNEL, image.TREE):
        (place / name).write_bytes(name.encode())
    sums = {image.KERNEL: "1" * 64, image.TREE: "2" * 64}
    found = image.Image(place, place / image.KERNEL, place / image.TREE, {}, sums)
    monkeypatch.setattr(image, "read", lambda _path: found)
    monkeypatch.setattr(installer_boot, "MEMORY", tmp_path)
    return place


def codes(result):
    return [one["code"] for one in result["refusals"]]


# The plan


def test_a_plan_says_what_is_wiped_and_what_the_image_is_made_of(machine):
    action = Action(machine)
    result = action.plan()
    assert codes(result) == []
    assert [line.split()[0] for line in result["lines"]] == ["told", "WIPE", "KEEP"]
    assert (result["capture"], result["made"]) == ("20261126T132501Z", "2026-11-26T13:25:00Z")
    assert result["image"]["system"] == "debian-12"
    assert action.works() == ["look", "judge"]


def test_keys_are_read_as_the_user_whose_home_may_be_closed_to_root(machine):
    action = Action(machine)
    assert codes(action.plan()) == []
    files = "/home/admin/.ssh/authorized_keys /home/admin/.ssh/authorized_keys2"
    assert action.keys_read == [f"cat {files} 2>/dev/null"]
    machine.sections["users"][1]["password"] = "locked"  # noqa: S105
    assert codes(action.plan()) == []
    action.keys = ""
    assert codes(action.plan()) == ["R027"]


@pytest.mark.parametrize(("check", "expected"), [(False, ["R008"]), (True, [])])
def test_without_a_confirmation_the_plan_is_shown_and_refused_but_in_check_mode(machine, check, expected):
    action = Action(machine, check=check, confirmed=None)
    result = action.plan()
    assert codes(result) == expected
    assert any(line.startswith("WIPE") for line in result["lines"])


def test_several_hosts_need_each_its_name(machine):
    assert codes(Action(machine, hosts=["node07", "node08"]).plan()) == ["R008"]


def test_what_the_boot_loader_cannot_do_is_a_refusal(machine):
    action = Action(machine)
    action.look["obstacle"] = "it was started by systemd-boot"
    assert codes(action.plan()) == ["R024"]


def test_secure_boot_starts_only_the_kernel_of_the_distribution_that_is_there(machine):
    machine.sections["boot"]["secure_boot"] = "enabled"
    assert codes(Action(machine, system="debian-13").plan()) == []
    machine.machine["system"].update(id="ubuntu", version="24.04", codename="noble")
    result = Action(machine, system="debian-12", mirror="http://own/debian").plan()
    assert codes(result) == ["R024"]
    assert "Secure Boot" in result["refusals"][0]["cause"]


def test_what_the_installer_would_refuse_is_refused_before(machine):
    action = Action(machine)
    action.reasons = ["No disk has the serial number X, but exactly one must."]
    result = action.plan()
    assert codes(result) == ["R074"]
    assert "serial number X" in result["refusals"][0]["cause"]


def test_the_machine_that_the_run_is_on_is_not_reinstalled(machine):
    action = Action(machine)
    action.look["boot_id"] = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert codes(action.plan()) == ["R075"]


def test_a_container_is_refused_for_its_disk_and_nothing_else(tmp_path):
    action = Action(machines.Machine(tmp_path, hardware.container()))
    action.look.update(boot_id=Path("/proc/sys/kernel/random/boot_id").read_text().strip(), obstacle="no GRUB")
    assert codes(action.plan()) == ["R004"]
    assert action.works() == ["look"]


def test_the_order_of_servers_and_clients_is_said(machine):
    machine.sections["disks"]["exports"] = [
        {"path": "/data", "client": client, "options": [], "on_root_disk": False, "users": []}
        for client in ("node01", "node02")
    ]
    assert any(
        line.startswith("ORDER /data is exported to node01, node02:") for line in Action(machine).plan()["lines"]
    )


WORKER = {
    "pid": 7,
    "user": "wei",
    "command": "train.py",
    "kind": "process",
    "device": "/dev/nvidia0",
    "service": False,
    "since": None,
}


def test_a_node_in_use_is_refused_and_who_uses_it_is_named(machine):
    action = Action(machine)
    action.users["who"].append(WORKER)
    result = action.plan()
    assert codes(result) == ["R009"]
    assert "train.py (PID 7, user wei)" in result["refusals"][0]["cause"]


def test_who_came_since_the_plan_keeps_the_installer_from_being_chosen(machine):
    action = Action(machine, plan_id=PLAN)
    action.users["who"].append(WORKER)
    with pytest.raises(installer_boot.Refusal, match="GPULAB-R009"):
        action.arm()
    assert action.asked == []
    action.users["who"].clear()
    assert action.arm() == {"changed": True}
    assert action.asked[0][1]["names"] == ["vmlinuz", "tree.cpio.zst", "host.cpio.gz"]


# The files on the node


def test_what_is_put_is_the_image_and_the_hosts_own_part(machine, ready):
    action = Action(machine, image=str(ready))
    result = action.put()
    assert (result["changed"], result["boot_id"]) == (True, BOOT)
    assert result["arguments"] == [
        *("rdinit=/gpulab/init", "panic=60", "gpulab.refused=reboot", "gpulab.from=disk"),
        *("console=tty0", "console=ttyS0,115200n8"),
    ]
    assert set(action.transferred) == {f"/remote/tmp/{name}" for name in ("vmlinuz", "tree.cpio.zst", "host.cpio.gz")}
    part = gzip.decompress(action.transferred["/remote/tmp/host.cpio.gz"])
    assert machines.CONTENTS[machines.HOST_KEY] in part
    assert result["plan_id"].encode() in part


def test_no_secret_is_in_what_is_said_or_asked(machine, ready):
    action = Action(machine, image=str(ready))
    said = repr((action.plan(), action.put(), [one for one in action.asked if one[0] != "judge"]))
    assert "canary7f3a" not in said


def test_nothing_of_it_stays_on_the_controller(machine, ready, tmp_path):
    before = set(tmp_path.rglob("*"))
    Action(machine, image=str(ready)).put()
    assert set(tmp_path.rglob("*")) == before


def test_what_the_node_has_already_is_not_copied(machine, ready):
    action = Action(machine, image=str(ready))
    action.look["here"] = {image.KERNEL: "1" * 64, image.TREE: "2" * 64}
    action.put()
    assert set(action.transferred) == {"/remote/tmp/host.cpio.gz"}
    files = action.asked[-1][1]["files"]
    assert (files[image.KERNEL]["source"], files[image.TREE]["source"]) == (None, None)


@pytest.mark.parametrize("what", ["blocker", "judge"])
def test_what_changed_since_the_plan_stops_it(machine, ready, what):
    action = Action(machine, image=str(ready))
    if what == "blocker":
        machine.sections["disks"]["exports"] = [
            {"path": "/data", "client": "*", "options": [], "on_root_disk": False, "users": ["10.0.0.9"]}
        ]
    else:
        action.reasons = ["another machine"]
    result = action.put()
    assert result["failed"]
    assert result["refusal"]["code"] == {"blocker": "R026", "judge": "R074"}[what]
    assert action.transferred == {}


# The lock and the reboot


def test_a_lock_is_short_until_this_run_has_seen_that_it_still_comes_in(machine):
    action = Action(machine)
    action.lock()
    assert [asked["seconds"] for _work, asked in action.asked] == [120, 1800]


def test_a_run_that_the_lock_keeps_out_is_told_so_and_the_lock_stays_short(machine):
    action = Action(machine)
    action.answers = [AnsibleConnectionFailure("Connection closed by 10.0.0.7")]
    with pytest.raises(installer_boot.Refusal, match=r"GPULAB-R072.*admin"):
        action.lock()
    assert [asked["seconds"] for _work, asked in action.asked] == [120]


def test_root_comes_in_anyhow(machine):
    machine.found["user"] = "root"
    action = Action(machine)
    action.answers = [AnsibleConnectionFailure("nobody asks")]
    action.lock()
    assert [asked["seconds"] for _work, asked in action.asked] == [120, 1800]


@pytest.mark.parametrize(("age", "goes"), [(1, True), (29, True), (31, False), (-5, False)])
def test_a_node_whose_capture_is_old_is_not_rebooted(machine, age, goes):
    made = datetime.now(timezone.utc) - timedelta(minutes=age)
    action = Action(machine, made=f"{made:%Y-%m-%dT%H:%M:%SZ}")
    if goes:
        assert action.reboot() == {"changed": True}
    else:
        with pytest.raises(installer_boot.Refusal, match="GPULAB-R073"):
            action.reboot()
    assert action.works() == (["reboot"] if goes else [])


@pytest.mark.parametrize("work", ["lock", "put", "arm", "reboot"])
def test_check_mode_asks_the_node_to_do_nothing(machine, work):
    action = Action(machine, check=True)
    assert getattr(action, work)() == {"changed": True}
    assert action.asked == []


# What comes back


@pytest.fixture
def waiting(machine, monkeypatch):
    """Return a function that waits on a node with these answers, one every ten seconds of a clock that is not real."""
    clock = {"now": 0.0}
    monkeypatch.setattr(installer_boot.time, "monotonic", lambda: clock["now"])
    monkeypatch.setattr(installer_boot.time, "sleep", lambda seconds: clock.update(now=clock["now"] + seconds))

    def wait(answers, boot_id=BOOT, timeout=60):
        action = Action(machine, plan_id=PLAN, of_capture=NAME, boot_id=boot_id, timeout=timeout)
        action.answers = [AnsibleConnectionFailure("no route") if one is None else one for one in answers]
        return action.wait()

    return wait


@pytest.mark.parametrize(("state", "stays"), [("installing", False), ("reachable", True), ("proven", True)])
def test_what_is_taken_back_is_no_rebuild_any_more(machine, tmp_path, state, stays):
    """A later rebuild must not come back from the capture of a reinstall that never was."""
    states.advance(tmp_path / "captures/node07", states.State("node07", "20261126T132500Z", PLAN, state))
    action = Action(machine, directory=str(tmp_path / "captures"))
    assert action.disarm() == {"changed": True}
    assert (states.read(tmp_path / "captures/node07") is not None) is stays


def test_in_check_mode_the_note_stays(machine, tmp_path):
    states.advance(tmp_path / "captures/node07", states.State("node07", "20261126T132500Z", PLAN, "installing"))
    Action(machine, check=True, directory=str(tmp_path / "captures")).disarm()
    assert states.read(tmp_path / "captures/node07") is not None


def marker(plan, capture="20250101T000000Z"):
    return f'new-boot\n{{"plan": "{plan}", "capture": "{capture}"}}\n'


def test_the_system_of_this_plan_is_waited_for(waiting):
    found = waiting([f"{BOOT}\n", None, None, marker(PLAN)])
    assert found["outcome"] == "installed"
    assert found["ansible_facts"] == {"discovered_interpreter_python": "/usr/bin/python3"}, (
        "not the old one's python3.11"
    )


def test_a_system_from_this_capture_is_new_by_whatever_plan(waiting):
    """A medium may have installed it meanwhile; to capture it would hide the capture of the old system."""
    assert waiting([None, marker("f" * 16, NAME)])["outcome"] == "installed"
    assert waiting([marker("f" * 16, NAME)], boot_id=None)["outcome"] == "installed"


@pytest.mark.parametrize(
    ("installed_from", "state", "refused"),
    [
        (NAME, None, True),
        (NAME, "software", True),
        (NAME, "proven", False),
        ("20250101T000000Z", None, False),
        (None, None, False),
    ],
)
def test_a_node_that_waits_for_its_rebuild_is_not_captured_and_wiped(machine, tmp_path, installed_from, state, refused):
    place = tmp_path / "captures/node07"
    for name in ("20250101T000000Z", NAME):
        (place / name).mkdir(parents=True)
    if state:
        states.advance(place, states.State("node07", NAME, PLAN, state))
    action = Action(machine, directory=str(tmp_path / "captures"))
    action.answers = [marker(PLAN, installed_from) if installed_from else "boot\n"]
    if refused:
        with pytest.raises(installer_boot.Refusal, match="GPULAB-R078"):
            action.begin()
        assert action.asked == []
    else:
        assert action.begin() == {"changed": True}


def test_the_old_system_is_known_by_its_new_boot_without_the_mark(waiting):
    found = waiting([f"{BOOT}\n", None, "new-boot\n"])
    assert found["outcome"] == "old"
    assert "before it wrote" in found["detail"]


def test_the_mark_of_an_earlier_reinstall_is_the_old_systems(waiting):
    assert waiting([marker("f" * 16)])["outcome"] == "old"


def test_an_earlier_runs_node_that_answers_without_the_mark_has_its_old_system(waiting):
    assert waiting([None, f"{BOOT}\n"], boot_id=None) == {"outcome": "old"}


@pytest.mark.parametrize(("answers", "words"), [([None] * 20, "no route"), ([f"{BOOT}\n"] * 20, "did not reboot")])
def test_no_answer_is_a_refusal_in_the_end(waiting, answers, words):
    with pytest.raises(installer_boot.Refusal, match=f"GPULAB-R029.*{words}"):
        waiting(answers)


def test_another_host_key_ends_the_waiting_at_once(waiting):
    """Nobody waits an hour for a machine that is not the one that was sent."""
    with pytest.raises(installer_boot.Refusal, match="GPULAB-R077"):
        waiting([None, AnsibleConnectionFailure("Host key verification failed."), marker(PLAN)])


def test_where_nobody_can_look_the_reason_is_open(machine):
    action = Action(machine, network_files=["/nowhere/x.network"])
    assert "before it wrote" in action.why()


def test_why_the_old_system_is_back_is_said_where_the_guards_know(machine):
    action = Action(machine)
    action.reasons = ["No disk has the serial number X, but exactly one must."]
    assert "serial number X" in action.why()
