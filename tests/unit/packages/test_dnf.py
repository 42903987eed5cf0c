"""What rpm and dnf report, and what it takes to change it: pure functions over their texts."""

from types import SimpleNamespace

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core import installed_packages
from ansible_collections.gpulab.node.plugins.module_utils.packages import dnf, dnf_solver
from ansible_collections.gpulab.node.plugins.module_utils.packages import plan as package_plan
from ansible_collections.gpulab.node.plugins.module_utils.packages.apt import Plan, Wishes

REPORT = """\
bash\t0\t5.1.8-9.el9\tx86_64\t
kernel-devel\t0\t5.14.0-503.el9\tx86_64\t
kernel-devel\t0\t5.14.0-570.el9\tx86_64\t
nvidia-driver-cuda\t3\t595.91.07-1.el9\tx86_64\t
nvidia-container-toolkit\t0\t1.18.0-1\tx86_64\t
"""
PACKAGES = installed_packages.rpms(REPORT)
LOCK = "nvidia-driver-cuda-3:595.91.07-1.el9.*"
HOLD = ("nvidia-driver*",)


def test_a_package_is_there_once_per_version():
    assert [package.nvra for package in PACKAGES if package.name == "kernel-devel"] == [
        "kernel-devel-5.14.0-503.el9.x86_64",
        "kernel-devel-5.14.0-570.el9.x86_64",
    ]


@pytest.mark.parametrize(
    ("wish", "expected"),
    {
        "bash": True,
        "bas": False,
        "bash=5.1.*": True,
        "bash=5.2.*": False,
        "nvidia-driver-cuda=595.91.07*": True,
        "nvidia-driver-cuda=3:595.91.07-1.el9": True,
        "nvidia-driver-cuda=595.95*": False,
        "kernel-devel-5.14.0-503.el9.x86_64": True,
        "kernel-devel-5.14.0-611.el9.x86_64": False,
    }.items(),
)
def test_a_wish_is_fulfilled_by_name_version_or_whole_name(wish, expected):
    assert dnf.is_installed(PACKAGES, wish) is expected


def test_a_hold_is_open_until_the_very_version_is_locked():
    wishes = Wishes(hold=HOLD)
    assert dnf.open_wishes(wishes, PACKAGES, []).hold == ("nvidia-driver-cuda",)
    assert dnf.open_wishes(wishes, PACKAGES, ["nvidia-driver-cuda-3:590.1-1.el9.*"]).hold == ("nvidia-driver-cuda",)
    assert dnf.open_wishes(wishes, PACKAGES, [LOCK]) == Wishes()
    assert dnf.open_wishes(Wishes(unhold=HOLD), PACKAGES, [LOCK]).unhold == ("nvidia-driver-cuda",)


def test_the_list_of_locks_keeps_what_others_wrote():
    others = "# mine\nbash-0:5.1.8-9.el9.*\n!firefox-*\n"
    locked = dnf.lock_list(others + "nvidia-driver-cuda-3:590.1-1.el9.*\n", Wishes(hold=HOLD), PACKAGES)
    assert locked == f"{others}{LOCK}\n"
    assert dnf.lock_list(locked, Wishes(hold=HOLD), PACKAGES) == locked
    assert dnf.lock_list(locked, Wishes(unhold=HOLD), PACKAGES) == others
    assert dnf.locks(locked) == ["bash-0:5.1.8-9.el9.*", LOCK]


def test_a_lock_is_let_go_although_its_package_is_gone():
    assert dnf.open_wishes(Wishes(unhold=HOLD), [], [LOCK]).unhold == ("nvidia-driver-cuda",)
    assert dnf.lock_list(f"{LOCK}\n", Wishes(unhold=HOLD), []) == ""


def test_only_its_own_locked_packages_may_a_transaction_change():
    plan = Plan(change={"nvidia-driver-cuda": ("1", "2"), "bash": ("1", "2")})
    locked = [LOCK, "bash-0:5.1.8-9.el9.*"]
    own = {"nvidia-driver-cuda"}
    assert dnf.foreign_holds(plan, Wishes(), locked, own) == ["bash", "nvidia-driver-cuda"]
    assert dnf.foreign_holds(plan, Wishes(hold=HOLD), locked, own) == ["bash"]
    assert dnf.foreign_holds(plan, Wishes(hold=HOLD), locked, set()) == ["bash", "nvidia-driver-cuda"]


def row(action, name, version, before=""):
    return {"action": action, "name": name, "nevra": f"{name}-{version}.x86_64", "version": version, "before": before}


