"""Read every field through NVIDIA's own nvidia-ml-py; print {setting: value or "error N"} per GPU as JSON."""

import json
import sys

import nvml_mig
import pynvml as nvml

CLOCKS = {"graphics": 0, "sm": 1, "memory": 2, "video": 3}
CORRECTED, UNCORRECTED = 0, 1
VOLATILE, AGGREGATE = 0, 1
DRAM, SRAM = 2, 7


def field(handle, number, scope=0):
    """Read one field value."""
    value = nvml.nvmlDeviceGetFieldValues(handle, [(number, scope)])[0]
    if value.nvmlReturn:
        raise nvml.NVMLError(value.nvmlReturn)
    return value.value.siVal if value.valueType == nvml.NVML_VALUE_TYPE_SIGNED_INT else value.value.uiVal


def identity(number):
    """Turn NVML's PCI identity into vvvv:dddd."""
    return f"{number & 0xFFFF:04x}:{number >> 16:04x}"


def fabric(handle):
    """Read version 3 of the fabric information."""
    info = nvml.c_nvmlGpuFabricInfo_v3_t()
    info.version = nvml.nvmlGpuFabricInfo_v3
    nvml.nvmlDeviceGetGpuFabricInfoV(handle, nvml.byref(info))
    return info


def sram_status(handle):
    """Read whether SRAM errors passed the threshold."""
    status = nvml.c_nvmlEccSramErrorStatus_v1_t()
    status.version = nvml.nvmlEccSramErrorStatus_v1
    nvml.nvmlDeviceGetSramEccErrorStatus(handle, nvml.byref(status))
    return status


def histogram(handle):
    """Read the banks by their spare rows."""
    banks = nvml.nvmlDeviceGetRowRemapperHistogram(handle)
    return " ".join(str(count) for count in (banks.max, banks.high, banks.partial, banks.low, banks.none))


def links_down(handle):
    """List the NVLinks that are not up."""
    links = range(field(handle, nvml.NVML_FI_DEV_NVLINK_LINK_COUNT))
    states = [nvml.nvmlDeviceGetNvLinkState(handle, link) for link in links]
    assert states == [field(handle, nvml.NVML_FI_DEV_NVLINK_GET_STATE, link) for link in links]
    return " ".join(str(link) for link, state in enumerate(states) if not state)


def processes(handle):
    """List the compute processes as pid:MiB."""
    found = nvml.nvmlDeviceGetComputeRunningProcesses_v3(handle)
    return " ".join(f"{process.pid}:{process.usedGpuMemory >> 20}" for process in found)


def instances(handle):
    """List the GPU instances as id/profile/start/compute instances."""
    return " ".join(map(nvml_mig.written, nvml_mig.instances(handle)))


def address(handle):
    """Return the PCI address as sysfs writes it; NVML's is in capitals with a wide domain."""
    return nvml.nvmlDeviceGetPciInfo(handle).busId[4:].lower()


def inforom_valid(handle):
    """Return 1 where the infoROM is valid."""
    nvml.nvmlDeviceValidateInforom(handle)
    return 1


def ecc(kind, counter):
    """Read a total of memory errors."""
    return lambda handle: nvml.nvmlDeviceGetTotalEccErrors(handle, kind, counter)


def ecc_at(kind, counter, location):
    """Read the memory errors of a place."""
    return lambda handle: nvml.nvmlDeviceGetMemoryErrorCounter(handle, kind, counter, location)


