/* A CUDA driver and an NVRTC that run nothing and note what they are asked: a test of who calls them.
 *
 * Memory is the host's. Calls that matter are added to the file that FAKE_CUDA_LOG names. FAKE_CUDA
 * has words for what fails: "init", "alloc", "compile", "load", "launch".
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
typedef int CUresult;

static int fails(const char *word) {
    const char *words = getenv("FAKE_CUDA");
    return words && strstr(words, word) != NULL;
}

static void note(const char *text) {
    FILE *file = fopen(getenv("FAKE_CUDA_LOG"), "a");
    if (!file) abort();
    fprintf(file, "%s\n", text);
    fclose(file);
}

EXPORT CUresult cuInit(unsigned flags) { return flags || fails("init") ? 100 : 0; }
EXPORT CUresult cuDriverGetVersion(int *out) { *out = 13000; return 0; }
EXPORT CUresult cuDeviceGetCount(int *out) { *out = 1; return 0; }
EXPORT CUresult cuDeviceGet(int *out, int k) { *out = k; return 0; }
EXPORT CUresult cuDeviceGetName(char *out, int room, int device) {
    (void)device;
    snprintf(out, (size_t)room, "Fake GPU");
    return 0;
}
EXPORT CUresult cuDeviceGetAttribute(int *out, int attribute, int device) {
    (void)device;
    switch (attribute) {
    case 1: *out = 1024; break;
    case 2: case 3: *out = 1024; break;
    case 4: *out = 64; break;
    case 5: *out = 2147483647; break;
    case 6: case 7: *out = 65535; break;
    case 8: *out = 49152; break;
    case 10: *out = 32; break;
    case 75: *out = 9; break;
    case 76: *out = 0; break;
    case 97: *out = 101376; break;
    default: return 1;
    }
    return 0;
}
EXPORT CUresult cuDeviceTotalMem_v2(size_t *out, int device) {
    (void)device;
    *out = (size_t)1 << 30;
    return 0;
}
EXPORT CUresult cuDevicePrimaryCtxRetain(void **out, int device) {
    (void)device;
    *out = malloc(1);
    return 0;
}
EXPORT CUresult cuDevicePrimaryCtxRelease_v2(int device) { (void)device; return 0; }
static __thread int depth;
EXPORT CUresult cuCtxPushCurrent_v2(void *context) { (void)context; depth++; return 0; }
EXPORT CUresult cuCtxPopCurrent_v2(void **out) { *out = NULL; depth--; return 0; }
EXPORT CUresult cuMemAlloc_v2(uint64_t *out, size_t bytes) {
    if (fails("alloc") || depth < 1) return 2;
    *out = (uint64_t)(uintptr_t)calloc(1, bytes);
    return 0;
}
EXPORT CUresult cuMemFree_v2(uint64_t memory) { free((void *)(uintptr_t)memory); return 0; }
EXPORT CUresult cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *stream) {
    (void)stream;
    memcpy((void *)(uintptr_t)to, from, bytes);
    return 0;
}
EXPORT CUresult cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *stream) {
    (void)stream;
    memcpy(to, (void *)(uintptr_t)from, bytes);
    return 0;
}
/* As in cuda.h of the toolkit. */
typedef struct copy_2d {
    size_t src_x, src_y;
    unsigned src_type;
    const void *src_host;
    uint64_t src_device;
    void *src_array;
    size_t src_pitch, dst_x, dst_y;
    unsigned dst_type;
    void *dst_host;
    uint64_t dst_device;
    void *dst_array;
    size_t dst_pitch, width, height;
} copy_2d;
EXPORT CUresult cuMemcpy2DAsync_v2(const copy_2d *c, void *stream) {
    const char *src = c->src_type == 1 ? c->src_host : (char *)(uintptr_t)c->src_device;
    char *dst = c->dst_type == 1 ? c->dst_host : (char *)(uintptr_t)c->dst_device;
    (void)stream;
    if (c->src_x || c->src_y || c->dst_x || c->dst_y || c->src_type == c->dst_type) return 1;
    for (size_t y = 0; y < c->height; y++)
        memcpy(dst + y * c->dst_pitch, src + y * c->src_pitch, c->width);
    note("copy of rows");
    return 0;
}
EXPORT CUresult cuModuleLoadDataEx(void **out, const void *text, unsigned count, int *options,
                                   void **values) {
    if (fails("load")) {
        for (unsigned i = 0; i < count; i++)
            if (options[i] == 5) strcpy(values[i], "ptxas says no");
        return 218;
    }
    note(strncmp(text, "//PTX of NVRTC", 14) == 0 ? "load nvrtc" : "load other");
    *out = malloc(1);
    return 0;
}
EXPORT CUresult cuModuleUnload(void *module) { free(module); return 0; }
EXPORT CUresult cuModuleGetFunction(void **out, void *module, const char *name) {
    (void)module;
    *out = strdup(name);
    return 0;
}
EXPORT CUresult cuFuncSetAttribute(void *function, int attribute, int value) {
    char text[300];
    snprintf(text, sizeof text, "attribute %d=%d", attribute, value);
    (void)function;
    note(text);
    return 0;
}
EXPORT CUresult cuFuncGetAttribute(int *out, int attribute, void *function) {
    (void)function;
    *out = attribute == 0 ? 1024 : 0;
    return 0;
}
EXPORT CUresult cuLaunchKernel(void *function, unsigned bx, unsigned by, unsigned bz, unsigned tx,
                               unsigned ty, unsigned tz, unsigned shared, void *stream,
                               void **parameters, void **extra) {
    char text[500];
    (void)extra;
    if (fails("launch")) return 700;
    snprintf(text, sizeof text, "launch %s %ux%ux%u %ux%ux%u shared %u%s", (const char *)function,
             bx, by, bz, tx, ty, tz, shared, stream ? " stream" : "");
    note(text);
    /* The first memory, and its offset. */
    if (!**(void ***)parameters || *(int64_t *)parameters[1] < 0) return 1;
    return 0;
}
EXPORT CUresult cuStreamSynchronize(void *stream) { (void)stream; return 0; }
EXPORT CUresult cuStreamWaitEvent(void *s, void *e, unsigned f) { (void)s, (void)e, (void)f; return 0; }
EXPORT CUresult cuEventCreate(void **out, unsigned flags) { (void)flags; *out = malloc(1); return 0; }
EXPORT CUresult cuEventRecord(void *event, void *stream) { (void)event, (void)stream; return 0; }
EXPORT CUresult cuEventQuery(void *event) { (void)event; return 600; }
EXPORT CUresult cuEventSynchronize(void *event) { (void)event; return 0; }
EXPORT CUresult cuEventDestroy_v2(void *event) { free(event); return 0; }
EXPORT CUresult cuGetErrorName(CUresult code, const char **out) {
    *out = code == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : code == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS"
                                                                : "CUDA_ERROR_FAKE";
    return 0;
}
EXPORT CUresult cuGetErrorString(CUresult code, const char **out) {
    *out = code == 700 ? "an illegal memory access was encountered" : "fake words";
    return 0;
}

