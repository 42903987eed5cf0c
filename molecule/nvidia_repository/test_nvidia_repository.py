"""The driver out of a stand-in for NVIDIA's repository, seen from the node."""

import re
import subprocess
import sys

import pytest
from scenario import LAB, PROJECT, task

VERSION = "595.91.07"
KEY = "/etc/apt/keyrings/gpulab-nvidia-cuda.asc"
SOURCES = "/etc/apt/sources.list.d/gpulab-nvidia-cuda.sources"
PREFERENCES = "/etc/apt/preferences.d/zz-gpulab-nvidia-cuda.pref"
DRIVER = ["nvidia-kernel-open-dkms", "nvidia-driver-cuda", "libcuda1", "libnvidia-ml1", "nvidia-persistenced"]
STUBS = PROJECT / "tests/stubs"
PINNING = "/etc/apt/preferences.d/nvidia-driver-pinning"
BLACKLIST = "/etc/apt/apt.conf.d/52gpulab-nvidia-driver"
REAL_KEY = "EB693B3035CD5710E231E123A4B469963BF863CC"


@pytest.fixture
def kernel(host):
    (version,) = host.check_output("ls /lib/modules").split()
    return version


@pytest.fixture
def url(host):
    return re.search(r"^URIs: (\S+)$", host.file(SOURCES).content_string, re.MULTILINE)[1]


@pytest.fixture
def pinned(host):
    """Return the fingerprint of the key on the node, as gpg computes it."""
    gpg = ["gpg", "--show-keys", "--with-colons"]
    listing = subprocess.run(gpg, input=host.file(KEY).content, check=True, capture_output=True).stdout.decode()
    (fingerprint,) = re.findall(r"^fpr:.*:([0-9A-F]+):$", listing, re.MULTILINE)
    return fingerprint


def declare(host, url, fingerprint, **options):
    """Declare the repository as the role does."""
    key_url = url + ("8793F200.pub" if "debian13" in url else "3bf863cc.pub")
    packages = re.search(r"^Package: (.*)$", host.file(PREFERENCES).content_string, re.MULTILINE)[1].split()
    given = {"name": "nvidia-cuda", "url": url, "key_url": key_url, "fingerprint": fingerprint, "packages": packages}
    return task(host, "gpulab.node.apt_repository", **{**given, **options})


def policy(host, package):
    """Return the candidate of a package, and the priority of each version."""
    text = host.check_output("apt-cache policy %s", package)
    versions = re.findall(r"^ (?:\*\*\*|   ) (\S+) (\d+)$", text, re.MULTILINE)
    return re.search(r"Candidate: (\S+)", text)[1], {version: int(priority) for version, priority in versions}


@pytest.mark.parametrize("name", DRIVER)
def test_the_planned_version_is_installed_and_not_the_newest(host, name):
    assert host.package(name).version == f"{VERSION}-1"
    assert "615.71.09-1" in policy(host, name)[1]


def test_the_pinning_package_decides_what_apt_would_take_next(host):
    assert {policy(host, name)[0] for name in DRIVER} == {f"{VERSION}-1"}
    assert policy(host, "libcuda1")[1][f"{VERSION}-1"] == 1000


def test_the_module_is_built_for_the_kernel(host, kernel):
    (line,) = [line for line in host.check_output("dkms status").splitlines() if kernel in line]
    assert line.startswith(f"nvidia/{VERSION}")
    assert line.endswith("installed")
    assert host.check_output("modinfo -k %s -F version nvidia", kernel) == VERSION


def test_the_persistence_daemon_is_enabled(host):
    assert host.service("nvidia-persistenced").is_enabled
    assert host.check_output("systemctl --failed --no-legend") == ""


def test_only_the_pinned_key_signs_the_repository(host, pinned):
    assert pinned == (LAB / "repository/fingerprint").read_text()
    assert f"Signed-By: {KEY}\n" in host.file(SOURCES).content_string
    assert host.file(KEY).mode == host.file(SOURCES).mode == host.file(PREFERENCES).mode == 0o644


def test_the_repository_cannot_replace_a_package_of_the_distribution(host):
    candidate, priorities = policy(host, "libc6")
    assert priorities["99.0-1"] == 100
    assert candidate != "99.0-1"
    assert candidate in priorities
    assert policy(host, "nvidia-altered")[1] == {"1.0-1": 600}


def test_an_upgrade_of_everything_takes_nothing_of_it(host):
    upgrade = host.check_output("apt-get --simulate dist-upgrade")
    assert "Inst" not in "\n".join(line for line in upgrade.splitlines() if "NVIDIA" in line)


def test_the_lists_are_refreshed_without_a_word(host):
    update = host.run("apt-get --quiet=2 update")
    assert (update.rc, update.stdout, update.stderr) == (0, "", "")


