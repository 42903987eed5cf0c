"""Write what is made from the code: the roles' READMEs, defaults and lists, settings.md, errors.md, schemas."""

from __future__ import annotations

import json
import re
import string
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

sys.path.insert(0, str(Path(__file__).parent))
import conftest  # noqa: F401  it makes this checkout importable as a collection
import layout
import pictures
import role_lists
import schemas
import settings_schemas
import translations
from ansible_collections.gpulab.node.plugins.module_utils.checks.model import SEVERITIES
from ansible_collections.gpulab.node.plugins.module_utils.checks.remedies import REMEDIES
from ansible_collections.gpulab.node.plugins.module_utils.checks.runner import SUBJECT_NAMES, checks, subject
from ansible_collections.gpulab.node.plugins.plugin_utils import catalog, options
from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis import model as diagnosis_model
from ansible_collections.gpulab.node.plugins.plugin_utils.facts import model as facts_model
from ansible_collections.gpulab.node.plugins.plugin_utils.options.option import plain
from ansible_collections.gpulab.node.plugins.plugin_utils.plan import host_types
from ansible_collections.gpulab.node.plugins.plugin_utils.plan import model as plan_model
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import CODES
from ansible_collections.gpulab.node.plugins.plugin_utils.roles import known as known_roles
from ansible_collections.gpulab.node.plugins.plugin_utils.usage import model as usage_model

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import ModuleType

    from translations import Language

