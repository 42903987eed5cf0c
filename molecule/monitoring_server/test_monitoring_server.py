"""A fault arrives as mail and at a webhook, with its remedy, but not while the node is fenced."""

import json
import re
import time

import pytest
import testinfra
from scenario import LAB, nodes, playbook

FENCE = "/var/lib/gpulab/fence.json"
PLAYBOOK = "playbooks/monitoring_server.yml"
WAIT = 180  # an alert lasts two minutes before it is one


@pytest.fixture(scope="module")
def server():
    (found,) = testinfra.get_hosts(["ansible://monitoring_server"], ansible_inventory=str(LAB / "inventory"), sudo=True)
    return found


@pytest.fixture(scope="module")
def node():
    return nodes()["node1"]


def prove(node, **settings):
    """Prove a node; some checks warn of a driver that is a stand-in."""
    run = playbook("playbooks/verify.yml", "-l", node, **settings)
    assert run.changed == {node: 0}, run.output


def wait(what, seconds=WAIT):
    """Return the first true answer within some seconds, else the last one."""
    end = time.monotonic() + seconds
    while not (answer := what()) and time.monotonic() < end:
        time.sleep(2)
    return answer


def ask(server, path):
    return json.loads(server.check_output("curl --silent --fail http://127.0.0.1:%s", path))["data"]


def alerts(server):
    return [one for one in ask(server, "9090/api/v1/alerts")["alerts"] if one["state"] == "firing"]


def firing(server):
    return {one["labels"]["alertname"] for one in alerts(server)}


def mail(server):
    """Return the mails, each with its header."""
    text = server.run("cat /run/mail").stdout.replace("=\n", "")  # where quoted-printable breaks a line
    return [part for part in re.split(r"^(?=Subject: )", text, flags=re.MULTILINE) if part.startswith("Subject: ")]


def posts(server):
    return [json.loads(line) for line in server.run("cat /run/posts").stdout.splitlines()]


def test_both_answer_on_the_loopback_only(server):
    listening = server.check_output("ss --listening --tcp --numeric --no-header --processes").splitlines()
    places = {line.split()[3] for line in listening if "prometheus" in line}
    assert places == {"127.0.0.1:9090", "127.0.0.1:9093"}


def test_the_node_is_a_target_under_its_name(server):
    (target,) = wait(lambda: ask(server, "9090/api/v1/targets")["activeTargets"])
    assert target["labels"]["instance"] == "node1"
    assert wait(lambda: ask(server, "9090/api/v1/targets")["activeTargets"][0]["health"] == "up", 60)


def test_who_is_called_is_for_prometheus_alone(server):
    file = server.file("/etc/prometheus/gpulab/alertmanager.yml")
    assert (file.user, file.group, file.mode) == ("root", "prometheus", 0o640)
    assert "canary" in file.content_string


@pytest.fixture(scope="module")
def story(server, node):
    """Lose a GPU while the node is fenced, lift the fence, mend the GPU."""
    found = {}
    node.check_output(f"mkdir -p /var/lib/gpulab && echo '{{}}' > {FENCE}")
    assert wait(lambda: "NodeFenced" in firing(server), 60)
    node.check_output("gpulab-simulate fault 'gpu.1.lost = 15'")
    assert wait(lambda: "GpuDown" in firing(server))
    time.sleep(40)  # more than Alertmanager waits for others of the same group
    found["while fenced"] = (mail(server), posts(server))
    node.check_output(f"rm {FENCE}")
    wait(lambda: mail(server) and posts(server), 400)  # held-back alerts are looked at again after the group's interval
    found["mail"], found["posts"] = mail(server), posts(server)
    node.check_output("gpulab-simulate heal")
    wait(lambda: any("recovered" in one for one in mail(server)), 400)
    found["after"] = mail(server)
    return found


def test_nobody_is_called_about_a_fenced_node(story):
    assert story["while fenced"] == ([], [])


