"""profiles.yml and xids.yml are complete, and speak the checks' language."""

from pathlib import Path

import pytest
import yaml
from ansible_collections.gpulab.node.plugins.module_utils.checks.model import SEVERITIES
from ansible_collections.gpulab.node.plugins.module_utils.checks.remedies import REMEDIES
from ansible_collections.gpulab.node.plugins.module_utils.checks.runner import checks
from ansible_collections.gpulab.node.plugins.module_utils.driver import known_errors
from ansible_collections.gpulab.node.plugins.plugin_utils import catalog

CATALOG = Path(__file__).parents[3] / "catalog"
KNOWN = catalog.load()
FIGURES = KNOWN.read("profiles")["profiles"]
EXPECTED = {"pcie_width", "nvlink_links", "limits", "floors"}
RATES = {"memory_gbs", "bf16_tflops", "fp16_tflops", "all_reduce_gbs", "peer_gbs"}


def read(name):
    return yaml.safe_load((CATALOG / name).read_text(encoding="utf-8"))


def test_every_board_has_figures_once_at_most_and_is_known():
    devices = [device for figures in FIGURES for device in figures["devices"]]
    assert len(devices) == len(set(devices))
    assert set(devices) <= set(KNOWN.gpus)


@pytest.mark.parametrize("profile", list(KNOWN.profiles.values()), ids=list(KNOWN.profiles))
def test_profile_names_what_checks_know(profile):
    known = {check.requires for check in checks() if check.requires} | {"nvlink", "fabric_state"}
    assert set(profile["capabilities"]) <= known
    assert "nvlink_links" not in profile or "nvlink" in profile["capabilities"]
    spare = {"remapped_rows", "retired_pages"}
    assert ("ecc" in profile["capabilities"]) == bool(spare & set(profile["capabilities"]))


@pytest.mark.parametrize("figures", FIGURES, ids=lambda figures: figures["devices"][0])
def test_floors_are_loose_and_below_what_the_board_can_do(figures):
    assert set(figures) - {"devices", "source"} <= EXPECTED
    assert set(figures["source"]) <= set(read("profiles.yml")["sources"])
    limits, floors = figures.get("limits", {}), figures.get("floors", {})
    assert set(limits) | set(floors) <= RATES
    for key in set(limits) & set(floors):
        assert 0.35 < floors[key] / limits[key] < 0.75


@pytest.mark.parametrize("number", known_errors.XIDS)
def test_xid_has_a_known_severity_and_remedy(number):
    severity, remedy, meaning = known_errors.XIDS[number]
    assert severity in SEVERITIES
    assert remedy in REMEDIES
    assert meaning


def test_xids_follow_nvidias_action_unless_a_note_says_why():
    known = read("xids.yml")
    for record in known["xids"]:
        assert record["action"] in known["actions"]
        assert ("severity" in record) == ("remedy" in record) == ("note" in record), record


def test_every_number_of_nvidias_header_is_listed_once():
    known = read("xids.yml")
    assert [record["xid"] for record in known["xids"]] == list(range(1, known["newest"] + 1))


@pytest.mark.parametrize("kind", known_errors.LINES)
def test_line_is_complete(kind):
    line = known_errors.LINES[kind]
    assert line["speaker"] in known_errors.SPEAKERS
    if "ends" in line:
        assert line["ends"] in known_errors.LINES
    else:
        assert line["severity"] in SEVERITIES
        assert line["remedy"] in REMEDIES
        assert line["meaning"]


def test_lines_have_a_source():
    known = read("kernel_lines.yml")
    for line in known["lines"]:
        assert set(line["source"]) <= set(known["sources"])
