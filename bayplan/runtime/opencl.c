/* Devices reached through an OpenCL loader. */
#include "device.h"
#include "opencl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct opencl {
    bp_opencl *cl;
    cl_device_id device;
    cl_context context;
    cl_command_queue queue;
} opencl;

typedef struct opencl_kernel {
    char *name;
    cl_kernel handle;
    cl_uint parameters;
    size_t threads; /* most of a block */
    struct opencl_kernel *next;
} opencl_kernel;

typedef struct opencl_program {
    cl_program handle;
    opencl_kernel *kernels;
} opencl_program;

static const struct {
    cl_int code;
    const char *text;
} opencl_codes[] = {
    {-1, "device not found"},
    {-2, "device not available"},
    {-3, "compiler not available"},
    {-4, "no memory on the device"},
    {-5, "out of resources"},
    {-6, "out of memory on the host"},
    {-11, "the program cannot be built"},
    {-14, "an error in an earlier command"},
    {-46, "no such kernel"},
    {-48, "invalid kernel"},
    {-51, "invalid size of an argument"},
    {-52, "invalid arguments"},
    {-54, "invalid number of threads in a block"},
    {-55, "invalid number of threads in a dimension"},
    {-61, "invalid size of a buffer"},
    {-1001, "no platform found"},
};

static const char *opencl_describe(cl_int code) {
    for (size_t i = 0; i < sizeof opencl_codes / sizeof *opencl_codes; i++)
        if (opencl_codes[i].code == code) return opencl_codes[i].text;
    return "an error";
}

static int32_t opencl_fail(cl_int code, const char *function, const char *what, const char **why) {
    *why = bp_why("%s: %s (%s gives %d)", what, opencl_describe(code), function, (int)code);
    return code == -4 || code == -5 || code == -6 ? BP_OUT_OF_MEMORY : BP_ERROR;
}

static cl_command_queue opencl_queue_of(opencl *o, void *given) { return given ? given : o->queue; }

/* Memory. Drivers of GPUs may give it only when it is first used; a write of one byte asks for it.
 * Not elsewhere: Oclgrind, which calls itself all kinds of devices, would take what is behind that
 * byte for uninitialised ever after. */
static void *opencl_take(bp_rt_device *d, uint64_t bytes) {
    opencl *o = d->state;
    cl_int code = CL_SUCCESS;
    cl_bitfield type = 0;
    if (bytes > d->base.limits.memory_bytes) return NULL;
    cl_mem memory = o->cl->clCreateBuffer(o->context, CL_MEM_READ_WRITE, bytes, NULL, &code);
    if (!memory || code != CL_SUCCESS) return NULL;
    o->cl->clGetDeviceInfo(o->device, CL_DEVICE_TYPE, sizeof type, &type, NULL);
    if ((type & (CL_DEVICE_TYPE_CPU | CL_DEVICE_TYPE_GPU)) != CL_DEVICE_TYPE_GPU) return memory;
    const char first = 0;
    code = o->cl->clEnqueueWriteBuffer(o->queue, memory, 1, 0, 1, &first, 0, NULL, NULL);
    if (code == CL_SUCCESS) return memory;
    o->cl->clReleaseMemObject(memory);
    return NULL;
}

static void opencl_give(bp_rt_device *d, void *memory) {
    opencl *o = d->state;
    o->cl->clReleaseMemObject(memory);
}

/* One stretch, or rows of them. */
static cl_int opencl_copy_rows(opencl *o, cl_command_queue queue, cl_mem memory, uint64_t offset,
                               char *host, uint64_t bytes, uint64_t rows, uint64_t stride,
                               int32_t to_device) {
    const bp_opencl *cl = o->cl;
    if (rows == 1)
        return to_device ? cl->clEnqueueWriteBuffer(queue, memory, 0, offset, bytes, host, 0, NULL,
                                                    NULL)
                         : cl->clEnqueueReadBuffer(queue, memory, 0, offset, bytes, host, 0, NULL,
                                                   NULL);
    const size_t there[3] = {offset % stride, offset / stride, 0}, here[3] = {0, 0, 0};
    const size_t region[3] = {bytes, rows, 1};
    return to_device
               ? cl->clEnqueueWriteBufferRect(queue, memory, 0, there, here, region, stride, 0,
                                              stride, 0, host, 0, NULL, NULL)
               : cl->clEnqueueReadBufferRect(queue, memory, 0, there, here, region, stride, 0,
                                             stride, 0, host, 0, NULL, NULL);
}

