"""MIG instances by name: what is a profile, and which of them fit on a GPU together."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.nvml import mig_profiles

from unit.checks.nodes import MIG_PROFILES as PROFILES


@pytest.mark.parametrize("name", ["3g.40gb", "1g.5gb+me", "1g.12gb+me.all", "2g.12gb-me", "1g.24gb+gfx", "7g.141gb"])
def test_a_profile_is_written_as_nvidia_smi_writes_it(name):
    assert mig_profiles.is_profile(name)


@pytest.mark.parametrize("name", ["3g", "3g.40", "MIG 3g.40gb", "1c.3g.40gb", "3g.40GB", "3g.40gb()", "all", 9, None])
def test_nothing_else_is_a_profile(name):
    assert not mig_profiles.is_profile(name)


@pytest.mark.parametrize(
    ("names", "starts"),
    [
        (["3g.20gb", "3g.20gb"], [0, 4]),
        (["1g.5gb", "3g.20gb", "4g.20gb"], None),  # eight slices of multiprocessors
        (["3g.20gb", "4g.20gb"], [0, 4]),  # the one of four slices lies at 0 only
        (["1g.5gb", "2g.10gb", "4g.20gb"], [0, 4, 6]),
        (["1g.5gb"] * 7, [0, 1, 2, 3, 4, 5, 6]),
        (["1g.5gb"] * 8, None),
        (["1g.10gb"] * 4, [0, 2, 4, 6]),
        (["1g.10gb", "3g.20gb", "3g.20gb"], None),  # nine slices of memory
        (["3g.20gb", *["1g.5gb"] * 4], [4, 0, 1, 2, 3]),  # not with the large one at 0, which leaves three places
        (["1g.5gb+me", "1g.5gb+me"], None),
        ([], []),
    ],
)
def test_instances_lie_beside_each_other_or_not_at_all(names, starts):
    layout = mig_profiles.lay_out(names, PROFILES)
    assert (layout and [instance.start for instance in layout]) == starts
    assert bool(mig_profiles.why_not(names, PROFILES)) == (starts is None)


def test_each_place_found_is_one_that_the_gpu_has_and_taken_once():
    for names in (["3g.20gb", "2g.10gb", "1g.5gb"], ["2g.10gb", "2g.10gb", "1g.10gb", "1g.5gb+me"]):
        taken = []
        for instance in mig_profiles.lay_out(names, PROFILES):
            profile = next(one for one in PROFILES if one["id"] == instance.profile)
            assert [instance.start, instance.size] in profile["placements"]
            taken += range(instance.start, instance.start + instance.size)
        assert len(taken) == len(set(taken))


def test_a_profile_that_is_not_there_is_named():
    assert mig_profiles.why_not(["3g.40gb", "1g.5gb"], PROFILES) == "it has no profile 3g.40gb"
    assert "3g.20gb (2 fit)" in mig_profiles.told(PROFILES)


@pytest.mark.parametrize(
    ("compute", "name"), [([3], "3g.20gb"), ([2, 1], "3g.20gb(1c+2c)"), ([], "3g.20gb()"), ([1], "3g.20gb(1c)")]
)
def test_the_name_tells_compute_instances_that_do_not_fill_the_instance(compute, name):
    profile = next(one for one in PROFILES if one["name"] == "3g.20gb")
    assert mig_profiles.named(profile, compute) == name
    assert mig_profiles.lay_out([name], PROFILES)[0].compute == tuple(sorted(compute))


def test_layouts_have_one_order():
    names = ["7g.40gb", "3g.20gb(1c)", "1g.10gb", "1g.5gb"]
    assert mig_profiles.in_order(reversed(names)) == names
