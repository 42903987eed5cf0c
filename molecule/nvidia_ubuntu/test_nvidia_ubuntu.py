"""The driver and docker.com's Docker on stand-ins for Ubuntu: Debian nodes that say so, and stubs of the packages."""

import json
from contextlib import contextmanager

import pytest
from scenario import playbook

VERSION = "595.91.07"
KERNEL = "6.8.0-51-generic"  # Ubuntu's: there is nothing of it on the nodes but the stub of its modules
SIGNED = "linux-modules-nvidia-595-server-open"
OF_UBUNTU = {
    "nvidia-headless-no-dkms-595-server-open",
    "nvidia-utils-595-server",
    "libnvidia-compute-595-server",
    "nvidia-compute-utils-595-server",
    "nvidia-kernel-common-595-server",
    f"{SIGNED}-{KERNEL}",
}
# The kernel is 24.04's own, and that of a newer system on 22.04.
SERIES = {"ubuntu2204": {f"{SIGNED}-generic-hwe-22.04"}, "ubuntu2404": {f"{SIGNED}-generic"}}
OF_NVIDIA = {
    f"nvidia-driver-pinning-{VERSION}",
    "nvidia-dkms-open",
    "nvidia-headless-no-dkms-open",
    "nvidia-kernel-common",
    "libnvidia-compute",
    "nvidia-compute-utils",
}
FABRIC = {"nvidia-fabricmanager", "libnvidia-nscq"}
EXPECTED = {"ubuntu2204": OF_NVIDIA, "ubuntu2404": OF_UBUNTU | SERIES["ubuntu2404"], "ubuntu2604": OF_NVIDIA | FABRIC}
REPOSITORY_FILES = [
    "/etc/apt/keyrings/gpulab-nvidia-cuda.asc",
    "/etc/apt/sources.list.d/gpulab-nvidia-cuda.sources",
    "/etc/apt/preferences.d/zz-gpulab-nvidia-cuda.pref",
]


@pytest.fixture
def name(host):
    return host.backend.host


@pytest.fixture
def only(name):
    """Return a function that skips the test on any other node."""
    return lambda wanted: name == wanted or pytest.skip(f"for {wanted}")


def converge(name, *options, **variables):
    """Run the scenario's converge on one node; return (exit status, output)."""
    run = playbook("molecule/nvidia_repository/converge.yml", f"--limit={name}", *options, **variables)
    return run.status, run.output


@contextmanager
def somebody_who_trains(host):
    """Have a process that holds a GPU's device file open, for a while."""
    host.check_output("mknod /dev/nvidia0 c 1 3")
    host.check_output("systemd-run --quiet --unit=training sh -c 'exec sleep 3600 < /dev/nvidia0'")
    yield
    host.check_output("systemctl stop training && rm /dev/nvidia0")


def driver(host):
    """Return the installed packages of the driver."""
    listing = host.check_output("dpkg-query --show --showformat='${db:Status-Status} ${Package}\\n'")
    found = (line.split() for line in listing.splitlines())
    return {name for status, name in found if "nvidia" in name and status == "installed"}


def test_the_node_is_a_stand_in_and_says_so(host):
    assert "stand-in: Debian" in host.file("/etc/os-release").content_string


def test_the_drivers_packages_are_installed_and_no_others(host, name):
    assert driver(host) == EXPECTED[name]


def test_all_of_them_are_on_hold(host, name):
    assert EXPECTED[name] <= set(host.check_output("apt-mark showhold").split())


def test_signed_modules_need_no_dkms(host, only):
    only("ubuntu2404")
    assert not host.package("dkms").is_installed
    assert not host.package("gcc").is_installed
    assert host.file(f"/lib/modules/{KERNEL}/kernel/nvidia-595srv-open/nvidia.ko").exists


def test_nvidias_module_is_built_for_the_kernel(host, name):
    if name == "ubuntu2404":
        pytest.skip("its modules are built by the distribution")
    (line,) = host.check_output("dkms status").splitlines()
    assert line.startswith(f"nvidia/{VERSION}")
    assert line.endswith("installed")