static int32_t opencl_copy_box(bp_rt_device *d, void *given, uint64_t base, uint64_t offset,
                               char *host, const bp_region *r, int32_t to_device,
                               const char **why) {
    opencl *o = d->state;
    cl_command_queue queue = opencl_queue_of(o, given);
    cl_int code = CL_SUCCESS;
    for (uint64_t j = 0; j < r->count[1] && code == CL_SUCCESS; j++) {
        /* Rows that would reach into the next one of the device's memory go one by one. */
        const uint64_t begin = offset + j * r->stride[1];
        const int whole = r->stride[0] && begin % r->stride[0] + r->chunk <= r->stride[0];
        const uint64_t rows = whole ? r->count[0] : 1;
        for (uint64_t i = 0; i < r->count[0] && code == CL_SUCCESS; i += rows)
            code = opencl_copy_rows(o, queue, (cl_mem)(uintptr_t)base, begin + i * r->stride[0],
                                    host + j * r->stride[1] + i * r->stride[0], r->chunk, rows,
                                    r->stride[0], to_device);
    }
    const cl_int end = o->cl->clFinish(queue);
    if (code == CL_SUCCESS) code = end;
    if (code == CL_SUCCESS) return 0;
    return opencl_fail(code, to_device ? "clEnqueueWriteBuffer" : "clEnqueueReadBuffer",
                       "a copy between host and device", why);
}

static const char *opencl_build_log(opencl *o, cl_program handle) {
    size_t bytes = 0;
    char *log = NULL;
    if (o->cl->clGetProgramBuildInfo(handle, o->device, CL_PROGRAM_BUILD_LOG, 0, NULL, &bytes) ==
            CL_SUCCESS &&
        bytes > 0 && (log = calloc(bytes + 1, 1)))
        o->cl->clGetProgramBuildInfo(handle, o->device, CL_PROGRAM_BUILD_LOG, bytes, log, NULL);
    return log ? bp_why_text(log) : "";
}

static void *opencl_build(bp_rt_device *d, const bp_module *module, const char **why) {
    opencl *o = d->state;
    cl_int code = CL_SUCCESS;
    const char *source = module->source;
    cl_program handle = o->cl->clCreateProgramWithSource(o->context, 1, &source, NULL, &code);
    if (!handle || code != CL_SUCCESS) {
        opencl_fail(code, "clCreateProgramWithSource", module->name, why);
        return NULL;
    }
    code = o->cl->clBuildProgram(handle, 1, &o->device, module->options, NULL, NULL);
    opencl_program *made = code == CL_SUCCESS ? calloc(1, sizeof *made) : NULL;
    if (made) {
        made->handle = handle;
        return made;
    }
    if (code == CL_SUCCESS)
        *why = "there is no memory";
    else
        *why = bp_why("%s refuses the kernels of %s (clBuildProgram gives %d: %s):\n%s",
                      d->base.name, module->name, (int)code, opencl_describe(code),
                      opencl_build_log(o, handle));
    o->cl->clReleaseProgram(handle);
    return NULL;
}

static void opencl_drop(bp_rt_device *d, void *given) {
    opencl *o = d->state;
    opencl_program *p = given;
    while (p->kernels) {
        opencl_kernel *k = p->kernels;
        p->kernels = k->next;
        o->cl->clReleaseKernel(k->handle);
        free(k->name);
        free(k);
    }
    o->cl->clReleaseProgram(p->handle);
    free(p);
}

static opencl_kernel *opencl_find_kernel(bp_rt_device *d, opencl_program *p, const char *name,
                                         const char **why) {
    opencl *o = d->state;
    for (opencl_kernel *k = p->kernels; k; k = k->next)
        if (strcmp(k->name, name) == 0) return k;
    cl_int code = CL_SUCCESS;
    cl_kernel handle = o->cl->clCreateKernel(p->handle, name, &code);
    if (!handle || code != CL_SUCCESS) {
        opencl_fail(code, "clCreateKernel", name, why);
        return NULL;
    }
    opencl_kernel *k = calloc(1, sizeof *k);
    char *text = strdup(name);
    if (!k || !text) {
        free(k);
        free(text);
        o->cl->clReleaseKernel(handle);
        *why = "there is no memory";
        return NULL;
    }
    *k = (opencl_kernel){text, handle, 0, 0, p->kernels};
    o->cl->clGetKernelInfo(handle, CL_KERNEL_NUM_ARGS, sizeof k->parameters, &k->parameters, NULL);
    o->cl->clGetKernelWorkGroupInfo(handle, o->device, CL_KERNEL_WORK_GROUP_SIZE,
                                    sizeof k->threads, &k->threads, NULL);
    p->kernels = k;
    return k;
}

