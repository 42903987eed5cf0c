"""A rate that falls is told after so many proofs, with what may have caused it first; a healthy one is not."""

import random

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.checks.remedies import REMEDIES
from ansible_collections.gpulab.node.plugins.plugin_utils.history.promise import promise
from ansible_collections.gpulab.node.plugins.plugin_utils.history.series import learning

from unit.history import years
from unit.history.labs import Lab

YEAR = 365


def gauss(seed, sigma=0.01):
    draw = random.Random(seed).gauss  # noqa: S311  a simulation
    return lambda usual=3000.0: round(usual * draw(1, sigma), 2)


def nights(lab, number, hosts):
    """Prove so many nights; return the first told with the number of its proof, and the last told."""
    first, last = None, []
    for night in range(number):
        last = lab.proof(hosts(night))
        if last and first is None:
            first = night + 1, last
    return first, last


def summaries(told):
    return [trend["summary"] for _host, trend in told]


def indexes(told):
    return [(host, (trend["gpu"] or {}).get("index")) for host, trend in told]


@pytest.mark.parametrize("sigma", [0.003, 0.02, 0.05])
def test_healthy_years_stay_under_the_promise(sigma):
    assert years.alarms(2, 200, sigma, seed=1) <= 200
    assert years.alarms(100, 4, sigma, seed=2) <= 4


@pytest.mark.slow
def test_ten_thousand_healthy_years_stay_under_the_promise():
    # noise of 5 %, of which the least effect takes nothing away: the height alone keeps the promise
    assert 0 < years.alarms(2, 10_000, 0.05, seed=3) <= 10_000 / 2


@pytest.mark.slow
def test_fifty_years_of_a_large_fleet_stay_under_the_promise():
    assert 0 < years.alarms(400, 50, 0.05, seed=3) <= 50


@pytest.mark.slow
def test_fewer_false_alarms_are_promised_and_kept():
    assert years.alarms(2, 3_000, 0.05, seed=4, false_alarms=0.2) <= 3_000 * 0.1


def test_a_larger_fleet_and_a_stricter_promise_need_more():
    heights = [promise(rates, 20, 3, 1).height for rates in (1, 40, 400, 8000)]
    assert heights == sorted(set(heights))
    assert promise(40, 20, 3, 0.1).height > promise(40, 20, 3, 1).height > promise(40, 50, 3, 1).height
    assert promise(8000, 20, 3, 1).repeats(8) > promise(8, 20, 3, 1).repeats(8) >= 2


@pytest.mark.parametrize(
    ("rates", "step", "most"), [(40, 0.05, 12), (40, 0.10, 4), (8000, 0.05, 25), (8000, 0.10, 5), (8000, 0.2, 4)]
)
def test_a_step_is_told_after_few_proofs(rates, step, most):
    value = gauss(5)
    told = years.told_after([value() for _ in range(20)] + [value(3000 * (1 - step)) for _ in range(YEAR)], rates)
    assert 2 <= told <= most


def test_one_per_cent_a_month_is_told_before_it_is_five():
    value = gauss(6)
    told = years.told_after([value(3000 * (1 - max(0, n - 20) / 3000)) for n in range(YEAR)], 8000)
    assert 60 < told < 150


def test_what_lies_less_than_the_effect_below_is_not_told():
    value = gauss(7)
    assert years.told_after([value() for _ in range(20)] + [value(2950) for _ in range(YEAR)], 40) is None


@pytest.mark.parametrize("accident", [1500.0, 1.0, 6000.0])
def test_one_slow_proof_is_not_told_nor_is_it_learnt(accident):
    value = gauss(8)
    learnt = [value() for _ in range(20)]
    assert years.told_after([*learnt, accident, *(value() for _ in range(YEAR))], 40) is None
    assert 2 <= years.told_after([*learnt[:19], accident, *(value(2700) for _ in range(10))], 40) <= 6


