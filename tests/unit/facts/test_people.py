"""Who is at work on a node, from a tree like /proc and what systemd-logind keeps."""

import struct

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.facts.people import at_work, people

OWN = 900
SSHD = "/system.slice/ssh.service"
LOGIND = "/user.slice/user-{}.slice/session-{}.scope"
MANAGER = "/user.slice/user-{}.slice/user@{}.service/"


def process(tree, pid, command, place, *, parent=1, uid=1000):  # noqa: PLR0913
    tree.file(f"/proc/{pid}/stat", f"{pid} ({command}) S {parent} {' '.join(['0'] * 17)} 12345 0 0")
    tree.file(f"/proc/{pid}/comm", command + "\n").file(f"/proc/{pid}/cgroup", f"0::{place}\n")
    tree.file(f"/proc/{pid}/status", f"Name:\t{command}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n")


@pytest.fixture
def node(tree):
    """Return a node that gpulab reads by SSH, as user 1000."""
    tree.file("/proc/stat", "cpu 1 2\nbtime 1700000000\n")
    process(tree, 1, "systemd", "/init.scope", parent=0, uid=0)
    process(tree, 2, "kthreadd", "/", parent=0, uid=0)
    process(tree, 3, "kworker/0:0", "/user.slice/user-1000.slice/session-9.scope", parent=2, uid=0)
    process(tree, 100, "sshd", SSHD, uid=0)
    return tree


def login(tree, number, uid=1000, leader=700, **fields):
    known = {
        "UID": uid,
        "USER": f"user{uid}",
        "CLASS": "user",
        "LEADER": leader,
        "REALTIME": 1700000000123456,
        **fields,
    }
    return tree.file(
        f"/run/systemd/sessions/{number}", "".join(f"{name}={value}\n" for name, value in known.items())
    ).file(f"/run/systemd/sessions/{number}.ref")


@pytest.fixture
def logind(node):
    """Return the node with systemd-logind, which has gpulab's own session."""
    mine = LOGIND.format(1000, 4)
    process(node, 700, "sshd", mine, parent=100, uid=0)
    process(node, 800, "sudo", mine, parent=700, uid=1000)
    process(node, OWN, "python3", mine, parent=800, uid=0)
    return login(node, 4, REMOTE_HOST="192.0.2.1")


def plain(node):
    """Return the node without systemd-logind, where all are in the unit of sshd."""
    process(node, 700, "sshd", SSHD, parent=100, uid=0)
    process(node, 800, "sudo", SSHD, parent=700, uid=1000)
    process(node, OWN, "python3", SSHD, parent=800, uid=0)
    return node


def said(tree):
    return [at_work({**person, "since": None}) for person in people(tree.node(), OWN)]


def test_gpulabs_own_connection_with_its_sudo_is_nobodys_work(logind):
    process(logind, 801, "sftp-server", LOGIND.format(1000, 4), parent=700)
    assert people(logind.node(), OWN) == []


def test_a_process_that_left_its_parent_is_still_of_its_own_session(logind):
    process(logind, OWN, "python3", LOGIND.format(1000, 4), parent=1, uid=0)
    assert people(logind.node(), OWN) == []


def test_who_is_logged_in_counts_with_what_runs_there(logind):
    login(logind, 5, uid=60321, leader=710)
    for pid, command in ((710, "sshd"), (711, "bash"), (712, "rsync"), (713, "rsync")):
        process(logind, pid, command, LOGIND.format(60321, 5))
    assert people(logind.node(), OWN) == [
        {
            "user": "user60321",
            "since": "2023-11-14T22:13:20Z",
            "desktop": False,
            "logged_in": True,
            "commands": ["rsync", "bash"],
            "place": "",
        }
    ]
    assert at_work(people(logind.node(), OWN)[0]) == (
        "user60321, who is logged in (rsync, bash) since 2023-11-14T22:13:20Z"
    )
    assert said(logind) == ["user60321, who is logged in (rsync, bash)"]


