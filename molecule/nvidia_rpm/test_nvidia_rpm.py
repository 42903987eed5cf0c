"""RHEL's family on stand-ins: containers made of Debian that say they are Rocky, with stubs of the packages."""

import json
import re

import pytest
from scenario import LAB, playbook, task

VERSION, NEWER, OTHER_BRANCH = "595.91.07", "595.95.01", "615.71.09"
HOLD = ["kmod-nvidia-*", "libnvidia-ml", "nvidia-driver-*", "nvidia-kmod-*", "nvidia-persistenced"]
DRIVER = [
    "kmod-nvidia-open-dkms",
    "nvidia-driver-cuda",
    "nvidia-driver-cuda-libs",
    "libnvidia-ml",
    "nvidia-persistenced",
]
KEY = "/etc/pki/rpm-gpg/RPM-GPG-KEY-gpulab-nvidia-cuda"
BOOT_FILES = "/boot/loader/entries /etc/kernel/cmdline /etc/default/grub"
DECLARATION = "/etc/yum.repos.d/gpulab-nvidia-cuda.repo"
LOCKS = "/etc/dnf/plugins/versionlock.list"
REAL_KEY = "610C7B14E068A878070DA4E99CD0A493D42D0685"


@pytest.fixture
def kernels(host):
    found = host.check_output("ls -v /lib/modules").split()
    assert len(found) == 2
    return found


@pytest.fixture
def url(host):
    return re.search(r"^baseurl=(\S+)$", host.file(DECLARATION).content_string, re.MULTILINE)[1]


@pytest.fixture
def fingerprint():
    return (LAB / "repository/fingerprint").read_text()


def trusted(host):
    """Return whose keys rpm trusts, of the system's and NVIDIA's; another one is named as rpm does."""
    files = {"system": "system-fingerprint", "NVIDIA": "fingerprint"}
    known = {whose: (LAB / "repository" / name).read_text() for whose, name in files.items()}
    keys = host.check_output("rpm --query gpg-pubkey --queryformat '%{VERSION}\n'").upper().split()
    return {next((whose for whose, full in known.items() if full.endswith(key)), key) for key in keys}


@pytest.fixture
def has_streams(host):
    return "rocky9" in host.check_output("hostname")


def declare(host, url, fingerprint, **options):
    """Declare NVIDIA's repository, under another name than the role's."""
    key_url = url + ("D42D0685.pub" if "rhel9" in url else "CDF6BA43.pub")
    given = {"name": "tampered", "url": url, "key_url": key_url, "fingerprint": fingerprint}
    return task(host, "gpulab.node.dnf_repository", **{**given, **options})


def versions(host, *names):
    """Return name and version of these packages, as rpm knows them."""
    listing = host.check_output(f"rpm --query --queryformat '%{{NAME}} %{{EPOCH}}:%{{VERSION}}\n' {' '.join(names)}")
    return dict(line.split() for line in listing.splitlines())


@pytest.fixture
def driver_of_before(host):
    """Bring the driver back to the planned version, as the next run of the role would."""
    yield
    present = [f"{name}={VERSION}*" for name in DRIVER]
    task(host, "gpulab.node.packages", transaction="back", present=present, hold=HOLD)
    assert set(versions(host, *DRIVER).values()) == {f"3:{VERSION}"}


def test_nothing_of_apt_is_on_the_node(host):
    assert not host.exists("apt-get")
    assert not host.exists("dpkg")
    assert not host.file("/etc/apt").exists


def test_the_planned_version_is_installed_and_not_the_newest(host):
    assert versions(host, *DRIVER) == dict.fromkeys(DRIVER, f"3:{VERSION}")


def test_the_stream_of_the_branch_is_enabled_where_there_are_streams(host, has_streams):
    if not has_streams:
        assert host.run("ls /etc/dnf/modules.d/nvidia-driver.module").rc != 0
        assert "module_hotfixes=1" in host.file(DECLARATION).content_string
        return
    assert re.search(r"595-open \[e\]", host.check_output("dnf --quiet module list --enabled"))
    assert OTHER_BRANCH not in host.check_output("dnf --quiet repoquery nvidia-driver-cuda")


