/* Text: what programs print, and errors for callers in C. */
#include "runtime.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int format_arg(char *out, size_t room, const bp_arg *a) {
    switch (a->kind) {
    case BP_ARG_INT: return snprintf(out, room, "%" PRId64, a->as.i);
    case BP_ARG_UINT: return snprintf(out, room, "%" PRIu64, a->as.u);
    case BP_ARG_FLOAT: return snprintf(out, room, "%f", a->as.d);
    case BP_ARG_DOUBLE: return snprintf(out, room, "%e", a->as.d);
    case BP_ARG_STRING: return snprintf(out, room, "%s", a->as.s ? a->as.s : "");
    default: return snprintf(out, room, "%p", a->as.p);
    }
}

void bp_rt_print(bp_context *base, const bp_arg *args, int32_t count) {
    bp_rt_context *ctx = (bp_rt_context *)base;
    char line[1024];
    size_t at = 0, last = sizeof line - 2;
    for (int32_t i = 0; i < count && at < last; i++) {
        if (i > 0) line[at++] = ' ';
        int n = format_arg(line + at, last - at + 1, &args[i]);
        if (n > 0) at += (size_t)n < last - at ? (size_t)n : last - at;
    }
    line[at++] = '\n';
    if (ctx->write) {
        ctx->write(ctx->write_user, line, at);
        return;
    }
    for (size_t done = 0; done < at;) {
        ssize_t n = write(1, line + done, at - done);
        if (n <= 0) return;
        done += (size_t)n;
    }
}

/* Writes the error of the last call as a text that ends with 0; the bytes it needs, 0: no error. */
uint64_t bp_format_error(const bp_context *ctx, char *out, uint64_t room) {
    const bp_error *e = &ctx->error;
    uint64_t at = 0;
    char part[512];
    if (!e->site) return 0;
    for (const char *m = e->site->message; *m;) {
        if (m[0] == '{' && m[1] >= '0' && m[1] <= '9') {
            int32_t i = 0;
            const char *p = m + 1;
            while (*p >= '0' && *p <= '9') i = 10 * i + (*p++ - '0');
            if (*p == '}' && i < e->count) {
                const bp_arg *a = &e->args[i];
                const char *text = part;
                if (a->kind == BP_ARG_STRING)
                    text = a->as.s ? a->as.s : ""; /* may be long: a compiler's words */
                else
                    format_arg(part, sizeof part, a);
                for (const char *c = text; *c; c++, at++)
                    if (at + 1 < room) out[at] = *c;
                m = p + 1;
                continue;
            }
        }
        if ((m[0] == '{' && m[1] == '{') || (m[0] == '}' && m[1] == '}')) m++;
        if (at + 1 < room) out[at] = *m;
        at++;
        m++;
    }
    if (e->site->file && e->site->file[0]) {
        snprintf(part, sizeof part, " (%s:%d)", e->site->file, (int)e->site->line);
        for (const char *c = part; *c; c++, at++)
            if (at + 1 < room) out[at] = *c;
    }
    if (room > 0) out[at < room ? at : room - 1] = 0;
    return at + 1;
}
