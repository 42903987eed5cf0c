"""Every role keeps its promises: what it documents is what it defaults to."""

import re
from pathlib import Path

import pytest
import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.gpulab.node.plugins.plugin_utils import catalog
from ansible_collections.gpulab.node.plugins.plugin_utils.options import forms
from ansible_collections.gpulab.node.plugins.plugin_utils.options import load as options_of_all
from ansible_collections.gpulab.node.plugins.plugin_utils.plan import host_types

ROOT = Path(__file__).parents[2]
ROLES = sorted(path.parent for path in (ROOT / "roles").glob("*/tasks"))
# Roles that only read and decide, or that a machine has to be rebooted for: tests/lab and tests/vm see them at work.
WITHOUT_SCENARIO = {
    "advisories",  # that of container_toolkit runs its playbook
    "bmc",
    "bundle",
    "diagnose",
    "fence",
    "plan",
    "preflight",
    "reboot",
    "reinstall",
    "rollout",
    "usage",
    "verify",
}


def load(path):
    return (yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else None) or {}


def own(role, options):
    """Return the options that carry the role's name."""
    return {name: option for name, option in options.items() if name.startswith(f"{role.name}_")}


@pytest.fixture(params=ROLES, ids=lambda path: path.name)
def role(request):
    return request.param


@pytest.fixture
def defaults(role):
    return load(role / "defaults/main.yml")


@pytest.fixture
def options(role):
    return load(role / "meta/argument_specs.yml")["argument_specs"]["main"]["options"]


def test_documented_defaults_are_the_defaults(role, defaults, options):
    by_type = {one["option"] for record in catalog.load().host_types.values() for one in record["options"]}
    assert {
        name: host_types.EXPRESSION.format(name=name) if name in by_type else option.get("default")
        for name, option in own(role, options).items()
    } == defaults


def test_every_role_and_option_is_described(role, options):
    main = load(role / "meta/argument_specs.yml")["argument_specs"]["main"]
    assert main.get("description")
    assert main.get("version_added")
    assert all(option.get("description") for option in options.values())


def test_a_choice_has_a_default(defaults, options):
    """Ansible takes no null for one of a role, which then could not be used as it is."""
    assert [name for name, option in options.items() if "choices" in option and defaults.get(name, "") is None] == []


def test_messages_name_no_file_that_the_collection_does_not_ship():
    sources = [*ROOT.glob("plugins/module_utils/**/*.py"), *ROOT.glob("roles/*/files/*"), *ROOT.glob("roles/*/tasks/*")]
    told = re.compile(r"""["'].*\b(?:site\.yml|playbooks/\w+\.yml)|remedy:.*playbooks/""")
    assert [f"{path.name}: {line}" for path in sources for line in told.findall(path.read_text(encoding="utf-8"))] == []


def test_variables_carry_the_role_name(role, options):
    """But for the options that are no single role's own, which the role plan documents, without defaults in a file."""
    foreign = options.keys() - own(role, options).keys()
    assert role.name == "plan" or not foreign
    assert not [name for name in foreign if any(name.startswith(f"{other.name}_") for other in ROLES)]
    assert all(name.startswith(f"__{role.name}_") for name in load(role / "vars/main.yml"))


def test_every_variable_that_a_role_uses_is_one(role):
    """Ansible tells of a name that nobody defined only where it comes to it."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in role.rglob("*") if path.suffix in {".yml", ".j2"})
    name = rf"(?:__)?{role.name}_\w+"
    used = re.findall(rf"(?<![\w./'-]){name}", text)
    defined = re.findall(rf"(?:^\s*|{{% set )({name})(?=:| =)|\b(?:register|loop_var): ({name})", text, re.MULTILINE)
    assert set(used) == {one or other for one, other in defined}


def test_every_variable_of_a_role_that_a_scenario_reads_is_there():
    """Only the scenario itself would tell, after a quarter of an hour."""
    private = rf"(?<!\w)(__(?:{'|'.join(role.name for role in ROLES)})_\w+)"
    there = {
        path: path.read_text(encoding="utf-8") for path in [*ROOT.glob("roles/**/*.yml"), *ROOT.glob("playbooks/*.yml")]
    }
    known = set(re.findall(private, "\n".join(there.values())))
    for path in sorted(ROOT.glob("molecule/**/*.yml")):
        text = path.read_text(encoding="utf-8")
        own = set(re.findall(rf"{private}:|register: {private}", text))
        assert set(re.findall(private, text)) - known <= {one or other for one, other in own}, path


def test_a_boolean_that_is_decided_on_may_be_a_word():
    """-e name=false gives text, which is true; what goes to a module whole is turned into a boolean there."""
    known = options_of_all()
    booleans = "|".join(option.name for option in known.options.values() if option.type == "bool")
    files = [*ROOT.glob("roles/*/tasks/*.yml"), *ROOT.glob("roles/*/vars/*.yml"), *ROOT.glob("playbooks/*.yml")]
    text = "\n".join(re.sub(r"^ *#.*$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE) for path in files)
    converted = rf"(?:{booleans})(?: \| default\(false\))? \| bool\b"
    whole = (
        rf'"\{{\{{ (?:[^\n"]* if (?:{booleans}) is none else )?(?:{booleans})(?: \| default\((?:false|omit)\))? \}}\}}"'
    )
    assigned = rf"^ *(?:{booleans}):"
    text = re.sub(f"{converted}|{whole}|{assigned}", "", text, flags=re.MULTILINE)
    assert re.findall(rf"^.*\b(?:{booleans})\b.*$", text, re.MULTILINE) == []


def test_no_secret_goes_through_a_tasks_environment_which_ansible_shows():
    """At -vvv, in the line that starts the task; a module's argument with no_log is shown nowhere."""
    secrets = {place.partition(".")[0] for place, form in forms.OPTIONS.items() if form.secret and not form.elsewhere}
    found = []
    for path in [*ROOT.glob("roles/*/*/*.yml"), *ROOT.glob("playbooks/*.yml")]:
        given = re.findall(r"^( *)environment:(.*\n(?:\1 +.*\n)*)", path.read_text(encoding="utf-8"), re.MULTILINE)
        used = {name for _indent, text in given for name in re.findall(r"\w+", text)}
        found += [f"{path.relative_to(ROOT)}: {name}" for name in sorted(used & secrets)]
    assert found == []


