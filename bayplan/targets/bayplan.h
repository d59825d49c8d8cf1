/* Bayplan: what an emitted program shares with its callers and with the runtime.
 *
 * Each emitted file contains this text, so it needs no other file of ours. A C caller includes it
 * (or the emitted file's own copy) to fill buffers and to give a context.
 */
#ifndef BAYPLAN_H
#define BAYPLAN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Buffers: the memory layout of halide_buffer_t, so that existing callers can link. */

enum { BP_INT = 0, BP_UINT = 1, BP_FLOAT = 2, BP_HANDLE = 3 };

typedef struct bp_type {
    uint8_t code; /* BP_INT, ... */
    uint8_t bits; /* 1 for bool */
    uint16_t lanes;
} bp_type;

typedef struct bp_dim {
    int32_t min, extent, stride; /* stride in elements */
    uint32_t flags;
} bp_dim;

/* bp_buffer.flags. Bits 0 and 1: which bytes are newer, where there are two of them. */
enum { BP_HOST_DIRTY = 1, BP_DEVICE_DIRTY = 2, BP_NO_VALUES = 256 /* nobody wrote it yet */ };

typedef struct bp_buffer {
    uint64_t device;              /* its twin on a device, a bp_twin *; 0: it has none */
    const void *device_interface; /* of the twin, a bp_device * */
    uint8_t *host; /* the element at the minimum of every dimension */
    uint64_t flags;
    bp_type type;
    int32_t dimensions;
    bp_dim *dim;
    void *padding;
} bp_buffer;

/* Values of errors and prints. */

enum { BP_ARG_INT, BP_ARG_UINT, BP_ARG_DOUBLE, BP_ARG_FLOAT, BP_ARG_STRING, BP_ARG_POINTER };

typedef struct bp_arg {
    int64_t kind;
    union {
        int64_t i;
        uint64_t u;
        double d;
        const char *s;
        const void *p;
    } as;
} bp_arg;

/* A place at which a call can end with an error. */
typedef struct bp_site {
    const char *code;    /* "BP-B002" */
    const char *message; /* {0}, {1}, ... stand for the arguments */
    const char *file;    /* the user's file, or "" */
    int32_t line;
    int32_t result; /* what the entry point returns, negative */
} bp_site;

enum {
    BP_OK = 0,
    BP_ERROR = -1,
    BP_OUT_OF_MEMORY = -2,
    BP_CANCELLED = -3,
    BP_WORKSPACE_TOO_SMALL = -4
};
enum { BP_MAX_ARGS = 12 };

typedef struct bp_error {
    const bp_site *site; /* NULL: no error */
    int32_t index;       /* of the site in its program's table */
    int32_t count;       /* of args */
    bp_arg args[BP_MAX_ARGS];
} bp_error;

/* The context of a call: where memory, workers and messages come from. */

typedef struct bp_context bp_context;
typedef struct bp_device bp_device; /* see bayplan_device.h */

/* Runs the iterations begin <= i < end of a parallel loop; 0 or a negative result. Tasks of one loop
 * that run at the same time have different slots. */
typedef int32_t (*bp_task)(bp_context *ctx, int32_t begin, int32_t end, int32_t slot,
                           void *closure);

struct bp_context {
    /* Memory of a temporary, or NULL. `alignment` is what speed wants; the program needs no more
     * than the alignment of its elements. */
    void *(*alloc)(bp_context *ctx, uint64_t bytes, uint64_t alignment, const char *name);
    void (*release)(bp_context *ctx, void *block, const char *name);
    /* Runs all iterations, at most `slots` tasks at once; each running task has a slot of its own
     * from 0 to slots - 1. */
    int32_t (*parallel_for)(bp_context *ctx, bp_task task, int32_t min, int32_t extent,
                            int32_t slots, void *closure);
    /* One line: the arguments in order, a space between each two. */
    void (*print)(bp_context *ctx, const bp_arg *args, int32_t count);
    /* Programs built with the feature `profile`: the life of a temporary inside an arena begins
     * (1) or ends (0). A life that an error cuts off has no end. NULL: nobody is told. */
    void (*mark)(bp_context *ctx, int32_t begins, const char *name, uint64_t bytes,
                 const void *address);
    /* Programs with kernels: the device for "opencl", "cuda" or "emulated"; NULL, and why. */
    bp_device *(*find_device)(bp_context *ctx, const char *api, const char **why);
    void *user;
    int32_t workers;   /* most tasks of one loop at once, constant in a call; 0 counts as 1 */
    int32_t cancelled; /* nonzero: end the call at the next iteration of an outer loop */
    int32_t failed;    /* nonzero: `error` is taken; the first error wins */
    bp_error error;
};

/* What the runtime gives to C callers; a library that is built with it has these. */

/* The context of this thread's calls of programs that take none. */
bp_context *bp_default_context(void);
/* Writes the error of the last call as a text that ends with 0; the bytes it needs, 0: no error. */
uint64_t bp_format_error(const bp_context *ctx, char *out, uint64_t room);
/* Threads of a parallel loop, caller included; 0: one a processor. Gives the number before. */
int32_t bp_rt_set_num_threads(int32_t threads);
/* Gives the memory that is kept for later calls back to the system; the bytes that were kept. */
uint64_t bp_rt_trim(void);
/* The most bytes that are used and kept together, 0: no limit. Gives the limit before. */
uint64_t bp_rt_set_memory_limit(uint64_t bytes);

/* Buffers with a twin on a device: 0, or a negative result and the text of the last line. */

/* The host's bytes become true, if the device's are newer. */
int32_t bp_copy_to_host(bp_buffer *buffer);
/* The device's bytes become true, if the host's are newer. */
int32_t bp_copy_to_device(bp_buffer *buffer);
/* Waits for all that the buffer's device has to do. */
int32_t bp_device_sync(bp_buffer *buffer);
/* Gives the twin back, with its values. */
void bp_device_free(bp_buffer *buffer);
const char *bp_device_message(void);

#ifdef __cplusplus
}
#endif
#endif
