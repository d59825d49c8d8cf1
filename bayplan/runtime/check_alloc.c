/* The checking allocator of tests: exact sizes between guard pages, counted, able to fail.
 *
 * A block holds exactly the bytes asked for and lies flush against the guard page on its left or
 * on its right, so that one byte too far is a fault. Fresh bytes are 0xCD.
 */
#include "runtime.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef struct checked {
    char *base; /* of the mapping */
    uint64_t mapped;
    char *block;
    uint64_t bytes;
    struct checked *next;
} checked;

struct bp_check {
    pthread_mutex_t lock;
    int32_t flush_right;
    int64_t fail_at; /* 1: the first request fails, ...; 0: none */
    int64_t requests;
    int64_t bad_releases; /* of blocks that are not live */
    int64_t live_blocks;
    checked *live;
};

enum { CHECK_PAGE = 4096 };

bp_check *bp_check_new(int32_t flush_right, int64_t fail_at) {
    bp_check *check = calloc(1, sizeof *check);
    if (!check) return NULL;
    pthread_mutex_init(&check->lock, NULL);
    check->flush_right = flush_right;
    check->fail_at = fail_at;
    return check;
}

void bp_check_free(bp_check *check) {
    while (check->live) {
        checked *c = check->live;
        check->live = c->next;
        munmap(c->base, c->mapped);
        free(c);
    }
    pthread_mutex_destroy(&check->lock);
    free(check);
}

/* requests, live blocks, bad releases */
void bp_check_counts(bp_check *check, int64_t out[3]) {
    pthread_mutex_lock(&check->lock);
    out[0] = check->requests;
    out[1] = check->live_blocks;
    out[2] = check->bad_releases;
    pthread_mutex_unlock(&check->lock);
}

/* The alignment is a wish of speed and is not granted: programs must not need it. */
void *bp_check_take(bp_check *check, uint64_t bytes, uint64_t alignment) {
    (void)alignment;
    pthread_mutex_lock(&check->lock);
    int64_t request = ++check->requests;
    pthread_mutex_unlock(&check->lock);
    if (request == check->fail_at || bytes > ((uint64_t)1 << 40)) return NULL;
    uint64_t whole = (bytes + CHECK_PAGE - 1) & ~(uint64_t)(CHECK_PAGE - 1);
    checked *c = calloc(1, sizeof *c);
    if (!c) return NULL;
    c->mapped = whole + 2 * CHECK_PAGE;
    c->base = mmap(NULL, c->mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (c->base == MAP_FAILED ||
        mprotect(c->base + CHECK_PAGE, whole, PROT_READ | PROT_WRITE) != 0) {
        if (c->base != MAP_FAILED) munmap(c->base, c->mapped);
        free(c);
        return NULL;
    }
    memset(c->base + CHECK_PAGE, 0xCD, whole);
    c->bytes = bytes;
    c->block = c->base + CHECK_PAGE + (check->flush_right ? whole - bytes : 0);
    pthread_mutex_lock(&check->lock);
    c->next = check->live;
    check->live = c;
    check->live_blocks++;
    pthread_mutex_unlock(&check->lock);
    return c->block;
}

int64_t bp_check_give(bp_check *check, void *block) {
    pthread_mutex_lock(&check->lock);
    checked **link = &check->live;
    while (*link && (*link)->block != block) link = &(*link)->next;
    checked *c = *link;
    if (c) {
        *link = c->next;
        check->live_blocks--;
    } else {
        check->bad_releases++;
    }
    pthread_mutex_unlock(&check->lock);
    if (!c) return -1;
    int64_t bytes = (int64_t)c->bytes;
    munmap(c->base, c->mapped);
    free(c);
    return bytes;
}
