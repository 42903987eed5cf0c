"""The controller is killed; remove.yml then leaves the node as it was, or the next run brings it where it belongs.

It is killed a second into each task that changes something, which a first run tells: GPULAB_KILLS says in how many of
them, spread over all, or all; those between get their turn on other days. And it is killed at random moments of the
play that changes the node: GPULAB_RANDOM_KILLS says at how many, GPULAB_KILL_SEED repeats them. The driver is one of a
stand-in for NVIDIA's repository, which saves time.
"""

import json
import os
import random
import signal
import time

import pytest
from laboratory import ROOT

NODES = [{"name": "node12", "release": "bookworm", "gpu": "rtx4090-2", "groups": ["workstations"]}]
TAGS = os.environ.get("GPULAB_KILL_TAGS", "base,network,tuning,users,nouveau,nvidia_driver,monitoring")
KILLS = os.environ.get("GPULAB_KILLS", "6")
RANDOM_KILLS, SEED = int(os.environ.get("GPULAB_RANDOM_KILLS", "4")), os.environ.get("GPULAB_KILL_SEED", "gpulab")
VERSION = "595.91.07"
# What is enabled, and what gpulab remembers, beside packages, holds and files.
LIST_NODE = f"""{(ROOT / "tests/list_node.sh").read_text()}
systemctl list-unit-files --no-legend --state=enabled | cut -d' ' -f1
find /var/lib/gpulab -name '*.json' ! -path '*/steps/*' ! -name users.json 2>/dev/null || true
"""
# What keeps the clock stays by design, and so do people and their numbers; what python3-apt of the bare node recommends
# and dkms brings stays with APT.
STAYS = "chrony lsb-release"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcH ada@laptop"
STILL_AT_WORK, SECONDS = "GPULAB-S012", 900


@pytest.fixture(scope="module")
def wishes(lab):
    """Serve the stand-in, and return the variables of a run as one argument."""
    wanted = {
        **lab.serve_drivers("debian12", VERSION),
        "nvidia_driver_version": VERSION,
        "network_state": "present",
        "network_firewall": "nftables",
        "monitoring_state": "present",
        "tuning_overrides": {"vm.swappiness": 3},
        "users_groups": [{"name": "vision", "gid": 21000}],
        "users_people": [{"name": "ada", "uid": 20001, "groups": ["vision"], "keys": [KEY]}],
        "users_limits": {"memory": "50%"},
    }
    return "-e", json.dumps(wanted)


def site(lab, wishes, **environment):
    """Run site.yml with the callback that counts and kills."""
    return lab.play(
        "site.yml",
        "--tags",
        TAGS,
        *wishes,
        timeout=SECONDS,
        ANSIBLE_CALLBACK_PLUGINS=str(ROOT / "tests/lab/callback_plugins"),
        ANSIBLE_CALLBACKS_ENABLED="kill_at",
        **environment,
    )


def remove(lab):
    """Run remove.yml, again for as long as it says that a step of the killed run is at work."""
    deadline = time.monotonic() + SECONDS
    while (run := lab.play("playbooks/remove.yml", timeout=SECONDS)).rc != 0 and STILL_AT_WORK in run.output:
        assert time.monotonic() < deadline
        time.sleep(5)
    return run


def left(lab, bare):
    """Return what is on the node and was not, or is no longer there."""
    differing = set(bare.splitlines()) ^ set(lab.node("node12").run(LIST_NODE, timeout=300).splitlines())
    return sorted(differing)


def chosen(tasks):
    """Return some of the tasks, spread over all; which, the day decides."""
    if KILLS == "all" or int(KILLS) >= len(tasks):
        return tasks
    stride = -(-len(tasks) // int(KILLS))
    return tasks[int(time.time() // 86400) % stride :: stride]


@pytest.fixture(scope="module")
def bare(lab):
    """Return what is on the bare node."""
    node = lab.node("node12")
    node.run(f"apt-get update && apt-get install --yes {STAYS}", timeout=300)
    return node.run(LIST_NODE, timeout=300)


def test_whatever_a_killed_run_had_brought_is_taken_away_again(lab, wishes, bare, say, tmp_path):
    notes = tmp_path / "tasks"
    run = site(lab, wishes, GPULAB_TASKS=str(notes))
    assert run.rc == 0, run.output[-3000:]
    tasks = dict(line.split("\t") for line in notes.read_text().splitlines())
    assert remove(lab).rc == 0
    assert left(lab, bare) == []
    found = {}
    for number in chosen(list(tasks)):
        killed = site(lab, wishes, GPULAB_KILL_AT=number)
        removed = remove(lab)
        failed = [run.output[-2000:] for run, rc in ((killed, -signal.SIGKILL), (removed, 0)) if run.rc != rc]
        amiss = failed or left(lab, bare)
        say(f"killed in task {number}, {tasks[number]} ({killed.rc}): {amiss or 'as it was'}")
        if amiss:
            found[tasks[number]] = amiss
    assert found == {}


def test_after_a_kill_at_any_moment_the_next_run_or_the_removal_ends_where_it_belongs(lab, wishes, bare, say, tmp_path):
    length, moments = tmp_path / "seconds", random.Random(SEED)  # noqa: S311 - the same moments again, by the seed
    run = site(lab, wishes, GPULAB_APPLY_SECONDS=str(length))
    assert run.rc == 0, run.output[-3000:]
    whole = lab.node("node12").run(LIST_NODE, timeout=300)
    assert remove(lab).rc == 0
    assert left(lab, bare) == []
    found = {}
    for number in range(RANDOM_KILLS):
        moment = round(moments.uniform(0, float(length.read_text())), 1)
        killed = site(lab, wishes, GPULAB_KILL_AFTER=str(moment))
        amiss = [] if killed.rc == -signal.SIGKILL else [killed.output[-2000:]]
        if number % 2 == 0:  # every other time it is finished first
            finished = site(lab, wishes)
            amiss += left(lab, whole) if finished.rc == 0 else [finished.output[-2000:]]
        removed = remove(lab)
        amiss += left(lab, bare) if removed.rc == 0 else [removed.output[-2000:]]
        say(f"killed {moment} s into Apply: {amiss or 'as it belongs'}")
        if amiss:
            found[moment] = amiss
    assert found == {}
