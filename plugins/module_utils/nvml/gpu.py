# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What NVML says about one GPU, as plain data: each value is a reading, as readings.py has them."""

from __future__ import annotations

from ctypes import c_uint, c_void_p
from typing import Any

from ansible_collections.gpulab.node.plugins.module_utils.nvml import library as nvml
from ansible_collections.gpulab.node.plugins.module_utils.nvml.library import NvmlError, NvmlLibrary
from ansible_collections.gpulab.node.plugins.module_utils.nvml.mig_instances import MigGpu
from ansible_collections.gpulab.node.plugins.module_utils.nvml.readings import pci_id, reading, sysfs_address, unread

MIB = 1 << 20

ARCHITECTURES = {
    2: "kepler",
    3: "maxwell",
    4: "pascal",
    5: "volta",
    6: "turing",
    7: "ampere",
    8: "ada",
    9: "hopper",
    10: "blackwell",
    13: "rubin",
}
FABRIC_STATES = {0: "not_supported", 1: "not_started", 2: "in_progress", 3: "completed"}
NVLINK_COUNTERS = {"replay": 0, "recovery": 1, "crc_flit": 2, "crc_data": 3}
CORRECTED, UNCORRECTED = 0, 1
VOLATILE, AGGREGATE = 0, 1
DRAM, SRAM = 2, 7
MAX_NVLINKS = 36

# Field ids of nvmlDeviceGetFieldValues (NVML_FI_DEV_*)
FIELD_MEMORY_TEMP = 82
FIELD_NVLINK_COUNT = 91
FIELD_NVLINK_SPEED = 164
FIELD_SHUTDOWN_TLIMIT = 193
FIELD_SLOWDOWN_TLIMIT = 194
FIELD_MEM_MAX_TLIMIT = 195
FIELD_GPU_MAX_TLIMIT = 196
FIELD_RECOVERY_ACTION = 230


