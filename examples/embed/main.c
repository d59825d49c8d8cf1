/* C: buffers are structures of bayplan.h, which the headers contain. */
#include "fixed.h"
#include "sharpen.h"

#include <stdio.h>

enum { WIDTH = 32, HEIGHT = 8 };

/* All memory of `fixed`: a static array whose size its header knows. */
fixed_WORKSPACE(workspace);

static int run_sharpen(void) {
    static float in[HEIGHT][WIDTH], out[HEIGHT][WIDTH];
    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < WIDTH; x++) in[y][x] = x < WIDTH / 2 ? 0.0f : 1.0f;
    bp_dim dim[2] = {{0, WIDTH, 1, 0}, {0, HEIGHT, WIDTH, 0}};
    bp_buffer image = {.host = (uint8_t *)in, .type = {BP_FLOAT, 32, 1}, .dimensions = 2,
                       .dim = dim};
    bp_buffer sharp = {.host = (uint8_t *)out, .type = {BP_FLOAT, 32, 1}, .dimensions = 2,
                       .dim = dim};
    const int status = sharpen(&image, 1.0f, &sharp);
    if (status != 0) {
        char text[300];
        bp_format_error(bp_default_context(), text, sizeof text);
        fprintf(stderr, "sharpen: %s\n", text);
        return status;
    }
    printf("sharpen %.2f %.2f\n", out[3][WIDTH / 2 - 1], out[3][WIDTH / 2]);
    return 0;
}

static int run_fixed(void) {
    static float in[64], out[64];
    in[31] = 9.0f;
    bp_dim dim = {0, 64, 1, 0};
    bp_buffer samples = {.host = (uint8_t *)in, .type = {BP_FLOAT, 32, 1}, .dimensions = 1,
                         .dim = &dim};
    bp_buffer twice = {.host = (uint8_t *)out, .type = {BP_FLOAT, 32, 1}, .dimensions = 1,
                       .dim = &dim};
    const int status = fixed_with_workspace(&samples, &twice, workspace, sizeof workspace);
    printf("fixed %.2f in %d bytes\n", out[31], fixed_WORKSPACE_BYTES);
    return status;
}

int main(void) { return run_sharpen() || run_fixed(); }
