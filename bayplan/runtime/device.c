/* What all kinds of devices have in common: pooled memory, compiled modules, checks, records.
 *
 * Messages of failures are texts that are kept in a ring, so that an error can point at one until
 * long after the call.
 */
#include "device.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MESSAGES = 64 };
static pthread_mutex_t message_lock = PTHREAD_MUTEX_INITIALIZER;
static char *messages[MESSAGES];
static uint32_t message_count;

void bp_add(bp_text *t, const char *format, ...) {
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (n < 0) return;
    if (t->length + (uint64_t)n + 1 > t->room) {
        const uint64_t room = 2 * (t->length + (uint64_t)n + 1);
        char *text = realloc(t->text, room);
        if (!text) return;
        t->text = text;
        t->room = room;
    }
    va_start(args, format);
    vsnprintf(t->text + t->length, (size_t)n + 1, format, args);
    va_end(args);
    t->length += (uint64_t)n;
}

const char *bp_why_text(char *text) {
    if (!text) return "there is no memory for the message";
    pthread_mutex_lock(&message_lock);
    char **place = &messages[message_count++ % MESSAGES];
    free(*place);
    *place = text;
    pthread_mutex_unlock(&message_lock);
    return text;
}

const char *bp_why(const char *format, ...) {
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = n < 0 ? NULL : malloc((size_t)n + 1);
    if (!text) return "there is no memory for the message";
    va_start(args, format);
    vsnprintf(text, (size_t)n + 1, format, args);
    va_end(args);
    return bp_why_text(text);
}

/* Threads and connections of a driver are not copied into a child. */
int32_t bp_is_lost(const bp_rt_device *d, const char **why) {
    if (d->driver->survives_fork || d->process == getpid()) return 0;
    *why = bp_why("%s (%s) was opened by process %ld, of which this one is a fork; no driver works in "
                  "both. Start processes by spawn, or use the device in the children alone",
                  d->base.name, d->base.api, (long)d->process);
    return 1;
}

/* Hooks of the pool; `user` is the device. */

static void *pool_alloc(void *user, uint64_t bytes) {
    bp_rt_device *d = user;
    return d->driver->take(d, bytes);
}
static void pool_release(void *user, void *memory) {
    bp_rt_device *d = user;
    d->driver->give(d, memory);
}
static int32_t pool_is_done(void *user, void *event) {
    bp_rt_device *d = user;
    return d->driver->is_done(d, event);
}
static void pool_wait_in_queue(void *user, void *queue, void *event) {
    bp_rt_device *d = user;
    d->driver->wait_in_queue(d, queue, event);
}
static void pool_wait_on_host(void *user, void *event) {
    bp_rt_device *d = user;
    d->driver->wait_on_host(d, event);
}
static void pool_drop_event(void *user, void *event) {
    bp_rt_device *d = user;
    d->driver->drop_event(d, event);
}

/* Memory. Blocks have the pool's size classes: an eighth of padding at most, so that calls whose
 * sizes differ a little find the blocks of the call before. */

static uint64_t pool_bytes(uint64_t bytes) {
    if (bytes <= 256) return 256;
    const int shift = 63 - __builtin_clzll(bytes - 1) - 3;
    return (((bytes - 1) >> shift) + 1) << shift;
}

int32_t bp_allocate_twin(bp_device *base, uint64_t bytes, bp_device_pointer *out,
                         const char **why) {
    bp_rt_device *d = (bp_rt_device *)base;
    memset(out, 0, sizeof *out);
    if (bp_is_lost(d, why)) return BP_ERROR;
    bp_device_block *block = NULL;
    if (bytes <= UINT64_MAX >> 2) {
        block = bp_device_take(d->pool, d->queue, pool_bytes(bytes));
        if (!block) block = bp_device_take(d->pool, d->queue, bytes);
    }
    if (!block) {
        bp_pool_statistics s;
        bp_device_statistics(d->pool, &s);
        *why = bp_why("%s (%s) gives no %llu bytes; %llu are used and %llu kept of %llu",
                      base->name, base->api, (unsigned long long)bytes, (unsigned long long)s.used,
                      (unsigned long long)s.kept, (unsigned long long)base->limits.memory_bytes);
        return BP_OUT_OF_MEMORY;
    }
    out->base = (uint64_t)(uintptr_t)bp_device_address(block);
    out->block = block;
    out->device = base;
    *bp_device_note(block) = 0;
    return 0;
}

