"""What the action builds for what the node answers; the node is played."""

import os
import stat
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace

import pytest
from ansible.errors import AnsibleError
from ansible_collections.gpulab.node.plugins.action import dkms as action
from ansible_collections.gpulab.node.plugins.module_utils.core.changes import changes
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.driver.dkms import ENVIRONMENT
from ansible_collections.gpulab.node.plugins.plugin_utils.peers import shared_builds
from ansible_collections.gpulab.node.plugins.plugin_utils.progress.long_step import ModuleError, StepOutcome

KERNELS = ["6.1.0-50-amd64", "6.12.117+deb13-amd64"]
FAILURE = {"code": "D001", "cause": "It does not compile.", "remedy": "Take another."}


class Played(action.ActionModule):
    """The action with a node on which a build ends with the given status."""

    def __init__(self, *, installed=(), rc=0, check_mode=False):
        """installed: the kernels that have the module."""
        self.installed, self.rc = list(installed), rc
        self.facts = {}
        self._task, self._task_vars = SimpleNamespace(check_mode=check_mode), {"ansible_facts": self.facts}
        self.ran, self.begun = [], []

    def _run_id(self):
        return "1 2"

    def _ask(self, args):
        """Answer for the steps that are on the node."""
        if args["operation"] == "poll":
            return {"state": "running" if self.begun else "absent"}
        self.begun.append(args["name"])
        return {"state": "running"}

    def call_module(self, name, args):
        """Answer a module call."""
        assert name == "dkms"
        if args.get("operation") == "diagnose":
            return {"failure": FAILURE}
        kernels = {kernel: "installed" if kernel in self.installed else "added" for kernel in KERNELS}
        missing = [kernel for kernel in KERNELS if kernel not in self.installed]
        return {
            "changed": bool(missing),
            "changes": changes(build=missing),
            "version": "535",
            "kernels": kernels,
            "missing": missing,
        }

    def run_step(self, step):
        """Build."""
        self.ran.append(step)
        if self.rc == 0 and step.argv[-1] not in self.installed:
            self.installed.append(step.argv[-1])
        return StepOutcome(self.rc, 1.0, [], "/log", "started")


ARGS = {"module": "nvidia-current", "kernels": KERNELS}


def test_kernels_that_have_the_module_are_left_alone():
    played = Played(installed=KERNELS)
    result = played.carry_out(ARGS)
    assert result == {"changed": False, "changes": [], "version": "535", "kernels": dict.fromkeys(KERNELS, "installed")}
    assert played.ran == []


def test_it_is_built_for_those_that_miss_it():
    played = Played(installed=KERNELS[:1])
    result = played.carry_out(ARGS)
    assert [step.argv for step in played.ran] == [
        ["dkms", "install", "-m", "nvidia-current", "-v", "535", "-k", KERNELS[1]]
    ]
    assert [step.environment for step in played.ran] == [ENVIRONMENT]
    assert result["kernels"] == dict.fromkeys(KERNELS, "installed")
    assert result["diff"]["before"].splitlines()[1] == f"{KERNELS[1]} nvidia-current added"
    assert result["diff"]["after"].splitlines()[1] == f"{KERNELS[1]} nvidia-current installed"


def test_each_kernel_has_a_step_that_systemd_takes():
    played = Played()
    played.carry_out(ARGS)
    assert [step.name for step in played.ran] == [
        "dkms-nvidia-current-6.1.0-50-amd64",
        "dkms-nvidia-current-6.12.117-deb13-amd64",
    ]


def test_check_mode_foresees_and_builds_nothing():
    played = Played(check_mode=True)
    result = played.carry_out(ARGS)
    assert result["changed"]
    assert result["changes"] == changes(build=KERNELS)
    assert "installed" in result["diff"]["after"]
    assert played.ran == []


def test_a_build_that_fails_is_refused_and_the_next_kernel_not_tried():
    played = Played(rc=10)
    with pytest.raises(Refusal) as refused:
        played.carry_out(ARGS)
    assert refused.value.code == "D001"
    assert len(played.ran) == 1


