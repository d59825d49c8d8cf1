/* Devices: what the drivers (opencl.c, cuda.c, emulated.c) and what is common to them share. */
#ifndef BAYPLAN_RT_DEVICE_H
#define BAYPLAN_RT_DEVICE_H

#include "bayplan_device.h"
#include "device_pool.h"
#include "runtime.h"

#include <sys/types.h>

typedef struct bp_rt_device bp_rt_device;
typedef struct bp_program bp_program;

/* What a driver does. Queues are its own, in order; NULL is its default one. */
typedef struct bp_driver {
    /* Memory without a pool; NULL: there is none. */
    void *(*take)(bp_rt_device *d, uint64_t bytes);
    void (*give)(bp_rt_device *d, void *memory);
    /* Copies one box of at most three dimensions: chunk, and the first two of the region. */
    int32_t (*copy)(bp_rt_device *d, void *queue, uint64_t base, uint64_t offset, char *host,
                    const bp_region *box, int32_t to_device, const char **why);
    /* The kernels of a module, compiled; NULL and why. */
    void *(*build)(bp_rt_device *d, const bp_module *module, const char **why);
    void (*drop)(bp_rt_device *d, void *program);
    /* `event`: a place behind the kernel in the queue, or NULL where nothing waits. */
    int32_t (*launch)(bp_rt_device *d, void *queue, void *program, const bp_launch *launch,
                      void **event, const char **why);
    int32_t (*synchronize)(bp_rt_device *d, void *queue, const char **why);
    /* Another owner of the event. */
    void *(*keep_event)(bp_rt_device *d, void *event);
    int32_t (*is_done)(bp_rt_device *d, void *event);
    void (*wait_in_queue)(bp_rt_device *d, void *queue, void *event);
    void (*wait_on_host)(bp_rt_device *d, void *event);
    void (*drop_event)(bp_rt_device *d, void *event);
    void (*close)(bp_rt_device *d);
    int32_t survives_fork; /* a child of the process that opened the device may use it too */
} bp_driver;

/* One launch, as it was asked for. */
typedef struct bp_launch_record {
    const char *kernel;
    int64_t blocks[3], threads[3];
    uint64_t shared_bytes;
    int32_t opted_in; /* for more shared memory than a block has without asking */
    int32_t count;    /* of arguments */
} bp_launch_record;

struct bp_rt_device {
    bp_device base;
    const bp_driver *driver;
    pid_t process; /* that opened it */
    void *state;   /* the driver's */
    void *queue; /* the driver's, of all calls */
    bp_device_pool *pool;
    bp_program *programs;
    pthread_mutex_t lock; /* of programs, launches and their record */
    bp_launch_record *records;
    int32_t record_count, record_room;
    /* Bytes of temporaries of calls, as they were asked for: now, and the most since a reset. */
    uint64_t temporaries, most_temporaries;
};

typedef struct bp_memory_of_device {
    bp_pool_statistics pool;
    uint64_t temporaries, most_temporaries;
} bp_memory_of_device;

/* device.c */
const char *bp_why(const char *format, ...) __attribute__((format(printf, 1, 2)));
const char *bp_why_text(char *text); /* takes memory of malloc's over */
/* A device with its pool; NULL: no memory. `limit`: most bytes that the pool holds, 0: none. */
bp_rt_device *bp_new_device(const bp_driver *driver, void *state, const char *api, char *name,
                            const bp_device_limits *limits, uint64_t limit);
void bp_close_device(bp_rt_device *d);
/* Memory for a twin, which is no temporary of a call. */
int32_t bp_allocate_twin(bp_device *d, uint64_t bytes, bp_device_pointer *out, const char **why);
/* Whether this is a forked child, in which the driver would wait for ever; and a message. */
int32_t bp_is_lost(const bp_rt_device *d, const char **why);

/* device_buffers.c */
int32_t bp_buffer_to_device(bp_device *d, bp_buffer *buffer, const char **why);
int32_t bp_buffer_to_host(bp_device *d, bp_buffer *buffer, const char **why);
void bp_buffer_forget(bp_device *d, bp_buffer *buffer);

/* A text that grows; NULL where there was no memory. */
typedef struct bp_text {
    char *text;
    uint64_t length, room;
} bp_text;
void bp_add(bp_text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Drivers: NULL, and why. */
bp_rt_device *bp_open_opencl(const char **why);
bp_rt_device *bp_open_cuda(const char **why);
bp_rt_device *bp_open_emulated(const char **why);

#endif
