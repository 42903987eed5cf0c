"""What is done to units of systemd, from what they are; of one that is not there, nothing can be foreseen."""

from types import SimpleNamespace

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.unit_states import Unit
from ansible_collections.gpulab.node.plugins.module_utils.system import units
from ansible_collections.gpulab.node.plugins.module_utils.system.units import Step, Wanted
from ansible_collections.gpulab.node.plugins.modules import units as module_units

NAME = "a.service"
PRESENT = Wanted("started", enabled=True)
GONE = Wanted("stopped", enabled=False)


def unit(active, file_state, load="loaded"):
    return Unit(NAME, (NAME,), load, active, "", file_state)


@pytest.mark.parametrize(
    ("wanted", "now", "actions"),
    [
        pytest.param(PRESENT, ("active", "enabled"), [], id="as-wanted"),
        pytest.param(PRESENT, ("activating", "static"), [], id="static-and-on-its-way"),
        pytest.param(PRESENT, ("inactive", "disabled"), ["enable", "start"], id="off"),
        pytest.param(PRESENT, ("failed", "enabled"), ["start"], id="failed"),
        pytest.param(PRESENT, ("deactivating", "enabled"), ["start"], id="about-to-stop"),
        pytest.param(PRESENT, ("inactive", "masked", "masked"), ["enable", "start"], id="masked-which-then-fails"),
        pytest.param(
            Wanted("started", enabled=True, unmask=True), ("inactive", "masked", "masked"),
            ["unmask", "enable", "start"], id="unmasked",
        ),
        pytest.param(Wanted("started"), ("inactive", "disabled"), ["start"], id="started-alone"),
        pytest.param(Wanted(enabled=True), ("inactive", "disabled"), ["enable"], id="enabled-alone"),
        pytest.param(Wanted("restarted"), ("active", "enabled"), ["restart"], id="again"),
        pytest.param(Wanted("restarted"), ("inactive", "enabled"), ["start"], id="again-though-it-did-not-run"),
        pytest.param(GONE, ("active", "enabled"), ["stop", "disable"], id="goes"),
        pytest.param(GONE, ("deactivating", "enabled-runtime"), ["stop", "disable"], id="goes-slowly"),
        pytest.param(GONE, ("active", "static"), ["stop"], id="static-goes"),
        pytest.param(GONE, ("inactive", "masked", "masked"), [], id="masked-is-off"),
        pytest.param(GONE, ("failed", "disabled"), [], id="failed-is-off"),
        pytest.param(Wanted(enabled=False), ("active", "enabled"), ["disable"], id="runs-until-the-next-boot"),
        pytest.param(PRESENT, ("inactive", "", "not-found"), [], id="not-there"),
    ],
)  # fmt: skip
def test_steps(wanted, now, actions):
    assert units.plan([NAME], {NAME: unit(*now)}, wanted) == [Step(action, NAME) for action in actions]


@pytest.mark.parametrize(
    ("path", "actions"),
    [
        ("/etc/systemd/system/a.service", ["restart"]),
        ("/etc/systemd/system/a.service.d/gpulab.conf", ["restart"]),
        ("/usr/local/lib/systemd/system/a.service", ["restart"]),
        ("/etc/systemd/system/a.service.wants/x", []),
        ("/etc/systemd/system/ba.service", []),
        ("/etc/default/a.service", []),
    ],
)
def test_a_unit_whose_file_changed_is_started_again(path, actions):
    steps = units.plan([NAME], {NAME: unit("active", "enabled")}, Wanted("started", enabled=True, changed=[path]))
    assert [step.action for step in steps] == actions


@pytest.mark.parametrize(
    ("actions", "enabled", "shown"),
    [
        (["unmask", "enable", "start"], True, {"enable": [NAME]}),
        (["restart"], True, {"enable": []}),
        (["stop", "disable"], False, {"disable": [NAME]}),
        (["stop"], False, {"disable": []}),
        (["start"], None, {"enable": []}),
    ],
)
def test_the_preview_shows_what_a_boot_does_otherwise(actions, enabled, shown):
    assert units.shown([Step(action, NAME) for action in actions], enabled=enabled) == shown


class End(Exception):  # noqa: N818 - no error
    """The module ended."""


