"""Nodes that were taken away, and are back as they were: the same capture before and after."""

import functools
import json
import os
import re
import shlex

import pytest
from fresh import take_away
from scenario import EPHEMERAL, PROJECT, cut_off, each, nodes, playbook, succeeds

CAPTURES = EPHEMERAL / "captures"
REBUILD = "playbooks/rebuild.yml"
# The roles whose work takes long; other scenarios show them. What is left of site.yml runs.
LONG = "nvidia_driver,secure_boot,cuda,nccl,environments,conda,reboot,gpu_settings,container_toolkit,monitoring"
SKIPPED = f"--skip-tags={LONG}"
UNIT_FILES = "find /etc/systemd/system /etc/systemd/user -printf '%p %y %m %l\\n' | grep -v '/gpulab' | sort"
REBUILD_STATE = PROJECT / "plugins/plugin_utils/capture/rebuild_state.py"
STATES = re.findall(r'^    "(\w+)",', REBUILD_STATE.read_text(), re.MULTILINE)
# After which states the controller is killed, beside once among the packages; GPULAB_KILLS=all takes every one.
KILLS = STATES[STATES.index("identity") : STATES.index("proven")] if os.environ.get("GPULAB_KILLS") == "all" else ()
# What has to be equal before and after, by a command each.
SEEN = {
    "host keys": "cat /etc/ssh/ssh_host_*",
    "machine-id": "cat /etc/machine-id /etc/hostname",
    "people": "grep -e ^li: -e ^instrument: /etc/passwd /etc/group /etc/shadow",
    "home": "find /home/li /usr/local/share -path /home/li/venv -prune -o -printf '%p %m %U %G %l\\n' | sort",
    "keys of people": "cat /home/li/.ssh/* /home/li/.netrc /home/li/thesis/one.tex",
    "cron": "crontab -u li -l; cat /etc/cron.d/weekly-report; stat -c '%n %a %U %G' /etc/cron.d/* /var/spool/cron/*/*",
    "units": UNIT_FILES,
    "enabled": "systemctl is-enabled lab-camera.service cron.service atd.service docker.service",
    "clock of jobs": "systemctl is-active cron.service",
    "linger": "ls /var/lib/systemd/linger",
    "holds": "apt-mark showhold",
    "manual": "apt-mark showmanual | sort",
    "packages": "dpkg-query --show --showformat='${Package} ${db:Status-Status}\\n' | grep installed | sort",
    "sources": "cat /etc/apt/sources.list.d/lab.sources /etc/apt/preferences.d/kernel",
    "environment": "su li -c '/home/li/venv/bin/pip list --format=freeze' && stat -c %U /home/li/venv/bin/python",
    "data": "sha256sum /srv/data/measured; stat -c '%i %U' /srv/data/measured",
    "models": "cd /srv/models && find . -printf '%p %m %U %G %l\\n' | sort; cat hub/*/blobs/* locks/*/* | sha256sum",
    "odd files": "cd /etc/odd && find . -type f -exec sha256sum {} + | sort; getfacl one; getcap able; stat -c %h *",
    "edited": "tail -1 /etc/bash.bashrc; cat /etc/fstab",
}


def shown(host, command):
    """Return what a command prints; names of files may be any bytes."""
    return host.run(command).stdout_bytes.decode("utf-8", "backslashreplace")


def seen(host):
    return {name: shown(host, command) for name, command in SEEN.items()}


def tree(host):
    """Return what a rebuild that was refused must not have changed."""
    command = "find /etc /home /usr /var/lib/dpkg /var/spool -xdev -printf '%p %m %U %G %s %l\\n' | sort"
    return shown(host, command)


def rebuild(*options, **more):
    return playbook(REBUILD, SKIPPED, *options, **more)


def document(name, file):
    return json.loads((CAPTURES / name / file).read_text())


def came_to(state):
    """Tell whether the rebuild of every node came to a state, or farther."""
    files = [CAPTURES / name / "rebuild.json" for name in nodes()]
    states = [json.loads(file.read_text())["state"] for file in files if file.exists()]
    return len(states) == len(files) and all(STATES.index(one) >= STATES.index(state) for one in states)