/* Gives the parameters; behind the program's own a kernel may have one for its shared bytes. */
static int32_t opencl_set_parameters(opencl *o, const opencl_kernel *k, const bp_launch *l,
                                     const char **why) {
    cl_uint n = 0;
    cl_int code = CL_SUCCESS;
    for (int32_t i = 0; i < l->count && code == CL_SUCCESS; i++) {
        const bp_kernel_arg *a = &l->args[i];
        if (a->kind == BP_KERNEL_MEMORY) {
            cl_mem memory = (cl_mem)(uintptr_t)a->at.base;
            const int64_t offset = (int64_t)a->at.offset;
            code = o->cl->clSetKernelArg(k->handle, n++, sizeof memory, memory ? &memory : NULL);
            if (code == CL_SUCCESS)
                code = o->cl->clSetKernelArg(k->handle, n++, sizeof offset, &offset);
        } else {
            code = o->cl->clSetKernelArg(k->handle, n++, (size_t)a->bytes, &a->value);
        }
    }
    if (code == CL_SUCCESS && k->parameters == n + 1) {
        const size_t bytes = l->dynamic_bytes ? l->dynamic_bytes : 1;
        code = o->cl->clSetKernelArg(k->handle, n++, bytes, NULL);
    }
    if (code != CL_SUCCESS) return opencl_fail(code, "clSetKernelArg", l->kernel, why);
    if (n == k->parameters) return 0;
    *why = bp_why("kernel %s takes %u parameters and was given %u", l->kernel, k->parameters, n);
    return BP_ERROR;
}

static int32_t opencl_launch(bp_rt_device *d, void *given, void *built, const bp_launch *l,
                             void **event, const char **why) {
    opencl *o = d->state;
    opencl_kernel *k = opencl_find_kernel(d, built, l->kernel, why);
    if (!k) return BP_ERROR;
    const uint64_t threads = (uint64_t)(l->threads[0] * l->threads[1] * l->threads[2]);
    if (k->threads && threads > k->threads) {
        *why = bp_why("kernel %s needs so many registers that a block may have %llu threads; it "
                      "has %llu", l->kernel, (unsigned long long)k->threads,
                      (unsigned long long)threads);
        return BP_ERROR;
    }
    const int32_t status = opencl_set_parameters(o, k, l, why);
    if (status < 0) return status;
    size_t all[3], block[3];
    for (int i = 0; i < 3; i++) {
        block[i] = (size_t)l->threads[i];
        all[i] = (size_t)l->blocks[i] * block[i];
    }
    cl_command_queue queue = opencl_queue_of(o, given);
    cl_event made = NULL;
    const cl_int code =
        o->cl->clEnqueueNDRangeKernel(queue, k->handle, 3, NULL, all, block, 0, NULL, &made);
    if (code != CL_SUCCESS) return opencl_fail(code, "clEnqueueNDRangeKernel", l->kernel, why);
    o->cl->clFlush(queue);
    *event = made;
    return 0;
}

static int32_t opencl_synchronize(bp_rt_device *d, void *given, const char **why) {
    opencl *o = d->state;
    const cl_int code = o->cl->clFinish(opencl_queue_of(o, given));
    return code == CL_SUCCESS ? 0 : opencl_fail(code, "clFinish", d->base.name, why);
}

static void *opencl_keep_event(bp_rt_device *d, void *event) {
    opencl *o = d->state;
    o->cl->clRetainEvent(event);
    return event;
}

static int32_t opencl_is_done(bp_rt_device *d, void *event) {
    opencl *o = d->state;
    cl_int state = 0;
    o->cl->clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
    return state <= 0; /* complete, or ended with an error */
}

static void opencl_wait_in_queue(bp_rt_device *d, void *given, void *event) {
    opencl *o = d->state;
    cl_event before = event;
    o->cl->clEnqueueMarkerWithWaitList(opencl_queue_of(o, given), 1, &before, NULL);
}

static void opencl_wait_on_host(bp_rt_device *d, void *event) {
    opencl *o = d->state;
    cl_event one = event;
    o->cl->clWaitForEvents(1, &one);
}

static void opencl_drop_event(bp_rt_device *d, void *event) {
    opencl *o = d->state;
    o->cl->clReleaseEvent(event);
}

