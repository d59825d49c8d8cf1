/* The device "emulated": kernels run on this processor, compiled by its C++ compiler.
 *
 * For tests and for debugging. Its limits can be set to those of another device, and its queue can
 * be told to run late: commands then wait until somebody waits for them.
 */
#include "device.h"
#include "emulated.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The kernels of a module, compiled with the program. */
typedef struct emulated_program {
    const bp_emulated_kernel *kernels;
    uint64_t count;
} emulated_program;

/* A command that waits. */
typedef struct emulated_command {
    const bp_emulated_kernel *kernel;
    bp_emulated_launch launch;
    uint64_t *values; /* of the parameters */
    void *waits_for;  /* an event, or NULL */
    int64_t number;
    struct emulated_command *next;
} emulated_command;

typedef struct emulated_queue {
    emulated_command *first, **last;
    int64_t added, done; /* commands */
} emulated_queue;

typedef struct emulated_event {
    int32_t owners;
    emulated_queue *of;
    int64_t number;
} emulated_event;

typedef struct emulated {
    pthread_mutex_t lock;
    int32_t is_late;
    emulated_queue queue;
    const char *failure; /* of a kernel that ran late */
} emulated;

static void *emulated_take(bp_rt_device *d, uint64_t bytes) {
    (void)d;
    void *memory = NULL;
    /* As devices do: nothing is zero, and a kernel that counts on it is found out. */
    if (posix_memalign(&memory, 256, bytes) != 0) return NULL;
    memset(memory, 0xcd, bytes);
    return memory;
}

static void emulated_give(bp_rt_device *d, void *memory) {
    (void)d;
    free(memory);
}

static const char *emulated_run(emulated_command *c) {
    char text[256] = "";
    if (c->kernel->run(&c->launch, text, sizeof text) >= 0) return NULL;
    return bp_why("kernel %s: %s", c->kernel->name, text);
}

static void emulated_free_command(emulated_command *c) {
    free(c->values);
    free((void *)c->launch.parameters);
    free(c);
}

static void emulated_drop(emulated_event *e) {
    if (__atomic_sub_fetch(&e->owners, 1, __ATOMIC_ACQ_REL) == 0) free(e);
}

/* Runs the queue up to a command; the device is locked. */
static void emulated_run_until(emulated *e, emulated_queue *q, int64_t number) {
    while (q->first && q->done < number) {
        emulated_command *c = q->first;
        if (c->waits_for) {
            emulated_event *before = c->waits_for;
            emulated_run_until(e, before->of, before->number);
            emulated_drop(before);
        } else {
            const char *failure = emulated_run(c);
            if (failure && !e->failure) e->failure = failure;
        }
        q->first = c->next;
        if (!q->first) q->last = &q->first;
        q->done = c->number;
        emulated_free_command(c);
    }
}

static emulated_queue *emulated_queue_of(bp_rt_device *d, void *given) {
    return given ? given : &((emulated *)d->state)->queue;
}

static void emulated_add(emulated_queue *q, emulated_command *c) {
    c->number = ++q->added;
    *q->last = c;
    q->last = &c->next;
}

static int32_t emulated_tell_failure(emulated *e, const char **why) {
    const char *failure = e->failure;
    e->failure = NULL;
    if (!failure) return 0;
    *why = failure;
    return BP_ERROR;
}

static int32_t emulated_wait_all(bp_rt_device *d, void *given, const char **why) {
    emulated *e = d->state;
    emulated_queue *q = emulated_queue_of(d, given);
    pthread_mutex_lock(&e->lock);
    emulated_run_until(e, q, q->added);
    const int32_t status = emulated_tell_failure(e, why);
    pthread_mutex_unlock(&e->lock);
    return status;
}

static int32_t emulated_copy_box(bp_rt_device *d, void *given, uint64_t base, uint64_t offset,
                                 char *host, const bp_region *r, int32_t to_device,
                                 const char **why) {
    char *device = (char *)(uintptr_t)base + offset;
    const int32_t status = emulated_wait_all(d, given, why);
    if (status < 0) return status;
    for (uint64_t j = 0; j < r->count[1]; j++)
        for (uint64_t i = 0; i < r->count[0]; i++) {
            const uint64_t at = j * r->stride[1] + i * r->stride[0];
            if (to_device)
                memcpy(device + at, host + at, r->chunk);
            else
                memcpy(host + at, device + at, r->chunk);
        }
    return 0;
}

static void *emulated_build(bp_rt_device *d, const bp_module *module, const char **why) {
    (void)d;
    emulated_program *made = module->binary ? malloc(sizeof *made) : NULL;
    if (made) {
        *made = (emulated_program){module->binary, module->binary_bytes};
    } else if (module->binary) {
        *why = "there is no memory";
    } else {
        *why = bp_why("the kernels of %s are not compiled", module->name);
    }
    return made;
}

static void emulated_drop_program(bp_rt_device *d, void *program) {
    (void)d;
    free(program);
}

/* The parameters as an array of addresses of their values: two for each memory. */
static int emulated_fill(emulated_command *c, const bp_launch *l) {
    c->values = malloc((2 * (size_t)l->count + 1) * sizeof *c->values);
    void **parameters = malloc((2 * (size_t)l->count + 1) * sizeof *parameters);
    c->launch.parameters = (const void *const *)parameters;
    if (!c->values || !parameters) return 0;
    int32_t n = 0;
    for (int32_t i = 0; i < l->count; i++) {
        const bp_kernel_arg *a = &l->args[i];
        parameters[n] = &c->values[n];
        c->values[n++] = a->kind == BP_KERNEL_MEMORY ? a->at.base : a->value;
        if (a->kind != BP_KERNEL_MEMORY) continue;
        parameters[n] = &c->values[n];
        c->values[n++] = a->at.offset;
    }
    c->launch.parameter_count = n;
    for (int32_t k = 0; k < 3; k++) {
        c->launch.blocks[k] = l->blocks[k];
        c->launch.threads[k] = l->threads[k];
    }
    c->launch.shared_bytes = l->dynamic_bytes;
    return 1;
}

