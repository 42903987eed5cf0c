/* Reads one setting as an NVML function returns it.
 *
 * Every field is one setting, so every field can be given a value or made to fail, per GPU or for all:
 *   N/A      NVML_ERROR_NOT_SUPPORTED, as does a setting that is missing
 *   ABSENT   NVML_ERROR_FUNCTION_NOT_FOUND
 *   ERR:15   that return code
 * and absent_functions lists the functions that the loaded driver is too old for.
 */
#ifndef GPULAB_READING_H
#define GPULAB_READING_H

#include "nvml_types.h"

#define EXPORT __attribute__((visibility("default")))

struct nvmlDevice_st {
    int index;
};

extern struct nvmlDevice_st nvml_devices[];
extern int nvml_initialized;

/* The return code that a setting stands for; success for a value. */
nvmlReturn_t meaning(const char *value);

/* Whether the loaded driver lacks the function. */
int lacks(const char *function);

/* Whether NVML is initialised and the GPU is there and answers. */
nvmlReturn_t check_device(nvmlDevice_t device);

nvmlReturn_t read_text(nvmlDevice_t device, const char *key, const char **value);
nvmlReturn_t read_number(nvmlDevice_t device, const char *key, double *number);
nvmlReturn_t read_u64(nvmlDevice_t device, const char *key, uint64_t *number);
nvmlReturn_t read_u32(nvmlDevice_t device, const char *key, unsigned *number);

/* A setting in watts as NVML's milliwatts. */
nvmlReturn_t read_milliwatts(nvmlDevice_t device, const char *key, unsigned *milliwatts);

nvmlReturn_t copy_text(const char *value, char *buffer, unsigned size);

/* Set a field for later readers. set_KEY = ERR:3 makes that fail; KEPT makes it succeed and change nothing, HANG never
 * return. */
nvmlReturn_t store_text(nvmlDevice_t device, const char *key, const char *text);

/* Whether a program has a context on the GPU, which keeps it from changing over. */
int in_use(nvmlDevice_t device);

/* Whether Multi-Instance GPU is on. */
int in_instances(nvmlDevice_t device);

/* A MIG device is a handle that the functions of a whole GPU do not know. */
int is_mig_device(nvmlDevice_t device);
nvmlReturn_t mig_device_uuid(nvmlDevice_t device, char *buffer, unsigned size);
nvmlReturn_t mig_device_name(nvmlDevice_t device, char *buffer, unsigned size);
void uuid_of(int gpu, char *text);

/* Functions that are one setting. */
#define READ_TEXT(function, key) \
    EXPORT nvmlReturn_t function(nvmlDevice_t device, char *buffer, unsigned size) \
    { \
        const char *value; \
        nvmlReturn_t status = read_text(device, key, &value); \
        return status ? status : copy_text(value, buffer, size); \
    }
#define READ_U32(function, key) \
    EXPORT nvmlReturn_t function(nvmlDevice_t device, unsigned *number) \
    { \
        return read_u32(device, key, number); \
    }
#define READ_U64(function, key) \
    EXPORT nvmlReturn_t function(nvmlDevice_t device, uint64_t *number) \
    { \
        return read_u64(device, key, number); \
    }
#define READ_MILLIWATTS(function, key) \
    EXPORT nvmlReturn_t function(nvmlDevice_t device, unsigned *milliwatts) \
    { \
        return read_milliwatts(device, key, milliwatts); \
    }
#define READ_TWO_U32(function, first_key, second_key) \
    EXPORT nvmlReturn_t function(nvmlDevice_t device, unsigned *first, unsigned *second) \
    { \
        nvmlReturn_t status = read_u32(device, first_key, first); \
        return status ? status : read_u32(device, second_key, second); \
    }

#endif
