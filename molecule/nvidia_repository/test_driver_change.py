"""Another driver in the place of one that works: it proves itself, or the former one is back; by site.yml."""

import re
import time
from dataclasses import dataclass, replace

import pytest
from scenario import Run, cut_off, each, everywhere, hide, playbook

FIRST, BETTER, LOSSY, UNCOMPILABLE, CHOOSY = "595.91.07", "595.95.01", "595.96.01", "595.97.01", "595.98.01"
# The headers of one more kernel, those of the node's under another name: no package's script builds for it.
OWN_HEADERS = r"""set -e
kernel=$(ls /lib/modules) root=/srv/own-headers
mkdir -p $root/DEBIAN $root/lib/modules/$kernel-own
ln -s $(readlink -f /lib/modules/$kernel/build) $root/lib/modules/$kernel-own/build
printf '%s\n' "Package: linux-headers-$kernel-own" 'Version: 1' 'Architecture: all' \
    'Maintainer: Stub <stub@example.org>' 'Description: Stub' > $root/DEBIAN/control
dpkg-deb --build $root /srv/own-headers.deb
dpkg --install /srv/own-headers.deb"""
DROP_IN = "/etc/systemd/system/nvidia-persistenced.service.d/gpulab.conf"
# As logind tells of somebody at a desktop
DESKTOP = """leader=$(systemctl show --property=MainPID --value systemd-journald)
printf 'USER=0\\nCLASS=user\\nTYPE=x11\\nLEADER=%s\\n' $leader > /run/systemd/sessions/desktop"""
NO_OWN_HEADERS = """dpkg --purge $(dpkg-query -W -f '${Package}' 'linux-headers-*-own')
rm -r /srv/own-headers* /lib/modules/*-own"""


@dataclass(frozen=True)
class Node:
    """What a node shows: packages of the driver with their versions, DKMS, the loaded driver, what is kept."""

    packages: dict[str, str]
    dkms: str
    loaded: str
    kept: str
    holds: str


def look(host):
    listing = host.check_output("dpkg-query -W -f '${db:Status-Status} ${Package} ${Version}\n' '*nvidia*' 'libcuda1'")
    rows = [line.split(" ") for line in listing.splitlines()]
    return Node(
        packages={name: version for status, name, version in rows if status != "not-installed"},
        dkms=host.check_output("dkms status"),
        loaded=re.search(r" (\d+\.\d+\.\d+) ", host.file("/proc/driver/nvidia/version").content_string)[1],
        kept=host.run("ls /var/lib/gpulab/former").stdout,
        holds=host.check_output("apt-mark showhold"),
    )


def reloads(host):
    """Return how often systemd has reloaded its units, in lines of its log."""
    return host.run("journalctl --quiet --no-pager _PID=1 | grep --count Reload").stdout


def site(version, *arguments, tags="nouveau,nvidia_driver,reboot", run=playbook, **variables):
    """Run what of site.yml has to do with the driver; the whole of it runs in the lab."""
    return run("site.yml", f"--tags={tags}", *arguments, look=look, nvidia_driver_version=version, **variables)


@pytest.fixture(scope="session")
def story():
    """Return the runs by name, in the order in which they happen.

    It ends where it begins, for the other tests of this scenario.
    """
    runs = {"first": site(FIRST)}
    assert runs["first"].status == 0, runs["first"].output
    runs["predicted"] = site(BETTER, "--check", "--diff")
    everywhere("gpulab-simulate fault 'gpu.0.processes = 4242:1024'")
    start = time.monotonic()
    runs["busy"] = site(BETTER)
    took = time.monotonic() - start
    everywhere("gpulab-simulate heal")
    everywhere(DESKTOP)
    runs["desktop"] = site(BETTER)
    everywhere("rm /run/systemd/sessions/desktop")
    runs["busy meanwhile"] = playbook(
        "molecule/nvidia_repository/busy_meanwhile.yml", look=look, nvidia_driver_version=BETTER
    )
    # A run that waits takes as long to get there, or longer on a busy machine; the user goes away some time after.
    then = f"--on-active={2 * took + 20:.0f} --timer-property=AccuracySec=1s"
    everywhere(f"systemd-run {then} /usr/local/sbin/gpulab-simulate heal")
    # What is given as key=value is text.
    waiting = {"nvidia_driver_change": "wait", "nvidia_driver_change_timeout": "900"}
    runs["waited"] = site(BETTER, tags="nvidia_driver", **waiting)
    runs["unbooted"] = site(BETTER, tags="nvidia_driver")
    runs["better"] = site(BETTER)
    runs["again"] = site(BETTER)
    everywhere(f"gpulab-simulate fault 'gpu.0.processes = 4242:1024' && rm {DROP_IN}")
    runs["before the file"] = Run(0, "", each(reloads))
    runs["file"] = playbook("site.yml", "--tags=nvidia_driver", look=reloads, nvidia_driver_version=BETTER)
    everywhere("gpulab-simulate heal && systemctl daemon-reload")
    # What it keeps of the former driver is complete, and its packages come.
    runs["cut off"] = site(LOSSY, run=cut_off, when="systemctl --quiet is-active gpulab-nvidia-driver")
    runs["lossy"] = site(LOSSY)
    hide(f"*_{BETTER}-1_amd64.deb")
    runs["uncompilable"] = site(UNCOMPILABLE)
    hide(f"*_{BETTER}-1_amd64.deb", back=True)
    everywhere(OWN_HEADERS)
    kernels = each(lambda host: host.check_output("ls /lib/modules").split())
    wish = {"nvidia_driver_kernels": "{{ kernels[inventory_hostname] }}", "kernels": kernels}
    runs["choosy"] = site(CHOOSY, **wish)
    everywhere(NO_OWN_HEADERS)
    everywhere("gpulab-simulate fault 'gpu.0.processes = 4242:1024'")
    own = "{{ inventory_hostname }}"
    runs["back"] = site(FIRST, nvidia_driver_change_force=own, reboot_force=own)
    everywhere("gpulab-simulate heal")
    return runs


