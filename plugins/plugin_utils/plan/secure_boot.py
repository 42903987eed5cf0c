# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the firmware will let the driver's modules load, and what is to be done where it will not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.driver import mok
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.case import Case
    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.model import Driver, SecureBoot

WISH = "secure_boot_mok_password"
ENROL = (
    "Secure Boot is on, and the key that DKMS signs with is not enrolled: its enrolment is prepared, and the run then"
    " stops for the console, before nouveau and driver."
)


def is_on(case: Case) -> bool:
    """Tell whether the node's own kernel loads signed modules only."""
    return case.facts["system"]["secure_boot"] == "enabled" and not case.container


def plan(case: Case, driver: Driver) -> SecureBoot:
    """Return {enrol, because}: whether the enrolment of DKMS's key is to be prepared.

    Raises Refusal where the firmware does not accept that key and nobody requested its enrolment, or it waits already.
    """
    signed_by_dkms = driver["dkms_module"] is not None
    if not is_on(case) or not signed_by_dkms or case.wishes["nvidia_driver_state"] == "absent":
        return {"enrol": False, "because": ["Secure Boot needs no DKMS key here."]}
    system, password = case.facts["system"], case.wishes[WISH]
    if system["mok_pending"]:
        raise refuse("P047", waits="waits", first="")
    if system["mok_enrolled"] is None:
        unread = "Secure Boot is on. Whether the DKMS key is enrolled could not be read."
        case.warnings.append(unread)
        return {"enrol": False, "because": [unread]}
    if system["mok_enrolled"]:
        return {"enrol": False, "because": ["Secure Boot is on, and the DKMS signing key is enrolled."]}
    if password is None:
        distribution = case.platform["driver_sources"].get("distribution", {"package_sets": [{}]})
        signs = "signed_package" in distribution["package_sets"][0] and driver["source"] != "distribution"
        way = "; or use modules signed by the distribution: nvidia_driver_source: distribution" if signs else ""
        raise refuse("P018", way=way)
    if not mok.typeable(password):
        raise refuse("P046", variable=WISH)
    return {"enrol": True, "because": [ENROL]}
