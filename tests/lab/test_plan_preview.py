"""playbooks/plan.yml on two bare nodes: it says what would change, refuses one of them, and changes nothing."""

import json
import re

import jsonschema
import pytest
from ansible_collections.gpulab.node.plugins.plugin_utils.options import forms, load
from laboratory import ROOT

pytestmark = pytest.mark.story
NODES = [
    {"name": "node12", "release": "bookworm", "gpu": "rtx4090-2", "groups": ["workstations"]},
    {"name": "node13", "release": "trixie", "gpu": "a100-pcie-2", "groups": ["training_servers"]},
]
NAMES = [node["name"] for node in NODES]
SCHEMA = json.loads((ROOT / "docs/preview.schema.json").read_text(encoding="utf-8"))
# Every file but the kernel's, those in memory, and what systemd notes of its own accord and of logins.
FILE_TREE = r"""
own="-path /proc -o -path /sys -o -path /dev -o -path /run -o -path /tmp -o -path /var/tmp -o -path /var/log/journal"
own="$own -o -path /var/log/wtmp -o -path /var/log/lastlog -o -path /var/lib/systemd -o -path /var/lib/lastlog"
find / -xdev \( $own \) -prune -o -printf '%p %y %m %U:%G %s %T@ %C@ %l\n' | sort
find /etc /boot /root /home /var -xdev \( $own \) -prune -o -type f -print0 | sort -z | xargs -0 sha256sum
"""
# Package lists with the driver in them, as on a node whose owner has enabled Debian's non-free components.
WITH_LISTS = r"""
files=$(ls /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null || true)
sed -i -E '/^(deb|Components:) /s/ main.*/ main contrib non-free non-free-firmware/' $files
apt-get update
"""


def preview(lab, *arguments):
    """Run plan.yml; fail when it changed a file on a node; return its run and, by host, what it wrote as JSON."""
    path = lab.directory / "preview.json"
    path.unlink(missing_ok=True)
    for name in NAMES:
        lab.node(name).run("runuser -u admin -- sudo true")  # sudo notes in the home that it was used once
        lab.node(name).run("systemctl stop '*.timer'")  # at midnight, dpkg's list is copied to /var/backups
    before = [lab.node(name).run(FILE_TREE) for name in NAMES]
    run = lab.play("playbooks/plan.yml", "-e", f"plan_json={path}", *arguments)
    after = [lab.node(name).run(FILE_TREE) for name in NAMES]
    for name, was, is_now in zip(NAMES, before, after):
        assert sorted(set(was.splitlines()) ^ set(is_now.splitlines())) == [], name
    document = json.loads(path.read_text(encoding="utf-8"))
    jsonschema.validate(document, SCHEMA)
    return run, {host["name"]: host for host in document["hosts"]}


def test_the_comparison_sees_a_file_that_is_touched(lab):
    node = lab.node("node12")
    before = node.run(FILE_TREE)
    node.run("touch /etc/hostname")
    assert node.run(FILE_TREE) != before


def test_bare_nodes_would_get_a_driver_of_unknown_size_and_reboot(lab):
    run, hosts = preview(lab)
    assert run.rc == 0, run.output[-3000:]
    for name in NAMES:
        assert hosts[name]["state"] == "changes"
        assert hosts[name]["simulated"]
        assert hosts[name]["download"]["bytes"] is None
        assert "nvidia-kernel-dkms" in str(hosts[name]["download"]["not_listed"])
        assert hosts[name]["reboot"]["needed"]
        assert "nouveau" in hosts[name]["reboot"]["because"][0]
        assert hosts[name]["users"]["state"] == "idle"
        assert re.search(rf"^ +{name} \(simulated\) +would change .* not known yet ", run.output, re.MULTILINE)


def test_a_node_that_is_refused_fails_the_run_and_hides_no_other(lab):
    run, hosts = preview(lab, "-e", '{"nvidia_driver_branch": "550"}')
    assert run.rc == 2
    assert {name: host["state"] for name, host in hosts.items()} == {"node12": "refused", "node13": "changes"}
    assert hosts["node12"]["refusal"]["code"] == "P008"
    assert "GPULAB-P008" in run.said_of("node12")


