/* Devices reached through the CUDA driver; kernels are PTX made before, or compiled by NVRTC.
 *
 * All runs in the device's primary context and on its default stream, which other libraries of the
 * process use too, so that their commands and ours stay in order.
 */
#include "device.h"
#include "cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct cuda {
    bp_cuda cu;
    CUdevice device;
    CUcontext context;
    bp_nvrtc nvrtc;
    int32_t has_nvrtc; /* 1 yes, -1 no, 0 not yet looked for */
    int major, minor;  /* compute capability */
} cuda;

typedef struct cuda_kernel {
    char *name;
    CUfunction handle;
    int threads;          /* most of a block */
    uint64_t allowed_bytes; /* of dynamic shared memory */
    struct cuda_kernel *next;
} cuda_kernel;

typedef struct cuda_program {
    CUmodule handle;
    cuda_kernel *kernels;
} cuda_program;

typedef struct cuda_event {
    CUevent handle;
    int32_t owners;
} cuda_event;

static int32_t cuda_fail(cuda *c, CUresult code, const char *function, const char *what,
                         const char **why) {
    const char *name = NULL, *text = NULL;
    c->cu.error_name(code, &name);
    c->cu.error_text(code, &text);
    *why = bp_why("%s: %s (%s gives %s)", what, text ? text : "an error", function,
                  name ? name : "an unknown code");
    return code == CUDA_ERROR_OUT_OF_MEMORY ? BP_OUT_OF_MEMORY : BP_ERROR;
}

static void cuda_enter(cuda *c) { c->cu.push(c->context); }
static void cuda_leave(cuda *c) {
    CUcontext popped;
    c->cu.pop(&popped);
}

static void *cuda_take(bp_rt_device *d, uint64_t bytes) {
    cuda *c = d->state;
    CUdeviceptr memory = 0;
    cuda_enter(c);
    const CUresult code = c->cu.allocate(&memory, bytes);
    cuda_leave(c);
    return code == CUDA_SUCCESS ? (void *)(uintptr_t)memory : NULL;
}

static void cuda_give(bp_rt_device *d, void *memory) {
    cuda *c = d->state;
    cuda_enter(c);
    c->cu.free((CUdeviceptr)(uintptr_t)memory);
    cuda_leave(c);
}

/* One stretch, or rows of them. */
static CUresult cuda_copy_rows(cuda *c, CUstream stream, CUdeviceptr device, char *host,
                               uint64_t bytes, uint64_t rows, uint64_t stride, int32_t to_device) {
    if (rows == 1)
        return to_device ? c->cu.copy_in(device, host, bytes, stream)
                         : c->cu.copy_out(host, device, bytes, stream);
    CUDA_MEMCPY2D copy;
    memset(&copy, 0, sizeof copy);
    copy.srcMemoryType = to_device ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    copy.dstMemoryType = to_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
    copy.srcHost = copy.dstHost = host;
    copy.srcDevice = copy.dstDevice = device;
    copy.srcPitch = copy.dstPitch = stride;
    copy.WidthInBytes = bytes;
    copy.Height = rows;
    return c->cu.copy_rows(&copy, stream);
}

static int32_t cuda_copy_box(bp_rt_device *d, void *stream, uint64_t base, uint64_t offset,
                             char *host, const bp_region *r, int32_t to_device, const char **why) {
    cuda *c = d->state;
    CUresult code = CUDA_SUCCESS;
    cuda_enter(c);
    const int whole = r->stride[0] >= r->chunk && r->stride[0] <= INT32_MAX;
    const uint64_t rows = whole ? r->count[0] : 1;
    for (uint64_t j = 0; j < r->count[1] && code == CUDA_SUCCESS; j++)
        for (uint64_t i = 0; i < r->count[0] && code == CUDA_SUCCESS; i += rows) {
            const uint64_t at = j * r->stride[1] + i * r->stride[0];
            code = cuda_copy_rows(c, stream, base + offset + at, host + at, r->chunk, rows,
                                  r->stride[0], to_device);
        }
    const CUresult end = c->cu.synchronize(stream);
    cuda_leave(c);
    if (code == CUDA_SUCCESS) code = end;
    if (code == CUDA_SUCCESS) return 0;
    return cuda_fail(c, code, to_device ? "cuMemcpyHtoDAsync" : "cuMemcpyDtoHAsync",
                     "a copy between host and device", why);
}

/* Modules */

