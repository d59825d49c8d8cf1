/* Kernels compiled for the host: what they and the device "emulated" agree on. */
#ifndef BAYPLAN_EMULATED_H
#define BAYPLAN_EMULATED_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bp_emulated_launch {
    int64_t blocks[3], threads[3];
    uint64_t shared_bytes;
    const void *const *parameters; /* addresses of values */
    int32_t parameter_count;
} bp_emulated_launch;

typedef struct bp_emulated_kernel {
    const char *name;
    /* Runs all blocks; 0, or a negative result and why. */
    int32_t (*run)(const bp_emulated_launch *launch, char *why, uint64_t room);
    int32_t parameters;
} bp_emulated_kernel;

#ifdef __cplusplus
}
#endif
#endif
