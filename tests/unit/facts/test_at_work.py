"""Twelve kinds of work on one node are each named, and twenty kinds of healthy nodes are idle."""

import os
import shutil

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.facts import guests, logins, units, users
from ansible_collections.gpulab.node.plugins.module_utils.facts.people import at_work, people

from .test_people import LOGIND, MANAGER, OWN, SSHD, login, process

SINCE = "2023-11-14T22:15:23Z"
DOCKER = "4f" * 32
PODMAN = "5a" * 32
LXC_PLACE = "/lxc.payload.c1/system.slice/cron.service"
MONITORED = ("/system.slice/prometheus-node-exporter.service", "prometheus-node", 103)


@pytest.fixture
def node(tree):
    """Return a node with systemd and logind that gpulab reads by SSH, as user 1000, with what every node runs."""
    tree.file("/proc/stat", "cpu 1 2\nbtime 1700000000\n").directory("/run/systemd/system")
    process(tree, 1, "systemd", "/init.scope", parent=0, uid=0)
    process(tree, 2, "kthreadd", "/", parent=0, uid=0)
    process(tree, 3, "kworker/0:0", "/", parent=2, uid=0)
    process(tree, 100, "sshd", SSHD, uid=0)
    process(tree, 101, "systemd-journal", "/system.slice/systemd-journald.service", uid=0)
    process(tree, 102, "cron", "/system.slice/cron.service", uid=0)
    process(tree, 103, "agetty", "/system.slice/system-getty.slice/getty@tty1.service", uid=0)
    process(tree, 104, "atd", "/system.slice/atd.service", uid=0)
    mine = LOGIND.format(1000, 4)
    process(tree, 700, "sshd", mine, parent=100, uid=0)
    process(tree, 800, "sudo", mine, parent=700)
    process(tree, OWN, "python3", mine, parent=800, uid=0)
    login(tree, 4, REMOTE_HOST="192.0.2.1")
    return systemd(tree)


def shown(name, **fields):
    known = {
        "Id": name,
        "Type": "simple",
        "BusName": "",
        "ActiveState": "active",
        "Restart": "no",
        "FragmentPath": f"/usr/lib/systemd/system/{name}",
        "UnitFileState": "enabled",
        "TriggeredBy": "",
        "WantedBy": "multi-user.target",
        "RequiredBy": "",
        **fields,
    }
    return "".join(f"{key}={value}\n" for key, value in known.items())


JOURNAL = shown("systemd-journald.service", UnitFileState="static")
JOB = {"Type": "oneshot", "ActiveState": "activating", "UnitFileState": "static", "WantedBy": ""}


def systemd(tree, *unit_texts):
    return tree.prints("systemctl show", "\n".join([JOURNAL, *unit_texts]))


def said(tree):
    return [at_work(person) for person in people(tree.node(), OWN)]


