# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fence of a node of Kubernetes: cordon it, wait for its pods, and take the cordon back.

No pod is evicted, as that would end its work. An annotation of the node says whose cordon it is.
See https://kubernetes.io/docs/concepts/architecture/nodes/#manual-node-administration.
"""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Callable, TypedDict

from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.fence.host import AUTO, KUBERNETES
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from ansible_collections.gpulab.node.plugins.module_utils.core.changes import Changes
    from ansible_collections.gpulab.node.plugins.module_utils.facts import fence

ANNOTATION = "gpulab.node/fence"
MIRROR = "kubernetes.io/config.mirror"  # of a pod that only the kubelet can end
HOSTNAME = "kubernetes.io/hostname"
GPUS = "nvidia.com/"
ENDED = ("Succeeded", "Failed")
SECONDS = 30  # what one answer may take
TRIES = 10  # to change a node that others change meanwhile


@dataclass(frozen=True)
class ClusterNode:
    """A node as Kubernetes has it; fence is its annotation, empty where there is none; each change changes version."""

    name: str
    cordoned: bool = False
    fence: str = ""
    version: str | None = None

    def is_ours(self, run: str) -> bool:
        """Tell whether the cordon is this run's."""
        return self.cordoned and self.fence.startswith(f"{run}: ")

    def is_of_others(self, run: str) -> bool:
        """Tell whether somebody else has cordoned the node."""
        return self.cordoned and not self.is_ours(run)


def own(listed: Iterable[Mapping[str, Any]], names: Collection[str]) -> ClusterNode | None:
    """Return the node that a machine of one of these names is, from the API's form; None where there is none.

    Its name there comes before the label, which each node sets for itself.
    """
    found = sorted(listed, key=lambda node: node["metadata"]["name"] not in names)
    for node in found:
        metadata = node["metadata"]
        if {metadata["name"], (metadata.get("labels") or {}).get(HOSTNAME)} & set(names):
            fence = (metadata.get("annotations") or {}).get(ANNOTATION, "")
            cordoned = bool(node["spec"].get("unschedulable"))
            return ClusterNode(metadata["name"], cordoned, fence, metadata.get("resourceVersion"))
    return None