def test_root_counts_like_everybody(logind):
    login(logind, 5, uid=0, leader=710, USER="root")
    process(logind, 710, "sshd", LOGIND.format(0, 5), uid=0)
    process(logind, 711, "bash", LOGIND.format(0, 5), uid=0)
    assert said(logind) == ["root, who is logged in (bash)"]


@pytest.mark.parametrize("command", ["tmux: server", "python3", "make"])
def test_what_somebody_left_running_counts(logind, command):
    login(logind, 5, uid=60321, leader=710, STATE="closing")
    process(logind, 712, command, LOGIND.format(60321, 5))
    assert said(logind) == [f"user60321, logged out, still runs {command}"]


def test_what_outlives_its_session_and_logind_counts(logind):
    process(logind, 712, "tmux: server", LOGIND.format(60321, 5))
    assert said(logind) == ["60321, logged out, still runs tmux: server"]


def test_a_service_of_a_user_who_lingers_counts_and_what_systemd_needs_for_it_does_not(logind):
    place = MANAGER.format(60321, 60321)
    process(logind, 720, "systemd", place + "init.scope")
    process(logind, 721, "obexd", place + "session.slice/obex.service")
    process(logind, 722, "dbus-daemon", place + "app.slice/dbus.service")
    assert people(logind.node(), OWN) == []
    process(logind, 723, "python3", place + "app.slice/train.service")
    assert said(logind) == ["60321, logged out, still runs python3"]


def test_a_connection_in_which_nothing_runs_is_no_work(logind):
    """As ssh keeps one for the next command of Ansible."""
    login(logind, 5, leader=710, REMOTE_HOST="192.0.2.1")
    process(logind, 710, "sshd", LOGIND.format(1000, 5), uid=0)
    process(logind, 711, "sshd-session", LOGIND.format(1000, 5))
    assert people(logind.node(), OWN) == []


@pytest.mark.parametrize(
    ("host", "user", "command", "counts"),
    [
        pytest.param("192.0.2.1", "user1000", "bash", False, id="the-operators-own-shell"),
        pytest.param("192.0.2.1", "user1000", "rsync", True, id="the-operators-own-work"),
        pytest.param("192.0.2.2", "user1000", "bash", True, id="elsewhere"),
        pytest.param("", "user1000", "bash", True, id="the-console"),
        pytest.param("192.0.2.1", "user60321", "bash", True, id="somebody-else-there"),
    ],
)
def test_a_shell_of_the_same_user_from_the_same_host_is_the_operators(logind, host, user, command, counts):
    login(logind, 5, leader=710, REMOTE_HOST=host, USER=user)
    process(logind, 710, "sshd", LOGIND.format(1000, 5), uid=0)
    process(logind, 711, command, LOGIND.format(1000, 5))
    assert bool(said(logind)) is counts


@pytest.mark.parametrize("kind", ["greeter", "lock-screen", "manager", "manager-early"])
def test_a_session_of_the_system_is_no_work(logind, kind):
    login(logind, "c1", uid=60321, leader=730, CLASS=kind, TYPE="x11")
    process(logind, 730, "gdm-session-wor", LOGIND.format(60321, "c1"), uid=0)
    assert people(logind.node(), OWN) == []


def test_a_greeter_is_no_work_whatever_the_number_of_its_user(logind):
    """GDM has had users of its own making for its greeters since 49, with numbers like those of people."""
    login(logind, "c1", uid=60578, leader=730, CLASS="greeter", TYPE="wayland")
    process(logind, 730, "gdm-session-wor", LOGIND.format(60578, "c1"), uid=0)
    process(logind, 731, "ibus-daemon", MANAGER.format(60578, 60578) + "app.slice/ibus.service", uid=60578)
    assert people(logind.node(), OWN) == []


def test_the_processes_of_a_login_managers_user_are_no_work(logind):
    process(logind, 731, "gnome-shell", LOGIND.format(120, "c1"), uid=120)
    process(logind, 732, "goa-daemon", MANAGER.format(120, 120) + "app.slice/goa.service", uid=120)
    assert people(logind.node(), OWN) == []


