# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a preview is made of, and what plan_json holds: docs/preview.schema.json says more of each value.

None is what is not known: a host that did not answer has no facts, and one that is refused has no plan.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

from ansible_collections.gpulab.node.plugins.plugin_utils.plan.host_types import Shown

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.driver import Person
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.model import Facts
    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.model import Plan
    from ansible_collections.gpulab.node.plugins.plugin_utils.preview.changes import Results


class HostBefore(TypedDict):
    """A host of the run: what its tasks would change, and the result of the task that failed.

    unreachable: it never answered. ended: it left the run before the preview. policy and force are its reboot_policy
    and reboot_force.
    """

    groups: list[str]
    facts: Facts | None
    plan: Plan | None
    results: Results
    failure: dict[str, Any] | None
    unreachable: bool
    ended: bool
    expected: dict[str, float]
    policy: str | None
    force: str | None


class PreviewedRefusal(TypedDict):
    """A refusal."""

    code: str
    cause: str
    remedy: str


class HostEnding(TypedDict):
    """How far a host comes."""

    state: str
    refusal: PreviewedRefusal | None
    detail: str | None


class PresentDriver(TypedDict):
    """The driver that is there."""

    on_disk: str | None
    loaded: str | None
    sources: list[str]


class PresentNow(TypedDict):
    """What is there."""

    system: str
    kernel: str
    gpus: list[str]
    held_by: list[str]
    driver: PresentDriver


class Planned(TypedDict):
    """The driver that the plan has."""

    source: str
    branch: str
    version: str | None
    kernel_modules: str | None
    kernels: list[str]


class Worker(TypedDict):
    """A process that uses a GPU, or that stands for those that may."""

    pid: int
    user: str | None
    command: str | None
    since: str | None
    device: str | None
    kind: str


class Users(TypedDict):
    """Who uses the GPUs, and who works on the node."""

    state: str
    who: list[Worker]
    sessions: list[Person]


class PreviewedChange(TypedDict):
    """What a role would do to some objects."""

    role: str
    action: str
    objects: list[str]


class Download(TypedDict):
    """What would be downloaded; bytes is None where some package is in no package list of the node yet."""

    bytes: int | None
    not_listed: list[str]


class PreviewedDisk(TypedDict):
    """What the whole plan takes at most of a file system."""

    mount: str
    needed_mib: int
    free_mib: int | None
    enough: bool


class ServiceChange(TypedDict):
    """A service that would be started, restarted or told to reload."""

    name: str
    action: str
    because: str


class PreviewedReboot(TypedDict):
    """Whether the node would be rebooted; refusal is why site.yml would not do so now, if it would not."""

    needed: bool
    because: list[str]
    refusal: PreviewedRefusal | None


class PreviewedHost(Shown, HostEnding):
    """A host of a preview."""

    name: str
    simulated: bool | str | None
    present: PresentNow | None
    users: Users | None
    planned: Planned | None
    because: list[str]
    warnings: list[str]
    due: dict[str, list[str]]
    drift: list[str]
    changes: list[PreviewedChange]
    download: Download
    disk: list[PreviewedDisk]
    services: list[ServiceChange]
    reboot: PreviewedReboot
    seconds: float | None


class Preview(TypedDict):
    """A preview."""

    schema: int
    created: str
    hosts: list[PreviewedHost]