def test_headers_of_every_kernel_are_there_and_the_next_kernel_brings_its_own(host, kernels):
    for kernel in kernels:
        assert host.file(f"/lib/modules/{kernel}/build/Makefile").exists
        assert f"kernel-devel-{kernel}" in host.check_output("rpm --query kernel-devel")
    assert host.check_output("rpm --query kernel-devel-matched") == f"kernel-devel-matched-{kernels[-1]}"


def test_the_headers_of_the_next_kernel_brought_no_kernel(host, kernels):
    installed = host.check_output("rpm --query kernel-core").split()
    assert sorted(installed) == sorted(f"kernel-core-{kernel}" for kernel in kernels)
    assert "kernel-core" in host.run("dnf --assumeno upgrade").stdout  # there is a newer one


def test_the_module_is_built_for_every_kernel(host, kernels):
    status = host.check_output("dkms status")
    for kernel in kernels:
        assert re.search(rf"^nvidia/{VERSION}, {kernel}, x86_64: installed$", status, re.MULTILINE)
        assert host.check_output("modinfo -k %s -F version nvidia", kernel) == VERSION


def test_an_upgrade_of_everything_leaves_the_driver_alone(host):
    locked = host.file(LOCKS).content_string.splitlines()
    assert {line.partition("-3:")[0] for line in locked} >= set(DRIVER)
    upgrade = host.run("dnf --assumeno upgrade")
    assert not set(DRIVER) & set(upgrade.stdout.split())
    assert "nvidia-driver-cuda" in host.run("dnf --assumeno --disableplugin=versionlock upgrade").stdout


def test_nouveau_is_gone_from_the_initramfs_and_forbidden(host, kernels):
    images = host.check_output("ls /boot/initr*").split()
    assert images
    for image in images:
        assert "nouveau.ko" not in host.check_output("lsinitrd %s", image)
    show = host.run("modprobe --show-depends --set-version %s nouveau", kernels[-1])
    assert "insmod" not in show.stdout


def test_the_node_is_read_right(host, kernels):
    facts = task(host, "gpulab.node.gpu_facts", timeout=10)["ansible_facts"]["gpulab"]
    assert facts["system"]["family"] == "redhat"
    assert [kernel["version"] for kernel in facts["kernels"] if kernel["installed"]] == kernels
    assert {kernel["nvidia_module"] for kernel in facts["kernels"] if kernel["installed"]} == {VERSION}
    (next_boot,) = [kernel for kernel in facts["kernels"] if kernel["next_boot"]]
    assert (next_boot["version"], next_boot["initramfs"]["nouveau"]) == (kernels[-1], False)
    packages = {package["name"]: package for package in facts["driver"]["packages"]}
    assert packages["kmod-nvidia-open-dkms"]["source"] == "nvidia"
    assert packages["kmod-nvidia-open-dkms"]["version"].startswith(VERSION)
    assert any(line.startswith("nvidia-driver-cuda-3:") for line in facts["driver"]["holds"])


def test_the_authorities_are_in_the_nodes_own_store(host):
    added = host.check_output("ls /etc/pki/ca-trust/source/anchors").split()
    store = host.file("/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem").content_string
    for name in added:
        assert host.file(f"/etc/pki/ca-trust/source/anchors/{name}").content_string.strip() in store


def test_the_persistence_daemon_is_enabled(host):
    assert host.service("nvidia-persistenced").is_enabled
    assert host.check_output("systemctl --failed --no-legend") == ""


def test_only_the_pinned_key_is_trusted_beside_the_systems(host):
    declaration = host.file(DECLARATION).content_string
    assert f"gpgkey=file://{KEY}\n" in declaration
    assert "\ngpgcheck=1\n" in declaration
    assert "\nrepo_gpgcheck=1\n" in declaration
    assert trusted(host) == {"system", "NVIDIA"}


def test_another_fingerprint_is_refused_and_nothing_is_written(host, url):
    result = declare(host, url, REAL_KEY)
    assert result["refusal"]["code"] == "H060"
    assert REAL_KEY in result["msg"]
    assert host.run("ls /etc/yum.repos.d/*tampered* /etc/pki/rpm-gpg/*tampered*").stdout == ""
    assert "d42d0685" not in host.check_output("rpm --query gpg-pubkey")