ROOT = Path(__file__).parents[1]
README = """<!-- Written by `make docs` from meta/argument_specs.yml. -->
# gpulab.node.{name}

{title}.

{description}

```yaml
- hosts: {hosts}
  become: true
  roles:
    - gpulab.node.{name}
```

{options}"""
OWN_HOSTS = {"monitoring_server"}  # roles for hosts of a group of their own
DEFAULTS = """---
# Written by `make docs` from meta/argument_specs.yml, which says more.

{defaults}"""
WIDTH = 118
COLUMNS = ("Variable", "Type", "Default", "Meaning")
SETTINGS = """<!-- Written by `make docs` from roles/*/meta/argument_specs.yml. -->
# Settings

Every variable, by role. Set them in `inventory/group_vars/`, in `inventory/host_vars/` or with `-e`. Without any of
them gpulab chooses, some by the [host type](host-types.md). [recipes.md](recipes.md) shows what to set for what;
`ansible-doc -t role gpulab.node.<role>` shows the same text in a terminal. An unknown or misspelled variable is refused
before any node is touched
([GPULAB-I001](errors.md#gpulab-i001)).

| Role | What it does |
| --- | --- |
{contents}
{roles}"""
ROLE = """## {name}

{title}: see [the role](../roles/{name}/README.md).

{options}"""
NO_VARIABLES = "It has no variables.\n"
HOST_TYPES = """<!-- Written by `make docs` from catalog/host_types.yml. -->
# Host types

A machine's group below `gpu-nodes` says what it is for. What that brings is data, `catalog/host_types.yml`: options by
the names of [settings.md](settings.md), each with its reason.

- A value of the inventory counts first. `null` takes a default away: `monitoring_state: null`.
- `ansible-playbook playbooks/plan.yml` shows for each node what its type sets and why; the report names the type.
- A default that does not fit a node's system, GPUs or driver is left out there, and the plan says so. A disk that is
  too small for all of it is refused ([GPULAB-H082](errors.md#gpulab-h082)); an environment takes 10 GB, a toolkit 12,
  one of wheels 1.
- A machine may be in several types that agree about everything that the inventory does not set
  ([GPULAB-I025](errors.md#gpulab-i025)).
- A node in no type gets none of these, when roles are used without gpulab's playbooks.

What the kernel and sessions are tuned to depends on the hardware, too: `catalog/tuning.yml`, by the same types.

## The three usual builds

| Build | Here |
| --- | --- |
| personal: one GPU for one person | `workstations`; `shared_workstations` where several people log in |
| enterprise: several data-centre GPUs, ECC, fast storage | `training_servers` and `inference_servers` |
| edge: Jetson | refused ([GPULAB-H084](errors.md#gpulab-h084)): its driver is a part of its system image |

{types}"""
_HOST_TYPE_TABLE = """| Option | Value | Because | Source |
| --- | --- | --- | --- |
"""
_FAMILIES = {None: "", "debian": " on Debian and Ubuntu", "redhat": " on RHEL's family"}
ERRORS = """<!-- Written by `make docs` from the refusals, the checks and the alert rules. -->
# Errors and findings

A **refusal** stops the run on a node. It has a code `GPULAB-Xnnn`, a cause and a remedy. A code never changes its
meaning. Most refusals come before anything has changed, and then say so. A **finding** is what the proof found on a
node. It has the id of its check, a severity and a remedy. Words in *italics* stand for what the message fills in.

{contents}
- [Checks of the proof](#checks-of-the-proof)
- [Remedies of findings](#remedies-of-findings)
- [Alerts](#alerts)
- [Error texts](#error-texts)

{families}## Checks of the proof

Each answers with a severity: {severities}. The run fails on `fail`, or from the severity in `verify_fail_on` on.
`skipped` is what ought to be looked at and could not be now, and why. A check that is not for the machine, for one of
its GPUs or for the level gives no answer and counts nowhere; `report.json` names it with the reason
(`not_for_this_machine`).

{checks}## Remedies of findings

The report names one of these words (`remediation` in `report.json`) and shows the sentence.

| Remedy | What to do |
| --- | --- |
{remedies}
## Alerts

What calls people, where [Prometheus watches the nodes](fleet.md#alerts-that-arrive).

{alerts}## Error texts

What programs print, what is usually behind it, and what cures it. `playbooks/diagnose.yml -e error="..."` finds the
record of a pasted text, and looks on the node for what is really so ([diagnosis](diagnosis.md)).

{texts}"""
FORMS_MODULE = '''# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: COM819, E501, Q003
"""How secrets look. `make docs` writes this from catalog/secret_forms.yml, which says more."""

from __future__ import annotations

import re

NO_FLAG = re.RegexFlag(0)

# fmt: off
# name, words of which one is there, pattern, flags, whether it is hidden in output
FORMS: tuple[tuple[str, tuple[str, ...], str, re.RegexFlag, bool], ...] = (
{forms})

# files that are secret by their names
PATHS: tuple[str, ...] = (
{paths})
'''
MESSAGES_MODULE = '''# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: COM819, E501
"""What tools print when they fail. `make docs` writes this from catalog/tool_messages.yml, which says more."""

from __future__ import annotations

from typing import NamedTuple


class Message(NamedTuple):
    """A record: code is that of its refusal, else it has cause and remedy."""

    id: str
    tool: str
    patterns: tuple[str, ...]
    code: str = ""
    cause: str = ""
    remedy: str = ""
    driver: bool = False
    weak: bool = False
    follows: bool = False


# fmt: off
# how a tool is known in a text that somebody pasted
SPEAKERS: dict[str, tuple[str, ...]] = {{
{speakers}}}
MESSAGES: tuple[Message, ...] = (
{messages})
'''
KNOWN_ERRORS = '''# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: COM819, E501
"""What errors in the kernel log mean. `make docs` writes this from catalog/xids.yml and catalog/kernel_lines.yml."""

from __future__ import annotations

from typing import Any

# fmt: off
NEWEST_XID = {newest}
# severity, remedy and meaning, by number
XIDS: dict[int, tuple[str, str, str]] = {{
{xids}}}

# severity and remedy of an NVLink 5 error, by unit and error status
NVLINK5: dict[str, dict[int, tuple[str, str]]] = {{
{nvlink5}}}

# severity, remedy and meaning, by the action that XID 154 names
RECOVERY: dict[str, tuple[str, str, str]] = {{
{recovery}}}

# how a driver begins its lines
SPEAKERS: dict[str, str] = {{
{speakers}}}

# what the catalog says of each kind of line
LINES: dict[str, dict[str, Any]] = {{
{lines}}}

# severity, remedy and meaning of an NVSwitch's errors, by kind
SWITCHES: dict[str, tuple[str, str, str]] = {{
{switches}}}
'''
FAMILIES = {
    "H": "Host and connection",
    "I": "Inventory and input",
    "P": "Plan",
    "D": "Driver",
    "C": "CUDA",
    "E": "Environments",
    "S": "Long steps and runs",
    "V": "Proof",
    "R": "Rebuild",
    "G": "Diagnosis",
    "F": "Fleet",
    "U": "People",
    "J": "JupyterHub",
    "M": "Models",
    "B": "Bundles",
    "K": "Images of work",
}
TOPICS = {
    "driver": "NVIDIA's driver",
    "cuda": "CUDA and its libraries",
    "pytorch": "PyTorch",
    "distributed": "PyTorch's ranks and workers",
    "nccl": "NCCL",
    "tensorflow": "TensorFlow",
    "jax": "JAX",
    "serving": "vLLM, Ray, llama.cpp, Triton, NVSHMEM",
    "docker": "Docker and Podman",
    "kubernetes": "Kubernetes",
    "slurm": "Slurm",
    "system": "The system",
    "network": "The network",
    "pip": "pip",
    "conda": "conda",
}