static int32_t emulated_launch(bp_rt_device *d, void *given, void *program, const bp_launch *l,
                               void **out, const char **why) {
    emulated *e = d->state;
    const emulated_program *module = program;
    const bp_emulated_kernel *kernel = NULL;
    for (uint64_t i = 0; i < module->count; i++)
        if (strcmp(module->kernels[i].name, l->kernel) == 0) kernel = &module->kernels[i];
    if (!kernel) {
        *why = bp_why("the program of %s has no kernel %s", l->module->name, l->kernel);
        return BP_ERROR;
    }
    emulated_command *c = calloc(1, sizeof *c);
    emulated_event *made = malloc(sizeof *made);
    if (!c || !made || !emulated_fill(c, l)) {
        if (c) emulated_free_command(c);
        free(made);
        *why = "there is no memory";
        return BP_OUT_OF_MEMORY;
    }
    c->kernel = kernel;
    if (c->launch.parameter_count != kernel->parameters) {
        *why = bp_why("kernel %s takes %d parameters and was given %d", l->kernel,
                      (int)kernel->parameters, (int)c->launch.parameter_count);
        emulated_free_command(c);
        free(made);
        return BP_ERROR;
    }
    emulated_queue *q = emulated_queue_of(d, given);
    pthread_mutex_lock(&e->lock);
    emulated_add(q, c);
    *made = (emulated_event){1, q, c->number};
    *out = made;
    int32_t status = 0;
    if (!e->is_late) {
        emulated_run_until(e, q, q->added);
        status = emulated_tell_failure(e, why);
    }
    pthread_mutex_unlock(&e->lock);
    return status;
}

static void *emulated_keep_event(bp_rt_device *d, void *given) {
    emulated_event *e = given;
    (void)d;
    __atomic_add_fetch(&e->owners, 1, __ATOMIC_RELAXED);
    return e;
}

static int32_t emulated_is_done(bp_rt_device *d, void *given) {
    emulated *e = d->state;
    const emulated_event *of = given;
    pthread_mutex_lock(&e->lock);
    const int32_t done = of->of->done >= of->number;
    pthread_mutex_unlock(&e->lock);
    return done;
}

static void emulated_wait_in_queue(bp_rt_device *d, void *given, void *before) {
    emulated *e = d->state;
    emulated_event *of = before;
    emulated_command *c = calloc(1, sizeof *c);
    pthread_mutex_lock(&e->lock);
    if (c) {
        c->waits_for = emulated_keep_event(d, of);
        emulated_add(emulated_queue_of(d, given), c);
    } else {
        emulated_run_until(e, of->of, of->number);
    }
    pthread_mutex_unlock(&e->lock);
}

static void emulated_wait_on_host(bp_rt_device *d, void *given) {
    emulated *e = d->state;
    const emulated_event *of = given;
    pthread_mutex_lock(&e->lock);
    emulated_run_until(e, of->of, of->number);
    pthread_mutex_unlock(&e->lock);
}

static void emulated_drop_event(bp_rt_device *d, void *given) {
    (void)d;
    emulated_drop(given);
}

static void close_emulated(bp_rt_device *d) {
    emulated *e = d->state;
    pthread_mutex_destroy(&e->lock);
    free(e);
}

static const bp_driver emulated_driver = {
    .take = emulated_take,
    .give = emulated_give,
    .copy = emulated_copy_box,
    .build = emulated_build,
    .drop = emulated_drop_program,
    .launch = emulated_launch,
    .synchronize = emulated_wait_all,
    .keep_event = emulated_keep_event,
    .is_done = emulated_is_done,
    .wait_in_queue = emulated_wait_in_queue,
    .wait_on_host = emulated_wait_on_host,
    .drop_event = emulated_drop_event,
    .close = close_emulated,
    .survives_fork = 1,
};

/* A device of its own, beside that of the process; NULL: no memory. */
bp_device *bp_emulated_new(const bp_device_limits *limits, int32_t is_late) {
    emulated *e = calloc(1, sizeof *e);
    char *name = strdup("emulated device");
    if (!e || !name) {
        free(e);
        free(name);
        return NULL;
    }
    pthread_mutex_init(&e->lock, NULL);
    e->is_late = is_late;
    e->queue.last = &e->queue.first;
    bp_rt_device *d =
        bp_new_device(&emulated_driver, e, "emulated", name, limits, limits->memory_bytes);
    if (d) return &d->base;
    free(e);
    free(name);
    return NULL;
}

/* Commands that wait in the queue. */
int64_t bp_emulated_waiting(bp_device *base) {
    emulated *e = ((bp_rt_device *)base)->state;
    pthread_mutex_lock(&e->lock);
    const int64_t waiting = e->queue.added - e->queue.done;
    pthread_mutex_unlock(&e->lock);
    return waiting;
}

/* Those of a present-day GPU; memory as much as the process gets. */
static const bp_device_limits emulated_usual_limits = {
    .shared_bytes = 48 << 10,
    .shared_bytes_opt_in = 227 << 10,
    .memory_bytes = (uint64_t)1 << 40,
    .threads = 1024,
    .block_threads = {1024, 1024, 64},
    .blocks = {2147483647, 65535, 65535},
    .lanes = 32,
};

bp_rt_device *bp_open_emulated(const char **why) {
    bp_rt_device *d = (bp_rt_device *)bp_emulated_new(&emulated_usual_limits, 0);
    if (!d) *why = "there is no memory";
    return d;
}
