# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of the board itself: whether it answers, what it asks for, and how it compares with its siblings."""

from __future__ import annotations

from collections import Counter
from statistics import median
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.checks import gpu_settings
from ansible_collections.gpulab.node.plugins.module_utils.checks.model import (
    Facts,
    Unread,
    check,
    fail,
    inapplicable,
    info,
    ok,
    unknown,
    warn,
)
from ansible_collections.gpulab.node.plugins.module_utils.facts import users
from ansible_collections.gpulab.node.plugins.module_utils.gpu_settings.plan import POWER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.checks.model import Node, Result

QUERIES = "https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceQueries.html"
LICENSING = "https://docs.nvidia.com/vgpu/latest/grid-licensing-user-guide/"
LICENCE_DAEMON, NO_VBIOS = "nvidia-gridd", "00.00.00.00.00"
# NVML's errors (nvml.h, without the prefix NVML_ERROR_) that say the GPU is broken, and what helps.
BROKEN = {
    "GPU_IS_LOST": "reboot",
    "RESET_REQUIRED": "reset_gpu",
    "CORRUPTED_INFOROM": "contact_support",
    "IRQ_ISSUE": "reboot",
    "INSUFFICIENT_POWER": "check_power",
    "TIMEOUT": "reboot",
}
# nvml.h, NVML_FI_DEV_GET_GPU_RECOVERY_ACTION: what the driver asks for, and the remedy.
RECOVERY = {
    1: ("a GPU reset", "reset_gpu"),
    2: ("a reboot", "reboot"),
    3: ("its peers to be drained", "stop_app"),
    4: ("to be drained and reset", "reset_gpu"),
    5: ("IMEX to recover", "start_imex"),
    6: ("a bus reset", "reset_gpu"),
    7: ("a reboot of the system", "reboot"),
}
# A GPU this much warmer than the median of its siblings has a problem that they have not.
WARMER_CELSIUS = 20
LIMIT, MEMORY = "power_mw.enforced_limit", "memory_mib.total"
# Reading, its name, its unit, and what helps where one GPU differs.
ALIKE = (
    ("vbios", "VBIOS", None, "contact_support"),
    (MEMORY, "memory", "MiB", "contact_support"),
    (LIMIT, "power limit", "mW", "configure"),
)
ENOUGH_SIBLINGS = 4


@check("gpu-answers", proves="the GPU answers every query of the driver", source=QUERIES, per_gpu=True)
def gpu_answers(_node: Node, gpu: Facts) -> Iterator[Result]:
    """Look for an error that means a broken GPU in any of its readings."""
    errors = sorted(set(_errors(gpu.data)) & set(BROKEN))
    for error in errors:
        yield fail(f"the GPU answers {error}", BROKEN[error], observed=error, expected="an answer")
    if not errors:
        yield ok("the GPU answers")


def _errors(data: Any) -> Iterator[str]:
    """Return the name of each error below data."""
    if isinstance(data, dict):
        if isinstance(data.get("error"), str):
            yield data["error"]
        for value in data.values():
            yield from _errors(value)
    elif isinstance(data, list):
        for value in data:
            yield from _errors(value)


@check("recovery-action", proves="the driver requests no recovery of the GPU", source=QUERIES, per_gpu=True)
def recovery_action(_node: Node, gpu: Facts) -> Iterator[Result]:
    """Take the driver's own word for what helps."""
    action = gpu["recovery_action"]
    if action:
        text, remedy = RECOVERY.get(action, (f"recovery action {action}", "contact_support"))
        yield fail(f"the GPU needs {text}", remedy, observed=action, expected=0)
    else:
        yield ok("no recovery needed", action)


@check("inforom", proves="the board's infoROM is valid", source=QUERIES, per_gpu=True)
def inforom(_node: Node, gpu: Facts) -> Iterator[Result]:
    """Take the driver's verdict on the infoROM's checksum."""
    if gpu["inforom.valid"]:
        yield ok("the infoROM is valid", gpu.get("inforom.version"))
    else:
        yield fail("the infoROM is corrupt", "contact_support", observed=False, expected=True)


@check("vgpu-licence", proves="a virtual GPU has its licence", source=LICENSING, per_gpu=True)
def vgpu_licence(node: Node, gpu: Facts) -> Iterator[Result]:
    """Ask the driver of a vGPU; without a licence it slows down, and CUDA refuses work."""
    if not _is_vgpu(node, gpu):
        yield inapplicable("the GPU is no virtual GPU (vGPU)")
        return
    daemon = (node.facts.get("services") or Facts({})).get(LICENCE_DAEMON, Facts({})).get("active", "not installed")
    try:
        product, licensed = gpu["licence.product"], gpu["licence.licensed"]
    except Unread:
        if daemon == "active":
            yield unknown(f"the driver does not tell the licence; {LICENCE_DAEMON} runs")
            return
        product, licensed = gpu.get("name", "vGPU"), False
    if licensed:
        yield ok(f"licensed: {product}", product)
    else:
        yield fail(
            f"the vGPU has no licence ({product})",
            "license_vgpu",
            observed="unlicensed",
            expected="licensed",
            reason=f"{LICENCE_DAEMON} is {daemon}",
        )


