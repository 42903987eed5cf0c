"""Our numbers and layouts against NVIDIA's own Python binding of NVML."""

import ctypes

import pynvml
import pytest
from ansible_collections.gpulab.node.plugins.module_utils.nvml import gpu, mig_instances, query
from ansible_collections.gpulab.node.plugins.module_utils.nvml import library as nvml

LAYOUTS = [
    (nvml.PciInfo, pynvml.nvmlPciInfo_t),
    (nvml.NvmlMemory, pynvml.c_nvmlMemory_t),
    (nvml.Bar1Memory, pynvml.c_nvmlBAR1Memory_t),
    (nvml.Utilization, pynvml.c_nvmlUtilization_t),
    (nvml.ProcessInfo, pynvml.c_nvmlProcessInfo_v3_t),
    (nvml.Value, pynvml.c_nvmlValue_t),
    (nvml.FieldValue, pynvml.c_nvmlFieldValue_t),
    (nvml.MarginTemperature, pynvml.c_nvmlMarginTemperature_v1_t),
    (nvml.SramEccStatus, pynvml.c_nvmlEccSramErrorStatus_v1_t),
    (nvml.RowRemapperHistogram, pynvml.c_nvmlRowRemapperHistogramValues),
    (nvml.LicenceExpiry, pynvml.c_nvmlGridLicenseExpiry_t),
    (nvml.Licensable, pynvml.c_nvmlGridLicensableFeature_v4_t),
    (nvml.Licences, pynvml.c_nvmlGridLicensableFeatures_v4_t),
    (nvml.InstancePlacement, pynvml.c_nvmlGpuInstancePlacement_t),
    (nvml.GpuInstanceProfile, pynvml.c_nvmlGpuInstanceProfileInfo_v2_t),
    (nvml.GpuInstanceInfo, pynvml.c_nvmlGpuInstanceInfo_t),
    (nvml.ComputeInstanceProfile, pynvml.c_nvmlComputeInstanceProfileInfo_v2_t),
]
FABRIC_LAYOUTS = [
    (nvml.FabricInfo, pynvml.c_nvmlGpuFabricInfo_t),
    (nvml.FabricInfo2, pynvml.c_nvmlGpuFabricInfo_v2_t),
    (nvml.FabricInfo3, pynvml.c_nvmlGpuFabricInfo_v3_t),
]


@pytest.mark.parametrize(("ours", "theirs"), LAYOUTS, ids=lambda layout: layout.__name__)
def test_layout(ours, theirs):
    def shape(layout):
        return [(name, getattr(layout, name).offset, getattr(layout, name).size) for name, _kind in layout._fields_]

    assert shape(ours) == shape(theirs)
    assert ctypes.sizeof(ours) == ctypes.sizeof(theirs)


def test_the_mode_of_c2c_is_one_number():
    assert ctypes.sizeof(pynvml.c_nvmlC2cModeInfo_v1_t) == ctypes.sizeof(ctypes.c_uint)


@pytest.mark.parametrize(("ours", "theirs"), FABRIC_LAYOUTS, ids=lambda layout: layout.__name__)
def test_fabric_layout(ours, theirs):
    """Nvml.h has ``typedef unsigned char nvmlGpuFabricState_t``; NVIDIA's binding reads the padding behind it too."""

    def offsets(layout):
        return [(name, getattr(layout, name).offset) for name, _kind in layout._fields_]

    assert offsets(ours) == offsets(theirs)
    assert ctypes.sizeof(ours) == ctypes.sizeof(theirs)
    assert ours.state.size == 1


@pytest.mark.parametrize(
    ("layout", "version"),
    [
        (nvml.MarginTemperature, pynvml.nvmlMarginTemperature_v1),
        (nvml.SramEccStatus, pynvml.nvmlEccSramErrorStatus_v1),
        (nvml.GpuInstanceProfile, pynvml.nvmlGpuInstanceProfileInfo_v2),
        (nvml.ComputeInstanceProfile, pynvml.nvmlComputeInstanceProfileInfo_v2),
        (nvml.FabricInfo2, pynvml.nvmlGpuFabricInfo_v2),
        (nvml.FabricInfo3, pynvml.nvmlGpuFabricInfo_v3),
    ],
)
def test_version_word(layout, version):
    assert nvml.versioned(layout).version == version


