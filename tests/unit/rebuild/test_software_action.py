"""The controller's side of the software: which capture, what the node is asked, what is refused."""
# ruff: noqa: SLF001 - the steps of an action are looked at one by one

import base64
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import pytest
from ansible.parsing.vault import VaultSecret, VaultSecretsContext
from ansible_collections.gpulab.node.plugins.action import restore_software
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.rebuild.software_asked import TAKEN
from ansible_collections.gpulab.node.plugins.modules import restore_software as restore_software_module
from ansible_collections.gpulab.node.plugins.plugin_utils.capture import captures
from ansible_collections.gpulab.node.plugins.plugin_utils.capture import rebuild_state as states
from ansible_collections.gpulab.node.plugins.plugin_utils.capture import secrets as ciphers
from ansible_collections.gpulab.node.plugins.plugin_utils.capture.manifest import Manifest, Sections
from ansible_collections.gpulab.node.plugins.plugin_utils.progress.long_step import StepOutcome
from ansible_collections.gpulab.node.plugins.plugin_utils.rebuild import software

from unit.captures.captured import capture
from unit.filled import typed

FILES = {"/etc/apt/sources.list": b"deb http://mirror trixie main\n", "/etc/cron.d/backup": b"x", "/etc/fstab": b"y"}
SECRETS = {"/etc/apt/auth.conf.d/lab": b"machine example.org password canary", "/var/spool/cron/crontabs/li": b"z"}
SECTIONS = {
    "identity": {"machine_id": "aaaa"},
    "baseline": {"results": [{"id": "gpu-answers", "severity": "fail"}, {"id": "clock", "severity": "ok"}]},
    "packages": [],
    "manual": ["git"],
    "users": [{"name": "li"}],
    "holds": [],
    "units": [],
    "unit_states": {},
    "environments": [{"path": "/home/li/a/b"}, {"path": "/home/li/a"}],
    "containers": {"engines": []},
    "gpulab": {
        "receipts": {"cuda": ["package:cuda-*", "unit:a.service"], "base": ["running:b.service"]},
        "brought": ["g++-14", "git"],
    },
}
HERE = {"machine_id": "aaaa", "receipts": ["base"], "users": ["root"], "done": "", "marker": False}
MACHINE = {"system": {"id": "debian", "version": "13", "name": "Debian 13"}}


@pytest.fixture
def directory(tmp_path, monkeypatch):
    context = VaultSecretsContext([("default", VaultSecret(b"correct horse"))])
    monkeypatch.setattr(VaultSecretsContext, "_current", context)
    for made in ("2026-11-25T02:15:00Z", "2026-11-26T02:15:00Z"):
        cipher = ciphers.Vault("node07")
        capture(tmp_path, cipher, FILES, secrets=SECRETS, made=made, sections=SECTIONS, machine=MACHINE)
    return tmp_path


@pytest.fixture
def opened(directory):
    return captures.named(captures.place(directory, "node07"), "node07", None)


def test_a_capture_that_is_not_there_is_refused(directory):
    with pytest.raises(Refusal, match="R001"):
        captures.named(captures.place(directory, "node07"), "node07", "20200101T000000Z")
    with pytest.raises(Refusal, match="R001"):
        captures.named(captures.place(directory, "node08"), "node08", None)


def test_packages_get_apts_files_with_the_secret_ones(opened):
    asked = software.of_packages(opened, None, ["old-tool"])
    data = {one["path"]: base64.b64decode(one["data"]) for one in asked.entries}
    assert data == {path: text for path, text in {**FILES, **SECRETS}.items() if path.startswith("/etc/apt")}
    # git counts as the node's, though a transaction of gpulab's brought it: somebody has marked it since.
    assert (asked.managed, asked.lacking) == (["cuda-*", "g++-14"], ["old-tool"])
    assert asdict(asked.release).items() >= MACHINE["system"].items()


def test_jobs_get_theirs(opened):
    asked = software.of_jobs(opened, None, sources=True)
    assert {one["path"] for one in asked.entries} == {"/etc/cron.d/backup", "/var/spool/cron/crontabs/li"}
    assert {one["path"] for one in asked.sources} == {"/etc/apt/sources.list", "/etc/apt/auth.conf.d/lab"}
    assert software.of_jobs(opened, None, sources=False).sources == []
    assert asked.managed == ["a.service", "b.service"]


def test_an_environment_comes_before_those_in_it(opened):
    assert [one.path for one in software.environments(opened)] == ["/home/li/a", "/home/li/a/b"]