def test_a_key_that_nobody_published_is_refused_before_anything_changes(host, has_streams):
    if has_streams:
        pytest.skip("the key for RHEL 9 is known")
    done = playbook(
        "molecule/nvidia_rpm/converge.yml",
        f"--limit={host.backend.host}",
        gpulab_nvidia_repository_fingerprint=None,
        container_toolkit_repository_fingerprint="F" * 40,
    )
    assert done.status != 0
    assert "GPULAB-H064" in done.output
    assert done.changed[host.backend.host] == 0


def test_a_repository_comes_and_goes_without_a_trace(host, url, fingerprint):
    """The key is the role's too, so it stays trusted: only what bears the name goes."""
    assert declare(host, url, fingerprint)["changed"]
    assert not declare(host, url, fingerprint)["changed"]
    files = "ls /etc/yum.repos.d/*tampered* /etc/pki/rpm-gpg/*tampered*"
    assert len(host.check_output(files).split()) == 2
    assert task(host, "gpulab.node.dnf_repository", name="tampered", state="absent")["changed"]
    assert host.run(files).stdout == ""
    assert trusted(host) == {"system", "NVIDIA"}


@pytest.mark.parametrize(
    ("name", "code"), [("nvidia-altered", "H043"), ("nvidia-unsigned", "H044"), ("nosuch", "H049")]
)
def test_what_cannot_be_trusted_or_found_is_refused(host, name, code):
    result = task(host, "gpulab.node.packages", transaction="refused", present=[name])
    assert result["refusal"]["code"] == code
    assert not host.package(name).is_installed


@pytest.mark.usefixtures("driver_of_before")
def test_check_mode_tells_the_truth(host):
    release = f"1.el{host.check_output('cat /etc/dnf/vars/releasever')}"
    wanted = {"transaction": "newer", "present": [f"{name}={NEWER}*" for name in DRIVER], "hold": HOLD}
    before = host.check_output("rpm -qa | sort")
    predicted = task(host, "gpulab.node.packages", check=True, **wanted)
    assert host.check_output("rpm -qa | sort") == before
    assert predicted["predicted"]["change"]["libnvidia-ml"] == [
        f"3:{VERSION}-{release}",
        f"3:{NEWER}-{release}",
    ]
    assert task(host, "gpulab.node.packages", **wanted)["changed"]
    changed = set(host.check_output("rpm -qa | sort").split()) - set(before.split())
    assert {name.partition(f"-{NEWER}")[0] for name in changed} == set(predicted["predicted"]["change"])
    assert not task(host, "gpulab.node.packages", **wanted)["changed"]


def test_what_is_locked_changes_for_nobody_else(host):
    result = task(host, "gpulab.node.packages", transaction="else", present=[f"nvidia-driver-cuda={NEWER}*"])
    assert result["refusal"]["code"] in {"H049", "H056"}
    assert versions(host, *DRIVER) == dict.fromkeys(DRIVER, f"3:{VERSION}")


def test_who_uses_the_package_system_is_named(host):
    host.check_output("systemd-run --unit=busy sh -c 'echo $$$$ > /var/lib/dnf/rpmdb_lock.pid; exec sleep 60'")
    wanted = {"transaction": "waits", "present": ["gcc"], "lock_timeout": 1}
    result = task(host, "gpulab.node.packages", **wanted)
    assert result["refusal"]["code"] == "H054"
    assert "busy.service" in result["msg"]
    host.check_output("systemctl stop busy")
    assert task(host, "gpulab.node.packages", **wanted)["changed"]


def packages(listing):
    """Return the names of the packages that rpm lists."""
    return {line.rsplit("-", 2)[0] for line in listing.splitlines()}


def cuda(host):
    """Return the toolkit that sessions, and the one that the dynamic linker is given."""
    found = host.check_output("env --ignore-environment bash --login -c 'readlink --canonicalize $(command -v nvcc)'")
    linked = host.check_output("ldconfig -p")
    return found, re.findall(r"libstandin\.so\.(\S+) .*=> /usr/local/cuda/", linked)


