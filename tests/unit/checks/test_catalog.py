"""profiles.yml and xids.yml are complete, and speak the checks' language."""

from pathlib import Path

import pytest
import yaml
from ansible_collections.gpulab.node.plugins.module_utils.checks.model import REMEDIES, SEVERITIES
from ansible_collections.gpulab.node.plugins.module_utils.checks.runner import checks
from ansible_collections.gpulab.node.plugins.module_utils.driver import known_errors

CATALOG = Path(__file__).parents[3] / "catalog"
EXPECTED = {"pcie_width", "nvlink_links", "limits", "floors"}
RATES = {"memory_gbs", "bf16_tflops", "fp16_tflops", "all_reduce_gbs", "peer_gbs"}


def read(name):
    return yaml.safe_load((CATALOG / name).read_text(encoding="utf-8"))


def test_every_board_of_the_catalog_has_one_profile():
    devices = [device for profile in read("profiles.yml")["profiles"] for device in profile["devices"]]
    assert len(devices) == len(set(devices))
    assert set(devices) == {device for gpu in read("gpus.yml")["gpus"] for device in gpu["pci_ids"]}


@pytest.mark.parametrize("profile", read("profiles.yml")["profiles"], ids=lambda profile: profile["name"])
def test_profile_names_what_checks_know(profile):
    known = {check.requires for check in checks() if check.requires} | {"nvlink", "fabric_state", "mig"}
    assert set(profile["capabilities"]) <= known
    assert set(profile) - {"name", "devices", "form", "fabric", "capabilities", "source"} <= EXPECTED
    assert set(profile["source"]) <= set(read("profiles.yml")["sources"])
    assert (profile["form"] in ("pcie", "sxm", "superchip"), profile["fabric"] in ("none", "nvswitch")) == (True, True)
    assert ("nvlink" in profile["capabilities"]) == ("nvlink_links" in profile)


@pytest.mark.parametrize("profile", read("profiles.yml")["profiles"], ids=lambda profile: profile["name"])
def test_floors_are_loose_and_below_what_the_board_can_do(profile):
    limits, floors = profile.get("limits", {}), profile.get("floors", {})
    assert set(limits) | set(floors) <= RATES
    for key in set(limits) & set(floors):
        assert 0.35 < floors[key] / limits[key] < 0.75


def test_every_board_with_ecc_reports_its_spare_memory():
    for profile in read("profiles.yml")["profiles"]:
        capabilities = set(profile["capabilities"])
        assert ("ecc" in capabilities) == bool(capabilities & {"remapped_rows", "retired_pages"})


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