def busy(pods: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the pods that would lose work: those with GPUs, and those that run once (of jobs, or of nobody).

    Pods of daemons and of the kubelet come back with the node, and pods without GPUs that are always restarted do so
    elsewhere.
    """
    found = []
    for pod in pods:
        metadata, spec = pod["metadata"], pod["spec"]
        owners = {owner["kind"] for owner in metadata.get("ownerReferences") or ()}
        stays = "DaemonSet" in owners or MIRROR in (metadata.get("annotations") or {})
        restarted = owners and spec.get("restartPolicy", "Always") == "Always"
        if not stays and pod["status"].get("phase") not in ENDED and (_has_gpus(spec) or not restarted):
            found.append(f"pod {metadata['namespace']}/{metadata['name']}")
    return found


def _has_gpus(spec: Mapping[str, Any]) -> bool:
    containers = [*spec.get("containers", ()), *(spec.get("initContainers") or ())]
    limits = [(one.get("resources") or {}).get("limits") or {} for one in containers]
    return bool(spec.get("resourceClaims")) or any(name.startswith(GPUS) for limit in limits for name in limit)


class KubernetesApi:
    """The API of a cluster, by Kubernetes' own library."""

    def __init__(self, kubeconfig: str | None, host: str, *, check_mode: bool = False) -> None:
        """Read the settings of kubectl: this file, or those that kubectl takes. Raises Refusal F013, F014.

        In check mode, the API judges what is to be changed, and keeps nothing of it.
        """
        self._check_mode = check_mode
        try:
            from kubernetes import client, config  # noqa: PLC0415 - only who has a cluster needs it
        except ImportError as error:
            raise refuse("F013", host=host, detail=str(error)) from error
        try:
            settings = client.Configuration()
            settings.retries = 0
            config.load_kube_config(config_file=kubeconfig, client_configuration=settings)
        except Exception as error:  # the library lets through whatever a damaged file raises
            raise refuse("F014", detail=_first_line(error)) from error
        self._api = client.ApiClient(settings)
        self._core = client.CoreV1Api(self._api)

    def node(self, names: Collection[str]) -> ClusterNode | None:
        """Return the node of one of these names, None where there is none. Raises Refusal F014."""
        return own(self._ask(self._core.list_node)["items"], names)

    def pods(self, name: str) -> list[str]:
        """Return the pods on a node that would lose work. Raises Refusal F014."""
        found = self._ask(self._core.list_pod_for_all_namespaces, field_selector=f"spec.nodeName={name}")
        return busy(found["items"])

    def mark(self, node: ClusterNode, run: str, fence: str | None) -> bool:
        """Cordon a node, and say why; None takes both back. Raises Refusal F014.

        Return False where it is left alone, as somebody else has cordoned it, or taken our cordon, since it was read.
        """
        for _time in range(TRIES):
            if self._patch(node, fence, dry_run=self._check_mode):
                return True
            found = self.node({node.name})
            if found is None or (found.is_of_others(run) if fence else not found.is_ours(run)):
                return False
            node = found
        raise refuse("F014", detail=f"others changed the node {node.name} {TRIES} times meanwhile")

    def try_to_mark(self, node: ClusterNode, fence: str) -> None:
        """Raise the Refusal F014 that mark() would raise; nothing changes."""
        self._patch(node, fence, dry_run=True)

    def _patch(self, node: ClusterNode, fence: str | None, *, dry_run: bool) -> bool:
        """Return False where the node is no longer as it was read. Raises Refusal F014."""
        metadata = {"annotations": {ANNOTATION: fence}, "resourceVersion": node.version}
        body = {"metadata": metadata, "spec": {"unschedulable": fence is not None}}
        try:
            self._ask(self._core.patch_node, node.name, body, **({"dry_run": "All"} if dry_run else {}))
        except _ChangedError:
            return False
        return True

    def _ask(self, call: Callable[..., Any], *arguments: Any, **more: Any) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = self._api.sanitize_for_serialization(
                call(*arguments, _request_timeout=SECONDS, **more)
            )
        except Exception as error:  # the library's own, urllib3's and the system's
            status, reason = getattr(error, "status", None), getattr(error, "reason", None)
            if status == HTTPStatus.CONFLICT:
                raise _ChangedError from error
            raise refuse("F014", detail=f"{status} {reason}" if status else _first_line(error)) from error
        return answer


class _ChangedError(Exception):
    """A node was changed between our reading and our patch."""


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), "") or type(error).__name__


@dataclass(frozen=True)
class Settings:
    """How to reach the cluster, and the node's name there; None takes what kubectl takes, and the inventory's names.

    What the node calls itself is no name of its: it could be another node's, which would leave service in its place.
    """

    kubeconfig: str | None = None
    name: str | None = None
    names: tuple[str, ...] = ()

    @property
    def all_names(self) -> set[str]:
        """Return the names that the node may have in the cluster; Kubernetes has small letters only."""
        return {self.name} if self.name else {name.lower() for name in self.names}


class Given(TypedDict, total=False):
    """What the module fence is given."""

    work: str
    host: str
    run: str
    reason: str
    engine: str
    force: bool
    before: fence.Before


class FenceAnswer(TypedDict, total=False):
    """What the module fence answers; drained_by_others is why Kubernetes still keeps work away."""

    failed: bool
    unreachable: bool
    changed: bool
    changes: Changes
    fence: fence.Record | None
    fresh: bool
    kubelet: bool
    users: str
    drained_by_others: str


Module = Callable[[Given], FenceAnswer]