@pytest.mark.parametrize("ended", [False, True])
def test_a_build_that_was_begun_is_followed_and_told_once(ended):
    played = Played(installed=KERNELS[:1])
    begun = played.carry_out({**ARGS, "begin": True})
    assert (played.begun, played.ran) == (["dkms-nvidia-current-6.12.117-deb13-amd64"], [])
    played.facts.update(begun["ansible_facts"])
    if ended:
        played.installed = list(KERNELS)
    result = played.carry_out(ARGS)
    assert [(step.argv[-1], step.pick_up) for step in played.ran] == [(KERNELS[1], True)]
    assert result["changes"] == changes(build=KERNELS[1:])
    assert result["diff"]["before"].splitlines()[1] == f"{KERNELS[1]} nvidia-current added"
    played.facts.update(result["ansible_facts"])
    assert not played.carry_out(ARGS)["changed"]


def test_a_build_that_was_begun_and_fails_is_refused():
    played = Played(rc=10)
    played.facts.update(played.carry_out({**ARGS, "begin": True})["ansible_facts"])
    with pytest.raises(Refusal) as refused:
        played.carry_out(ARGS)
    assert refused.value.code == "D001"


@pytest.mark.parametrize(("installed", "check_mode"), [(KERNELS, False), ([], True)])
def test_nothing_is_begun_where_nothing_is_missing_or_in_check_mode(installed, check_mode):
    played = Played(installed=installed, check_mode=check_mode)
    assert played.carry_out({**ARGS, "begin": True}) == {"changed": False}
    assert played.begun == []


def test_another_module_does_not_take_over_what_was_begun():
    """A rollback builds the former driver in the same run."""
    played = Played(installed=KERNELS[:1])
    played.facts.update(played.carry_out({**ARGS, "begin": True})["ansible_facts"])
    played.carry_out({**ARGS, "module": "nvidia"})
    assert [step.pick_up for step in played.ran] == [False]


SAME, OTHER = "5" * 64, "0" * 64
DIGESTS = {"a": {"6.1": SAME}, "b": {"6.1": SAME}, "c": {"6.1": SAME}, "d": {"6.1": OTHER}}


class Play:
    """Nodes in one run: what they say, what DKMS has on them, and who compiles."""

    def __init__(self, monkeypatch, tmp_path, said):
        """said: by node, in the order of the play, the digest of each kernel's build."""
        self.hosts, self.at_work, self.run = list(said), list(said), "1 2"
        self.said = {name: {"run": self.run, "kernels": digests} for name, digests in said.items()}
        self.stands = {name: dict.fromkeys(digests, "added") for name, digests in said.items()}
        self.compiled, self.loaded, self.asked, self.fails = [], [], [], set()
        self.kept = None
        monkeypatch.setattr(shared_builds.constants, "DEFAULT_LOCAL_TMP", str(tmp_path))

    def go(self, share, *names, check_mode=False, fails=()):
        """Run the task on nodes, one after the other; return the results."""
        self.fails = set(fails)
        return {name: Shares(self, name, check_mode=check_mode).carry_out(self.args(name, share)) for name in names}

    def all(self):
        """Run both tasks on every node; return the results of the second."""
        self.go("first", *self.hosts)
        return self.go("rest", *self.hosts)

    def args(self, name, share):
        """Return the task's arguments."""
        kernels = list(self.stands[name])
        kept = {"builds_directory": str(self.kept)} if self.kept else {}
        return {"module": "nvidia", "kernels": kernels, "share": share, "shared_with": self.hosts, **kept}