def test_the_plan_takes_options_that_are_null():
    documented = load(ROOT / "roles/plan/meta/argument_specs.yml")["argument_specs"]["main"]["options"]
    result = ArgumentSpecValidator(documented).validate(dict.fromkeys(documented))
    assert result.error_messages == []


def test_a_scenario_shows_the_role(role):
    assert role.name in WITHOUT_SCENARIO or (ROOT / "molecule" / role.name / "molecule.yml").exists()


def test_the_example_in_the_readme_of_a_role_can_be_run_by_whoever_may_become_root(role):
    text = (role / "README.md").read_text(encoding="utf-8")
    (play,) = yaml.safe_load(text.partition("```yaml\n")[2].partition("```")[0])
    hosts = "monitoring_server" if role.name == "monitoring_server" else "gpu-nodes"
    assert play == {"hosts": hosts, "become": True, "roles": [f"gpulab.node.{role.name}"]}


def test_a_list_of_choices_is_shown_as_a_list():
    assert "| list of str: `clock` \\| " in (ROOT / "roles/preflight/README.md").read_text(encoding="utf-8")


def test_no_role_asks_ansible_for_the_mode_which_knows_nothing_of_a_plays_own():
    """The mode is ansible_facts['gpulab_check_mode'], in --check and under plan.yml alike."""
    asking = [path for path in ROOT.glob("roles/**/*.y*ml") if "ansible_check_mode" in path.read_text(encoding="utf-8")]
    plays = [path for path in ROOT.glob("playbooks/*.yml") if "ansible_check_mode" in path.read_text(encoding="utf-8")]
    assert asking == []
    assert not [path for path in plays if re.search(r"^\s+check_mode:", path.read_text(encoding="utf-8"), re.MULTILINE)]


def test_every_role_begins_by_holding_the_node(role):
    """It depends on the role plan, or reads the node itself; both see whether its variables are known, too.

    The role verify ends the work of a run, or has none; the others that do not begin change nothing.
    """
    begins = "work: begin" in "".join(path.read_text(encoding="utf-8") for path in (role / "tasks").glob("*.yml"))
    depends = "gpulab.node.plan" in load(role / "meta/main.yml").get("dependencies", ())
    assert (
        begins
        or depends
        or role.name
        in {"acceptance", "advisories", "bmc", "bundle", "capture", "diagnose", "export", "rollout", "usage", "verify"}
    )


RELOADS = re.compile(r"\bdaemon[_-]reload\b")
# What writes a unit: a task or a variable names a file in a directory of systemd's.
WRITES = re.compile(r"""["'\s](/etc/systemd/system|/usr/local/lib/systemd/system)/\S+:(\s|$)""", re.MULTILINE)


def _texts(role):
    return {
        path: path.read_text(encoding="utf-8")
        for part in ("tasks", "handlers", "vars")
        for path in sorted((role / part).glob("*.yml"))
    }


def test_every_reload_of_systemd_goes_one_way(role):
    """Containers that use a GPU can lose it: reload_units asks who does, and a parameter of a service asks nobody."""
    assert [str(path) for path, text in _texts(role).items() if RELOADS.search(text)] == []


def test_playbooks_reload_nothing():
    found = [path for path in (ROOT / "playbooks").rglob("*.yml") if RELOADS.search(path.read_text(encoding="utf-8"))]
    assert found == []


def test_who_writes_a_unit_lets_systemd_read_it(role):
    text = "".join(_texts(role).values())
    assert not WRITES.search(text) or "gpulab.node.reload_units" in text


def test_units_are_recognised():
    writing = {role.name for role in ROLES if WRITES.search("".join(_texts(role).values()))}
    assert {"monitoring", "monitoring_server", "slurm", "storage", "network", "nvidia_driver", "nightly"} <= writing


def test_no_role_waits_by_itself_for_a_unit_that_a_run_brings(role):
    """gpulab.node.units knows it, and judges by no other project's words."""
    text = "".join(path.read_text(encoding="utf-8") for path in role.rglob("*.yml"))
    assert "Could not find the requested service" not in text
    assert not re.findall(r"\w+_(?:unit|timer|exporter|clock|awake)_pending", text)
