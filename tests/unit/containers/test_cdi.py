"""A CDI specification is made again when it does not fit the driver that runs, and only then."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.containers import cdi


def specification(path="/var/run/cdi/nvidia.yaml", library="580.178.04", missing=(), kind="nvidia.com/gpu"):
    return {"path": path, "kind": kind, "library": library, "missing": list(missing)}


OLD_BY_HAND = specification("/etc/cdi/nvidia.yaml", "535.261.03")
CASES = {
    "fresh": ([specification()], "580.178.04", ""),
    "none": ([], "580.178.04", "none exists"),
    "no driver runs": ([], None, ""),
    "another driver": ([specification()], "595.91.07", "is made for driver 580.178.04, but 595.91.07 runs"),
    "files are gone": ([specification(missing=["/usr/bin/nvidia-smi"])], "580.178.04", "/usr/bin/nvidia-smi"),
    "names no library": ([specification(library=None)], "580.178.04", ""),
    "of another kind": ([specification(kind="nvidia.com/gds")], "580.178.04", "none exists"),
    "an old one by hand, a fresh one wins": ([OLD_BY_HAND, specification()], "580.178.04", ""),
    "a fresh one by hand, an old one wins": (
        [specification("/etc/cdi/nvidia.yaml"), specification(library="535.261.03")],
        "580.178.04",
        "/var/run/cdi/nvidia.yaml is made for driver 535.261.03",
    ),
    "a fresh one by hand only": ([specification("/etc/cdi/nvidia.yaml")], "580.178.04", ""),
    "an old one by hand, with a device more": ([{**OLD_BY_HAND, "devices": ["9"]}, specification()], "580.178.04", ""),
    "two, one of them old": (
        [specification(), specification("/var/run/cdi/b.yaml", "535.261.03")],
        "580.178.04",
        "/var/run/cdi/b.yaml",
    ),
    "an old one by hand only": ([OLD_BY_HAND], "580.178.04", "/etc/cdi/nvidia.yaml is made for driver 535.261.03"),
}


@pytest.mark.parametrize(("specifications", "driver", "why"), CASES.values(), ids=CASES)
def test_why_a_new_one_is_needed(specifications, driver, why):
    found = cdi.why_stale(specifications, driver)
    assert (why in found) if why else found == ""


def test_what_was_made_by_hand_is_never_taken_away():
    other = specification("/run/cdi/vendor.yaml", kind="nvidia.com/gds")
    assert cdi.generated([OLD_BY_HAND, specification(), other]) == ["/var/run/cdi/nvidia.yaml"]