@pytest.mark.parametrize(("kind", "desktop"), [("x11", True), ("wayland", True), ("tty", False)])
def test_a_desktop_is_told_from_other_sessions_and_said_once(logind, kind, desktop):
    login(logind, 2, uid=60321, leader=740, TYPE=kind)
    process(logind, 740, "gdm-session-wor", LOGIND.format(60321, 2), uid=0)
    process(logind, 741, "firefox", MANAGER.format(60321, 60321) + "app.slice/app-firefox.scope")
    found = said(logind)
    assert ("user60321 at a desktop" in found) is desktop
    assert len(found) == 2 - desktop


@pytest.mark.parametrize("uid", [60321, 0])
def test_a_job_of_cron_that_logind_knows_counts_while_it_runs(logind, uid):
    login(logind, "c7", uid=uid, leader=750, CLASS="background", SERVICE="crond")
    process(logind, 750, "crond", LOGIND.format(uid, "c7"), uid=0)
    assert people(logind.node(), OWN) == []
    process(logind, 751, "backup", LOGIND.format(uid, "c7"), uid=uid)
    assert said(logind) == [f"user{uid} runs backup as a job of cron" if uid else "user0 runs backup as a job of cron"]


@pytest.mark.parametrize(
    ("unit", "uid", "command", "counts"),
    [
        pytest.param("cron.service", 60321, "python3", True, id="a-persons-job-of-cron"),
        pytest.param("crond.service", 60321, "python3", True, id="a-persons-job-on-rhel"),
        pytest.param("cron.service", 0, "logrotate", True, id="the-systems-job"),
        pytest.param("cron.service", 33, "php", True, id="a-services-job"),
        pytest.param("cron.service", 0, "cron", False, id="cron-itself"),
        pytest.param("atd.service", 0, "sh", True, id="a-job-of-at-is-somebodys"),
        pytest.param("training.service", 0, "python3", True, id="systemd-run"),
        pytest.param("run-r8f.scope", 60321, "make", True, id="systemd-run-scope"),
        pytest.param("gpulab-driver.service", 0, "apt-get", False, id="gpulabs-own-step"),
        pytest.param("jupyterhub.service", 60321, "python3", True, id="a-person-in-a-service"),
        pytest.param("postgresql.service", 120, "postgres", False, id="a-daemon"),
        pytest.param("docker-4f.scope", 1000, "node", True, id="a-container-of-an-engine-that-does-not-answer"),
    ],
)
def test_what_runs_outside_of_sessions(logind, unit, uid, command, counts):
    for name in ("training", "gpulab-driver"):
        logind.file(f"/run/systemd/transient/{name}.service", "[Unit]\n")
    process(logind, 760, command, f"/system.slice/{unit}", uid=uid)
    assert bool(said(logind)) is counts


def test_the_try_of_slurms_door_is_nobodys_work(logind):
    """It starts as root's, and is nobody's then."""
    logind.file("/run/systemd/transient/run-p9-i10.service", "[Unit]\n")
    for uid in (0, 65534):
        process(logind, 761 + uid, "(sh)", "/user.slice/user-65534.slice/run-p9-i10.service", uid=uid)
    assert said(logind) == []


@pytest.mark.parametrize(
    ("place", "command", "says"),
    [
        pytest.param(
            "/machine.slice/machine-qemu\\x2d1\\x2dvm.scope/libvirt/emulator",
            "qemu-system-x86",
            "64055 runs qemu-system-x86 in the virtual machine vm",
            id="libvirt",
        ),
        pytest.param(
            "/system.slice/vms.service",
            "qemu-system-x86",
            "64055 runs qemu-system-x86 in a virtual machine",
            id="qemu-alone",
        ),
        pytest.param(
            "/machine.slice/machine-c1.scope", "systemd", "64055 runs systemd in the guest c1", id="nspawn-by-hand"
        ),
        pytest.param(
            "/machine.slice/systemd-nspawn@c1.service/payload/init.scope",
            "systemd",
            "64055 runs systemd in the guest c1",
            id="nspawn",
        ),
        pytest.param(
            "/lxc.payload.c1" + LOGIND.format(1000, 4), "bash", "64055 runs bash in the LXC guest c1", id="lxc"
        ),
        pytest.param("/lxc/c1", "bash", "64055 runs bash in the LXC guest c1", id="lxc-of-control-groups-1"),
        pytest.param("/docker/buildkit/abc", "cc1", "64055 runs cc1 in a build of an image", id="docker-build"),
    ],
)
def test_guests_count_whatever_starts_them(logind, place, command, says):
    process(logind, 760, command, place, uid=64055)
    assert said(logind) == [says]


