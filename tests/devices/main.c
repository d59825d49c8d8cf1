/* Calls the blur from C: once with arrays of the host, once with what it left on the device. */
#include "blur.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 40, HEIGHT = 24 };

static float in[HEIGHT + 2][WIDTH + 2], out[HEIGHT][WIDTH];

static bp_buffer wrap(void *host, bp_dim *dim) {
    bp_buffer b;
    memset(&b, 0, sizeof b);
    b.host = (uint8_t *)host;
    b.type.code = BP_FLOAT;
    b.type.bits = 32;
    b.type.lanes = 1;
    b.dimensions = 2;
    b.dim = dim;
    return b;
}

static int check(float factor) {
    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < WIDTH; x++) {
            float sum = 0;
            for (int i = 0; i < 9; i++) sum += in[y + i / 3][x + i % 3];
            if (fabsf(sum * factor - out[y][x]) > 1e-3f) return 0;
        }
    return 1;
}

int main(void) {
    static char text[20000];
    bp_dim in_dim[] = {{0, WIDTH + 2, 1, 0}, {0, HEIGHT + 2, WIDTH + 2, 0}};
    bp_dim out_dim[] = {{0, WIDTH, 1, 0}, {0, HEIGHT, WIDTH, 0}};
    for (int y = 0; y < HEIGHT + 2; y++)
        for (int x = 0; x < WIDTH + 2; x++) in[y][x] = (float)((7 * x + 3 * y) % 11);
    bp_buffer input = wrap(in, in_dim), output = wrap(out, out_dim);
    for (int round = 1; round <= 2; round++) {
        if (blur(&input, &output) != 0) {
            bp_format_error(bp_default_context(), text, sizeof text);
            printf("failed: %s\n", text);
            return 2;
        }
        if (!(output.flags & BP_DEVICE_DIRTY) || !input.device) return 3;
        if (bp_copy_to_host(&output) != 0 || !check(1)) return 4;
        /* The host changes its elements, and says so. */
        in[round][5] = 100;
        input.flags |= BP_HOST_DIRTY;
    }
    bp_device_sync(&output);
    bp_device_free(&input);
    bp_device_free(&output);
    if (input.device || output.device) return 5;
    printf("right\n");
    return 0;
}