static void close_opencl(bp_rt_device *d) {
    opencl *o = d->state;
    if (o->queue) o->cl->clReleaseCommandQueue(o->queue);
    if (o->context) o->cl->clReleaseContext(o->context);
    free(o);
}

static const bp_driver opencl_driver = {
    .take = opencl_take,
    .give = opencl_give,
    .copy = opencl_copy_box,
    .build = opencl_build,
    .drop = opencl_drop,
    .launch = opencl_launch,
    .synchronize = opencl_synchronize,
    .keep_event = opencl_keep_event,
    .is_done = opencl_is_done,
    .wait_in_queue = opencl_wait_in_queue,
    .wait_on_host = opencl_wait_on_host,
    .drop_event = opencl_drop_event,
    .close = close_opencl,
};

static bp_device_limits opencl_read_limits(const bp_opencl *cl, cl_device_id device) {
    uint64_t shared = 0, memory = 0;
    size_t threads = 0, sizes[8] = {0};
    cl->clGetDeviceInfo(device, CL_DEVICE_LOCAL_MEM_SIZE, sizeof shared, &shared, NULL);
    cl->clGetDeviceInfo(device, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof memory, &memory, NULL);
    cl->clGetDeviceInfo(device, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof threads, &threads, NULL);
    cl->clGetDeviceInfo(device, CL_DEVICE_MAX_WORK_ITEM_SIZES, sizeof sizes, sizes, NULL);
    bp_device_limits limits = {.shared_bytes = shared, .memory_bytes = memory,
                               .threads = (int64_t)threads};
    for (int i = 0; i < 3; i++) {
        limits.block_threads[i] = (int64_t)sizes[i];
        limits.blocks[i] = INT32_MAX;
    }
    return limits;
}

bp_rt_device *bp_open_opencl(const char **why) {
    bp_text report = {0};
    bp_opencl_choice choice;
    char name[256];
    cl_int code = CL_SUCCESS;
    if (!bp_choose_opencl(&choice, &report)) {
        *why = bp_why("no OpenCL device\n%s", report.text ? report.text : "");
        free(report.text);
        return NULL;
    }
    free(report.text);
    opencl *o = calloc(1, sizeof *o);
    bp_opencl_device_text(choice.cl, choice.device, name);
    char *title = strdup(name);
    if (!o || !title) {
        free(o);
        free(title);
        *why = "there is no memory";
        return NULL;
    }
    o->cl = choice.cl;
    o->device = choice.device;
    o->context = o->cl->clCreateContext(NULL, 1, &o->device, NULL, NULL, &code);
    if (o->context && code == CL_SUCCESS)
        o->queue = o->cl->clCreateCommandQueue(o->context, o->device, 0, &code);
    const bp_device_limits limits = opencl_read_limits(o->cl, o->device);
    bp_rt_device *d = NULL;
    if (o->queue && code == CL_SUCCESS)
        d = bp_new_device(&opencl_driver, o, "opencl", title, &limits, 0);
    if (d) return d;
    opencl_fail(code, "clCreateContext", name, why);
    if (o->queue) o->cl->clReleaseCommandQueue(o->queue);
    if (o->context) o->cl->clReleaseContext(o->context);
    free(o);
    free(title);
    return NULL;
}

/* A device over a queue of somebody else's, whose commands ours stay in order with; the caller closes
 * it. NULL, and why. */
bp_device *bp_opencl_adopt(void *context, void *device, void *queue, const char **why) {
    bp_text report = {0};
    bp_opencl_choice choice;
    char name[256];
    opencl *o = NULL;
    char *title = NULL;
    bp_rt_device *d = NULL;
    *why = "there is no memory";
    if (!bp_choose_opencl(&choice, &report)) {
        *why = bp_why("no OpenCL loader\n%s", report.text ? report.text : "");
    } else {
        bp_opencl_device_text(choice.cl, device, name);
        o = calloc(1, sizeof *o);
        title = strdup(name);
    }
    free(report.text);
    if (o && title) {
        *o = (opencl){choice.cl, device, context, queue};
        const bp_device_limits limits = opencl_read_limits(o->cl, o->device);
        d = bp_new_device(&opencl_driver, o, "opencl", title, &limits, 0);
    }
    if (d) {
        o->cl->clRetainContext(o->context);
        o->cl->clRetainCommandQueue(o->queue);
        return &d->base;
    }
    free(o);
    free(title);
    return NULL;
}
