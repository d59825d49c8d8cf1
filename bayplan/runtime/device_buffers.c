/* Buffers with a twin on a device: who has the newer bytes, and copies of just the elements.
 *
 * A buffer may be a part of a larger array: between its rows lie bytes of others, which a copy must
 * not touch. So copies go by region: stretches without gaps, repeated along the other dimensions.
 */
#include "device.h"

#include <stdlib.h>
#include <string.h>

static uint64_t element_bytes(const bp_buffer *b) { return (uint64_t)(b->type.bits + 7) / 8; }

/* Bytes from the lowest to the highest element, and how far below the first one the lowest is. */
static uint64_t find_span(const bp_buffer *b, uint64_t *below) {
    int64_t low = 0, high = 0;
    *below = 0;
    for (int32_t i = 0; i < b->dimensions; i++) {
        if (b->dim[i].extent <= 0) return 0;
        const int64_t reach = (int64_t)(b->dim[i].extent - 1) * b->dim[i].stride;
        *(reach < 0 ? &low : &high) += reach;
    }
    *below = (uint64_t)-low * element_bytes(b);
    return (uint64_t)(high - low + 1) * element_bytes(b);
}

/* The elements as a region from the lowest one on; whether it can be told in so few dimensions. */
static int find_region(const bp_buffer *b, bp_region *r) {
    memset(r, 0, sizeof *r);
    r->chunk = element_bytes(b);
    for (int32_t i = 0; i < b->dimensions; i++) {
        const bp_dim *dim = &b->dim[i];
        const int64_t stride = dim->stride < 0 ? -(int64_t)dim->stride : dim->stride;
        if (dim->extent == 1 || stride == 0) continue; /* the same element again */
        if (r->dimensions == BP_MAX_REGION) return 0;
        int32_t at = r->dimensions++;
        for (; at > 0 && r->stride[at - 1] > (uint64_t)stride * r->chunk; at--) {
            r->stride[at] = r->stride[at - 1];
            r->count[at] = r->count[at - 1];
        }
        r->stride[at] = (uint64_t)stride * r->chunk;
        r->count[at] = (uint64_t)dim->extent;
    }
    /* What lies without a gap behind each other is one stretch. */
    int32_t kept = 0;
    for (int32_t i = 0; i < r->dimensions; i++) {
        uint64_t *const inner = kept ? &r->count[kept - 1] : &r->chunk;
        const uint64_t unit = kept ? r->stride[kept - 1] : 1;
        if (r->stride[i] == *inner * unit) {
            *inner *= r->count[i];
        } else {
            r->stride[kept] = r->stride[i];
            r->count[kept++] = r->count[i];
        }
    }
    r->dimensions = kept;
    return 1;
}

static int32_t copy_buffer(bp_device *d, bp_buffer *b, int32_t to_device, const char **why) {
    bp_twin *twin = (bp_twin *)(uintptr_t)b->device;
    bp_region region;
    uint64_t below;
    if (!find_span(b, &below)) return 0;
    if (!b->host) {
        *why = "the buffer has no memory on the host";
        return BP_ERROR;
    }
    if (!find_region(b, &region)) {
        *why = bp_why("a copy between host and device of a buffer with %d dimensions that do not "
                      "lie without gaps; %d can be told", (int)b->dimensions, BP_MAX_REGION);
        return BP_ERROR;
    }
    return d->copy(d, twin->at, b->host - below, &region, to_device, why);
}

static void free_twin(bp_buffer *b) {
    bp_twin *twin = (bp_twin *)(uintptr_t)b->device;
    if (twin && !twin->borrowed) {
        twin->at.device->release(&twin->at);
        free(twin);
    }
    b->device = 0;
    b->device_interface = NULL;
}

/* A twin without values. */
static int32_t make_twin(bp_device *d, bp_buffer *b, uint64_t bytes, const char **why) {
    bp_twin *twin = calloc(1, sizeof *twin);
    if (!twin) {
        *why = "there is no memory";
        return BP_OUT_OF_MEMORY;
    }
    const int32_t status = bp_allocate_twin(d, bytes ? bytes : 1, &twin->at, why);
    if (status < 0) {
        free(twin);
        return status;
    }
    twin->bytes = bytes;
    b->device = (uint64_t)(uintptr_t)twin;
    b->device_interface = d;
    return 0;
}

/* Tasks of a parallel loop may share a buffer: one makes its twin, and who needs bytes waits for a
 * copy that is under way. The flag is cleared before a copy, so that what is written meanwhile sets
 * it again. */
static pthread_mutex_t buffers_lock = PTHREAD_MUTEX_INITIALIZER;

/* Copies what the flag says is newer on the other side. */
static int32_t copy_newer(bp_device *d, bp_buffer *b, uint64_t flag, const char **why) {
    __atomic_and_fetch(&b->flags, ~flag, __ATOMIC_ACQ_REL);
    const int32_t status = copy_buffer(d, b, flag == BP_HOST_DIRTY, why);
    if (status < 0) __atomic_or_fetch(&b->flags, flag, __ATOMIC_ACQ_REL);
    return status;
}