READERS = {
    "name": nvml.nvmlDeviceGetName,
    "device": lambda h: identity(nvml.nvmlDeviceGetPciInfo(h).pciDeviceId),
    "subsystem": lambda h: identity(nvml.nvmlDeviceGetPciInfo(h).pciSubSystemId),
    "address": address,
    "numa_node": nvml.nvmlDeviceGetNumaNodeId,
    "serial": nvml.nvmlDeviceGetSerial,
    "board_part_number": nvml.nvmlDeviceGetBoardPartNumber,
    "board_id": nvml.nvmlDeviceGetBoardId,
    "vbios": nvml.nvmlDeviceGetVbiosVersion,
    "inforom": nvml.nvmlDeviceGetInforomImageVersion,
    "inforom_valid": inforom_valid,
    "brand": nvml.nvmlDeviceGetBrand,
    "architecture": nvml.nvmlDeviceGetArchitecture,
    "compute_capability": lambda h: "{}.{}".format(*nvml.nvmlDeviceGetCudaComputeCapability(h)),
    "cores": nvml.nvmlDeviceGetNumGpuCores,
    "memory_bus_width": nvml.nvmlDeviceGetMemoryBusWidth,
    "gsp": lambda h: nvml.nvmlDeviceGetGspFirmwareMode(h)[0],
    "memory_mib": lambda h: nvml.nvmlDeviceGetMemoryInfo(h).total >> 20,
    "memory_reserved_mib": lambda h: nvml.nvmlDeviceGetMemoryInfo(h, nvml.nvmlMemory_v2).reserved >> 20,
    "memory_used_mib": lambda h: nvml.nvmlDeviceGetMemoryInfo(h, nvml.nvmlMemory_v2).used >> 20,
    "bar1_mib": lambda h: nvml.nvmlDeviceGetBAR1MemoryInfo(h).bar1Total >> 20,
    "persistence": nvml.nvmlDeviceGetPersistenceMode,
    "compute_mode": nvml.nvmlDeviceGetComputeMode,
    "accounting": nvml.nvmlDeviceGetAccountingMode,
    "display": nvml.nvmlDeviceGetDisplayMode,
    "display_active": nvml.nvmlDeviceGetDisplayActive,
    "virtualization": nvml.nvmlDeviceGetVirtualizationMode,
    "ecc": lambda h: nvml.nvmlDeviceGetEccMode(h)[0],
    "ecc_pending": lambda h: nvml.nvmlDeviceGetEccMode(h)[1],
    "ecc_default": lambda h: nvml.nvmlDeviceGetDefaultEccMode(h)[0],
    "mig": lambda h: nvml.nvmlDeviceGetMigMode(h)[0],
    "mig_pending": lambda h: nvml.nvmlDeviceGetMigMode(h)[1],
    "mig_max_devices": nvml.nvmlDeviceGetMaxMigDeviceCount,
    "mig_instances": instances,
    "pcie_gen": nvml.nvmlDeviceGetCurrPcieLinkGeneration,
    "pcie_gen_max": nvml.nvmlDeviceGetMaxPcieLinkGeneration,
    "pcie_gen_gpu_max": nvml.nvmlDeviceGetGpuMaxPcieLinkGeneration,
    "pcie_width": nvml.nvmlDeviceGetCurrPcieLinkWidth,
    "pcie_width_max": nvml.nvmlDeviceGetMaxPcieLinkWidth,
    "pcie_replay": nvml.nvmlDeviceGetPcieReplayCounter,
    "pcie_throughput": lambda h: nvml.nvmlDeviceGetPcieThroughput(h, 0),
    "temp": lambda h: nvml.nvmlDeviceGetTemperature(h, 0),
    "temp_memory": lambda h: field(h, nvml.NVML_FI_DEV_MEMORY_TEMP),
    "temp_margin": nvml.nvmlDeviceGetMarginTemperature,
    "temp_shutdown": lambda h: nvml.nvmlDeviceGetTemperatureThreshold(h, 0),
    "temp_slowdown": lambda h: nvml.nvmlDeviceGetTemperatureThreshold(h, 1),
    "temp_memory_max": lambda h: nvml.nvmlDeviceGetTemperatureThreshold(h, 2),
    "temp_gpu_max": lambda h: nvml.nvmlDeviceGetTemperatureThreshold(h, 3),
    "tlimit_shutdown": lambda h: field(h, nvml.NVML_FI_DEV_TEMPERATURE_SHUTDOWN_TLIMIT),
    "tlimit_slowdown": lambda h: field(h, nvml.NVML_FI_DEV_TEMPERATURE_SLOWDOWN_TLIMIT),
    "tlimit_memory_max": lambda h: field(h, nvml.NVML_FI_DEV_TEMPERATURE_MEM_MAX_TLIMIT),
    "tlimit_gpu_max": lambda h: field(h, nvml.NVML_FI_DEV_TEMPERATURE_GPU_MAX_TLIMIT),
    "power_w": lambda h: nvml.nvmlDeviceGetPowerUsage(h) / 1000,
    "power_limit_w": lambda h: nvml.nvmlDeviceGetEnforcedPowerLimit(h) / 1000,
    "power_default_w": lambda h: nvml.nvmlDeviceGetPowerManagementDefaultLimit(h) / 1000,
    "power_min_w": lambda h: nvml.nvmlDeviceGetPowerManagementLimitConstraints(h)[0] / 1000,
    "power_max_w": lambda h: nvml.nvmlDeviceGetPowerManagementLimitConstraints(h)[1] / 1000,
    "power_management": nvml.nvmlDeviceGetPowerManagementMode,
    "energy_mj": nvml.nvmlDeviceGetTotalEnergyConsumption,
    "pstate": nvml.nvmlDeviceGetPerformanceState,
    "clock_event_reasons": nvml.nvmlDeviceGetCurrentClocksEventReasons,
    "clock_event_reasons_supported": nvml.nvmlDeviceGetSupportedClocksEventReasons,
    "utilization": lambda h: nvml.nvmlDeviceGetUtilizationRates(h).gpu,
    "utilization_memory": lambda h: nvml.nvmlDeviceGetUtilizationRates(h).memory,
    "fan": nvml.nvmlDeviceGetFanSpeed,
    "fans": nvml.nvmlDeviceGetNumFans,
    "sram_threshold_exceeded": lambda h: sram_status(h).bThresholdExceeded,
    "remapped_corrected": lambda h: nvml.nvmlDeviceGetRemappedRows(h)[0],
    "remapped_uncorrected": lambda h: nvml.nvmlDeviceGetRemappedRows(h)[1],
    "remapped_pending": lambda h: nvml.nvmlDeviceGetRemappedRows(h)[2],
    "remapped_failure": lambda h: nvml.nvmlDeviceGetRemappedRows(h)[3],
    "remap_histogram": histogram,
    "retired_single_bit": lambda h: len(nvml.nvmlDeviceGetRetiredPages(h, 0)),
    "retired_double_bit": lambda h: len(nvml.nvmlDeviceGetRetiredPages(h, 1)),
    "retired_pending": nvml.nvmlDeviceGetRetiredPagesPendingStatus,
    "nvlinks": lambda h: field(h, nvml.NVML_FI_DEV_NVLINK_LINK_COUNT),
    "nvlinks_down": links_down,
    "nvlink_version": lambda h: nvml.nvmlDeviceGetNvLinkVersion(h, 0),
    "nvlink_mbps": lambda h: field(h, nvml.NVML_FI_DEV_NVLINK_GET_SPEED, 0),
    "nvlink_errors": lambda h: nvml.nvmlDeviceGetNvLinkErrorCounter(h, 0, nvml.NVML_NVLINK_ERROR_DL_REPLAY),
    "nvlink_remote": lambda h: nvml.nvmlDeviceGetNvLinkRemoteDeviceType(h, 0),
    "c2c": lambda h: nvml.nvmlDeviceGetC2cModeInfoV(h).isC2cEnabled,
    "fabric_state": lambda h: fabric(h).state,
    "fabric_status": lambda h: fabric(h).status,
    "fabric_clique": lambda h: fabric(h).cliqueId,
    "fabric_health": lambda h: fabric(h).healthMask,
    "fabric_health_summary": lambda h: fabric(h).healthSummary,
    "p2p": lambda h: nvml.nvmlDeviceGetP2PStatus(h, h, nvml.NVML_P2P_CAPS_INDEX_WRITE),
    "p2p_nvlink": lambda h: nvml.nvmlDeviceGetP2PStatus(h, h, nvml.NVML_P2P_CAPS_INDEX_NVLINK),
    "topology": lambda h: nvml.nvmlDeviceGetTopologyCommonAncestor(h, h),
    "recovery_action": lambda h: field(h, nvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION),
    "processes": processes,
}
for kind, number in CLOCKS.items():
    READERS[f"clock_{kind}"] = lambda h, n=number: nvml.nvmlDeviceGetClockInfo(h, n)
    READERS[f"clock_max_{kind}"] = lambda h, n=number: nvml.nvmlDeviceGetMaxClockInfo(h, n)
    READERS[f"clock_application_{kind}"] = lambda h, n=number: nvml.nvmlDeviceGetApplicationsClock(h, n)
    READERS[f"clock_application_default_{kind}"] = lambda h, n=number: nvml.nvmlDeviceGetDefaultApplicationsClock(h, n)
for kind, type_number in {"corrected": CORRECTED, "uncorrected": UNCORRECTED}.items():
    for counter, counter_number in {"volatile": VOLATILE, "aggregate": AGGREGATE}.items():
        READERS[f"ecc_{counter}_{kind}"] = ecc(type_number, counter_number)
        READERS[f"ecc_dram_{counter}_{kind}"] = ecc_at(type_number, counter_number, DRAM)
        READERS[f"ecc_sram_{counter}_{kind}"] = ecc_at(type_number, counter_number, SRAM)


def attempt(read, *arguments):
    """Return what is read, or the error."""
    try:
        return read(*arguments)
    except nvml.NVMLError as error:
        return f"error {error.value}"


def read_gpu(index):
    """Read all of one GPU."""
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    return {setting: attempt(read, handle) for setting, read in READERS.items()}


def main():
    """Read the node."""
    started = attempt(nvml.nvmlInit)
    if started:
        return {"init": started}
    return {
        "driver_version": nvml.nvmlSystemGetDriverVersion(),
        "cuda_version": nvml.nvmlSystemGetCudaDriverVersion(),
        "gpus": [attempt(read_gpu, index) for index in range(nvml.nvmlDeviceGetCount())],
    }


json.dump(main(), sys.stdout)