def test_the_persistence_daemon_is_enabled_and_none_has_failed(host):
    assert host.service("nvidia-persistenced").is_enabled
    assert host.check_output("systemctl --failed --no-legend") == ""


def test_the_fabric_manager_has_the_drivers_version_where_there_are_nvswitches(host, name):
    if name == "ubuntu2604":
        assert host.package("nvidia-fabricmanager").version == host.package("nvidia-dkms-open").version
        assert host.service("nvidia-fabricmanager").is_enabled
    else:
        assert not host.package("nvidia-fabricmanager").is_installed
        assert not host.file("/etc/systemd/system/nvidia-fabricmanager.service.d/gpulab.conf").exists


def test_another_source_is_refused_and_every_package_named(host, only):
    only("ubuntu2204")
    before = host.check_output("dpkg --get-selections")
    status, output = converge("ubuntu2204", nvidia_driver_source="distribution", nvidia_driver_kernels=[KERNEL])
    assert status != 0
    assert "GPULAB-P038" in output
    assert all(name in output.replace("\n", " ") for name in OF_NVIDIA)
    assert host.check_output("dpkg --get-selections") == before


def test_the_source_is_changed_and_leaves_nothing_of_the_other(host, only):
    only("ubuntu2204")
    wishes = {
        "nvidia_driver_source": "distribution",
        "nvidia_driver_kernels": [KERNEL],
        "nvidia_driver_remove_conflicting": True,
    }
    status, output = converge("ubuntu2204", **wishes)
    assert status == 0, output
    assert driver(host) == OF_UBUNTU | SERIES["ubuntu2204"]
    assert not any(host.file(path).exists for path in REPOSITORY_FILES)
    assert "gpulab-nvidia-cuda" not in host.check_output("apt-cache policy")
    status, output = converge("ubuntu2204", **wishes)
    assert "changed=0" in output, output


def test_and_back(host, only):
    only("ubuntu2204")
    (kernel,) = set(host.check_output("ls /lib/modules").split()) - {KERNEL}
    status, output = converge("ubuntu2204", nvidia_driver_kernels=[kernel])
    assert "GPULAB-P038" in output
    status, output = converge("ubuntu2204", nvidia_driver_kernels=[kernel], nvidia_driver_remove_conflicting=True)
    assert status == 0, output
    assert driver(host) == OF_NVIDIA
    assert all(host.file(path).exists for path in REPOSITORY_FILES)


IMEX_NODES, IMEX_UNIT = "/etc/nvidia-imex/nodes_config.cfg", "/etc/systemd/system/nvidia-imex.service.d"


@pytest.fixture
def rack(host, only):
    """Show ubuntu2204's simulated GPUs as GB200, and have daemons start without a driver; return {nodes: wishes}."""
    only("ubuntu2204")
    (kernel,) = set(host.check_output("ls /lib/modules").split()) - {KERNEL}
    own = host.check_output("hostname -I").split()[0]
    devices = "for gpu in /sys/bus/pci/devices/*/simulated; do echo {} > ${{gpu%/*}}/device; done"
    host.check_output(
        f"mkdir -p {IMEX_UNIT} && printf '[Unit]\nConditionPathExists=\n' > {IMEX_UNIT}/zz-no-driver.conf"
    )
    host.check_output(devices.format("0x2941"))
    yield lambda *others: {"nvidia_driver_imex_nodes": [own, *others], "nvidia_driver_kernels": [kernel]}
    host.check_output(devices.format("0x2684"))
    host.check_output(f"rm {IMEX_UNIT}/zz-no-driver.conf")


