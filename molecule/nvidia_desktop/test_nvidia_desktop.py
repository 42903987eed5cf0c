"""A desktop keeps its screen: whatever happens, what draws it has the version of the driver's library and module.

The driver is Debian's own, really built; X and its login screen do not run in a container.
"""

import re
from dataclasses import dataclass

import pytest
from scenario import everywhere, playbook

BEFORE, AFTER = "535.261.03", "535.309.01"
DISPLAY = {
    "libegl-nvidia0",
    "libgl1-nvidia-glvnd-glx",
    "libglx-nvidia0",
    "libnvidia-allocator1",
    "libnvidia-eglcore",
    "libnvidia-glcore",
    "nvidia-driver",
    "nvidia-driver-libs",
    "nvidia-vdpau-driver",
    "nvidia-vulkan-icd",
    "xserver-xorg-video-nvidia",
}
RECOMMENDED = {"libnvidia-allocator1", "nvidia-vulkan-icd"}  # gpulab brings them; APT keeps what others recommend
X_SERVERS = "/usr/lib/nvidia/libglxserver_nvidia.so"
COMPUTE = {"libcuda1", "libnvidia-ml1", "nvidia-kernel-dkms", "nvidia-smi"}
# As logind tells of somebody at a desktop
DESKTOP = """leader=$(systemctl show --property=MainPID --value systemd-journald)
printf 'USER=0\\nCLASS=user\\nTYPE=x11\\nLEADER=%s\\n' $leader > /run/systemd/sessions/desktop"""
# DKMS builds this version in another way: not at all.
UNBUILDABLE = f"/etc/dkms/nvidia-current-{AFTER}.conf"
UPGRADE = {"nvidia_driver_upgrade": True}


@dataclass(frozen=True)
class Node:
    """What a node shows of its driver: versions of packages and of files that draw a display, DKMS, holds, and more.

    awake says of the unit that keeps the node awake whether it is enabled.
    """

    packages: dict[str, str]
    dkms: str
    files: dict[str, str]
    holds: set[str]
    options: str
    awake: str

    @property
    def versions(self):
        """Return the versions of everything that has the driver's."""
        named = {self.packages.get(name, "none").partition("-")[0] for name in DISPLAY | COMPUTE}
        return named | {*self.files.values()} | set(re.findall(r"nvidia-current/([\d.]+)", self.dkms))


def look(host):
    listing = host.check_output("dpkg-query -W -f '${db:Status-Status} ${Package} ${Version}\n'")
    rows = [line.split(" ") for line in listing.splitlines()]
    libraries = "/usr/lib/x86_64-linux-gnu"
    files = [*(f"{libraries}/lib{name}_nvidia.so.0" for name in ("GLX", "EGL")), X_SERVERS]
    return Node(
        packages={name: version for status, name, version in rows if status == "installed"},
        dkms=host.check_output("dkms status"),
        files={file: host.run("readlink -f %s", file).stdout.strip().partition(".so.")[2] for file in files},
        holds=set(host.check_output("apt-mark showhold").split()),
        options=host.check_output("modprobe --showconfig"),
        awake=host.run("systemctl is-enabled gpulab-awake").stdout.strip(),
    )


def driver(*options, **variables):
    return playbook("molecule/nvidia_repository/converge.yml", *options, look=look, **variables)


@pytest.fixture(scope="session")
def story():
    """Return the runs by name, in the order in which they happen."""
    runs = {"first": driver()}
    everywhere(DESKTOP)
    runs["somebody"] = driver(**UPGRADE)
    everywhere("rm /run/systemd/sessions/desktop")
    everywhere(f"mkdir -p /etc/dkms && echo 'MAKE[0]=false' > {UNBUILDABLE}")
    runs["failed"] = driver(**UPGRADE)
    everywhere(f"rm {UNBUILDABLE}")
    runs["upgraded"] = driver(**UPGRADE)
    runs["proven"] = playbook("site.yml", "--tags=nvidia_driver,reboot", look=look, **UPGRADE)
    runs["again"] = driver(**UPGRADE)
    runs["removed"] = playbook("playbooks/remove.yml", look=look)
    return runs


@pytest.fixture
def seen(story, host):
    """Return a function from a run's name to what it left on this node."""
    return lambda run: story[run].nodes[host.backend.host]


def test_debians_desktop_driver_stays_and_what_it_lacks_comes_in_its_version(story, seen):
    assert story["first"].status == 0, story["first"].output
    assert seen("first").versions == {BEFORE}
    assert seen("first").holds >= DISPLAY | COMPUTE


def test_a_second_run_changes_nothing(story):
    assert set(story["first"].changed.values()) == {0}  # the scenario's own was before it


def test_the_console_and_wayland_get_their_modes_from_the_driver(seen):
    assert "options nvidia_current_drm modeset=1" in seen("first").options.splitlines()
    assert "modeset=1" not in seen("removed").options


def test_the_node_is_kept_awake_while_a_gpu_computes(seen):
    assert seen("first").awake == "enabled"
    assert seen("removed").awake != "enabled"


def test_somebody_at_the_desktop_keeps_the_driver(story, seen):
    assert story["somebody"].status == 2
    assert "GPULAB-D021" in story["somebody"].output
    assert "root at a desktop" in " ".join(story["somebody"].output.split())
    assert seen("somebody") == seen("first")


def test_a_driver_that_does_not_build_leaves_the_display_as_it_was(story, seen):
    assert story["failed"].status == 2
    assert "GPULAB-D001" in story["failed"].output
    assert "The former packages were reinstalled." in " ".join(story["failed"].output.split())
    assert seen("failed").versions == {BEFORE}
    assert seen("failed").packages.items() >= seen("somebody").packages.items()
    assert seen("failed").holds == seen("first").holds


def test_a_newer_driver_comes_whole(story, seen):
    assert story["upgraded"].status == 0, story["upgraded"].output
    assert seen("upgraded").versions == {AFTER}
    assert seen("upgraded").holds >= seen("first").holds


def test_it_proves_itself(story, seen):
    assert story["proven"].status == 0, story["proven"].output
    assert seen("proven").versions == {AFTER}


def test_it_is_not_brought_twice(story):
    assert set(story["again"].changed.values()) == {0}, story["again"].output


def test_what_the_owner_installed_stays_when_gpulab_goes(story, seen):
    assert story["removed"].status == 0, story["removed"].output
    left = seen("removed").packages
    assert left.keys() >= DISPLAY - RECOMMENDED
    assert {left[name].partition("-")[0] for name in DISPLAY & left.keys()} == {AFTER}
    assert seen("removed").holds == set()
    assert {*seen("removed").files.values()} == {AFTER}