class Shares(action.ActionModule):
    """The action on one of the nodes; the connection carries files."""

    def _ask(self, _args):
        """No step is at work."""
        return {"state": "absent"}

    def __init__(self, play, name, *, check_mode):
        """Take the node's place in the play."""
        self.play, self.name = play, name
        self._task = SimpleNamespace(check_mode=check_mode)
        hostvars = {host: {"ansible_facts": {"gpulab_builds": said}} for host, said in play.said.items()}
        self._task_vars = {"inventory_hostname": name, "ansible_play_hosts": play.at_work, "hostvars": hostvars}
        self._connection = SimpleNamespace(fetch_file=lambda _remote, local: Path(local).write_bytes(self.packed()))

    def _run_id(self):
        return self.play.run

    def packed(self):
        """Return what a node has packed."""
        return b"cut short" if "fetch" in self.play.fails else b"a build"

    def call_module(self, name, args):
        """Answer a module call."""
        assert name == "dkms"
        operation, stands, fails = args["operation"], self.play.stands[self.name], self.play.fails
        self.play.asked.append((self.name, operation))
        if operation == "look":
            missing = [kernel for kernel, state in stands.items() if state != "installed"]
            return {"version": "1", "kernels": dict(stands), "missing": missing}
        if operation == "pack" and "crash" not in fails:
            return {"not_shared": "no space"} if "pack" in fails else {"checksum": sha256(b"a build").hexdigest()}
        if operation in fails and "crash" in fails:
            raise ModuleError({"msg": "Killed"})
        if operation == "load":
            if "load" in fails:
                return {"not_shared": "its checksum is another one"}
            assert args["checksum"] == sha256(b"a build").hexdigest()
            stands[args["kernels"][0]] = "built"
        if operation == "discard":
            stands[args["kernels"][0]] = "added"
        return {"failure": FAILURE}

    def run_step(self, step):
        """Install; compile before where nothing is built."""
        kernel, stands = step.argv[-1], self.play.stands[self.name]
        if stands[kernel] == "built" and "install" in self.play.fails:
            return StepOutcome(6, 1.0, [], "/log", "started")
        if stands[kernel] != "built":
            self.play.compiled.append(self.name)
            if "compile" in self.play.fails:
                return StepOutcome(10, 1.0, [], "/log", "started")
        stands[kernel] = "installed"
        return StepOutcome(0, 1.0, [], "/log", "started")

    def _make_tmp_path(self, _user=None):
        return "/of/the/task"

    def _remove_tmp_path(self, path, *, force=False):
        assert (path, force) == ("/of/the/task", False)

    def _transfer_file(self, source, _target):
        if "transfer" in self.play.fails:
            raise AnsibleError
        assert Path(source).read_bytes() == b"a build"
        self.play.loaded.append(self.name)


@pytest.fixture
def play(monkeypatch, tmp_path):
    """Return a function from what nodes say to their play."""
    return lambda said: Play(monkeypatch, tmp_path, said)


def test_the_first_of_equal_nodes_compiles_and_the_others_load_what_it_built(play):
    nodes = play(DIGESTS)
    results = nodes.all()
    assert nodes.compiled == ["a", "d"]
    assert nodes.loaded == ["b", "c"]
    assert all(stands == {"6.1": "installed"} for stands in nodes.stands.values())
    assert [results[name]["loaded"] for name in "abcd"] == [{}, {"6.1": "a"}, {"6.1": "a"}, {}]
    assert [results[name]["changed"] for name in "abcd"] == [False, True, True, False]
    assert ("d", "pack") not in nodes.asked  # nobody waits for it


def test_a_later_run_loads_what_was_kept(play, tmp_path):
    nodes = play({"a": {"6.1": SAME}})
    nodes.kept = tmp_path / "kept" / "builds"
    assert nodes.all()["a"]["loaded"] == {}
    assert stat.S_IMODE(nodes.kept.stat().st_mode) == 0o700
    nodes.stands["a"] = {"6.1": "added"}  # it was installed anew
    results = nodes.all()
    assert (nodes.compiled, nodes.loaded) == (["a"], ["a"])
    assert results["a"]["loaded"] == {"6.1": "a"}


def test_builds_are_kept_where_nobody_else_can_lay_one(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path)
    tmp_path.chmod(0o777)
    for directory in (tmp_path, tmp_path / "link"):
        with pytest.raises(Refusal) as refused:
            shared_builds.BuildStore(str(directory)).draft(SAME)
        assert refused.value.code == "D050"


def test_a_directory_for_builds_is_checked_before_anything_is_asked_of_a_node(play, tmp_path):
    nodes = play({"a": {"6.1": SAME}})
    nodes.kept = tmp_path / "kept"
    assert nodes.go("check", "a")["a"] == {"changed": False}  # it is not there yet
    nodes.kept.symlink_to(tmp_path / "nowhere")
    with pytest.raises(Refusal) as refused:
        nodes.go("check", "a")
    assert (refused.value.code, nodes.asked) == ("D050", [])


def test_a_build_that_cannot_be_kept_is_only_told(play, tmp_path):
    """The driver is there by then, and a refusal would take it away again."""
    nodes = play({"a": {"6.1": SAME}})
    nodes.kept = tmp_path / "kept"
    nodes.kept.mkdir()
    nodes.kept.chmod(0o775)
    (warning,) = nodes.go("first", "a")["a"]["warnings"]
    assert (warning.startswith("The build for 6.1 is not shared: "), "D050" in warning) == (True, True)


@pytest.mark.parametrize("text", ["", "{}", "[", '{"checksum": "x", "node": "a"}'])
def test_a_record_of_a_run_that_was_cut_off_is_no_build(tmp_path, text):
    tmp_path.chmod(0o700)
    (tmp_path / f"{SAME}.json").write_text(text, encoding="utf-8")
    assert shared_builds.BuildStore(str(tmp_path)).find(SAME) is None


