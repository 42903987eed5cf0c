"""What an operator reads when a node is not fit to be worked on, and that the other nodes get done."""

import json

import pytest
import yaml

NODES = [
    {"name": name, "release": release, "gpu": gpu, "groups": ["workstations"]}
    for name, release, gpu in [
        ("fine", "bookworm", "rtx4090-2"),
        ("nopython", "trixie", "none"),
        ("nosudo", "bookworm", "none"),
        ("othersystem", "trixie", "none"),
        ("full", "bookworm", "none"),
        ("readonly", "bookworm", "rtx4090-2"),
        ("locked", "trixie", "none"),
        ("cutoff", "bookworm", "none"),
        ("nomirror", "trixie", "none"),
        ("smallcache", "bookworm", "none"),
        ("smalllists", "trixie", "none"),
    ]
]
# Further hosts of the inventory: other ways to nodes, each by an address of its own, and one that leads nowhere.
OTHER_WAYS = {
    "gone": {"ansible_host": "192.0.2.1", "ansible_ssh_timeout": 3},
    "noname": {"ansible_host": "node.invalid"},
    "stranger": {"ansible_user": "stranger"},
    "newkey": {"ansible_ssh_common_args": "-o UserKnownHostsFile=/dev/null -o StrictHostKeyChecking=yes"},
    "nopassword": {"ansible_user": "asked"},
    "wrongpassword": {"ansible_user": "asked", "ansible_become_password": "wrong"},
    "norights": {"ansible_user": "guest", "ansible_become_password": "guest"},
    "i686": {"ansible_python_interpreter": "/usr/local/bin/python3-i686"},
    "nopython-discovered": {"ansible_python_interpreter": "auto_silent"},
}
FINE = r"""
for user in asked guest; do
    useradd --create-home --shell /bin/sh $user
    echo $user:$user | chpasswd
    cp -r /home/admin/.ssh /home/$user/
    chown -R $user: /home/$user
done
echo 'asked ALL=(ALL) ALL' > /etc/sudoers.d/asked
printf '#!/bin/sh\nexec setarch i686 /usr/bin/python3 "$@"\n' > /usr/local/bin/python3-i686
chmod +x /usr/local/bin/python3-i686
"""
FAULTS = {
    "fine": FINE,
    "nopython": "rm /usr/bin/python3*",
    "nosudo": "rm /usr/bin/sudo",
    "othersystem": r"""sed -i -e 's/^ID=.*/ID=slackware/' -e 's/^PRETTY_NAME=.*/PRETTY_NAME="Slackware 15.0"/' \
        $(readlink -f /etc/os-release)""",
    # As if all of them were on one file system; whoever logs in starts in his home.
    "full": """cp -a /home/admin /home/.admin
        for directory in /tmp /var/tmp /home/admin; do
            mount -t tmpfs -o size=32k,mode=1777 tmpfs $directory
        done
        chown admin: /home/admin
        chmod 700 /home/admin
        cp -a /home/.admin/.ssh /home/admin
        for directory in /tmp /var/tmp /home/admin; do
            head -c 1M /dev/zero > $directory/fill 2>/dev/null || test -s $directory/fill
        done""",
    "readonly": "mount -t tmpfs -o ro tmpfs /usr/local/share/ca-certificates",
    "cutoff": "dpkg --status base-files > /var/lib/dpkg/updates/0001",
    "nomirror": "echo 'deb [trusted=yes] http://127.0.0.1:9/debian trixie main' > /etc/apt/sources.list",
    "smallcache": """mount -t tmpfs -o size=1m tmpfs /var/cache/apt/archives
        mkdir /var/cache/apt/archives/partial""",
    "smalllists": """mount -t tmpfs -o size=1m tmpfs /var/lib/apt/lists""",
}
HOLD_LOCK = """
import fcntl, time
file = open("/var/lib/dpkg/lock-frontend", "w")
fcntl.lockf(file, fcntl.LOCK_EX)
time.sleep(600)
"""
SITE_HOSTS = {
    "gone": ("H001", "gone is unreachable: ", "Check its address"),
    "noname": ("H007", "node.invalid", "ansible_host"),
    "stranger": ("H005", "Permission denied", "ssh-copy-id"),
    "newkey": ("H006", "verification failed", "ssh-keygen -R 172."),
    "nopassword": ("H003", "asks for a password", "--ask-become-pass"),
    "wrongpassword": ("H004", "Incorrect sudo password", "Check the password"),
    "norights": ("H004", "guest is not in the sudoers file", "may run sudo"),
    "nopython": ("H002", "/usr/bin/python3", "install python3 there"),
    "nopython-discovered": ("H002", "python", "install python3 there"),
    "nosudo": ("H013", "has no sudo", "Install sudo"),
    "othersystem": ("P001", "Slackware 15.0 on x86_64", "Debian"),
    "i686": ("P001", "Debian GNU/Linux 12 (bookworm) on i686", "x86_64"),
    "full": ("H008", "(full: /tmp (tmpfs), /var/tmp (tmpfs)", "df -h"),
    "readonly": ("H010", "a file system of readonly is read-only", "dmesg"),
}


