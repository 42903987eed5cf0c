"""The schemas that editors read, held against the examples and against settings that are wrong."""

import json
from pathlib import Path

import jsonschema
import pytest
import yaml
from referencing import Registry, Resource

ROOT = Path(__file__).parents[2]
SETTINGS, INVENTORY = (
    json.loads((ROOT / f"docs/{name}.schema.json").read_text(encoding="utf-8")) for name in ("settings", "inventory")
)
REGISTRY = Registry().with_resource("settings.schema.json", Resource.from_contents(SETTINGS))
FILES = [*ROOT.glob("examples/*/hosts.yml"), ROOT / "inventory/hosts.yml", *ROOT.glob("examples/*/*_vars/*.yml")]


def wrong(document, schema):
    """Return the messages of what an editor underlines."""
    return [error.message for error in jsonschema.Draft202012Validator(schema, registry=REGISTRY).iter_errors(document)]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_each_example_fits_the_schema_that_it_names(path):
    first, _rest = path.read_text(encoding="utf-8").split("\n", 1)
    named = (path.parent / first.removeprefix("# yaml-language-server: $schema=")).resolve()
    assert wrong(yaml.safe_load(path.read_text(encoding="utf-8")), json.loads(named.read_text(encoding="utf-8"))) == []
    assert named.stem == ("inventory.schema" if path.name == "hosts.yml" else "settings.schema")


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("cuda_state: present", True),
        ("cuda_state: null", True),
        ("cuda_state: '{{ state_of_cuda }}'", True),
        ("cuda_state: presnt", False),
        ("cuda_sate: present", False),
        ("cuda_toolkits: ['13.0']", True),
        ("cuda_toolkits: '13.0'", False),
        ('gpulab_environments: [{name: torch, pytorch: "2.9"}]', True),
        ("gpulab_environments: [{name: torch, pytroch: '2.9'}]", False),
        ("gpulab_environments: [{pytorch: '2.9'}]", False),
        ("nvidia_driver_state: present", True),
        ("reboot_timeout: soon", False),
        ("my_own: variable", True),
        ("storage_class: of somebody else", True),
        ("", True),
    ],
)
def test_an_editor_underlines_what_is_no_setting(text, fits):
    assert (wrong(yaml.safe_load(text), SETTINGS) == []) is fits


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("gpu-nodes: {children: {workstations: {hosts: {n1: {cuda_state: present}, n2:}}}}", True),
        ("gpu-nodes: {children: {workstations: {hosts: {n1: {cuda_state: presnt}}}}}", False),
        ("gpu-nodes: {host: {n1:}}", False),
        ("gpu-nodes: {vars: {cuda_sate: present}}", False),
    ],
)
def test_an_editor_underlines_what_is_no_inventory(text, fits):
    assert (wrong(yaml.safe_load(text), INVENTORY) == []) is fits
