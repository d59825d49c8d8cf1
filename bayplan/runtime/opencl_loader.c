/* Finds an OpenCL loader, its drivers and a device, and says where it looked.
 *
 * There may be several loaders: that of the system, and those which packages of Python bring. Each
 * reads variables and folders of its own, so that one sees devices which another does not. They are
 * tried in turn, and the first one with a device is taken.
 */
#include "device.h"
#include "opencl.h"

#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char *const variables[] = {"BAYPLAN_OPENCL_LIBRARY", "BAYPLAN_OPENCL_DEVICE",
                                        "OCL_ICD_VENDORS",        "OPENCL_VENDOR_PATH",
                                        "OCL_ICD_FILENAMES",      "PYOPENCL_HOME"};
static const char *const usual_names[] = {"libOpenCL.so.1", "libOpenCL.so"};
static const char usual_folder[] = "/etc/OpenCL/vendors";

/* Paths of loaders that are tried before the system's, a line each. */
static char *more_loaders;

void bp_opencl_add_loaders(const char *paths) {
    free(more_loaders);
    more_loaders = paths ? strdup(paths) : NULL;
}

static const char *opencl_variable(const char *name) {
    const char *text = getenv(name);
    return text && *text ? text : NULL;
}

/* Loaders */

static bp_opencl *opencl_open_loader(const char *name, bp_text *report) {
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        bp_add(report, "loader %s: %s\n", name, dlerror());
        return NULL;
    }
    bp_opencl *cl = calloc(1, sizeof *cl);
    if (!cl) return NULL;
    const char *missing = NULL;
#define BP_LOAD(function, result, parameters)                                                      \
    *(void **)&cl->function = dlsym(library, #function);                                           \
    if (!cl->function) missing = #function;
    BP_OPENCL_FUNCTIONS(BP_LOAD)
#undef BP_LOAD
    if (missing) {
        bp_add(report, "loader %s: it has no function %s\n", name, missing);
        free(cl);
        return NULL;
    }
    Dl_info info;
    char version[128] = "", title[64] = "";
    cl->path = dladdr(*(void **)&cl->clGetPlatformIDs, &info) ? strdup(info.dli_fname) : NULL;
    if (!cl->path) cl->path = strdup(name);
    cl_int (*ask)(cl_uint, size_t, void *, size_t *);
    void *(*find)(const char *);
    *(void **)&ask = dlsym(library, "clGetICDLoaderInfoOCLICD");
    *(void **)&find = dlsym(library, "clGetExtensionFunctionAddress");
    if (!ask && find) *(void **)&ask = find("clGetICDLoaderInfoOCLICD");
    if (ask) {
        ask(CL_ICDL_NAME, sizeof title, title, NULL);
        ask(CL_ICDL_VERSION, sizeof version, version, NULL);
    }
    bp_add(report, "loader %s (%s%s%s)\n", cl->path, title, *title ? " " : "",
           *version ? version : "it does not tell its version");
    return cl;
}

/* Folders that loaders read, and the drivers that the files in them name. */

static void opencl_look_at_driver(const char *file, const char *name, bp_text *report) {
    void *driver = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
    if (!driver) {
        bp_add(report, "    %s names %s: %s\n", file, name, dlerror());
        return;
    }
    bp_add(report, "    %s names %s, which can be loaded\n", file, name);
    dlclose(driver);
}

static void opencl_look_at_file(const char *folder, const char *name, bp_text *report) {
    char path[4096], line[4096] = "";
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "r");
    if (!file) {
        bp_add(report, "    %s cannot be read\n", path);
        return;
    }
    if (!fgets(line, sizeof line, file)) line[0] = 0;
    fclose(file);
    line[strcspn(line, "\r\n")] = 0;
    if (!line[0]) {
        bp_add(report, "    %s names no driver\n", path);
        return;
    }
    /* A driver beside its file comes before the system's of the same name. */
    char beside[8192];
    struct stat status;
    snprintf(beside, sizeof beside, "%s/%s", folder, line);
    const int is_beside = !strchr(line, '/') && stat(beside, &status) == 0;
    opencl_look_at_driver(path, is_beside ? beside : line, report);
}