def documents() -> dict[Path, str]:
    """Return the text of every document that is written, by its path."""
    specs = {path.parents[1]: main for path, main in role_specs().items()}
    return {
        **{role / "README.md": readme(role.name, main) for role, main in specs.items()},
        **{role / "defaults/main.yml": text for role, main in specs.items() if (text := defaults(role.name, main))},
        ROOT / "docs/host-types.md": types(),
        **{ROOT / "docs" / name: text for name, text in pages(translations.english).items()},
        **{ROOT / "docs/zh" / name: text for name, text in pages(translations.Chinese()).items()},
        ROOT / "plugins/module_utils/core/secret_forms.py": secret_forms(),
        ROOT / "plugins/module_utils/core/tool_messages.py": tool_messages(),
        ROOT / "plugins/module_utils/driver/known_errors.py": known_errors(),
        ROOT / "docs/diagnosis.schema.json": schema(
            diagnosis_model, diagnosis_model.Diagnosis, "diagnosis", "diagnose"
        ),
        ROOT / "docs" / settings_schemas.SETTINGS: as_json(settings_schemas.settings(options.load())),
        ROOT / "docs/inventory.schema.json": as_json(settings_schemas.inventory()),
        ROOT / "docs/facts.schema.json": schema(facts_model, facts_model.Facts, "facts", "gpu_facts"),
        ROOT / "docs/plan.schema.json": schema(plan_model, plan_model.Plan, "plan", "plan"),
        ROOT / "docs/usage.schema.json": schema(usage_model, usage_model.Usage, "usage", "usage"),
        **lists_of_roles(),
    }


def role_specs() -> dict[Path, dict[str, Any]]:
    """Return the specification of each role, by its file."""
    return {
        path: yaml.safe_load(path.read_text(encoding="utf-8"))["argument_specs"]["main"]
        for path in sorted(ROOT.glob("roles/*/meta/argument_specs.yml"))
    }


def lists_of_roles() -> dict[Path, str]:
    """Return the texts that name the roles which carry the plan out, by path."""
    roles = known_roles.load()
    parts = {
        "playbooks/remove.yml": role_lists.remove(roles),
        "docs/architecture.md": {"roles": role_lists.table(roles.values()), "rooms": layout.picture()},
        "docs/moving.md": {"names": foreign_names()},
    }
    return {
        ROOT / "playbooks/tasks/roles.yml": role_lists.apply(roles.values()),
        **{ROOT / path: with_parts((ROOT / path).read_text(encoding="utf-8"), made) for path, made in parts.items()},
    }


def foreign_names() -> str:
    """Return a table for each role of others: its variables, and what takes their place."""
    tables = []
    for role in catalog.load().read("foreign_names")["roles"]:
        rows = [f"| `{name}` | {answer} |\n" for name, answer in role["variables"].items()]
        tables.append(f"\n| {role['name']} | gpulab |\n| --- | --- |\n{''.join(rows)}")
    return "".join([*tables, "\n"])


def with_parts(text: str, parts: Mapping[str, str]) -> str:
    """Return a text with its parts replaced: the lines between one with C(<name>) and one with C(</name>)."""
    for name, lines in parts.items():
        begin, end = (re.search(rf"^.*<{mark}>.*\n", text, re.MULTILINE) for mark in (name, f"/{name}"))
        text = text[: begin.end()] + lines + text[end.start() :]
    return text