def test_slow_proofs_with_good_ones_between_are_not_told():
    value = gauss(26)
    alternating = [value(2000) if number % 2 else value() for number in range(100)]
    assert years.told_after([*(value() for _ in range(20)), *alternating], 40) is None


def test_one_slow_proof_among_noisy_ones_leaves_no_mark():
    found = 0
    for seed in range(40):
        value = gauss(seed, 0.03)
        found += years.told_after([*(value() for _ in range(20)), 1.0, *(value() for _ in range(20))], 40) is not None
    assert found <= 1


def test_a_long_dip_that_was_not_told_is_forgotten_when_it_is_over():
    lab, value = Lab(), gauss(27, 0.001)
    nights(lab, 20, lambda _n: {"a": [value()]})
    assert nights(lab, 300, lambda _n: {"a": [value(2925)]})[0] is None
    series = lab.states["a"]["series"]["a-0"]["rates"]["memory_gbs"]
    assert series["fallen"] > 3
    nights(lab, 20, lambda _n: {"a": [value()]})
    assert series["fallen"] == 0


def test_a_slow_gpu_is_named_until_it_is_mended_for_two_proofs():
    lab, value = Lab(), gauss(9)
    assert nights(lab, 20, lambda _n: {"a": [value() for _ in range(3)]})[0] is None
    (after, told), _last = nights(lab, 12, lambda _n: {"a": [value(), value(2700), value()]})
    assert after <= 6
    assert indexes(told) == [("a", 1)]
    (said,) = summaries(told)
    assert said.startswith("unexplained, repeat alone: memory 2")
    assert "below the 3" in said
    assert "(from 2026-01-01), since 2026-01-2" in said
    assert told[0][1]["remediation"] == "repeat_proof"
    mended = [len(lab.proof({"a": [value(), 3000, value()]})) for _ in range(3)]
    assert mended == [1, 0, 0]


def test_a_quick_proof_goes_on_to_tell_and_learns_nothing():
    lab, value = Lab(), gauss(10)
    nights(lab, 20, lambda _n: {"a": [value(), value(), value()]})
    _first, told = nights(lab, 8, lambda _n: {"a": [value(), value(2700), value()]})
    assert lab.proof({"a": [{}, {}, {}]}) == told
    learns = Lab()
    nights(learns, 7, lambda _n: {"a": [value()]})
    nights(learns, 9, lambda _n: {"a": [{}]})
    assert learning(learns.states["a"], 20) == "learning, 7 of 20"
    nights(learns, 13, lambda _n: {"a": [value()]})
    assert learning(learns.states["a"], 20) is None


@pytest.mark.parametrize("event", [{"vbios": "97"}, {"serial": "b"}, {"power_limit_watts": 500}, {"uuid": "b"}])
def test_a_board_that_is_another_now_has_a_baseline_of_its_own(event):
    lab, value = Lab(), gauss(11)
    nights(lab, 25, lambda _n: {"a": [value()]})
    changed = {"a": [{"rates": {"memory_gbs": 2000.0}, **event}]}
    assert nights(lab, 7, lambda _n: changed)[0] is None
    assert learning(lab.states["a"], 20) == "learning, 7 of 20"


def test_another_driver_renews_the_baseline_and_time_does_not():
    lab, value = Lab(), gauss(12)
    nights(lab, YEAR, lambda _n: {"a": [value()]})
    assert lab.states["a"]["series"]["a-0"]["rates"]["memory_gbs"]["since"] == "2026-01-01T03:00:00Z"
    lab.proof({"a": ([value()], {"driver": "590.1"})})
    assert learning(lab.states["a"], 20) == "learning, 1 of 20"