def test_a_node_with_twelve_kinds_of_work_names_each(node):
    login(node, 5, uid=60321, leader=710, REMOTE_HOST="192.0.2.7")
    process(node, 710, "sshd", LOGIND.format(60321, 5), uid=0)
    process(node, 711, "bash", LOGIND.format(60321, 5), parent=710)
    process(node, 712, "tmux: server", LOGIND.format(60322, 6), uid=60322)
    process(node, 720, "python3", "/system.slice/jupyterhub.service", uid=60323)
    process(node, 721, "node", "/system.slice/system-code\\x2dserver.slice/code-server@wei.service", uid=60324)
    process(node, 730, "python3", f"/system.slice/docker-{DOCKER}.scope", uid=0)
    node.prints("docker inspect", f"{DOCKER} /prepare no\n")
    process(node, 731, "python3", f"/system.slice/docker-{'6b' * 32}.scope", uid=0)
    node.link("/proc/731/fd/3", "/dev/nvidia0")
    process(node, 740, "cron", LXC_PLACE, uid=100000)
    process(node, 750, "unattended-upgr", "/system.slice/apt-daily-upgrade.service", uid=0)
    process(node, 751, "restic", "/system.slice/backup.service", uid=0)
    systemd(node, shown("apt-daily-upgrade.service", **JOB), shown("backup.service", **JOB))
    process(node, 760, "cron", "/system.slice/cron.service", parent=102, uid=0)
    process(node, 761, "pg_dump", "/system.slice/cron.service", parent=760, uid=0)
    process(node, 770, "sh", "/system.slice/atd.service", parent=104, uid=60325)
    process(node, 780, "stress", "/system.slice/slurmd.service", uid=60326)
    found = users.in_use(users.read(node.node(), [], OWN))
    for named in (
        f"python3 (PID 731, user {users.user_name(os.getuid())}) since {SINCE}",
        "user60321, who is logged in (bash) since 2023-11-14T22:13:20Z",
        f"60322, logged out, still runs tmux: server since {SINCE}",
        f"60323 runs python3 in jupyterhub.service since {SINCE}",
        f"60324 runs node in code-server@wei.service since {SINCE}",
        f"root runs python3 in container prepare of Docker without restart policy since {SINCE}",
        f"root runs python3 in container {'6b' * 6} of Docker with unknown restart policy since {SINCE}",
        f"100000 runs cron in the LXC guest c1 since {SINCE}",
        f"root runs unattended-upgr in apt-daily-upgrade.service (a job at work) since {SINCE}",
        f"root runs restic in backup.service (a job at work) since {SINCE}",
        f"root runs pg_dump in cron.service since {SINCE}",
        f"60325 runs sh in atd.service since {SINCE}",
        f"60326 runs stress in slurmd.service since {SINCE}",
    ):
        assert named in found
    assert found.count(" since ") == 13


@pytest.mark.parametrize(
    ("place", "command", "uid", "unit", "prints"),
    [
        pytest.param("", "", 0, "", {}, id="nothing-but-the-system"),
        pytest.param("/system.slice/gpulab-metrics.service", "gpulab-metrics", 0, "", {}, id="gpulabs-metrics"),
        pytest.param("/system.slice/gpulab-nightly.service", "python3", 0, "", {}, id="gpulabs-nightly-proof"),
        pytest.param(*MONITORED, shown("prometheus-node-exporter.service"), {}, id="node-exporter"),
        pytest.param("/system.slice/docker.service", "dockerd", 0, shown("docker.service"), {}, id="docker-alone"),
        pytest.param(
            f"/system.slice/docker-{DOCKER}.scope", "dcgm-exporter", 0, "",
            {"docker inspect": f"{DOCKER} /dcgm unless-stopped\n"}, id="a-container-that-docker-starts",
        ),
        pytest.param(
            f"/docker/{DOCKER}", "grafana", 472, "", {"docker inspect": f"{DOCKER} /grafana always\n"},
            id="a-container-below-docker-itself",
        ),
        pytest.param(
            f"/machine.slice/libpod-{PODMAN}.scope/container", "nginx", 1000, "",
            {"podman inspect": f"{PODMAN} web no web.service\n"}, id="a-container-of-a-unit",
        ),
        pytest.param(
            "/kubepods.slice/kubepods-burstable.slice/kubepods-pod1.slice/cri-containerd-77.scope", "pause", 65535, "",
            {}, id="a-pod",
        ),
        pytest.param(
            "/system.slice/nvidia-persistenced.service", "nvidia-persiste", 143,
            shown("nvidia-persistenced.service", UnitFileState="static", WantedBy=""), {}, id="started-by-udev",
        ),
        pytest.param(
            "/system.slice/polkit.service", "polkitd", 997,
            shown("polkit.service", UnitFileState="static", WantedBy="", BusName="org.freedesktop.PolicyKit1"), {},
            id="started-by-the-bus",
        ),
        pytest.param(
            "/system.slice/upower.service", "upowerd", 0,
            shown("upower.service", UnitFileState="disabled", WantedBy="", BusName="org.freedesktop.UPower"), {},
            id="started-by-the-bus-and-disabled",
        ),
        pytest.param(
            "/system.slice/rpcbind.service", "rpcbind", 32,
            shown("rpcbind.service", UnitFileState="disabled", WantedBy="", TriggeredBy="rpcbind.socket"), {},
            id="started-by-a-socket",
        ),
        pytest.param(
            "/system.slice/system-serial\\x2dgetty.slice/serial-getty@ttyS0.service", "agetty", 0, "", {},
            id="a-serial-console",
        ),
        pytest.param("/system.slice/exporter.service", "exporter", 61442, shown("exporter.service"), {}, id="dynamic"),
        pytest.param(
            "/system.slice/NetworkManager-wait-online.service", "nm-online", 0,
            shown("NetworkManager-wait-online.service", Type="oneshot", ActiveState="activating"), {},
            id="what-waits-for-the-network",
        ),
        pytest.param("/system.slice/slurmd.service", "slurmd", 0, "", {}, id="slurmd-without-steps"),
        pytest.param(
            "/system.slice/slurmstepd.scope/system", "slurmstepd", 0, "", {}, id="the-scope-of-slurms-steps"
        ),
        pytest.param("/user.slice/user-1000.slice/user@1000.service/init.scope", "(sd-pam)", 1000, "", {}, id="sd-pam"),
        pytest.param(
            "/user.slice/user-60321.slice/user@60321.service/user.slice/podman-pause-1.scope", "catatonit", 60321, "",
            {}, id="what-podman-leaves-behind",
        ),
        pytest.param("/system.slice/crond.service", "anacron", 0, "", {}, id="anacron-that-waits-for-its-hour"),
        pytest.param("/docker", "sh", 0, "", {}, id="a-command-inside-a-node-that-is-a-container"),
        pytest.param(
            "/system.slice/unattended-upgrades.service", "unattended-upgr", 0, shown("unattended-upgrades.service"), {},
            id="unattended-upgrades-that-wait-for-a-shutdown",
        ),
    ],
)  # fmt: skip
def test_a_healthy_node_is_idle(node, place, command, uid, unit, prints):  # noqa: PLR0913, PLR0917
    if place:
        process(node, 760, command, place, uid=uid)
    for start, text in prints.items():
        node.prints(start, text)
    systemd(node, *filter(None, [unit]))
    node.file("/run/systemd/inhibit/1", "WHAT=shutdown\nMODE=delay\nUID=0\nPID=760\nWHO=Unattended\\x20Upgrades\n")
    assert users.in_use(users.read(node.node(), [], OWN)) == ""


