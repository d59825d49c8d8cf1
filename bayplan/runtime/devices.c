/* The devices of this process: one of each kind, opened at its first use. */
#include "device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t devices_lock = PTHREAD_MUTEX_INITIALIZER;

static struct kind {
    const char *api;
    bp_rt_device *(*open)(const char **why);
    bp_device *device, *given; /* opened; set by the caller instead */
} kinds[] = {
    {"opencl", bp_open_opencl, NULL, NULL},
    {"cuda", bp_open_cuda, NULL, NULL},
    {"emulated", bp_open_emulated, NULL, NULL},
};

static struct kind *find_kind(const char *api) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].api, api) == 0) return &kinds[i];
    return NULL;
}

bp_device *bp_rt_find_device(bp_context *ctx, const char *api, const char **why) {
    (void)ctx;
    struct kind *k = find_kind(api);
    if (!k) {
        *why = bp_why("there are no devices of kind %s", api);
        return NULL;
    }
    pthread_mutex_lock(&devices_lock);
    if (!k->given && !k->device) {
        bp_rt_device *opened = k->open(why);
        if (opened) k->device = &opened->base;
    }
    bp_device *found = k->given ? k->given : k->device;
    if (found && bp_is_lost((bp_rt_device *)found, why)) found = NULL;
    pthread_mutex_unlock(&devices_lock);
    return found;
}

/* From now on the device of its kind, NULL: the process's own again; the one before. */
bp_device *bp_use_device(const char *api, bp_device *device) {
    struct kind *k = find_kind(api);
    if (!k) return NULL;
    pthread_mutex_lock(&devices_lock);
    bp_device *before = k->given;
    k->given = device;
    pthread_mutex_unlock(&devices_lock);
    return before;
}

/* Closes a device of the caller's own. */
void bp_device_close(bp_device *device) {
    if (device) bp_close_device((bp_rt_device *)device);
}
