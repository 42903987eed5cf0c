"""The packages that dpkg and rpm list: foreign architectures, several versions, odd lines."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.installed_packages import Deb, Rpm, debs, rpms

DPKG = "dpkg\tamd64\t1.21.22\tinstall\tinstalled\tDpkg Developers <d@debian.org>\n"


@pytest.mark.parametrize(
    ("row", "name", "package", "on_disk"),
    [
        ("libc6\tamd64\t2.36-9\tinstall\tinstalled\tM", "libc6", Deb("2.36-9", "installed", held=False), True),
        ("libc6\ti386\t2.36-9\tinstall\tinstalled\tM", "libc6:i386", Deb("2.36-9", "installed", held=False), True),
        (
            "tzdata\tall\t1:24a\thold\thalf-configured\t李",
            "tzdata",
            Deb("1:24a", "half-configured", held=True),
            True,
        ),
        ("sl\tamd64\t5.02-1\tdeinstall\tconfig-files\t", "sl", Deb("5.02-1", "config-files", held=False), False),
        ("x\t\t\tunknown\tnot-installed\t", "x", Deb("", "not-installed", held=False), False),
    ],
)
def test_a_package_of_dpkg(row, name, package, on_disk):
    found = debs(f"{row}\n{DPKG}")
    assert found == {name: package, "dpkg": Deb("1.21.22", "installed", held=False)}
    assert (found[name].architecture, found[name].maintainer) == (row.split("\t")[1], row.split("\t")[5])
    assert found[name].on_disk is on_disk


def test_no_architecture_is_foreign_where_dpkg_is_not_listed():
    assert debs("libc6\ti386\t2.36-9\tinstall\tinstalled\tM\n").keys() == {"libc6"}


@pytest.mark.parametrize(
    "line", ["", "dpkg-query: no packages found", DPKG.rpartition("\t")[0], f"{DPKG.strip()}\tmore"]
)
def test_a_line_of_another_form_is_no_package(line):
    assert debs(f"{line}\n{DPKG}").keys() == {"dpkg"}


def test_packages_of_rpm():
    first, second = rpms("kernel\t0\t5.14.0-1.el9\tx86_64\tRocky\nnvidia\t3\t580.95-1\tx86_64\t(none)\n\nkernel\t0\n")
    assert first == Rpm("kernel", "0", "5.14.0-1.el9", "x86_64")
    assert (first.nvra, first.na, first.evr) == ("kernel-5.14.0-1.el9.x86_64", "kernel.x86_64", "5.14.0-1.el9")
    assert (second.evr, second.lock, second.vendor) == ("3:580.95-1", "nvidia-3:580.95-1.*", "(none)")
