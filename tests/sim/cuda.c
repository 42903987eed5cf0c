/* libcuda.so.1 of a simulated node: the part of the CUDA driver API that a smoke test needs, on host memory.
 *
 * Kernels are not interpreted: a module is searched for ".entry NAME(" and NAME must be one of KERNELS below, which
 * are computed here in C. Times are those that the settings' bandwidths give. Settings, besides those of NVML:
 *   cuda.FUNCTION = 802          that function fails with this CUresult; gpu.3.cuda.FUNCTION for one GPU
 *   cuda.FUNCTION = HANG         that function never returns
 *   gpu.3.cuda_wrong_results     so many elements of a kernel's result are wrong
 *   gpu.3.cuda_corrupt_copy      a byte is wrong in copies to the host of at least so many bytes
 *   gpu.3.peer_copy.5 = 719      copies from GPU 3 to GPU 5 fail with this CUresult; HANG: they never end
 *   gpu.3.peer_wrong.5 = byte    straight copies from GPU 3 to GPU 5 arrive with a wrong byte; nothing: not at all
 *   gpu.*.copy_to_device_gbs, copy_to_host_gbs, memory_gbs, peer_gbs; gpu.3.peer_gbs.5 for one pair
 *   rates_declared = 1           these bandwidths are meant as a GPU's: a proof may judge them
 */
#define _GNU_SOURCE
#include "settings.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define EXPORT __attribute__((visibility("default")))

typedef int CUresult;
typedef int CUdevice;
typedef uint64_t CUdeviceptr;
typedef struct context *CUcontext;
typedef const struct kernel *CUfunction;
typedef char *CUmodule; /* its text */
typedef struct event {
    double milliseconds;
} *CUevent;
typedef struct stream *CUstream;

enum {
    CUDA_SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_IMAGE = 200,
    INVALID_CONTEXT = 201,
    PEER_ACCESS_UNSUPPORTED = 217,
    INVALID_PTX = 218,
    NOT_FOUND = 500,
    PEER_ACCESS_ALREADY_ENABLED = 704,
    PEER_ACCESS_NOT_ENABLED = 705,
    SYSTEM_NOT_READY = 802,
    SYSTEM_DRIVER_MISMATCH = 803,
};

static struct context {
    int gpu;
    char open_to[MAX_GPUS]; /* peers whose memory it may reach */
} contexts[MAX_GPUS];
static CUcontext current;
static int initialized;
static double clock_ms; /* simulated time */

/* ---- Failures ---- */

static CUresult failure(const char *value)
{
    if (value && !strcmp(value, "HANG"))
        simulate_hang();
    return value ? (CUresult)strtol(value, NULL, 0) : CUDA_SUCCESS;
}

static CUresult injected(int gpu, const char *function)
{
    char key[80];
    snprintf(key, sizeof key, "cuda.%s", function);
    const char *value = gpu < 0 ? NULL : gpu_setting(gpu, key);
    return failure(value ? value : node_setting(key));
}

/* What every call that works on a GPU begins with. */
static CUresult begin(const char *function)
{
    if (!initialized)
        return NOT_INITIALIZED;
    if (!current)
        return INVALID_CONTEXT;
    simulate_wait(current->gpu);
    return injected(current->gpu, function);
}

#define BEGIN()                               \
    do {                                      \
        CUresult status_ = begin(__func__);   \
        if (status_)                          \
            return status_;                   \
    } while (0)