static void opencl_look_at_folder(const char *folder, const char *origin, bp_text *report) {
    DIR *entries = opendir(folder);
    if (!entries) {
        bp_add(report, "  folder %s (%s): cannot be read\n", folder, origin);
        return;
    }
    bp_add(report, "  folder %s (%s)\n", folder, origin);
    int found = 0;
    for (struct dirent *e; (e = readdir(entries));) {
        const size_t length = strlen(e->d_name);
        if (length < 4 || strcmp(e->d_name + length - 4, ".icd") != 0) continue;
        opencl_look_at_file(folder, e->d_name, report);
        found++;
    }
    closedir(entries);
    if (!found) bp_add(report, "    there is no file *.icd\n");
}

static void opencl_look_at_folders(bp_text *report) {
    char path[4096];
    const char *vendors = opencl_variable("OCL_ICD_VENDORS");
    const char *other = opencl_variable("OPENCL_VENDOR_PATH");
    struct stat status;
    if (vendors && stat(vendors, &status) == 0 && !S_ISDIR(status.st_mode))
        bp_add(report, "  file %s (OCL_ICD_VENDORS)\n", vendors);
    else if (vendors)
        opencl_look_at_folder(vendors, "OCL_ICD_VENDORS", report);
    if (other) opencl_look_at_folder(other, "OPENCL_VENDOR_PATH", report);
    if (!vendors && !other) opencl_look_at_folder(usual_folder, "the usual one", report);
    if (!opencl_variable("PYOPENCL_HOME")) return;
    if (vendors || other) {
        bp_add(report, "  not in %s/.libs (PYOPENCL_HOME), since a folder of drivers is named\n",
               opencl_variable("PYOPENCL_HOME"));
    } else {
        snprintf(path, sizeof path, "%s/.libs", opencl_variable("PYOPENCL_HOME"));
        opencl_look_at_folder(path, "PYOPENCL_HOME, read by the loader of pyopencl's wheel alone",
                              report);
    }
}

/* Drivers that lie beside a loader, which asks for them by their bare names: those are found once
 * they are loaded. Not where the user names a folder of drivers. */