def secret_forms() -> str:
    """Return catalog/secret_forms.yml as a module, for nodes do not have YAML."""
    known = catalog.load().read("secret_forms")
    forms = "".join(
        f"    ({json.dumps(form['name'])}, {_literal(form['words'])}, {json.dumps(form['pattern'])},"
        f" {'re.IGNORECASE' if form.get('any_case') else 'NO_FLAG'}, {form.get('shown', False)}),\n"
        for form in known["forms"]
    )
    paths = "".join(f"    {json.dumps(pattern)},\n" for one in known["paths"] for pattern in one["patterns"])
    return FORMS_MODULE.format(forms=forms, paths=paths)


def tool_messages() -> str:
    """Return catalog/tool_messages.yml as a module, for nodes do not have YAML."""
    known, rows = catalog.load().read("tool_messages"), []
    for one in known["messages"]:
        further = [f"{key}={json.dumps(one[key])}" for key in ("code", "cause", "remedy") if key in one]
        further += [f"{key}=True" for key in ("driver", "weak", "follows") if one.get(key)]
        fields = [json.dumps(one["id"]), json.dumps(one["tool"]), _literal(one["patterns"]), *further]
        rows.append(f"    Message({', '.join(fields)}),\n")
    speakers = "".join(f"    {json.dumps(tool)}: {_literal(forms)},\n" for tool, forms in known["speakers"].items())
    return MESSAGES_MODULE.format(speakers=speakers, messages="".join(rows))


def known_errors() -> str:
    """Return catalog/xids.yml and catalog/kernel_lines.yml as a module."""
    known, lines = catalog.load().read("xids"), catalog.load().read("kernel_lines")
    actions = {**known["actions"], **known["nvlink5_actions"]}
    judged = {name: (action["severity"], action["remedy"]) for name, action in actions.items()}
    return KNOWN_ERRORS.format(
        newest=known["newest"],
        xids=_entries({one["xid"]: (*_judged(one, judged), _meaning(one)) for one in known["xids"]}),
        nvlink5=_entries(
            {
                unit: {status: judged[action] for action, of in table.items() for status in of}
                for unit, table in known["nvlink5"].items()
            }
        ),
        recovery=_entries({name: _told(one) for name, one in known["recovery"].items()}),
        speakers=_entries(lines["speakers"]),
        lines=_entries(
            {
                one["id"]: {part: value for part, value in one.items() if part not in ("id", "source")}
                for one in lines["lines"]
            }
        ),
        switches=_entries({name: _told(one) for name, one in lines["switches"].items()}),
    )


def _judged(xid: dict[str, Any], actions: dict[str, tuple[str, str]]) -> tuple[str, str]:
    own = (xid.get("severity"), xid.get("remedy"))
    return own if all(own) else actions[xid["action"]]


def _meaning(xid: dict[str, Any]) -> str:
    return xid.get("meaning") or f"{xid['name']} (NVIDIA publishes no more than the name)"


def _told(one: dict[str, str]) -> tuple[str, str, str]:
    return one["severity"], one["remedy"], one["meaning"]


def _entries(known: dict[Any, Any]) -> str:
    """Return the entries of a dictionary, one a line."""
    return "".join(f"    {_literal(key)}: {_literal(value)},\n" for key, value in known.items())


def _literal(value: Any) -> str:
    """Return a value as Python writes it, strings in double quotes."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_literal(key)}: {_literal(one)}' for key, one in value.items())}}}"
    if isinstance(value, (list, tuple)):
        return f"({', '.join(map(_literal, value))},)"
    return json.dumps(value) if isinstance(value, str) else repr(value)


def schema(model: ModuleType, whole: type, name: str, plugin: str) -> str:
    """Return the JSON Schema of what a module or action of gpulab returns; model is the file that describes it."""
    units = " ".join(str(model.__doc__).partition("\n\n")[2].split())
    found = schemas.schema(whole, f"gpulab {name}", f"What gpulab.node.{plugin} returns. {units}")
    return as_json(found)


def as_json(value: dict[str, Any]) -> str:
    """Return a document as a file of JSON has it."""
    return json.dumps(value, indent=2) + "\n"


def readme(name: str, main: dict[str, Any]) -> str:
    """Return the README of a role; main is its specification."""
    return README.format(
        name=name,
        hosts=name if name in OWN_HOSTS else "gpu-nodes",
        title=main["short_description"],
        description=_markdown(main["description"], "\n\n"),
        options=_table(main.get("options", {})),
    )


def defaults(name: str, main: dict[str, Any]) -> str:
    """Return the defaults of a role's own variables, those that carry its name, each below its first paragraph."""
    own = {option: record for option, record in main.get("options", {}).items() if option.startswith(f"{name}_")}
    return DEFAULTS.format(defaults="\n".join(map(_default, own, own.values()))) if own else ""


