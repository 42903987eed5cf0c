"""From what dpkg and apt-get print to what is to be done. The reports are real ones, shortened."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core import installed_packages
from ansible_collections.gpulab.node.plugins.module_utils.core.installed_packages import Deb
from ansible_collections.gpulab.node.plugins.module_utils.packages import apt
from ansible_collections.gpulab.node.plugins.module_utils.packages import plan as package_plan
from ansible_collections.gpulab.node.plugins.module_utils.packages.apt import Plan, Wishes

DPKG = """\
dpkg\tamd64\t1.21.22\tinstall\tinstalled\t
libc6\tamd64\t2.36-9\tinstall\tinstalled\t
libc6\ti386\t2.36-9\tinstall\tinstalled\t
nvidia-kernel-dkms\tamd64\t535.309.01-0+deb12u1\thold\tinstalled\t
nvidia-driver\tamd64\t535.309.01-0+deb12u1\tinstall\tunpacked\t
tzdata\tall\t2024a\tinstall\tinstalled\t
sl\tamd64\t5.02-1\tdeinstall\tconfig-files\t
"""
SIMULATION = """\
Reading package lists...
The following NEW packages will be installed:
  hello libncurses6
Remv sl [5.02-1]
Purg old [1]
Inst libncurses6 (6.4-4 Debian:12.5/oldstable [amd64])
Inst hello (2.10-3 Debian:12.5/oldstable [amd64])
Inst tzdata [2024a] (2025b Debian:12.11/oldstable [all])
Conf hello (2.10-3 Debian:12.5/oldstable [amd64])
"""
URIS = """\
The following NEW packages will be installed:
  hello
Need to get 1,234 kB of archives.
After this operation, 1,391 MB of additional disk space will be used.
'http://mirror.example/hello_2.10-3_amd64.deb' hello_2.10-3_amd64.deb 53128 SHA256:aa
'http://mirror.example/libncurses6_6.4-4_amd64.deb' libncurses6_6.4-4_amd64.deb 103000 MD5Sum:bb
"""
LISTING = """\
Reading package lists...
Package 'cron' is not installed, so not removed
The following packages were automatically installed and are no longer required:
   libbpf1 (1:1.1.2-0+deb12u1)
Use 'apt autoremove' to remove them.
The following additional packages will be installed:
   libpam0g (1.5.2-6+deb12u3)
Suggested packages:
   libpam-doc (1.5.2-6+deb12u3)
The following packages will be REMOVED:
   iproute2* (6.1.0-3)
   libc6:i386 (2.36-9)
The following NEW packages will be installed:
   tini (0.19.0-1+b3)
   dpkg-dev (1.21.23)
The following held packages will be changed:
   libpam0g (1.5.2-6+deb12u2 => 1.5.2-6+deb12u3)
The following packages will be upgraded:
   libpam0g (1.5.2-6+deb12u2 => 1.5.2-6+deb12u3)
The following packages will be DOWNGRADED:
   tzdata (2025b => 2024a)
