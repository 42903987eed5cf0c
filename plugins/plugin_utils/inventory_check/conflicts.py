# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wishes that cannot hold together, as far as that can be told without the node; each value is right by itself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils import venv
from ansible_collections.gpulab.node.plugins.module_utils.refusal import Refusal, refuse
from ansible_collections.gpulab.node.plugins.plugin_utils import conda_files
from ansible_collections.gpulab.node.plugins.plugin_utils.resolver import compat, newer, recipes
from ansible_collections.gpulab.node.plugins.plugin_utils.resolver.environments import CPU, FRAMEWORKS, check_packages
from ansible_collections.gpulab.node.plugins.plugin_utils.versions import branch_of, same_or_newer
from ansible_collections.gpulab.node.plugins.plugin_utils.wishes import boolean

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.plugin_utils.catalog import Catalog

Values = dict[str, Any]


def conflicts(values: Values, catalog: Catalog) -> Iterator[Refusal]:
    """Yield every pair that excludes each other, with the code by which the plan would refuse it."""
    trusted = {newer.TRUST: boolean(values.get(newer.TRUST))}  # the command line gives words
    catalog, _warnings = newer.extended(catalog, {**values, **trusted})
    yield from _driver(values, catalog)
    yield from _cuda(values, catalog)
    yield from _environments(values)
    yield from _conda(values)
    yield from _gone(values)
    yield from _outdated_recipes(values, catalog)
    if values.get("container_toolkit_version") and values.get("container_toolkit_engines") == []:
        yield refuse(
            "I012",
            one="container_toolkit_version",
            other="container_toolkit_engines: []",
            reason="no engine means no container toolkit",
            way="Leave one of the two out",
        )
    if values.get("reboot_policy") == "never" and values.get("reboot_force"):
        yield refuse(
            "I012",
            one="reboot_policy: never",
            other="reboot_force",
            reason="the one forbids what the other forces",
            way="Use -e reboot_policy=if_idle together with reboot_force",
        )


def _driver(values: Values, catalog: Catalog) -> Iterator[Refusal]:
    version, branch = values.get("nvidia_driver_version"), values.get("nvidia_driver_branch")
    if version and branch and branch_of(version) != branch:
        yield refuse("P015", version=version, branch=branch)
        return
    branch = branch or (version and branch_of(version))
    if not branch:
        return
    if branch not in catalog.branches:
        yield newer.no_branch(catalog, branch)
        return
    flavour, has = values.get("nvidia_driver_kernel_modules") or "auto", catalog.branches[branch]["kernel_modules"]
    if flavour not in ("auto", *has):
        yield refuse("P012", branch=branch, flavour=flavour, has=" and ".join(has))
    driver = version or catalog.branches[branch]["latest"]
    for toolkit in values.get("cuda_toolkits") or ():
        record = catalog.toolkits.get(toolkit)
        fits = driver is None or (record and same_or_newer(driver, record["min_driver"]))
        if record is None or boolean(values.get("cuda_compat")) or fits:
            continue
        way = compat.way(record, branch)
        yield refuse("P023", version=toolkit, floor=record["min_driver"], driver=driver, way=way)


def _cuda(values: Values, catalog: Catalog) -> Iterator[Refusal]:
    toolkits, default = values.get("cuda_toolkits"), values.get("cuda_default")
    for version in toolkits or ():
        if version not in catalog.toolkits:
            yield newer.no_toolkit(catalog, version)
    if toolkits is not None and default and default not in toolkits:
        yield refuse("P026", default=default, toolkits=", ".join(toolkits) or "none")
    for library, variable in (("cuDNN", "cudnn_version"), ("NCCL", "nccl_version"), ("TensorRT", "tensorrt_version")):
        if values.get(variable) and toolkits == []:
            yield refuse("P027", library=library, version=values[variable], example="12.9")


def _gone(values: Values) -> Iterator[Refusal]:
    """Yield what is asked for and needs what shall be absent."""
    if values.get("cuda_state") == "absent":
        for variable in ("cudnn_version", "nccl_version", "tensorrt_version", "nccl_tests_url"):
            if values.get(variable):
                yield refuse(
                    "I012",
                    one="cuda_state: absent",
                    other=variable,
                    reason="it is installed and removed with CUDA",
                    way=f"Leave {variable} out, or set it to null for this host",
                )
    if values.get("nvidia_driver_state") == "absent":
        for environment in values.get("gpulab_environments") or ():
            if any(environment.get(framework) for framework in FRAMEWORKS) and environment.get("index") != CPU:
                yield refuse(
                    "I012",
                    one="nvidia_driver_state: absent",
                    other=f"the environment {environment['name']}",
                    reason="its framework is built for CUDA, which needs a driver",
                    way="Set index: cpu in the environment, or leave it out",
                )


def _environments(values: Values) -> Iterator[Refusal]:
    for environment in values.get("gpulab_environments") or ():
        named = [framework for framework in FRAMEWORKS if environment.get(framework)]
        if len(named) != 1:
            yield refuse("P032", name=environment["name"], named=" and ".join(named) or "none")
        try:
            check_packages(environment)
            lock = Path(environment.get("lock") or "/dev/null").expanduser()
            if lock.is_file():  # one that is not there may come from another host in this run
                venv.locked(lock.read_text(encoding="utf-8", errors="replace"))
        except Refusal as refusal:
            yield refusal
        except (OSError, RuntimeError):
            continue  # the role says that it cannot be read


def _conda(values: Values) -> Iterator[Refusal]:
    """Yield what is wrong with the files of conda environments; of locks, only the node's architecture tells all."""
    places = conda_files.Places(
        defaults=values.get("conda_defaults_channel"), indexes=values.get("conda_extra_index_urls") or ()
    )
    channels = values.get("conda_channels") or ["conda-forge"]
    for environment in values.get("conda_environments") or () if values.get("conda_state") != "absent" else ():
        if not environment.get("lock"):
            try:
                conda_files.resolve(environment, channels, "x86_64", places)
            except Refusal as refusal:
                yield refusal


def _outdated_recipes(values: Values, catalog: Catalog) -> Iterator[Refusal]:
    for name, value in values.items():
        try:
            recipes.check({name: value}, catalog)
        except Refusal as refusal:  # noqa: PERF203 - each wish is to be heard
            yield refusal
