"""A job of torchrun, which somebody starts on a node by hand, hangs: its owner is told, and nobody else.

PyTorch (its build without CUDA), torchrun, Gloo and the signals are real; who mails is a stand-in.
"""

import time

import pytest
from scenario import nodes, playbook

MAILS = "/var/tmp/mails"
SENDMAIL = f"#!/bin/sh\ncat >> {MAILS}\n"
RANKS = """
import time, torch, torch.distributed as dist
dist.init_process_group("gloo")
while True:
    dist.all_reduce(torch.ones(1000))
    time.sleep(0.1)
"""
LEFT = (
    "ls -d /etc/systemd/system/gpulab-hangs.service /usr/local/lib/gpulab-monitoring/hangs /run/gpulab-hangs"
    " /var/lib/prometheus/node-exporter/gpulab-hangs.prom 2>/dev/null"
)


def monitored(*options, **settings):
    """Set the monitoring of one node up, or away."""
    options = ["--tags=monitoring", "--limit=three", *options]
    run = playbook("site.yml", *options, **{"monitoring_state": "present", **settings})
    assert run.status == 0, run.output
    return run


@pytest.fixture(scope="module")
def node():
    found = nodes()["three"]
    found.check_output(f"cat > /usr/sbin/sendmail <<'END'\n{SENDMAIL}END\nchmod 755 /usr/sbin/sendmail; rm -f {MAILS}")
    found.check_output(f"cat > /var/tmp/ranks.py <<'END'\n{RANKS}END")
    for name in ("ada", "bob"):
        found.check_output(f"id {name} || useradd --create-home --comment {name}@lab.example {name}")
    yield found
    found.run("pkill -KILL -u ada; pkill -KILL -u bob; rm -f /usr/sbin/sendmail")


def started(node, name, port):
    """Start two ranks of somebody; return the process of the second one once it runs."""
    run = f"runuser -u {name} -- env OMP_NUM_THREADS=1 /opt/venvs/vision/bin/torchrun --nproc-per-node=2"
    node.check_output(f"setsid {run} --master-port={port} /var/tmp/ranks.py >/dev/null 2>&1 </dev/null &")
    end = time.monotonic() + 120
    while len(found := node.run(f"pgrep -u {name} -f '^[^ ]*python -u /var/tmp/ranks.py'").stdout.split()) < 2:
        assert time.monotonic() < end
        time.sleep(1)
    return max(found, key=int)


def mails(node, seconds):
    """Return what is mailed in this time, or until the first one came."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and not node.file(MAILS).exists:
        time.sleep(2)
    return node.run(f"cat {MAILS}; rm -f {MAILS}").stdout.split("To: ")[1:]


def test_it_is_off_until_somebody_wants_it(node):
    monitored()
    assert node.run(LEFT).stdout == ""
    told = monitored("--check", monitoring_tell_hangs={"after": 1, "start": 0})
    assert told.changed == {"three": 2}
    assert node.run(LEFT).stdout == ""


def test_the_owner_of_a_job_that_hangs_is_told_and_no_other(node):
    wish = {"monitoring_tell_hangs": {"after": 1, "start": 0}}
    assert monitored(**wish).changed == {"three": 2}
    assert monitored(**wish).changed == {"three": 0}
    started(node, "ada", 29601)
    second = started(node, "bob", 29602)
    time.sleep(40)
    node.check_output(f"kill -STOP {second}")
    (mail,) = mails(node, 240)
    assert mail.startswith("bob@lab.example\nSubject: a job that hangs\n")
    assert "rank 1 on three is stopped, and the others wait" in mail
    assert node.check_output(f"ps -o state= -p {second}") == "T"  # nobody has let it go on
    assert mails(node, 70) == []
    log = node.check_output("journalctl -t gpulab-watch --output=cat")
    assert "bob: job " in log
    assert "ada" not in log


def test_nothing_is_left_where_it_is_off_again(node):
    monitored()
    assert node.run(LEFT).stdout == ""
    monitored(monitoring_tell_hangs={"after": 1, "start": 0})
    assert node.run(LEFT).stdout != ""
    monitored(monitoring_state="absent")
    assert node.run(LEFT).stdout == ""
    assert mails(node, 0) == []
