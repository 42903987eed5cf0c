"""GPU settings and MIG devices that are not as planned; see faults.py."""

from __future__ import annotations

from typing import Any

from . import nodes
from .faults import Fault, all_of, every_gpu, gpu, put

VOLATILE = ("corrected", "uncorrected", "dram_uncorrected", "sram_uncorrected")


def settings(**values: Any) -> dict[str, Any]:
    """Return a plan with these settings of every GPU."""
    return {"gpu_settings": {"settings": {"all": values, "gpus": {}, "power_budget_watts": None}}}


def cut_into(*names: str) -> Any:
    """Return an injection of MIG, on every GPU, with these instances; and of what a driver no longer tells then."""

    def part(facts: dict[str, Any]) -> None:
        for pair in facts["nvml"]["peers"]:
            pair.update(dict.fromkeys(("read", "write", "nvlink"), "not_supported"))
        for each in facts["nvml"]["gpus"]:
            for link in each["nvlink"]["links"]:
                link["active"] = False

    return all_of(
        part,
        every_gpu("mig", {"enabled": True, "pending": True}),
        every_gpu("mig_instances", [{"name": name} for name in names]),
        *(every_gpu(path, nodes.ABSENT) for path in ("utilization", "remapped_rows")),
        *(every_gpu(f"ecc.volatile.{kind}", nodes.ABSENT) for kind in VOLATILE),
    )


def cdi_for(*names: str) -> Any:
    """Return an injection of two MIG devices on the first GPU, and of a CDI specification with these."""
    devices = [{"index": index, "uuid": f"MIG-{index + 1}"} for index in range(2)]
    return all_of(
        put("nvml.gpus.0.mig_instances", [{"name": "3g.20gb", "devices": [device]} for device in devices]),
        put("containers.cdi.0.mig_devices", list(names)),
    )


def set_power(watts: int, number: int = 0) -> Any:
    """Return an injection of another power limit."""
    return all_of(gpu("power_mw.limit", watts * 1000, number), gpu("power_mw.enforced_limit", watts * 1000, number))


SETTINGS = [
    Fault(
        "a power limit that was changed by hand",
        "rtx4090x2",
        all_of(every_gpu("power_mw.limit", 300_000), every_gpu("power_mw.enforced_limit", 300_000), set_power(350, 1)),
        "gpu-settings",
        "configure",
        "warn",
        plan=settings(power_limit_watts=300),
        says="power_limit_watts is 350",
    ),
    Fault(
        "a power limit that a boot took away",
        "l40s",
        lambda _: None,
        "gpu-settings",
        "configure",
        "warn",
        plan=settings(power_limit_watts=300),
        says="power_limit_watts is 350",
    ),
    Fault(
        "a power limit below the declared one",
        "l40s",
        set_power(200),
        "gpu-settings",
        "configure",
        "warn",
        also=("power-limit",),
        plan=settings(power_limit_watts=300),
        says="power_limit_watts is 200",
    ),
    Fault(
        "limits that go past the power supply",
        "rtx4090x2",
        lambda _: None,
        "gpu-settings",
        "configure",
        "warn",
        also=("power-budget",),
        plan={"gpu_settings": {"settings": {"all": {}, "gpus": {}, "power_budget_watts": 650}}},
        says="power_limit_watts is 450",
    ),
    Fault(
        "another compute mode",
        "t4",
        gpu("compute_mode", 0),
        "gpu-settings",
        "configure",
        "warn",
        plan=settings(compute_mode="exclusive_process"),
        says="compute_mode is default",
    ),
    Fault(
        "accounting off",
        "h100x8",
        gpu("accounting", value=False),
        "gpu-settings",
        "configure",
        "warn",
        plan=settings(accounting=True),
    ),
    Fault(
        "ECC waits for a boot",
        "l40s",
        gpu("ecc.mode", {"enabled": True, "pending": False}),
        "gpu-settings",
        "reboot",
        "warn",
        also=("ecc-enabled",),
        plan=settings(ecc=False),
        says="takes effect at the next boot",
    ),
    Fault(
        "clocks that are not held",
        "l40s",
        gpu("clocks.sm", 1980),
        "gpu-settings",
        "configure",
        "warn",
        plan=settings(locked_clocks_mhz=[210, 1200]),
        says="1980 MHz",
    ),
    Fault(
        "MIG declared on a GeForce",
        "rtx4090x2",
        lambda _: None,
        "gpu-settings",
        "configure",
        also=("mig",),
        plan=settings(mig=True),
        says="does not support mig",
    ),
    Fault(
        "MIG instances that a boot took away",
        "a100-pcie-x2",
        cut_into(),
        "mig-instances",
        "configure",
        plan=settings(mig_instances=["3g.20gb", "3g.20gb"]),
        says="none; declared: 3g.20gb, 3g.20gb",
    ),
    Fault(
        "other MIG instances than declared",
        "a100-pcie-x2",
        all_of(cut_into("3g.20gb", "4g.20gb"), put("nvml.gpus.1.mig_instances", [{"name": "7g.40gb"}])),
        "mig-instances",
        "configure",
        plan=settings(mig_instances=["4g.20gb", "3g.20gb"]),
        says="MIG instances: 7g.40gb; declared",
    ),
    Fault(
        "a MIG instance without a compute instance",
        "a100-pcie-x2",
        cut_into("3g.20gb", "3g.20gb()"),
        "mig-instances",
        "configure",
        plan=settings(mig_instances=["3g.20gb", "3g.20gb"]),
        says="3g.20gb()",
    ),
    Fault(
        "MIG on without an instance, none declared",
        "a100-pcie-x2",
        cut_into(),
        "mig-instances",
        "configure",
        "info",
        plan=settings(mig=True),
        says="no program can use the GPU",
    ),
    Fault(
        "a CDI specification without the MIG devices",
        "a100-pcie-x2",
        cdi_for(),
        "cdi-specification",
        "configure",
        "warn",
        says="other MIG devices",
    ),
    Fault(
        "a CDI specification of former MIG devices",
        "a100-pcie-x2",
        cdi_for("0:0", "0:1", "MIG-1", "MIG-7"),
        "cdi-specification",
        "configure",
        "warn",
    ),
    Fault(
        "a CDI specification of MIG devices that are gone",
        "a100-pcie-x2",
        put("containers.cdi.0.mig_devices", ["0:0"]),
        "cdi-specification",
        "configure",
        "warn",
    ),
    Fault(
        "MIG instances that do not fit",
        "a100-pcie-x2",
        cut_into("3g.20gb"),
        "mig-instances",
        "configure",
        also=("gpu-settings",),
        plan=settings(mig_instances=["4g.20gb", "4g.20gb"]),
    ),
    Fault(
        "settings of a GPU that is gone",
        "rtx4090x2",
        lambda _: None,
        "gpu-settings",
        "configure",
        plan={"gpu_settings": {"settings": {"all": {}, "gpus": {"2": {"ecc": False}}, "power_budget_watts": None}}},
        says="no such GPU",
    ),
    Fault(
        "MIG on as nobody declared",
        "a100-pcie-x2",
        gpu("mig", {"enabled": True, "pending": True}),
        "gpu-settings",
        "configure",
        "warn",
        also=("mig",),
        plan=settings(mig=False),
        says="mig is True",
    ),
]
