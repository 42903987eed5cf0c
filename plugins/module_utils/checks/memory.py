# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of GPU memory: ECC on, no uncorrected errors, and spare rows or pages left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.checks import gpu_settings
from ansible_collections.gpulab.node.plugins.module_utils.checks.model import check, fail, inapplicable, info, ok, warn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.checks.model import Facts, Node, Result

ERROR_GUIDE = "https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/"
RETIREMENT_GUIDE = "https://docs.nvidia.com/deploy/dynamic-page-retirement/"

# More aggregate SRAM errors than this usually end in a replacement (stas00/ml-engineering, accelerator debug notes).
SRAM_ERRORS = 4
# Azure's health checks call a GPU faulty at this many corrected errors since the driver was loaded.
CORRECTED_ERRORS = 20_000_000
UNWANTED = "the inventory turns ECC off"
# As many as DCGM accepts (DCGM_LIMIT_MAX_ROW_REMAP_UNCORRECTABLE).
REMAPPED_ROWS = 512
# DCGM: DCGM_LIMIT_MAX_RETIRED_PAGES less the margin in which NVIDIA replaces a board; and its soft limit.
RETIRED_PAGES, DOUBLE_BIT_PAGES = 60, 15


@check(
    "ecc-enabled",
    proves="memory errors are corrected and counted",
    source=ERROR_GUIDE,
    per_gpu=True,
    requires="ecc",
)
def ecc_enabled(node: Node, gpu: Facts) -> Iterator[Result]:
    """Expect ECC on where the board's default is on; where it does not tell, where its profile or a sibling has."""
    enabled, pending = gpu["ecc.mode.enabled"], gpu["ecc.mode.pending"]
    required = "ecc" in node.profile(gpu).get("capabilities", ())
    if enabled != pending:
        yield warn(
            f"ECC turns {'on' if pending else 'off'} at the next reboot", "reboot", observed=enabled, expected=pending
        )
    elif enabled:
        yield ok("ECC is on", enabled)
    elif _unwanted(node, gpu):
        yield inapplicable(UNWANTED)
    elif gpu.get("ecc.default", required or _on_beside(node, gpu)):
        finding = fail if required else warn
        yield finding("ECC is off", "configure", observed=False, expected=True, reason="nvidia-smi -e 1, then reboot")
    else:
        yield ok(f"ECC is off{', as by the default of this board' if gpu.get('ecc.default') is False else ''}", enabled)


def _on_beside(node: Node, gpu: Facts) -> bool:
    """Tell whether ECC is on on another board of the same model."""
    return any(one.get("ecc.mode.enabled") for one in node.gpus if one.get("device") == gpu.get("device"))


def _unwanted(node: Node, gpu: Facts) -> bool:
    """Tell whether ECC is off because the inventory says so; then NVML has no counters of its errors."""
    return gpu_settings.planned(node, gpu).get("ecc") is False and gpu.get("ecc.mode.enabled") is False


@check(
    "ecc-uncorrected",
    proves="no uncorrected memory error has occurred since the driver was loaded",
    source=ERROR_GUIDE,
    per_gpu=True,
    also_requires=("ecc", "ecc-enabled"),
)
def ecc_uncorrected(node: Node, gpu: Facts) -> Iterator[Result]:
    """Look at the volatile counter, then at those over the board's life: of SRAM alone they wear the board out.

    With MIG on, NVML reports volatile counters only of instances (nvmlDeviceGetTotalEccErrors).
    """
    if _unwanted(node, gpu):
        yield inapplicable(UNWANTED)
        return
    cut = bool(gpu.get("mig.enabled")) and gpu.get("ecc.aggregate.uncorrected") is not None
    errors = gpu.get("ecc.volatile.uncorrected", 0) if cut else gpu["ecc.volatile.uncorrected"]
    ever = gpu.get("ecc.aggregate.uncorrected", 0)
    lifetime = gpu.get("ecc.aggregate.sram_uncorrected", 0)
    if errors:
        yield fail(f"{errors} uncorrected memory errors", "reset_gpu", observed=errors, expected=0, unit="errors")
    if lifetime > SRAM_ERRORS:
        yield warn(
            f"{lifetime} uncorrected SRAM errors over the board's life",
            "contact_support",
            observed=lifetime,
            expected=SRAM_ERRORS,
            unit="errors",
        )
    elif ever and not errors:
        yield info(
            f"{ever} uncorrected memory errors over the board's life"
            + ("" if cut else ", none since the driver was loaded"),
            observed=ever,
            expected=0,
            unit="errors",
        )
    elif not errors:
        yield ok("no uncorrected errors", errors)


