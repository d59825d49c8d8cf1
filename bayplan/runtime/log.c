/* The event log: each allocation and release of the calls that write to it, in order. */
#include "runtime.h"

#include <stdlib.h>

struct bp_log {
    pthread_mutex_t lock;
    bp_event *events;
    int64_t count, capacity;
};

bp_log *bp_log_new(void) {
    bp_log *log = calloc(1, sizeof *log);
    if (log) pthread_mutex_init(&log->lock, NULL);
    return log;
}

void bp_log_free(bp_log *log) {
    pthread_mutex_destroy(&log->lock);
    free(log->events);
    free(log);
}

/* An event that finds no memory is dropped: a log must not end a call. */
void bp_log_add(bp_log *log, bp_event event) {
    pthread_mutex_lock(&log->lock);
    if (log->count == log->capacity) {
        int64_t capacity = log->capacity ? 2 * log->capacity : 256;
        bp_event *events = realloc(log->events, (size_t)capacity * sizeof *events);
        if (events) {
            log->events = events;
            log->capacity = capacity;
        }
    }
    if (log->count < log->capacity) log->events[log->count++] = event;
    pthread_mutex_unlock(&log->lock);
}

int64_t bp_log_count(bp_log *log) {
    pthread_mutex_lock(&log->lock);
    int64_t count = log->count;
    pthread_mutex_unlock(&log->lock);
    return count;
}

/* The events; valid until the next one is added. */
const bp_event *bp_log_events(const bp_log *log) { return log->events; }
