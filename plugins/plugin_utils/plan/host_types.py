# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The host types of catalog/host_types.yml: the options that a type sets where the inventory does not.

The inventory's values are stronger by Ansible's own order of variables: the defaults of roles, which are the weakest,
ask the lookup gpulab.node.option_default for such an option. What the plan reads goes by the same function, so null
takes a default away everywhere.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, TypedDict

import yaml
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.plugin_utils import catalog, options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.model import HostTypeOption, Plan
    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.model import HostTypes as PlannedHostTypes

EXPRESSION = "{{{{ lookup('gpulab.node.option_default', '{name}') }}}}"  # the default of such an option in its role


@dataclass(frozen=True)
class Default:
    """An option that a host type sets. source names entries of the sources of catalog/host_types.yml."""

    option: str
    value: Any
    host_type: str
    because: str
    source: tuple[str, ...]

    def __str__(self) -> str:
        """Return the option with its value, as an inventory has it."""
        return f"{self.option}: {written(self.value)}"


@dataclass(frozen=True)
class TypesOfHost:
    """The types of a host, in the order of the catalog; what they set there; and why they do not set the rest."""

    names: tuple[str, ...] = ()
    taken: tuple[Default, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def first(self) -> str | None:
        """The type whose group has the host's peers; None for a host without a type."""
        return self.names[0] if self.names else None

    def planned(self) -> PlannedHostTypes:
        """Return the part of the plan."""
        because = [f"{one.host_type} sets {one}. {one.because}" for one in self.taken]
        return {
            "names": list(self.names),
            "options": [
                {
                    "option": one.option,
                    "value": one.value,
                    "host_type": one.host_type,
                    "because": one.because,
                    "source": list(one.source),
                }
                for one in self.taken
            ],
            "because": [*because, *self.left_out],
        }


NO_TYPE = TypesOfHost()


def written(value: Any) -> str:
    """Return a value as YAML on one line."""
    return yaml.safe_dump(value, default_flow_style=True, width=1000, sort_keys=False).splitlines()[0]


def of(groups: Collection[str], known: catalog.Catalog) -> tuple[str, ...]:
    """Return those groups that are host types, in the order of the catalog."""
    return tuple(name for name in known.host_types if name in groups)


def defaults(types: Collection[str], known: catalog.Catalog, family: str | None = None) -> dict[str, Default]:
    """Return what host types set, by option; family is that of the node's system, None where it is not known."""
    found: dict[str, Default] = {}
    for name in types:
        for record in known.host_types[name]["options"]:
            if record.get("family", family) == family:
                found.setdefault(record["option"], _default(name, record))
    return found


def _default(name: str, record: catalog.Record) -> Default:
    return Default(record["option"], record["value"], name, record["because"], tuple(record["source"]))


def disagreements(types: Collection[str], given: Mapping[str, Any], known: catalog.Catalog) -> Iterator[str]:
    """Yield each option and each tuning value that types set to different values, and that is not given."""
    set_by = [
        (name, record.get("family"), record["option"], record["value"])
        for name in types
        for record in known.host_types[name]["options"]
        if record["option"] not in given
    ]
    yield from _different((name, option, value, family) for name, family, option, value in set_by)
    overrides = given.get("tuning_overrides")
    overridden = overrides if isinstance(overrides, Mapping) else {}
    yield from _different(
        (name, record["name"], record["value"], None)
        for record in known.tuning
        for name in types
        if name in record.get("hosts", ()) and record["name"] not in overridden
    )


def _different(found: Collection[tuple[str, str, Any, str | None]] | Iterator[Any]) -> Iterator[str]:
    """Yield what has different values for the same family, each once; found has type, name, value and family."""
    by_name: dict[str, list[tuple[str, Any, str | None]]] = {}
    for host_type, name, value, family in found:
        by_name.setdefault(name, []).append((host_type, value, family))
    for name, values in by_name.items():
        if any(
            one[0] != other[0] and one[1] != other[1] and (one[2] == other[2] or None in (one[2], other[2]))
            for one in values
            for other in values
        ):
            yield name


def is_default(name: str, raw: Any) -> bool:
    """Tell whether the raw value of an option is the default of its role, which asks for that of the host type."""
    return isinstance(raw, str) and raw == EXPRESSION.format(name=name)


def value(name: str, variables: Mapping[str, Any]) -> Any:
    """Return the value of an option that the inventory does not set: the host type's, or that of its description.

    variables are those of the host. Once it has a plan, that decides which defaults fit the node. Raises KeyError for
    an unknown option.
    """
    plan: Plan | None = (variables.get("ansible_facts") or {}).get("gpulab_plan")
    if plan and "host_types" in plan:
        taken = _taken(plan)
    else:
        known = catalog.load()
        found = defaults(of(variables.get("group_names", ()), known), known)
        taken = {option: default.value for option, default in found.items()}
    return taken[name] if name in taken else options.load().options[name].default


def values(plan: Plan, variables: Mapping[str, Any], template: Callable[[Any], Any]) -> options.Values:
    """Return the values of all options on a host that has this plan; variables are its raw ones."""
    given = {name: raw for name, raw in variables.items() if not is_default(name, raw)}
    return options.Values(lambda name: template(given.get(name)), _taken(plan))


def _taken(plan: Plan) -> dict[str, Any]:
    """Return what the host's types set, by option."""
    return {one["option"]: one["value"] for one in plan["host_types"]["options"]}


class Shown(TypedDict):
    """What a preview or report says of a host's types: their names, and the options that they set."""

    host_types: list[str]
    defaults: list[HostTypeOption]


def shown(plan: Plan | None, groups: Collection[str]) -> Shown:
    """Return what is said of a host's types.

    A host without a plan has its types all the same; groups are those of the host.
    """
    options_set = plan["host_types"]["options"] if plan and "host_types" in plan else []
    return {"host_types": list(of(groups, catalog.load())), "defaults": options_set}


def fit(unset: Mapping[str, Default], names: tuple[str, ...], plan_with: Callable[[TypesOfHost], Plan]) -> Plan:
    """Return the plan with all defaults that fit the node; those with which it would be refused are left out.

    unset are the defaults of the host's types for what the inventory does not set. Raises the Refusal of plan_with for
    what remains without any.
    """
    try:
        return plan_with(TypesOfHost(names, tuple(unset.values())))
    except Refusal:
        if not unset:
            raise
    taken: list[Default] = []
    left_out: list[str] = []
    plan = plan_with(TypesOfHost(names))
    for default in unset.values():
        refusal = _refusal(plan_with, TypesOfHost(names, (*taken, default)))
        if refusal is None:
            taken.append(default)
        else:
            left_out.append(f"{default.host_type} would set {default}, but {refusal.cause}, so it is left out.")
    return plan_with(TypesOfHost(names, tuple(taken), tuple(left_out))) if taken or left_out else plan


def _refusal(plan_with: Callable[[TypesOfHost], Plan], chosen: TypesOfHost) -> Refusal | None:
    """Return the refusal of a plan; None where there is a plan."""
    try:
        plan_with(chosen)
    except Refusal as refusal:
        return refusal
    return None
