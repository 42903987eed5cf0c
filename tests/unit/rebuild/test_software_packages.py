"""Which packages come back, and what is told of the others."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.software import Installed, Package
from ansible_collections.gpulab.node.plugins.module_utils.core.installed_packages import Deb
from ansible_collections.gpulab.node.plugins.module_utils.packages.plan import Plan
from ansible_collections.gpulab.node.plugins.module_utils.rebuild import software_packages

NATIVE = Deb("1.21", "installed", held=False, architecture="amd64")


def package(name, version="1", architecture="amd64"):
    return Package(name, version, architecture)


def section(*names, manual=(), holds=()):
    return Installed([package(name) for name in names], list(manual), list(holds))


def candidates(wanted, installed=None, managed=(), *, same=True):
    return software_packages.candidates(wanted, {"dpkg": NATIVE, **(installed or {})}, managed, same_release=same)


def test_the_same_release_brings_all_packages_back_the_manual_ones_first():
    assert candidates(section("libz", "git", "cron", manual=["cron"])).names == ("cron", "libz", "git")


def test_another_release_chooses_what_the_manual_packages_need():
    assert candidates(section("libz1", "git", manual=["git"]), same=False).names == ("git",)


def test_what_is_there_is_left():
    assert candidates(section("git"), {"git": NATIVE}).names == ()
    removed = Deb("1", "config-files", held=False, architecture="amd64")
    assert candidates(section("git"), {"git": removed}).names == ("git",)


def test_a_foreign_architecture_is_named():
    wanted = Installed([package("wine", architecture="i386"), package("doc", architecture="all")], [], [])
    assert candidates(wanted).names == ("wine:i386", "doc")
    assert software_packages.foreign_architectures(wanted, "amd64") == ["i386"]


@pytest.mark.parametrize(
    "name", ["nvidia-driver", "libnvidia-ml1", "cuda-toolkit-12-8", "linux-modules-nvidia-580-generic"]
)
def test_what_the_plan_brings_is_left_to_it(name):
    assert candidates(section(name, manual=[name])).names == ()


def test_what_gpulabs_roles_answer_for_is_left_to_them():
    assert candidates(section("dkms", "git"), managed=["dkms", "libcud*"]).names == ("git",)


def test_a_kernel_of_one_version_stays_away_and_is_told_where_it_was_on_hold():
    names = ("linux-image-6.1.0-9-amd64", "linux-headers-6.1.0-9-common", "linux-image-amd64")
    found = candidates(section(*names, holds=names[:1]))
    assert found.names == ("linux-image-amd64",)
    assert [one["name"] for one in found.left] == [names[0]]


def apt(unknown=(), apart=(), removes=()):
    """Return a simulation: names that no source has, pairs that do not go together, and what one removes."""

    def simulate(names):
        errors = [f"E: Unable to locate package {name}" for name in names if name in unknown]
        for one, other in apart:
            if one in names and other in names:
                errors.append(f" {one} : Conflicts: {other} but 1 is to be installed\nE: Unable to correct problems")
        return Plan(remove={gone: "1" for name, gone in removes if name in names}), "\n".join(errors)

    return simulate


def test_what_no_source_has_is_named_and_the_others_come():
    found = software_packages.settle(["a", "b", "c"], [], apt(unknown=["b"]))
    assert found.install == ["a", "c"]
    assert found.missing == [{"section": "packages", "name": "b", "why": "no package source has it"}]


def test_of_two_that_do_not_go_together_the_earlier_one_comes():
    names = [f"p{number}" for number in range(9)]
    found = software_packages.settle(names, [], apt(apart=[("p1", "p7")]))
    assert found.install == [name for name in names if name != "p7"]
    assert found.missing == [{**found.missing[0], "name": "p7", "why": "p1 : Conflicts: p7 but 1 is to be installed"}]


@pytest.mark.parametrize("gone", ["mine", "openssh-server", "linux-image-6.1.0-50-amd64"])
def test_nothing_comes_at_the_price_of_what_the_capture_has_or_the_rebuild_needs(gone):
    found = software_packages.settle(["a", "b"], ["a", "b", "mine"], apt(removes=[("b", gone)]))
    assert found.install == ["a"]
    assert found.missing[0]["why"] == f"it would remove {gone}"


def test_what_only_the_installer_brought_may_go():
    assert software_packages.settle(["ntpsec"], ["ntpsec"], apt(removes=[("ntpsec", "systemd-timesyncd")])).install == [
        "ntpsec"
    ]


def test_without_names_apt_is_not_asked():
    assert software_packages.settle([], [], None).install == []


STATES = (
    "Package: lib\nArchitecture: amd64\nAuto-Installed: 1\n\nPackage: git\nArchitecture: amd64\nAuto-Installed: 1\n"
)


def marks(wanted, installed, *, managed=(), same=True):
    return software_packages.marks(wanted, {"dpkg": NATIVE, **installed}, STATES, managed, same=same)


def test_holds_and_marks_are_as_they_were():
    installed = dict.fromkeys(("cron", "git", "lib", "tool"), NATIVE)
    wanted = section("cron", "git", "lib", "tool", manual=["git", "cron"], holds=["cron", "gone"])
    found, lacking = marks(wanted, installed)
    assert found == {"hold": ["cron"], "manual": ["git"], "auto": ["tool"]}
    assert [one["name"] for one in lacking] == ["gone"]


def test_of_another_release_nothing_is_marked_automatic():
    found, _lacking = marks(section("tool", manual=[]), {"tool": NATIVE}, same=False)
    assert found == {}


def test_what_is_marked_already_is_left():
    held = Deb("1", "installed", held=True, architecture="amd64")
    assert marks(section("lib", "cron", manual=["cron"], holds=["cron"]), {"lib": NATIVE, "cron": held})[0] == {}


def test_gpulabs_packages_keep_their_marks():
    assert marks(section("dkms", holds=["dkms"]), {"dkms": NATIVE}, managed=["dkms"]) == ({}, [])


def test_a_held_package_that_came_in_another_version_is_told():
    wanted = section("cron", holds=["cron"])
    (told,) = software_packages.other_versions(wanted, {"dpkg": NATIVE, "cron": NATIVE})
    assert told["why"] == "it was on hold in version 1, and came back in 1.21"


def test_sources_and_pins_are_told_by_their_places():
    assert software_packages.is_source("/etc/apt/sources.list")
    assert software_packages.is_source("/etc/apt/sources.list.d/lab.sources")
    assert not software_packages.is_source("/etc/apt/sources.list.d/lab.sources.save")
    assert not software_packages.is_source("/etc/apt/keyrings/lab.gpg")
    assert software_packages.is_pin("/etc/apt/preferences.d/kernel")
    assert not software_packages.is_pin("/etc/apt/apt.conf.d/99lab")


LOG = """Hit:1 http://mirror/debian trixie InRelease
== source /etc/apt/sources.list.d/lab.sources
Ign:1 https://packages.example.org stable InRelease
Err:1 https://packages.example.org stable InRelease
E: Failed to fetch https://packages.example.org/dists/stable/InRelease  Could not resolve 'packages.example.org'
E: Some index files failed to download.
== ended with 100
== source /etc/apt/sources.list
Hit:1 http://mirror/debian trixie InRelease
== ended with 0
"""


def test_a_source_that_does_not_answer_is_found_with_its_reason():
    (path, why) = next(iter(software_packages.unanswered(LOG).items()))
    assert (path, len(software_packages.unanswered(LOG))) == ("/etc/apt/sources.list.d/lab.sources", 1)
    assert "packages.example.org" in why


def test_a_trial_that_was_cut_off_counts_as_no_answer():
    assert list(software_packages.unanswered("== source /etc/apt/sources.list\nHit:1")) == ["/etc/apt/sources.list"]