def _default(name: str, option: dict[str, Any]) -> str:
    """Return one default, with what the option takes as a comment."""
    text = plain(option["description"])
    missing = [str(choice) for choice in option.get("choices", ()) if str(choice) not in text]
    if missing:
        text += f" Choices: {', '.join(option['choices'])}."
    comment = "".join(f"# {line}\n" for line in textwrap.wrap(text, WIDTH, break_on_hyphens=False))
    asks = f'"{host_types.EXPRESSION.format(name=name)}"'
    return f"{comment}{name}: {asks if name in by_host_type() else _yaml(option.get('default'))}\n"


def by_host_type() -> set[str]:
    """Return the options that some host type sets."""
    return {one["option"] for record in catalog.load().host_types.values() for one in record["options"]}


def types() -> str:
    """Return the page of the host types."""
    known = catalog.load()
    sources = known.read("host_types")["sources"]
    sections = []
    for name, record in known.host_types.items():
        rows = "".join(
            f"| {_code(one['option'])} | {_code(one['value'])}{_FAMILIES[one.get('family')]} | {one['because']} |"
            f" {', '.join(_link(sources[source]) for source in one['source'])} |\n"
            for one in record["options"]
        )
        sections.append(f"## {name}\n\n{record['purpose']}\n\n{_HOST_TYPE_TABLE}{rows}")
    return HOST_TYPES.format(types="\n".join(sections))


def pages(language: Language) -> dict[str, str]:
    """Return the pages that there are in each language, by the file's name."""
    return {"settings.md": settings(language), "errors.md": errors(language)}


def settings(language: Language) -> str:
    """Return the page of all variables."""
    specs = {path.parents[1].name: main for path, main in role_specs().items()}
    titles = {name: language("roles", name, main["short_description"])[0] for name, main in specs.items()}
    [page] = language("pages", "settings", SETTINGS)
    [role] = language("pages", "role", ROLE)
    return page.format(
        contents="".join(f"| [{name}](#{name}) | {title} |\n" for name, title in titles.items()),
        roles="\n".join(
            role.format(name=name, title=titles[name], options=_table(main.get("options", {}), language))
            for name, main in specs.items()
        ),
    )


def errors(language: Language) -> str:
    """Return the page of all refusals, checks, remedies and alerts; in English of the error texts, too."""
    titles = {letter: language("families", letter, title)[0] for letter, title in FAMILIES.items()}
    [page] = language("pages", "errors", ERRORS)
    remedies = {word: language("remedies", word, sentence)[0] for word, sentence in REMEDIES.items()}
    return page.format(
        contents="\n".join(f"- [{title}](#{_anchor(title)})" for title in titles.values()),
        families="".join(f"## {title}\n\n{_refusals(letter, language)}" for letter, title in titles.items()),
        severities=", ".join(f"`{word}`" for word in SEVERITIES),
        checks="".join(_checks(name, language) for name in SUBJECT_NAMES),
        remedies="".join(f"| `{word}` | {_escaped(sentence)} |\n" for word, sentence in remedies.items()),
        alerts="".join(_alerts(language)),
        texts="\n".join(map(_error_texts, TOPICS)),
    )


def _alerts(language: Language) -> Iterator[str]:
    """Yield each alert of Prometheus under a heading that its runbook_url leads to."""
    groups = yaml.safe_load((ROOT / "roles/monitoring/files/alerts.yml").read_text(encoding="utf-8"))["groups"]
    for rule in (rule for group in groups for rule in group["rules"] if "alert" in rule):
        said = (rule["annotations"][part] for part in ("description", "remedy"))
        description, remedy = map(_escaped, language("alerts", rule["alert"], *said))
        [lasts] = language("words", "lasts", ", when it lasts {time}")
        lasts = lasts.format(time=rule["for"]) if "for" in rule else ""
        yield f"### {rule['alert']}\n\n{description} (`{rule['labels']['severity']}`{lasts})\n\n"
        yield f"{_remedy(language)}{remedy}\n\n"