def work(given: Given, settings: Settings, module: Module, *, check_mode: bool) -> FenceAnswer:
    """Do one work of the module fence, in Kubernetes too where the node is one of its nodes.

    module does the node's part with arguments, and returns its result. The record on the node is there before the
    cordon and is removed after it, so a run that was cut off can go on. Raises Refusal F013 to F015.
    """
    if given["work"] in ("look", "wait"):
        return _look(given, settings, module)
    seen = module({**given, "work": "look"})
    if seen.get("failed") or seen.get("unreachable"):
        return seen
    record = seen["fence"]
    ours = not record or record["run"] == given["run"] or bool(given.get("force"))  # else the module refuses
    if not ours or not (record["engine"] == KUBERNETES if record else _wanted(given, settings, seen)):
        return module(given)
    cluster = KubernetesApi(settings.kubeconfig, given["host"], check_mode=check_mode)
    node = cluster.node(_names(given["host"], record, settings))
    if node is None and (record or given.get("engine") == KUBERNETES):
        raise refuse("F015", host=given["host"])
    if node is None:
        return module(given)
    change = _drain if given["work"] == "drain" else _resume
    return change(given, node, record, module, cluster)


def _look(given: Given, settings: Settings, module: Module) -> FenceAnswer:
    """Look who uses the node, its pods among them."""
    result = module(given)
    record = result.get("fence")
    if not record or record["engine"] != KUBERNETES:
        return result
    (name,) = _names(given["host"], record, settings)
    pods = KubernetesApi(settings.kubeconfig, given["host"]).pods(name)
    return {**result, "users": ", ".join(filter(None, [*pods, result["users"]]))}


def _wanted(given: Given, settings: Settings, seen: FenceAnswer) -> bool:
    """Tell whether a node without a fence gets one in Kubernetes; who names a kubeconfig means its cluster."""
    engine = given.get("engine", AUTO)
    named = engine == KUBERNETES or (engine == AUTO and bool(settings.kubeconfig) and bool(seen["kubelet"]))
    return given["work"] == "drain" and named


def _names(host: str, record: fence.Record | None, settings: Settings) -> set[str]:
    """Return the names that the node may have in the cluster. Raises Refusal F020 where its record has another one."""
    names = settings.all_names
    if record and record["before"]["name"] not in names:
        raise refuse("F020", host=host, name=record["before"]["name"])
    return {record["before"]["name"]} if record else names


def _drain(
    given: Given, node: ClusterNode, record: fence.Record | None, module: Module, cluster: KubernetesApi
) -> FenceAnswer:
    """Fence the node, then cordon it; one that somebody else has cordoned stays as it is.

    What we may not do in the cluster is refused before the node is touched.
    """
    others = node.is_of_others(given["run"])
    seen: fence.Before = {"name": node.name, "drained": others, "reason": node.fence}
    before = record["before"] if record else seen
    why = f"{given['run']}: {' '.join(str(given.get('reason', '')).split())}"
    marks = not others and not before["drained"] and not (node.cordoned and node.fence == why)
    cluster.pods(node.name)
    if marks:
        cluster.try_to_mark(node, why)
    result = module({**given, "engine": KUBERNETES, "before": before})
    if result.get("failed") or result.get("unreachable") or not marks:
        return result
    try:
        marks = cluster.mark(node, given["run"], why)
    except Refusal:
        if result["fresh"]:
            module({**given, "work": "resume"})
        raise
    return _changed(result, f"Kubernetes: cordon {node.name}") if marks else result


def _resume(
    given: Given, node: ClusterNode, record: fence.Record | None, module: Module, cluster: KubernetesApi
) -> FenceAnswer:
    """Take this run's cordon back, then lift the fence; another's cordon stays, and is named."""
    ours = record is not None and node.is_ours(record["run"])
    if record and ours and not cluster.mark(node, record["run"], None):
        ours, node = False, cluster.node({node.name}) or node
    result = module(given)
    if ours:
        return _changed(result, f"Kubernetes: uncordon {node.name}")
    return {**result, "drained_by_others": node.fence or "cordoned"} if node.cordoned else result


def _changed(result: FenceAnswer, what: str) -> FenceAnswer:
    changes: Changes = [*(result.get("changes") or ()), {"action": "write", "what": what}]
    return {**result, "changed": True, "changes": changes}