4 upgraded, 1 newly installed, 1 to remove and 0 not upgraded.
'http://deb.debian.org/tini_0.19.0-1%2bb3_amd64.deb' tini_0.19.0-1+b3_amd64.deb 267204 MD5Sum:319
"""


@pytest.fixture
def packages():
    return installed_packages.debs(DPKG)


def test_foreign_packages_do_not_stand_for_native_ones(packages):
    assert {"libc6", "libc6:i386", "tzdata"} <= set(packages)
    assert not apt.is_installed(
        installed_packages.debs(DPKG.replace("libc6\tamd64\t2.36-9\tinstall\tinstalled\t\n", "")), "libc6"
    )


@pytest.mark.parametrize(
    ("wish", "holds"),
    [
        ("libc6", True),
        ("libc6=2.36-9", True),
        ("libc6=2.36*", True),
        ("libc6=2.3", False),
        ("nvidia-driver", False),  # unpacked only
        ("sl", False),  # its configuration files only
        ("hello", False),
    ],
)
def test_a_package_is_installed_when_configured_in_the_wanted_version(packages, wish, holds):
    assert apt.is_installed(packages, wish) is holds


MADISON = """\
libnvinfer10 | 10.16.2.10-1+cuda13.2 | http://m  Packages
libnvinfer10 | 10.16.1.11-1+cuda13.2 | http://m  Packages
libnvinfer10 | 10.16.1.11-1+cuda12.9 | http://m  Packages
"""


@pytest.mark.parametrize(
    ("wish", "inner", "exact"),
    [
        ("libnvinfer10=10.16.1*+cuda12.*", True, "libnvinfer10=10.16.1.11-1+cuda12.9"),
        ("libnvinfer10=10.16.*+cuda13.*", True, "libnvinfer10=10.16.2.10-1+cuda13.2"),
        ("libnvinfer10=10.17.*+cuda13.*", True, "libnvinfer10=10.17.*+cuda13.*"),
        ("libnvinfer10=10.16.1*", False, "libnvinfer10=10.16.1.11-1+cuda13.2"),
        ("libnvinfer10", False, "libnvinfer10=10.16.2.10-1+cuda13.2"),
    ],
)
def test_a_pattern_that_apt_get_does_not_read_becomes_a_version(wish, inner, exact):
    assert apt.has_inner_wildcard(wish) is inner
    assert apt.exact(wish, MADISON) == exact


def test_open_wishes_are_those_that_do_not_hold(packages):
    wishes = Wishes(
        present=("libc6", "hello", "nvidia-driver"),
        absent=("tzdata", "sl", "hello", "nvidia-driver"),
        hold=("nvidia-kernel-dkms", "libc6"),
        unhold=("nvidia-kernel-dkms", "tzdata"),
    )
    assert apt.open_wishes(wishes, packages) == Wishes(
        present=("hello", "nvidia-driver"),
        absent=("tzdata", "nvidia-driver"),
        hold=("libc6",),
        unhold=("nvidia-kernel-dkms",),
    )


def test_a_glob_holds_what_is_on_the_disk_and_not_held_yet(packages):
    wishes = Wishes(hold=("nvidia-*", "s*", "tz*"), unhold=("nvidia-k*", "lib*"))
    todo = apt.open_wishes(wishes, packages)
    assert todo.hold == ("nvidia-driver", "tzdata")
    assert todo.unhold == ("nvidia-kernel-dkms",)


def test_a_name_takes_the_packages_of_foreign_architectures_off_too():
    """https://github.com/psygreg/linuxtoys/issues/1182: the driver's i386 libraries stayed, and so did the change."""
    listed = "dpkg\tamd64\t1.22\tinstall\tinstalled\t\n" + "".join(
        f"{name}\t{architecture}\t550.163.01-2\tinstall\tinstalled\t\n"
        for name, architecture in (("libnvidia-glcore", "i386"), ("libcuda1", "amd64"), ("libcuda1", "i386"))
    )
    packages = installed_packages.debs(listed)
    todo = apt.open_wishes(Wishes(absent=("libnvidia-glcore", "libcuda1")), packages)
    assert todo.absent == ("libnvidia-glcore:i386", "libcuda1", "libcuda1:i386")
    assert apt.open_wishes(Wishes(absent=("libcuda1:i386",)), packages).absent == ("libcuda1:i386",)


def test_nothing_is_open_when_all_holds(packages):
    assert (
        apt.open_wishes(Wishes(("libc6", "tzdata"), ("sl",), ("nvidia-kernel-dkms",), ("libc6",)), packages) == Wishes()
    )


def test_a_simulation_becomes_a_plan():
    assert apt.parse_plan(SIMULATION) == Plan(
        install={"libncurses6": "6.4-4", "hello": "2.10-3"},
        change={"tzdata": ("2024a", "2025b")},
        remove={"sl": "5.02-1", "old": "1"},
    )


def test_sizes_are_bytes():
    assert apt.parse_sizes(URIS) == (53128 + 103000, 1_391_000_000)


def test_downloads_are_bytes_by_file():
    assert apt.parse_downloads(URIS) == {"hello_2.10-3_amd64.deb": 53128, "libncurses6_6.4-4_amd64.deb": 103000}


def test_a_transaction_that_frees_space_needs_none():
    assert apt.parse_sizes("After this operation, 12.5 MB disk space will be freed.\n") == (0, 0)


@pytest.mark.parametrize(
    ("report", "names"),
    [
        ("E: Unable to locate package nosuch\n", {"nosuch"}),
        ("E: Package 'firefox' has no installation candidate\n", {"firefox"}),
        ("E: Version '9' for 'dkms' was not found\n", {"dkms"}),
        ("E: Unable to locate package a\nE: Unable to locate package b\n", {"a", "b"}),
        ("E: Unable to correct problems, you have held broken packages.\n", set()),
    ],
)
def test_names_that_the_lists_do_not_have(report, names):
    assert apt.parse_unknown(report) == names


def test_one_command_does_it_all():
    command = apt.install_command(Wishes(("a", "b"), ("c",)), recommends=False, lock_timeout=7, changes_held=False)
    assert command[-4:] == ["install", "a", "b", "c-"]
    assert "--option=APT::Install-Recommends=false" in command
    assert "--option=DPkg::Lock::Timeout=7" in command
    assert not any(word.startswith("--allow") for word in command)