@check(
    "ecc-corrected",
    proves="corrected memory errors are few",
    source="https://github.com/Azure/azurehpc-health-checks",
    per_gpu=True,
    also_requires=("ecc", "ecc-enabled"),
)
def ecc_corrected(node: Node, gpu: Facts) -> Iterator[Result]:
    """Warn of a board that corrects all the time."""
    if _unwanted(node, gpu):
        yield inapplicable(UNWANTED)
        return
    errors = gpu["ecc.volatile.corrected"]
    if errors > CORRECTED_ERRORS:
        yield warn(
            f"{errors} corrected memory errors since the driver was loaded",
            "contact_support",
            observed=errors,
            expected=CORRECTED_ERRORS,
            unit="errors",
        )
    else:
        yield ok(f"{errors} corrected errors", errors)


@check("sram-threshold", proves="the board's SRAM errors are below its threshold", source=ERROR_GUIDE, per_gpu=True)
def sram_threshold(_node: Node, gpu: Facts) -> Iterator[Result]:
    """Take the board's own word."""
    if gpu["ecc.sram_threshold_exceeded"]:
        yield fail("the board counts more SRAM errors than its threshold", "rma", observed=True, expected=False)
    else:
        yield ok("below the threshold", observed=False)


@check(
    "row-remapping",
    proves="bad memory rows are remapped, and spare rows are left (Ampere and later)",
    source=ERROR_GUIDE,
    per_gpu=True,
    requires="remapped_rows",
)
def row_remapping(_node: Node, gpu: Facts) -> Iterator[Result]:
    """Look at failure first, since a reset does not help then; at pending next."""
    rows = gpu["remapped_rows"]
    remapped = rows["uncorrected"]
    if rows["failure"]:
        yield fail("a bad memory row could not be remapped", "rma", observed=True, expected=False)
    elif remapped >= REMAPPED_ROWS:
        yield fail(f"{remapped} rows were remapped", "rma", observed=remapped, expected=REMAPPED_ROWS, unit="rows")
    elif rows["pending"]:
        yield fail("a memory row waits to be remapped", "reset_gpu", observed=True, expected=False)
    elif rows.get("banks.none", 0):
        banks = rows["banks.none"]
        yield warn(
            f"{banks} memory banks have no spare row left", "contact_support", observed=banks, expected=0, unit="banks"
        )
    else:
        yield ok(f"{remapped} rows remapped, none pending", remapped)


@check(
    "retired-pages",
    proves="few memory pages are retired, and none is pending (Volta, Turing)",
    source=RETIREMENT_GUIDE,
    per_gpu=True,
    requires="retired_pages",
)
def retired_pages(_node: Node, gpu: Facts) -> Iterator[Result]:
    """Count pages of both causes against what NVIDIA replaces a board for."""
    double = gpu["retired_pages.double_bit"]
    pages = double + gpu["retired_pages.single_bit"]
    if pages >= RETIRED_PAGES:
        yield fail(f"{pages} memory pages are retired", "rma", observed=pages, expected=RETIRED_PAGES, unit="pages")
    elif gpu.get("retired_pages.pending"):
        yield fail("a memory page waits to be retired", "reboot", observed=True, expected=False)
    elif double >= DOUBLE_BIT_PAGES:
        yield warn(
            f"{double} memory pages are retired for double-bit errors",
            "contact_support",
            observed=double,
            expected=DOUBLE_BIT_PAGES,
            unit="pages",
        )
    else:
        yield ok(f"{pages} pages retired", pages)