@pytest.fixture(scope="session")
def story():
    """Tell the whole story once; return what was to be seen at each turn."""
    found = {"before": each(seen)}
    found["running"] = rebuild(look=tree)
    found["untouched"] = each(tree)
    take_away()
    found["fresh"] = each(seen)
    found["check"] = rebuild("--check", look=tree)
    machine = "mount --bind /etc/hostname /sys/class/dmi/id/product_uuid"
    able = all(succeeds(name, machine) for name in nodes())
    found["other machine"] = rebuild(look=tree) if able else None
    if able:
        each(lambda host: host.check_output("umount /sys/class/dmi/id/product_uuid"))
    found["cut off"] = cut_off(REBUILD, SKIPPED, when="test -e /usr/sbin/policy-rc.d", timeout=600)
    found["killed"] = [
        cut_off(REBUILD, SKIPPED, when=functools.partial(came_to, state), timeout=900).status for state in KILLS
    ]
    found["rebuild"] = rebuild(look=seen)
    found["documents"] = {name: (document(name, "rebuild.json"), document(name, "rebuilt.json")) for name in nodes()}
    found["second"] = rebuild(look=seen)
    found["still missing"] = {name: document(name, "rebuilt.json")["missing"] for name in nodes()}
    return found


@pytest.fixture
def name(host):
    return host.backend.host


def test_a_node_that_was_not_reinstalled_is_refused(story, name):
    assert story["running"].status == 2
    assert "GPULAB-R062" in story["running"].output
    assert story["running"].nodes[name] == story["untouched"][name]


def test_a_fresh_node_is_another_one(story, name):
    different = [one for one in SEEN if story["fresh"][name][one] != story["before"][name][one]]
    assert {"people", "cron", "holds", "environment", "edited", "models"} <= set(different)
    assert story["fresh"][name]["data"] == story["before"][name]["data"].replace(" li", " UNKNOWN")


def test_of_models_a_capture_has_the_locks_alone(story, name):
    assert "model.safetensors" in story["before"][name]["models"]
    captured = json.loads((CAPTURES / name / "latest/manifest.json").read_text())["files"]
    files = [one["path"] for one in captured if one["path"].startswith("/srv/models/") and "sha256" in one]
    assert files == [f"/srv/models/locks/models--acme--tiny/{'a' * 40}.sha256"]


def test_check_mode_says_what_would_be_done(story):
    assert "Restore the packages" in story["check"].output
    assert story["check"].status == 0, story["check"].output


def test_another_machine_is_refused(story):
    refused = story["other machine"]
    if refused is None:
        pytest.skip("this machine has no DMI to stand in for")
    assert refused.status == 2
    assert "GPULAB-R003" in refused.output


def test_a_rebuild_that_was_cut_off_goes_on_and_all_is_as_it_was(story, name):
    assert max([story["cut off"].status, *story["killed"]]) < 0
    assert story["rebuild"].status == 0, story["rebuild"].output
    assert story["rebuild"].nodes[name] == story["before"][name]


def test_what_did_not_come_back_is_named_and_nothing_else_differs(story, name):
    state, report = story["documents"][name]
    assert (state["state"], report["differences"]) == ("proven", [])
    source = "/etc/apt/sources.list.d/lab.sources"  # nobody answers there; the jobs' step puts it back all the same
    missing, later = ({one["name"] for one in found} for found in (report["missing"], story["still missing"][name]))
    assert missing | {source} == {"image lab/own:1", source, "/data"}
    assert source in missing or "jobs" in KILLS
    assert later == {"image lab/own:1", "/data"}
    assert "image lab/own:1" in story["rebuild"].output


def test_a_second_rebuild_changes_nothing(story, name):
    assert story["second"].status == 0, story["second"].output
    assert story["second"].changed[name] == 0, story["second"].output
    assert story["second"].nodes[name] == story["before"][name]


def test_no_secret_is_told(story):
    told = "".join(run.output for run in (story["check"], story["rebuild"], story["second"]))
    assert [word for word in ("CANARY", shlex.quote("li:$")) if word in told] == []