static void opencl_load_beside(const char *loader) {
    const char *end = strrchr(loader, '/');
    char folder[4096], path[8192], line[4096];
    if (!end || opencl_variable("OCL_ICD_VENDORS") || opencl_variable("OPENCL_VENDOR_PATH")) return;
    snprintf(folder, sizeof folder, "%.*s", (int)(end - loader), loader);
    DIR *entries = opendir(folder);
    if (!entries) return;
    for (struct dirent *e; (e = readdir(entries));) {
        const size_t length = strlen(e->d_name);
        if (length < 4 || strcmp(e->d_name + length - 4, ".icd") != 0) continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        FILE *file = fopen(path, "r");
        if (!file) continue;
        if (!fgets(line, sizeof line, file)) line[0] = 0;
        fclose(file);
        line[strcspn(line, "\r\n")] = 0;
        if (!line[0] || strchr(line, '/')) continue;
        snprintf(path, sizeof path, "%s/%s", folder, line);
        dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    closedir(entries);
}

/* Devices */

void bp_opencl_device_text(const bp_opencl *cl, cl_device_id device, char out[256]) {
    out[0] = 0;
    cl->clGetDeviceInfo(device, CL_DEVICE_NAME, 255, out, NULL);
    out[255] = 0;
}

/* How good a device is without the user's word: GPUs, accelerators, processors; simulators last. */
static int opencl_rate(const bp_opencl *cl, cl_device_id device, const char *platform) {
    cl_bitfield type = 0;
    if (strstr(platform, "Oclgrind")) return 1;
    cl->clGetDeviceInfo(device, CL_DEVICE_TYPE, sizeof type, &type, NULL);
    return type & CL_DEVICE_TYPE_GPU ? 4 : type & CL_DEVICE_TYPE_ACCELERATOR ? 3 : 2;
}

/* The best device of a loader, or the one that the user's words name. */
static int opencl_choose_device(bp_opencl *cl, bp_opencl_choice *out, bp_text *report) {
    enum { MOST = 32 };
    cl_platform_id platforms[MOST];
    cl_device_id devices[MOST];
    cl_uint count = 0;
    int best = 0, found = 0;
    const char *wanted = opencl_variable("BAYPLAN_OPENCL_DEVICE");
    const cl_int status = cl->clGetPlatformIDs(MOST, platforms, &count);
    if (status != CL_SUCCESS && status != CL_PLATFORM_NOT_FOUND_KHR)
        bp_add(report, "  clGetPlatformIDs gives the error %d\n", (int)status);
    if (status != CL_SUCCESS) count = 0;
    for (cl_uint i = 0; i < count && i < MOST; i++) {
        char name[256] = "", title[256];
        cl_uint n = 0;
        cl->clGetPlatformInfo(platforms[i], CL_PLATFORM_NAME, 255, name, NULL);
        if (cl->clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, MOST, devices, &n) != CL_SUCCESS)
            n = 0;
        bp_add(report, "  platform %s: %u device%s\n", name, n, n == 1 ? "" : "s");
        for (cl_uint k = 0; k < n && k < MOST; k++) {
            bp_opencl_device_text(cl, devices[k], title);
            int rating = opencl_rate(cl, devices[k], name);
            if (wanted) rating = strstr(name, wanted) || strstr(title, wanted) ? 5 : 0;
            bp_add(report, "    device %s%s\n", title, rating ? "" : " (not wanted)");
            found++;
            if (rating <= best) continue;
            best = rating;
            *out = (bp_opencl_choice){cl, platforms[i], devices[k]};
        }
    }
    bp_add(report, "  found: %u platforms, %d devices\n", count, found);
    return best > 0;
}

static int opencl_try_loader(const char *name, bp_opencl_choice *out, bp_text *report) {
    opencl_load_beside(name);
    bp_opencl *cl = opencl_open_loader(name, report);
    if (!cl) return 0;
    if (opencl_choose_device(cl, out, report)) return 1;
    free((char *)cl->path);
    free(cl);
    return 0;
}

static int opencl_try_loaders(bp_opencl_choice *out, bp_text *report) {
    const char *only = opencl_variable("BAYPLAN_OPENCL_LIBRARY");
    if (only) return opencl_try_loader(only, out, report);
    for (const char *begin = more_loaders; begin && *begin;) {
        const size_t length = strcspn(begin, "\n");
        char name[4096];
        snprintf(name, sizeof name, "%.*s", (int)length, begin);
        if (opencl_try_loader(name, out, report)) return 1;
        begin += length + (begin[length] == '\n');
    }
    for (size_t i = 0; i < sizeof usual_names / sizeof *usual_names; i++)
        if (opencl_try_loader(usual_names[i], out, report)) return 1;
    return 0;
}

int bp_choose_opencl(bp_opencl_choice *out, bp_text *report) {
    const int found = opencl_try_loaders(out, report);
    if (found) {
        char title[256];
        bp_opencl_device_text(out->cl, out->device, title);
        bp_add(report, "taken: %s, by %s\n", title, out->cl->path);
        return 1;
    }
    bp_add(report, "where drivers are looked for:\n");
    opencl_look_at_folders(report);
    bp_add(report, "variables:\n");
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *text = getenv(variables[i]);
        bp_add(report, text ? "  %s=%s\n" : "  %s is not set\n", variables[i], text);
    }
    return 0;
}

/* For `bayplan doctor`: whether there is a device, and what was found. The caller frees it. */
int32_t bp_opencl_report(char **out) {
    bp_text report = {0};
    bp_opencl_choice choice;
    const int found = bp_choose_opencl(&choice, &report);
    *out = report.text;
    return found;
}