def test_what_may_have_caused_it_comes_first():
    lab, value = Lab(), gauss(13)
    nights(lab, 20, lambda _n: {"a": [value()]})

    def slow(**more):
        _first, told = nights(lab, 8, lambda _n: {"a": ([{"rates": {"memory_gbs": 2700.0}, **more}], {})})
        return summaries(told)[0]

    assert slow(temperature_celsius=47).startswith("12 °C warmer: memory")
    assert slow(pcie="gen 1 of 5, x8").startswith("8 PCIe lanes, once 16: memory")
    assert slow(remapped_rows=2).startswith("2 more replaced rows of memory: memory")
    finding = {"id": "clock-events", "severity": "warn", "summary": "SW thermal slows it", "gpu": {"uuid": "a-0"}}
    said = lab.proof({"a": ([2700.0], {"findings": [finding]})})
    assert summaries(said)[0].startswith("SW thermal slows it: memory 2700 GB/s")
    assert said[0][1]["remediation"] in REMEDIES
    other = {**finding, "gpu": {"uuid": "a-7"}}
    assert summaries(lab.proof({"a": ([2700.0], {"findings": [other]})}))[0].startswith("unexplained")


def test_a_room_that_warms_by_the_season_is_no_finding_or_one_for_all():
    def told(depth, lab, value):
        def hosts(night):
            share = depth * (night % 60) / 60  # a sawtooth of two months
            gpu = [
                {"rates": {"memory_gbs": value(3000 * (1 - share))}, "temperature_celsius": round(35 + 300 * share)}
                for _ in range(4)
            ]
            return dict.fromkeys("abcd", gpu)

        nights(lab, 20, lambda _n: {host: [value() for _ in range(4)] for host in "abcd"})
        return [summaries(lab.proof(hosts(night))) for night in range(180)]

    assert not any(told(0.02, Lab(), gauss(14)))
    said = told(0.08, Lab(), gauss(15))
    assert max(len(one) for one in said if any("at once" in text for text in one)) >= 1
    deepest = said[59]
    assert len(deepest) == 1
    assert "on 16 of 16 NVIDIA H100 at once" in deepest[0]


def test_a_driver_or_room_that_slows_all_is_one_finding_with_the_hosts():
    lab, value = Lab(), gauss(16)
    nights(lab, 20, lambda _n: {f"n{h}": [value() for _ in range(4)] for h in range(5)})
    _first, told = nights(lab, 30, lambda _n: {f"n{h}": [value(2700) for _ in range(4)] for h in range(5)})
    assert [host for host, _trend in told] == ["n0, n1, n2 and 2 more"]
    assert "memory 10% lower on 20 of 20 NVIDIA H100 at once" in summaries(told)[0]


def test_three_of_eight_are_named_by_the_gpus_of_all_nodes():
    value = gauss(17)

    def slow():
        return [value(2700) for _ in range(3)] + [value() for _ in range(5)]

    first, told = nights(Lab(), 10, lambda _n: {"a": slow(), **{h: [value() for _ in range(8)] for h in "bcd"}})
    assert first[0] <= 6
    assert indexes(told) == [("a", 0), ("a", 1), ("a", 2)]
    assert "of its 31 siblings in" in summaries(told)[0]


def test_three_of_eight_that_fall_where_there_are_no_others_are_one_finding():
    lab, value = Lab(), gauss(17)
    nights(lab, 20, lambda _n: {"a": [value() for _ in range(8)]})
    _first, told = nights(lab, 10, lambda _n: {"a": [value(2700) for _ in range(3)] + [value() for _ in range(5)]})
    assert indexes(told) == [("a", None)]
    assert "memory 10% lower on 3 of 8 NVIDIA H100 at once" in summaries(told)[0]


def test_one_of_eight_is_named_by_its_node_before_anything_is_learnt():
    lab, value = Lab(), gauss(18)
    first, told = nights(lab, 10, lambda _n: {"a": [value(2700), *(value() for _ in range(7))]})
    assert first[0] == promise(8, 20, 3, 1).repeats(8) >= 3
    assert indexes(told) == [("a", 0)]
    assert learning(lab.states["a"], 20) == "learning, 10 of 20"


