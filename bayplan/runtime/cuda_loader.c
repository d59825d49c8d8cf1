/* Finds the CUDA driver and its run-time compiler, and says where it looked. */
#include "device.h"
#include "cuda.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Paths of NVRTC that are tried before the usual names, a line each. */
static char *more_nvrtc;

void bp_cuda_add_compilers(const char *paths) {
    free(more_nvrtc);
    more_nvrtc = paths ? strdup(paths) : NULL;
}

static void *open_library(const char *name, bp_text *report) {
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library) bp_add(report, "  %s: %s\n", name, dlerror());
    return library;
}

static int load_driver(bp_cuda *out, const char *name, bp_text *report) {
    void *library = open_library(name, report);
    if (!library) return 0;
    const char *missing = NULL;
#define BP_LOAD(member, function, parameters)                                                      \
    *(void **)&out->member = dlsym(library, #function);                                            \
    if (!out->member) missing = #function;
    BP_CUDA_FUNCTIONS(BP_LOAD)
#undef BP_LOAD
    if (!missing) return 1;
    bp_add(report, "  %s: it has no function %s\n", name, missing);
    dlclose(library);
    return 0;
}

int bp_load_cuda(bp_cuda *out, bp_text *report) {
    const char *only = getenv("BAYPLAN_CUDA_LIBRARY");
    bp_add(report, "libraries of the CUDA driver:\n");
    if (only && *only) return load_driver(out, only, report);
    return load_driver(out, "libcuda.so.1", report) || load_driver(out, "libcuda.so", report);
}

static int load_compiler(bp_nvrtc *out, const char *name, bp_text *report) {
    void *library = open_library(name, report);
    if (!library) return 0;
    const char *missing = NULL;
#define BP_LOAD(member, function, parameters)                                                      \
    *(void **)&out->member = dlsym(library, #function);                                            \
    if (!out->member) missing = #function;
    BP_NVRTC_FUNCTIONS(BP_LOAD)
#undef BP_LOAD
    if (!missing) {
        Dl_info info;
        out->path = strdup(dladdr(*(void **)&out->version, &info) ? info.dli_fname : name);
        return 1;
    }
    bp_add(report, "  %s: it has no function %s\n", name, missing);
    dlclose(library);
    return 0;
}

int bp_load_nvrtc(bp_nvrtc *out, bp_text *report) {
    static const char *const names[] = {"libnvrtc.so",    "libnvrtc.so.13",   "libnvrtc.so.12",
                                        "libnvrtc.so.11.2"};
    bp_add(report, "libraries of NVRTC, the compiler:\n");
    for (const char *begin = more_nvrtc; begin && *begin;) {
        const size_t length = strcspn(begin, "\n");
        char name[4096];
        snprintf(name, sizeof name, "%.*s", (int)length, begin);
        if (load_compiler(out, name, report)) return 1;
        begin += length + (begin[length] == '\n');
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (load_compiler(out, names[i], report)) return 1;
    return 0;
}