@pytest.mark.parametrize("policy", ["no", "on-failure", ""])
def test_a_container_that_docker_does_not_start_counts(node, policy):
    process(node, 760, "python3", f"/system.slice/docker-{DOCKER}.scope", uid=0)
    node.prints("docker inspect", f"{DOCKER} /train {policy}\n")
    assert at_work({**people(node.node(), OWN)[0], "since": None}) == (
        "root runs python3 in container train of Docker without restart policy"
    )


@pytest.mark.parametrize(("starts", "counts"), [(True, False), (False, True)])
def test_podman_starts_containers_only_by_a_service_that_is_enabled(node, starts, counts):
    process(node, 760, "nginx", f"/machine.slice/libpod-{PODMAN}.scope/container", uid=0)
    node.prints("podman inspect", f"{PODMAN} web always \n")
    if starts:
        node.file(guests.PODMAN_RESTARTS)
    assert bool(people(node.node(), OWN)) is counts


@pytest.mark.parametrize("session", [LOGIND.format(1000, 2), "/system.slice/ssh.service", "/system.slice/cron.service"])
@pytest.mark.parametrize("policy", ["always", "no"])
def test_a_container_of_podman_in_a_login_session_is_judged_as_a_container(node, policy, session):
    """Podman leaves it there with --cgroups=disabled, and its monitor with --cgroups=no-conmon."""
    if "session-2" in session:
        login(node, 2, leader=690)
        process(node, 690, "sshd", session, parent=100, uid=0)
    process(node, 760, "conmon", session, uid=0)
    process(node, 761, "train", session, parent=760, uid=0)
    process(node, 762, "python3", session, parent=761, uid=1001)
    node.link("/proc/760/fd/0", "/dev/null")
    node.link("/proc/760/fd/11", f"/var/lib/containers/storage/vfs-containers/{PODMAN}/userdata/ctl")
    node.prints("podman inspect", f"{PODMAN} web {policy} \n").file(guests.PODMAN_RESTARTS)
    found = [at_work({**one, "since": None}) for one in people(node.node(), OWN)]
    named = "root runs conmon, python3, train in container web of Podman without restart policy"
    assert found == ([] if policy == "always" else [named])