@pytest.fixture
def converge(host):
    """Return a function that applies the roles with other wishes; it returns the number of changes on this node."""

    def run(*arguments, **wishes):
        done = playbook("molecule/nvidia_rpm/converge.yml", f"--limit={host.backend.host}", *arguments, **wishes)
        assert done.status == 0, done.output
        return done.changed[host.backend.host]

    return run


def test_toolkits_are_side_by_side_and_libraries_are_those_of_the_default(host):
    assert cuda(host) == ("/usr/local/cuda-13.0/bin/nvcc", ["13.0"])
    assert host.file("/usr/local/cuda-13.1/bin/nvcc").exists
    names = ("libnccl", "libnccl-devel", "libcudnn9-cuda-13", "libnvinfer10")
    releases = host.check_output(f"rpm --query --queryformat '%{{VERSION}}-%{{RELEASE}}\n' {' '.join(names)}").split()
    assert releases[:3] == ["2.32.3-1+cuda13.0", "2.32.3-1+cuda13.0", "9.20.0.48-1"]
    assert "+cuda13." in releases[3]  # built once for a major


def test_a_toolkit_goes_with_what_came_along_and_nothing_else(host, converge):
    host.check_output("dnf mark install cuda-cudart-13-0")  # somebody's wish from now on
    before = host.check_output("rpm -qa | sort")
    fewer = {"cuda_toolkits": ["13.1"], "cuda_default": None, "cudnn_version": None}
    assert converge("--check", **fewer) > 0
    assert host.check_output("rpm -qa | sort") == before
    assert converge(**fewer) > 0
    names = {name for name in packages(before) if not host.package(name).is_installed}
    assert names == {"cuda-toolkit-13-0", "cuda-nvcc-13-0", "libcudnn9-devel-cuda-13", "libcudnn9-cuda-13"}
    assert cuda(host) == ("/usr/local/cuda-13.1/bin/nvcc", ["13.1"])
    assert "libcudnn9" not in host.file(LOCKS).content_string
    assert converge(**fewer) == 0
    host.check_output("dnf --assumeyes remove cuda-cudart-13-0")


def test_containers_get_the_toolkit_in_the_planned_version(host):
    names = ("nvidia-container-toolkit", "libnvidia-container-tools", "podman")
    found = versions(host, *names)
    assert found == {**dict.fromkeys(names[:2], "(none):1.20.0"), "podman": "(none):5.4.0"}
    assert host.check_output("nvidia-ctk --version").endswith(" 1.20.0")
    assert host.service("nvidia-cdi-refresh.path").is_enabled
    assert host.service("nvidia-cdi-refresh.service").is_enabled


DOCKER = {"container_toolkit_engines": ["podman", "docker"], "container_toolkit_docker_source": "docker"}


def test_a_package_that_docker_com_conflicts_with_is_named_before_anything_changes(host):
    host.check_output("dnf --assumeyes install podman-docker")
    before = host.check_output("rpm -qa | sort")
    done = playbook("molecule/nvidia_rpm/converge.yml", f"--limit={host.backend.host}", **DOCKER)
    assert "GPULAB-P078" in done.output
    assert "podman-docker" in done.output
    assert done.changed.get(host.backend.host, 0) == 0
    assert host.check_output("rpm -qa | sort") == before
    host.check_output("dnf --assumeyes remove podman-docker")


def test_docker_com_is_installed_given_the_gpus_and_started(host, converge):
    """The daemon is a stub that answers what gpulab asks; no container runs."""
    assert converge("--check", **DOCKER) > 0
    assert not host.package("docker-ce").is_installed
    assert converge(**DOCKER) > 0
    assert host.check_output("docker --version") == "Docker version 29.7.2, build 0"
    assert (host.service("docker").is_running, host.service("docker").is_enabled) == (True, True)
    settings = json.loads(host.file("/etc/docker/daemon.json").content_string)
    assert (settings["features"], settings["live-restore"]) == ({"cdi": True}, True)
    started = host.check_output("systemctl show --property=ActiveEnterTimestampMonotonic --value docker")
    written = host.check_output("stat --format=%Y /etc/docker/daemon.json")
    assert converge(**DOCKER) == 0
    assert host.check_output("systemctl show --property=ActiveEnterTimestampMonotonic --value docker") == started
    assert host.check_output("stat --format=%Y /etc/docker/daemon.json") == written


