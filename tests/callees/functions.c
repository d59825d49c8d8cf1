/* Functions that the tests call, written against no header of ours: the layout of the buffers is
 * that of halide_buffer_t. */
#include <stdint.h>
#include <string.h>

typedef struct {
    int32_t min, extent, stride;
    uint32_t flags;
} dim_t;

typedef struct {
    uint64_t device;
    const void *device_interface;
    uint8_t *host;
    uint64_t flags;
    uint8_t code, bits;
    uint16_t lanes;
    int32_t dimensions;
    dim_t *dim;
    void *padding;
} buffer_t;

int32_t calls, queries;

static int64_t offset(const buffer_t *b, int x, int y) {
    int64_t at = (int64_t)(x - b->dim[0].min) * b->dim[0].stride;
    return b->dimensions > 1 ? at + (int64_t)(y - b->dim[1].min) * b->dim[1].stride : at;
}

static int32_t *at(const buffer_t *b, int x, int y) { return (int32_t *)b->host + offset(b, x, y); }

static int is_query(const buffer_t *b) { return b->host == NULL && b->device == 0; }

static void same(buffer_t *to, const buffer_t *from) {
    for (int d = 0; d < to->dimensions; d++) {
        to->dim[d].min = from->dim[d].min;
        to->dim[d].extent = from->dim[d].extent;
    }
}

#define LOOP(b)                                                                                  \
    for (int y = (b)->dim[1].min; y < (b)->dim[1].min + (b)->dim[1].extent; y++)                 \
        for (int x = (b)->dim[0].min; x < (b)->dim[0].min + (b)->dim[0].extent; x++)

/* out(x, y) = in(x - k, y) + in(x + k, y + 1) */
int ex_stencil(buffer_t *in, int32_t k, buffer_t *out) {
    if (is_query(out)) {
        queries++;
        if (is_query(in)) {
            same(in, out);
            in->dim[0].min -= k;
            in->dim[0].extent += 2 * k;
            in->dim[1].extent += 1;
        }
        return 0;
    }
    calls++;
    LOOP(out) *at(out, x, y) = *at(in, x - k, y) + *at(in, x + k, y + 1);
    return 0;
}

/* out(x, y) = in(x, y) * factor + addend */
int ex_scale(buffer_t *in, int32_t factor, int64_t addend, buffer_t *out) {
    if (is_query(out) || is_query(in)) {
        if (is_query(in)) same(in, out);
        return 0;
    }
    LOOP(out) *at(out, x, y) = (int32_t)(*at(in, x, y) * factor + addend);
    return 0;
}

/* sum(x, y) = a(x, y) + b(y, x); difference(x, y) of type double */
int ex_two(buffer_t *a, buffer_t *b, buffer_t *sum, buffer_t *difference) {
    if (is_query(sum)) {
        if (is_query(a)) same(a, sum);
        if (is_query(b)) {
            b->dim[0].min = sum->dim[1].min;
            b->dim[0].extent = sum->dim[1].extent;
            b->dim[1].min = sum->dim[0].min;
            b->dim[1].extent = sum->dim[0].extent;
        }
        return 0;
    }
    LOOP(sum) {
        *at(sum, x, y) = *at(a, x, y) + *at(b, y, x);
        ((double *)difference->host)[offset(difference, x, y)] = 0.5 * *at(a, x, y) - *at(b, y, x);
    }
    return 0;
}

/* No input: out(x, y) = x * 100 + y */
int ex_source(buffer_t *out) {
    if (is_query(out)) return 0;
    LOOP(out) *at(out, x, y) = x * 100 + y;
    return 0;
}

/* out(x) = in(x) * x, computed in stretches of 17 only */
int ex_seventeen(buffer_t *in, buffer_t *out) {
    if (is_query(in) || is_query(out)) {
        if (is_query(out)) out->dim[0].extent = (out->dim[0].extent + 16) / 17 * 17;
        if (is_query(in)) same(in, out);
        return 0;
    }
    if (out->dim[0].extent % 17) return 17;
    for (int x = out->dim[0].min; x < out->dim[0].min + out->dim[0].extent; x++)
        *at(out, x, 0) = *at(in, x, 0) * x;
    return 0;
}

/* Mirrors at the middle of its input, whatever that is */
int ex_mirror(buffer_t *in, int32_t width, buffer_t *out) {
    if (is_query(out)) {
        if (is_query(in)) {
            same(in, out);
            in->dim[0].min = width - out->dim[0].min - out->dim[0].extent;
        }
        return 0;
    }
    LOOP(out) *at(out, x, y) = *at(in, width - 1 - x, y);
    return 0;
}

/* Asks for more in part than for the whole */
int ex_greedy(buffer_t *in, buffer_t *out) {
    if (is_query(in)) {
        same(in, out);
        if (out->dim[1].extent == 1) {
            in->dim[0].min += 50;
            in->dim[0].extent += 100;
        }
        return 0;
    }
    if (is_query(out)) return 0;
    LOOP(out) *at(out, x, y) = (in->dim[0].min - out->dim[0].min) * 1000 + in->dim[0].extent;
    return 0;
}

int ex_fail(buffer_t *out) { return is_query(out) ? 0 : 42; }

int ex_fail_query(buffer_t *out) { return is_query(out) ? -7 : 0; }

/* One number */
int ex_number(int32_t n, float f, buffer_t *out) {
    if (is_query(out)) return 0;
    *(float *)out->host = (float)n + f;
    return 0;
}

/* A sum over all of a row: the whole row is needed */
int ex_row_sums(buffer_t *in, int32_t width, buffer_t *out) {
    if (is_query(out)) {
        if (is_query(in)) {
            in->dim[0].min = 0;
            in->dim[0].extent = width;
            in->dim[1].min = out->dim[0].min;
            in->dim[1].extent = out->dim[0].extent;
        }
        return 0;
    }
    for (int y = out->dim[0].min; y < out->dim[0].min + out->dim[0].extent; y++) {
        int32_t total = 0;
        for (int x = 0; x < width; x++) total += *at(in, x, y);
        *at(out, y, 0) = total;
    }
    return 0;
}

/* What a program with kernels would do that leaves its values on the device. */
int ex_left_on_device(buffer_t *out) {
    if (!is_query(out)) out->flags |= 2;
    return 0;
}