def test_a_node_that_is_itself_a_container(node):
    """It may see its control groups as its host does."""
    for pid, place in ((1, "/init.scope"), (100, SSHD), (712, LOGIND.format(60321, 5))):
        node.file(f"/proc/{pid}/cgroup", f"0::/docker/4f{place}\n")
    process(node, 712, "rsync", "/docker/4f" + LOGIND.format(60321, 5))
    assert said(node) == ["60321, logged out, still runs rsync"]


def test_control_groups_of_the_first_version(logind):
    process(logind, 712, "rsync", "/", uid=60321)
    logind.file("/proc/712/cgroup", f"5:cpu:/\n1:name=systemd:{LOGIND.format(60321, 5)}\n0::/\n")
    assert said(logind) == ["60321, logged out, still runs rsync"]


def test_without_logind_who_came_by_ssh_counts(node):
    tree = plain(node)
    assert people(tree.node(), OWN) == []
    for pid, parent, command in ((710, 100, "sshd"), (711, 710, "sshd"), (712, 711, "bash"), (713, 712, "rsync")):
        process(tree, pid, command, SSHD, parent=parent, uid=60321 if pid > 710 else 0)
    assert said(tree) == ["60321, who is logged in (rsync, bash)"]


def test_without_logind_gpulabs_own_connection_is_nobodys_work(node):
    tree = plain(node)
    process(tree, 801, "sftp-server", SSHD, parent=700)
    assert people(tree.node(), OWN) == []


def test_without_logind_a_connection_in_which_nothing_runs_is_no_work(node):
    tree = plain(node)
    process(tree, 710, "sshd", SSHD, parent=100, uid=0)
    process(tree, 711, "sshd", SSHD, parent=710, uid=1000)
    assert people(tree.node(), OWN) == []


def test_without_logind_what_left_its_connection_counts(node):
    tree = plain(node)
    process(tree, 712, "tmux: server", SSHD, parent=1, uid=60321)
    process(tree, 713, "bash", SSHD, parent=712, uid=60321)
    assert said(tree) == ["60321, logged out, still runs tmux: server, bash"]


def test_many_commands_are_not_all_named(logind):
    for pid, command in enumerate("abcdef", start=760):
        process(logind, pid, command, LOGIND.format(60321, 5))
    assert said(logind) == ["60321, logged out, still runs a, b, c, d and 2 more"]


def utmp(kind, pid, user):
    return struct.pack(
        "<hxxi32s4s32s256shhiii16s20s", kind, pid, b"pts/0", b"", user, b"", 0, 0, 0, 1700000000, 0, b"", b""
    )


def test_logins_where_nothing_but_utmp_tells_them(tree):
    for pid, parent in ((OWN, 800), (800, 1), (50, 1)):
        tree.file(f"/proc/{pid}/stat", f"{pid} (sshd) S {parent} {' '.join(['0'] * 17)} 12345 0 0")
    gone = utmp(7, 51, b"eve")
    tree.file("/run/utmp", utmp(2, 1, b"reboot") + utmp(7, 50, b"bob") + utmp(7, 800, b"ansible") + gone + b"torn")
    assert said(tree) == ["bob, who is logged in"]


def test_utmp_record_has_the_size_that_glibc_writes():
    assert len(utmp(7, 1, b"")) == 384