def boot_files(host):
    """Return the lines of the boot entries, and of the files that say what later kernels get."""
    return sorted(host.check_output(f"grep -r '' {BOOT_FILES}").splitlines())


def boot_arguments(host, *wanted, check=False):
    return task(host, "gpulab.node.boot_arguments", check=check, arguments=list(wanted))


def test_arguments_of_the_kernel_are_given_to_every_kernel_and_to_later_ones(host, kernels):
    """The stub of grubby does what the real one is known to do; a boot from these entries is not shown."""
    before = boot_files(host)
    assert boot_arguments(host, "iommu=pt", check=True)["changed"]
    assert boot_files(host) == before
    plan = {"files": {}, "boot_files": {}, "values": {}, "services": {}, "kernel_arguments": ["iommu=pt"]}
    done = playbook("molecule/nvidia_rpm/tuning.yml", f"--limit={host.backend.host}", __tuning_plan=plan)
    assert done.changed == {host.backend.host: 1}, done.output
    assert len([line for line in boot_files(host) if " iommu=pt" in line]) == len(kernels) + 2
    assert not boot_arguments(host, "iommu=pt")["changed"]
    tuned = task(host, "gpulab.node.gpu_facts", timeout=10)["ansible_facts"]["gpulab"]["tuning"]["kernel_arguments"]
    assert (tuned["wanted"], tuned["in_menu"]) == (["iommu=pt"], True)


def test_what_an_older_grubby_leaves_out_is_written_and_what_it_damages_is_put_back(host, kernels):
    before = boot_files(host)
    host.check_output("touch /root/grubby-of-old")
    assert boot_arguments(host, "iommu=pt", "nosmt=force")["changed"]
    assert [line.replace(" nosmt=force", "") for line in boot_files(host)] == before
    assert len([line for line in boot_files(host) if " nosmt=force" in line]) == len(kernels) + 2
    assert boot_arguments(host, "iommu=pt")["changed"]
    assert boot_files(host) == before
    damaged = boot_arguments(host)  # it would take the end of intel_iommu=pt, too
    assert damaged["refusal"]["code"] == "H174"
    assert boot_files(host) == before
    host.check_output("rm /root/grubby-of-old")


def test_an_argument_of_somebody_elses_is_not_overwritten(host):
    host.check_output("grubby --update-kernel=ALL --args=nosmt")
    before = boot_files(host)
    assert boot_arguments(host, "iommu=pt", "nosmt=force")["refusal"]["code"] == "H173"
    assert not boot_arguments(host, "iommu=pt", "nosmt")["changed"]
    assert boot_files(host) == before
    host.check_output("grubby --update-kernel=ALL --remove-args=nosmt")


@pytest.fixture
def remove(host):
    """Return a function that takes away what the roles brought; it returns the number of changes on this node."""

    def run():
        done = playbook("playbooks/remove.yml", f"--limit={host.backend.host}")
        assert done.status == 0, done.output
        return done.changed[host.backend.host]

    return run


def test_the_driver_goes_with_all_that_was_for_it(host, remove):
    """It comes last: after it there is no driver."""
    assert remove() > 0
    left = packages(host.check_output("rpm -qa"))
    engines = {"containerd.io", "docker-buildx-plugin", "docker-ce", "docker-ce-cli", "docker-compose-plugin", "podman"}
    assert left == {"bash", "gcc", "gpg-pubkey", "kernel-core", *engines}  # engines stay; gcc is a test's
    assert "nvidia" not in host.file(LOCKS).content_string
    assert not [path for path in (KEY, DECLARATION) if host.file(path).exists]
    assert trusted(host) == {"system"}
    assert host.run("ls /etc/dnf/modules.d/nvidia-driver.module").rc != 0
    assert "blacklist nouveau" not in host.check_output("modprobe --showconfig")
    assert boot_files(host) == sorted(host.file("/root/boot-before").content_string.splitlines())
    assert remove() == 0
