# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host takes from a bundle: which part of it is the host's, and where what tasks ask for lies in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.core.shown import first
from ansible_collections.gpulab.node.plugins.module_utils.models import wanted
from ansible_collections.gpulab.node.plugins.module_utils.models.sources import held
from ansible_collections.gpulab.node.plugins.plugin_utils.bundle import repositories
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

MOST_NAMED = 6


def system_of(system: Mapping[str, Any]) -> str:
    """Return the system of a host, from its facts, as a bundle calls it."""
    return f"{system['id']} {system['version']} {system['architecture']}"


def of_host(bundle: Mapping[str, Any], host: str, system: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a bundle, as the module bundle_read has it, holds for a host: that of its name, or of its like.

    system is that of the host's facts. Raises Refusal B007 where the bundle is for other systems.
    """
    wanted, hosts = system_of(system), bundle["hosts"]
    like = [hosts[host]] if host in hosts else []
    fitting = next((one for one in [*like, *hosts.values()] if one["system"] == wanted), None)
    if fitting is None:
        others = ", ".join(sorted({one["system"] for one in hosts.values()}))
        raise _lacks(bundle, host, f"it has {wanted}, and the bundle is for {others}")
    own = {name: bundle[name] for name in ("address", "digest", "made_at", "key")}
    return {**own, **fitting, "because": [f"All comes from the bundle {own['address']} of {own['made_at']}."]}


def check(bundle: Mapping[str, Any], host: str, plan: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    """Raise Refusal B007, which names what the roles that a plan says are due ask for and a host's bundle lacks."""
    lacking = [*_lacking(bundle, plan), *_lacking_models(bundle, plan, values)] if bundle else []
    if lacking:
        raise _lacks(bundle, host, f"it lacks {first(lacking, MOST_NAMED)}")


def in_use(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the host's part of the bundle that its plan names, from the variables of the host; empty without."""
    plan = (variables.get("ansible_facts") or {}).get("gpulab_plan") or {}
    return plan.get("bundle") or {}


def _lacking(bundle: Mapping[str, Any], plan: Mapping[str, Any]) -> Iterator[str]:
    wishes = {wish.partition("=")[0]: wish for wish in bundle["wishes"]}
    for wish in _packages(plan):
        if wishes.get(wish.partition("=")[0]) != wish:
            yield f"the package {wish}"
    for environment in plan["environments"] if "environments" in plan["due"] else ():
        held = bundle["environments"].get(environment["name"])
        asked = {"python": environment["python"], "requirements": [*environment["requirements"]]}
        if held != asked:
            yield f"the environment {environment['name']}" + (" as it is now" if held else "")


def _lacking_models(bundle: Mapping[str, Any], plan: Mapping[str, Any], values: Mapping[str, Any]) -> Iterator[str]:
    """Yield the models that only the hub would have; a folder of the node may have any."""
    if "model_store" not in plan["due"] or values["model_store_folder"] or values["model_store_state"] == "absent":
        return
    for repository in (wanted.repository(given, {}) for given in values["model_store_repositories"] or ()):
        if held(bundle["models"], repository) is None:
            yield f"the model {repository.label}" + (
                " with these files" if repository.place in bundle["models"] else ""
            )


def _packages(plan: Mapping[str, Any]) -> Iterable[str]:
    """Return the packages that a plan names for roles that are due; their tasks ask for just these."""
    toolkit = plan["container_toolkit"]
    parts = {
        "nvidia_driver": plan["driver"]["packages"],
        "cuda": [wish for one in plan["cuda"]["toolkits"] for wish in one["packages"]],
        "container_toolkit": [*toolkit["packages"], *toolkit["engine_packages"]],
        "nccl": plan["nccl"]["packages"],
    }
    return dict.fromkeys(wish for role, wishes in parts.items() if role in plan["due"] for wish in wishes)


def repository(bundle: Mapping[str, Any], host: str, args: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a repository's task where a bundle declares it. Raises Refusal B007 where it does not."""
    if args.get("state", "present") != "present":
        return dict(args)
    place, suite = repositories.place(args["url"]), args.get("suite") or "/"
    for source in bundle["sources"]:
        if (source["place"], source["suite"]) == (place, suite):
            return {**args, "release": source["release"]}
    raise _lacks(bundle, host, f"it lacks the repository {args['name']}, {args['url']}")


def _lacks(bundle: Mapping[str, Any], host: str, lacking: str) -> Exception:
    return refuse("B007", path=bundle["address"], made=bundle["made_at"], host=host, lacking=lacking)