def test_an_answer_tells_two_versions_of_a_package_apart():
    rows = [
        row("install", "kernel-devel", "5.14.0-503.el9"),
        row("install", "kernel-devel", "5.14.0-570.el9"),
        row("change", "nvidia-driver-cuda", "3:595.95.01-1.el9", "3:595.91.07-1.el9"),
        row("remove", "kmod-nvidia-latest-dkms", "3:595.91.07-1.el9"),
    ]
    answer = dnf.parse_answer({**dnf_solver.outcome(None), "unknown": [], "problem": "", "rows": rows})
    assert answer.plan.install == {
        "kernel-devel-5.14.0-503.el9.x86_64": "5.14.0-503.el9",
        "kernel-devel-5.14.0-570.el9.x86_64": "5.14.0-570.el9",
    }
    assert answer.new == list(answer.plan.install)
    assert answer.plan.change == {"nvidia-driver-cuda": ("3:595.91.07-1.el9", "3:595.95.01-1.el9")}
    assert answer.plan.remove == {"kmod-nvidia-latest-dkms": "3:595.91.07-1.el9"}


def solved(coming, going):
    """Return the answer to a transaction of packages, each name-version-release.architecture."""

    def package(nevra):
        rest, _dot, architecture = nevra.rpartition(".")
        name, version, release = rest.rsplit("-", 2)
        evr, sizes = f"3:{version}-{release}", {"downloadsize": 1, "installsize": 1}
        of_file = {"location": f"x/{nevra}.rpm", "localPkg": lambda: "/nowhere"}
        known = {"name": name, "version": version, "release": release, "arch": architecture, "evr": evr}
        return SimpleNamespace(**known, **sizes, **of_file)

    sets = {"install_set": list(map(package, coming)), "remove_set": list(map(package, going))}
    return dnf.parse_answer({"unknown": [], "problem": "", **dnf_solver.outcome(SimpleNamespace(**sets))})


LIBRARIES = ("nvidia-driver-libs-590.1-1.el9.i686", "nvidia-driver-libs-590.1-1.el9.x86_64")


def test_an_update_of_two_architectures_brings_nothing_new():
    answer = solved([name.replace("590.1", "595.2") for name in LIBRARIES], LIBRARIES)
    assert answer.new == []
    assert answer.plan == Plan(change={"nvidia-driver-libs": ("3:590.1-1.el9", "3:595.2-1.el9")})
    assert package_plan.diff(answer.plan, Wishes())["after"] == "nvidia-driver-libs 3:595.2-1.el9\n"


def test_a_library_of_another_architecture_that_goes_is_seen_beside_the_one_that_changes():
    answer = solved(["nvidia-driver-libs-595.2-1.el9.x86_64"], LIBRARIES)
    assert answer.plan.remove == {"nvidia-driver-libs": "3:590.1-1.el9"}
    assert answer.going == dict.fromkeys(["nvidia-driver-libs.i686", "nvidia-driver-libs.x86_64"], "3:590.1-1.el9")
    assert answer.coming == ["nvidia-driver-libs.x86_64"]
    assert answer.plan.change == {"nvidia-driver-libs": ("3:590.1-1.el9", "3:595.2-1.el9")}


def test_a_library_of_another_architecture_that_comes_is_told_beside_the_one_that_changes():
    answer = solved([name.replace("590.1", "595.2") for name in LIBRARIES], LIBRARIES[1:])
    assert answer.new == ["nvidia-driver-libs-595.2-1.el9.i686"]
    assert package_plan.diff(answer.plan, Wishes())["after"].count("nvidia-driver-libs 3:595.2-1.el9\n") == 2


def test_a_package_that_is_for_any_architecture_by_now_takes_the_place_of_the_former():
    answer = solved(["kmod-nvidia-open-dkms-595.2-1.el9.noarch"], ["kmod-nvidia-open-dkms-590.1-1.el9.x86_64"])
    assert (answer.new, list(answer.plan.change), answer.plan.remove) == ([], ["kmod-nvidia-open-dkms"], {})


def test_one_command_brings_and_takes_away():
    todo = Wishes(present=("a=1.*", "b"), absent=("c",))
    shell, _c, script = dnf.install_command(todo, recommends=False, changes_held=True)
    install, remove = script.split(" && ")
    assert shell == "sh"
    assert install.endswith("install --allowerasing 'a-1.*' b")
    assert remove.endswith("remove c")
    assert install.count("--disableplugin=versionlock") == remove.count("--disableplugin=versionlock") == 1


def test_locks_stay_in_force_for_who_does_not_hold():
    argv = dnf.install_command(Wishes(present=("a",)), recommends=True, changes_held=False)
    assert argv[0] == "dnf"
    assert "--allowerasing" not in argv
    assert not [option for option in argv if "versionlock" in option]
    assert dnf.question(Wishes(present=("a",)), recommends=True, changes_held=False)["disable"] == []