@pytest.fixture
def action(directory):
    """Return an action whose node answers from a dictionary, and on which steps end as they are told."""
    made = object.__new__(restore_software.ActionModule)
    made._args = {"directory": str(directory), "capture": None, "unsigned": None, "work": "begin"}
    made._task_vars = {"inventory_hostname": "node07"}
    made._task = type("Task", (), {"check_mode": False})
    made.answers, made.asked, made.steps, made.outcomes = {}, [], [], {}

    def ask(operation, _taken, _step=""):
        made.asked.append(operation)
        answer = made.answers[operation]
        return answer() if callable(answer) else answer

    def run_step(step, **_more):
        made.steps.append(step.name)
        rc, tail = made.outcomes.get(step.name, (0, ["fine"]))
        return StepOutcome(rc, 1.0, tail, "/log", "started")

    made._ask_node, made.run_step = ask, run_step
    return made


def holding(action, **sections):
    """Let the action have a capture with these sections."""
    document = {"machine": MACHINE, "sections": sections}
    names = {"path": Path("20261126T021500Z"), "archive": Path("secrets.vault")}
    action._capture = SimpleNamespace(manifest=typed({"host": "node07", **document}, Manifest), **names)
    action._lacking, action._args["age_identity"] = [], None


def begin(action, directory, capture_name=None, **found):
    action._args["capture"] = capture_name
    action.answers["look"] = {**HERE, **found}
    state = states.read(directory / "node07")
    return action._begin(directory / "node07", "node07", state)


def test_a_node_that_was_not_reinstalled_is_refused(action, directory):
    with pytest.raises(Refusal, match="R062"):
        begin(action, directory)


@pytest.mark.parametrize(
    "found", [{"machine_id": "bbbb"}, {"receipts": []}, {"marker": True}, {"done": "20261126T021500Z"}]
)
def test_a_reinstalled_node_comes_back_from_the_latest_capture(action, directory, found):
    assert begin(action, directory, **found)["capture"] == "20261126T021500Z"


@pytest.mark.parametrize(
    ("there", "other"),
    [(["root", "wei", "li"], False), (["root", "wei"], False), (["root", "installer"], True)],
)
def test_a_node_at_work_that_lost_an_account_is_no_new_one(there, other):
    """Else the captured files would replace newer ones, where a node has the machine's id and no traces of gpulab."""
    users = [{"name": name, "uid": uid} for name, uid in (("root", 0), ("sshd", 101), ("wei", 1000), ("li", 1001))]
    sections = {"identity": {"machine_id": "aaaa"}, "gpulab": {"receipts": {}}, "users": users}
    found = {**HERE, "receipts": [], "users": there}
    assert restore_software._is_another(found, typed(sections, Sections)) is other


def test_who_names_the_capture_means_it(action, directory):
    assert begin(action, directory, "20261125T021500Z")["capture"] == "20261125T021500Z"


def test_a_rebuild_goes_on_with_the_capture_that_it_began_with(action, directory):
    states.advance(directory / "node07", states.State("node07", "20261125T021500Z", "0123456789abcdef", "storage"))
    found = begin(action, directory)
    assert (found["capture"], found["plan"]) == ("20261125T021500Z", "0123456789abcdef")


def test_a_second_rebuild_is_of_the_capture_that_the_node_came_back_from(action, directory):
    states.advance(directory / "node07", states.State("node07", "20261125T021500Z", None, "proven"))
    assert begin(action, directory, done="20261125T021500Z")["capture"] == "20261125T021500Z"


def test_the_proof_knows_what_was_found_before(action, directory):
    assert begin(action, directory, machine_id="bbbb")["known"] == {"gpu-answers": "fail"}


MISSING = {"section": "packages", "name": "old-tool", "why": "no package source has it"}


def packages(action, **install):
    holding(action, manual=["git"])
    action.answers = {
        "look": {"files": ["/etc/apt/sources.list", "/etc/apt/lab.sources"], "names": ["git"], "missing": []},
        "lists": ["sh"],
        "install": lambda: {"argv": ["apt-get"], "install": ["git"], "missing": [MISSING], **install},
        "marks": {"changes": [], "missing": []},
    }
    return action._packages()


def test_packages_are_installed_after_the_sources_were_tried(action):
    found = packages(action)
    assert action.steps == ["rebuild-lists", "rebuild-packages"]
    assert action.asked == ["look", "lists", "install", "marks"]
    assert {"action": "install", "what": "git"} in found["changes"]
    assert found["missing"] == [MISSING]


def test_a_source_that_waits_is_no_change(action):
    waiting = {"section": "packages", "name": "/etc/apt/lab.sources", "why": "it does not answer"}
    found = packages(action, missing=[waiting])
    assert [one["what"] for one in found["changes"] if one["action"] == "write"] == ["/etc/apt/sources.list"]