def _error_texts(topic: str) -> str:
    """Return the table of the error texts about one program."""
    known = catalog.load()
    rows = "".join(
        f"| {_escaped(record['text'].splitlines()[0])} | {_escaped(record['cause'])} | {_escaped(record['remedy'])} |"
        f" {', '.join(map(_link, record['source']))} |\n"
        for record in known.error_texts
        if record["topic"] == topic
    )
    return f"### {TOPICS[topic]}\n\n| Text | Cause | Remedy | Source |\n| --- | --- | --- | --- |\n{rows}"


def _refusals(family: str, language: Language) -> str:
    """Return the refusals of one family, each under a heading that a link can lead to."""
    sentences = {code: language("refusals", code, *said) for code, said in CODES.items() if code.startswith(family)}
    return "".join(
        f"### GPULAB-{code}\n\n{filled(cause)}\n\n{_remedy(language)}{filled(remedy)}\n\n"
        for code, (cause, remedy) in sentences.items()
    )


def _remedy(language: Language) -> str:
    return language("words", "remedy", "**Remedy:** ")[0]


def _checks(name: str, language: Language) -> str:
    """Return the checks about one subject."""
    rows = "".join(
        f"| `{check.id}` | {_escaped(*language('checks', check.id, check.proves))} | {_link(check.source)} |\n"
        for check in checks()
        if subject(check) == name
    )
    [title] = language("subjects", name, name.replace("_", " ").capitalize())
    return f"### {title}\n\n{_head(language('columns', 'check', 'Check', 'Proves that', 'Source'))}{rows}\n"


def _head(columns: tuple[str, ...]) -> str:
    """Return the first lines of a table."""
    return f"| {' | '.join(columns)} |\n|{' --- |' * len(columns)}\n"


def filled(template: str) -> str:
    """Return a template of str.format as Markdown, the names of its fields in italics."""
    parts = string.Formatter().parse(template)
    return "".join(_escaped(text) + (f"*{name}*" if name else "") for text, name, _form, _conversion in parts)


def _escaped(text: str) -> str:
    """Return text as Markdown shows it unchanged."""
    return re.sub(r"([*_|\[\]`])", r"\\\1", text).replace("<", "&lt;")


def _link(source: str) -> str:
    return f"[source]({source})" if source.startswith("http") else _escaped(source)


def _anchor(title: str) -> str:
    return title.lower().replace(" ", "-")


def _table(options: dict[str, Any], language: Language = translations.english) -> str:
    rows = "".join(f"| {' | '.join(row)} |\n" for row in _rows(options, language))
    return (
        _head(language("columns", "setting", *COLUMNS)) + rows if rows else language("words", "none", NO_VARIABLES)[0]
    )


def _rows(options: dict[str, Any], language: Language, parent: str = "") -> Iterator[tuple[str, str, str, str]]:
    """Yield name, type, default and meaning of each option, and of what it is made of."""
    required, by_type = language("words", "default", "*required*", "by host type")
    for name, option in options.items():
        kind = option["type"] + (f" of {option['elements']}" if "elements" in option else "")
        choices = " \\| ".join(f"`{choice}`" for choice in option.get("choices", ()))
        default = _code(option["default"]) if "default" in option else required if option.get("required") else ""
        if not parent and name in by_host_type():
            default += f"{', ' if default else ''}{by_type}"
        [meaning] = language("settings", f"{parent}{name}", _markdown(option["description"], "<br>"))
        meaning = meaning.replace("|", "\\|")
        shown = choices if kind == "str" and choices else f"{kind}: {choices}" if choices else kind
        yield _code(f"{parent}{name}"), shown, default, meaning
        each = "[]" if option.get("type") == "list" else ""
        yield from _rows(option.get("options", {}), language, f"{parent}{name}{each}.")


def _markdown(description: str | list[str], separator: str) -> str:
    paragraphs = [description] if isinstance(description, str) else description
    return re.sub(r"\b[COV]\((.*?)\)", r"`\1`", separator.join(paragraph.strip() for paragraph in paragraphs))


def _code(value: Any) -> str:
    return f"`{_yaml(value)}`"


def _yaml(value: Any) -> str:
    return yaml.safe_dump(value, default_flow_style=True, width=1000).splitlines()[0]


def main() -> None:
    """Write all of them."""
    for path, text in documents().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    pictures.refresh()


if __name__ == "__main__":
    main()
