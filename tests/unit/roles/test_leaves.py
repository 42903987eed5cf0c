"""Every role declares what it leaves on a node, once; captures, removals and receipts go by the same declaration."""

import re
from pathlib import Path

import pytest
import yaml
from ansible_collections.gpulab.node.plugins.module_utils.capture import leaves
from ansible_collections.gpulab.node.plugins.module_utils.capture.rules import Rules
from ansible_collections.gpulab.node.plugins.plugin_utils import options
from ansible_collections.gpulab.node.plugins.plugin_utils.roles import known
from ansible_collections.gpulab.node.plugins.plugin_utils.roles import leaves as declared
from declared import declares, left_of, plain, taken, undeclared

ROOT = Path(__file__).parents[3]
ROLES = sorted(path.parent.name for path in (ROOT / "roles").glob("*/tasks"))
REMOVED = known.removed()
OF_REPOSITORY = {
    "apt_repository": (
        "/etc/apt/keyrings/gpulab-{}.asc",
        "/etc/apt/sources.list.d/gpulab-{}.sources",
        "/etc/apt/preferences.d/zz-gpulab-{}.pref",
    ),
    "repository": (
        "/etc/apt/keyrings/gpulab-{}.asc",
        "/etc/apt/sources.list.d/gpulab-{}.sources",
        "/etc/apt/preferences.d/zz-gpulab-{}.pref",
        "/etc/yum.repos.d/gpulab-{}.repo",
        "/etc/pki/rpm-gpg/RPM-GPG-KEY-gpulab-{}",
    ),
    "apt_components": ("/etc/apt/sources.list.d/gpulab-{}.sources",),
}
# What a role leaves alone, and another one takes away.
OWN_STATE = {"jupyter", "nightly", "monitoring_server", "slurm", "users"}


def repositories(role):
    """Return the files by which a role tells a package manager of repositories."""
    text = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "roles" / role / "tasks").glob("*.yml"))
    asked = re.findall(r"gpulab\.node\.(apt_repository|repository|apt_components):\n\s+name: (\S+)", text)
    return sorted({pattern.format(name) for module, name in asked for pattern in OF_REPOSITORY[module]})


def written(role):
    """Return the paths of files that the tasks of a role name as ones to write: keys of mappings, dest of a module."""
    found = set()
    for path in [*(ROOT / "roles" / role).glob("tasks/*.yml"), ROOT / "roles" / role / "vars/main.yml"]:
        if path.exists():
            text = path.read_text(encoding="utf-8")
            found |= set(re.findall(r"^\s+(/\S+): (?!\d)", text, re.MULTILINE))
            found |= set(re.findall(r"^\s+dest: \"?(/[^\s\"{]+)\"?$", text, re.MULTILINE))
            found |= set(re.findall(r"(?<!~ )'(/[^' ]+)':", text))
    return sorted(found)


@pytest.mark.parametrize("role", ROLES)
def test_every_role_declares_what_it_leaves(role):
    text = (ROOT / "roles" / role / "meta/leaves.yml").read_text(encoding="utf-8")
    document = yaml.safe_load(text)
    assert list(document) == ["leaves"]
    for one in document["leaves"]:
        assert one.keys() <= {"fate", "why", "stays", "paths"}
        assert one["fate"] in leaves.FATES
        assert one["paths"]
        assert all(one.get(name, "It is.").endswith(".") and ": " not in one.get(name, "") for name in ("why", "stays"))


def test_a_pattern_is_absolute_and_names_settings_that_there_are():
    for one in declared.load():
        for path in one["paths"]:
            known = {*options.load().options, "environment", "builds"}
            assert set(re.findall(r"\{(\w+)\}", path)) <= known, path
            assert plain(path).startswith(("/", "~/")), path
            assert "{" not in path[1:], path


def test_a_path_by_a_setting_that_is_empty_is_none():
    values = {"tuning_swap": None, "environments_directory": "/srv/envs/"}
    given = [path for one in declared.on_host(options.Values(values.get)) for path in one["paths"]]
    assert [path for path in given if not path.startswith(("/", "~/", "{"))] == []
    assert "/srv/envs/.cache/" in given


def test_a_path_is_declared_once():
    """But for files of others in which several roles have lines."""
    seen = [
        path for one in declared.load() if one["fate"] != leaves.CAPTURED for path in one["paths"] if "{" not in path
    ]
    assert [path for path in set(seen) if seen.count(path) > 1] == []


@pytest.mark.parametrize("role", ROLES)
def test_what_a_role_writes_is_declared(role):
    assert [path for path in written(role) if not declares(path, role)] == []


@pytest.mark.parametrize("role", ROLES)
def test_repositories_of_a_role_are_declared(role):
    """Several roles write the same files of NVIDIA's repository; the driver's role declares them."""
    assert [path for path in repositories(role) if not declares(path, role, "nvidia_driver")] == []