static int cuda_has_compiler(cuda *c, const char **why) {
    if (!c->has_nvrtc) {
        bp_text report = {0};
        c->has_nvrtc = bp_load_nvrtc(&c->nvrtc, &report) ? 1 : -1;
        if (c->has_nvrtc < 0)
            *why = bp_why("there is no compiler for CUDA\n%s", report.text ? report.text : "");
        free(report.text);
    } else if (c->has_nvrtc < 0) {
        *why = "there is no compiler for CUDA";
    }
    return c->has_nvrtc > 0;
}

/* PTX made by NVRTC, of malloc's; NULL and why. */
static char *cuda_compile(cuda *c, const bp_module *module, const char **why) {
    if (!cuda_has_compiler(c, why)) return NULL;
    const bp_nvrtc *n = &c->nvrtc;
    nvrtcProgram handle = NULL;
    char architecture[64], *ptx = NULL, *log = NULL;
    snprintf(architecture, sizeof architecture, "--gpu-architecture=compute_%d%d", c->major,
             c->minor);
    const char *const options[] = {architecture, "--std=c++17"};
    if (n->create(&handle, module->source, module->name, 0, NULL, NULL) != 0) {
        *why = "nvrtcCreateProgram fails";
        return NULL;
    }
    const int code = n->compile(handle, 2, options);
    size_t bytes = 0;
    if (code != 0) {
        if (n->log_bytes(handle, &bytes) == 0 && (log = calloc(bytes + 1, 1))) n->log(handle, log);
        *why = bp_why("NVRTC (%s) refuses the kernels of %s (%s):\n%s", n->path, module->name,
                      architecture, log ? log : "");
        free(log);
    } else if (n->ptx_bytes(handle, &bytes) == 0 && (ptx = malloc(bytes + 1))) {
        n->ptx(handle, ptx);
        ptx[bytes] = 0;
    } else {
        *why = "there is no memory";
    }
    n->destroy(&handle);
    return ptx;
}

static void *cuda_build(bp_rt_device *d, const bp_module *module, const char **why) {
    cuda *c = d->state;
    char *compiled = module->binary ? NULL : cuda_compile(c, module, why);
    if (!module->binary && !compiled) return NULL;
    cuda_program *made = calloc(1, sizeof *made);
    char log[4096] = "";
    int options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)(uintptr_t)(sizeof log - 1)};
    CUresult code = CUDA_ERROR_OUT_OF_MEMORY;
    cuda_enter(c);
    if (made)
        code = c->cu.load(&made->handle, module->binary ? module->binary : compiled, 2, options,
                          values);
    cuda_leave(c);
    free(compiled);
    if (code == CUDA_SUCCESS) return made;
    free(made);
    const char *text = "";
    cuda_fail(c, code, "cuModuleLoadDataEx", module->name, &text);
    *why = bp_why("%s refuses the kernels of %s\n%s", text, module->name, log);
    return NULL;
}

static void cuda_drop(bp_rt_device *d, void *given) {
    cuda *c = d->state;
    cuda_program *p = given;
    cuda_enter(c);
    c->cu.unload(p->handle);
    cuda_leave(c);
    while (p->kernels) {
        cuda_kernel *k = p->kernels;
        p->kernels = k->next;
        free(k->name);
        free(k);
    }
    free(p);
}

static cuda_kernel *cuda_find_kernel(cuda *c, cuda_program *p, const char *name, const char **why) {
    for (cuda_kernel *k = p->kernels; k; k = k->next)
        if (strcmp(k->name, name) == 0) return k;
    cuda_kernel *k = calloc(1, sizeof *k);
    char *text = strdup(name);
    CUresult code = CUDA_ERROR_OUT_OF_MEMORY;
    if (k && text) code = c->cu.function(&k->handle, p->handle, name);
    if (code != CUDA_SUCCESS) {
        free(k);
        free(text);
        cuda_fail(c, code, "cuModuleGetFunction", name, why);
        return NULL;
    }
    k->name = text;
    c->cu.get_attribute(&k->threads, CU_FUNC_MAX_THREADS_PER_BLOCK, k->handle);
    k->next = p->kernels;
    p->kernels = k;
    return k;
}

/* More than a block has without asking must be asked for, once. */
static int32_t cuda_opt_in(cuda *c, const bp_rt_device *d, cuda_kernel *k, const bp_launch *l,
                           const char **why) {
    if (l->shared_bytes <= d->base.limits.shared_bytes || l->dynamic_bytes <= k->allowed_bytes)
        return 0;
    const CUresult code = c->cu.set_attribute(k->handle, CU_FUNC_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                              (int)l->dynamic_bytes);
    if (code != CUDA_SUCCESS) return cuda_fail(c, code, "cuFuncSetAttribute", l->kernel, why);
    k->allowed_bytes = l->dynamic_bytes;
    return 0;
}