/* Memory of temporaries is counted, to compare it with what was planned. */
static int32_t device_allocate(bp_device *base, uint64_t bytes, bp_device_pointer *out,
                               const char **why) {
    bp_rt_device *d = (bp_rt_device *)base;
    const int32_t status = bp_allocate_twin(base, bytes, out, why);
    if (status < 0) return status;
    *bp_device_note(out->block) = bytes;
    const uint64_t now = __atomic_add_fetch(&d->temporaries, bytes, __ATOMIC_RELAXED);
    uint64_t most = __atomic_load_n(&d->most_temporaries, __ATOMIC_RELAXED);
    while (now > most && !__atomic_compare_exchange_n(&d->most_temporaries, &most, now, 1,
                                                      __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
    return status;
}

static void device_release(bp_device_pointer *pointer) {
    bp_rt_device *d = (bp_rt_device *)pointer->device;
    const char *why;
    if (pointer->block && !bp_is_lost(d, &why)) {
        __atomic_sub_fetch(&d->temporaries, *bp_device_note(pointer->block), __ATOMIC_RELAXED);
        bp_device_give(d->pool, pointer->block);
    }
    memset(pointer, 0, sizeof *pointer);
}

/* Copies box by box: three dimensions at a time, the outer ones by recursion. */
static int32_t device_copy_outer(bp_rt_device *d, uint64_t base, uint64_t offset, char *host,
                                 const bp_region *r, int32_t outer, int32_t to_device,
                                 const char **why) {
    if (outer < 2) return d->driver->copy(d, d->queue, base, offset, host, r, to_device, why);
    for (uint64_t i = 0; i < r->count[outer]; i++) {
        const uint64_t step = i * r->stride[outer];
        const int32_t status = device_copy_outer(d, base, offset + step, host + step, r, outer - 1,
                                          to_device, why);
        if (status < 0) return status;
    }
    return 0;
}

static int32_t device_copy(bp_device *base, bp_device_pointer at, void *host,
                           const bp_region *region, int32_t to_device, const char **why) {
    if (bp_is_lost((bp_rt_device *)base, why)) return BP_ERROR;
    bp_region r = *region;
    if (!r.chunk) return 0;
    for (int32_t k = 0; k < r.dimensions; k++)
        if (!r.count[k]) return 0;
    const int32_t outer = r.dimensions - 1;
    for (; r.dimensions < 2; r.dimensions++) {
        r.count[r.dimensions] = 1;
        r.stride[r.dimensions] = 0;
    }
    return device_copy_outer((bp_rt_device *)base, at.base, at.offset, host, &r, outer, to_device,
                             why);
}

/* Modules are compiled at their first launch on the device. */

struct bp_program {
    const char *key;
    void *built;
    bp_program *next;
};

static void *device_find_program(bp_rt_device *d, const bp_module *module, const char **why) {
    for (bp_program *p = d->programs; p; p = p->next)
        if (strcmp(p->key, module->key) == 0) return p->built;
    bp_program *made = calloc(1, sizeof *made);
    char *key = strdup(module->key);
    void *built = made && key ? d->driver->build(d, module, why) : NULL;
    if (!built) {
        if (!made || !key) *why = "there is no memory";
        free(made);
        free(key);
        return NULL;
    }
    made->key = key;
    made->built = built;
    made->next = d->programs;
    d->programs = made;
    return built;
}

static void device_record(bp_rt_device *d, const bp_launch *launch) {
    if (!d->record_room) return;
    bp_launch_record *r = &d->records[d->record_count++ % d->record_room];
    r->kernel = launch->kernel;
    memcpy(r->blocks, launch->blocks, sizeof r->blocks);
    memcpy(r->threads, launch->threads, sizeof r->threads);
    r->shared_bytes = launch->shared_bytes;
    r->opted_in = launch->shared_bytes > d->base.limits.shared_bytes;
    r->count = launch->count;
}

static int32_t device_launch(bp_device *base, const bp_launch *l, const char **why) {
    bp_rt_device *d = (bp_rt_device *)base;
    if (bp_is_lost(d, why)) return BP_ERROR;
    void *event = NULL;
    pthread_mutex_lock(&d->lock);
    void *program = device_find_program(d, l->module, why);
    int32_t status = BP_ERROR;
    if (program) status = d->driver->launch(d, d->queue, program, l, &event, why);
    if (status == 0) device_record(d, l);
    pthread_mutex_unlock(&d->lock);
    if (!event) return status;
    for (int32_t i = 0; i < l->count; i++) {
        const bp_kernel_arg *a = &l->args[i];
        if (a->kind == BP_KERNEL_MEMORY && a->at.block)
            bp_device_use(d->pool, a->at.block, d->queue, d->driver->keep_event(d, event));
    }
    d->driver->drop_event(d, event);
    return status;
}

static int32_t device_synchronize(bp_device *base, const char **why) {
    bp_rt_device *d = (bp_rt_device *)base;
    if (bp_is_lost(d, why)) return BP_ERROR;
    return d->driver->synchronize(d, d->queue, why);
}

bp_rt_device *bp_new_device(const bp_driver *driver, void *state, const char *api, char *name,
                            const bp_device_limits *limits, uint64_t limit) {
    bp_rt_device *d = calloc(1, sizeof *d);
    if (!d) return NULL;
    d->base.api = api;
    d->base.name = name;
    d->base.limits = *limits;
    d->base.allocate = device_allocate;
    d->base.release = device_release;
    d->base.copy = device_copy;
    d->base.launch = device_launch;
    d->base.synchronize = device_synchronize;
    d->base.to_device = bp_buffer_to_device;
    d->base.to_host = bp_buffer_to_host;
    d->base.forget = bp_buffer_forget;
    d->driver = driver;
    d->process = getpid();
    d->state = state;
    pthread_mutex_init(&d->lock, NULL);
    const bp_pool_hooks hooks = {d,
                                 pool_alloc,
                                 pool_release,
                                 pool_is_done,
                                 pool_wait_in_queue,
                                 pool_wait_on_host,
                                 pool_drop_event};
    d->pool = bp_device_pool_new(&hooks, limit);
    if (d->pool) return d;
    free(d);
    return NULL;
}

void bp_close_device(bp_rt_device *d) {
    const char *why;
    if (bp_is_lost(d, &why)) return;
    d->driver->synchronize(d, d->queue, &why);
    bp_device_pool_free(d->pool);
    while (d->programs) {
        bp_program *p = d->programs;
        d->programs = p->next;
        d->driver->drop(d, p->built);
        free((char *)p->key);
        free(p);
    }
    d->driver->close(d);
    free(d->records);
    free((char *)d->base.name);
    free(d);
}

/* Keeps the last `room` launches for tests and reports; 0: none. Those kept so far are lost. */
int32_t bp_record_launches(bp_device *base, int32_t room) {
    bp_rt_device *d = (bp_rt_device *)base;
    pthread_mutex_lock(&d->lock);
    free(d->records);
    d->records = room > 0 ? calloc((size_t)room, sizeof *d->records) : NULL;
    d->record_room = d->records ? room : 0;
    d->record_count = 0;
    pthread_mutex_unlock(&d->lock);
    return room > 0 && !d->records ? BP_OUT_OF_MEMORY : 0;
}

/* Copies the kept launches, the oldest first; their number. */
int32_t bp_launch_records(bp_device *base, bp_launch_record *out, int32_t room) {
    bp_rt_device *d = (bp_rt_device *)base;
    pthread_mutex_lock(&d->lock);
    const int32_t kept = d->record_count < d->record_room ? d->record_count : d->record_room;
    const int32_t first = d->record_count - kept;
    for (int32_t i = 0; i < kept && i < room; i++)
        out[i] = d->records[(first + i) % d->record_room];
    pthread_mutex_unlock(&d->lock);
    return kept;
}

void bp_device_memory(bp_device *base, bp_memory_of_device *out) {
    bp_rt_device *d = (bp_rt_device *)base;
    bp_device_statistics(d->pool, &out->pool);
    out->temporaries = __atomic_load_n(&d->temporaries, __ATOMIC_RELAXED);
    out->most_temporaries = __atomic_load_n(&d->most_temporaries, __ATOMIC_RELAXED);
}

/* From now on the most bytes of temporaries are counted anew. */
void bp_device_reset_most(bp_device *base) {
    bp_rt_device *d = (bp_rt_device *)base;
    __atomic_store_n(&d->most_temporaries, __atomic_load_n(&d->temporaries, __ATOMIC_RELAXED),
                     __ATOMIC_RELAXED);
}

/* Gives memory that is kept for later calls back to the device; the bytes that were kept. */
uint64_t bp_device_trim_pool(bp_device *base) {
    const char *why;
    if (bp_is_lost((bp_rt_device *)base, &why)) return 0;
    return bp_device_trim(((bp_rt_device *)base)->pool);
}
