"""How DKMS modules stand, in trees laid out as DKMS does, and why a build failed."""

import os
import subprocess
import threading

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
from ansible_collections.gpulab.node.plugins.module_utils.driver import dkms
from ansible_collections.gpulab.node.plugins.modules import dkms as dkms_module

KERNEL = "6.12.117+deb13-cloud-amd64"


@pytest.fixture
def tree(tmp_path):
    """Lay out nvidia-current 535 (built) and 550 (installed for KERNEL, built for another, added for the rest)."""
    source = tmp_path / "src"
    source.mkdir()
    tree = tmp_path / "dkms"
    for version in ("535.309.01", "550.163.01", "1000.1"):
        (tree / "nvidia-current" / version).mkdir(parents=True)
        (tree / "nvidia-current" / version / "source").symlink_to(source)
    for version, kernel in (("550.163.01", KERNEL), ("550.163.01", "6.1.0-50-amd64"), ("535.309.01", KERNEL)):
        build = tree / "nvidia-current" / version / kernel / "x86_64" / "module"
        build.mkdir(parents=True)
        (build / "nvidia-current.ko.xz").touch()
    (tree / "nvidia-current" / f"kernel-{KERNEL}-x86_64").symlink_to(f"550.163.01/{KERNEL}/x86_64")
    return tree


@pytest.mark.parametrize(
    ("version", "kernel", "state"),
    [
        ("550.163.01", KERNEL, "installed"),
        ("535.309.01", KERNEL, "built"),
        ("550.163.01", "6.1.0-50-amd64", "built"),
        ("550.163.01", "6.1.0-50", "added"),
        ("550.163.01", "6.12.117+deb13-cloud", "added"),
        ("570.1", KERNEL, "absent"),
    ],
)
def test_how_a_version_stands_for_a_kernel(tree, version, kernel, state):
    assert dkms.state("nvidia-current", version, kernel, tree) == state


def test_versions_are_sorted_by_their_numbers(tree):
    assert dkms.added_versions("nvidia-current", tree) == ["535.309.01", "550.163.01", "1000.1"]
    assert dkms.added_versions("nvidia-current-open", tree) == []


def test_a_link_into_nothing_is_no_source(tree):
    (tree / "nvidia-current" / "2000.1").mkdir()
    (tree / "nvidia-current" / "2000.1" / "source").symlink_to(tree / "gone")
    assert dkms.added_versions("nvidia-current", tree)[-1] == "1000.1"


@pytest.mark.parametrize(
    ("package", "version"),
    [
        ("595.91.07-0ubuntu1", "595.91.07"),
        ("3:595.91.07-1.el9", "595.91.07"),
        ("535.309.01-1~deb12u1", "535.309.01"),
        ("610.43.02", "610.43.02"),
        ("595.91.071-1", "595.91.071"),  # which DKMS does not have
        ("550.163.01+ds-2", "550.163.01"),
    ],
)
def test_the_version_in_dkms_is_that_of_the_package(package, version):
    assert dkms.of_package(package, ["535.309.01", "550.163.01", "595.91.07", "610.43.02"]) == version


class Asked:
    """Stands in for the module on a node that has these packages."""

    def __init__(self, **given):
        """given: the options of the task."""
        self.params = {"version": None, "package": None, **given}

    def get_bin_path(self, program):
        """Return where dpkg-query is; there is no rpm."""
        return "/usr/bin/dpkg-query" if program == "dpkg-query" else None

    def run_command(self, argv):
        """Answer what dpkg-query would."""
        return (0, "595.91.07-0ubuntu1", "") if argv[-1] == "nvidia-dkms-open" else (1, "", "no packages found")


@pytest.mark.parametrize(
    ("given", "version"),
    [
        ({"package": "nvidia-dkms-open"}, "595.91.07"),
        ({"package": "nvidia-dkms-open", "version": "580.178.04"}, "580.178.04"),
        ({"package": "not-there"}, None),
        ({}, "610.43.02"),
    ],
)
def test_the_drivers_own_version_is_built_beside_leftovers(given, version):
    """https://github.com/void-linux/void-packages/issues/5745: the source of an older .run file stays."""
    assert dkms_module.wanted_version(Asked(**given), ["595.91.07", "610.43.02"]) == version


@pytest.mark.parametrize(("since", "wanted"), [(True, ["6.1.0-50", "6.1.0-57"]), (False, ["6.1.0-50"])])
def test_a_kernel_that_came_since_the_plan_is_built_for_too_where_its_headers_are_there(tmp_path, since, wanted):
    for kernel, installed, headers in (
        ("50", True, True),
        ("57", True, True),
        ("58", True, False),
        ("59", False, True),
    ):
        place = tmp_path / f"lib/modules/6.1.0-{kernel}"
        (place / "build").mkdir(parents=True)
        if installed:
            (place / "vmlinuz").touch()
        if headers:
            (place / "build/Makefile").touch()
    asked = Asked(kernels=["6.1.0-50"], installed_since=since)
    assert dkms_module.wanted_kernels(asked, Node(tmp_path)) == wanted


