"""How far a rebuild came, as the controller keeps it."""

import json

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.plugin_utils.capture import rebuild_state as states
from ansible_collections.gpulab.node.plugins.plugin_utils.capture.rebuild_state import State

CAPTURE = "20261126T021500Z"
GONE = {"section": "packages", "name": "old-tool", "why": "no source has it"}


def at(name, capture=CAPTURE, plan="0123456789abcdef"):
    return State("node07", capture, plan, name)


def test_a_host_that_was_never_reinstalled_has_no_state(tmp_path):
    assert states.read(tmp_path) is None


def test_what_was_written_is_read_again_and_only_by_its_owner(tmp_path):
    written = states.advance(tmp_path / "node07", at("installing"))
    assert states.read(tmp_path / "node07") == written
    assert (tmp_path / "node07" / states.FILE).stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "node07").stat().st_mode & 0o777 == 0o700


def test_the_order_tells_what_was_reached(tmp_path):
    reached = states.advance(tmp_path, at("storage"))
    assert [name for name in states.STATES if reached.reached(name)] == [
        *("confirmed", "installing", "reachable", "identity", "storage"),
    ]


def test_missing_stays_until_its_section_is_looked_at_again(tmp_path):
    states.advance(tmp_path, at("software"), [GONE])
    assert states.advance(tmp_path, at("jobs")).missing == (GONE,)
    other = {**GONE, "name": "other-tool"}
    assert states.advance(tmp_path, at("software"), [other]).missing == (other,)
    assert states.advance(tmp_path, at("software"), sections=["packages"]).missing == ()


@pytest.mark.parametrize("other", [{"capture": "20261127T021500Z"}, {"plan": None}])
def test_another_rebuild_begins_with_nothing_missing(tmp_path, other):
    states.advance(tmp_path, at("software"), [GONE])
    assert states.advance(tmp_path, at("confirmed", **other)).missing == ()


def test_a_run_that_changes_nothing_writes_nothing(tmp_path):
    states.advance(tmp_path, at("proven"), [GONE])
    before = (tmp_path / states.FILE).stat()
    states.advance(tmp_path, at("proven"), [GONE])
    assert (tmp_path / states.FILE).stat().st_mtime_ns == before.st_mtime_ns


def test_a_damaged_state_is_refused(tmp_path):
    (tmp_path / states.FILE).write_text("{")
    with pytest.raises(Refusal) as refused:
        states.read(tmp_path)
    assert refused.value.code.endswith("H220")


def test_a_later_version_of_gpulab_begins_at_the_first_step(tmp_path):
    states.advance(tmp_path, at("jobs"))
    document = json.loads((tmp_path / states.FILE).read_text())
    (tmp_path / states.FILE).write_text(json.dumps({**document, "state": "unknown"}))
    assert states.read(tmp_path) is None