def test_error_names():
    theirs = {
        getattr(pynvml, name): name[len("NVML_ERROR_") :] for name in vars(pynvml) if name.startswith("NVML_ERROR_")
    }
    assert theirs == nvml.ERRORS


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (nvml.INVALID_ARGUMENT, "NVML_ERROR_INVALID_ARGUMENT"),
        (nvml.NOT_SUPPORTED, "NVML_ERROR_NOT_SUPPORTED"),
        (nvml.INSUFFICIENT_SIZE, "NVML_ERROR_INSUFFICIENT_SIZE"),
        (nvml.NOT_FOUND, "NVML_ERROR_NOT_FOUND"),
        (nvml.INSUFFICIENT_RESOURCES, "NVML_ERROR_INSUFFICIENT_RESOURCES"),
        (mig_instances.SHARED_ENGINES, "NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED"),
        (nvml.DRIVER_NOT_LOADED, "NVML_ERROR_DRIVER_NOT_LOADED"),
        (nvml.FUNCTION_NOT_FOUND, "NVML_ERROR_FUNCTION_NOT_FOUND"),
        (nvml.CORRUPTED_INFOROM, "NVML_ERROR_CORRUPTED_INFOROM"),
        (nvml.LIB_RM_VERSION_MISMATCH, "NVML_ERROR_LIB_RM_VERSION_MISMATCH"),
        (gpu.FIELD_MEMORY_TEMP, "NVML_FI_DEV_MEMORY_TEMP"),
        (gpu.FIELD_NVLINK_COUNT, "NVML_FI_DEV_NVLINK_LINK_COUNT"),
        (gpu.FIELD_NVLINK_SPEED, "NVML_FI_DEV_NVLINK_GET_SPEED"),
        (gpu.FIELD_SHUTDOWN_TLIMIT, "NVML_FI_DEV_TEMPERATURE_SHUTDOWN_TLIMIT"),
        (gpu.FIELD_SLOWDOWN_TLIMIT, "NVML_FI_DEV_TEMPERATURE_SLOWDOWN_TLIMIT"),
        (gpu.FIELD_MEM_MAX_TLIMIT, "NVML_FI_DEV_TEMPERATURE_MEM_MAX_TLIMIT"),
        (gpu.FIELD_GPU_MAX_TLIMIT, "NVML_FI_DEV_TEMPERATURE_GPU_MAX_TLIMIT"),
        (gpu.FIELD_RECOVERY_ACTION, "NVML_FI_DEV_GET_GPU_RECOVERY_ACTION"),
        (gpu.CORRECTED, "NVML_MEMORY_ERROR_TYPE_CORRECTED"),
        (gpu.UNCORRECTED, "NVML_MEMORY_ERROR_TYPE_UNCORRECTED"),
        (gpu.VOLATILE, "NVML_VOLATILE_ECC"),
        (gpu.AGGREGATE, "NVML_AGGREGATE_ECC"),
        (gpu.DRAM, "NVML_MEMORY_LOCATION_DRAM"),
        (gpu.SRAM, "NVML_MEMORY_LOCATION_SRAM"),
        (gpu.MAX_NVLINKS, "NVML_NVLINK_MAX_LINKS"),
        (query.P2P_WRITE, "NVML_P2P_CAPS_INDEX_WRITE"),
        (query.P2P_NVLINK, "NVML_P2P_CAPS_INDEX_NVLINK"),
        (gpu.NVLINK_COUNTERS["replay"], "NVML_NVLINK_ERROR_DL_REPLAY"),
        (gpu.NVLINK_COUNTERS["recovery"], "NVML_NVLINK_ERROR_DL_RECOVERY"),
        (gpu.NVLINK_COUNTERS["crc_flit"], "NVML_NVLINK_ERROR_DL_CRC_FLIT"),
        (gpu.NVLINK_COUNTERS["crc_data"], "NVML_NVLINK_ERROR_DL_CRC_DATA"),
    ],
)
def test_number(ours, theirs):
    assert ours == getattr(pynvml, theirs)


def test_every_profile_that_nvidia_numbers_is_asked_for():
    assert mig_instances.PROFILES >= pynvml.NVML_GPU_INSTANCE_PROFILE_COUNT
    assert mig_instances.COMPUTE_PROFILES >= pynvml.NVML_COMPUTE_INSTANCE_PROFILE_COUNT


@pytest.mark.parametrize(
    ("names", "prefix"),
    [
        (gpu.ARCHITECTURES, "NVML_DEVICE_ARCH_"),
        (gpu.FABRIC_STATES, "NVML_GPU_FABRIC_STATE_"),
        (query.TOPOLOGY, "NVML_TOPOLOGY_"),
    ],
)
def test_names_of_numbers(names, prefix):
    for number, name in names.items():
        assert getattr(pynvml, prefix + name.upper()) == number


def test_value_members_follow_the_value_types():
    types = ["DOUBLE", "UNSIGNED_INT", "UNSIGNED_LONG", "UNSIGNED_LONG_LONG", "SIGNED_LONG_LONG", "SIGNED_INT"]
    numbers = [getattr(pynvml, f"NVML_VALUE_TYPE_{name}") for name in [*types, "UNSIGNED_SHORT"]]
    assert numbers == list(range(len(nvml.VALUE_MEMBERS)))
