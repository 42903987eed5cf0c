"""The facts' schema: real facts fit it, so do those of all made-up nodes, and it describes no more than there is."""

import re

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.checks.reboot import judged
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
from ansible_collections.gpulab.node.plugins.module_utils.facts.collect import collect
from ansible_collections.gpulab.node.plugins.modules.gpu_facts import RETURN
from ansible_collections.gpulab.node.plugins.plugin_utils.facts.model import Facts

from unit import machines
from unit.checks import nodes
from unit.plan import make
from unit.preflight.make import NODE
from unit.shapes import misfits

# What the role verify adds for the checks
LATER = {"container_started", "cuda_compiled", "measurements"}


def unfit(facts):
    return misfits("facts", {name: value for name, value in facts.items() if name not in LATER})


def test_this_machines_facts_fit():
    assert unfit(judged(collect(Node(), 3))) == []


@pytest.mark.parametrize("model", nodes.MODELS)
def test_healthy_nodes_fit(model):
    assert unfit(nodes.healthy(model)) == []


@pytest.mark.parametrize("platform", make.SYSTEMS)
def test_nodes_to_plan_for_fit(platform):
    assert unfit(make.facts(platform)) == []


def test_a_bare_machine_fits_and_so_do_the_preflights_nodes():
    assert unfit(machines.machine()) == []
    assert unfit(NODE) == []


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"system": {"cpu_cores": "64"}}, "['system', 'cpu_cores']"),
        ({"reboot": {"why": []}}, "['reboot']"),
        ({"kernels": [{"version": "6.1"}]}, "['kernels', 0]"),
    ],
)
def test_another_form_is_found(changes, path):
    assert any(line.startswith(path) for line in unfit(machines.machine(changes)))


def test_the_modules_documentation_names_every_part():
    assert Facts.__annotations__.keys() <= set(re.findall(r"\bC\((\w+)", RETURN))