static int32_t cuda_start(cuda *c, cuda_kernel *k, CUstream stream, const bp_launch *l,
                          const char **why) {
    /* Two parameters for each memory: values and their addresses. */
    const size_t most = 2 * (size_t)l->count + 1;
    uint64_t *values = malloc(most * sizeof *values);
    void **parameters = malloc(most * sizeof *parameters);
    if (!values || !parameters) {
        free(values);
        free(parameters);
        *why = "there is no memory";
        return BP_OUT_OF_MEMORY;
    }
    size_t n = 0;
    for (int32_t i = 0; i < l->count; i++) {
        const bp_kernel_arg *a = &l->args[i];
        values[n++] = a->kind == BP_KERNEL_MEMORY ? a->at.base : a->value;
        if (a->kind == BP_KERNEL_MEMORY) values[n++] = a->at.offset;
    }
    for (size_t i = 0; i < n; i++) parameters[i] = &values[i];
    const CUresult code = c->cu.launch(
        k->handle, (unsigned)l->blocks[0], (unsigned)l->blocks[1], (unsigned)l->blocks[2],
        (unsigned)l->threads[0], (unsigned)l->threads[1], (unsigned)l->threads[2],
        (unsigned)l->dynamic_bytes, stream, parameters, NULL);
    free(values);
    free(parameters);
    return code == CUDA_SUCCESS ? 0 : cuda_fail(c, code, "cuLaunchKernel", l->kernel, why);
}

