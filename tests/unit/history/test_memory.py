"""What is remembered between proofs follows the host's lines, and is never more than they say."""

import json

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.plugin_utils.history import files
from ansible_collections.gpulab.node.plugins.plugin_utils.history.memory import LEAST, Memory, Settings
from ansible_collections.gpulab.node.plugins.plugin_utils.history.promise import promise

from unit.history.labs import line

RATES = [3000.0, 3010.0, 2990.0]


def prove(directory, night, hosts=("a",), *, record=True, remember=True):
    """Prove hosts as the report does; return what is remembered of each."""
    memory = Memory(directory, Settings())
    lines = {host: line(night, host, RATES) for host in hosts}
    proven = memory.proven(lines.values())
    states = {host: proven.follow(host, last, files.read(directory, host)) for host, last in lines.items()}
    if record:
        files.append(directory, lines)
    if remember:
        memory.write()
    return states


def learnt(state):
    return len(state["series"]["a-0"]["rates"]["memory_gbs"]["learnt"])


def test_each_proof_is_learnt_once(tmp_path):
    for night in range(3):
        assert learnt(prove(tmp_path, night)["a"]) == night + 1
    lines = files.read(tmp_path, "a")
    assert learnt(Memory(tmp_path, Settings()).before("a", lines)) == 3


def test_what_is_lost_is_learnt_from_the_lines_again(tmp_path):
    for night in range(4):
        kept = prove(tmp_path, night)["a"]
    for text in (None, "", "{", '{"schema": 99}', "[]"):
        (tmp_path / "a.json").unlink()
        if text is not None:
            (tmp_path / "a.json").write_text(text, encoding="utf-8")
        assert Memory(tmp_path, Settings()).before("a", []) == kept
        (tmp_path / "a.json").write_text(text or "", encoding="utf-8")


def test_a_history_without_memory_is_read_whole_and_not_only_its_end(tmp_path):
    for night in range(30):
        files.append(tmp_path, {"a": line(night, "a", RATES)})
    assert learnt(prove(tmp_path, 30)["a"]) == 0  # the baseline is whole
    state = Memory(tmp_path, Settings()).before("a", [])
    assert state["series"]["a-0"]["rates"]["memory_gbs"]["usual"] == pytest.approx(3000)


def test_a_proof_whose_memory_was_not_written_is_caught_up(tmp_path):
    prove(tmp_path, 0)
    prove(tmp_path, 1, remember=False)
    assert learnt(prove(tmp_path, 2)["a"]) == 3


def test_a_proof_from_a_time_to_come_is_learnt_once(tmp_path):
    prove(tmp_path, 900)
    for night in range(1, 4):
        last = prove(tmp_path, night)["a"]
    assert learnt(last) == 4


def test_what_is_not_recorded_is_not_remembered(tmp_path):
    prove(tmp_path, 0)
    before = (tmp_path / "a.json").read_bytes()
    prove(tmp_path, 1, record=False, remember=False)
    assert (tmp_path / "a.json").read_bytes() == before
    assert learnt(prove(tmp_path, 2)["a"]) == 2


def test_the_promise_counts_the_hosts_that_are_not_in_this_run(tmp_path):
    prove(tmp_path, 0, hosts=[f"n{n}" for n in range(50)])
    one = prove(tmp_path, 1, hosts=["n7"])["n7"]
    assert one["fleet"] == 50 * len(RATES)
    assert Memory(tmp_path, Settings()).promised(one) == promise(150, 20, 3, 1)


def test_a_quick_proof_makes_the_fleet_no_smaller(tmp_path):
    prove(tmp_path, 0)
    memory = Memory(tmp_path, Settings())
    last = line(1, "a", [{}, {}, {}])
    assert memory.proven([last]).follow("a", last, [])["fleet"] == len(RATES)


def test_settings_by_which_nothing_could_be_judged_are_not_taken():
    assert Settings.of({"trend_baseline_proofs": 0, "trend_effect_percent": -1.0, "trend_false_alarms": 0.0}) == LEAST
    assert Settings.of({"history": None}) == Settings()
    assert Settings.of({"trend_false_alarms": 4.0}).false_alarms == 4


def test_memory_is_small_and_that_of_replaced_boards_goes(tmp_path):
    for night in range(100):
        memory = Memory(tmp_path, Settings())
        last = line(night, "a", [{"uuid": f"{night}-{n}", "rates": {"memory_gbs": 3000.0}} for n in range(8)])
        memory.proven([last]).follow("a", last, [])
        memory.write()
    assert len(json.loads((tmp_path / "a.json").read_text())["series"]) <= 64
    assert (tmp_path / "a.json").stat().st_size < 30_000


def test_memory_that_cannot_be_read_or_written_is_refused(tmp_path):
    (tmp_path / "a.json").mkdir()
    with pytest.raises(Refusal, match="V003"):
        Memory(tmp_path, Settings()).before("a", [])
    memory = Memory(tmp_path / "file", Settings())
    (tmp_path / "file").write_text("")
    with pytest.raises(Refusal, match="V003"):
        memory.write()