static int32_t bring_to_host(bp_buffer *b, const char **why) {
    if (!(b->flags & BP_DEVICE_DIRTY)) return 0;
    if (b->flags & BP_HOST_DIRTY) {
        *why = "both the host's and the device's bytes were changed";
        return BP_ERROR;
    }
    bp_device *own = (bp_device *)(uintptr_t)b->device_interface;
    if (!b->device || !own) {
        *why = "the device's bytes are the newer ones, but there are none";
        return BP_ERROR;
    }
    return copy_newer(own, b, BP_DEVICE_DIRTY, why);
}

static int32_t bring_to_device(bp_device *d, bp_buffer *b, const char **why) {
    uint64_t below, bytes = find_span(b, &below);
    if (b->device && b->device_interface != d) {
        /* The twin is on another device. */
        const int32_t status = bring_to_host(b, why);
        if (status < 0) return status;
        free_twin(b);
    }
    const bp_twin *twin = (const bp_twin *)(uintptr_t)b->device;
    if (twin && twin->bytes < bytes) {
        *why = bp_why("the buffer's twin has %llu bytes, of the %llu that the buffer spans",
                      (unsigned long long)twin->bytes, (unsigned long long)bytes);
        return BP_ERROR;
    }
    int made = 0;
    if (!twin) {
        const int32_t status = make_twin(d, b, bytes, why);
        if (status < 0) return status;
        made = 1;
    }
    if (!(b->flags & BP_HOST_DIRTY) && !(made && !(b->flags & BP_NO_VALUES))) return 0;
    if (b->flags & BP_DEVICE_DIRTY) {
        *why = "both the host's and the device's bytes were changed";
        return BP_ERROR;
    }
    const int32_t status = copy_newer(d, b, BP_HOST_DIRTY, why);
    if (status < 0 && made) free_twin(b);
    return status;
}

int32_t bp_buffer_to_host(bp_device *d, bp_buffer *b, const char **why) {
    (void)d;
    pthread_mutex_lock(&buffers_lock);
    const int32_t status = bring_to_host(b, why);
    pthread_mutex_unlock(&buffers_lock);
    return status;
}

int32_t bp_buffer_to_device(bp_device *d, bp_buffer *b, const char **why) {
    pthread_mutex_lock(&buffers_lock);
    const int32_t status = bring_to_device(d, b, why);
    pthread_mutex_unlock(&buffers_lock);
    return status;
}

void bp_buffer_forget(bp_device *d, bp_buffer *b) {
    (void)d;
    free_twin(b);
}

/* For callers. */

static __thread const char *last_message = "";

/* Makes memory of somebody else's the twin of a buffer; the record of it is the caller's. */
void bp_lend_twin(bp_buffer *buffer, bp_device *d, bp_twin *record, uint64_t base,
                  uint64_t offset) {
    uint64_t below, bytes = find_span(buffer, &below);
    memset(record, 0, sizeof *record);
    record->at.base = base;
    record->at.offset = offset - below;
    record->at.device = d;
    record->bytes = bytes;
    record->borrowed = 1;
    buffer->device = (uint64_t)(uintptr_t)record;
    buffer->device_interface = d;
    buffer->flags |= BP_DEVICE_DIRTY;
}

const char *bp_device_message(void) { return last_message; }

int32_t bp_copy_to_host(bp_buffer *buffer) {
    return bp_buffer_to_host(NULL, buffer, &last_message);
}

int32_t bp_copy_to_device(bp_buffer *buffer) {
    bp_device *d = (bp_device *)(uintptr_t)buffer->device_interface;
    if (d) return d->to_device(d, buffer, &last_message);
    last_message = "the buffer has no memory on a device";
    return BP_ERROR;
}

/* As `bp_copy_to_device`, with a device for a buffer that has no twin yet. */
int32_t bp_copy_to(bp_device *d, bp_buffer *buffer) {
    return d->to_device(d, buffer, &last_message);
}

/* A twin for a buffer that has none, without values. */
int32_t bp_device_malloc(bp_device *d, bp_buffer *buffer) {
    uint64_t below, bytes = find_span(buffer, &below);
    if (buffer->device && buffer->device_interface == d) return 0;
    if (buffer->device) {
        last_message = "the buffer has memory on another device";
        return BP_ERROR;
    }
    return make_twin(d, buffer, bytes, &last_message);
}

int32_t bp_device_wait(bp_device *d) { return d->synchronize(d, &last_message); }

/* Waits for a stream of somebody else's on a CUDA device; others have none. */
int32_t bp_cuda_wait_for_stream(bp_device *base, uint64_t stream) {
    bp_rt_device *d = (bp_rt_device *)base;
    if (strcmp(base->api, "cuda") != 0) return 0;
    return d->driver->synchronize(d, (void *)(uintptr_t)stream, &last_message);
}

int32_t bp_device_sync(bp_buffer *buffer) {
    bp_device *d = (bp_device *)(uintptr_t)buffer->device_interface;
    return d ? d->synchronize(d, &last_message) : 0;
}

void bp_device_free(bp_buffer *buffer) {
    free_twin(buffer);
    buffer->flags &= ~(uint64_t)(BP_HOST_DIRTY | BP_DEVICE_DIRTY);
}