@pytest.fixture(scope="module", autouse=True)
def bad_nodes(lab):
    """Break every node in its own way, and add the other ways to the inventory."""
    inventory = yaml.safe_load((lab.inventory / "hosts.yml").read_text())
    common = inventory["all"]["vars"]["ansible_ssh_common_args"]
    addresses = {host: known["ansible_host"] for host, known in inventory["workstations"]["hosts"].items()}
    hosts = {"smallcache": {"packages": ["gcc"]}}
    for number, (host, known) in enumerate(OTHER_WAYS.items(), start=100):
        node = "nopython" if host == "nopython-discovered" else "fine"
        address = f"{addresses[node].rpartition('.')[0]}.{number}"
        lab.node(node).run(f"ip address add {address}/24 dev eth0")
        alias = {"ansible_ssh_common_args": f"{common} -o HostKeyAlias={addresses[node]}"}
        hosts[host] = {"ansible_host": address, **alias, **known}
    (lab.inventory / "others.yml").write_text(yaml.safe_dump({"workstations": {"hosts": hosts}}))
    for name, fault in FAULTS.items():
        lab.node(name).run(fault)
    return lab


@pytest.fixture(scope="module")
def site(lab):
    """Run the first role of the site on all of them."""
    hosts = ",".join(["fine", *SITE_HOSTS])
    return lab.play("site.yml", "-l", hosts, "--tags", "base")


@pytest.mark.parametrize("host", SITE_HOSTS)
def test_a_node_that_cannot_be_worked_on_is_told_with_cause_and_remedy(site, host):
    code, cause, remedy = SITE_HOSTS[host]
    said = site.said_of(host)
    assert f"GPULAB-{code}  " in said
    assert cause in said
    assert remedy in said
    assert site.recap[host]["verdict"] in {"failed", "unreachable"}
    assert len(said) < 800


def test_a_good_node_among_bad_ones_gets_done(site, lab):
    assert site.recap["fine"]["verdict"] == "changed"
    assert lab.node("fine").holds("test -e /etc/profile.d/gpulab-base.sh")
    assert site.rc != 0


def test_verify_reports_a_node_that_is_gone(lab):
    directory = lab.directory / "report"
    run = lab.play("playbooks/verify.yml", "-l", "fine,gone", "-e", f"verify_report_directory={directory}")
    assert run.rc == 2
    report = json.loads((directory / "report.json").read_text())
    states = {host["name"]: (host["state"], host["detail"]) for host in report["hosts"]}
    assert states["fine"][0] == "verified"
    assert states["gone"][0] == "unreachable"
    assert states["gone"][1].startswith("GPULAB-H001 gone is unreachable: ")
    assert "GPULAB-H001  gone is unreachable: " in run.said_of("gone")


@pytest.fixture(scope="module")
def packages(lab):
    """Install on all the nodes at once, and let go of the lock as soon as the run says that it waits."""
    locked = lab.node("locked")
    locked.start(f"exec systemd-run --unit=nightly-upgrade python3 -c '{HOLD_LOCK}'")
    run = lab.start("tests/lab/playbooks/packages.yml", "-l", "fine,locked,cutoff,nomirror,smallcache,smalllists")
    run.wait_until(lambda: "Have the package: waiting: " in run.output, 120, "the wait for the lock is shown")
    locked.run("systemctl stop nightly-upgrade")
    return run.wait(timeout=300)


def test_a_held_lock_is_waited_for_and_its_holder_named(packages, lab):
    waiting = next(line for line in packages.output.splitlines() if "waiting: " in line)
    assert waiting.startswith("locked  ")
    assert "/var/lib/dpkg/lock-frontend is held by process" in waiting
    assert waiting.endswith("of nightly-upgrade.service")
    assert packages.recap["locked"]["verdict"] == "changed"
    assert lab.node("locked").holds("hello")


@pytest.mark.parametrize(
    ("host", "code", "told"),
    [
        ("cutoff", "H047", ("an earlier installation was cut off", "dpkg --configure -a")),
        ("nomirror", "H041", ("127.0.0.1", "package sources")),
        ("smallcache", "H050", ("/var/cache/apt/archives has", "MiB free", "Nothing was changed")),
        ("smalllists", "H046", ("ran out of space", "df -h")),
    ],
)
def test_a_transaction_that_cannot_be_is_told_with_cause_and_remedy(packages, lab, host, code, told):
    said = packages.said_of(host)
    assert f"GPULAB-{code}  " in said
    assert [text for text in told if text not in said] == []
    assert packages.recap[host]["verdict"] == "failed"
    assert not lab.node(host).holds("dpkg --status hello || dpkg --status gcc")


def test_a_mirror_that_stays_out_of_reach_is_told_again(packages, lab):
    assert "GPULAB-H041" in packages.said_of("nomirror")
    run = lab.play("tests/lab/playbooks/packages.yml", "-l", "nomirror")
    assert "GPULAB-H041" in run.said_of("nomirror")


def test_good_nodes_among_those_get_their_package(packages, lab):
    assert packages.rc == 2
    assert packages.recap["fine"]["verdict"] == "changed"
    assert lab.node("fine").holds("hello")


def test_the_remedy_for_a_cut_off_installation_cures_it(packages, lab):
    assert packages.rc == 2
    lab.node("cutoff").run("dpkg --configure -a")
    run = lab.play("tests/lab/playbooks/packages.yml", "-l", "cutoff")
    assert run.rc == 0
    assert run.recap["cutoff"]["changed"] == 1


def test_a_lock_that_stays_held_is_refused_after_the_timeout(packages, lab):
    assert packages.rc == 2
    lab.node("cutoff").run("apt-get --yes remove hello")
    lab.node("cutoff").start(f"exec systemd-run --unit=nightly-upgrade python3 -c '{HOLD_LOCK}'")
    run = lab.play("tests/lab/playbooks/packages.yml", "-l", "cutoff,fine", "-e", "lock_timeout=3")
    assert run.rc == 2
    assert "GPULAB-H054" in run.said_of("cutoff")
    assert "nightly-upgrade.service" in run.said_of("cutoff")
    assert "stop it" in run.said_of("cutoff")
    assert run.recap["fine"]["verdict"] == "ok"
