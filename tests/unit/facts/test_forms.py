"""What a node says of itself enters the controller only where it has its form."""

import json
from types import SimpleNamespace

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.play_context import PlayContext
from ansible.playbook.task import Task
from ansible.plugins.action.normal import ActionModule as NormalAction
from ansible.template import Templar
from ansible_collections.gpulab.node.plugins.action.gpu_facts import ActionModule, ahead, reader
from ansible_collections.gpulab.node.plugins.module_utils.checks.reboot import judged
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
from ansible_collections.gpulab.node.plugins.module_utils.facts.collect import collect
from ansible_collections.gpulab.node.plugins.module_utils.reading import program
from ansible_collections.gpulab.node.plugins.plugin_utils.facts.forms import FORMS, misfits

from unit import machines
from unit.checks import nodes
from unit.plan import make
from unit.preflight.make import NODE

MODEL = next(iter(nodes.MODELS))
HOSTNAMES = [
    "n1\nEpilog=/tmp/x",
    "n1 Foo=bar",
    "n1,n2",
    "n[1-100]",
    "n1#",
    "n1\\",
    "../n1",
    "",
    "-n1",
    "{{ n1 }}",
    "10.0.0.1",
]


def changed(path, value):
    """Return the facts of a node with one of them changed; of a list, its first item."""
    facts = machines.unshared(nodes.healthy(MODEL))
    *way, last = path.split(".")
    at = facts
    for name in way:
        at = at[0] if name == "*" else at[name]
    at[0 if last == "*" else last] = value
    return facts


@pytest.mark.parametrize("model", nodes.MODELS)
def test_healthy_nodes_are_taken(model):
    assert list(misfits(nodes.healthy(model))) == []


@pytest.mark.parametrize("platform", make.SYSTEMS)
def test_nodes_to_plan_for_are_taken(platform):
    assert list(misfits(make.facts(platform))) == []


def test_this_machine_and_bare_ones_are_taken():
    real = json.loads(json.dumps(judged(collect(Node(), 3))))
    for facts in (real, machines.machine(), NODE, {}):
        assert list(misfits(facts)) == []


def test_what_a_node_does_not_tell_is_no_misfit():
    facts = machines.machine({"system": {"family": None, "version": None, "codename": None}})
    assert list(misfits(facts)) == []


@pytest.mark.parametrize("hostname", HOSTNAMES)
def test_a_hostname_that_is_none_is_refused(hostname):
    (told,) = misfits(changed("system.hostname", hostname))
    assert told.startswith("system.hostname is ")
    assert told.isprintable()


@pytest.mark.parametrize(
    ("clock", "told"),
    [
        (1000.0, 0),  # read between the question and its answer
        (1009.9, 0),
        (4610.0, 3600),
        (-200.0, -1200),
        (None, None),
        (True, None),
        ("1000", None),
        (float("nan"), None),
        (float("inf"), None),
    ],
)
def test_a_clock_is_ahead_or_behind_only_as_far_as_that_is_sure(clock, told):
    assert ahead(clock, 1000.0, 1010.0) == told


@pytest.mark.parametrize("path", FORMS)
def test_each_fact_of_the_table_is_looked_at(path):
    """A fact that is renamed must not fall out of the table in silence."""
    facts = machines.unshared(nodes.healthy(MODEL))
    at = [facts]
    for name in path.split("."):
        at = [item for one in at if one is not None for item in (one if name == "*" else [one[name]])]
    # the model has the fact, and where the healthy node has a value, another one is told
    assert at or path.startswith(("group.", "driver.", "nvml.peers"))
    if at:
        assert any(line.startswith(f"{path} is") for line in misfits(changed(path, "x\ny")))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("system.cpu_cores", "64 State=DOWN"),
        ("system.cpu_cores", 10**6),
        ("system.cpu_cores", True),
        ("system.cpu_cores", -1),
        ("system.memory_mib", 2**70),
        ("system.memory_mib", "1 Reason=x"),
        ("nvml.gpus.*.minor", 10**9),
        ("nvml.gpus.*.name", "A100\nNodeName=x"),
        ("nvml.gpus.*.name", "A" * 256),
        ("monitoring.routed_address", "10.0.0.1 nas01"),
        ("monitoring.routed_address", "10.0.0.1\nScriptEpilog=x"),
        ("monitoring.routed_address", "fe80::1%\nx"),
        ("monitoring.routed_address", "nas01"),
        ("monitoring.addresses.*", "10.0.0.1:80"),
        ("network.*.ipv4", "$(reboot)"),
        ("network.*.name", "eth0\nx"),
        ("kernels.*.version", "../../etc"),
        ("kernels.*", "6.1"),
        ("kernels", {}),
        ("system", []),
        ("services", {"a\x1b]0;x\x07": {"load": "", "active": "", "sub": "", "enabled": ""}}),
        ("own_files", ["/etc/x\x1b[2J"]),
        ("system.name", "Debian\u202e"),
    ],
)
def test_what_cannot_be_is_told_in_one_printable_line(path, value):
    told = list(misfits(changed(path, value)))
    assert told
    assert all(line.isprintable() for line in told)


def act(facts, monkeypatch, ending=None, **more):
    """Return what the action makes of the module's result; ending is what a failure has."""
    result = {**(ending or {}), "ansible_facts": {"gpulab": facts, "gpulab_check_mode": False, **more}}
    monkeypatch.setattr(NormalAction, "run", lambda *_arguments: result)
    task = Task()
    task.args, task.check_mode = {}, True
    return action(task).run(task_vars={"inventory_hostname": "node1"})