def test_what_code_that_runs_on_nodes_calls_gpulabs_is_declared():
    """Whatever a module, or what is built for nodes, names by a constant path with gpulab in it."""
    sources = [*ROOT.glob("plugins/module_utils/**/*.py"), *ROOT.glob("plugins/modules/*.py")]
    sources += [
        *ROOT.glob("plugins/plugin_utils/plan/*.py"),
        *ROOT.glob("plugins/plugin_utils/rebuild/installation.py"),
    ]
    sources += [
        path
        for path in ROOT.glob("roles/*/*/*")
        if path.suffix in {".yml", ".j2", ".py"} and path.parent.name != "meta"
    ]
    named = re.compile(r"[\"' ](/(?:boot|etc|opt|usr|var)/[\w./@-]*gpulab[\w./@-]*\w)(?=[\"'\s,;:)}])")
    found = {path: name for name in sources for path in named.findall(name.read_text(encoding="utf-8"))}
    assert {path: str(name.relative_to(ROOT)) for path, name in found.items() if not declares(path, *ROLES)} == {}
    assert len(found) > 60, "the expression finds what there is"


def test_what_is_captured_has_a_rule_that_captures_it():
    """What no rule of the catalog captures is captured by the declaration itself: state that must survive."""
    by_itself = {
        "/var/lib/gpulab/gpu-settings.json",
        "/var/lib/gpulab/secure-boot.json",
        "/var/lib/gpulab/cuda-strays.json",
        "/var/lib/gpulab/users.json",
        "/var/lib/gpulab/users/**",
        "/var/lib/gpulab-jupyter/**",
        "{model_store_directory}/locks/**",
    }
    catalog = yaml.safe_load((ROOT / "catalog/captured.yml").read_text(encoding="utf-8"))["captured"]
    rules = Rules([(pattern, one["section"]) for one in catalog for pattern in one["patterns"]])
    captured = {path for one in declared.load() if one["fate"] == leaves.CAPTURED for path in one["paths"]}
    assert {path for path in captured if rules.find(path.replace("*", "x")) is None} == by_itself | {
        "/root/.conda/environments.txt"
    }


def test_the_catalog_keeps_only_what_is_of_others():
    assert "gpulab" not in re.sub(
        r"^#.*$", "", (ROOT / "catalog/ephemeral.yml").read_text(encoding="utf-8"), flags=re.MULTILINE
    )


@pytest.mark.parametrize("role", REMOVED)
def test_a_role_that_goes_takes_away_what_it_declares_or_says_why_it_stays(role):
    """The nodes of scenarios are looked at after a removal; here, nothing is declared that no removal knows of."""
    text = texts_of_removal(role)
    assert [path for path in taken(role) if not is_named(plain(path), text)] == []


@pytest.mark.parametrize("role", sorted({*ROLES} - {*REMOVED} - OWN_STATE))
def test_what_remove_yml_leaves_alone_says_why(role):
    assert taken(role) == []


def test_what_a_receipt_names_is_declared_by_its_own_role():
    items = ["file:/etc/modprobe.d/gpulab-nouveau.conf", "fact:system", "block:/etc/hosts#network"]
    receipts = {"nouveau": {"items": items}, "network": {"items": items[2:]}}
    assert undeclared(receipts) == ["nouveau: /etc/hosts"]


def test_what_a_removal_should_have_taken_is_found():
    listed = "/etc/modprobe.d/gpulab-nouveau.conf\n/opt/gpulab-nccl-tests/\n/etc/hosts\n/opt/venvs/.cache/CACHEDIR.TAG"
    assert left_of(["nouveau", "nccl", "environments"], listed) == listed.splitlines()[:2]


def texts_of_removal(role):
    """Return the tasks and variables of a role, its modules with what these import, and its part of the plan."""
    found = [path for path in (ROOT / "roles" / role).glob("*/*.yml") if path.parent.name in {"tasks", "vars"}]
    tasks = "\n".join(path.read_text(encoding="utf-8") for path in found)
    found = [ROOT / f"plugins/modules/{name}.py" for name in re.findall(r"gpulab\.node\.(\w+):", tasks)]
    for module in list(found):
        text = module.read_text(encoding="utf-8")
        imported = re.findall(r"module_utils\.(\w+) import (\([^)]*\)|[^\n]+)", text)
        names = [(package, name) for package, given in imported for name in re.findall(r"\w+", given)]
        names += re.findall(r"module_utils\.(\w+)\.(\w+) import", text)
        found += [ROOT / f"plugins/module_utils/{package}/{name}.py" for package, name in names]
    found += [*ROOT.glob(f"plugins/plugin_utils/plan/{role}*.py"), ROOT / f"plugins/module_utils/facts/{role}.py"]
    texts = [path.read_text(encoding="utf-8") for path in dict.fromkeys(found) if path.exists()]
    return "\n".join([tasks, *repositories(role), *texts])


def is_named(path, text):
    """Tell whether a text has a path, a directory of gpulab's above it, or the name that a place is built with."""
    fixed = re.split(r"[*{\[]", path)[0].rstrip("/")
    above = (str(one) for one in Path(fixed).parents if "gpulab" in one.name)
    return any(one in text for one in (fixed, *above, Path(fixed).name))


def test_the_paths_that_a_preview_asks_for_are_names_of_files_and_directories():
    paths = declared.exact()
    assert {"/etc/nccl.conf", "/usr/local/lib/gpulab-monitoring", "/usr/local/bin/cuda-compat"} <= set(paths)
    assert [path for path in paths if not re.fullmatch(r"(/[\w.@-]+)+", path)] == []