class GpuReader:
    """Reads one GPU, group by group."""

    def __init__(self, library: NvmlLibrary, handle: c_void_p) -> None:
        """Keep the library and the GPU's handle."""
        self._nvml = library
        self._handle = handle

    def read(self) -> dict[str, Any]:
        """Read everything a check may ask of this GPU."""
        return {
            **self.identity(),
            "pcie": self.pcie(),
            "memory_mib": self.memory(),
            "temperature": self.temperature(),
            **self.settings(),
            "clocks": self.clocks(),
            "ecc": self.ecc(),
            "remapped_rows": self.remapped_rows(),
            "retired_pages": self.retired_pages(),
            "nvlink": self.nvlink(),
            "fabric": reading(self.fabric),
            "licence": reading(self.licence),
            "inforom": self.inforom(),
            "gsp": self.gsp(),
            "c2c": self.flag("nvmlDeviceGetC2cModeInfoV"),
            "recovery_action": self.field(FIELD_RECOVERY_ACTION),
            "energy_mj": reading(self.energy),
            "utilization": reading(self.utilization),
            "processes": self.processes(),
        }

    def settings(self) -> dict[str, Any]:
        """Read what an operator may set, in the form of read."""
        return {
            "power_mw": self.power(),
            "ecc": {"mode": self.ecc_mode()},
            "persistence": self.flag("nvmlDeviceGetPersistenceMode"),
            "compute_mode": self.number("nvmlDeviceGetComputeMode"),
            "accounting": self.flag("nvmlDeviceGetAccountingMode"),
            **self.mig(),
        }

    def mig(self) -> dict[str, Any]:
        """Read Multi-Instance GPU: whether it is on, what the GPU can be cut into, what it is cut into."""
        mode = self.flags("nvmlDeviceGetMigMode", "enabled", "pending")
        if "enabled" not in mode:
            return {"mig": mode, "mig_profiles": mode, "mig_instances": mode}
        gpu = MigGpu(self._nvml, self._handle)
        profiles = reading(gpu.profiles)
        instances: Any = []
        if mode["enabled"]:
            instances = profiles if isinstance(profiles, dict) else reading(gpu.instances, profiles)
        return {"mig": mode, "mig_profiles": profiles, "mig_instances": instances}

    def number(self, function: str, *arguments: int) -> Any:
        """Read one unsigned number."""
        return reading(self._nvml.number, function, self._handle, *map(c_uint, arguments))

    def flag(self, function: str) -> Any:
        """Read one yes or no."""
        value = self.number(function)
        return value if isinstance(value, dict) else bool(value)

    def text(self, function: str, *, sized: bool = True) -> Any:
        """Read one string."""
        return reading(self._nvml.text, function, self._handle, sized=sized)

    def pair(self, function: str, *names: str) -> Any:
        """Read what a function stores through several pointers."""
        values = reading(self._nvml.numbers, function, len(names), self._handle)
        return values if isinstance(values, dict) else dict(zip(names, values))

    def flags(self, function: str, *names: str) -> Any:
        """Read several yes or no; the whole is {"unsupported": ...} or {"error": ...} where it fails."""
        values = self.pair(function, *names)
        return {name: bool(values[name]) for name in names} if names[0] in values else values

    def field(self, field: int, scope: int = 0) -> Any:
        """Read one field value."""
        values = reading(self._nvml.fields, self._handle, [(field, scope)])
        if isinstance(values, dict):
            return values
        return unread(values[0]) if isinstance(values[0], NvmlError) else values[0]

    def identity(self) -> dict[str, Any]:
        """Read who this GPU is and where it sits."""
        pci = reading(self._nvml.structure, "nvmlDeviceGetPciInfo_v3", self._handle, nvml.PciInfo())
        known = not isinstance(pci, dict)
        architecture = self.number("nvmlDeviceGetArchitecture")
        return {
            "name": self.text("nvmlDeviceGetName"),
            "uuid": self.text("nvmlDeviceGetUUID"),
            "serial": self.text("nvmlDeviceGetSerial"),
            "bus_id": sysfs_address(pci.busId.decode("ascii", "replace")) if known else pci,
            "device": pci_id(pci.pciDeviceId) if known else pci,
            "subsystem": pci_id(pci.pciSubSystemId) if known else pci,
            "vbios": self.text("nvmlDeviceGetVbiosVersion"),
            "board_part_number": self.text("nvmlDeviceGetBoardPartNumber"),
            "minor": self.number("nvmlDeviceGetMinorNumber"),
            "architecture": architecture
            if isinstance(architecture, dict)
            else ARCHITECTURES.get(architecture, f"architecture {architecture}"),
            "compute_capability": self.compute_capability(),
            "numa_node": self.number("nvmlDeviceGetNumaNodeId"),
        }

    def compute_capability(self) -> Any:
        """Read the compute capability, as "9.0"."""
        version = self.pair("nvmlDeviceGetCudaComputeCapability", "major", "minor")
        return f"{version['major']}.{version['minor']}" if "major" in version else version

    def pcie(self) -> dict[str, Any]:
        """Read the PCI Express link; ``max_generation`` is what GPU and slot can do together."""
        return {
            "generation": self.number("nvmlDeviceGetCurrPcieLinkGeneration"),
            "max_generation": self.number("nvmlDeviceGetMaxPcieLinkGeneration"),
            "gpu_max_generation": self.number("nvmlDeviceGetGpuMaxPcieLinkGeneration"),
            "width": self.number("nvmlDeviceGetCurrPcieLinkWidth"),
            "max_width": self.number("nvmlDeviceGetMaxPcieLinkWidth"),
            "replays": self.number("nvmlDeviceGetPcieReplayCounter"),
        }

    def memory(self) -> dict[str, Any]:
        """Read the sizes of the board's memory and of its PCI window, in MiB."""
        memory = reading(self._nvml.structure, "nvmlDeviceGetMemoryInfo", self._handle, nvml.NvmlMemory())
        bar1 = reading(self._nvml.structure, "nvmlDeviceGetBAR1MemoryInfo", self._handle, nvml.Bar1Memory())
        return {
            "total": memory if isinstance(memory, dict) else memory.total // MIB,
            "used": memory if isinstance(memory, dict) else memory.used // MIB,
            "bar1": bar1 if isinstance(bar1, dict) else bar1.bar1Total // MIB,
        }

    def temperature(self) -> dict[str, Any]:
        """Read temperatures and limits in degrees Celsius.

        Boards up to Ampere publish absolute limits; later ones a ``margin`` to slowdown, and limits as offsets on
        that margin (``*_tlimit``).
        """
        margin = reading(
            self._nvml.structure,
            "nvmlDeviceGetMarginTemperature",
            self._handle,
            nvml.versioned(nvml.MarginTemperature),
        )
        return {
            "gpu": self.number("nvmlDeviceGetTemperature", 0),
            "memory": self.field(FIELD_MEMORY_TEMP),
            "margin": margin if isinstance(margin, dict) else margin.marginTemperature,
            "shutdown": self.number("nvmlDeviceGetTemperatureThreshold", 0),
            "slowdown": self.number("nvmlDeviceGetTemperatureThreshold", 1),
            "memory_max": self.number("nvmlDeviceGetTemperatureThreshold", 2),
            "gpu_max": self.number("nvmlDeviceGetTemperatureThreshold", 3),
            "shutdown_tlimit": self.field(FIELD_SHUTDOWN_TLIMIT),
            "slowdown_tlimit": self.field(FIELD_SLOWDOWN_TLIMIT),
            "memory_max_tlimit": self.field(FIELD_MEM_MAX_TLIMIT),
            "gpu_max_tlimit": self.field(FIELD_GPU_MAX_TLIMIT),
        }

    def power(self) -> dict[str, Any]:
        """Read power in milliwatts."""
        return {
            "usage": self.number("nvmlDeviceGetPowerUsage"),
            "limit": self.number("nvmlDeviceGetPowerManagementLimit"),
            "enforced_limit": self.number("nvmlDeviceGetEnforcedPowerLimit"),
            "default_limit": self.number("nvmlDeviceGetPowerManagementDefaultLimit"),
            "constraints": self.pair("nvmlDeviceGetPowerManagementLimitConstraints", "min", "max"),
        }

    def energy(self) -> int:
        """Read the energy in millijoules that the GPU drew since the driver was loaded (Volta and later)."""
        return self._nvml.number("nvmlDeviceGetTotalEnergyConsumption", self._handle, kind=nvml.c_ulonglong)

    def clocks(self) -> dict[str, Any]:
        """Read clocks in MHz, the performance state, and the bits that say what holds the clocks down."""
        reasons = reading(self.event_reasons, "nvmlDeviceGetCurrentClocksEventReasons")
        if reasons == {"unsupported": nvml.ERRORS[nvml.FUNCTION_NOT_FOUND]}:  # drivers before 535 know the old name
            reasons = reading(self.event_reasons, "nvmlDeviceGetCurrentClocksThrottleReasons")
        return {
            "sm": self.number("nvmlDeviceGetClockInfo", 1),
            "memory": self.number("nvmlDeviceGetClockInfo", 2),
            "max_sm": self.number("nvmlDeviceGetMaxClockInfo", 1),
            "max_memory": self.number("nvmlDeviceGetMaxClockInfo", 2),
            "performance_state": self.number("nvmlDeviceGetPerformanceState"),
            "event_reasons": reasons,
        }

    def event_reasons(self, function: str) -> int:
        """Read the clock event reasons, a mask of NVML's bits."""
        return self._nvml.number(function, self._handle, kind=nvml.c_ulonglong)

    def ecc(self) -> dict[str, Any]:
        """Read ECC's mode, the board's default, and the error counters, since the driver's load and over the life."""
        return {
            "mode": self.ecc_mode(),
            "default": self.flag("nvmlDeviceGetDefaultEccMode"),
            "volatile": self.ecc_errors(VOLATILE),
            "aggregate": self.ecc_errors(AGGREGATE),
            "sram_threshold_exceeded": reading(self.sram_threshold_exceeded),
        }

    def ecc_mode(self) -> Any:
        """Read whether ECC is on, and whether it will be after a reset."""
        return self.flags("nvmlDeviceGetEccMode", "enabled", "pending")

    def ecc_errors(self, counter: int) -> dict[str, Any]:
        """Read one set of counters: in total, and uncorrected ones by kind of memory."""

        def total(kind: int) -> Any:
            arguments = (self._handle, c_uint(kind), c_uint(counter))
            return reading(self._nvml.number, "nvmlDeviceGetTotalEccErrors", *arguments, kind=nvml.c_ulonglong)

        def uncorrected(memory: int) -> Any:
            arguments = (self._handle, c_uint(UNCORRECTED), c_uint(counter), c_uint(memory))
            return reading(self._nvml.number, "nvmlDeviceGetMemoryErrorCounter", *arguments, kind=nvml.c_ulonglong)

        return {
            "corrected": total(CORRECTED),
            "uncorrected": total(UNCORRECTED),
            "dram_uncorrected": uncorrected(DRAM),
            "sram_uncorrected": uncorrected(SRAM),
        }

    def sram_threshold_exceeded(self) -> bool:
        """Read whether the board counts too many SRAM errors."""
        status = nvml.versioned(nvml.SramEccStatus)
        self._nvml.structure("nvmlDeviceGetSramEccErrorStatus", self._handle, status)
        return bool(status.bThresholdExceeded)

    def remapped_rows(self) -> Any:
        """Read row remapping (Ampere and later); ``banks`` counts banks by the spare rows they have left."""
        rows = self.pair("nvmlDeviceGetRemappedRows", "corrected", "uncorrected", "pending", "failure")
        if "pending" not in rows:
            return rows
        histogram = nvml.RowRemapperHistogram()
        banks = reading(self._nvml.structure, "nvmlDeviceGetRowRemapperHistogram", self._handle, histogram)
        if not isinstance(banks, dict):
            banks = {name: getattr(banks, name) for name, _kind in histogram._fields_}
        return {**rows, "pending": bool(rows["pending"]), "failure": bool(rows["failure"]), "banks": banks}

    def retired_pages(self) -> dict[str, Any]:
        """Read page retirement (before Ampere)."""
        return {
            "single_bit": reading(self._nvml.retired_pages, self._handle, 0),
            "double_bit": reading(self._nvml.retired_pages, self._handle, 1),
            "pending": self.flag("nvmlDeviceGetRetiredPagesPendingStatus"),
        }

    def nvlink(self) -> dict[str, Any]:
        """Read the NVLinks: how many the board has, and each one's state, version, speed and errors."""
        links = []
        for number in range(MAX_NVLINKS):
            state = self.number("nvmlDeviceGetNvLinkState", number)
            if isinstance(state, dict) and ("unsupported" in state or state["code"] == nvml.INVALID_ARGUMENT):
                break
            links.append(self.link(number, state))
        return {"count": self.field(FIELD_NVLINK_COUNT), "links": links}

    def link(self, number: int, state: Any) -> dict[str, Any]:
        """Read one NVLink."""
        errors = {
            name: reading(
                self._nvml.number,
                "nvmlDeviceGetNvLinkErrorCounter",
                self._handle,
                c_uint(number),
                c_uint(counter),
                kind=nvml.c_ulonglong,
            )
            for name, counter in NVLINK_COUNTERS.items()
        }
        return {
            "link": number,
            "active": state if isinstance(state, dict) else bool(state),
            "version": self.number("nvmlDeviceGetNvLinkVersion", number),
            "speed_mbps": self.field(FIELD_NVLINK_SPEED, number),
            "errors": errors,
        }

    def fabric(self) -> dict[str, Any]:
        """Read the GPU's place in the NVSwitch fabric, by the newest call that library and driver know."""
        for layout in (nvml.FabricInfo3, nvml.FabricInfo2):
            try:
                info = self._nvml.structure("nvmlDeviceGetGpuFabricInfoV", self._handle, nvml.versioned(layout))
                break
            except NvmlError as error:
                if error.code not in {*nvml.UNSUPPORTED, nvml.INVALID_ARGUMENT}:
                    raise
        else:
            info = self._nvml.structure("nvmlDeviceGetGpuFabricInfo", self._handle, nvml.FabricInfo())
        return {
            "state": FABRIC_STATES.get(info.state, f"state {info.state}"),
            "status": nvml.ERRORS.get(info.status, f"CODE_{info.status}") if info.status else "SUCCESS",
            "clique": info.cliqueId,
            "cluster": bytes(info.clusterUuid).hex(),
            "health_mask": getattr(info, "healthMask", None),
            "health_summary": getattr(info, "healthSummary", None),
        }

    def licence(self) -> dict[str, Any]:
        """Read which product of NVIDIA's vGPU software the GPU is for, and whether it is licensed."""
        function = "nvmlDeviceGetGridLicensableFeatures_v4"
        told = self._nvml.structure(function, self._handle, nvml.Licences())
        products = [one for one in told.gridLicensableFeatures[: told.licensableFeaturesCount] if one.featureEnabled]
        if not told.isGridLicenseSupported or not products:
            raise NvmlError(nvml.NOT_SUPPORTED)
        licensed = [one for one in products if one.featureState]
        name = (licensed or products)[0].productName.decode("ascii", "replace")
        return {"product": name, "licensed": bool(licensed)}

    def inforom(self) -> dict[str, Any]:
        """Read the infoROM's version, and whether its checksum holds."""
        try:
            self._nvml.call("nvmlDeviceValidateInforom", self._handle)
            valid: Any = True
        except NvmlError as error:
            valid = False if error.code == nvml.CORRUPTED_INFOROM else unread(error)
        return {"version": self.text("nvmlDeviceGetInforomImageVersion"), "valid": valid}

    def gsp(self) -> dict[str, Any]:
        """Read the GPU System Processor's mode and firmware version."""
        return {
            "mode": self.flags("nvmlDeviceGetGspFirmwareMode", "enabled", "default"),
            "version": self.text("nvmlDeviceGetGspFirmwareVersion", sized=False),
        }

    def utilization(self) -> dict[str, int]:
        """Read the share of time, in percent, in which the GPU and its memory were at work."""
        rates = self._nvml.structure("nvmlDeviceGetUtilizationRates", self._handle, nvml.Utilization())
        return {"gpu": rates.gpu, "memory": rates.memory}

    def processes(self) -> Any:
        """List who has a compute or graphics context, with its memory in MiB (None where it may not be known)."""
        found: dict[int, dict[str, Any]] = {}
        for function in ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v3"):
            processes = reading(self._nvml.processes, self._handle, function)
            if isinstance(processes, dict):
                return processes
            for process in processes:
                used = process.usedGpuMemory
                found[process.pid] = {"pid": process.pid, "memory_mib": None if used == (1 << 64) - 1 else used // MIB}
        return list(found.values())