def test_imex_gets_the_nodes_of_its_rack_and_a_channel_from_the_driver(host, rack):
    status, output = converge("ubuntu2204", "--check", **rack("10.9.9.8"))
    assert status == 0, output
    assert "changed=0" not in output
    assert not host.package("nvidia-imex").is_installed
    status, output = converge("ubuntu2204", **rack("10.9.9.8"))
    assert status == 0, output
    assert host.package("nvidia-imex").version == host.package("nvidia-dkms-open").version
    assert "nvidia-imex" in host.check_output("apt-mark showhold").split()
    assert host.file(IMEX_NODES).content_string.splitlines() == rack("10.9.9.8")["nvidia_driver_imex_nodes"]
    assert (host.service("nvidia-imex").is_enabled, host.service("nvidia-imex").is_running) == (True, True)
    assert "ConditionPathExists=/proc/driver/nvidia/version" in host.file(f"{IMEX_UNIT}/gpulab.conf").content_string
    assert "NVreg_CreateImexChannel0=1" in host.check_output("modprobe --showconfig")
    status, output = converge("ubuntu2204", **rack("10.9.9.8"))
    assert "changed=0" in output, output


def test_imex_gets_other_nodes_only_while_the_gpus_are_idle(host, rack):
    wishes = rack("10.9.9.8", "10.9.9.9")
    with somebody_who_trains(host):
        status, output = converge("ubuntu2204", **wishes)
    assert status != 0
    assert "GPULAB-D021" in output
    assert host.check_output(f"cat /run/imex-nodes {IMEX_NODES}").count("10.9.9.9") == 0
    status, output = converge("ubuntu2204", **wishes)
    assert status == 0, output
    assert host.check_output("cat /run/imex-nodes").splitlines() == wishes["nvidia_driver_imex_nodes"]


def test_imex_goes_where_no_nodes_are_named_any_more_and_the_driver_stays(host, rack):
    wish = {**rack(), "nvidia_driver_imex_nodes": []}
    status, output = converge("ubuntu2204", "--check", **wish)
    assert (status, host.package("nvidia-imex").is_installed) == (0, True), output
    status, output = converge("ubuntu2204", **wish)
    assert status == 0, output
    assert not host.package("nvidia-imex").is_installed
    assert not host.file(IMEX_NODES).exists
    assert not host.file(f"{IMEX_UNIT}/gpulab.conf").exists
    assert host.package("nvidia-dkms-open").is_installed
    status, output = converge("ubuntu2204", **wish)
    assert "changed=0" in output, output


# What the distribution decides: a version that is requested would be held.
UPGRADE = {"nvidia_driver_version": None, "nvidia_driver_upgrade": True}
NEWER, NEWER_KERNEL = "595.95.01-0ubuntu0.24.04.1", "6.8.0-60-generic"


def version(host):
    return host.package("nvidia-utils-595-server").version


def test_a_newer_driver_of_the_distribution_comes_only_when_it_is_requested(host, only):
    only("ubuntu2404")
    host.check_output("sed -i 's/^Suites: noble$/Suites: noble noble-updates/' /etc/apt/sources.list.d/ubuntu.sources")
    before = version(host)
    status, output = converge("ubuntu2404", nvidia_driver_version=None)  # the new suite has its components from it
    assert (status, version(host)) == (0, before), output
    host.check_output("apt-get update")
    status, output = converge("ubuntu2404", nvidia_driver_version=None)
    assert (status, version(host)) == (0, before), output
    assert "changed=0" in output, output


def test_it_is_predicted_in_check_mode_with_the_version(host, only):
    only("ubuntu2404")
    before = version(host)
    status, output = converge("ubuntu2404", "--check", "--diff", **UPGRADE)
    assert status == 0, output
    assert NEWER in output
    assert version(host) == before


def test_it_does_not_come_while_the_gpus_are_in_use(host, only):
    only("ubuntu2404")
    before = version(host)
    with somebody_who_trains(host):
        status, output = converge("ubuntu2404", **UPGRADE)
    assert status != 0
    assert "GPULAB-D021" in output
    assert f"{before} to {NEWER}" in " ".join(output.split())
    assert version(host) == before


def test_it_comes_while_they_are_idle_and_the_former_one_is_kept(host, only):
    only("ubuntu2404")
    # The package lists are old, as on a node that nobody refreshes them on.
    host.check_output("find /var/lib/apt/lists -name '*noble-updates*' -delete")
    host.check_output("touch --date '2 hours ago' /var/lib/apt/periodic/update-success-stamp")
    status, output = converge("ubuntu2404", **UPGRADE)
    assert status == 0, output
    assert version(host) == NEWER
    assert host.file(f"/lib/modules/{NEWER_KERNEL}/kernel/nvidia-595srv-open/nvidia.ko").exists
    assert driver(host) <= set(host.check_output("apt-mark showhold").split())
    assert host.file("/var/lib/gpulab/former/nvidia-driver/nvidia-utils-595-server").is_directory
    status, output = converge("ubuntu2404", **UPGRADE)
    assert "changed=0" in output, output