@pytest.fixture
def name(host):
    return host.backend.host


@pytest.fixture
def seen(story, name):
    """Return a function from a run's name to what it left on this node."""
    return lambda run: story[run].nodes[name]


def versions(node):
    return {version.removesuffix("-1") for package, version in node.packages.items() if "pinning" not in package}


def pins(node):
    return [package for package in node.packages if "pinning" in package]


def test_a_node_in_use_keeps_its_driver(story, seen):
    assert story["busy"].status == 2
    assert "GPULAB-D021" in story["busy"].output
    assert seen("busy") == seen("first")


def test_a_node_with_somebody_at_its_desktop_keeps_its_driver(story, seen):
    assert story["desktop"].status == 2
    assert "GPULAB-D021" in story["desktop"].output
    assert "root at a desktop" in " ".join(story["desktop"].output.split())
    assert seen("desktop") == seen("first")


def test_a_node_that_came_into_use_after_the_plan_keeps_its_driver(story, seen):
    assert story["busy meanwhile"].status == 2
    assert "GPULAB-D021" in story["busy meanwhile"].output
    assert seen("busy meanwhile") == seen("first")


def test_check_mode_foresees_the_change_and_changes_nothing(story, seen):
    assert story["predicted"].status == 0, story["predicted"].output
    assert f"+nvidia-kernel-open-dkms {BETTER}-1" in story["predicted"].output
    assert seen("predicted") == seen("first")


def test_a_change_waits_until_nobody_uses_the_gpus(story, seen):
    assert story["waited"].status == 0, story["waited"].output
    assert re.search(r"not yet, \d+ tries left", story["waited"].output)
    assert versions(seen("waited")) == {BETTER}


def test_a_driver_is_not_judged_before_the_reboot(story, seen):
    assert story["unbooted"].status == 0, story["unbooted"].output
    assert (seen("unbooted").loaded, seen("unbooted").kept) == (FIRST, "nvidia-driver\n")
    assert seen("unbooted") == seen("waited")


def test_a_driver_that_proves_itself_stays(story, seen):
    assert story["better"].status == 0
    assert versions(seen("better")) == {BETTER}
    assert pins(seen("better")) == [f"nvidia-driver-pinning-{BETTER}"]
    assert (seen("better").loaded, seen("better").kept) == (BETTER, "")


def test_a_second_run_changes_nothing(story, seen):
    assert story["again"].output.count("changed=0") == len(story["again"].nodes)
    assert seen("again") == seen("better")


def test_systemd_reads_nothing_anew_while_the_gpus_are_in_use(story, seen, name):
    assert story["file"].status == 0, story["file"].output
    assert story["file"].changed[name] > 0
    assert seen("file") == seen("before the file")


def test_a_change_that_was_cut_off_is_taken_up_and_the_driver_judged(story, seen):
    """It does not prove itself: what was kept before the controller died is what comes back."""
    assert story["cut off"].status < 0
    assert seen("cut off").kept == "nvidia-driver\n"
    assert seen("cut off").loaded == BETTER


def test_a_driver_that_does_not_is_rolled_back(story, seen):
    assert story["lossy"].status == 2
    assert "GPULAB-D022" in story["lossy"].output
    assert seen("lossy") == seen("better")


def test_a_driver_that_does_not_build_is_rolled_back_without_any_package_source(story, seen):
    assert story["uncompilable"].status == 2
    assert "GPULAB-D001" in story["uncompilable"].output
    said = " ".join(story["uncompilable"].output.split())
    assert "Known cause: pci_resize_resource takes a further argument on this kernel." in said
    assert "The former packages were reinstalled." in said
    assert seen("uncompilable") == seen("better")


def test_a_driver_that_does_not_build_for_one_of_the_kernels_is_rolled_back(story, seen):
    assert story["choosy"].status == 2
    assert re.search(r"GPULAB-D001 .* 595\.98\.01 for kernel \S+-own:", " ".join(story["choosy"].output.split()))
    assert "The former packages were reinstalled." in " ".join(story["choosy"].output.split())
    left, better = seen("choosy"), seen("better")
    assert better.dkms in left.dkms  # and for the other kernel, too
    assert replace(left, dkms=better.dkms) == better


def test_a_downgrade_is_a_change_like_any_other_and_can_be_forced_on_a_node_in_use(story, seen):
    assert story["back"].status == 0, story["back"].output
    assert seen("back") == seen("first")