class Systemd:
    """A systemd with some units; it notes what is asked of it."""

    def __init__(self, *known, fails="", answers=True, on_disk=""):
        """Have units, by their properties; fails is an action that fails, on_disk what the disk has of unit files."""
        self.known, self.fails, self.answers, self.on_disk, self.ran = known, fails, answers, on_disk, []

    def run_command(self, argv):
        """Answer systemctl."""
        if argv[1] == "show":
            text = "\n\n".join(
                f"Id={name}\nNames={name}\nLoadState={load}\nActiveState={active}\nUnitFileState={enabled}"
                for name, load, active, enabled in self.known
            )
            return (0, text, "") if self.answers else (1, "", "Failed to connect to bus")
        if argv[1] == "list-unit-files":
            return 0, self.on_disk, ""
        self.ran.append(" ".join(argv[1:]))
        return (1, "", "Job failed.\nSee journal.") if self.fails in argv else (0, "", "")


def run(monkeypatch, systemd, *, check_mode=False, **params):
    """Run the module; return what it ends with."""
    defaults = {"state": "unchanged", "enabled": None, "unmask": False, "wait": True, "changed_files": []}

    def end(**result):
        raise End(result)

    module = SimpleNamespace(
        params={**defaults, **params},
        check_mode=check_mode,
        run_command=systemd.run_command,
        exit_json=end,
        fail_json=end,
    )
    monkeypatch.setattr(module_units, "AnsibleModule", lambda **_: module)
    with pytest.raises(End) as caught:
        module_units.main()
    return caught.value.args[0]


THERE, MISSING = ("a.service", "loaded", "inactive", "disabled"), ("b.service", "not-found", "inactive", "")


@pytest.mark.parametrize("check_mode", [True, False])
def test_what_differs_is_done_and_said(monkeypatch, check_mode):
    systemd = Systemd(THERE)
    result = run(
        monkeypatch, systemd, check_mode=check_mode, names=["a.service", "a.service"], state="started", enabled=True
    )
    assert result["changed"] is True
    assert result["changes"] == [{"action": "enable", "what": "a.service"}]
    assert result["steps"] == [{"action": action, "unit": "a.service"} for action in ("enable", "start")]
    assert systemd.ran == ([] if check_mode else ["enable -- a.service", "start -- a.service"])


@pytest.mark.parametrize("known", ["enabled", "disabled"])
def test_one_that_somebody_masked_since_systemd_read_it_is_unmasked_first(monkeypatch, known):
    systemd = Systemd(("a.service", "loaded", "active", known), on_disk="a.service masked enabled\n")
    run(monkeypatch, systemd, names=["a.service"], enabled=True, unmask=True)
    assert systemd.ran == ["unmask -- a.service", "enable -- a.service"]


def test_a_unit_that_the_run_would_bring_hinders_no_check_mode(monkeypatch):
    systemd, wanted = Systemd(THERE, MISSING), {"names": ["a.service", "b.service"], "state": "started"}
    result = run(monkeypatch, systemd, check_mode=True, **wanted)
    assert (result["missing"], len(result["steps"])) == (["b.service"], 1)
    assert "b.service" in run(monkeypatch, systemd, **wanted)["msg"]
    assert systemd.ran == []


def test_a_unit_that_is_not_there_is_stopped_already(monkeypatch):
    result = run(monkeypatch, Systemd(MISSING), names=["b.service"], state="stopped", enabled=False)
    assert (result["changed"], result["missing"]) == (False, ["b.service"])


def test_one_that_waits_for_others_is_not_waited_for(monkeypatch):
    systemd = Systemd(THERE)
    run(monkeypatch, systemd, names=["a.service"], state="started", enabled=True, wait=False)
    assert systemd.ran == ["enable -- a.service", "--no-block start -- a.service"]


def test_what_systemctl_said_is_told(monkeypatch):
    systemd = Systemd(THERE, fails="start")
    told = run(monkeypatch, systemd, names=["a.service"], state="started")["msg"]
    assert told == "systemctl start a.service failed: Job failed. See journal."


def test_a_node_without_systemd_is_told(monkeypatch):
    assert "Failed to connect" in run(monkeypatch, Systemd(answers=False), names=["a.service"], state="stopped")["msg"]


def test_nothing_is_asked_for_no_units(monkeypatch):
    assert run(monkeypatch, Systemd(answers=False), names=[], state="started")["changed"] is False