def test_packages_that_cannot_be_installed_are_refused_and_services_may_start_again(action):
    action.outcomes["rebuild-packages"] = (100, ["E: dpkg returned an error code (1)"])
    with pytest.raises(Refusal, match=r"R061.*E: dpkg returned an error code \(1\)"):
        packages(action)
    assert action.asked[-1] == "marks"


def test_where_all_is_there_nothing_is_refreshed(action):
    holding(action, manual=[])
    action.answers = {
        "look": {"files": [], "names": [], "missing": []},
        "marks": {"changes": [], "missing": []},
    }
    assert action._packages() == {"changes": [], "missing": []}
    assert action.steps == []


def test_check_mode_only_looks(action):
    action._task.check_mode = True
    found = packages(action)
    assert action.asked == ["look"]
    assert [one["action"] for one in found["changes"]] == ["write", "write", "install"]


def test_without_apt_each_manual_package_is_told(action):
    holding(action, manual=["git"])
    action.answers = {"look": {"unable": True}}
    assert action._packages()["missing"] == [{**MISSING, "name": "git", "why": restore_software.ONLY_APT}]


def environments(action, *, over=False, lacking=()):
    holding(action, environments=[{"path": "/a"}, {"path": "/b"}])
    action._lacking = lacking
    looks = iter([{"make": True, "missing": []}, {"make": True, "missing": []}] * 2)
    action.answers = {"done": over, "look": lambda: next(looks), "make": lambda: ["sh"]}
    action.outcomes["rebuild-environment-0"] = (1, ["ERROR: No matching distribution found for x==1", "more"])
    return action._environments()


def test_an_environment_that_fails_leaves_the_others_alone(action):
    found = environments(action)
    assert found["changes"] == [{"action": "build", "what": "/b"}]
    assert [one["name"] for one in found["missing"]] == ["/a"]
    assert found["missing"][0]["why"] == "ERROR: No matching distribution found for x==1"


def test_once_the_rebuild_is_over_only_what_was_missing_is_tried(action):
    assert environments(action, over=True) == {"changes": [], "missing": []}
    assert environments(action, over=True, lacking=["/a"])["missing"][0]["name"] == "/a"


def test_what_an_environment_lacked_stays_named_and_what_its_user_changed_is_not(action):
    own, changed = (
        {**MISSING, "section": "environments", "name": f"/a: {name}"} for name in ("mine 0.1", "six==1.17.0")
    )
    holding(action, environments=[{"path": "/a"}])
    action._lacking = [own["name"]]
    action.answers = {"done": True, "look": lambda: {"make": True, "missing": [own, changed]}}
    assert action._environments() == {"changes": [], "missing": [own]}
    assert "make" not in action.asked


def test_an_image_that_cannot_be_pulled_leaves_the_others_alone(action):
    pulls = [{"program": "docker", "digest": f"d{n}", "names": [f"n{n}"], "present": False} for n in range(2)]
    holding(action)
    action.answers = {"look": {"pulls": pulls, "missing": []}, "done": False}
    action.outcomes["rebuild-image-0"] = (1, ["denied"])
    found = action._containers()
    assert found["missing"] == [{"section": "containers", "name": "n0", "why": "denied"}]
    assert [one["what"] for one in found["changes"]] == ["docker pull --quiet d1", "docker tag d1 n1"]
    action.answers["done"] = True
    assert action._containers() == {"changes": [], "missing": []}


def test_a_lock_that_is_not_available_any_more_is_refused_before_the_disk_is_wiped(action):
    holding(action, environments=[{"path": "/home/li/venv"}])
    action.answers = {"check": lambda: ["sh"], "addresses": lambda: ""}
    assert action._check_locks() == {"changes": [], "missing": []}
    action.outcomes["check-environment-0"] = (1, ["ERROR: No matching distribution found for x==1"])
    with pytest.raises(Refusal, match=r"R013.*/home/li/venv: ERROR: No matching distribution"):
        action._check_locks()


def test_a_file_of_a_conda_lock_that_is_gone_is_refused(action):
    holding(action, environments=[{"path": "/home/li/fold"}])
    action.answers = {"check": list, "addresses": lambda: "https://example.org/x.conda: 404"}
    with pytest.raises(Refusal, match="R013"):
        action._check_locks()


def test_every_work_has_its_operations_and_its_part_of_the_action():
    assert restore_software_module.OPERATIONS.keys() == TAKEN.keys() == {"begin", *restore_software.WORKS}