def test_the_download_is_known_once_the_package_lists_are_there(lab):
    for name in NAMES:
        lab.node(name).run(WITH_LISTS, timeout=300)
    run, hosts = preview(lab)
    assert run.rc == 0, run.output[-3000:]
    for name in NAMES:
        assert hosts[name]["download"]["not_listed"] == []
        assert hosts[name]["download"]["bytes"] > 10_000_000
        (install,) = (change["objects"] for change in hosts[name]["changes"] if change["action"] == "install")
        assert any(text.startswith("nvidia-kernel-dkms ") for text in install)


def test_somebody_who_computes_there_is_named_and_keeps_the_node_from_a_reboot(lab):
    # A job that was started before its driver went: a device file without a driver behind it is all it takes.
    lab.node("node12").start("mknod /dev/nvidia0 c 1 3; exec sleep 600 < /dev/nvidia0")
    run, hosts = preview(lab)
    assert run.rc == 0, run.output[-3000:]
    assert [(user["user"], user["command"]) for user in hosts["node12"]["users"]["who"]] == [("root", "sleep")]
    assert hosts["node12"]["reboot"]["refusal"]["code"] == "H030"
    assert "but refused now: GPULAB-H030" in run.output
    assert hosts["node13"]["reboot"]["refusal"] is None


def test_what_only_a_run_could_start_or_wait_for_keeps_no_preview(lab):
    """A firewall whose unit is not there yet, and a driver that is to be changed once the job ends."""
    wishes = {"network_state": "present", "network_firewall": "nftables", "nvidia_driver_change": "wait"}
    run, hosts = preview(lab, "-e", json.dumps(wishes))
    assert run.rc == 0, run.output[-3000:]
    assert {host["state"] for host in hosts.values()} == {"changes"}


CANARY = "canary-in-a-secret"


def secrets():
    """Return a value with the canary for every option that may hold a secret, by what its form takes."""
    known, found = load().options, {}
    for place, form in forms.OPTIONS.items():
        option, _dot, field = place.partition(".")
        inner = next((one for _name, one in form.entries if one.secret), None)
        if not (form.secret or inner) or form.elsewhere:  # elsewhere: a password is refused there
            continue
        if option.startswith(("monitoring_server_", "slurm_", "users_")):  # of other playbooks; keys that are public
            continue
        texts = (f"http://user:{CANARY}@192.0.2.1:3128", CANARY)
        text = next(one for one in texts if (inner or form).fits(one))
        if not field:
            found[option] = {"list": [text], "dict": {"name": text}}.get(known[option].type, text)
        elif field != "replace":  # it holds lines of a file, not values of its own
            (environment,) = found.setdefault(option, [{"name": "secret", "packages": ["python=3.12"]}])
            environment[field] = {"API_KEY": text} if inner else [text]
    return found


def test_no_secret_is_shown_or_kept_by_a_whole_run(lab):
    held = secrets()
    assert {"base_https_proxy", "secure_boot_mok_password", "conda_environments", "environments_uv_url"} <= held.keys()
    path = lab.directory / "secrets.json"
    beside = {"conda_micromamba_sha256": "0" * 64, "preflight_reach_sources": False}  # nobody listens there
    beside["gpulab_environments"] = [{"name": "vision", "pytorch": "2.9", "index": "cpu"}]
    path.write_text(json.dumps({**held, **beside}), encoding="utf-8")
    for playbook, callback in (("site.yml", "ansible.builtin.default"), ("playbooks/plan.yml", "gpulab.node.progress")):
        arguments = ("-l", "node12", "--check", "--diff", "-vvv", "-e", f"@{path}")
        run = lab.play(playbook, *arguments, ANSIBLE_STDOUT_CALLBACK=callback)
        assert run.rc == 0, run.output[-3000:]
        assert "192.0.2.1" in run.output
        assert CANARY not in run.output
    run = lab.play(
        "site.yml", "-l", "node12", "--check", "-vvv", "-e", f"@{path}", "-e", "preflight_reach_sources=true"
    )
    assert "GPULAB-H218" in run.said_of("node12")
    assert CANARY not in run.output
    assert not lab.node("node12").holds(f"grep -rqsF {CANARY} /var/log || journalctl --no-pager | grep -qF {CANARY}")