def test_one_call_tells_what_changes_and_what_is_loaded():
    assert apt.parse_listing(LISTING) == Plan(
        install={"tini": "0.19.0-1+b3", "dpkg-dev": "1.21.23"},
        change={"libpam0g": ("1.5.2-6+deb12u2", "1.5.2-6+deb12u3"), "tzdata": ("2025b", "2024a")},
        remove={"iproute2": "6.1.0-3", "libc6:i386": "2.36-9"},
    )
    assert apt.parse_downloads(LISTING) == {"tini_0.19.0-1+b3_amd64.deb": 267204}
    assert apt.parse_listing("E: Unable to locate package tini\n") == Plan()


@pytest.mark.parametrize("simulate", ["--simulate", "--print-uris"])
def test_a_simulation_writes_neither_caches_nor_logs(simulate):
    silent = {f"--option=Dir::{name}=" for name in ("Cache::pkgcache", "Cache::srcpkgcache", "Log::Planner")}
    wishes = Wishes(("a",))
    options = {"recommends": False, "lock_timeout": 7, "changes_held": False}
    assert silent <= set(apt.install_command(wishes, **options, simulate=simulate))
    assert not silent & set(apt.install_command(wishes, **options))
    assert "--option=APT::Get::Show-Versions=true" in apt.install_command(wishes, **options, simulate=simulate)
    assert not silent & set(apt.install_command(wishes, **options, simulate=simulate, writes_caches=True))


def test_only_a_wanted_version_may_go_down():
    assert "--allow-downgrades" in apt.install_command(
        Wishes(("a=1",)), recommends=True, lock_timeout=0, changes_held=False
    )


def test_an_undo_names_its_packages_and_keeps_older_configuration():
    script = apt.undo_script(["new", "was-configured"], {"was-configured": Deb("1", "config-files", held=False)})
    assert script.splitlines() == [
        "set -e",
        "dpkg --force-remove-reinstreq --remove new was-configured",
        "dpkg --purge new",
    ]
    assert "--purge" not in apt.undo_script(["x"], {"x": Deb("1", "config-files", held=False)})


def test_the_diff_has_one_package_a_line():
    diff = package_plan.diff(apt.parse_plan(SIMULATION), Wishes(hold=("hello",), unhold=("tzdata",)), ("cuda=13",))
    assert diff["before"].splitlines() == ["old 1", "sl 5.02-1", "tzdata 2024a", "tzdata on hold"]
    assert diff["after"].splitlines() == [
        "would install cuda=13 (not yet in the package lists)",
        "hello 2.10-3",
        "hello on hold",
        "libncurses6 6.4-4",
        "tzdata 2025b",
    ]


def test_holds_of_others_are_told_from_those_of_the_wishes(packages):
    plan = Plan(change={"nvidia-kernel-dkms": ("535", "550"), "libc6": ("1", "2")})
    held, going = {"nvidia-kernel-dkms"}, Plan(remove={"nvidia-kernel-dkms": "535"})
    assert apt.foreign_holds(plan, Wishes(("x",)), packages, held) == ["nvidia-kernel-dkms"]
    assert apt.foreign_holds(going, Wishes(), packages, held) == ["nvidia-kernel-dkms"]
    for ours in (Wishes(hold=("nvidia-kernel-dkms",)), Wishes(unhold=("nvidia-*",))):
        assert apt.foreign_holds(plan, ours, packages, held) == []
    somebodys = apt.foreign_holds(plan, Wishes(hold=("nvidia-*",)), packages, {"libc6"})
    assert somebodys == ["nvidia-kernel-dkms"]  # on hold before gpulab came


def test_headers_go_with_what_they_came_for_and_a_kernel_never_does():
    names = ["linux-headers-6.1.0-56-amd64", "linux-modules-nvidia-595-6.8.0-51-generic", "gcc-12"]
    kernel = ["linux-image-6.8.0-51-generic", "linux-modules-6.8.0-51-generic", "linux-modules-extra-6.8.0-51-generic"]
    assert apt.parse_needless("".join(f"Remv {name} [1]\n" for name in (*names, *kernel))) == set(names)


def test_a_hold_makes_nothing_needed():
    assert "--option=APT::Ignore-Hold=true" in apt.autoremove_command(apt.Wishes(), "/states")


def test_messages_are_those_that_are_read_here_whatever_language_the_operator_reads():
    """LANGUAGE goes before LC_ALL, in glibc even where that is C.UTF-8, and in Python's gettext even where it is C."""
    assert (apt.ENVIRONMENT["LANGUAGE"], apt.ENVIRONMENT["LC_ALL"]) == ("", "C.UTF-8")


def test_what_came_as_a_dependency():
    states = "Package: a\nArchitecture: amd64\nAuto-Installed: 1\n\nPackage: b\nArchitecture: i386\nAuto-Installed: 0\n"
    assert apt.automatic(apt.mark_automatic(states, ["c"]), "amd64") == {("a", "amd64"), ("c", "amd64")}
    for needed in ("a", "a:amd64"):
        assert apt.automatic(apt.mark_automatic(states, ["c"], {needed}), "amd64") == {("c", "amd64")}