@pytest.mark.parametrize(("running", "asked"), [(True, []), (False, ["discard"])])
def test_a_build_that_is_at_work_is_not_discarded(running, asked):
    played = Played()
    played.begun = ["a step"] if running else []
    played._args = {**ARGS, "version": "1"}  # noqa: SLF001
    played._begun = ""  # noqa: SLF001
    done = []
    played._ask_dkms = lambda operation, **_more: done.append(operation)  # noqa: SLF001
    played._discard_what_was_cut_short(KERNELS[0], "built")  # noqa: SLF001
    assert done == asked


def test_a_kept_build_that_is_damaged_is_built_and_kept_anew(play, tmp_path):
    nodes = play({"a": {"6.1": SAME}})
    nodes.kept = tmp_path / "kept"
    nodes.all()
    (nodes.kept / f"{SAME}.tar.gz").write_bytes(b"cut")
    nodes.stands["a"] = {"6.1": "added"}
    nodes.all()
    assert (nodes.compiled, nodes.loaded) == (["a", "a"], [])
    assert shared_builds.BuildStore(str(nodes.kept)).find(SAME)


def test_of_the_kept_builds_those_stay_that_were_used_last(tmp_path):
    store = shared_builds.BuildStore(str(tmp_path))
    for number in range(shared_builds.MOST_KEPT + 1):
        if number == shared_builds.MOST_KEPT:
            store.find("0")
        store.draft(str(number)).write_bytes(b"a build")
        assert store.add(str(number), sha256(b"a build").hexdigest(), "a")
        os.utime(tmp_path / f"{number}.json", (number, number))
    left = {path.name for path in tmp_path.iterdir()}
    kept = {"0", *map(str, range(2, shared_builds.MOST_KEPT + 1))}
    assert left == {f"{name}.{suffix}" for name in kept for suffix in ("json", "tar.gz")}


def test_each_kernel_is_compiled_once_by_the_first_node_that_needs_it(play):
    nodes = play({"a": {"6.1": SAME}, "b": {"6.1": SAME, "6.2": OTHER}, "c": {"6.2": OTHER}})
    nodes.all()
    assert nodes.compiled == ["a", "b"]
    assert nodes.loaded == ["b", "c"]


def test_after_a_node_that_could_not_compile_each_one_tries_itself(play):
    nodes = play(DIGESTS)
    with pytest.raises(Refusal):
        nodes.go("first", "a", fails=["compile"])
    nodes.go("first", "b", "c", "d")
    nodes.go("rest", "b", "c", "d")
    assert nodes.compiled == ["a", "d", "b", "c"]


def test_a_node_that_left_the_play_before_does_not_compile_for_others(play):
    nodes = play(DIGESTS)
    nodes.at_work.remove("a")
    nodes.go("first", "b", "c", "d")
    nodes.go("rest", "b", "c", "d")
    assert nodes.compiled == ["b", "d"]
    assert nodes.loaded == ["c"]


@pytest.mark.parametrize("left", [["a", "b"], ["b"]])  # the first one may have failed meanwhile, at something else
def test_with_serial_a_later_batch_loads_what_the_first_built(play, left):
    nodes = play({"a": {"6.1": SAME}, "b": {"6.1": SAME}})
    of_b = nodes.said.pop("b")  # its turn has not come
    nodes.said["b"] = None
    nodes.go("first", "a")
    nodes.go("rest", "a")
    nodes.said["b"], nodes.at_work = of_b, left
    nodes.go("first", "b")
    nodes.go("rest", "b")
    assert (nodes.compiled, nodes.loaded) == (["a"], ["b"])


def test_what_nodes_said_in_another_run_does_not_count(play):
    nodes = play({"a": {"6.1": SAME}, "b": {"6.1": SAME}})
    nodes.said["a"] = {"run": "0 0", "kernels": {"6.1": SAME}}
    nodes.go("first", "b")
    assert nodes.compiled == ["b"]


def test_a_strategy_that_does_not_wait_compiles_on_every_node(play):
    nodes = play({"a": {"6.1": SAME}, "b": {"6.1": SAME}})
    nodes.go("first", "b")
    nodes.go("rest", "b")
    assert nodes.compiled == ["b"]