def test_a_mail_names_node_gpu_cause_and_remedy(story):
    (first, *_others) = [one for one in story["mail"] if "GpuDown" in one]
    assert first.startswith("Subject: critical: node1 GpuDown")
    assert "node1: the GPU at 0000:" in first
    assert "Cause:     It is on the PCI bus" in first
    assert "Remedy:" in first


def test_the_webhook_gets_the_same(story):
    (alert, *_others) = [
        alert for post in story["posts"] for alert in post["alerts"] if alert["labels"]["alertname"] == "GpuDown"
    ]
    assert alert["labels"]["instance"] == "node1"
    assert alert["annotations"]["remedy"]


def test_a_mail_says_that_it_recovered(story):
    assert any(one.startswith("Subject: recovered: node1 GpuDown") for one in story["after"])


def test_a_proof_that_fails_arrives_and_recovers(server):
    prove("node1", verify_expected_gpus=3)
    (first,) = wait(lambda: [one for one in mail(server) if "node1 ProofFailed" in one], 120)
    assert first.startswith("Subject: critical: node1 ProofFailed")
    assert "the proof failed (gpu-count)" in first
    assert "Guide:     https://" in first
    assert "#prooffailed" in first
    prove("node1")
    assert wait(lambda: not any(one["labels"].get("check") == "gpu-count" for one in alerts(server)), 60)


def test_the_power_of_each_gpu_is_recorded(server):
    """It is simulated, and its counter stands still."""
    query = "9090/api/v1/query?query=gpulab:gpu_watts"
    found = wait(lambda: ask(server, query)["result"], 180)
    assert [series["value"][1] for series in found] == ["0", "0"]
    assert len({series["metric"]["uuid"] for series in found}) == 2


def test_the_page_of_the_month_asks_this_server(tmp_path):
    """What is recorded once an hour may not be there yet; the page says so, and has no zeros for it."""
    run = playbook("playbooks/usage.yml", usage_directory=str(tmp_path))
    assert run.status == 0, run.output
    assert set(run.changed.values()) == {0}, run.output
    (file,) = tmp_path.glob("*/usage.json")
    data = json.loads(file.read_text(encoding="utf-8"))
    assert [source["name"] for source in data["sources"]] == ["Slurm", "Prometheus, asked from server"]
    assert "no answer" not in data["sources"][1]["text"]
    assert data["sources"][1]["known"] or data["total"]["used"] is None


def test_a_node_that_cannot_be_reached_stays_a_target(server):
    run = playbook(PLAYBOOK, "-e", json.dumps({"ansible_port": 2}), "-l", "gpu-nodes")
    assert "GPULAB-H001" in run.output or "UNREACHABLE" in run.output.upper()
    assert server.file("/etc/prometheus/gpulab/targets/node1.yml").exists


def test_a_second_run_changes_nothing():
    run = playbook(PLAYBOOK)
    assert run.status == 0, run.output
    assert run.changed == {"server": 0, "node1": 0}, run.output
    assert "canary" not in run.output


def test_somebodys_own_configuration_is_not_replaced(server):
    server.check_output("echo '# mine' >> /etc/prometheus/prometheus.yml")
    before = server.check_output("find /etc/prometheus /etc/systemd -type f -exec sha256sum {} +")
    run = playbook(PLAYBOOK)
    assert "GPULAB-F080" in run.output
    assert "/etc/prometheus/prometheus.yml" in run.output
    assert server.check_output("find /etc/prometheus /etc/systemd -type f -exec sha256sum {} +") == before
    server.check_output("sed -i '$d' /etc/prometheus/prometheus.yml")


def test_it_can_be_taken_away(server):
    run = playbook(PLAYBOOK, "-l", "monitoring_server", monitoring_server_state="absent")
    assert run.status == 0, run.output
    assert server.run("find /etc/systemd -type f -o -type l | sort | diff /root/before -").stdout == ""
    assert server.run("ls /usr/bin/prometheus /etc/prometheus").stdout == ""
