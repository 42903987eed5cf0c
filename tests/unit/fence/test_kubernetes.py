"""A node of Kubernetes leaves service and comes back, by the real client library and a stand-in for its API server."""

from __future__ import annotations

import builtins
import json
import socketserver
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlparse

import pytest
import yaml
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.facts import fence
from ansible_collections.gpulab.node.plugins.module_utils.fence import host
from ansible_collections.gpulab.node.plugins.plugin_utils.rollout.kubernetes_fence import (
    ANNOTATION,
    HOSTNAME,
    MIRROR,
    Settings,
    busy,
)

from unit.rollout.simulated import Controller, Killed, Lab
from unit.rollout.test_adverse import TASKS, died, in_service

NODES, TOKEN = ("node06", "node07"), "canary"
RUN, OTHER = "20261127T010000Z-desk", "20261126T090000Z-laptop"
GPU = {"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": "1"}}}], "restartPolicy": "Never"}
ONCE = {"containers": [{"name": "c"}], "restartPolicy": "OnFailure"}
SERVER = {"containers": [{"name": "c"}], "restartPolicy": "Always"}


def pod(name, spec, owner="Job", phase="Running", **annotations):
    owners = [{"apiVersion": "v1", "kind": owner, "name": "o", "uid": "1"}] if owner else []
    return {
        "metadata": {"name": name, "namespace": "lab", "ownerReferences": owners, "annotations": annotations},
        "spec": {**spec, "nodeName": "node07"},
        "status": {"phase": phase},
    }


def write_kubeconfig(path, server):
    text = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "lab",
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "gpulab"}}],
        "clusters": [{"name": "lab", "cluster": {"server": server}}],
        "users": [{"name": "gpulab", "user": {"token": TOKEN}}],
    }
    path.write_text(yaml.safe_dump(text))


class StandIn:
    """The few answers of an API server that the fence asks for.

    refused: what gets status 403, as "patch nodes". meanwhile: what somebody else does before the next change comes.
    """

    def __init__(self):
        """Have two nodes."""
        self._nodes = {
            name: {
                "metadata": {"name": name, "labels": {HOSTNAME: name}, "annotations": {}, "resourceVersion": "1"},
                "spec": {},
            }
            for name in NODES
        }
        self.pods, self.refused, self.patched, self.meanwhile = [], set(), [], None
        api = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                """Answer with the nodes, or with the pods of one."""
                url = urlparse(self.path)
                if url.path == "/api/v1/nodes":
                    items = list(api._nodes.values())
                    self._answer("list nodes", {"kind": "NodeList", "apiVersion": "v1", "items": items})
                else:
                    (selector,) = parse_qs(url.query)["fieldSelector"]
                    found = [one for one in api.pods if f"spec.nodeName={one['spec']['nodeName']}" == selector]
                    self._answer("list pods", {"kind": "PodList", "apiVersion": "v1", "items": found})

            def do_PATCH(self):
                """Merge into a node, unless it is a trial, or has changed since it was read."""
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                url = urlparse(self.path)
                name, trial = url.path.rpartition("/")[2], "dryRun=All" in url.query
                if not trial:
                    others, api.meanwhile = api.meanwhile, None
                    api.change(name, others or {})
                    api.patched.append(url.path)
                current = body["metadata"].pop("resourceVersion") == api._nodes[name]["metadata"]["resourceVersion"]
                if current and not trial and "patch nodes" not in api.refused:
                    api.change(name, body)
                self._answer("patch nodes", api._nodes[name], 200 if current else 409)

            def _answer(self, what, found, status=200):
                text = json.dumps(found).encode()
                self.send_response(403 if what in api.refused else status)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_arguments):
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def kubeconfig(self, path):
        """Write the settings of kubectl by which the fence reaches it."""
        write_kubeconfig(path, f"http://127.0.0.1:{self._server.server_port}")

    def node(self, name):
        """Return (cordoned, the fence's annotation) of a node."""
        node = self._nodes[name]
        return bool(node["spec"].get("unschedulable")), node["metadata"]["annotations"].get(ANNOTATION)

    def change(self, name, body):
        """Change a node as somebody else does; None takes an entry away."""
        node = self._nodes[name]
        if body:
            node["metadata"]["resourceVersion"] += "1"
        node["spec"].update(body.get("spec", {}))
        for kind, entries in body.get("metadata", {}).items():
            node["metadata"][kind].update(entries)
            node["metadata"][kind] = {key: value for key, value in node["metadata"][kind].items() if value is not None}

    def stop(self):
        """Answer nobody any more."""
        self._server.server_close()
        self._server.shutdown()


