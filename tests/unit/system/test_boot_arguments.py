"""Arguments of the kernel in boot entries: what changes, to the word, and whose they are."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.system import boot_arguments

OLD, NEW = (f"{boot_arguments.ENTRIES}/{name}.conf" for name in ("old", "new"))
ENTRY = "title Rocky\nlinux /vmlinuz\noptions {}\ngrub_class rocky\n"
DEFAULTS = 'GRUB_TIMEOUT=5\nGRUB_CMDLINE_LINUX="{}"\nGRUB_CMDLINE_LINUX_DEFAULT="rhgb"\n'


def texts(old="root=/dev/sda1 ro", new="root=/dev/sda1 ro", later="root=/dev/sda1 ro", defaults="quiet"):
    return {
        OLD: ENTRY.format(old),
        NEW: ENTRY.format(new),
        boot_arguments.DEFAULTS: DEFAULTS.format(defaults),
        boot_arguments.CMDLINE: f"{later}\n",
    }


def after(plan):
    return {step.path: step.after for step in plan.steps}


def test_an_argument_is_given_to_every_kernel_and_to_later_ones():
    plan = boot_arguments.plan(["iommu=pt"], texts(), [])
    pt = "root=/dev/sda1 ro iommu=pt"
    assert after(plan) == texts(pt, pt, pt, "quiet iommu=pt")
    assert (plan.add, plan.remove, plan.own) == (("iommu=pt",), (), ("iommu=pt",))


def test_it_goes_again_and_leaves_what_was_there():
    given = after(boot_arguments.plan(["iommu=pt"], texts(), []))
    plan = boot_arguments.plan([], given, ["iommu=pt"])
    assert after(plan) == texts()
    assert (plan.add, plan.remove, plan.own) == ((), ("iommu=pt",), ())


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("GRUB_CMDLINE_LINUX='a=\"b c\" quiet'", "GRUB_CMDLINE_LINUX='a=\"b c\" quiet iommu=pt'"),
        ("GRUB_CMDLINE_LINUX=quiet", 'GRUB_CMDLINE_LINUX="quiet iommu=pt"'),
        ("GRUB_CMDLINE_LINUX=", 'GRUB_CMDLINE_LINUX="iommu=pt"'),
        ("GRUB_CMDLINE_LINUX=''", "GRUB_CMDLINE_LINUX='iommu=pt'"),
    ],
)
def test_the_variable_for_later_kernels_may_be_quoted_as_a_shell_takes_it(before, expected):
    text = f"GRUB_TIMEOUT=5\n{before}\nGRUB_CMDLINE_LINUX_DEFAULT=rhgb\n"
    plan = boot_arguments.plan(["iommu=pt"], {OLD: ENTRY.format("ro"), boot_arguments.DEFAULTS: text}, [])
    found = after(plan)[boot_arguments.DEFAULTS]
    assert found == text.replace(before, expected)
    assert boot_arguments.plan(["iommu=pt"], after(plan), ["iommu=pt"]).steps == ()


def test_what_is_there_is_no_change():
    given = after(boot_arguments.plan(["iommu=pt"], texts(), []))
    assert boot_arguments.plan(["iommu=pt"], given, ["iommu=pt"]).steps == ()
    assert boot_arguments.plan([], texts(), []).steps == ()


@pytest.mark.parametrize(
    ("missing", "path"),
    [("old", OLD), ("later", boot_arguments.CMDLINE), ("defaults", boot_arguments.DEFAULTS)],
)
def test_a_kernel_that_has_lost_it_is_given_it_again(missing, path):
    given = {"old": "ro iommu=pt", "new": "ro iommu=pt", "later": "ro iommu=pt", "defaults": "iommu=pt"}
    plan = boot_arguments.plan(["iommu=pt"], texts(**{**given, missing: "ro"}), ["iommu=pt"])
    assert (list(after(plan)), plan.add) == ([path], ("iommu=pt",))


def test_another_value_of_gpulabs_own_takes_the_place_of_the_former():
    given = after(boot_arguments.plan(["iommu=on"], texts(), []))
    plan = boot_arguments.plan(["iommu=pt"], given, ["iommu=on"])
    assert boot_arguments.arguments(OLD, after(plan)[OLD]) == ["root=/dev/sda1", "ro", "iommu=pt"]
    assert (plan.add, plan.remove, plan.own) == (("iommu=pt",), ("iommu=on",), ("iommu=pt",))


def test_what_every_kernel_had_before_is_not_gpulabs():
    plan = boot_arguments.plan(["iommu=pt"], texts(old="ro iommu=pt", new="ro iommu=pt"), [])
    assert (plan.steps, plan.own) == ((), ())


@pytest.mark.parametrize(
    "others",
    [{"old": "ro iommu=nopt"}, {"new": "ro iommu=pt"}, {"later": "ro iommu=nopt"}, {"defaults": "iommu"}],
    ids=["another value", "one kernel only", "later kernels", "no value"],
)
def test_what_somebody_else_set_otherwise_is_refused(others):
    with pytest.raises(Refusal, match="H173"):
        boot_arguments.plan(["iommu=pt"], texts(**others), [])


def test_a_longer_name_is_another_argument():
    given = texts("ro intel_iommu=pt", "ro intel_iommu=pt")
    plan = boot_arguments.plan(["iommu=pt"], given, [])
    assert boot_arguments.arguments(OLD, after(plan)[OLD]) == ["ro", "intel_iommu=pt", "iommu=pt"]
    assert after(boot_arguments.plan([], {**given, **after(plan)}, ["iommu=pt"]))[OLD] == given[OLD]


def test_a_file_without_the_line_stays():
    given = {OLD: ENTRY.format("ro"), boot_arguments.DEFAULTS: "GRUB_TIMEOUT=5\n"}
    assert list(after(boot_arguments.plan(["iommu=pt"], given, []))) == [OLD]
