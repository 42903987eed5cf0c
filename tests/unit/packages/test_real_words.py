"""Why real package managers and builds fail: apt-get, dpkg, make and GCC, each with a fault that is made for it."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.driver import dkms
from ansible_collections.gpulab.node.plugins.module_utils.packages.apt import ENVIRONMENT
from ansible_collections.gpulab.node.plugins.module_utils.packages.apt_failure import classify

PACKAGES = pytest.mark.skipif(
    not (all(map(shutil.which, ("apt-get", "dpkg-deb"))) and os.geteuid() == 0), reason="needs apt-get, dpkg-deb, root"
)
BUILDS = pytest.mark.skipif(not all(map(shutil.which, ("make", "gcc"))), reason="needs make and gcc")
CONFIGURATION = """
Dir "{root}"; Dir::State::status "{root}/var/lib/dpkg/status"; APT::Architecture "amd64"; APT::Sandbox::User "root";
APT::Architectures {{ "amd64"; }}; Dir::Bin::dpkg "/usr/bin/dpkg"; Dir::Bin::methods "/usr/lib/apt/methods";
Dir::Etc::parts "/nowhere";
DPkg::Options {{ "--force-not-root"; "--force-bad-path"; "--force-script-chrootless"; "--root={root}";
"--log=/dev/null"; }};
"""
HEADERS = "echo 'Error! Your kernel headers for kernel 6.1.0 cannot be found at /lib/modules/6.1.0/build.'; exit 1"


class Machine:
    """A root of its own for apt-get and dpkg, with a repository of local packages."""

    def __init__(self, tmp_path):
        """Have nothing installed and no package to be had."""
        self.root, self.repository = tmp_path / "root", tmp_path / "repository"
        for name in ("etc/apt", "var/lib/apt/lists/partial", "var/cache/apt/archives/partial", "var/log/apt", "tmp"):
            (self.root / name).mkdir(parents=True)
        for name in ("updates", "info", "triggers"):
            (self.root / "var/lib/dpkg" / name).mkdir(parents=True)
        (self.root / "var/lib/dpkg/status").touch()
        self.repository.mkdir()
        (self.root / "apt.conf").write_text(CONFIGURATION.format(root=self.root))
        (self.root / "etc/apt/sources.list").write_text(f"deb [trusted=yes] copy:{self.repository} ./\n")

    def offer(self, name, version="1", *, file="", architecture="amd64", scripts=None, **fields):
        """Put a package into the repository; scripts are shell by name, fields further lines of its control file."""
        tree = self.repository.parent / "tree"
        shutil.rmtree(tree, ignore_errors=True)
        (tree / "DEBIAN").mkdir(parents=True)
        lines = {"Package": name, "Version": version, "Architecture": architecture, **fields}
        control = "".join(f"{key}: {value}\n" for key, value in lines.items())
        control += "Maintainer: A <a@example.org>\nDescription: a stub\n"
        (tree / "DEBIAN/control").write_text(control)
        for script, text in (scripts or {}).items():
            (tree / "DEBIAN" / script).write_text(f"#!/bin/sh\n{text}\n")
            (tree / "DEBIAN" / script).chmod(0o755)
        if file:
            (tree / file).parent.mkdir(parents=True)
            (tree / file).write_text(name)
        package = self.repository / f"{name}_{version}_{architecture}.deb"
        build = ["dpkg-deb", "--build", "-Znone", "--root-owner-group", tree, package]
        subprocess.run(build, check=True, capture_output=True)
        data = package.read_bytes()
        with (self.repository / "Packages").open("a") as index:
            digest = hashlib.sha256(data).hexdigest()
            index.write(f"{control}Filename: ./{package.name}\nSize: {len(data)}\nSHA256: {digest}\n\n")
        return package

    def apt(self, *arguments):
        """Run apt-get; return its exit status and all that it printed, in the order of a log."""
        environment = {**os.environ, **ENVIRONMENT, "APT_CONFIG": str(self.root / "apt.conf")}
        done = subprocess.run(
            ["apt-get", "--yes", *arguments],
            env=environment,
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        return done.returncode, done.stdout

    def refused(self, *names):
        """Return why packages cannot be installed."""
        assert self.apt("update")[0] == 0
        status, report = self.apt("install", *names)
        assert status != 0
        return classify(report, "/log")


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


@PACKAGES
def test_a_package_that_nobody_has_is_no_hold(machine):
    machine.offer("driver", Depends="library (= 2)")
    found = machine.refused("driver")
    assert found.code == "H292"
    assert "driver : Depends: library (= 2) but it is not installable" in found.cause


@PACKAGES
def test_a_pin_that_keeps_another_version_is_told(machine):
    machine.offer("library", "1")
    machine.offer("library", "2")
    machine.offer("driver", Depends="library (= 2)")
    (machine.root / "etc/apt/preferences").write_text("Package: library\nPin: version 1\nPin-Priority: 1001\n")
    found = machine.refused("driver")
    assert found.code == "H295"
    assert "driver : Depends: library (= 2) but 1 is to be installed" in found.cause
    assert "pin" in found.remedy


@PACKAGES
def test_a_pin_that_keeps_a_package_away_is_named_beside_the_name(machine):
    machine.offer("driver")
    (machine.root / "etc/apt/preferences").write_text("Package: driver\nPin: version *\nPin-Priority: -1\n")
    found = machine.refused("driver")
    assert (found.code, "pin" in found.remedy) == ("H049", True)


@PACKAGES
def test_packages_that_exclude_each_other_are_told(machine):
    machine.offer("one", Conflicts="other")
    machine.offer("other")
    found = machine.refused("one", "other")
    assert found.code == "H048"
    assert "one : Conflicts: other" in found.cause


@PACKAGES
def test_a_file_of_two_packages_is_told_with_both(machine):
    machine.offer("one", file="usr/lib/libcuda.so")
    machine.offer("other", file="usr/lib/libcuda.so")
    found = machine.refused("one", "other")
    assert found.code == "H291"
    assert "trying to overwrite '/usr/lib/libcuda.so', which is also in package one" in found.cause


@PACKAGES
@pytest.mark.parametrize("script", ["preinst", "postinst"])
def test_a_script_that_fails_is_told_with_its_last_words(machine, script):
    machine.offer("driver", scripts={script: "echo no such luck; exit 3"})
    found = machine.refused("driver")
    assert found.code == "H052"
    assert "returned error exit status 3 (no such luck)" in found.cause


@PACKAGES
def test_what_dkms_says_in_a_script_is_the_cause(machine):
    machine.offer("driver", scripts={"postinst": HEADERS})
    found = machine.refused("driver")
    assert "Known cause: the node does not have the headers of that kernel." in found.cause
    assert found.remedy.startswith("Install linux-headers-VERSION")


@PACKAGES
def test_what_an_earlier_script_said_is_not_the_cause(machine):
    machine.offer("earlier", scripts={"postinst": HEADERS.replace("exit 1", "exit 0")})
    machine.offer("driver", Depends="earlier", scripts={"postinst": "echo no such luck; exit 3"})
    found = machine.refused("driver")
    assert "(no such luck)" in found.cause
    assert "headers" not in found.cause


@PACKAGES
def test_a_package_of_another_architecture_is_told(machine):
    machine.offer("driver", architecture="arm64")
    found = machine.refused("driver:arm64")
    assert found.code == "H298"
    assert "package architecture (arm64) does not match system (amd64)" in found.cause


@PACKAGES
def test_a_page_in_place_of_a_package_is_told(machine):
    machine.offer("driver").write_text("<html>Log in</html>")
    found = machine.refused("driver")
    assert (found.code, "Hash Sum mismatch" in found.cause) == ("H043", True)


@PACKAGES
def test_a_package_that_is_gone_is_told(machine):
    machine.offer("driver").unlink()
    assert machine.refused("driver").code == "H042"


@PACKAGES
def test_a_status_of_dpkg_that_is_damaged_is_told(machine):
    machine.offer("driver")
    assert machine.apt("update")[0] == 0
    (machine.root / "var/lib/dpkg/status").write_text("garbage\n")
    assert classify(machine.apt("install", "driver")[1], "/log").code == "H217"


def made(tmp_path, recipe, **environment):
    """Return what make prints of a recipe that fails, with what is told of it."""
    (tmp_path / "Makefile").write_text(f"all:\n\t{recipe}\n" if recipe else "")
    (tmp_path / "nv.c").write_text("int main(void) { return 0; }\n")
    done = subprocess.run(
        ["make", "all"],
        cwd=tmp_path,
        env={**os.environ, **ENVIRONMENT, **environment},
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode != 0
    return dkms.told(dkms.first_compiler_error(done.stdout))


RECIPES = {
    "a compiler that is not there": ("gcc-77 -c nv.c", "gcc-77", "does not have the program gcc-77"),
    "a compiler that is too old": ("gcc -c -fno-such-option nv.c", "-fno-such-option", "the compiler is older"),
    "a disk that is full": ("gcc -o /dev/full nv.c", "No space left on device", "file system of the build is full"),
    "a library that is not there": (
        "gcc -shared -o libgone.so nv.c && gcc -o tool nv.c -L. -Wl,--no-as-needed -lgone && rm libgone.so && ./tool",
        "libgone.so: cannot open shared object file",
        "needs the library libgone.so",
    ),
    "headers that are not there": (
        "$(MAKE) -C /lib/modules/9.9.9-none/build modules",
        "/lib/modules/9.9.9-none/build: No such file or directory",
        "does not have the headers of this kernel",
    ),
    "a program of the headers that is not there": (
        "./tools/objtool/objtool --orc nv.o",
        "./tools/objtool/objtool: ",
        "the headers of this kernel are not complete",
    ),
    "memory that is short": ("ulimit -v 20000; gcc -c nv.c", "", "too little memory|compiler itself crashed"),
}


@BUILDS
@pytest.mark.parametrize(("recipe", "shown", "cause"), RECIPES.values(), ids=RECIPES)
def test_why_a_real_build_fails_is_told(tmp_path, recipe, shown, cause):
    found = made(tmp_path, recipe)
    line, _, known = found["error"].partition("Known cause: ")
    assert shown in line
    assert any(one in known for one in cause.split("|"))
    assert found["way"] != dkms.ADVICE


@BUILDS
def test_an_error_of_the_source_is_shown_and_another_driver_advised(tmp_path):
    (tmp_path / "other.c").write_text("int f(void) { return undeclared; }\n")
    found = made(tmp_path, "gcc -c other.c")
    assert "error: 'undeclared' undeclared" in found["error"].replace("\u2018", "'").replace("\u2019", "'")
    assert found["way"] == dkms.ADVICE