@pytest.fixture
def api():
    """Return a stand-in for an API server. tests/cluster runs these tests with a real one in its place."""
    found = StandIn()
    yield found
    found.stop()


@pytest.fixture
def kubeconfig(api, tmp_path):
    path = tmp_path / "kubeconfig"
    api.kubeconfig(path)
    return str(path)


class Fleet:
    """The node, whose hostname is node07.lab, and the fence's work on it and in its cluster."""

    def __init__(self, lab, kubeconfig):
        """Let the node have a kubelet."""
        self.lab, self.kubeconfig, self.name, self.check = lab, kubeconfig, None, False
        self.works = lab.works
        (self.machine.root / host.KUBELET[0].lstrip("/")).mkdir(parents=True)

    @property
    def machine(self):
        """Return the node."""
        return self.lab.nodes["node07"]

    def work(self, work, run=RUN, **more):
        """Do one work of the fence."""
        given = {"work": work, "run": run, "host": "node07", "reason": "driver 550", **more}
        self.lab.cluster = Settings(self.kubeconfig, self.name)
        return self.lab.fence("node07", "anna", given, check_mode=self.check)


@pytest.fixture
def fleet(tmp_path, monkeypatch, kubeconfig):
    lab = Lab(tmp_path / "nodes", monkeypatch, "node07")
    monkeypatch.setattr(host.socket, "gethostname", lambda: "node07.lab")
    return Fleet(lab, kubeconfig)


def code(call, *arguments, **more):
    with pytest.raises(Refusal) as refused:
        call(*arguments, **more)
    return refused.value.code


def test_a_node_is_cordoned_with_the_reason_and_comes_back(fleet, api):
    result = fleet.work("drain")
    assert result["changes"][-1] == {"action": "write", "what": "Kubernetes: cordon node07"}
    assert api.node("node07") == (True, f"{RUN}: driver 550")
    assert (fleet.machine.fence["engine"], fleet.machine.open) == ("kubernetes", False)
    assert api.patched == ["/api/v1/nodes/node07"]
    assert fleet.work("resume")["drained_by_others"] == ""
    assert api.node("node07") == (False, None)
    assert (fleet.machine.fence, fleet.machine.open) == (None, True)
    assert api.node("node06") == (False, None)


def test_a_second_time_nothing_changes(fleet, api):
    fleet.work("drain")
    assert not fleet.work("drain")["changed"]
    fleet.work("resume")
    assert not fleet.work("resume")["changed"]
    assert len(api.patched) == 2


def test_check_mode_says_what_would_change_and_changes_nothing(fleet, api):
    fleet.check = True
    would = fleet.work("drain")["changes"]
    assert (api.patched, fleet.machine.fence) == ([], None)
    fleet.check = False
    assert fleet.work("drain")["changes"] == would
    fleet.check = True
    would = fleet.work("resume")["changes"]
    assert api.node("node07")[0]
    assert fleet.machine.fence is not None
    fleet.check = False
    assert fleet.work("resume")["changes"] == would


@pytest.mark.parametrize(
    ("found", "waits"),
    [
        (pod("train", GPU), True),
        (pod("inference", {**GPU, "restartPolicy": "Always"}, "ReplicaSet"), True),
        (
            pod("mig", {"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/mig-1g.10gb": "1"}}}]}, None),
            True,
        ),
        (pod("claim", {**SERVER, "resourceClaims": [{"name": "gpu"}]}, "ReplicaSet"), True),
        (pod("prepare", ONCE), True),
        (pod("alone", SERVER, None), True),
        (pod("web", SERVER, "ReplicaSet"), False),
        (pod("exporter", GPU, "DaemonSet"), False),
        (pod("etcd", SERVER, "Node", **{MIRROR: "x"}), False),
        (pod("done", GPU, phase="Succeeded"), False),
        (pod("crashed", GPU, phase="Failed"), False),
    ],
)
def test_whose_work_is_waited_for(found, waits):
    assert busy([found]) == ([f"pod lab/{found['metadata']['name']}"] if waits else [])


def test_pods_are_waited_for_and_none_is_evicted(fleet, api):
    fleet.work("drain")
    api.pods = [pod("train", GPU), pod("web", SERVER, "ReplicaSet")]
    assert fleet.work("wait")["users"] == "pod lab/train"
    fleet.machine.person = True
    assert fleet.work("wait")["users"] == "pod lab/train, wei, who is logged in (python)"
    fleet.machine.person, api.pods = False, []
    assert fleet.work("wait")["users"] == ""
    assert api.patched == ["/api/v1/nodes/node07"]


