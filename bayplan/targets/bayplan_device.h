/* Bayplan: devices, as programs with kernels and their callers see them. */
#ifndef BAYPLAN_DEVICE_H
#define BAYPLAN_DEVICE_H

#include "bayplan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Memory of a device. */
typedef struct bp_device_pointer {
    uint64_t base;   /* a cl_mem, a CUdeviceptr, or an address */
    uint64_t offset; /* bytes from there */
    void *block;     /* of the device's pool, NULL: somebody else's memory */
    bp_device *device;
} bp_device_pointer;

/* What bp_buffer.device is the address of: the twin of the buffer's lowest byte, and its bytes. */
typedef struct bp_twin {
    bp_device_pointer at;
    uint64_t bytes;
    int32_t borrowed; /* the memory and this record belong to somebody else */
} bp_twin;

/* Bytes with gaps: `chunk` bytes, repeated along dimensions of positive strides, innermost first. */
enum { BP_MAX_REGION = 16 };
typedef struct bp_region {
    uint64_t chunk;
    int32_t dimensions;
    uint64_t count[BP_MAX_REGION], stride[BP_MAX_REGION]; /* in bytes, the same on both sides */
} bp_region;

/* Kernels of one program, as source for the device's compiler. */
typedef struct bp_module {
    const char *name;
    const char *api; /* "opencl", "cuda", "emulated" */
    const char *source;
    const char *options; /* of that compiler */
    const char *key;     /* different for different sources */
    /* Compiled already, or NULL: PTX, or "emulated" kernels (a table; their number, not bytes). */
    const void *binary;
    uint64_t binary_bytes;
    void *state; /* the runtime's */
} bp_module;

enum { BP_KERNEL_VALUE, BP_KERNEL_MEMORY };
typedef struct bp_kernel_arg {
    int32_t kind;
    int32_t bytes;       /* of a value */
    uint64_t value;      /* its bytes, as they lie in memory */
    bp_device_pointer at; /* two parameters of the kernel: a pointer, and int64_t bytes */
} bp_kernel_arg;

typedef struct bp_launch {
    bp_module *module;
    const char *kernel;
    int64_t blocks[3], threads[3]; /* x, y, z */
    uint64_t shared_bytes;         /* of a block, all of them */
    uint64_t dynamic_bytes;        /* those that the kernel does not declare itself */
    const bp_kernel_arg *args;
    int32_t count;
} bp_launch;

typedef struct bp_device_limits {
    uint64_t shared_bytes;        /* of a block, without asking */
    uint64_t shared_bytes_opt_in; /* of a block that asks for more; 0: none may */
    uint64_t memory_bytes;
    int64_t threads;          /* of a block */
    int64_t block_threads[3]; /* of a block, along x, y, z */
    int64_t blocks[3];
    int32_t lanes; /* threads that run in step; 0: not known */
} bp_device_limits;

/* Functions give 0, or a negative result and a text that stays for the next 64 failures. Commands
 * run in the order of the calls, later than these; `copy` waits for its own end. */
struct bp_device {
    const char *api, *name;
    bp_device_limits limits;
    int32_t (*allocate)(bp_device *d, uint64_t bytes, bp_device_pointer *out, const char **why);
    void (*release)(bp_device_pointer *pointer);
    int32_t (*copy)(bp_device *d, bp_device_pointer at, void *host, const bp_region *region,
                    int32_t to_device, const char **why);
    int32_t (*launch)(bp_device *d, const bp_launch *launch, const char **why);
    int32_t (*synchronize)(bp_device *d, const char **why);
    /* Buffers: make a twin if there is none and bring what is newer on the other side. */
    int32_t (*to_device)(bp_device *d, bp_buffer *buffer, const char **why);
    int32_t (*to_host)(bp_device *d, bp_buffer *buffer, const char **why);
    void (*forget)(bp_device *d, bp_buffer *buffer); /* gives the memory of the twin back */
};

#ifdef __cplusplus
}
#endif
#endif