static int32_t cuda_launch(bp_rt_device *d, void *stream, void *built, const bp_launch *l,
                           void **out, const char **why) {
    cuda *c = d->state;
    cuda_enter(c);
    cuda_kernel *k = cuda_find_kernel(c, built, l->kernel, why);
    int32_t status = k ? 0 : BP_ERROR;
    const int64_t threads = l->threads[0] * l->threads[1] * l->threads[2];
    if (k && k->threads && threads > k->threads) {
        *why = bp_why("kernel %s needs so many registers that a block may have %d threads; it has "
                      "%lld", l->kernel, k->threads, (long long)threads);
        status = BP_ERROR;
    }
    if (status == 0) status = cuda_opt_in(c, d, k, l, why);
    if (status == 0) status = cuda_start(c, k, stream, l, why);
    cuda_event *made = status == 0 ? malloc(sizeof *made) : NULL;
    if (made && c->cu.new_event(&made->handle, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) {
        free(made);
        made = NULL;
    }
    if (made) {
        made->owners = 1;
        c->cu.record(made->handle, stream);
        *out = made;
    } else if (status == 0) {
        c->cu.synchronize(stream); /* nothing to remember it by: it must be over */
    }
    cuda_leave(c);
    return status;
}

static int32_t cuda_synchronize(bp_rt_device *d, void *stream, const char **why) {
    cuda *c = d->state;
    cuda_enter(c);
    const CUresult code = c->cu.synchronize(stream);
    cuda_leave(c);
    return code == CUDA_SUCCESS ? 0 : cuda_fail(c, code, "cuStreamSynchronize", d->base.name, why);
}

static void *cuda_keep_event(bp_rt_device *d, void *given) {
    cuda_event *e = given;
    (void)d;
    __atomic_add_fetch(&e->owners, 1, __ATOMIC_RELAXED);
    return e;
}

static int32_t cuda_is_done(bp_rt_device *d, void *given) {
    cuda *c = d->state;
    const cuda_event *e = given;
    return c->cu.query(e->handle) != CUDA_ERROR_NOT_READY;
}

static void cuda_wait_in_queue(bp_rt_device *d, void *stream, void *given) {
    cuda *c = d->state;
    const cuda_event *e = given;
    cuda_enter(c);
    c->cu.wait_event(stream, e->handle, 0);
    cuda_leave(c);
}

static void cuda_wait_on_host(bp_rt_device *d, void *given) {
    cuda *c = d->state;
    const cuda_event *e = given;
    c->cu.wait(e->handle);
}

static void cuda_drop_event(bp_rt_device *d, void *given) {
    cuda *c = d->state;
    cuda_event *e = given;
    if (__atomic_sub_fetch(&e->owners, 1, __ATOMIC_ACQ_REL) > 0) return;
    c->cu.drop_event(e->handle);
    free(e);
}

static void close_cuda(bp_rt_device *d) {
    cuda *c = d->state;
    c->cu.release_context(c->device);
    free(c);
}

static const bp_driver cuda_driver = {
    .take = cuda_take,
    .give = cuda_give,
    .copy = cuda_copy_box,
    .build = cuda_build,
    .drop = cuda_drop,
    .launch = cuda_launch,
    .synchronize = cuda_synchronize,
    .keep_event = cuda_keep_event,
    .is_done = cuda_is_done,
    .wait_in_queue = cuda_wait_in_queue,
    .wait_on_host = cuda_wait_on_host,
    .drop_event = cuda_drop_event,
    .close = close_cuda,
};

static int cuda_read_attribute(const cuda *c, int attribute) {
    int value = 0;
    c->cu.device_attribute(&value, attribute, c->device);
    return value;
}

static bp_device_limits cuda_read_limits(const cuda *c) {
    size_t bytes = 0;
    c->cu.device_bytes(&bytes, c->device);
    bp_device_limits limits = {
        .shared_bytes = (uint64_t)cuda_read_attribute(c, CU_MAX_SHARED_MEMORY_PER_BLOCK),
        .shared_bytes_opt_in =
            (uint64_t)cuda_read_attribute(c, CU_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
        .memory_bytes = bytes,
        .threads = cuda_read_attribute(c, CU_MAX_THREADS_PER_BLOCK),
        .lanes = cuda_read_attribute(c, CU_WARP_SIZE),
    };
    for (int i = 0; i < 3; i++) {
        limits.block_threads[i] = cuda_read_attribute(c, CU_MAX_BLOCK_DIM_X + i);
        limits.blocks[i] = cuda_read_attribute(c, CU_MAX_GRID_DIM_X + i);
    }
    return limits;
}

/* The device that BAYPLAN_CUDA_DEVICE numbers, else the first one; 0 and why. */
static int cuda_choose_device(cuda *c, const char **why) {
    const char *text = getenv("BAYPLAN_CUDA_DEVICE");
    const int number = text ? atoi(text) : 0;
    int count = 0;
    CUresult code = c->cu.init(0);
    if (code == CUDA_SUCCESS) code = c->cu.device_count(&count);
    if (code != CUDA_SUCCESS) {
        const char *what = "";
        cuda_fail(c, code, "cuInit", "the CUDA driver", &what);
        *why = bp_why("no CUDA device: %s", what);
        return 0;
    }
    if (number < 0 || number >= count) {
        *why = bp_why("no CUDA device number %d: the driver knows %d", number, count);
        return 0;
    }
    code = c->cu.device(&c->device, number);
    if (code == CUDA_SUCCESS) code = c->cu.retain_context(&c->context, c->device);
    if (code == CUDA_SUCCESS) return 1;
    cuda_fail(c, code, "cuDevicePrimaryCtxRetain", "the CUDA device", why);
    return 0;
}

bp_rt_device *bp_open_cuda(const char **why) {
    bp_text report = {0};
    cuda *c = calloc(1, sizeof *c);
    char *name = calloc(1, 256);
    bp_rt_device *d = NULL;
    if (!c || !name)
        *why = "there is no memory";
    else if (!bp_load_cuda(&c->cu, &report))
        *why = bp_why("no CUDA device: there is no driver\n%s", report.text ? report.text : "");
    else if (cuda_choose_device(c, why)) {
        c->cu.device_name(name, 255, c->device);
        c->major = cuda_read_attribute(c, CU_COMPUTE_CAPABILITY_MAJOR);
        c->minor = cuda_read_attribute(c, CU_COMPUTE_CAPABILITY_MINOR);
        const bp_device_limits limits = cuda_read_limits(c);
        d = bp_new_device(&cuda_driver, c, "cuda", name, &limits, 0);
        if (!d) {
            c->cu.release_context(c->device);
            *why = "there is no memory";
        }
    }
    free(report.text);
    if (d) return d;
    free(c);
    free(name);
    return NULL;
}

/* For `bayplan doctor`: whether there is a device, and what was found. The caller frees it. */
int32_t bp_cuda_report(char **out) {
    bp_text report = {0};
    cuda c = {0};
    const char *why = "";
    int found = bp_load_cuda(&c.cu, &report);
    if (found && !cuda_choose_device(&c, &why)) {
        bp_add(&report, "%s\n", why);
        found = 0;
    }
    if (found) {
        char name[256] = "";
        c.cu.device_name(name, 255, c.device);
        bp_add(&report, "taken: %s\n", name);
        c.cu.release_context(c.device);
    }
    if (bp_load_nvrtc(&c.nvrtc, &report)) bp_add(&report, "  taken: %s\n", c.nvrtc.path);
    *out = report.text;
    return found;
}

/* Whether kernels must be compiled before they are loaded: there is a driver and no NVRTC. */
int32_t bp_cuda_needs_binary(void) {
    bp_text report = {0};
    bp_nvrtc nvrtc;
    const int found = bp_load_nvrtc(&nvrtc, &report);
    free(report.text);
    return !found;
}
