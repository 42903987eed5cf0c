"""Ray makes a cluster of two nodes from the file that gpulab exports, as an account without root's rights."""

import json

import pytest
import yaml
from scenario import EPHEMERAL, nodes, playbook

RAY = "/opt/venvs/ray/bin"
COUNT = """
import json, time, ray
deadline = time.monotonic() + 300
while not ray.is_initialized():  # the head starts Ray here some time after `ray up` has ended
    try:
        ray.init(address="auto", log_to_driver=False, logging_level="error")
    except ConnectionError:
        assert time.monotonic() < deadline
        time.sleep(2)
while len([node for node in ray.nodes() if node["Alive"]]) < 2 and time.monotonic() < deadline:
    time.sleep(2)

@ray.remote(num_gpus=1, num_cpus=0)
def held():
    import os, socket, time
    time.sleep(5)
    return socket.gethostname(), os.environ["CUDA_VISIBLE_DEVICES"]

print(json.dumps({"total": ray.cluster_resources(), "held": sorted(ray.get([held.remote() for _ in range(4)]))}))
"""
JOIN = 'import ray; ray.init(address="{}:6379", logging_level="error"); print("joined")'


@pytest.fixture(scope="module")
def exported():
    """Prove the nodes and export them; return the directory of the files."""
    kept = {
        "verify_report_directory": str(EPHEMERAL / "reports"),
        "verify_history_directory": str(EPHEMERAL / "history"),
    }
    proven = playbook("playbooks/verify.yml", **kept)
    assert proven.status == 0, proven.output
    login = {"export_user": "deploy", "export_key": "/home/deploy/key"}
    done = playbook("playbooks/export.yml", **kept, **login, export_directory=str(EPHEMERAL / "exported"))
    assert done.status == 0, done.output
    return EPHEMERAL / "exported"


@pytest.fixture(scope="module")
def member(exported):
    """Let Ray make the cluster, from its second node; return a function that runs a command there as the account."""
    second = nodes()["node2"]

    def put(path, text, mode="0600"):
        options = {"content": text, "dest": path, "owner": "deploy", "group": "deploy", "mode": mode}
        second.ansible("ansible.builtin.copy", json.dumps(options), check=False, become=True)

    put("/home/deploy/key", (EPHEMERAL / "deploy").read_text())
    put("/home/deploy/ray.yaml", (exported / "ray.yaml").read_text())
    put("/home/deploy/count.py", COUNT)

    def run(command):
        return second.run("runuser -l deploy -c %s", f"export RAY_AUTH_MODE=token PATH={RAY}:$PATH; {command}")

    assert run("ray get-auth-token --generate").rc == 0
    up = run("ray up --yes ray.yaml")
    assert up.rc == 0, up.stdout + up.stderr
    yield run
    run("ray down --yes ray.yaml")


def test_ray_counts_the_gpus_of_both_nodes_and_gives_each_once(member):
    counted = member("python count.py")
    assert counted.rc == 0, counted.stdout + counted.stderr
    found = json.loads(counted.stdout.splitlines()[-1])
    assert found["total"]["GPU"] == 4
    assert {name for name in found["total"] if name.startswith("accelerator_type")} == {
        "accelerator_type:GeForce-RTX-4090",
        "accelerator_type:A100",
    }
    assert found["held"] == [["node1", "0"], ["node1", "1"], ["node2", "0"], ["node2", "1"]]


@pytest.mark.usefixtures("member")
def test_who_has_no_token_starts_nothing():
    address = yaml.safe_load((EPHEMERAL / "exported/ray.yaml").read_text())["provider"]["head_ip"]
    first = nodes()["node1"]
    first.check_output("id stranger || useradd --create-home stranger")
    tried = first.run("runuser -l stranger -c %s", f"timeout 120 {RAY}/python -c '{JOIN.format(address)}'")
    assert tried.rc != 0
    assert "joined" not in tried.stdout
    assert "oken" in tried.stderr


def test_each_kind_of_gpu_is_a_pool_of_skypilot(exported):
    pools = yaml.safe_load((exported / "ssh_node_pools.yaml").read_text())
    assert sorted(pools) == ["gpulab-a100-pcie-40gb", "gpulab-geforce-rtx-4090"]


def test_a_second_export_changes_nothing(exported):
    before = {path: path.stat().st_mtime for path in exported.iterdir()}
    kept = {"verify_history_directory": str(EPHEMERAL / "history"), "export_directory": str(exported)}
    done = playbook("playbooks/export.yml", **kept, export_user="deploy", export_key="/home/deploy/key")
    assert not any(done.changed.values()), done.output
    assert before == {path: path.stat().st_mtime for path in exported.iterdir()}
