# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run will download from: the sources that the roles at work take from the plan, before the first change.

Nothing here knows Ansible or touches a node.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ansible_collections.gpulab.node.plugins.module_utils.packages import apt_repository, dnf_repository
from ansible_collections.gpulab.node.plugins.plugin_utils import catalog
from ansible_collections.gpulab.node.plugins.plugin_utils.plan.branch import can_serve
from ansible_collections.gpulab.node.plugins.plugin_utils.plan.case import Case
from ansible_collections.gpulab.node.plugins.plugin_utils.plan.environments import mirrored
from ansible_collections.gpulab.node.plugins.plugin_utils.roles import due

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.model import Facts
    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.model import Plan

# Why a role is due that downloads; for the other reasons, what it needs is on the node already.
DOWNLOADS = {due.NO_RECEIPT, due.NEWER_DRIVER, due.WHY["plan"]}
KEY_PATHS = {"debian": apt_repository.key_path, "redhat": dnf_repository.key_path}
MIRROR_OF_NVIDIA = "gpulab_nvidia_repository_url"
Source = dict[str, Any]


def planned(plan: Plan, facts: Mapping[str, Any], values: Mapping[str, Any], roles: Collection[str]) -> list[Source]:
    """Return {name, urls, exact, mirror} of each source of these roles, each once.

    It is reached if one of its urls answers; exact asks for the very file, where else any answer of the server counts.
    mirror is the variable that names another place.
    """
    at_work = [role for role in roles if DOWNLOADS.intersection(plan["due"].get(role, ()))]
    found = [source for role in at_work if role in _OF_ROLES for source in _OF_ROLES[role](plan, facts, values)]
    return [source for number, source in enumerate(found) if source not in found[:number]]


def told(unreached: Iterable[Mapping[str, str]]) -> Iterator[str]:
    """Yield a text for each server that did not deliver: what of, the first address, and what happened."""
    of_servers: dict[tuple[str, str], list[Mapping[str, str]]] = {}
    for one in unreached:
        of_servers.setdefault((urlsplit(one["url"]).netloc, one["detail"]), []).append(one)
    for (_server, detail), found in of_servers.items():
        yield f"{' and '.join(one['name'] for one in found)} ({found[0]['url']}: {detail})"


def ways(unreached: Iterable[Mapping[str, str]], sources: Iterable[Source], *, has_own_driver: bool) -> str:
    """Return what helps a node without a way to these sources; has_own_driver: its distribution has a driver for it."""
    names = {source["name"] for source in unreached}
    mirrors = list(dict.fromkeys(source["mirror"] for source in sources if source["name"] in names))
    own = ", or take the distribution's driver (nvidia_driver_source: distribution)"
    return f"set a mirror ({', '.join(mirrors)})" + (own if has_own_driver and MIRROR_OF_NVIDIA in mirrors else "")


def has_own_driver(plan: Plan, facts: Facts, values: Mapping[str, Any]) -> bool:
    """Tell whether the distribution of a node that is to get NVIDIA's packages has a driver for its GPUs, too."""
    if plan["driver"]["source"] != "nvidia":
        return False
    return can_serve(Case.of(facts, values, catalog.load(), datetime.now(timezone.utc).date()), "distribution")


def _driver(plan: Plan, facts: Mapping[str, Any], _values: Mapping[str, Any]) -> Iterator[Source]:
    driver = plan["driver"]
    yield from _repository("nvidia-cuda", driver["repository"], facts, MIRROR_OF_NVIDIA)
    if driver.get("runfile"):
        yield _file("NVIDIA's .run file", driver["runfile"]["url"], "nvidia_driver_runfile")


def _cuda(plan: Plan, facts: Mapping[str, Any], _values: Mapping[str, Any]) -> Iterator[Source]:
    yield from _repository("nvidia-cuda", plan["cuda"]["repository"], facts, MIRROR_OF_NVIDIA)


def _nccl(plan: Plan, _facts: Mapping[str, Any], _values: Mapping[str, Any]) -> Iterator[Source]:
    if plan["nccl"]["tests"]:
        yield _file("nccl-tests", plan["nccl"]["tests"]["url"], "nccl_tests_url")


def _container_toolkit(plan: Plan, facts: Mapping[str, Any], values: Mapping[str, Any]) -> Iterator[Source]:
    part = plan["container_toolkit"]
    if part["packages"]:
        prefix = "container_toolkit_repository"
        mirror = _with_own(part["repository"], values, prefix)
        yield from _repository("nvidia-container-toolkit", mirror, facts, f"{prefix}_url")
    if part["engine_repository"]:
        prefix = "container_toolkit_docker_repository"
        mirror = _with_own(part["engine_repository"], values, prefix)
        yield from _repository("docker", mirror, facts, f"{prefix}_url")


def _environments(plan: Plan, _facts: Mapping[str, Any], values: Mapping[str, Any]) -> Iterator[Source]:
    if plan["environments"] and values["environments_uv_url"]:
        yield _file("the wheel of uv", values["environments_uv_url"], "environments_uv_url")
    for environment in plan["environments"]:
        url = mirrored(environment["index_url"], values["environments_pytorch_index_url"])
        if url:
            yield {
                "name": "the package index of PyTorch",
                "urls": [f"{url.rstrip('/')}/torch/"],
                "exact": False,
                "mirror": "environments_pytorch_index_url",
            }


def _conda(plan: Plan, _facts: Mapping[str, Any], values: Mapping[str, Any]) -> Iterator[Source]:
    if values["conda_environments"]:
        yield _file("micromamba", values["conda_micromamba_url"] or plan["conda"]["url"], "conda_micromamba_url")


def _monitoring(plan: Plan, facts: Mapping[str, Any], _values: Mapping[str, Any]) -> Iterator[Source]:
    if plan["monitoring"]["dcgm_packages"]:
        yield from _repository("nvidia-cuda", plan["driver"]["repository"], facts, MIRROR_OF_NVIDIA)


_OF_ROLES: dict[str, Callable[[Plan, Mapping[str, Any], Mapping[str, Any]], Iterator[Source]]] = {
    "nvidia_driver": _driver,
    "cuda": _cuda,
    "nccl": _nccl,
    "container_toolkit": _container_toolkit,
    "environments": _environments,
    "conda": _conda,
    "monitoring": _monitoring,
}


def _file(name: str, url: str, mirror: str) -> Source:
    return {"name": name, "urls": [url], "exact": True, "mirror": mirror}


def _with_own(repository: Mapping[str, Any], values: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return a planned repository with the mirror and the key that the inventory sets for it."""
    url, key = values[f"{prefix}_url"], values[f"{prefix}_key"]
    return {**repository, "url": url or repository["url"], "key_file": key}


def _repository(
    name: str, repository: Mapping[str, Any] | None, facts: Mapping[str, Any], mirror: str
) -> Iterator[Source]:
    """Yield the index of a repository, and its key where the node has not got it and the inventory brings none."""
    if repository is None:
        return
    family, base = facts["system"]["family"], repository["url"].rstrip("/")
    suite = repository.get("suite") or "/"
    if family == "redhat":
        indexes = [f"{base}/repodata/repomd.xml"]
    else:
        place = base if suite == "/" else f"{base}/dists/{suite}"
        indexes = [f"{place}/InRelease", f"{place}/Release"]
    yield {"name": f"the repository {name}", "urls": indexes, "exact": True, "mirror": mirror}
    if not repository.get("key_file") and KEY_PATHS[family](name) not in facts["own_files"]:
        yield _file(f"the key of the repository {name}", repository["key_url"], mirror)