def _is_vgpu(node: Node, gpu: Facts) -> bool:
    """Tell by its configuration space, or by a VBIOS of zeros, which no board has."""
    seen = {one["address"]: one.get("vgpu") for one in node.facts.get("pci.gpus", [])}
    return bool(seen.get(gpu.get("bus_id"))) or gpu.get("vbios") == NO_VBIOS


@check(
    "gsp-firmware", proves="the GPU's system processor (GSP) runs the driver's firmware", source=QUERIES, per_gpu=True
)
def gsp_firmware(node: Node, gpu: Facts) -> Iterator[Result]:
    """Compare versions where the processor is in use."""
    if not gpu["gsp.mode.enabled"]:
        yield inapplicable("the GPU does not use its system processor (GSP)")
        return
    firmware, driver = gpu["gsp.version"], node.facts["nvml.driver_version"]
    if firmware == driver:
        yield ok(f"firmware {firmware}", firmware)
    else:
        yield warn(f"GSP firmware {firmware}, driver {driver}", "reinstall_driver", observed=firmware, expected=driver)


@check(
    "mig",
    proves="Multi-Instance GPU is on or off as declared",
    source="https://docs.nvidia.com/datacenter/tesla/mig-user-guide/",
    per_gpu=True,
)
def mig(node: Node, gpu: Facts) -> Iterator[Result]:
    """Expect MIG off unless declared."""
    declared = bool(gpu_settings.planned(node, gpu).get("mig", node.declared.get("mig")))
    try:
        enabled, pending = gpu["mig.enabled"], gpu["mig.pending"]
    except Unread as unread:
        if not declared or not unread.unsupported:
            raise
        yield fail("MIG is declared, but the board does not support it", "configure", observed=False, expected=True)
        return
    if enabled != pending:
        yield warn(
            f"MIG turns {'on' if pending else 'off'} at the next GPU reset",
            "reset_gpu",
            observed=enabled,
            expected=pending,
        )
    elif enabled != declared:
        yield fail(
            f"MIG is {'on' if enabled else 'off'}, declared {'on' if declared else 'off'}",
            "configure",
            observed=enabled,
            expected=declared,
        )
    else:
        yield ok(f"MIG is {'on' if enabled else 'off'}", enabled)


@check("gpu-idle", proves="nobody uses the GPUs", source=QUERIES)
def gpu_idle(node: Node) -> Iterator[Result]:
    """Tell who uses GPUs: no fault, but what a reboot would end."""
    if node.facts["users_of_gpus.state"] == "busy":
        who = [users.named(user) for user in users.workers(node.facts["users_of_gpus"])]
        yield info(f"in use by {', '.join(who[:4])}{' ...' if who[4:] else ''}", "stop_app", observed=len(who))
    else:
        yield ok(f"GPUs are {node.facts['users_of_gpus.state']}")


@check("board-known", proves="the board is one that NVIDIA lists", source="catalog/boards.yml", per_gpu=True)
def board_known(node: Node, gpu: Facts) -> Iterator[Result]:
    """Tell of a board that no list has: fewer things can be judged."""
    name = node.profile(gpu).get("name")
    if name:
        yield ok(f"judged as {name}", gpu["device"])
    else:
        yield info(f"no list has {gpu['device']}; set expected values in verify_profile")


@check("siblings-alike", proves="GPUs of the same model on this node are alike", source="the other GPUs of this node")
def siblings_alike(node: Node) -> Iterator[Result]:
    """Name the GPU that differs from most others of its model and maker: makers differ in VBIOS and power limit."""
    models: dict[tuple[Any, ...], list[Facts]] = {}
    for gpu in node.gpus:
        models.setdefault((gpu.get("device"), gpu.get("subsystem")), []).append(gpu)
    found = [result for siblings in models.values() for result in _unlike(node, siblings)]
    if len(node.gpus) == 1:
        yield inapplicable("the node has only one GPU")
    elif found:
        yield from found
    else:
        yield ok(f"{len(node.gpus)} GPUs are alike")


def _unlike(node: Node, siblings: list[Facts]) -> Iterator[Result]:
    for path, name, unit, remedy in ALIKE:
        # A limit that is declared for a GPU is compared with the declared one (see gpu-settings).
        alike = [gpu for gpu in siblings if path != LIMIT or POWER not in gpu_settings.planned(node, gpu)]
        if path == MEMORY and len({gpu.get("ecc.mode.enabled") for gpu in alike}) > 1:
            continue  # ECC takes a share of the memory where that is GDDR (see ecc-enabled)
        values = [(gpu, gpu.get(path)) for gpu in alike if gpu.get(path) is not None]
        if not values:
            continue
        usual, _count = Counter(value for _gpu, value in values).most_common(1)[0]
        for gpu, value in values:
            if value != usual:
                yield warn(
                    f"{name} {value}; the other GPUs: {usual}",
                    remedy,
                    observed=value,
                    expected=usual,
                    unit=unit,
                    gpu=gpu.identity(),
                )
    degrees = [(gpu, gpu.get("temperature.gpu")) for gpu in siblings if gpu.get("temperature.gpu") is not None]
    if len(degrees) >= ENOUGH_SIBLINGS:
        middle = median(value for _gpu, value in degrees)
        for gpu, value in degrees:
            if value > middle + WARMER_CELSIUS:
                yield warn(
                    f"{value} °C; the median of the GPUs is {middle:g} °C",
                    "check_cooling",
                    observed=value,
                    expected=middle,
                    unit="°C",
                    gpu=gpu.identity(),
                )
