"""Whoever does what a refusal of the plan advises gets a plan, or another refusal that leads on: never a circle."""

from __future__ import annotations

import re

import pytest
import yaml
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.plugin_utils import catalog, options
from ansible_collections.gpulab.node.plugins.plugin_utils.plan import resolve
from hypothesis import given, settings

from .make import TODAY, facts
from .strategies import WISHES, nodes
from .test_newer import running
from .test_rules import REFUSALS

CATALOG = catalog.load()
DEEPEST = 3  # a longer way is no circle, but of several mistakes at once
# Not where the text after the name is not what is to be written
NAMES = "|".join(name for name in options.load().options if not name.endswith("_url"))
SETTING = re.compile(rf"\b({NAMES}): (\[[^\]]*\]|\{{.*?\}}+|\"[^\"]*\"|[\w.-]*\w)")
SET_TO = re.compile(rf"\b[Ss]et ({NAMES}) to (\w+)")
LEFT_OUT = re.compile(r"\b[Ll]eave (\w+)(?: and (_?\w+))? (?:out|unset)|\b[Rr]emove (\w+)")
# What a remedy lists without the name of the variable, by code: the variable, and how it takes a value
LISTED = {
    "P007": ("nvidia_driver_branch", str),
    "P022": ("cuda_toolkits", lambda value: [value]),
    "P024": ("cuda_toolkits", lambda value: [value]),
    "P025": ("cuda_toolkits", lambda value: [value]),
    "P044": ("cuda_toolkits", lambda value: [value]),
}
VERSION = re.compile(r"\b\d{2,3}(?:\.\d)?\b")


def advised(refusal, given):
    """Yield the wishes after each of the ways that a remedy names, as far as it says what to write."""
    if refusal.code == "P021":  # what it names takes the place of the text that was found
        return
    for way in re.split(r"; (?:or )?|, or (?!_version)|\. | or (?=set |leave |[a-z_]+: )", refusal.remedy):
        after = dict(given)
        after.update({name: yaml.safe_load(value) for name, value in SETTING.findall(way)})
        after.update({name: value for name, value in SET_TO.findall(way) if value != "another"})
        for names in LEFT_OUT.findall(way):
            for name in names:
                after.pop("nvidia_driver_version" if name == "_version" else name, None)
        if after != given:
            yield after
    variable, form = LISTED.get(refusal.code, (None, None))
    listed = VERSION.findall(refusal.remedy.partition(";")[0]) if variable else []
    for value in listed:
        yield {**{name: one for name, one in given.items() if name != "nvidia_driver_version"}, variable: form(value)}


def outcome(node, given):
    try:
        resolve(node, options.complete(given), CATALOG, TODAY)
    except Refusal as refusal:
        return refusal
    return None


def circles(node, given, path=()):
    """Return the refusals of every way that comes back to a cause it has been at."""
    refusal = outcome(node, given)
    if refusal is None:
        return []
    if refusal.cause in [cause for cause, _ in path]:
        return [[*path, (refusal.cause, str(refusal))]]
    if len(path) == DEEPEST:
        return []
    here = (*path, (refusal.cause, str(refusal)))
    return [circle for after in advised(refusal, given) for circle in circles(node, after, here)]


def told(found):
    return "\n\n".join("\n".join(line for _cause, line in circle) for circle in found[:3])


@pytest.mark.parametrize(("node", "given"), [case[:2] for case in REFUSALS.values()], ids=REFUSALS)
def test_no_remedy_leads_back(node, given):
    found = circles(node, given)
    assert not found, told(found)


NEWER = {
    "a newer branch of NVIDIA's": running("650.20.01"),
    "a branch of NVIDIA's without a known release": running("620.90.01"),
    "a newer branch of Ubuntu's": running(
        "620.90.01", source="distribution", names=("nvidia-utils-620-server", "nvidia-headless-no-dkms-620-server")
    ),
    "an old branch of Ubuntu's": running("470.256.02", source="distribution", names=("nvidia-utils-470-server",)),
    "somebody's own packages": running("620.90.01", source="other"),
    "Rubin": facts("ubuntu-24.04", ["10de:3002"]),
}


@pytest.mark.parametrize("node", NEWER.values(), ids=NEWER)
@pytest.mark.parametrize("asked", [{}, {"nvidia_driver_source": "distribution"}, {"nvidia_driver_branch": "595"}])
def test_no_remedy_leads_back_on_a_node_with_a_past(node, asked):
    found = circles(node, asked)
    assert not found, told(found)


@settings(max_examples=40)
@given(node=nodes(), asked=WISHES)
def test_no_remedy_leads_back_on_made_up_nodes(node, asked):
    asked = {name: value for name, value in asked.items() if value is not None}
    found = circles(node, asked)
    assert not found, told(found)