def test_a_cordon_that_was_there_before_is_still_there_afterwards(fleet, api):
    """NVSentinel#1424: nodes that somebody else had cordoned were uncordoned."""
    api.change("node07", {"spec": {"unschedulable": True}})
    fleet.work("drain")
    assert fleet.work("resume")["drained_by_others"] == "cordoned"
    assert (api.node("node07"), api.patched) == ((True, None), [])


def test_a_cordon_of_another_run_stays(fleet, api):
    fleet.work("drain")
    api.change("node07", {"metadata": {"annotations": {ANNOTATION: f"{OTHER}: fan"}}})
    assert fleet.work("resume")["drained_by_others"] == f"{OTHER}: fan"
    assert api.node("node07")[0]


def test_the_fence_of_another_run_is_neither_taken_over_nor_lifted(fleet, api):
    fleet.work("drain", run=OTHER)
    assert code(fleet.work, "drain") == code(fleet.work, "resume") == "F007"
    assert api.node("node07") == (True, f"{OTHER}: driver 550")
    fleet.work("resume", force=True)
    assert api.node("node07") == (False, None)


def test_a_failure_becomes_the_reason_in_kubernetes(fleet, api):
    fleet.work("drain")
    fleet.work("drain", reason="the proof failed: gpu-count", held=True)
    assert api.node("node07") == (True, f"{RUN}: the proof failed: gpu-count")
    assert fleet.machine.fence["before"]["drained"] is False
    fleet.work("resume")
    assert api.node("node07") == (False, None)


def test_a_run_that_was_cut_off_before_the_cordon_goes_on(fleet, api):
    fleet.work("drain")
    api.change("node07", {"spec": {"unschedulable": False}, "metadata": {"annotations": {ANNOTATION: None}}})
    fleet.work("drain")
    assert api.node("node07") == (True, f"{RUN}: driver 550")


@pytest.mark.parametrize("work", ["drain", "resume"])
def test_an_api_that_refuses_the_change_leaves_the_node_as_it_was(fleet, api, work):
    if work == "resume":
        fleet.work("drain")
    before = (api.node("node07"), fleet.machine.open)
    api.refused = {"patch nodes"}
    with pytest.raises(Refusal, match=r"F014 .*403") as refused:
        fleet.work(work)
    assert TOKEN not in str(refused.value)
    assert (api.node("node07"), fleet.machine.open) == before


@pytest.mark.parametrize("missing", ["list nodes", "patch nodes", "list pods"])
def test_a_right_that_is_missing_is_refused_before_anything_changes_and_in_check_mode_too(fleet, api, missing):
    api.refused = {missing}
    for fleet.check in (True, False):
        assert code(fleet.work, "drain") == "F014"
        assert (fleet.works, fleet.machine.fence, api.patched) == (["look"], None, [])
        fleet.works.clear()


def test_what_others_change_at_the_same_time_stays(fleet, api):
    api.meanwhile = {"metadata": {"labels": {"rack": "7"}}}
    fleet.work("drain")
    assert api.node("node07") == (True, f"{RUN}: driver 550")
    api.meanwhile = {"metadata": {"labels": {"rack": "8"}}}
    fleet.work("resume")
    assert api.node("node07") == (False, None)
    assert len(api.patched) == 4


def test_a_cordon_that_comes_while_the_node_is_fenced_is_not_taken_over(fleet, api):
    """The node's own fence takes seconds; the record says that nobody had cordoned the node."""
    api.meanwhile = {"spec": {"unschedulable": True}}
    assert "Kubernetes" not in str(fleet.work("drain")["changes"])
    assert fleet.machine.fence["before"]["drained"] is False
    fleet.work("drain", reason="the proof failed: gpu-count", held=True)
    assert api.node("node07") == (True, None)
    assert fleet.work("resume")["drained_by_others"] == "cordoned"
    assert api.node("node07") == (True, None)


def test_a_cordon_that_becomes_anothers_while_it_is_lifted_stays(fleet, api):
    fleet.work("drain")
    api.meanwhile = {"metadata": {"annotations": {ANNOTATION: f"{OTHER}: fan"}}}
    assert fleet.work("resume")["drained_by_others"] == f"{OTHER}: fan"
    assert api.node("node07") == (True, f"{OTHER}: fan")


def test_an_api_that_does_not_answer_is_refused_before_anything_changes(fleet, api):
    api.stop()
    assert code(fleet.work, "drain", engine="kubernetes") == "F014"
    assert fleet.machine.fence is None


