"""What a node is tuned to, read from its files and from what systemd says."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.facts import tuning
from ansible_collections.gpulab.node.plugins.module_utils.facts.limits import LimitTexts
from ansible_collections.gpulab.node.plugins.module_utils.system import kernel_values

SYSTEMD = (
    "DefaultLimitNOFILE=524288\nDefaultLimitNOFILESoft=1024\nDefaultLimitSTACK=infinity\nDefaultLimitSTACKSoft=8388608\n"
    "DefaultLimitMEMLOCK=18446744073709551615\nDefaultLimitMEMLOCKSoft=8388608\n"
)


def facts(tree):
    node = tree.node()
    return tuning.read(node, LimitTexts(node))


def test_a_bare_tree(tree):
    found = facts(tree)
    assert set(found["values"].values()) == {None}
    assert found["limits"] == {who: dict.fromkeys(tuning.LIMITS) for who in ("pam", "systemd")}
    assert found["kernel_arguments"] == {"wanted": [], "in_menu": True, "running": []}
    assert found["grub"] is False
    assert found["boot_entries"] == {}


def test_live_values(tree):
    tree.file("/proc/sys/vm/swappiness", "60\n")
    tree.file("/proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n")
    tree.file("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n")
    for cpu, governor in (("cpu0", "performance"), ("cpu1", "powersave")):
        tree.file(f"/sys/devices/system/cpu/{cpu}/cpufreq/scaling_governor", governor)
    values = facts(tree)["values"]
    assert values["vm.swappiness"] == "60"
    assert values["net.ipv4.tcp_rmem"] == "4096 131072 6291456"
    assert values["transparent_hugepage"] == "madvise"
    assert values["cpu_governor"] == "performance, powersave"


LINK = "/etc/sysctl.d/99-sysctl.conf"


@pytest.mark.parametrize(
    ("files", "links", "found"),
    [
        # Debian 12 and Ubuntu link /etc/sysctl.conf in; Debian 13 does not.
        (
            {"/etc/sysctl.conf": "# own\n\nvm.swappiness = 60\n"},
            {LINK: "../sysctl.conf"},
            ("60", "/etc/sysctl.conf", 3),
        ),
        ({"/etc/sysctl.conf": "vm.swappiness = 60\n"}, {}, None),
        ({}, {LINK: "../sysctl.conf"}, None),
        ({"/etc/sysctl.d/80-own.conf": "vm.swappiness = 60"}, {}, None),
        ({"/etc/sysctl.d/95-own.conf": "\nvm.swappiness=60"}, {}, ("60", "/etc/sysctl.d/95-own.conf", 2)),
        ({"/etc/sysctl.d/95-own": "vm.swappiness=60"}, {}, None),
        ({"/usr/lib/sysctl.d/99-x.conf": "-vm/swappiness=1"}, {}, ("1", "/usr/lib/sysctl.d/99-x.conf", 1)),
        ({"/run/sysctl.d/99-x.conf": "vm.swappiness=1"}, {}, ("1", "/run/sysctl.d/99-x.conf", 1)),
        (
            {"/usr/lib/sysctl.d/99-x.conf": "vm.swappiness=1", "/run/sysctl.d/99-x.conf": "vm.swappiness=2"},
            {},
            ("2", "/run/sysctl.d/99-x.conf", 1),
        ),
        ({"/usr/lib/sysctl.d/99-x.conf": "vm.swappiness=1"}, {"/etc/sysctl.d/99-x.conf": "/dev/null"}, None),
        (
            {"/etc/sysctl.d/95-a.conf": "vm.swappiness=1", "/usr/lib/sysctl.d/99-b.conf": "vm.swappiness=2"},
            {},
            ("2", "/usr/lib/sysctl.d/99-b.conf", 1),
        ),
        ({"/etc/sysctl.d/95-a.conf": "vm.swappiness=1\nvm.swappiness=2"}, {}, ("2", "/etc/sysctl.d/95-a.conf", 2)),
        ({"/etc/sysctl.d/95-a.conf": "#vm.swappiness=1\n;vm.swappiness=2\nvm.*=3\nvm.swappiness"}, {}, None),
    ],
)
def test_what_undoes_gpulabs_values_at_boot_is_found_as_systemd_reads_it(tree, files, links, found):
    tree.file(tuning.SYSCTL_FILE, "vm.swappiness = 10\n")
    for path, text in files.items():
        tree.file(path, text)
    for path, target in links.items():
        tree.link(path, target)
    later = facts(tree)["later"].get("vm.swappiness")
    assert (tuple(later.values()) if later else None) == found


def test_names_with_slashes_and_values_of_several_words_are_brought_to_one_form(tree):
    tree.file(
        "/etc/sysctl.d/99-x.conf", "net/ipv4/conf/eth0.5/forwarding = 1\nnet.ipv4.tcp_rmem = 4096  87380\t6291456\n"
    )
    assert {name: one["value"] for name, one in facts(tree)["later"].items()} == {
        "net.ipv4.conf.eth0/5.forwarding": "1",
        "net.ipv4.tcp_rmem": "4096 87380 6291456",
    }


def test_an_operators_own_sysctl_is_read_too(tree):
    tree.file(tuning.SYSCTL_FILE, "# Written by gpulab\n# Why.\nfs.aio-max-nr = 1048576\n")
    tree.file("/proc/sys/fs/aio-max-nr", "65536\n")
    assert facts(tree)["values"]["fs.aio-max-nr"] == "65536"


def test_read_ahead_is_that_of_nfs_mounts_only(tree):
    tree.file("/proc/self/mountinfo", "1 0 0:53 / /data rw - nfs4 nas:/data rw\n2 0 8:1 / / rw - ext4 /dev/sda1 rw\n")
    for device in ("0:53", "8:1"):
        tree.file(f"/sys/class/bdi/{device}/read_ahead_kb", "128\n")
    assert kernel_values.paths("nfs_read_ahead_kb", tree.node()) == ["/sys/class/bdi/0:53/read_ahead_kb"]


@pytest.mark.parametrize(
    ("text", "limit", "found"),
    [
        ("* soft nofile 1024\n* hard nofile 4096", "nofile", "1024:4096"),
        ("* - memlock unlimited", "memlock", "unlimited:unlimited"),
        ("* - stack 65536 # KiB", "stack", "67108864:67108864"),
        ("* - nofile 1\n* - nofile 2", "nofile", "2:2"),
        ("alice - nofile 9\n@lab - nofile 9\nroot - nofile 9", "nofile", None),
        ("#* - nofile 9", "nofile", None),
        ("* soft nofile 9", "nofile", None),
    ],
)
def test_pam_limits(text, limit, found):
    assert tuning.pam_limits(text)[limit] == found


def test_later_files_of_limits_win(tree):
    tree.file("/etc/security/limits.d/10-lab.conf", "* - nofile 1")
    tree.file("/etc/security/limits.d/90-gpulab.conf", "* - nofile 2")
    tree.file("/etc/security/limits.conf", "* - nofile 3")
    assert facts(tree)["limits"]["pam"]["nofile"] == "2:2"


def test_systemd_limits(tree):
    tree.prints("systemctl show", SYSTEMD)
    assert facts(tree)["limits"]["systemd"] == {
        "memlock": "8388608:unlimited",
        "nofile": "1024:524288",
        "stack": "8388608:unlimited",
    }


def test_kernel_arguments(tree):
    text = '# Written by gpulab\n# Why.\nGRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX iommu=pt"\n'
    tree.file(tuning.GRUB_FILE, text).file("/proc/cmdline", "root=/dev/sda1 quiet\n")
    tree.file("/etc/default/grub").file("/usr/sbin/update-grub")
    assert facts(tree)["kernel_arguments"] == {
        "wanted": ["iommu=pt"],
        "in_menu": False,
        "running": ["root=/dev/sda1", "quiet"],
    }
    tree.file("/boot/grub/grub.cfg", "linux /vmlinuz root=/dev/sda1 iommu=pt\n")
    assert facts(tree)["kernel_arguments"]["in_menu"] is True
    assert facts(tree)["grub"] is True


def rocky(tree, *options, defaults='GRUB_CMDLINE_LINUX="ro quiet"'):
    """Give the tree grubby, boot entries with these options, and what later kernels get."""
    tree.file("/usr/sbin/grubby").file("/etc/default/grub", f"GRUB_TIMEOUT=5\n{defaults}\n")
    for number, line in enumerate(options):
        tree.file(f"/boot/loader/entries/m-{number}.conf", f"title Rocky\nlinux /vmlinuz\noptions {line}\ngrub_arg x\n")
    return tree


def test_kernel_arguments_in_entries(tree):
    rocky(tree, "root=/dev/sda1 ro iommu=pt", "root=/dev/sda1 ro").file("/etc/kernel/cmdline", "root=/dev/sda1 ro\n")
    tree.file("/boot/grub/grub.cfg", "iommu=pt").file("/var/lib/gpulab/boot-arguments.json", '["iommu=pt"]\n')
    found = facts(tree)
    assert found["kernel_arguments"]["wanted"] == ["iommu=pt"]
    assert found["kernel_arguments"]["in_menu"] is False
    assert found["boot_entries"] == {
        "/boot/loader/entries/m-0.conf": ["root=/dev/sda1", "ro", "iommu=pt"],
        "/boot/loader/entries/m-1.conf": ["root=/dev/sda1", "ro"],
        "/etc/default/grub": ["ro", "quiet"],
        "/etc/kernel/cmdline": ["root=/dev/sda1", "ro"],
    }
    rocky(tree, "ro iommu=pt", "ro iommu=pt")
    assert facts(tree)["kernel_arguments"]["in_menu"] is True


def test_entries_that_grub_does_not_read_or_that_hold_no_arguments_are_none(tree):
    assert facts(rocky(tree, "ro"))["boot_entries"]
    assert not facts(rocky(tree, "$kernelopts"))["boot_entries"]
    assert not facts(rocky(tree, "ro", defaults="GRUB_ENABLE_BLSCFG=false"))["boot_entries"]


def test_entries_without_grubby_are_none(tree):
    tree.file("/boot/loader/entries/m.conf", "options ro\n")
    assert not facts(tree)["boot_entries"]


@pytest.mark.parametrize("engine", [None, "docker"])
def test_swap_in_use_is_a_machines_own(tree, engine):
    tree.file("/proc/swaps", "Filename Type Size Used Priority\n/swapfile file 1024 0 -2\n")
    if engine:
        tree.file("/.dockerenv")
    assert facts(tree)["swaps"] == ({} if engine else {"/swapfile": ["/swapfile"]})


def asked(tree, name):
    node = tree.node()
    return tuning.read(node, LimitTexts(node), [name])["asked"][name]


def test_what_the_inventory_sets_is_asked_of_the_kernel(tree):
    tree.file("/proc/sys/vm/swappiness", "60\n")
    assert asked(tree, "vm.swappiness") == {
        "there": True, "writable": True, "value": "60", "words": [], "near": None,
    }  # fmt: skip
    assert asked(tree, "vm.swapiness") == {
        "there": False, "writable": True, "value": "", "words": [], "near": "vm.swappiness",
    }  # fmt: skip
    tree.file("/proc/sys/kernel/osrelease", "6.1\n")
    tree.node().path("/proc/sys/kernel/osrelease").chmod(0o444)
    assert asked(tree, "kernel.osrelease")["writable"] is False


def test_a_governor_and_huge_pages_say_what_they_take(tree):
    tree.file("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n")
    tree.file("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n")
    tree.file("/sys/devices/system/cpu/cpu0/cpufreq/scaling_available_governors", "performance powersave\n")
    assert asked(tree, "transparent_hugepage")["words"] == ["always", "madvise", "never"]
    assert asked(tree, "cpu_governor")["words"] == ["performance", "powersave"]


PATHS = {
    "a path upwards": ("kernel/../../../etc/passwd.x", []),
    "parts upwards": ("vm.../../../etc/passwd", []),
    "slashes, which stand for dots": ("vm.//.//.//.etc.shadow", []),
    "a directory": ("net.ipv4", []),
    "the dot of an interface": ("net.ipv4.conf.eth0/5.rp_filter", ["/proc/sys/net/ipv4/conf/eth0.5/rp_filter"]),
    "every interface": (
        "net.ipv4.conf.*.rp_filter",
        ["/proc/sys/net/ipv4/conf/eth0.5/rp_filter", "/proc/sys/net/ipv4/conf/lo/rp_filter"],
    ),
}


@pytest.mark.parametrize(("name", "paths"), PATHS.values(), ids=PATHS)
def test_the_name_of_a_sysctl_is_no_path(tree, name, paths):
    for interface in ("lo", "eth0.5"):
        tree.file(f"/proc/sys/net/ipv4/conf/{interface}/rp_filter", "0\n")
    tree.file("/proc/sys/vm/swappiness", "60\n")
    tree.file("/etc/shadow", "root\n")
    tree.file("/etc/passwd/x", "root\n")
    tree.file("/etc/passwd.x", "root\n")
    assert kernel_values.paths(name, tree.node()) == paths