@pytest.mark.parametrize(
    ("labels", "counts"),
    [
        ('{"nerdctl/name": "web", "containerd.io/restart.status": "running"}', False),
        ('{"nerdctl/name": "web"}', True),
        ("null", True),
    ],
)
def test_a_container_of_containerd_says_by_its_labels_whether_it_comes_back(node, labels, counts):
    process(node, 760, "nginx", f"/system.slice/nerdctl-{DOCKER}.scope", uid=0)
    node.prints("ctr", f'{{"Labels": {labels}}}')
    assert bool(people(node.node(), OWN)) is counts


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        pytest.param({"UnitFileState": "disabled", "WantedBy": ""}, units.BY_HAND, id="not-enabled"),
        pytest.param(
            {"UnitFileState": "static", "WantedBy": "", "FragmentPath": "/etc/systemd/system/a.service"},
            units.BY_HAND,
            id="never-to-be-enabled",
        ),
        pytest.param(
            {
                "UnitFileState": "disabled",
                "WantedBy": "",
                "Restart": "always",
                "FragmentPath": "/etc/systemd/system/a.service",
            },
            units.BY_HAND,
            id="starts-again-after-a-crash-only",
        ),
        pytest.param({"TriggeredBy": "a.timer"}, units.JOB, id="a-timers-of-another-type"),
        pytest.param({"TriggeredBy": "a.timer", "UnitFileState": "disabled"}, units.JOB, id="a-timers"),
        pytest.param({"Type": "oneshot", "ActiveState": "activating"}, units.JOB, id="a-job-at-boot"),
        pytest.param({"UnitFileState": "static", "WantedBy": ""}, "", id="a-packages"),
        pytest.param({"Type": "oneshot"}, "", id="a-job-that-has-ended"),
        pytest.param({}, "", id="enabled"),
        pytest.param({"UnitFileState": "disabled", "WantedBy": "", "Restart": "always"}, "", id="a-packages-daemon"),
    ],
)
def test_what_of_systemds_does_not_come_back(node, fields, why):
    process(node, 760, "train", "/training.slice/a.service", uid=0)
    systemd(node, shown("a.service", **fields))
    assert said(node) == ([f"root runs train in a.service ({why}) since {SINCE}"] if why else [])


def test_a_systemd_that_does_not_answer_hides_nothing(node):
    node.commands.clear()
    assert f"root runs systemd-journal in systemd-journald.service ({units.SILENT}) since {SINCE}" in said(node)


@pytest.mark.parametrize(
    ("place", "counts"),
    [("/training/one", True), ("/kubepods/burstable/pod1/7", False), ("/lxc.monitor.c1", False)],
)
def test_what_runs_in_a_control_group_made_by_hand_counts(node, place, counts):
    process(node, 760, "train", place, uid=0)
    assert bool(people(node.node(), OWN)) is counts


@pytest.mark.parametrize(
    ("place", "transient", "counts"),
    [
        ("background.slice/train.service", True, True),
        ("background.slice/tracker.service", False, False),
        ("session.slice/dbus-:1.2-org.a11y.Bus@0.service", True, False),
    ],
)
def test_what_a_user_started_in_a_slice_of_the_desktops_counts(node, place, transient, counts):
    process(node, 760, "train", MANAGER.format(60321, 60321) + place, uid=60321)
    if transient:
        node.file(f"/run/user/60321/systemd/transient/{place.rpartition('/')[2]}")
    assert bool(people(node.node(), OWN)) is counts