def containers(name, *options, **variables):
    """Run what of site.yml has to do with containers on one node."""
    return playbook("site.yml", f"--limit={name}", "--tags=container_toolkit", *options, **variables)


DOCKER_FILES = ["/etc/apt/keyrings/gpulab-docker.asc", "/etc/apt/sources.list.d/gpulab-docker.sources"]


def test_a_package_that_docker_com_conflicts_with_is_named_before_anything_changes(host, only):
    only("ubuntu2204")
    host.check_output("apt-get install --yes --no-install-recommends runc")
    before = host.check_output("dpkg --get-selections")
    done = containers("ubuntu2204")
    assert done.status != 0
    assert "GPULAB-P078" in done.output
    assert "conflicts with runc" in " ".join(done.output.split())
    assert done.changed.get("ubuntu2204", 0) == 0
    assert host.check_output("dpkg --get-selections") == before
    assert not any(host.file(path).exists for path in DOCKER_FILES)


def test_a_key_of_docker_com_that_is_another_is_refused(host, only):
    only("ubuntu2604")
    done = containers("ubuntu2604", container_toolkit_docker_repository_fingerprint="F" * 40)
    assert "GPULAB-H060" in done.output
    assert not any(host.file(path).exists for path in DOCKER_FILES)


def test_docker_com_is_installed_and_given_the_gpus(host, only):
    """The daemon is a stub that answers what gpulab asks; no container runs."""
    only("ubuntu2604")
    done = containers("ubuntu2604", "--check")
    assert done.status == 0, done.output
    assert done.changed["ubuntu2604"] > 0
    assert not host.package("docker-ce").is_installed
    done = containers("ubuntu2604")
    assert done.status == 0, done.output
    assert host.check_output("docker --version") == "Docker version 29.7.2, build 0"
    assert (host.service("docker").is_running, host.service("docker").is_enabled) == (True, True)
    settings = json.loads(host.file("/etc/docker/daemon.json").content_string)
    assert (settings["features"], settings["live-restore"]) == ({"cdi": True}, True)
    assert host.check_output("nvidia-ctk --version").endswith(" 1.20.0")
    assert "docker-ce" not in host.check_output("apt-mark showhold").split()  # it gets its security fixes
    done = containers("ubuntu2604")
    assert (done.status, done.changed["ubuntu2604"]) == (0, 0), done.output


def test_nouveau_is_kept_away_beside_canonicals_driver_too(host, only):
    only("ubuntu2404")
    done = playbook("site.yml", "--limit=ubuntu2404", "--tags=nouveau")
    assert done.status == 0, done.output
    assert "install nouveau /bin/false" in host.check_output("modprobe --showconfig")
    kernel = host.check_output("ls /lib/modules").split()[0]
    assert "insmod" not in host.run(f"modprobe --show-depends --set-version {kernel} nouveau").stdout


def test_all_of_it_goes_and_nothing_is_left_on_hold(host, name):
    """It comes last: after it there is no driver. Whatever package names the driver had are those that go."""
    assert driver(host)
    done = playbook("playbooks/remove.yml", f"--limit={name}")
    assert done.status == 0, done.output
    assert driver(host) == set()
    assert host.check_output("apt-mark showhold") == ""
    assert not any(host.file(path).exists for path in REPOSITORY_FILES)
    assert "install nouveau" not in host.check_output("modprobe --showconfig")
    assert not host.file(IMEX_NODES).exists
    assert not host.file(f"{IMEX_UNIT}/gpulab.conf").exists
    done = playbook("playbooks/remove.yml", f"--limit={name}")
    assert (done.status, done.changed[name]) == (0, 0), done.output
