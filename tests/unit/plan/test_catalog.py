"""Every record of the catalog: its shape, its source, and what it refers to."""

from __future__ import annotations

import re
from pathlib import Path

import jsonschema
import pytest
import yaml
from ansible_collections.gpulab.node.plugins.plugin_utils import options
from ansible_collections.gpulab.node.plugins.plugin_utils.catalog import Catalog
from ansible_collections.gpulab.node.plugins.plugin_utils.core.versions import version_key
from ansible_collections.gpulab.node.plugins.plugin_utils.plan import newer

ROOT = Path(__file__).parents[3] / "catalog"
SCHEMAS = sorted((ROOT / "schema").glob("*.yml"))
CATALOG = Catalog(ROOT)
# (schema, file): a schema is that of one file, or of each file in a folder of its name
FILES = [
    (schema, path.relative_to(ROOT).with_suffix("").as_posix())
    for schema in SCHEMAS
    for path in sorted((ROOT / schema.stem).glob("*.yml")) or [ROOT / schema.name]
]


def sources_named(value):
    """Yield every name that a record of the file gives as its source."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "source":
                yield from [inner] if isinstance(inner, str) else inner
            else:
                yield from sources_named(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from sources_named(inner)


@pytest.mark.parametrize(("schema", "name"), FILES, ids=[name for _schema, name in FILES])
def test_file_meets_its_schema(schema, name):
    jsonschema.Draft202012Validator(yaml.safe_load(schema.read_text())).validate(CATALOG.read(name))


@pytest.mark.parametrize("name", [name for _schema, name in FILES])
def test_every_source_is_listed_and_every_listed_source_used(name):
    document = CATALOG.read(name)
    used = set(sources_named({key: value for key, value in document.items() if key != "sources"}))
    listed = set(document["sources"])
    assert used - listed == set()
    assert listed - used == set()


def test_a_record_without_source_does_not_meet_the_schema():
    document = CATALOG.read("gpus")
    del document["gpus"][0]["source"]
    schema = yaml.safe_load((ROOT / "schema" / "gpus.yml").read_text())
    assert not jsonschema.Draft202012Validator(schema).is_valid(document)


def test_pci_ids_are_unique():
    own = [pci_id for gpu in CATALOG.read("gpus")["gpus"] for pci_id in gpu["pci_ids"]]
    listed = [board["pci_id"] for board in CATALOG.read("boards")["boards"]]
    assert len(own) == len(set(own)) >= 49
    assert len(listed) == len(set(listed)) >= 448


@pytest.mark.parametrize(
    ("device", "manager"), [("2901", "always"), ("3182", "always"), ("2941", "rack"), ("2330", None), ("2e12", None)]
)
def test_who_runs_the_fabric_manager_follows_from_form_and_nvlink(device, manager):
    """Switches of NVLink 5 are no PCI devices; earlier ones are seen on the bus."""
    assert CATALOG.gpus[f"10de:{device}"]["fabric_manager"] == manager


def test_gpus_agree_with_their_architecture():
    for pci_id, gpu in CATALOG.gpus.items():
        architecture = CATALOG.architectures[gpu["architecture"]]
        assert gpu["compute_capability"] in architecture["compute_capabilities"]
        assert set(gpu["kernel_modules"]) <= set(architecture["kernel_modules"])
        device = int(pci_id.partition(":")[2], 16)
        ranges = [[int(end, 16) for end in text.split("-")] for text in architecture["pci_ranges"]]
        assert any(first <= device <= last for first, last in ranges), pci_id


def test_architecture_ranges_do_not_overlap():
    ends = sorted(
        tuple(int(end, 16) for end in text.split("-"))
        for architecture in CATALOG.architectures.values()
        for text in architecture["pci_ranges"]
    )
    assert all(last < first for (_, last), (first, _) in zip(ends, ends[1:]))


def test_branches_are_in_order_and_versions_belong_to_them():
    assert list(CATALOG.branches) == sorted(CATALOG.branches)
    for name, branch in CATALOG.branches.items():
        floor = branch["security_floor"]
        assert branch["latest"] is None or branch["latest"].startswith(f"{name}.")
        assert floor is None or version_key(floor["version"]) <= version_key(branch["latest"])
    for gpu in CATALOG.gpus.values():
        first = gpu.get("first_driver", {})
        assert all(version.startswith(f"{name}.") for name, version in first.items() if version)
        assert not first or first[min(first)]


def test_references_resolve():
    names = {record["id"] for record in CATALOG.platforms.values()}
    for platform in CATALOG.platforms.values():
        for source in platform["driver_sources"].values():
            assert source["repository"] is None or source["repository"] in CATALOG.repositories
            assert set(source["branches"]) <= set(CATALOG.branches)
            described = {branch for names_of in source["package_sets"] for branch in names_of["branches"]}
            assert set(source["branches"]) <= described
    for issue in CATALOG.known_issues:
        assert set(issue["match"].get("drivers", {})) <= set(CATALOG.branches)
        assert set(issue["match"].get("platforms", [])) <= names
    for library in CATALOG.libraries.values():
        assert set(library["doubts"]) <= names
    assert set(CATALOG.container_toolkit["repositories"].values()) <= set(CATALOG.repositories)
    majors = {
        build["cuda"].partition(".")[0]
        for releases in CATALOG.frameworks.values()
        for release in releases.values()
        for build in release["builds"]
    }
    assert majors <= set(CATALOG.min_drivers)


def test_toolkits_and_frameworks_are_oldest_first():
    assert list(CATALOG.toolkits) == sorted(CATALOG.toolkits, key=version_key)
    for releases in CATALOG.frameworks.values():
        assert list(releases) == sorted(releases, key=version_key)


def test_forward_compatibility_is_for_branches_older_than_the_toolkits_own():
    for toolkit in CATALOG.toolkits.values():
        branches = toolkit["compat_branches"] or []
        assert set(branches) <= set(CATALOG.branches)
        assert not branches or max(branches) < toolkit["paired_driver"].partition(".")[0]


def test_pytorch_builds_name_indexes_that_exist():
    exist = set(CATALOG.read("frameworks")["pytorch_indexes"]["exist"])
    for release in CATALOG.frameworks["pytorch"].values():
        for build in release["builds"]:
            assert build["index"] in exist
            assert build["index"] == "cu" + build["cuda"].replace(".", "")


def test_the_newest_container_toolkit_is_not_below_its_floor():
    record = CATALOG.container_toolkit
    floors = [version_key(floor["version"]) for floor in record["security_floors"]]
    assert floors == sorted(floors)
    assert version_key(record["newest"]) >= floors[-1]


def test_the_key_that_nvidia_retired_is_trusted_nowhere():
    """It signed the repositories until 2022; guides still have it: 7fa2af80."""
    texts = [path.read_text(encoding="utf-8") for path in ROOT.glob("*.yml")]
    assert not [text for text in texts if "7fa2af80" in text.lower()]


def test_recipes_name_wishes_and_their_fields():
    known = options.load().options
    fields = {f"{name}.{field.name}" for name, option in known.items() for field in option.fields}
    for recipe in CATALOG.recipes:
        assert set(recipe["in"]) <= {*known, *fields}, recipe["id"]


def test_recipes_catch_no_right_recipe():
    for recipe in CATALOG.recipes:
        for right in (
            "cu126",
            "tensorflow",
            "nvidia-ml-py",
            "nvidia-container-toolkit",
            "cuda12",
            "12.9",
            "cuda-toolkit-12-9",
        ):
            assert not re.search(recipe["pattern"], right)


def test_a_file_is_read_once_for_all_hosts(monkeypatch):
    read, load = [], yaml.load
    monkeypatch.setattr(yaml, "load", lambda text, loader: read.append(text) or load(text, loader))
    fresh = Catalog(ROOT)
    for _host in range(3):
        known, _warnings = newer.extended(fresh, {"nvidia_driver_branch": "595", "nvidia_driver_version": "595.71.05"})
        assert {"595"} <= set(known.branches)
        assert known.toolkits
    assert len(read) == 2
