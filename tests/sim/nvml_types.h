/* The types of NVML's public interface that the simulation fills. Layouts: nvidia-ml-py 13.615.71. */
#ifndef GPULAB_NVML_TYPES_H
#define GPULAB_NVML_TYPES_H

#include <stdint.h>

typedef int nvmlReturn_t;
typedef struct nvmlDevice_st *nvmlDevice_t;

enum {
    SUCCESS = 0,
    UNINITIALIZED = 1,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NO_PERMISSION = 4,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    LIBRARY_NOT_FOUND = 12,
    FUNCTION_NOT_FOUND = 13,
    LIB_RM_VERSION_MISMATCH = 18,
    IN_USE = 19,
    INSUFFICIENT_RESOURCES = 23,
    ARGUMENT_VERSION_MISMATCH = 25,
    UNKNOWN = 999,
};

/* A versioned structure names its size and version in its first word. */
#define VERSION(type, number) ((unsigned)sizeof(type) | (unsigned)(number) << 24)

typedef struct {
    uint64_t total, free, used;
} nvmlMemory_t;

typedef struct {
    unsigned version;
    uint64_t total, reserved, free, used;
} nvmlMemory_v2_t;

typedef struct {
    uint64_t total, free, used;
} nvmlBAR1Memory_t;

typedef struct {
    char busIdLegacy[16];
    unsigned domain, bus, device, pciDeviceId, pciSubSystemId;
    char busId[32];
} nvmlPciInfo_t;

typedef struct {
    unsigned version, domain, bus, device, pciDeviceId, pciSubSystemId, baseClass, subClass;
    char busId[32];
} nvmlPciInfoExt_t;

typedef struct {
    unsigned gpu, memory;
} nvmlUtilization_t;

typedef struct {
    unsigned version, sensor;
    int temperature;
} nvmlTemperature_t;

typedef struct {
    unsigned version;
    int margin;
} nvmlMarginTemperature_t;

typedef struct {
    uint64_t l1Cache, l2Cache, deviceMemory, registerFile;
} nvmlEccErrorCounts_t;

typedef struct {
    unsigned version;
    uint64_t aggregateUncParity, aggregateUncSecDed, aggregateCor;
    uint64_t volatileUncParity, volatileUncSecDed, volatileCor;
    uint64_t bucketL2, bucketSm, bucketPcie, bucketMcu, bucketOther;
    unsigned thresholdExceeded;
} nvmlEccSramErrorStatus_t;

typedef struct {
    unsigned max, high, partial, low, none;
} nvmlRowRemapperHistogramValues_t;

typedef struct {
    unsigned char clusterUuid[16];
    nvmlReturn_t status;
    unsigned cliqueId;
    unsigned char state;
} nvmlGpuFabricInfo_t;

typedef struct {
    unsigned version;
    unsigned char clusterUuid[16];
    nvmlReturn_t status;
    unsigned cliqueId;
    unsigned char state;
    unsigned healthMask;
} nvmlGpuFabricInfo_v2_t;

typedef struct {
    unsigned version;
    unsigned char clusterUuid[16];
    nvmlReturn_t status;
    unsigned cliqueId;
    unsigned char state;
    unsigned healthMask;
    unsigned char healthSummary;
} nvmlGpuFabricInfo_v3_t;

typedef struct {
    unsigned fieldId, scopeId;
    int64_t timestamp, latencyUsec;
    unsigned valueType;
    nvmlReturn_t nvmlReturn;
    union {
        double dVal;
        unsigned uiVal;
        int siVal;
        uint64_t ullVal;
    } value;
} nvmlFieldValue_t;

typedef struct {
    unsigned pid;
    uint64_t usedGpuMemory;
    unsigned gpuInstanceId, computeInstanceId;
} nvmlProcessInfo_t;

typedef struct {
    uint64_t referenceTime, violationTime;
} nvmlViolationTime_t;

/* Multi-Instance GPU */
typedef struct nvmlGpuInstance_st *nvmlGpuInstance_t;
typedef struct nvmlComputeInstance_st *nvmlComputeInstance_t;

typedef struct {
    unsigned start, size;
} nvmlGpuInstancePlacement_t, nvmlComputeInstancePlacement_t;

typedef struct {
    unsigned version, id, isP2pSupported, sliceCount, instanceCount, multiprocessorCount, copyEngineCount;
    unsigned decoderCount, encoderCount, jpegCount, ofaCount;
    uint64_t memorySizeMB;
    char name[96];
} nvmlGpuInstanceProfileInfo_v2_t;

typedef struct {
    nvmlDevice_t device;
    unsigned id, profileId;
    nvmlGpuInstancePlacement_t placement;
} nvmlGpuInstanceInfo_t;

typedef struct {
    unsigned version, id, sliceCount, instanceCount, multiprocessorCount, sharedCopyEngineCount, sharedDecoderCount;
    unsigned sharedEncoderCount, sharedJpegCount, sharedOfaCount;
    char name[96];
} nvmlComputeInstanceProfileInfo_v2_t;

typedef struct {
    nvmlDevice_t device;
    nvmlGpuInstance_t gpuInstance;
    unsigned id, profileId;
    nvmlComputeInstancePlacement_t placement;
} nvmlComputeInstanceInfo_t;

#endif