@pytest.fixture(scope="module")
def updates(host, tmp_path_factory):
    """Declare somebody else's repository, which has a driver newer than any and a neighbour that is older here.

    Let unattended upgrades take from there and from NVIDIA, which they would not do of their own accord. Without their
    timers: those begin between six and seven in the morning, and nobody holds the driver while these tests run.
    """
    timers = "apt-daily.timer apt-daily-upgrade.timer"
    host.check_output(f"systemctl mask --now {timers}")
    host.check_output("apt-get --quiet=2 --yes install --no-install-recommends needrestart unattended-upgrades")
    packages = ["libcuda1=999.1-1", "nvidia-persistenced=999.1-1", "neighbour=1.0-1", "neighbour=2.0-1"]
    made = tmp_path_factory.mktemp("updates")
    subprocess.run([sys.executable, STUBS / "updates.py", made, *packages], check=True)
    task(host, "ansible.builtin.copy", src=f"{made}/", dest="/srv/updates/", mode="0644")
    source, settings = "/etc/apt/sources.list.d/updates.list", "/etc/apt/apt.conf.d/60-of-the-test"
    host.check_output("echo %s > %s", "deb [trusted=yes] file:/srv/updates ./", source)
    host.check_output(
        "echo %s > %s", 'Unattended-Upgrade::Origins-Pattern { "origin=Updates"; "origin=NVIDIA"; };', settings
    )
    host.check_output("apt-get --quiet=2 update")
    host.check_output("apt-get --quiet=2 --yes install neighbour=1.0-1")
    yield
    host.check_output("apt-get --quiet=2 --yes purge --auto-remove needrestart unattended-upgrades neighbour")
    host.check_output("rm %s %s", source, settings)
    host.check_output("apt-get --quiet=2 update")
    host.check_output(f"systemctl unmask {timers} && systemctl start {timers}")


@pytest.fixture
def without(host, updates):  # noqa: ARG001 - it is declared
    """Return a function that takes guards away until the test has ended."""
    held = host.check_output("apt-mark showhold").split()

    def take(*guards):
        if "holds" in guards:
            host.check_output(f"apt-mark unhold {' '.join(held)}")
        for name, path in {"pinning": PINNING, "blacklist": BLACKLIST}.items():
            if name in guards:
                host.check_output("mv %s /srv/%s", path, name)

    yield take
    host.check_output(f"apt-mark hold {' '.join(held)}")
    for name, path in {"pinning": PINNING, "blacklist": BLACKLIST}.items():
        host.run("mv /srv/%s %s", name, path)


def updates_of_debian(host):
    """Return the updates that Debian has for the node, as for an image some days old; one of a driver is no such."""
    planned = host.check_output("apt-get --simulate upgrade")
    return set(re.findall(r"^Inst (?!\S*(?:nvidia|cuda))(\S+) (?:\[\S+\] )?\(\S+ Debian", planned, re.MULTILINE))


def upgraded(host):
    """Return the packages that a plain upgrade would change, but for Debian's own."""
    planned = host.check_output("apt-get --simulate upgrade")
    return set(re.findall(r"^Inst (\S+)", planned, re.MULTILINE)) - updates_of_debian(host)


def upgraded_unattended(host):
    """Return the packages that an unattended upgrade would change, but for Debian's own."""
    report = host.check_output("unattended-upgrade --dry-run --debug 2>&1")
    found = re.search(r"^(?:INFO:)?Packages that will be upgraded: *(.*)$", report, re.MULTILINE)
    return set(found[1].split() if found else ()) - updates_of_debian(host)


def test_every_package_of_the_driver_is_on_hold(host):
    held = set(host.check_output("apt-mark showhold").split())
    assert held == {*DRIVER, f"nvidia-driver-pinning-{VERSION}", "libnvidia-ptxjitcompiler1"} | {
        "nvidia-kernel-support",
        "nvidia-modprobe",
    }


@pytest.mark.parametrize("gone", [("holds",), ("pinning", "blacklist")], ids=" and ".join)
def test_a_plain_upgrade_changes_others_and_never_the_driver(host, without, gone):
    """One guard is enough."""
    without(*gone)
    assert upgraded(host) == {"neighbour"}


@pytest.mark.parametrize("gone", [("holds", "pinning"), ("pinning", "blacklist")], ids=" and ".join)
def test_an_unattended_upgrade_changes_others_and_never_the_driver(host, without, gone):
    """One guard is enough."""
    without(*gone)
    assert upgraded_unattended(host) == {"neighbour"}