def test_a_node_without_dkms_has_nothing(tmp_path):
    assert dkms.added_versions("nvidia-current", tmp_path / "absent") == []
    assert dkms.state("nvidia-current", "1", KERNEL, tmp_path / "absent") == "absent"


def test_headers_are_there_when_one_can_build_against_them(tmp_path):
    (tmp_path / "modules" / "1").mkdir(parents=True)
    (tmp_path / "modules" / "1" / "build").symlink_to(tmp_path / "headers")
    assert not dkms.has_headers("1", tmp_path / "modules")  # the link alone
    (tmp_path / "headers").mkdir()
    (tmp_path / "headers" / "Makefile").touch()
    assert dkms.has_headers("1", tmp_path / "modules")


# As the kernel's own begins; it builds in the directory of the headers, and passes the variables on to others.
MAKEFILE = """\
objtree := .
CFLAGS := -g
CFLAGS += $(KCFLAGS)
all: ; @echo $(CFLAGS); $(MAKE) --silent again
again: ; @echo $(CFLAGS)
"""


@pytest.mark.parametrize(("of_headers", "compiles"), [([], "-g -g0"), (["vmlinux"], "-g")])
def test_debugging_information_is_made_only_where_types_are_made_of_it(tmp_path, of_headers, compiles):
    (tmp_path / "Makefile").write_text(MAKEFILE)
    for name in of_headers:
        (tmp_path / name).touch()
    environment = {**os.environ, **dkms.ENVIRONMENT}
    done = subprocess.run(
        ["make", "--silent"], cwd=tmp_path, env=environment, check=True, capture_output=True, text=True
    )
    assert done.stdout.splitlines() == [compiles, compiles]


MAKE_LOG = """\
make[1]: Entering directory '/usr/src/linux-headers-6.12.117+deb13-cloud-amd64'
  CC [M]  nvidia/nv-pci.o
nvidia/nv-p2p.c:5:3: warning: unused variable 'error' [-Wunused-variable]
/var/lib/dkms/nvidia/nv-pci.c: In function 'nv_resize_pcie_bars':
/var/lib/dkms/nvidia/nv-pci.c:237:9: error: too few arguments to function 'pci_resize_resource'
  237 |     r = pci_resize_resource(pci_dev, 1, requested_size);
/var/lib/dkms/nvidia/nv-pci.c:300:9: error: the second error
make[3]: *** [scripts/Makefile.build:234: nvidia/nv-pci.o] Error 1
"""


@pytest.mark.parametrize(
    ("log", "error"),
    [
        (MAKE_LOG, "/var/lib/dkms/nvidia/nv-pci.c:237:9: error: too few arguments to function 'pci_resize_resource'"),
        (
            "a.c:1:10: fatal error: linux/x.h: No such file or directory\n",
            "a.c:1:10: fatal error: linux/x.h: No such file",
        ),
        ("ERROR: modpost: GPL-incompatible module nvidia.ko uses GPL-only symbol 'x'\n", "GPL-incompatible module"),
        ("ld: x.o: in function `f':\nx.c:(.text+0x1): undefined reference to `g'\n", "undefined reference to `g'"),
        ("make: *** No rule to make target 'modules'.  Stop.\n", "No rule to make target"),
        ("gcc: not found\n", "gcc: not found"),
        (
            "  CXX x.cpp\n/bin/sh: line 1: g++: command not found\nmake[1]: *** [x] Error 127\n",
            "g++: command not found",
        ),
        ("/bin/sh: 1: pahole: not found\nmake[1]: *** [x] Error 2\n", "*** [x] Error 2"),
        (
            "fixdep: libc.so.6: version `GLIBC_2.38' not found (required by fixdep)\nmake: *** [x] Error 1\n",
            "GLIBC_2.38",
        ),
        ("make[2]: bc: No such file or directory\nmake: *** [x] Error 127\n", "bc: No such file"),
        ("", "its make.log is empty"),
    ],
)
def test_the_first_error_of_the_compiler(log, error):
    assert error in dkms.first_compiler_error(log)
    assert "\n" not in dkms.first_compiler_error(log)


BEGUN = "DKMS make.log for nvidia/550.163.01 for kernel 6.1.0-50-cloud-amd64 (x86_64)\nWed Nov 25 22:00:00 UTC 2026\n"


@pytest.fixture
def building(tmp_path):
    build = tmp_path / "nvidia/550.163.01/build"
    for name in (
        "make.log",
        "nvidia/nv.c",
        "nvidia/nv.h",
        "nvidia/os-interface.c",
        "src/_out/nvlink.o",
        "src/nvlink.cpp",
    ):
        (build / name).parent.mkdir(parents=True, exist_ok=True)
        (build / name).write_text(BEGUN if name == "make.log" else "")
    return tmp_path


def test_a_build_at_work_says_how_many_of_its_files_are_compiled(building):
    said = "compiling nvidia 550.163.01 for kernel 6.1.0-50-cloud-amd64: {} of 3 files"
    assert dkms.compiling(building) == said.format(1)
    (building / "nvidia/550.163.01/build/nvidia/nv.o").write_text("")
    assert dkms.compiling(building) == said.format(2)