static const struct {
    CUresult code;
    const char *name, *text;
} ERRORS[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {46, "CUDA_ERROR_DEVICE_UNAVAILABLE", "CUDA-capable device(s) is/are busy or unavailable"},
    {NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {214, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered"},
    {PEER_ACCESS_UNSUPPORTED, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", "peer access is not supported between these two devices"},
    {INVALID_PTX, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {PEER_ACCESS_ALREADY_ENABLED, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access is already enabled"},
    {PEER_ACCESS_NOT_ENABLED, "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED", "peer access has not been enabled"},
    {710, "CUDA_ERROR_ASSERT", "device-side assert triggered"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {SYSTEM_NOT_READY, "CUDA_ERROR_SYSTEM_NOT_READY", "system not yet initialized"},
    {SYSTEM_DRIVER_MISMATCH, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "system has unsupported display driver / cuda driver combination"},
    {999, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

static CUresult describe(CUresult code, const char **name, const char **text)
{
    for (size_t i = 0; i < sizeof ERRORS / sizeof *ERRORS; i++)
        if (ERRORS[i].code == code) {
            *name = ERRORS[i].name;
            *text = ERRORS[i].text;
            return CUDA_SUCCESS;
        }
    *name = *text = NULL;
    return INVALID_VALUE;
}

EXPORT CUresult cuGetErrorName(CUresult code, const char **name)
{
    const char *text;
    return describe(code, name, &text);
}

EXPORT CUresult cuGetErrorString(CUresult code, const char **text)
{
    const char *name;
    return describe(code, &name, text);
}

/* ---- System and devices ---- */

/* A GPU behind NVSwitches works only after the fabric manager registered it. */
static int fabric_is_ready(int gpu)
{
    enum { COMPLETED = 3 };
    const char *state = gpu_setting(gpu, "fabric_state");
    return !state || !strcmp(state, "N/A") || atoi(state) == COMPLETED;
}

EXPORT CUresult cuInit(unsigned flags)
{
    enum { NVML_VERSION_MISMATCH = 18 };
    (void)flags;
    settings_read();
    simulate_wait(-1);
    CUresult status = injected(-1, __func__);
    if (status)
        return status;
    if (node_number("init", 0) == NVML_VERSION_MISMATCH)
        return SYSTEM_DRIVER_MISMATCH;
    if (node_number("init", 0) || !gpu_count())
        return NO_DEVICE;
    for (int gpu = 0; gpu < gpu_count(); gpu++) {
        if (!fabric_is_ready(gpu))
            return SYSTEM_NOT_READY;
        contexts[gpu].gpu = gpu;
    }
    initialized = 1;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDriverGetVersion(int *version)
{
    settings_read();
    *version = (int)node_number("cuda_version", 0);
    return CUDA_SUCCESS;
}

static CUresult check_device(CUdevice device, const char *function)
{
    if (!initialized)
        return NOT_INITIALIZED;
    return device < 0 || device >= gpu_count() ? INVALID_DEVICE : injected(device, function);
}

EXPORT CUresult cuDeviceGetCount(int *count)
{
    *count = initialized ? gpu_count() : 0;
    return initialized ? injected(-1, __func__) : NOT_INITIALIZED;
}

EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    *device = ordinal;
    return check_device(ordinal, __func__);
}

EXPORT CUresult cuDeviceGetName(char *name, int size, CUdevice device)
{
    const char *value = gpu_setting(device, "name");
    snprintf(name, (size_t)size, "%s", value ? value : "");
    return check_device(device, __func__);
}

/* The 16 bytes that NVML writes as GPU-xxxxxxxx-xxxx-... */
EXPORT CUresult cuDeviceGetUuid_v2(unsigned char uuid[16], CUdevice device)
{
    char text[64];
    const char *set = gpu_setting(device, "uuid"), *at = text + strlen("GPU-");
    snprintf(text, sizeof text, "GPU-51301a7e-0000-4000-8000-%012x", (unsigned)device);
    if (set)
        snprintf(text, sizeof text, "%s", set);
    for (int i = 0; i < 16; i++, at += 2) {
        unsigned byte = 0;
        at += *at == '-';
        sscanf(at, "%2x", &byte);
        uuid[i] = (unsigned char)byte;
    }
    return check_device(device, __func__);
}

EXPORT CUresult cuDeviceGetUuid(unsigned char uuid[16], CUdevice device)
{
    return cuDeviceGetUuid_v2(uuid, device);
}

EXPORT CUresult cuDeviceGetByPCIBusId(CUdevice *device, const char *address)
{
    if (!initialized)
        return NOT_INITIALIZED;
    for (*device = 0; *device < gpu_count(); ++*device) {
        const char *value = gpu_setting(*device, "address");
        if (value && !strcasecmp(value, address))
            return injected(*device, __func__);
    }
    return INVALID_DEVICE;
}

EXPORT CUresult cuDeviceGetPCIBusId(char *address, int size, CUdevice device)
{
    const char *value = gpu_setting(device, "address");
    snprintf(address, (size_t)size, "%s", value ? value : "");
    return check_device(device, __func__);
}

EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    *bytes = (size_t)gpu_number(device, "memory_mib", 0) << 20;
    return check_device(device, __func__);
}

EXPORT CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device)
{
    enum { MULTIPROCESSOR_COUNT = 16, COMPUTE_MODE = 20, L2_CACHE_SIZE = 38, MAJOR = 75, MINOR = 76 };
    enum { CORES_PER_MULTIPROCESSOR = 128, SMALL_L2 = 1 << 16 }; /* small: kernels are computed on the host */
    int major = 0, minor = 0;
    const char *capability = gpu_setting(device, "compute_capability");
    CUresult status = check_device(device, __func__);
    if (capability)
        sscanf(capability, "%d.%d", &major, &minor);
    *value = 0;
    if (attribute == MAJOR)
        *value = major;
    else if (attribute == MINOR)
        *value = minor;
    else if (attribute == COMPUTE_MODE)
        *value = (int)gpu_number(device, "compute_mode", 0);
    else if (attribute == L2_CACHE_SIZE)
        *value = SMALL_L2;
    else if (attribute == MULTIPROCESSOR_COUNT)
        *value = (int)gpu_number(device, "cores", 0) / CORES_PER_MULTIPROCESSOR;
    return status;
}

/* As NVML tells it: status 0 is "ok". */
static int reaches(CUdevice device, CUdevice peer)
{
    return device != peer && gpu_number(device, "p2p", 1) == 0 && gpu_number(peer, "p2p", 1) == 0;
}

EXPORT CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
    *can = reaches(device, peer);
    CUresult status = check_device(device, __func__);
    return status ? status : check_device(peer, __func__);
}

/* ---- Contexts ---- */

EXPORT CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device)
{
    (void)flags;
    CUresult status = check_device(device, __func__);
    if (status)
        return status;
    simulate_wait(device);
    *context = current = &contexts[device];
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    CUresult status = check_device(device, __func__);
    if (!status) {
        simulate_wait(device);
        *context = &contexts[device];
    }
    return status;
}

EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    return check_device(device, __func__);
}

EXPORT CUresult cuCtxSetCurrent(CUcontext context)
{
    current = context;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetCurrent(CUcontext *context)
{
    *context = current;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxDestroy_v2(CUcontext context)
{
    if (current == context)
        current = NULL;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxSynchronize(void)
{
    BEGIN();
    return CUDA_SUCCESS;
}

/* ---- Memory: device pointers are host pointers ---- */

static void take_time(double bytes, const char *bandwidth)
{
    double gbs = gpu_number(current->gpu, bandwidth, 10);
    clock_ms += bytes / (gbs > 0 ? gbs : 10) / 1e6;
}

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes)
{
    BEGIN();
    if ((double)bytes > gpu_number(current->gpu, "memory_mib", 0) * 1048576)
        return OUT_OF_MEMORY;
    *pointer = (CUdeviceptr)(uintptr_t)malloc(bytes);
    return *pointer ? CUDA_SUCCESS : OUT_OF_MEMORY;
}

EXPORT CUresult cuMemFree_v2(CUdeviceptr pointer)
{
    free((void *)(uintptr_t)pointer);
    BEGIN();
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemGetInfo_v2(size_t *available, size_t *total)
{
    BEGIN();
    *total = (size_t)gpu_number(current->gpu, "memory_mib", 0) << 20;
    *available = *total - ((size_t)gpu_number(current->gpu, "memory_used_mib", 0) << 20);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemHostAlloc(void **pointer, size_t bytes, unsigned flags)
{
    (void)flags;
    BEGIN();
    *pointer = malloc(bytes);
    return *pointer ? CUDA_SUCCESS : OUT_OF_MEMORY;
}

EXPORT CUresult cuMemAllocHost_v2(void **pointer, size_t bytes)
{
    return cuMemHostAlloc(pointer, bytes, 0);
}

EXPORT CUresult cuMemFreeHost(void *pointer)
{
    free(pointer);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes)
{
    BEGIN();
    memcpy((void *)(uintptr_t)to, from, bytes);
    take_time((double)bytes, "copy_to_device_gbs");
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes)
{
    BEGIN();
    memcpy(to, (const void *)(uintptr_t)from, bytes);
    double corrupt = gpu_number(current->gpu, "cuda_corrupt_copy", 0);
    if (corrupt > 0 && (double)bytes >= corrupt)
        ((char *)to)[bytes / 2] ^= 1;
    take_time((double)bytes, "copy_to_host_gbs");
    return CUDA_SUCCESS;
}

/* Reads and writes: twice the bytes pass through the memory. */
EXPORT CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    BEGIN();
    memcpy((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
    take_time(2.0 * (double)bytes, "memory_gbs");
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    (void)stream;
    return cuMemcpyHtoD_v2(to, from, bytes);
}

EXPORT CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    (void)stream;
    return cuMemcpyDtoH_v2(to, from, bytes);
}

EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    (void)stream;
    return cuMemcpyDtoD_v2(to, from, bytes);
}

EXPORT CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned value, size_t count)
{
    BEGIN();
    for (size_t i = 0; i < count; i++)
        ((unsigned *)(uintptr_t)to)[i] = value;
    take_time(4.0 * (double)count, "memory_gbs");
    return CUDA_SUCCESS;
}

/* ---- Copies between GPUs ---- */

EXPORT CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags)
{
    (void)flags;
    BEGIN();
    if (!peer || !reaches(current->gpu, peer->gpu))
        return PEER_ACCESS_UNSUPPORTED;
    if (current->open_to[peer->gpu])
        return PEER_ACCESS_ALREADY_ENABLED;
    current->open_to[peer->gpu] = 1;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxDisablePeerAccess(CUcontext peer)
{
    BEGIN();
    if (!peer || !current->open_to[peer->gpu])
        return PEER_ACCESS_NOT_ENABLED;
    current->open_to[peer->gpu] = 0;
    return CUDA_SUCCESS;
}

/* A setting of an ordered pair, gpu.3.KEY.5, else that of the first GPU, gpu.3.KEY. */
static const char *pair_setting(int from, int to, const char *key)
{
    char one[80];
    snprintf(one, sizeof one, "%s.%d", key, to);
    const char *value = gpu_setting(from, one);
    return value ? value : gpu_setting(from, key);
}

/* Straight where the source is open to the target, else through the host: two copies, of which the slower one counts. */
EXPORT CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes)
{
    BEGIN();
    if (!to_context || !from_context)
        return INVALID_CONTEXT;
    int source = from_context->gpu, target = to_context->gpu;
    CUresult status = failure(pair_setting(source, target, "peer_copy"));
    if (status)
        return status;
    int straight = from_context->open_to[target];
    const char *wrong = straight ? pair_setting(source, target, "peer_wrong") : NULL;
    if (!wrong || strcmp(wrong, "nothing"))
        memcpy((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
    if (wrong && !strcmp(wrong, "byte"))
        ((char *)(uintptr_t)to)[bytes / 2] ^= 1;
    const char *rate = straight ? pair_setting(source, target, "peer_gbs") : NULL;
    double up = gpu_number(target, "copy_to_device_gbs", 10), down = gpu_number(source, "copy_to_host_gbs", 10);
    double gbs = rate ? strtod(rate, NULL) : up < down ? up : down;
    clock_ms += (double)bytes / (gbs > 0 ? gbs : 10) / 1e6;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
                                  size_t bytes, CUstream stream)
{
    (void)stream;
    return cuMemcpyPeer(to, to_context, from, from_context, bytes);
}

/* ---- Streams and events: everything happens at once, in simulated time ---- */

EXPORT CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
    (void)flags;
    BEGIN();
    *stream = NULL; /* the default stream */
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamSynchronize(CUstream stream)
{
    (void)stream;
    BEGIN();
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamDestroy_v2(CUstream stream)
{
    (void)stream;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventCreate(CUevent *event, unsigned flags)
{
    (void)flags;
    BEGIN();
    *event = calloc(1, sizeof **event);
    return *event ? CUDA_SUCCESS : OUT_OF_MEMORY;
}

EXPORT CUresult cuEventRecord(CUevent event, CUstream stream)
{
    (void)stream;
    BEGIN();
    event->milliseconds = clock_ms;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventSynchronize(CUevent event)
{
    (void)event;
    BEGIN();
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end)
{
    BEGIN();
    *milliseconds = (float)(end->milliseconds - start->milliseconds);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventDestroy_v2(CUevent event)
{
    free(event);
    return CUDA_SUCCESS;
}

/* ---- Modules and kernels ---- */

#define ARGUMENT(type, arguments, index) (*(type *)(arguments)[index])

/* What a kernel did: the array it wrote, and how many elements each of the arrays has that it moved. */
struct work {
    float *result;
    unsigned count;
    int arrays;
};

/* out[i] = a[i] + b[i], i < n */
static struct work add(void **arguments)
{
    const float *a = ARGUMENT(float *, arguments, 0), *b = ARGUMENT(float *, arguments, 1);
    float *out = ARGUMENT(float *, arguments, 2);
    unsigned count = ARGUMENT(unsigned, arguments, 3);
    for (unsigned i = 0; i < count; i++)
        out[i] = a[i] + b[i];
    return (struct work){out, count, 3};
}

/* y[i] = a * x[i] + y[i], i < n */
static struct work saxpy(void **arguments)
{
    const float *x = ARGUMENT(float *, arguments, 0);
    float *y = ARGUMENT(float *, arguments, 1), a = ARGUMENT(float, arguments, 2);
    unsigned count = ARGUMENT(unsigned, arguments, 3);
    for (unsigned i = 0; i < count; i++)
        y[i] = a * x[i] + y[i];
    return (struct work){y, count, 3};
}

/* out[i] = a[i] + s * b[i], i < n */
static struct work triad(void **arguments)
{
    float *out = ARGUMENT(float *, arguments, 0), scale = ARGUMENT(float, arguments, 3);
    const float *a = ARGUMENT(float *, arguments, 1), *b = ARGUMENT(float *, arguments, 2);
    unsigned count = ARGUMENT(unsigned, arguments, 4);
    for (unsigned i = 0; i < count; i++)
        out[i] = a[i] + scale * b[i];
    return (struct work){out, count, 3};
}

/* *total += how many words of data are not this one, i < n */
static struct work differing(void **arguments)
{
    unsigned *total = ARGUMENT(unsigned *, arguments, 0), word = ARGUMENT(unsigned, arguments, 2);
    const unsigned *data = ARGUMENT(unsigned *, arguments, 1);
    unsigned count = ARGUMENT(unsigned, arguments, 3);
    for (unsigned i = 0; i < count; i++)
        *total += data[i] != word;
    return (struct work){NULL, count, 1};
}

static const struct kernel {
    const char *name;
    struct work (*run)(void **arguments);
} KERNELS[] = {{"add", add}, {"saxpy", saxpy}, {"triad", triad}, {"differing", differing}};
enum { ELEMENT = 4 };

EXPORT CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    BEGIN();
    if (!strstr(image, ".entry"))
        return INVALID_PTX;
    *module = strdup(image);
    return *module ? CUDA_SUCCESS : OUT_OF_MEMORY;
}

EXPORT CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count, int *options, void **values)
{
    (void)count;
    (void)options;
    (void)values;
    return cuModuleLoadData(module, image);
}

EXPORT CUresult cuModuleUnload(CUmodule module)
{
    free(module);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    char entry[128];
    BEGIN();
    snprintf(entry, sizeof entry, ".entry %s(", name);
    for (size_t i = 0; i < sizeof KERNELS / sizeof *KERNELS; i++)
        if (!strcmp(KERNELS[i].name, name) && strstr(module, entry)) {
            *function = &KERNELS[i];
            return CUDA_SUCCESS;
        }
    return NOT_FOUND;
}

EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                               unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared, CUstream stream,
                               void **arguments, void **extra)
{
    (void)shared;
    (void)stream;
    (void)extra;
    BEGIN();
    if (!grid_x || !grid_y || !grid_z || !block_x || !block_y || !block_z)
        return INVALID_VALUE;
    struct work work = function->run(arguments);
    unsigned wrong = (unsigned)gpu_number(current->gpu, "cuda_wrong_results", 0);
    for (unsigned i = 0; work.result && i < wrong && i < work.count; i++)
        work.result[work.count - 1 - i] += 1;
    take_time((double)work.count * work.arrays * ELEMENT, "memory_gbs");
    return CUDA_SUCCESS;
}

/* ---- What only a simulated driver has ---- */

EXPORT int gpulab_rates_declared(void)
{
    return node_number("rates_declared", 0) != 0;
}
