"""A driver that DKMS builds for one of two installed kernels only: the node notices, and is as it was before."""

import re
from dataclasses import dataclass

import pytest
from scenario import each, everywhere, nodes, playbook

WORKS, FAILS_ON_OTHER, FAILS_ON_CLOUD = "595.91.07", "595.95.01", "595.96.01"
APT = "DEBIAN_FRONTEND=noninteractive apt-get --yes --no-install-recommends"
ARRIVES = f"{APT} install linux-image-amd64 linux-headers-amd64"


@dataclass(frozen=True)
class Node:
    """What a node shows: packages of driver and kernels, DKMS, the module file of each kernel, what is unfinished."""

    packages: dict[str, str]
    dkms: str
    modules: dict[str, str]
    unfinished: str
    kept: str


def look(host):
    form = "${db:Status-Abbrev} ${Package} ${Version}\n"
    listing = host.run("dpkg-query -W -f %s '*nvidia*' 'libcuda*' 'linux-*'", form).stdout
    rows = [line.split(maxsplit=1) for line in listing.splitlines() if not re.match("un|rc", line)]
    kernels = host.check_output("ls /boot | sed -n s/^vmlinuz-//p").split()
    return Node(
        packages={package: state for state, package in rows},
        dkms=host.check_output("dkms status 2>/dev/null || true"),
        modules={kernel: host.run("modinfo -k %s -F version nvidia", kernel).stdout.strip() for kernel in kernels},
        unfinished=host.check_output("dpkg --audit"),
        kept=host.run("ls /var/lib/gpulab/former").stdout,
    )


def site(version):
    """Run what of site.yml has to do with the driver."""
    tags = "--tags=nouveau,nvidia_driver,reboot"
    return playbook("site.yml", tags, look=look, nvidia_driver_version=version)


def proof():
    return playbook("playbooks/verify.yml", look=look)


@pytest.fixture(scope="session")
def story():
    """Return the runs by name, in the order in which they happen."""
    runs = {}
    # A kernel comes by an upgrade, to a node whose driver does not build for it.
    runs["one kernel"] = site(FAILS_ON_OTHER)
    assert runs["one kernel"].status == 0, runs["one kernel"].output
    each(lambda host: host.run(ARRIVES))
    runs["arrived"] = proof()
    runs["refused"] = site(FAILS_ON_OTHER)
    for name, host in nodes().items():
        waiting = [
            package.split()[0] for package, state in runs["refused"].nodes[name].packages.items() if state != "ii"
        ]
        named = [package for package in waiting if package.startswith("linux-")]
        host.check_output(f"{APT} remove {' '.join(named)}")
    runs["mended"] = site(FAILS_ON_OTHER)
    # A driver that builds for both
    runs["works"] = site(WORKS)
    everywhere(ARRIVES)
    runs["two kernels"] = proof()
    runs["new fails"] = site(FAILS_ON_OTHER)
    runs["running fails"] = site(FAILS_ON_CLOUD)
    # The other one is the menu's choice.
    everywhere("echo GRUB_DEFAULT=gnulinux-$(ls /lib/modules | grep --invert-match cloud)-advanced > /etc/default/grub")
    runs["default"] = proof()
    runs["default fails"] = site(FAILS_ON_OTHER)
    everywhere("rm /etc/default/grub")
    # The first driver of a node with two kernels
    runs["removed"] = playbook("playbooks/remove.yml", "--tags=nvidia_driver", look=look)
    runs["first"] = site(FAILS_ON_OTHER)
    runs["first works"] = site(WORKS)
    return runs


@pytest.fixture
def seen(story, host):
    """Return a function from a run's name to what it left on this node."""
    return lambda run: story[run].nodes[host.backend.host]


def told(run):
    return " ".join(run.output.split())


def without_module(run):
    """Return what a proof finds of kernels without the driver; what it says is gone since the one before is none."""
    return re.findall(r"^ +(?:warn|fail) .*has no nvidia module", run.output, re.MULTILINE)


def modules(node):
    """Return the versions of the modules for the cloud's kernel and for the other one."""
    return [node.modules[kernel] for kernel in sorted(node.modules, key=lambda kernel: "cloud" not in kernel)]


def test_the_proof_tells_of_a_kernel_that_came_and_has_no_driver_before_anybody_boots_it(story, seen):
    assert story["arrived"].status == 2
    assert re.search(
        rf"kernel \S+-amd64 is not configured: DKMS cannot build nvidia {FAILS_ON_OTHER}", told(story["arrived"])
    )
    assert "Do not reboot into that kernel." in told(story["arrived"])
    assert without_module(story["arrived"])
    assert modules(seen("arrived")) == [FAILS_ON_OTHER, ""]


def test_a_run_refuses_such_a_node_and_names_the_packages_to_remove(story, seen):
    assert story["refused"].status == 2
    assert "GPULAB-D040" in story["refused"].output
    assert "too few arguments to function" in told(story["refused"])
    assert re.search(r"apt-get remove [^)]*linux-image-\d\S+-amd64", told(story["refused"]))
    assert "dpkg --configure" not in story["refused"].output
    assert seen("refused") == seen("arrived")


def test_what_it_says_mends_the_node(story, seen):
    assert story["mended"].status == 0, story["mended"].output
    assert seen("mended").unfinished == ""
    assert seen("mended").packages == seen("one kernel").packages


def test_a_kernel_that_comes_later_has_the_driver_that_builds_for_it(story, seen):
    assert story["works"].status == 0, story["works"].output
    assert modules(seen("two kernels")) == [WORKS, WORKS]
    assert not without_module(story["two kernels"])


@pytest.mark.parametrize(
    ("run", "before", "version"),
    [
        ("new fails", "two kernels", FAILS_ON_OTHER),
        ("running fails", "two kernels", FAILS_ON_CLOUD),
        ("default fails", "default", FAILS_ON_OTHER),
    ],
)
def test_a_driver_that_does_not_build_for_one_kernel_gives_way_on_both(story, seen, run, before, version):
    assert story[run].status == 2
    said, kernel = told(story[run]), {FAILS_ON_OTHER: r"(?!\S+cloud)\S+", FAILS_ON_CLOUD: r"\S+-cloud"}[version]
    assert re.search(rf"GPULAB-D001 .* {re.escape(version)} for kernel {kernel}-amd64:", said)
    assert "The former packages were reinstalled." in said
    assert seen(run) == seen(before)


def test_a_first_driver_that_does_not_build_for_one_kernel_goes_again(story, seen):
    assert story["removed"].status == 0, story["removed"].output
    assert story["first"].status == 2
    assert re.search(
        rf"GPULAB-D001 .* {re.escape(FAILS_ON_OTHER)} for kernel (?!\S+cloud)\S+-amd64:", told(story["first"])
    )
    assert modules(seen("first")) == ["", ""]
    assert not [package for package in seen("first").packages if re.match("nvidia-kernel|libcuda1", package)]


def test_the_next_one_comes_for_both(story, seen):
    assert story["first works"].status == 0, story["first works"].output
    assert modules(seen("first works")) == [WORKS, WORKS]