@pytest.mark.parametrize(
    ("uid", "account", "counts"),
    [
        pytest.param(1000, "", True, id="a-person"),
        pytest.param(1234600321, "", True, id="of-a-directory-service"),
        pytest.param(501, "ana:x:501:501::/home/ana:/bin/bash", True, id="of-an-old-system"),
        pytest.param(501, "svc:x:501:501::/home/svc:/usr/sbin/nologin", False, id="a-service-with-a-home"),
        pytest.param(120, "postgres:x:120:120::/var/lib/postgresql:/bin/bash", False, id="a-daemon-with-a-shell"),
        pytest.param(64055, "libvirt-qemu:x:64055:1::/var/lib/libvirt:/usr/sbin/nologin", False, id="of-debian"),
        pytest.param(61500, "ana:x:61500:1::/home/ana:/bin/bash", True, id="a-person-with-a-number-of-services"),
        pytest.param(65534, "nobody:x:65534:65534::/nonexistent:/bin/bash", False, id="nobody"),
    ],
)
def test_who_is_a_person(node, uid, account, counts):
    node.file("/etc/passwd", f"root:x:0:0:root:/root:/bin/bash\n{account}\n")
    process(node, 760, "daemon", "/system.slice/a.service", uid=uid)
    assert bool(people(node.node(), OWN)) is counts


def test_people_begin_where_login_defs_says(node):
    node.file("/etc/login.defs", "# UID_MIN 5\nUID_MIN\t\t 500\n")
    process(node, 760, "daemon", "/system.slice/a.service", uid=600)
    assert said(node) == [f"600 runs daemon in a.service since {SINCE}"]


@pytest.mark.parametrize("mode", ["block", "block-weak", "delay"])
@pytest.mark.parametrize("what", ["shutdown", "idle:shutdown", "sleep"])
@pytest.mark.parametrize("alive", [True, False])
def test_who_asks_logind_not_to_shut_down_is_named(node, mode, what, alive):
    if alive:
        process(node, 760, "packagekitd", "/system.slice/packagekit.service", uid=0)
    node.file(
        f"{logins.INHIBITORS}/3",
        f"WHAT={what}\nMODE={mode}\nUID=0\nPID=760\nWHO=PackageKit\nWHY=Package\\x20transaction\n",
    )
    blocks = mode != "delay" and "shutdown" in what and alive
    names = [f"root runs PackageKit and asks not to shut down: Package transaction since {SINCE}"]
    assert said(node) == (names if blocks else [])


def test_a_transaction_of_the_package_system_is_named(node):
    process(node, 760, "apt-get", "/system.slice/a.service", uid=0)
    node.file("/var/lib/dpkg/lock-frontend")
    lock = node.root / "var/lib/dpkg/lock-frontend"
    node.link("/proc/760/fd/4", str(lock))
    node.file("/proc/locks", f"1: POSIX  ADVISORY  WRITE 760 00:45:{lock.stat().st_ino} 0 EOF\n")
    assert said(node) == [f"root runs apt-get and changes the node's packages since {SINCE}"]


def test_a_transaction_of_dnf_is_named(node):
    process(node, 760, "dnf", "/system.slice/a.service", uid=0)
    node.file("/var/lib/dnf/rpmdb_lock.pid", "760\n")
    assert said(node) == [f"root runs dnf and changes the node's packages since {SINCE}"]


def run_of_gpulab(tree, place):
    """Let nobody be logged in, and the run be one of ansible-pull, with a worker beside this one's and a pipe."""
    for name in ("proc/700", "proc/800", "run/systemd/sessions"):
        shutil.rmtree(tree.root / name)
    for pid, parent, command in (
        (OWN, 850, "python3"),
        (850, 840, "ansible-playboo"),
        (851, 840, "ansible-playboo"),
        (840, 830, "ansible-playboo"),
        (852, 830, "tee"),
        (830, 102, "sh"),
        (102, 1, "cron"),
    ):
        process(tree, pid, command, place, parent=parent, uid=0)


@pytest.mark.parametrize("unit", ["cron.service", "ansible-pull.service"])
def test_the_run_of_gpulab_is_no_work_and_what_runs_beside_it_is(node, unit):
    place = f"/system.slice/{unit}"
    run_of_gpulab(node, place)
    systemd(node, shown(unit, **JOB))
    assert said(node) == []
    process(node, 760, "pg_dump", place, parent=102, uid=0)
    assert [one["commands"] for one in people(node.node(), OWN)] == [["pg_dump"]]


def test_a_step_of_slurm_counts_whoever_runs_it(node):
    process(node, 760, "sleep", "/system.slice/slurmstepd.scope/job_7/step_0/user/task_0", uid=0)
    assert said(node) == [f"root runs sleep in slurmstepd.scope since {SINCE}"]
