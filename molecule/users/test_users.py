"""People, as the node and sshd see them."""

import json
import os
from pathlib import Path

import pytest
import scenario

USERS = "playbooks/users.yml"
SSH = "ssh -o StrictHostKeyChecking=no -o BatchMode=yes -o LogLevel=ERROR -i"
ADA = {
    "name": "ada", "uid": 20001, "groups": ["vision"], "until": "2099-09-30",
    "keys": [(Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"]) / "ada.pub").read_text().strip()],
}  # fmt: skip
OLD = {"name": "old", "uid": 1500, "groups": ["vision"]}
EVE = {"name": "eve", "uid": 20003}
BEN = {"name": "ben", "uid": 20002, "groups": ["vision"]}
LEAVING = {**BEN, "state": "leaving", "heir": "ada"}


def logs_in(host, name, key="/root/ada"):
    return host.run(f"{SSH} {key} {name}@127.0.0.1 id -u || true").stdout.strip()


def play(*people, **further):
    return scenario.playbook(USERS, users_people=list(people), **further)


def test_an_account_has_its_numbers_its_home_and_its_groups(host):
    assert host.check_output("id ada") == "uid=20001(ada) gid=20001(ada) groups=20001(ada),21000(vision)"
    assert host.check_output("stat --format=%a:%U:%G /home/ada") == "700:ada:ada"
    assert host.check_output("chage --list --iso8601 ada | grep '^Account expires'").endswith(": 2099-10-01")


def test_a_key_of_the_list_and_one_of_the_users_own_file_let_in(host):
    assert logs_in(host, "ada") == "20001"
    assert logs_in(host, "old", "/root/old") == "1500"
    assert logs_in(host, "eve") == ""


def test_what_was_there_keeps_all_but_its_place_in_the_groups_of_the_list(host):
    assert host.check_output("id old") == "uid=1500(old) gid=1500(old) groups=1500(old),1600(theirs),21000(vision)"
    assert host.check_output("stat --format=%a /home/old") == "755"
    assert host.check_output("getent passwd old | cut -d: -f5") == "from before"


def test_a_home_that_is_a_link_is_left(host):
    assert host.file("/home/eve").is_symlink
    assert host.check_output("stat --format=%a:%U /root/trap; ls --almost-all /root/trap") == "711:root"


def test_a_session_has_the_limits_of_the_slice(host):
    limits = "systemctl show --property=MemoryMax,TasksMax user-20001.slice"
    assert host.check_output(f"{SSH} /root/ada ada@127.0.0.1 {limits}").split() == [
        "MemoryMax=314572800",
        "TasksMax=500",
    ]


def test_who_logs_in_reads_that_gpus_are_shared_but_where_slurm_gives_them_out(host):
    login = "su --login ada -c 'bash --login -i -c true 2>&1'"
    assert "shared" not in host.check_output(login)  # there is no GPU
    host.check_output("touch /dev/nvidia0")
    assert "shared by manners" in host.check_output(login)
    host.check_output("install -D /dev/null /usr/sbin/slurmd")
    assert "shared" not in host.check_output(f"{login}; rm /usr/sbin/slurmd /dev/nvidia0")


def test_who_is_in_no_list_is_told_and_left():
    run = scenario.playbook(USERS, "--check")
    assert run.status == 0, run.output
    assert "does not name these accounts, which were left alone: stranger" in run.output
    assert set(run.changed.values()) == {0}


@pytest.mark.parametrize(
    ("people", "told"),
    [
        ([{**OLD, "uid": 20005}], "'old' has uid 1500 here, with"),
        ([{"name": "new", "uid": 20001}], "uid 20001 of 'new' is 'ada''s here"),
        ([{"name": "ada", "uid": 20001, "state": "absent"}], "files on local disks"),
        ([{"name": "ada\nroot:x:0:0::/:/bin/sh", "uid": 20001}], "GPULAB-I"),
        ([ADA, {"name": "new", "uid": 20005, "keys": ADA["keys"]}], "is a key of 'ada', too"),
    ],
)
def test_a_refused_list_changes_nothing(people, told):
    accounts = "cat /etc/passwd /etc/group /etc/shadow; ls /etc/ssh/gpulab-keys"
    before = scenario.each(lambda host: host.check_output(accounts))
    run = play(BEN, *people)
    assert run.status != 0
    assert told in " ".join(run.output.split())
    assert scenario.each(lambda host: host.check_output(accounts)) == before


def site(*options):
    """Run what of site.yml gives people to the nodes."""
    run = scenario.playbook("site.yml", "--tags=users", *options)
    assert run.status == 0, run.output
    return run


BY_HAND = {
    "echo '#' >> /etc/ssh/gpulab-keys/ada": "has other keys",
    "chage --expiredate 1 ada": "has an account that ends on another day",
    "gpasswd --delete ada vision": "is not in the group vision",
}


def test_site_yml_gives_people_to_the_nodes_and_names_what_somebody_changed():
    site()
    assert set(site().changed.values()) == {0}
    for command in BY_HAND:
        scenario.everywhere(command)
    preview = " ".join(scenario.playbook("playbooks/plan.yml", "--tags=users").output.split())
    proof = " ".join(scenario.playbook("playbooks/verify.yml", verify_fail_on="warn").output.split())
    for text in BY_HAND.values():
        assert text in preview
        assert text in proof
    assert "users-accounts" in proof
    assert "1 account with a number of people's in no list: uid 20099" in proof
    assert "stranger" not in proof
    assert min(site().changed.values()) > 0
    for host in scenario.nodes().values():
        assert logs_in(host, "ada") == "20001"
        assert "vision" in host.check_output("id ada")
    assert set(site().changed.values()) == {0}
    assert set(site("--check").changed.values()) == {0}


def test_the_proof_takes_limits_from_systemd_and_not_from_the_file():
    directory = "/run/systemd/system/user-20001.slice.d"
    scenario.everywhere(f"mkdir {directory} && printf '[Slice]\\nMemoryMax=infinity\\n' > {directory}/60-others.conf")
    scenario.everywhere("systemctl daemon-reload")
    proof = scenario.playbook("playbooks/verify.yml", verify_fail_on="warn").output
    scenario.everywhere(f"rm -r {directory} && systemctl daemon-reload")
    assert "warn users-limits: sessions of ada have MemoryMax infinity" in " ".join(proof.split())
    proof = scenario.playbook("playbooks/verify.yml", verify_fail_on="warn").output
    assert "warn users-limits" not in proof


def test_after_the_quick_playbook_site_yml_takes_nothing_for_a_change_by_hand():
    assert play(ADA, OLD, {**EVE, "groups": ["vision"]}).status == 0
    run = scenario.playbook("site.yml", "--tags=users", users_people=[ADA, OLD, {**EVE, "groups": ["vision"]}])
    assert run.status == 0, run.output
    assert "not by gpulab" not in run.output
    assert set(run.changed.values()) == {0}


def test_keys_that_sshd_would_not_read_are_refused():
    others = "/etc/ssh/sshd_config.d/00-others.conf"
    scenario.everywhere(f"echo 'AuthorizedKeysFile .ssh/authorized_keys' > {others}")
    run = play(ADA, OLD, EVE)
    scenario.everywhere(f"rm {others}")
    assert "GPULAB-U007" in run.output


def test_somebody_leaves_and_nothing_is_lost():
    run = play(ADA, OLD, EVE, BEN)
    assert run.status == 0, run.output
    for done in (
        "su ben -c 'echo work > ~/thesis; mkdir ~/.aws; echo secret > ~/.aws/token; ln -s /etc/shadow ~/.aws/link'",
        "echo '0 0 1 1 * true' | crontab -u ben -",
        "su ben -c 'echo true | at now + 30 days'",
        "mkdir -p /var/lib/systemd/linger && touch /var/lib/systemd/linger/ben",
        "systemd-run --uid=ben --unit=bens sleep infinity",
    ):
        scenario.everywhere(done)
    assert "'ben' runs 1 processes" in " ".join(play(ADA, OLD, EVE, {**BEN, "state": "absent"}).output.split())
    run = play(ADA, OLD, EVE, LEAVING)
    assert run.status == 0, run.output
    assert "ben leaves and still runs 1 processes" in run.output
    for host in scenario.nodes().values():
        assert host.check_output("systemctl is-active bens.service") == "active"
        assert host.check_output("cat /home/ben/thesis") == "work"
        assert host.check_output("getent shadow ben | cut -d: -f8") == "1"
        assert host.run("crontab -l -u ben").rc != 0
        assert host.check_output("ls /var/spool/cron/atjobs | grep -c ^a || true") == "0"
        assert not host.file("/var/lib/systemd/linger/ben").exists
        kept = host.check_output("cd /var/lib/gpulab/users/ben && stat --format=%a . crontab at-* && cat crontab")
        assert kept.splitlines()[:3] == ["700", "600", "600"]
        assert "0 0 1 1 * true" in kept
    assert set(play(ADA, OLD, EVE, LEAVING).changed.values()) == {0}


def hand_over():
    """Return the commands with which docs/people.md hands Ben's files over to Ada, but for that which only looks."""
    text = (scenario.PROJECT / "docs/people.md").read_text().partition("### The heir gets the files")[2]
    commands = [line.partition("#")[0].strip() for line in text.split("```")[1].strip().splitlines()]
    return [command for command in commands if not command.startswith("find / ")]


def test_an_account_goes_only_when_nothing_is_left_and_its_number_stays():
    scenario.everywhere("systemctl stop bens.service")
    for command in hand_over() * 2:
        scenario.everywhere(command)
    for host in scenario.nodes().values():
        assert host.check_output("cd /home/from-ben && stat --format=%U:%G:%a . && cat thesis") == "ada:ada:700\nwork"
        assert host.check_output("cat /home/ben/.aws/token; ls /home/from-ben") == "secret\nthesis"
    scenario.everywhere("rm -r --one-file-system /home/ben")
    absent = {**BEN, "state": "absent"}
    run = play(ADA, OLD, EVE, absent)
    assert run.status == 0, run.output
    for host in scenario.nodes().values():
        assert host.run("id ben").rc != 0
        assert json.loads(host.file("/var/lib/gpulab/users.json").content_string)["ben"] == [BEN["uid"]]
    assert set(play(ADA, OLD, EVE, absent).changed.values()) == {0}
    told = play(ADA, OLD, EVE, {"name": "new", "uid": BEN["uid"]}).output
    assert "was 'ben''s, who left" in " ".join(told.split())


def test_sessions_end_where_they_are_to():
    scenario.everywhere("loginctl enable-linger eve; sleep 2; loginctl user-status eve > /dev/null")
    run = play(ADA, OLD, {**EVE, "state": "leaving"}, users_leave_now=True)
    assert run.status == 0, run.output
    scenario.everywhere("sleep 3; ! pgrep --uid eve")


def test_an_own_file_that_leads_to_the_keys_of_root_gives_nothing_away():
    scenario.everywhere("su ada -c 'mkdir -p ~/.ssh && ln -sf /etc/ssh/gpulab-keys/ada ~/.ssh/authorized_keys'")
    run = play({**ADA, "keys": []}, OLD, {**EVE, "state": "leaving"})
    assert run.status == 0, run.output
    for host in scenario.nodes().values():
        assert logs_in(host, "ada") == ""
        assert host.file("/home/ada/.ssh/authorized_keys").is_symlink


CLIENT = """#!/bin/sh
case $0 in *scancel) exec rm -f /run/waits ;; esac
test ! -e /run/down || exec sleep 600
echo 7 eve RUNNING
cat /run/waits 2>/dev/null || true
"""


def test_jobs_that_wait_in_slurm_are_cancelled_and_no_run_hangs_where_nobody_answers():
    """The client is a stand-in; molecule/slurm has the real one."""
    for name in ("squeue", "scancel"):
        path = f"/usr/local/bin/{name}"
        scenario.everywhere(f"printf '%s' '{CLIENT}' > {path} && chmod 755 {path}")
    scenario.everywhere("echo 8 eve PENDING > /run/waits; touch /run/down")
    gone = [ADA, OLD, {**EVE, "state": "leaving"}]
    down = play(*gone)
    assert (down.status, "Slurm does not answer" in " ".join(down.output.split())) == (0, True), down.output
    scenario.everywhere("rm /run/down; test -e /run/waits")
    run = play(*gone)
    assert "eve leaves and still has jobs of Slurm: 7" in " ".join(run.output.split())
    scenario.everywhere("! test -e /run/waits; rm /usr/local/bin/squeue /usr/local/bin/scancel")
    assert set(play(*gone).changed.values()) == {0}


def test_scratch_ages_as_the_guide_has_it(host):
    """What is old is gone; what came with an old date, was written, or is behind a link or a lock, is there."""
    text = (scenario.PROJECT / "docs/people.md").read_text().partition("# /etc/tmpfiles.d/scratch.conf\n")[2]
    lines = text.partition("```")[0].replace("60d", "3s")
    host.check_output("mkdir -p /scratch/docker /scratch/locked /elsewhere && ln -s /elsewhere /scratch/link")
    host.check_output("touch /scratch/old /scratch/written /scratch/docker/layer /scratch/locked/file /elsewhere/file")
    host.check_output("sleep 4; touch /scratch/written; touch -d 2020-01-01 /scratch/unpacked")
    clean = f"printf '%s' '{lines}' | flock /scratch/locked systemd-tmpfiles --clean -"
    host.check_output(clean)
    left = host.check_output("cd / && find scratch elsewhere -type f | sort; rm -r /scratch /elsewhere").split()
    kept = ["docker/layer", "locked/file", "unpacked", "written"]
    assert left == ["elsewhere/file", *(f"scratch/{name}" for name in kept)]


def test_removal_takes_limits_and_keys_and_leaves_people():
    run = scenario.playbook(USERS, users_state="absent")
    assert run.status == 0, run.output
    for host in scenario.nodes().values():
        assert host.check_output("id -u ada") == "20001"
        assert not host.file("/etc/systemd/system/user-.slice.d/50-gpulab-users.conf").exists
        assert not host.file("/etc/ssh/sshd_config.d/10-gpulab-users.conf").exists
        assert not host.file("/etc/ssh/gpulab-keys").exists
        assert not host.file("/etc/profile.d/gpulab-users.sh").exists
    assert set(scenario.playbook(USERS, users_state="absent").changed.values()) == {0}