@pytest.mark.parametrize("fault", [["load"], ["install"], ["transfer"], ["load", "crash"]])
def test_a_node_that_cannot_load_compiles_and_says_why(play, fault):
    nodes = play({"a": {"6.1": SAME}, "b": {"6.1": SAME}})
    nodes.go("first", "a", "b")
    result = nodes.go("rest", "b", fails=fault)["b"]
    assert nodes.compiled == ["a", "b"]
    assert nodes.stands["b"] == {"6.1": "installed"}
    assert result["loaded"] == {}
    assert "a for 6.1 is not loaded" in result["warnings"][0]


@pytest.mark.parametrize("fault", [["pack"], ["fetch"], ["pack", "crash"]])
def test_a_build_that_does_not_reach_the_controller_whole_is_not_shared(play, fault):
    nodes = play({"a": {"6.1": SAME}, "b": {"6.1": SAME}})
    result = nodes.go("first", "a", fails=fault)["a"]
    assert "is not shared" in result["warnings"][0]
    nodes.go("rest", "b")
    assert (nodes.compiled, nodes.loaded) == (["a", "b"], [])


@pytest.mark.parametrize("share", [None, "first"])
def test_what_is_built_and_not_installed_may_be_cut_short_and_is_built_afresh(play, share):
    nodes = play({"a": {"6.1": SAME}})
    nodes.stands["a"] = {"6.1": "built"}
    nodes.go(share, "a")
    assert nodes.compiled == ["a"]


def test_check_mode_says_once_who_would_compile(play):
    nodes = play({"a": {"6.1": SAME}, "b": {"6.1": SAME}})
    assert nodes.go("describe", "a", check_mode=True)["a"]["ansible_facts"]["gpulab_builds"]["kernels"] == {}
    said = nodes.go("first", "a", "b", check_mode=True)
    assert said["a"]["changes"] == changes(build=["6.1"])
    assert said["b"]["changes"] == changes(build=["6.1 (or loaded, as a builds it)"])
    rest = nodes.go("rest", "a", "b", check_mode=True)
    assert not any(result["changed"] or result["changes"] for result in rest.values())
    assert nodes.compiled == []


PLAN = {
    "source": "distribution",
    "dkms_module": "nvidia-current",
    "kernel_package": "nvidia-kernel-dkms",
    "version": None,
    "kernel_modules": "proprietary",
    "kernels": ["6.1"],
    "change": None,
    "upgrade": False,
}


def known(system=None, state="added", **driver):
    system = {"id": "debian", "version": "12", "architecture": "x86_64", **(system or {})}
    kernels = [{"version": "6.1", "dkms": [{"module": "nvidia-current", "state": state}]}]
    return {"gpulab": {"system": system, "kernels": kernels}, "gpulab_plan": {"driver": {**PLAN, **driver}}}


def test_nodes_are_alike_that_have_to_build_the_same_modules():
    nodes = {
        "a": known(),
        "unplanned": {},
        "other system": known({"version": "13"}),
        "other kernel": known(kernels=["6.2"]),
        "other module": known(dkms_module="nvidia-current-open"),
        "nothing to build": known(state="installed"),
        "b": known(),
    }
    assert shared_builds.alike(nodes, "b") == ["a", "b"]
    assert shared_builds.alike(nodes, "a") == ["a", "b"]
    assert shared_builds.alike({"a": known()}, "a", kept=True) == ["a"]
    assert all(shared_builds.alike(nodes, name) == [] for name in nodes if len(name) > 1)


@pytest.mark.parametrize("change", [{"change": {"from": "1", "to": "2"}}, {"upgrade": True}])
def test_nodes_whose_driver_changes_build_although_they_have_modules(change):
    nodes = {name: known(state="installed", **change) for name in "ab"}
    assert shared_builds.alike(nodes, "a") == ["a", "b"]


@pytest.mark.parametrize("digest", ["../../root/x", "", "5" * 63, "5" * 64 + "\n", "G" * 64, None, 7])
def test_a_digest_that_is_none_names_no_file_on_the_controller(digest):
    """The node says it, and its build would lie at that path."""
    said = {shared_builds.FACT: {"run": "1", "kernels": {"6.1": digest, "6.2": SAME}}}
    assert shared_builds.digests(said, "1") == {"6.2": SAME}


@pytest.mark.parametrize("said", ["x", [], {"run": "1"}, {"run": "1", "kernels": "x"}])
def test_what_is_no_answer_of_a_node_stops_no_other_one(said):
    assert not shared_builds.digests({shared_builds.FACT: said}, "1")