def test_an_api_that_hangs_up_is_asked_once(fleet, tmp_path):
    """The library asks three times more by itself, each for as long as an answer may take."""
    asked = []

    class HangsUp(socketserver.BaseRequestHandler):
        def handle(self):
            """Take the request, and answer nothing."""
            asked.append(self.request.recv(100))

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), HangsUp) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        write_kubeconfig(tmp_path / "hangs_up", f"http://127.0.0.1:{server.server_address[1]}")
        fleet.kubeconfig = str(tmp_path / "hangs_up")
        assert code(fleet.work, "drain") == "F014"
        server.shutdown()
    assert len(asked) == 1


def test_a_damaged_kubeconfig_is_refused(fleet, tmp_path):
    for text in ("", "- x", "{"):
        (tmp_path / "kubeconfig").write_text(text)
        assert code(fleet.work, "drain") == "F014"
    fleet.kubeconfig = str(tmp_path / "none")
    assert code(fleet.work, "drain") == "F014"


def test_without_the_library_the_fence_is_refused_before_anything_changes(fleet, monkeypatch):
    real = builtins.__import__

    def without(name, *arguments, **more):
        if name == "kubernetes":
            raise ImportError(name)
        return real(name, *arguments, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    assert code(fleet.work, "drain") == "F013"
    assert fleet.machine.fence is None


def test_the_nodes_name_in_the_cluster_can_be_given(fleet, api):
    fleet.name = "node06"
    fleet.work("drain")
    assert api.node("node06")[0]
    assert fleet.machine.fence["before"]["name"] == "node06"
    fleet.work("resume")
    assert api.node("node06") == (False, None)


def test_a_node_that_calls_itself_as_another_one_does_not_take_it_out_of_service(fleet, api, monkeypatch):
    monkeypatch.setattr(host.socket, "gethostname", lambda: "node06")
    fleet.work("drain")
    assert api.node("node07")[0]
    assert api.node("node06") == (False, None)


def test_a_record_that_names_another_node_brings_that_one_not_back(fleet, api):
    """The record is the node's, and who has root there writes it; the run is the same on all nodes of a rollout."""
    fleet.work("drain")
    cordon = {"spec": {"unschedulable": True}, "metadata": {"annotations": {ANNOTATION: f"{RUN}: driver 550"}}}
    api.change("node06", cordon)
    path = fleet.machine.root / fence.RECORD.lstrip("/")
    path.write_text(path.read_text().replace("node07", "node06"))
    assert code(fleet.work, "resume") == code(fleet.work, "wait") == "F020"
    assert api.node("node06")[0]


def test_a_label_of_another_node_does_not_come_before_the_name(fleet, api):
    """Each kubelet sets the label of its own node."""
    api.change("node06", {"metadata": {"labels": {HOSTNAME: "node07"}}})
    fleet.work("drain")
    assert api.node("node07")[0]
    assert api.node("node06") == (False, None)


def test_kubernetes_by_name_has_to_know_the_node_and_auto_leaves_one_alone_that_it_does_not_know(fleet, api):
    fleet.name = "node99"
    assert code(fleet.work, "drain", engine="kubernetes") == "F015"
    fleet.work("drain")
    assert (fleet.machine.fence["engine"], api.patched) == ("none", [])


@pytest.mark.parametrize(
    ("engine", "kubelet", "named", "expected"),
    [
        ("auto", True, True, "kubernetes"),
        ("auto", False, True, "none"),
        ("auto", True, False, "none"),
        ("none", True, True, "none"),
        ("kubernetes", False, True, "kubernetes"),
    ],
)
def test_which_engine_is_taken(fleet, engine, kubelet, named, expected):
    if not kubelet:
        (fleet.machine.root / host.KUBELET[0].lstrip("/")).rmdir()
    fleet.kubeconfig = fleet.kubeconfig if named else None
    fleet.work("drain", engine=engine)
    assert fleet.machine.fence["engine"] == expected


@pytest.mark.parametrize("number", range(1, TASKS + 1))
def test_a_rollout_whose_controller_is_killed_before_any_task_leaves_no_cordon(
    tmp_path, monkeypatch, api, kubeconfig, number
):
    lab = Lab(tmp_path / "nodes", monkeypatch, "node06", "node07")
    lab.cluster = Settings(kubeconfig)
    for node in lab.nodes.values():
        (node.root / host.KUBELET[0].lstrip("/")).mkdir(parents=True)
    first = Controller(lab, tmp_path / "rollouts", dies_at=number)
    with pytest.raises(Killed):
        first.roll()
    died(first)
    for name, node in lab.nodes.items():
        assert api.node(name)[0] == (node.fence is not None)
    assert Controller(lab, tmp_path / "rollouts").roll() == {}
    assert in_service(lab)
    assert all(api.node(name) == (False, None) for name in NODES)
    assert all(node.proven for node in lab.nodes.values())