def test_without_any_guard_both_would_mix_the_origins(host, without):
    """What the two tests before have to find."""
    without("holds", "pinning", "blacklist")
    assert {"neighbour", "nvidia-persistenced"} <= upgraded(host)
    assert {"neighbour", "nvidia-persistenced"} <= upgraded_unattended(host)


@pytest.fixture
def services(host, updates):  # noqa: ARG001 - it installs needrestart
    """Start two services whose program is replaced then, as by an upgrade; one of them has a GPU's device file open."""
    program = "/usr/local/bin/follow"
    host.check_output(f"cp /usr/bin/tail {program} && touch /dev/nvidia9 /srv/no-gpu")
    for name, file in {"trainer": "/dev/nvidia9", "other": "/srv/no-gpu"}.items():
        host.check_output(f"systemd-run --unit={name} {program} --follow {file}")
    host.check_output(f"rm {program} && cp /usr/bin/tail {program}")
    yield
    host.check_output("systemctl stop trainer other")
    host.check_output(f"rm {program} /dev/nvidia9 /srv/no-gpu")


@pytest.mark.usefixtures("services")
def test_needrestart_leaves_a_service_that_has_a_gpu(host):
    before = {name: host.check_output("systemctl show --property=MainPID %s", name) for name in ("trainer", "other")}
    host.check_output("NEEDRESTART_UI=NeedRestart::UI::stdio needrestart -r a")
    after = {name: host.check_output("systemctl show --property=MainPID %s", name) for name in before}
    assert after["trainer"] == before["trainer"]
    assert after["other"] != before["other"]


def test_another_fingerprint_is_refused_and_nothing_is_written(host, url):
    result = declare(host, url, REAL_KEY, name="tampered")
    assert result["refusal"]["code"] == "H060"
    assert REAL_KEY in result["msg"]
    assert host.run("ls /etc/apt/*/*tampered*").rc != 0


def test_a_key_that_is_not_there_is_refused_and_nothing_is_written(host, url):
    result = declare(host, url, REAL_KEY, name="tampered", key_url=url + "missing.pub")
    assert result["refusal"]["code"] == "H061"
    assert "404" in result["msg"]
    assert host.run("ls /etc/apt/*/*tampered*").rc != 0


def test_a_package_altered_on_its_way_is_refused(host):
    result = task(host, "gpulab.node.packages", transaction="altered", present=["nvidia-altered"])
    assert result["refusal"]["code"] == "H043"
    assert not host.package("nvidia-altered").is_installed
    assert host.check_output("dpkg --audit") == ""


@pytest.fixture
def keyring_package(host, url, pinned):
    """Leave what cuda-keyring does: a list file for the same repository, a key file and a priority for all it has."""
    keyring, file = "/usr/share/keyrings/cuda-archive-keyring.asc", "/etc/apt/sources.list.d/cuda-x86_64.list"
    host.check_output("cp %s %s", KEY, keyring)
    host.check_output("echo %s > %s", f"deb [signed-by={keyring}] {url} /", file)
    preferences = "/etc/apt/preferences.d/cuda-repository-pin-600"
    host.check_output("printf %s > %s", "Package: *\\nPin: release l=NVIDIA CUDA\\nPin-Priority: 600\\n", preferences)
    yield file
    host.check_output("rm --force %s %s %s", keyring, file, preferences)
    declare(host, url, pinned)
    again = declare(host, url, pinned)
    assert (again["changed"], again["declared_in"]) == (False, SOURCES)


def test_two_declarations_never_conflict(host, url, pinned, keyring_package):
    conflict = host.run("apt-get --quiet=2 update")
    assert "Signed-By" in conflict.stderr
    result = declare(host, url, pinned)
    assert result["declared_in"] == keyring_package
    assert not host.file(SOURCES).exists
    assert host.run("apt-get --quiet=2 update").stderr == ""
    assert policy(host, "libc6")[1]["99.0-1"] == 100


def test_nor_do_they_where_one_leaves_the_architecture_to_apt(host, url, pinned, keyring_package):
    """As NVIDIA's guide declares the repository of its container toolkit."""
    own = host.check_output("dpkg --print-architecture")
    line = host.file(keyring_package).content_string.strip()
    host.check_output("echo %s > %s", line.replace(url, f"{url}$(ARCH)"), keyring_package)
    result = declare(host, f"{url}{own}/", pinned, name="twin")
    assert result["declared_in"] == keyring_package
    assert host.run("apt-get --quiet=2 --simulate dist-upgrade").rc == 0
    task(host, "gpulab.node.apt_repository", name="twin", state="absent")


def test_a_declaration_without_a_key_is_refused(host, url, pinned, keyring_package):
    host.check_output("echo %s > %s", f"deb {url} /", keyring_package)
    result = declare(host, url, pinned)
    assert result["refusal"]["code"] == "H062"
    assert keyring_package in result["msg"]
