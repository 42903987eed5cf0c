"""Kernels, headers, DKMS and the NVIDIA module of each, from a tree of files."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.driver import mok
from ansible_collections.gpulab.node.plugins.module_utils.facts import kernels
from ansible_collections.gpulab.node.plugins.module_utils.facts.kernels import KernelsQuery

OLD, NEW = "6.1.0-9-amd64", "6.1.0-50-amd64"
MODINFO = """filename:       /lib/modules/6.1.0-50-amd64/updates/dkms/nvidia-current.ko
alias:          char-major-195-*
version:        535.261.03
supported:      external
license:        NVIDIA
signer:         DKMS module signing key
"""


def kernel(tree, version, modules=""):
    tree.file(f"/lib/modules/{version}/modules.dep", f"kernel/drivers/gpu/drm/nouveau/nouveau.ko:\n{modules}")
    tree.file(f"/boot/vmlinuz-{version}")


def facts(tree, running=OLD, files=(), pair=None):
    found = KernelsQuery(tree.node(), running, dict(files), pair).facts()
    return {record["version"]: record for record in found}


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("6.1.0-9-amd64", "6.1.0-50-amd64"),
        ("6.1.0-50-amd64", "6.12.0-1-amd64"),
        ("6.12~rc1-amd64", "6.12-amd64"),
        ("5.14.0-427.13.1.el9_4.x86_64", "5.14.0-503.11.1.el9_5.x86_64"),
        ("6.8.0-41-generic", "6.8.0-101-generic"),
    ],
)
def test_version_order(older, newer):
    assert kernels.version_key(older) < kernels.version_key(newer)


def test_kernels_of_a_node(tree):
    kernel(tree, OLD)
    kernel(tree, NEW)
    tree.file("/lib/modules/6.1.0-60-amd64/build/Makefile").file("/boot/vmlinuz-0-rescue-abc")
    found = facts(tree)
    assert list(found) == [OLD, NEW, "6.1.0-60-amd64"]
    assert [k["installed"] for k in found.values()] == [True, True, False]
    assert [k["running"] for k in found.values()] == [True, False, False]
    assert [k["next_boot"] for k in found.values()] == [False, True, False]


def test_running_kernel_that_is_not_on_disk(tree):
    kernel(tree, NEW)
    found = facts(tree, running="6.18.0-host")
    assert found["6.18.0-host"]["running"] is True
    assert found["6.18.0-host"]["installed"] is False
    assert found[NEW]["next_boot"] is True


def test_removed_kernel_leaves_lists_and_modules_behind(tree):
    kernel(tree, NEW)
    tree.file(f"/lib/modules/{OLD}/modules.dep", "updates/dkms/nvidia.ko:\n")
    tree.file(f"/lib/modules/{OLD}/updates/dkms/nvidia.ko")
    found = facts(tree, running=NEW)
    assert [found[version]["installed"] for version in (OLD, NEW)] == [False, True]


@pytest.mark.parametrize("image", ["vmlinuz", "kernel/fs/ext4/ext4.ko"])
def test_kernel_whose_boot_directory_is_elsewhere(tree, image):
    tree.file(f"/lib/modules/{NEW}/{image}")
    assert facts(tree, running=NEW)[NEW]["installed"] is True


def test_node_without_any_kernel(tree):
    assert facts(tree, running="6.18.0-host")["6.18.0-host"]["next_boot"] is False


MENU = f"""
menuentry 'Debian GNU/Linux' --class debian $menuentry_id_option 'gnulinux-simple' {{
	linux	/boot/vmlinuz-{NEW} root=/dev/sda1 ro
}}
submenu 'Advanced options' $menuentry_id_option 'gnulinux-advanced' {{
	menuentry 'Debian, with Linux {NEW}' --class os $menuentry_id_option 'new-id' {{
		linux	/vmlinuz-{NEW} root=/dev/sda1
	}}
	menuentry 'Debian, with Linux {OLD}' --class os $menuentry_id_option 'old-id' {{
		linux	/vmlinuz-{OLD} root=/dev/sda1
	}}
}}
"""


@pytest.mark.parametrize(
    ("default", "expected"),
    [
        ("0", NEW),
        ("1>1", OLD),
        ("gnulinux-advanced>old-id", OLD),
        ("old-id", OLD),
        (f"Advanced options>Debian, with Linux {OLD}", OLD),
        ("", NEW),
        ("7", None),
        ("1", None),
    ],
)
def test_grub_entry(default, expected):
    assert kernels.grub_kernel(MENU, default) == expected


@pytest.mark.parametrize(
    ("settings", "environment", "expected"),
    [
        ("GRUB_DEFAULT=0", "", "0"),
        ('GRUB_DEFAULT="1>1"', "", "1>1"),
        ("GRUB_DEFAULT=saved", "saved_entry=old-id\n", "old-id"),
        ("GRUB_DEFAULT=saved", "# GRUB Environment Block\n###", "0"),
        ("GRUB_DEFAULT=0", "next_entry=old-id\n", "old-id"),
        ("", "", "0"),
    ],
)
def test_grub_default(settings, environment, expected):
    assert kernels.grub_default(settings, environment) == expected


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ('set default="${next_entry}"\nset default="1>1"', "1>1"),
        ('  set default="${saved_entry}"', "old-id"),
        ("set default='Advanced options>Debian'\nset default=1", "Advanced options>Debian"),
        ('set default="0"', "0"),
        ("menuentry 'x' {", "1>2"),
    ],
)
def test_the_menu_tells_the_default_before_the_settings_do(header, expected):
    assert kernels.grub_default("GRUB_DEFAULT=0\nGRUB_DEFAULT='1>2'", "saved_entry=old-id", header) == expected


def test_an_entry_for_the_next_boot_only_comes_before_the_menus():
    assert kernels.grub_default("", "next_entry=old-id", 'set default="0"') == "old-id"


@pytest.mark.parametrize("made", [True, False], ids=["menu-made", "menu-not-readable"])
def test_a_kernel_that_is_pinned_in_grub_d_boots_next(tree, made):
    kernel(tree, OLD)
    kernel(tree, NEW)
    pinned = f"Advanced options>Debian, with Linux {OLD}"
    tree.file("/etc/default/grub", "GRUB_DEFAULT=0\n").file("/etc/default/grub.d/50-a.cfg", "GRUB_DEFAULT=1\n")
    tree.file("/etc/default/grub.d/99-b.cfg", f"GRUB_DEFAULT='{pinned}'\n")
    if made:
        tree.file("/boot/grub/grub.cfg", f'set default="{pinned}"\n{MENU}')
    assert facts(tree)[OLD]["next_boot"] is True


def test_settings_that_no_menu_was_made_of_do_not_count(tree):
    kernel(tree, OLD)
    kernel(tree, NEW)
    tree.file("/etc/default/grub.d/99-b.cfg", "GRUB_DEFAULT=old-id\n")
    tree.file("/boot/grub/grub.cfg", f'set default="0"\n{MENU}')
    assert facts(tree)[NEW]["next_boot"] is True


def entries(tree):
    for version in (OLD, NEW, "0-rescue-f00"):
        text = f"title Rocky Linux ({version})\nversion {version}\nlinux /vmlinuz-{version}\n"
        tree.file(f"/boot/loader/entries/f00-{version}.conf", f"{text}options root=/dev/sda $kernelopts\n")
    return tree.file("/boot/grub2/grub.cfg", 'set default="${saved_entry}"\nblscfg\n')


@pytest.mark.parametrize(
    ("saved", "expected"),
    [
        ("saved_entry=1", OLD),
        ("saved_entry=0", NEW),
        (f"saved_entry=f00-{OLD}", OLD),
        (f"saved_entry=Rocky Linux ({OLD})", OLD),
        (f"saved_entry=f00-{NEW}\nnext_entry=1", OLD),
        ("saved_entry=9", NEW),
        ("", NEW),
    ],
)
def test_the_next_kernel_by_entries_of_the_boot_loader_specification(tree, saved, expected):
    kernel(tree, OLD)
    kernel(tree, NEW)
    entries(tree).file("/boot/grub2/grubenv", f"# GRUB Environment Block\n{saved}\n")
    assert facts(tree)[expected]["next_boot"] is True


def test_arguments_of_the_next_boot(tree):
    kernel(tree, NEW)
    assert KernelsQuery(tree.node(), NEW, {}, None).next_arguments is None
    entries(tree).file("/boot/grub2/grubenv", "kernelopts=module_blacklist=nvidia ro\n")
    found = KernelsQuery(tree.node(), NEW, {}, None).next_arguments
    assert found == ["root=/dev/sda", "module_blacklist=nvidia", "ro"]
    tree.file("/boot/grub/grub.cfg", MENU)
    assert KernelsQuery(tree.node(), NEW, {}, None).next_arguments == ["root=/dev/sda1", "ro"]


@pytest.mark.parametrize(
    ("default", "menu", "expected"),
    [
        pytest.param("0", MENU, NEW, id="menu"),
        pytest.param("old-id", MENU, OLD, id="pinned"),
        pytest.param("0", "", NEW, id="no-menu-readable"),
        pytest.param(f"0f3a-{OLD}", "", OLD, id="boot-loader-specification"),
        pytest.param("0", MENU.replace(NEW, "5.0-removed"), NEW, id="menu-of-a-removed-kernel"),
    ],
)
def test_next_boot(default, menu, expected):
    assert kernels.next_boot([OLD, NEW], default, menu) == expected


def test_pinned_kernel_boots_next(tree):
    kernel(tree, OLD)
    kernel(tree, NEW)
    tree.file("/etc/default/grub", "GRUB_DEFAULT=saved\n").file("/boot/grub/grub.cfg", MENU)
    tree.file("/boot/grub/grubenv", "saved_entry=gnulinux-advanced>old-id\n")
    assert facts(tree)[OLD]["next_boot"] is True


def test_headers_split_as_on_debian(tree):
    kernel(tree, NEW)
    tree.link(f"/lib/modules/{NEW}/build", f"/usr/src/linux-headers-{NEW}")
    tree.file(f"/usr/src/linux-headers-{NEW}/Makefile", "include /usr/src/linux-headers-6.1.0-50-common/Makefile\n")
    common = "/usr/src/linux-headers-6.1.0-50-common/include/linux/pci.h"
    tree.file(common, "int pci_resize_resource(struct pci_dev *dev, int i, int size, int exclude_bars);")
    found = facts(tree)[NEW]
    assert found["headers"] == f"/usr/src/linux-headers-{NEW}"
    assert found["markers"] == ["pci_exclude_bars"]


def test_headers_in_one_place(tree):
    kernel(tree, NEW)
    tree.file(f"/usr/src/kernels/{NEW}/Makefile")
    tree.file(f"/usr/src/kernels/{NEW}/include/linux/pci.h", "int pci_resize_resource(struct pci_dev *, int, int);")
    found = facts(tree)[NEW]
    assert found["headers"] == f"/usr/src/kernels/{NEW}"
    assert found["markers"] == []


def test_link_to_headers_that_are_gone(tree):
    kernel(tree, NEW)
    tree.link(f"/lib/modules/{NEW}/build", f"/usr/src/linux-headers-{NEW}")
    assert facts(tree)[NEW]["headers"] is None


def dkms(tree, built=(), installed=()):
    tree.link("/var/lib/dkms/nvidia-current/535.261.03/source", "/usr/src/nvidia-current-535.261.03")
    for version in built:
        tree.file(f"/var/lib/dkms/nvidia-current/535.261.03/{version}/x86_64/module/nvidia-current.ko.xz")
    for version in installed:
        link = f"/var/lib/dkms/nvidia-current/kernel-{version}-x86_64"
        tree.link(link, f"535.261.03/{version}/x86_64")
    tree.link("/var/lib/dkms/zfs/2.1/source", "/usr/src/zfs-2.1")


def test_dkms_states(tree):
    for version in (OLD, NEW, "6.1.0-60-amd64"):
        kernel(tree, version)
    dkms(tree, built=[OLD, NEW], installed=[NEW])
    states = {version: record["dkms"] for version, record in facts(tree).items()}
    module = {"module": "nvidia-current", "version": "535.261.03", "source": False, "error": None}
    assert states[NEW] == [{**module, "state": "installed"}]
    assert states[OLD] == [{**module, "state": "built"}]
    assert states["6.1.0-60-amd64"] == [{**module, "state": "added"}]


def test_a_source_of_dkms_is_there_where_its_link_leads_to_one(tree):
    kernel(tree, NEW)
    dkms(tree)
    tree.file("/usr/src/nvidia-current-535.261.03/dkms.conf")
    assert [record["source"] for record in facts(tree)[NEW]["dkms"]] == [True]


@pytest.mark.parametrize(
    "head",
    ["DKMS make.log for nvidia-current-535.261.03", "DKMS (dkms-3.2.2) make.log for nvidia-current/535.261.03"],
    ids=["Debian 12", "Debian 13"],
)
def test_dkms_failed_build_is_not_built(tree, head):
    """What a failed build leaves: the build directory and its log."""
    kernel(tree, NEW)
    dkms(tree)
    log = f"{head} for kernel {NEW} (x86_64)\nnv.c:9:9: error: no such thing\n"
    tree.file("/var/lib/dkms/nvidia-current/535.261.03/build/make.log", log)
    kernel(tree, OLD)
    record = facts(tree)[NEW]["dkms"][0]
    assert (record["state"], record["error"]) == ("added", "nv.c:9:9: error: no such thing")
    assert facts(tree)[OLD]["dkms"][0]["error"] is None  # the log is of another kernel


def test_module_under_debians_name(tree):
    kernel(tree, NEW, "updates/dkms/nvidia-current-uvm.ko: x\nupdates/dkms/nvidia-current.ko: x\n")
    tree.prints(f"modinfo /lib/modules/{NEW}/updates/dkms/nvidia-current.ko", MODINFO)
    found = facts(tree)[NEW]
    assert found["nvidia_module"] == "535.261.03"
    assert found["nvidia_module_flavour"] == "proprietary"
    assert found["nvidia_module_signer"] == "DKMS module signing key"


def test_modprobe_decides_between_two_modules(tree):
    modules = "updates/dkms/nvidia-current-open.ko:\nupdates/dkms/nvidia-current.ko:\n"
    kernel(tree, NEW, modules)
    files = {"/etc/modprobe.d/nvidia.conf": "install nvidia modprobe -i nvidia-current-open $CMDLINE_OPTS"}
    opened = MODINFO.replace("license:        NVIDIA", "license:        Dual MIT/GPL")
    tree.prints(f"modinfo /lib/modules/{NEW}/updates/dkms/nvidia-current-open.ko", opened)
    assert facts(tree, files=files)[NEW]["nvidia_module_flavour"] == "open"


@pytest.fixture
def compressed(tree):
    """Make a module that DKMS built and copied to its kernel; modinfo would say something else."""
    kernel(tree, NEW, "updates/dkms/nvidia-current.ko.xz:\n")
    dkms(tree, built=[NEW], installed=[NEW])
    tree.file(f"/lib/modules/{NEW}/updates/dkms/nvidia-current.ko.xz")
    tree.file("/usr/src/nvidia-current-535.261.03/nvidia/nv-frontend.c", 'MODULE_LICENSE("NVIDIA");')
    return tree.prints("modinfo", "version: 550.2\nlicense: Dual MIT/GPL\nsigner: me\n")


def module_of(tree, **options):
    found = facts(tree, **options)[NEW]
    return found["nvidia_module"], found["nvidia_module_flavour"], found["nvidia_module_signer"]


def test_compressed_module_of_dkms_is_not_decompressed(compressed):
    assert module_of(compressed) == ("535.261.03", "proprietary", None)


def test_compressed_module_that_is_not_dkms_build_is_read(compressed):
    compressed.file(f"/lib/modules/{NEW}/updates/dkms/nvidia-current.ko.xz", "of another size")
    assert module_of(compressed) == ("550.2", "open", "me")


def test_compressed_module_is_read_for_its_signer(compressed):
    assert module_of(compressed, pair=mok.OF_DKMS) == ("550.2", "open", "me")


def test_compressed_module_that_dkms_did_not_install_is_read(compressed):
    (compressed.root / f"var/lib/dkms/nvidia-current/kernel-{NEW}-x86_64").unlink()
    assert module_of(compressed) == ("550.2", "open", "me")


def test_module_that_cannot_be_read(tree):
    """Modinfo is not there, or has not answered in time."""
    kernel(tree, NEW, "updates/dkms/nvidia-current.ko:\n")
    found = facts(tree)[NEW]
    assert found["nvidia_module"] is None
    assert found["nvidia_module_file"] == f"/lib/modules/{NEW}/updates/dkms/nvidia-current.ko"


def test_kernel_without_module(tree):
    kernel(tree, NEW)
    dkms(tree, built=[NEW], installed=[NEW])  # depmod knows nothing of it, so modprobe would not find it
    found = facts(tree)[NEW]
    assert found["nvidia_module"] is None
    assert found["nvidia_module_file"] is None


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("nvidia.ko", "nvidia"),
        ("nvidia.ko.zst", "nvidia"),
        ("nvidia-current-open.ko.xz", "nvidia-current-open"),
        ("nvidia-tesla-535.ko", "nvidia-tesla-535"),
        ("nvidia-legacy-390xx.ko", "nvidia-legacy-390xx"),
        ("nvidia-uvm.ko", None),
        ("nvidia-current-drm.ko", None),
        ("nvidia-modeset.ko", None),
        ("nvidiafb.ko", None),
        ("i2c-nvidia-gpu.ko", None),
    ],
)
def test_names_of_the_module(file, name):
    assert list(kernels.nvidia_modules(f"kernel/x/{file}: a b")) == ([name] if name else [])


GCC_12 = "x86_64-linux-gnu-gcc-12 (Ubuntu 12.3.0-1ubuntu1~22.04) 12.3.0"


@pytest.mark.parametrize(
    ("text", "compiler"),
    [
        (GCC_12, "gcc-12"),
        ("gcc (GCC) 11.5.0 20240719 (Red Hat 11.5.0-2)", "gcc-11"),
        ("gcc (Ubuntu 11.4.0-1ubuntu1~22.04) 11.4.0", "gcc-11"),
        ("gcc-12 (Debian 12.2.0-14+deb12u1) 12.2.0", "gcc-12"),
        ("gcc (GNU (custom) 9.1) 14.2.1 20250110", "gcc-14"),
        ("Ubuntu clang version 18.1.3 (1ubuntu1)", "clang-18"),
        ("clang version 14.0.0 (git://example/llvm 2a1b7aa)", "clang-14"),
        ("icc 2021", None),
        ("", None),
    ],
)
def test_the_compiler_of_a_kernel_that_does_not_run(tree, text, compiler):
    kernel(tree, NEW)
    tree.file(f"/boot/config-{NEW}", f'CONFIG_IRQ_WORK=y\nCONFIG_CC_VERSION_TEXT="{text}"\nCONFIG_GCC_VERSION=0\n')
    tree.file(
        "/proc/version", "Linux version 5.15.0-101-generic (buildd@host) (gcc (Ubuntu 9.4.0) 9.4.0, GNU ld 2.38) #1"
    )
    assert facts(tree)[NEW]["compiler"] == compiler


def test_the_compiler_of_a_kernel_without_a_configuration(tree):
    kernel(tree, OLD)
    kernel(tree, NEW)
    tree.file(f"/lib/modules/{NEW}/build/Makefile").file(
        f"/lib/modules/{NEW}/build/.config", f'CONFIG_CC_VERSION_TEXT="{GCC_12}"'
    )
    tree.file(
        "/proc/version", f"Linux version {OLD} (buildd@host) ({GCC_12}, GNU ld (GNU Binutils for Ubuntu) 2.38) #31"
    )
    found = facts(tree)
    assert (found[OLD]["compiler"], found[NEW]["compiler"]) == ("gcc-12", "gcc-12")
