"""The fence in Kubernetes, by the tests of tests/unit/fence and more: the API server and its etcd are real.

Its nodes have no kubelet, and nothing runs in their pods. What the fence's user may do is what docs/fleet.md says.
"""

import subprocess
import threading
import time
from pathlib import Path

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from kubernetes import client
from server import Cluster, Server
from unit.fence import test_kubernetes as suite
from unit.fence.test_kubernetes import GPU, NODES, RUN, TOKEN, code, fleet, kubeconfig, pod

# All of them take the fixture api, which is another one here
globals().update({name: test for name, test in vars(suite).items() if name.startswith("test_")})
__all__ = ["fleet", "kubeconfig"]


@pytest.fixture(scope="session")
def server(tmp_path_factory, say):
    say("making the image of the API server, if there is none (a quarter of an hour)")
    script = Path(__file__).with_name("image.sh")
    image = subprocess.run([script], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    found = Server(image, tmp_path_factory.mktemp("server"), TOKEN)
    yield found
    found.remove()


@pytest.fixture
def api(server, monkeypatch):
    """Return the cluster; what others do at the same time comes before the fence's change."""
    found, patch = Cluster(server, NODES), client.CoreV1Api.patch_node

    def change(*given, **more):
        if "dry_run" not in more:
            found.others_come_first()
        return patch(*given, **more)

    monkeypatch.setattr(client.CoreV1Api, "patch_node", change)
    return found


def allowed(fleet):
    """Tell whether the server has read its rights: one that has just started answers 403 to most."""
    try:
        fleet.work("wait")
    except Refusal as refusal:
        if "403" not in str(refusal):
            raise
        return False
    return True


def test_an_api_server_that_restarts_while_pods_are_waited_for_costs_nothing(fleet, api, server):
    fleet.work("drain")
    api.pods = [pod("train", GPU)]
    assert fleet.work("wait")["users"] == "pod lab/train"
    server.kill()
    assert code(fleet.work, "wait") == code(fleet.work, "resume") == "F014"
    assert fleet.machine.fence is not None
    server.wait()
    assert api.node("node07") == (True, f"{RUN}: driver 550")
    while not allowed(fleet):
        time.sleep(0.1)
    assert fleet.work("wait")["users"] == "pod lab/train"
    api.pods = []
    assert fleet.work("wait")["users"] == ""
    fleet.work("resume")
    assert api.node("node07") == (False, None)


def test_a_node_that_its_kubelet_and_others_change_all_the_time_is_cordoned_and_comes_back(fleet, api):
    ends = threading.Event()

    def others():
        count = 0
        while not ends.is_set():
            count += 1
            api.change("node07", {"metadata": {"labels": {"count": str(count)}}})
            time.sleep(0.02)

    beside = threading.Thread(target=others)
    beside.start()
    try:
        for _time in range(10):
            fleet.work("drain")
            assert api.node("node07") == (True, f"{RUN}: driver 550")
            fleet.work("resume")
            assert api.node("node07") == (False, None)
    finally:
        ends.set()
        beside.join()


def test_taints_labels_and_annotations_of_others_stay(fleet, api, server):
    core = client.CoreV1Api(server.client())
    taint = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    theirs = {"labels": {"rack": "7"}, "annotations": {"lab/owner": "ana"}}
    api.change("node07", {"spec": {"taints": [taint]}, "metadata": theirs})
    before = core.read_node("node07")
    fleet.work("drain")
    fleet.work("resume")
    after = core.read_node("node07")
    assert (after.metadata.labels, after.metadata.annotations) == (before.metadata.labels, before.metadata.annotations)
    assert after.spec.taints == before.spec.taints
    assert [one.key for one in after.spec.taints] == ["nvidia.com/gpu"]


def test_pods_under_a_budget_stay_where_they_are(fleet, api, server):
    """Nothing is evicted, so no budget is asked; the cordon is all that Kubernetes gets to see."""
    api.pods = [pod("train", GPU), pod("inference", {**GPU, "restartPolicy": "Always"}, "ReplicaSet")]
    fleet.work("drain")
    assert fleet.work("wait")["users"] == "pod lab/inference, pod lab/train"
    fleet.work("resume")
    assert sorted(api.pods) == ["inference", "train"]
    assert api.patched == ["/api/v1/nodes/node07"] * 2
    assert not [asked for asked in server.audit() if "eviction" in asked[1] or asked[0] == "delete"]