def action(task, *, pipelining=False):
    """Return the action over a connection that is never used."""
    shell, option = SimpleNamespace(tmpdir="unused"), {}.__getitem__
    connection = SimpleNamespace(_shell=shell, get_option=option, is_pipelining_enabled=lambda _async: pipelining)
    return ActionModule(task, connection, PlayContext(), DataLoader(), Templar(DataLoader(), {}), None)


@pytest.mark.parametrize("hostname", HOSTNAMES)
def test_facts_that_cannot_be_do_not_enter(hostname, monkeypatch):
    result = act(changed("system.hostname", hostname), monkeypatch)
    assert result["failed"]
    assert result["refusal"]["code"] == "H226"
    assert "node1 says of itself" in result["msg"]
    assert result["msg"].isprintable()
    assert "ansible_facts" not in result


@pytest.mark.parametrize("facts", [None, [], "x"])
def test_a_result_without_facts_is_none(facts, monkeypatch):
    assert act(facts, monkeypatch)["failed"]


@pytest.mark.parametrize(("missing", "taken"), [(["/etc/x", 7, None], ["/etc/x"]), ("/etc/x", []), (None, [])])
def test_only_the_modules_own_facts_enter(monkeypatch, missing, taken):
    facts = nodes.healthy(MODEL)
    evil = {"gpulab_plan": {"driver": "evil"}, "gpulab_check_mode": "{{ evil }}", "gpulab_missing": missing}
    result = act(facts, monkeypatch, **evil)
    own = {"gpulab": facts, "gpulab_check_mode": False, "gpulab_missing": taken, "gpulab_software_trial": None}
    assert result["ansible_facts"] == own


@pytest.mark.parametrize(
    ("work", "way", "status", "answers"),
    [
        ("go on", "pipelining", 0, "program"),
        ("go on", "pipelining", 1, "module, which leaves the program there"),
        ("end", "pipelining", 1, "module"),  # remove.yml has just taken the program away
        ("go on", "files", 0, "module"),
        ("go on", "pipelining, async", 0, "module"),
    ],
)
def test_the_program_on_the_node_answers_where_it_can(work, way, status, answers, monkeypatch):
    def result(kernel):
        facts = changed("system.kernel", kernel)
        return {"changed": False, "ansible_facts": {"gpulab": facts, "gpulab_check_mode": False}}

    asked = []

    def execute(_action, call, in_data):
        asked.append((call, json.loads(in_data)))
        return {"rc": status, "stdout": f"a banner\n{json.dumps(result('by-program'))}\n"}

    def module(one, *_arguments):
        assert one._task.args.get("program") == (reader() if "leaves" in answers else None)  # noqa: SLF001
        return result("by-module")

    monkeypatch.setattr(ActionModule, "_low_level_execute_command", execute)
    monkeypatch.setattr(NormalAction, "run", module)
    task = Task()
    task.args, task.check_mode, task.async_val = {"timeout": "7", "work": work}, True, 60 if "async" in way else 0
    variables = {"inventory_hostname": "node1", "ansible_python_interpreter": "/opt/python"}
    facts = action(task, pipelining="pipelining" in way).run(task_vars=variables)["ansible_facts"]["gpulab"]
    assert facts["system"]["kernel"] == f"by-{answers.split(',')[0]}"
    for call, given in asked:
        assert call.startswith("/opt/python -I -c ")
        assert call.endswith(f"/{reader()}")
        assert given["check_mode"] is True
        assert given["asked"].keys() == program.ARGUMENTS.keys()
        assert given["asked"]["timeout"] == 7


def asked_by_program(monkeypatch, output):
    """Return the action's result where the node's program prints this, and its module has the healthy facts."""
    by_module = {"changed": False, "ansible_facts": {"gpulab": nodes.healthy(MODEL), "gpulab_check_mode": True}}
    monkeypatch.setattr(ActionModule, "_low_level_execute_command", lambda *_a, **_k: {"rc": 0, "stdout": output})
    monkeypatch.setattr(NormalAction, "run", lambda *_arguments: by_module)
    task = Task()
    task.args, task.check_mode = {}, True
    return action(task, pipelining=True).run(task_vars={"inventory_hostname": "node1"})


def test_a_node_that_answers_by_its_program_changes_no_other_host(monkeypatch):
    told = {"changed": False, "ansible_facts": {"gpulab": nodes.healthy(MODEL), "gpulab_check_mode": False}}
    told["add_host"] = {"host_name": "node2", "host_vars": {"ansible_connection": "local"}}
    told |= {"add_group": "x", "_ansible_delegated_vars": {}, "ansible_stats": {"data": {}}, "unreachable": False}
    assert asked_by_program(monkeypatch, json.dumps(told)).keys() == {"changed", "ansible_facts"}


@pytest.mark.parametrize("output", ["", "\n", "no JSON", "[]", "null", "[" * 100_000])
def test_where_the_program_says_nothing_of_use_the_module_is_asked(output, monkeypatch):
    assert asked_by_program(monkeypatch, output)["ansible_facts"]["gpulab_check_mode"] is True


@pytest.mark.parametrize(
    "ending", [{"failed": True, "msg": "x"}, {"refusal": {"code": "S010", "cause": "x", "remedy": "y"}}]
)
def test_a_failure_brings_no_facts(ending, monkeypatch):
    assert "ansible_facts" not in act(changed("system.hostname", "n2"), monkeypatch, ending)