/* NVRTC */
EXPORT int nvrtcVersion(int *major, int *minor) { *major = 13, *minor = 0; return 0; }
EXPORT int nvrtcCreateProgram(void **out, const char *text, const char *name, int n,
                              const char *const *headers, const char *const *names) {
    (void)name, (void)n, (void)headers, (void)names;
    *out = strdup(text);
    return 0;
}
EXPORT int nvrtcCompileProgram(void *program, int count, const char *const *options) {
    char text[300] = "compile";
    (void)program;
    for (int i = 0; i < count; i++) {
        strcat(text, " ");
        strcat(text, options[i]);
    }
    note(text);
    return fails("compile") ? 6 : 0;
}
EXPORT int nvrtcDestroyProgram(void **program) { free(*program); return 0; }
static const char words[] = "kernels(7): error: no such thing";
EXPORT int nvrtcGetProgramLogSize(void *program, size_t *out) { (void)program; *out = sizeof words; return 0; }
EXPORT int nvrtcGetProgramLog(void *program, char *out) { (void)program; strcpy(out, words); return 0; }
static const char ptx[] = "//PTX of NVRTC\n";
EXPORT int nvrtcGetPTXSize(void *program, size_t *out) { (void)program; *out = sizeof ptx; return 0; }
EXPORT int nvrtcGetPTX(void *program, char *out) { (void)program; strcpy(out, ptx); return 0; }