def test_before_its_first_file_a_build_says_how_much_of_the_kernel_it_has_tested(building):
    said = "compiling nvidia 550.163.01 for kernel 6.1.0-50-cloud-amd64: {}"
    (building / "nvidia/550.163.01/build/src/_out/nvlink.o").unlink()
    assert dkms.compiling(building) == said.format("0 of 3 files")
    with (building / "nvidia/550.163.01/build/make.log").open("a") as log:
        log.write("  CONFTEST: hash__remap_4k_pfn\n  CONFTEST: set_pages_uc\n")
    assert dkms.compiling(building) == said.format("2 tests of the kernel")


def test_a_build_may_remove_its_directories_while_they_are_read(building):
    build, ended = building / "nvidia/550.163.01/build", threading.Event()

    def work():
        while not ended.is_set():
            for number in range(20):
                (build / f".tmp_{number}").mkdir()
            for number in range(20):
                (build / f".tmp_{number}").rmdir()

    worker = threading.Thread(target=work)
    worker.start()
    try:
        for _ in range(1000):
            dkms.compiling(building)
    finally:
        ended.set()
        worker.join()


def test_what_a_failed_build_left_behind_is_no_build_at_work(building):
    os.utime(building / "nvidia/550.163.01/build/make.log", (0, 0))
    assert dkms.compiling(building) is None
    assert dkms.compiling(building / "absent") is None


def test_the_log_of_a_failed_build_outlives_the_driver(tmp_path, monkeypatch):
    log = tmp_path / "dkms" / "make.log"
    log.parent.mkdir()
    log.write_text(MAKE_LOG)
    monkeypatch.setattr(dkms, "make_log", lambda *_of: log)
    asked = {"module": "nvidia-current", "version": "535", "kernels": [KERNEL], "path": str(tmp_path)}
    failure = dkms_module.diagnose(asked)["failure"]
    log.unlink()
    assert "too few arguments" in failure["cause"]
    assert str(tmp_path / "make.log") in failure["cause"] + failure["remedy"]
    assert (tmp_path / "make.log").read_text() == MAKE_LOG


BAD_BUILD = (
    "Error! Bad return status for module build on kernel: 6.1 (x86_64)\nConsult make.log for more information.\n"
)
NO_SPACE = "cp: error writing '/lib/modules/6.1/updates/dkms/nvidia.ko': No space left on device\ndepmod...\n"


@pytest.mark.parametrize(
    ("said", "log", "error"),
    [
        (BAD_BUILD, MAKE_LOG, "too few arguments"),
        ("", MAKE_LOG, "too few arguments"),
        (NO_SPACE, MAKE_LOG, "No space left on device"),
        ("Error! Could not locate dkms.conf file.\nFile: x does not exist.\n", "", "File: x does not exist."),
        ("", "", "its make.log is empty"),
    ],
    ids=[
        "it did not compile",
        "DKMS said nothing",
        "it compiled, and was not installed",
        "no source",
        "nothing at all",
    ],
)
def test_dkms_own_words_count_where_it_did_not_fail_to_compile(tmp_path, monkeypatch, said, log, error):
    monkeypatch.setattr(dkms, "make_log", lambda *_of: tmp_path / "dkms.log")
    (tmp_path / "dkms.log").write_text(log)
    (tmp_path / "log").write_text(said)
    asked = {"module": "nvidia-current", "version": "535", "kernels": [KERNEL], "path": str(tmp_path)}
    assert error in dkms_module.diagnose(asked)["failure"]["cause"]


def test_a_build_speaks_english_on_every_node():
    """The units of a node whose /etc/locale.conf has another language would have it, too."""
    assert (dkms.ENVIRONMENT["LC_ALL"], dkms.ENVIRONMENT["LANGUAGE"]) == ("C.UTF-8", "")


@pytest.mark.parametrize(("state", "discarded"), [("installed", False), ("built", True), ("added", True)])
def test_what_is_installed_is_never_discarded(monkeypatch, state, discarded):
    done = []
    monkeypatch.setattr(dkms, "state", lambda *_of: state)
    monkeypatch.setattr(dkms_module.shared_build, "discard", lambda build, _node: done.append(build.kernel))
    asked = Asked(operation="discard", module="nvidia-current", version="535", kernels=[KERNEL])
    assert dkms_module.share(asked) == {}
    assert done == ([KERNEL] if discarded else [])


def test_why_a_build_is_not_shared_is_an_answer_and_no_failure(monkeypatch, tmp_path):
    def no_space(*_given):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(dkms_module.shared_build, "pack", no_space)
    asked = Asked(operation="pack", module="nvidia-current", kernels=[KERNEL], path=str(tmp_path))
    assert "No space left" in dkms_module.share(asked)["not_shared"]


def test_a_program_that_is_not_there_is_no_failure():
    assert dkms_module.caller(Asked())(["sign-file", "sha256"]) == (127, "", "not found")
