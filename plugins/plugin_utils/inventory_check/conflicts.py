# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wishes that cannot hold together, as far as that can be told without the node; each value is right by itself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.environments import venv
from ansible_collections.gpulab.node.plugins.module_utils.models import wanted as models
from ansible_collections.gpulab.node.plugins.plugin_utils import options
from ansible_collections.gpulab.node.plugins.plugin_utils.environment_files import conda_files, reading
from ansible_collections.gpulab.node.plugins.plugin_utils.inventory_check import profile
from ansible_collections.gpulab.node.plugins.plugin_utils.own_checks import files as own_checks
from ansible_collections.gpulab.node.plugins.plugin_utils.plan import (
    branch,
    cuda,
    gpu_settings,
    kernel_modules,
    libraries,
    newer,
    recipes,
    tuning,
)
from ansible_collections.gpulab.node.plugins.plugin_utils.plan.case import Request
from ansible_collections.gpulab.node.plugins.plugin_utils.plan.environments import (
    check_driver,
    check_packages,
    framework_of,
)
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ansible_collections.gpulab.node.plugins.plugin_utils.catalog import Catalog
    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.compat import DriverChoice

Values = dict[str, Any]


def conflicts(values: Values, catalog: Catalog) -> Iterator[Refusal]:
    """Yield every pair that excludes each other: by the decisions of the plan, on what is known without the node."""
    of_all = options.Values(values.get)
    catalog, _warnings = newer.extended(catalog, of_all)
    request = Request(of_all, catalog, None)
    yield from _driver(request)
    yield from _cuda(request)
    yield from _environments(values)
    yield from _conda(values)
    yield from _gone(values)
    yield from _refused(tuning.check_overrides, of_all["tuning_overrides"], catalog)
    yield from _refused(gpu_settings.check, of_all["gpu_settings_values"], of_all["gpu_settings_per_gpu"])
    yield from profile.faults(of_all["verify_profile"])
    yield from _model_store(values)
    if values.get("verify_own_checks"):
        yield from _refused(own_checks.load, values["verify_own_checks"])
    yield from _outdated_recipes(values, catalog)
    if values.get("container_toolkit_version") and values.get("container_toolkit_engines") == []:
        yield refuse(
            "I012",
            one="container_toolkit_version",
            other="container_toolkit_engines: []",
            reason="without an engine there is no container toolkit",
            way="Remove one of the two",
        )
    if values.get("reboot_policy") == "never" and values.get("reboot_force"):
        yield refuse(
            "I012",
            one="reboot_policy: never",
            other="reboot_force",
            reason="the first forbids the reboot that the second forces",
            way="Use -e reboot_policy=if_idle together with reboot_force",
        )


def _driver(request: Request) -> Iterator[Refusal]:
    if request.wishes["nvidia_driver_state"] == "absent":
        return
    try:
        requested = branch.requested(request)
        record = newer.branch_record(request.catalog, requested) if requested else None
    except Refusal as refusal:
        yield refusal
        return
    if requested is None or record is None:
        return
    yield from _refused(kernel_modules.of_branch, record, kernel_modules.requested(request))
    driver: DriverChoice = {
        "branch": requested,
        "newest_known": request.wishes["nvidia_driver_version"] or record["latest"],
    }
    for toolkit in _toolkits(request) if driver["newest_known"] else ():
        if toolkit in request.catalog.toolkits:
            yield from _refused(cuda.check_driver, request, driver, toolkit)


def _cuda(request: Request) -> Iterator[Refusal]:
    for version in _toolkits(request):
        yield from _refused(newer.toolkit_record, request.catalog, version)
    toolkits = request.wishes["cuda_toolkits"]
    if toolkits is None:  # the plan of the node chooses
        return
    yield from _refused(cuda.default_of, request, toolkits)
    for library in libraries.LIBRARIES:
        yield from _refused(libraries.requested, request, library, toolkits)


def _toolkits(request: Request) -> list[str]:
    """Return the toolkits that are requested by name."""
    return [] if request.wishes["cuda_state"] == "absent" else request.wishes["cuda_toolkits"] or []


def _refused(decide: Callable[..., Any], *given: Any) -> Iterator[Refusal]:
    """Yield the refusal of a decision of the plan, where it refuses."""
    try:
        decide(*given)
    except Refusal as refusal:
        yield refusal


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
                    way=f"Remove {variable}, or set it to null for this host",
                )
    if values.get("nvidia_driver_state") == "absent":
        for environment in values.get("gpulab_environments") or ():
            yield from _refused(check_driver, environment)


def _environments(values: Values) -> Iterator[Refusal]:
    for environment in values.get("gpulab_environments") or ():
        yield from _refused(framework_of, environment)
        yield from _refused(check_packages, environment)
        if environment.get("file"):
            yield from _refused(reading.read, environment)
        if not environment.get("lock"):
            continue
        try:
            lock = Path(environment["lock"]).expanduser()
            if lock.is_file():  # one that is not there may come from another host in this run
                venv.locked(lock.read_text(encoding="utf-8", errors="replace"))
        except Refusal as refusal:
            yield refusal
        except (OSError, RuntimeError):
            continue  # the role says that it cannot be read


def _conda(values: Values) -> Iterator[Refusal]:
    """Yield what is wrong with the files of conda environments; of locks, only the node's architecture tells all."""
    places = conda_files.CondaSources(
        defaults=values.get("conda_defaults_channel"), indexes=values.get("conda_extra_index_urls") or ()
    )
    channels = values.get("conda_channels") or ["conda-forge"]
    for environment in values.get("conda_environments") or () if values.get("conda_state") != "absent" else ():
        if not environment.get("lock"):
            yield from _refused(conda_files.resolve, environment, channels, "x86_64", places)


def _model_store(values: Values) -> Iterator[Refusal]:
    """Yield what the role would refuse of its settings; whether a lock can be read, the role says."""
    if values.get("model_store_state") != "absent":
        given = values.get("model_store_repositories") or ()
        hub, token = values.get("model_store_hub") or "", values.get("model_store_token") or ""
        repositories = [models.repository(repository, {}) for repository in given]
        yield from _refused(models.check, repositories, values.get("model_store_absent") or (), hub, token)


def _outdated_recipes(values: Values, catalog: Catalog) -> Iterator[Refusal]:
    for name, value in values.items():
        yield from _refused(recipes.check, {name: value}, catalog)