def test_siblings_that_differ_by_less_than_the_effect_are_alike():
    value = gauss(19, 0.0001)
    assert nights(Lab(), 30, lambda _n: {"a": [value(2880), *(value() for _ in range(7))]})[0] is None


@pytest.mark.parametrize(("sigma", "number"), [(0.01, 8), (0.05, 8), (0.05, 3)])
def test_healthy_siblings_stay_under_the_promise(sigma, number):
    lab, value, onsets, before = Lab(), gauss(20, sigma), 0, []
    lab.memory.promised = lambda _state: promise(number, 10**6, 3, 1)  # none learns: siblings alone judge
    lab.memory.keep = lambda _host, _state: None
    for _night in range(10 * YEAR):
        told = indexes(lab.proof({"a": [value() for _ in range(number)]}))
        onsets, before = onsets + len(set(told) - set(before)), told
    assert onsets <= 10 / 2


def test_of_two_nobody_can_say_which():
    lab, value = Lab(), gauss(21)
    nights(lab, 20, lambda _n: {"a": [value(2700), value()]})
    _first, told = nights(lab, 6, lambda _n: {"a": [value(2700), value()]})
    assert indexes(told) == [("a", None)]
    assert "apart from the other NVIDIA H100: one of both" in summaries(told)[0]
    floor = {"id": "memory-bandwidth", "severity": "fail", "summary": "below its floor", "gpu": {"uuid": "a-0"}}
    assert lab.proof({"a": ([2700.0, 3000.0], {"findings": [floor]})}) == []  # the catalog says


def test_of_two_its_own_history_says_which():
    lab, value = Lab(), gauss(22)
    nights(lab, 20, lambda _n: {"a": [value(), value()]})
    _first, told = nights(lab, 10, lambda _n: {"a": [value(2700), value()]})
    assert indexes(told) == [("a", 0)]


def test_simulated_and_unreached_hosts_are_not_followed():
    lab, value = Lab(), gauss(23)
    nights(lab, 5, lambda _n: {"a": ([value()], {"simulated": "yes"}), "b": ([value()], {"state": "unreachable"})})
    assert [state["series"] for state in lab.states.values()] == [{}, {}]


def test_rates_of_the_node_are_followed_too():
    lab, value = Lab(), gauss(24)
    nights(lab, 20, lambda _n: {"a": ([{}], {"rates": {"all_reduce_gbs": value(400)}})})
    _first, told = nights(lab, 8, lambda _n: {"a": ([{}], {"rates": {"all_reduce_gbs": value(340)}})})
    assert indexes(told) == [("a", None)]
    assert "all_reduce 3" in summaries(told)[0]


@pytest.mark.parametrize("rate", [float("nan"), float("inf"), 0.0, -1.0, 1e300, "fast", None])
def test_a_node_that_says_what_is_no_rate_spoils_nothing(rate):
    lab, value = Lab(), gauss(25)
    mad = {"rates": {"memory_gbs": rate}}
    nights(
        lab, 25, lambda _n: {"a": [mad, mad], "b": ([value(), value(), value()], {"rates": {"all_reduce_gbs": rate}})}
    )
    _first, told = nights(lab, 10, lambda _n: {"a": [mad, mad], "b": [value(2700), value(), value()]})
    assert indexes(told) == [("b", 0)]
    assert lab.states["a"]["series"] == {}


def test_a_few_of_many_that_fall_are_each_named():
    lab, value = Lab(), gauss(28)
    nights(lab, 20, lambda _n: {host: [value() for _ in range(4)] for host in "abcd"})
    slow = {"a": [2700.0, 2700.0, 3000.0, 3000.0]}
    _first, told = nights(lab, 10, lambda _n: {host: slow.get(host, [value() for _ in range(4)]) for host in "abcd"})
    assert indexes(told) == [("a", 0), ("a", 1)]
