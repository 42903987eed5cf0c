"""The NVIDIA driver on disk."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.driver import runfile
from ansible_collections.gpulab.node.plugins.module_utils.facts import driver
from ansible_collections.gpulab.node.plugins.module_utils.facts.driver import PATTERNS, DriverQuery
from ansible_collections.gpulab.node.plugins.module_utils.facts.packages import PackagesQuery, of_dpkg

DEBIAN = "Debian NVIDIA Maintainers <pkg-nvidia-devel@lists.alioth.debian.org>"
ROWS = (
    ("nvidia-driver", "535.261.03-1", "install", "installed", DEBIAN),
    ("nvidia-kernel-dkms", "535.261.03-1", "hold", "installed", DEBIAN),
    ("nvidia-persistenced", "535.1-1", "install", "half-configured", DEBIAN),
    ("cuda-drivers", "580.95-1", "install", "installed", "cudatools <cudatools@nvidia.com>"),
    ("nvidia-mine", "1", "install", "installed", "Me <me@example.org>"),
    ("runc", "1.1", "install", "installed", "Debian Go Packaging Team"),
    ("nvidia-none", "", "unknown", "not-installed", ""),
    ("nvidia-removed", "470", "deinstall", "config-files", DEBIAN),
    ("nvidia-container-toolkit", "1.17", "install", "installed", "NVIDIA CORPORATION <x@nvidia.com>"),
    ("nvidia-cuda-toolkit", "11.8", "install", "installed", DEBIAN),
    ("nvidia-cuda-mps", "535.261.03-1", "install", "installed", DEBIAN),
)
LISTING = "".join(f"{name}\tamd64\t{chr(9).join(rest)}\n" for name, *rest in ROWS)
LDCONFIG = """120 libs found in cache `/etc/ld.so.cache'
\tlibnvidia-ml.so.1 (libc6) => /usr/lib32/libnvidia-ml.so.1
\tlibnvidia-ml.so.1 (libc6,x86-64) => /lib/x86_64-linux-gnu/libnvidia-ml.so.1
\tlibnvidia-ml.so (libc6,x86-64) => /lib/x86_64-linux-gnu/libnvidia-ml.so
"""


def facts(tree, module_on_disk):
    node = tree.node()
    return DriverQuery(node, PackagesQuery(node, *PATTERNS)).facts(module_on_disk)


def test_packages():
    packages, held = driver.packages(of_dpkg(LISTING))
    assert [(package["name"], package["source"]) for package in packages] == [
        ("nvidia-driver", "distribution"),
        ("nvidia-kernel-dkms", "distribution"),
        ("nvidia-persistenced", "distribution"),
        ("cuda-drivers", "nvidia"),
        ("nvidia-mine", "other"),
        ("nvidia-cuda-mps", "distribution"),
    ]
    assert held == ["nvidia-kernel-dkms"]


def test_packages_of_a_foreign_architecture_carry_its_name():
    rows = (("dpkg", "amd64"), ("libcuda1", "amd64"), ("libcuda1", "i386"), ("nvidia-support", "all"))
    listing = "".join(f"{name}\t{architecture}\t1\thold\tinstalled\t{DEBIAN}\n" for name, architecture in rows)
    packages, held = driver.packages(of_dpkg(listing))
    assert [package["name"] for package in packages] == ["libcuda1", "libcuda1:i386", "nvidia-support"] == held


def test_debian_node(tree):
    tree.file("/var/lib/dpkg/status").prints("dpkg-query", LISTING).prints("ldconfig", LDCONFIG)
    tree.link("/lib/x86_64-linux-gnu/libnvidia-ml.so.1", "/etc/alternatives/glx--libnvidia-ml.so.1")
    tree.link("/etc/alternatives/glx--libnvidia-ml.so.1", "/usr/lib/x86_64-linux-gnu/nvidia/current/libnvidia-ml.so.1")
    tree.link("/usr/lib/x86_64-linux-gnu/nvidia/current/libnvidia-ml.so.1", "libnvidia-ml.so.535.261.03")
    found = facts(tree, "535.261.03")
    assert found["library"] == "535.261.03"
    assert found["library_path"] == "/lib/x86_64-linux-gnu/libnvidia-ml.so.1"
    assert found["module_on_disk"] == "535.261.03"
    assert found["holds"] == ["nvidia-kernel-dkms"]
    assert found["runfile"] is None


def test_redhat_node(tree):
    tree.prints("rpm -qa", "nvidia-driver\t3\t580.95-1.el9\tx86_64\tNVIDIA Corporation\n")
    tree.file("/etc/dnf/plugins/versionlock.list", "# nvidia\nnvidia-driver-3:580.95-1.el9.*\nbash-5.*\n")
    found = facts(tree, None)
    assert found["packages"] == [{"name": "nvidia-driver", "version": "580.95-1.el9", "source": "nvidia"}]
    assert found["holds"] == ["nvidia-driver-3:580.95-1.el9.*"]


@pytest.mark.parametrize(
    ("record", "foreign"),
    [
        (None, ["nvidia-kernel-dkms"]),
        ('["nvidia-driver"]', ["nvidia-kernel-dkms"]),
        ('["nvidia-kernel-dkms"]', []),
        ("[", []),  # damaged: a transaction names it
    ],
)
@pytest.mark.parametrize("file", ["holds.json", "packages.json"])
def test_holds_of_somebody_else_are_told_from_gpulabs(tree, record, foreign, file):
    tree.file("/var/lib/dpkg/status").prints("dpkg-query", LISTING)
    if record:
        tree.file(f"/var/lib/gpulab/{file}", record)
    assert facts(tree, None)["holds_foreign"] == foreign


def test_locks_of_somebody_else_are_told_from_gpulabs(tree):
    tree.file("/etc/dnf/plugins/versionlock.list", "nvidia-driver-3:580.95-1.el9.*\nnvidia-smi-3:580.95-1.el9.*\n")
    tree.file("/var/lib/gpulab/holds.json", '["nvidia-driver"]')
    assert facts(tree, None)["holds_foreign"] == ["nvidia-smi-3:580.95-1.el9.*"]


def test_locks_of_what_is_no_driver_and_what_is_excluded_are_no_holds(tree):
    lines = ("nvidia-container-toolkit-0:1.17.8-1.*", "libnvidia-container1-0:1.17.8-1.*", "!nvidia-driver-3:575.1-1.*")
    tree.file("/etc/dnf/plugins/versionlock.list", "\n".join(lines))
    assert facts(tree, None)["holds"] == facts(tree, None)["holds_foreign"] == []


def test_node_without_driver(tree):
    assert facts(tree, None) == {
        "packages": [],
        "holds": [],
        "holds_foreign": [],
        "runfile": None,
        "runfile_own": False,
        "in_container": False,
        "library": None,
        "library_path": None,
        "module_on_disk": None,
        "display": {},
        "former": {},
    }


X_DRIVERS = ["/usr/lib/nvidia", "/usr/lib/x86_64-linux-gnu/nvidia/xorg", "/usr/lib64/xorg/modules/drivers"]


@pytest.mark.parametrize("place", X_DRIVERS)
@pytest.mark.parametrize(("text", "version"), [("NVIDIA dlloader X Driver  580.95.05  Wed", "580.95.05"), ("-", None)])
def test_what_draws_a_display_has_a_version(tree, place, text, version):
    libraries = "/usr/lib/x86_64-linux-gnu"
    tree.prints(
        "ldconfig",
        f"\tlibGLX_nvidia.so.0 (libc6,x86-64) => {libraries}/libGLX_nvidia.so.0\n"
        "\tlibGLX_nvidia.so.0 (libc6) => /usr/lib/i386-linux-gnu/libGLX_nvidia.so.0\n"
        "\tlibEGL_mesa.so.0 (libc6,x86-64) => /usr/lib/x86_64-linux-gnu/libEGL_mesa.so.0\n",
    )
    tree.file(f"{libraries}/libGLX_nvidia.so.580.95.05")
    tree.link(f"{libraries}/libGLX_nvidia.so.0", "libGLX_nvidia.so.580.95.05")
    tree.file(f"{place}/nvidia_drv.so", f"nvidia id: {text} Nov 26\0")
    assert facts(tree, None)["display"] == {"libGLX_nvidia.so.0": "580.95.05", "nvidia_drv.so": version}


def test_a_driver_that_was_replaced_is_kept_until_the_new_one_proved_itself(tree):
    record = '{"versions": {"nvidia-driver": "1"}, "held": [], "new": []}'
    tree.file("/var/lib/gpulab/former/nvidia-driver/packages.json", record)
    assert facts(tree, None)["former"] == {"nvidia-driver": "1"}


def test_a_former_driver_of_a_runfile_is_told(tree):
    record = '{"wish": {"driver": {"version": "580.178.04", "kernel_modules": "open"}, "url": "x", "sha256": "0"}}'
    tree.file("/var/lib/gpulab/runfile/former.json", record)
    assert facts(tree, None)["former"] == {".run file": "580.178.04"}


@pytest.mark.parametrize(
    ("log", "version"),
    [
        ("nvidia-installer log file\n  driver version: 535.104.05\n", "535.104.05"),
        ("Installing NVIDIA driver version 580.95.05.\n", "580.95.05"),
        ("NVIDIA-Linux-x86_64-550.54.14.run", "550.54.14"),
        ("nothing", "unknown"),
    ],
)
def test_runfile(tree, log, version):
    tree.file("/usr/bin/nvidia-uninstall").file(runfile.LOG, log)
    assert facts(tree, None)["runfile"] == version


def test_log_of_a_runfile_that_was_removed(tree):
    tree.file(runfile.LOG, "driver version: 535.104.05")
    assert facts(tree, None)["runfile"] is None


def test_a_runfile_is_known_by_the_record_that_its_uninstaller_goes_by(tree):
    """Its log may be that of a later attempt, which failed."""
    tree.file("/usr/bin/nvidia-uninstall").file(runfile.LOG, "Installing NVIDIA driver version 595.91.07.")
    tree.file(
        runfile.BACKUP, "1.0-58017804 (580.178.04)\nNVIDIA Accelerated Graphics Driver\n1: /usr/bin/x (595.91.07)\n"
    )
    assert facts(tree, None)["runfile"] == "580.178.04"


MOUNTED = "24 1 0:30 / /run/nvidia/driver rw - overlay overlay rw\n"


@pytest.mark.parametrize(
    ("files", "found"),
    [
        (
            {"/proc/self/mountinfo": MOUNTED, "/run/nvidia/nvidia-driver.pid": "4711\n", "/proc/4711/comm": "nvidia"},
            True,
        ),
        ({"/proc/self/mountinfo": MOUNTED, "/run/nvidia/nvidia-driver.pid": "4711\n"}, False),
        ({"/run/nvidia/nvidia-driver.pid": "4711\n", "/proc/4711/comm": "nvidia"}, False),
        ({"/proc/self/mountinfo": MOUNTED}, False),
    ],
    ids=["runs", "has ended", "not mounted", "the host's own driver, shown to containers"],
)
def test_a_driver_container_is_known_while_it_runs(tree, files, found):
    for path, text in files.items():
        tree.file(path, text)
    assert facts(tree, None)["in_container"] is found


def test_a_runfile_is_known_to_be_gpulabs(tree):
    tree.file("/usr/bin/nvidia-uninstall").file("/var/lib/gpulab/runfile/driver.json", "{}")
    assert facts(tree, None)["runfile_own"] is True
