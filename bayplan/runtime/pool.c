/* Workers of parallel loops: started at the first loop, kept, shared by all calls.
 *
 * A loop is a job on its caller's stack. The caller takes part, so a loop ends even when every
 * worker is busy, and loops inside loops cannot wait for each other. Workers look at the newest
 * job first, which is the innermost loop. Each thread inside a job has a slot of that job.
 */
#include "runtime.h"

#include <sched.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

enum { MAX_WORKERS = 1024, SLOT_WORDS = MAX_WORKERS / 64, SPIN_NS = 30000, STACK_BYTES = 8 << 20 };

typedef struct job {
    bp_context *ctx;
    bp_task task;
    void *closure;
    int64_t next, end; /* iterations not yet taken */
    int32_t status;    /* first negative result */
    int32_t active;    /* threads inside, the caller not counted */
    int32_t wanted;    /* workers that may still join */
    int32_t threads;   /* that share it, for the size of the pieces */
    uint64_t taken[SLOT_WORDS]; /* slots in use; the caller has slot 0 until the loop ends */
    struct job *parent;
    struct job *below; /* next older job of the list */
} job;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t work; /* a job came */
    pthread_cond_t done; /* a worker left a job */
    job *jobs;
    uint32_t epoch;   /* counts jobs; read without the lock by spinning workers */
    int32_t started;  /* workers that exist */
    int32_t sleeping; /* workers in pthread_cond_wait */
    int32_t waiting;  /* callers in pthread_cond_wait */
    int32_t threads;  /* asked for, caller included; 0: not yet known */
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER,
          .work = PTHREAD_COND_INITIALIZER,
          .done = PTHREAD_COND_INITIALIZER};

static __thread int32_t worker_number; /* 0: not a worker */
static __thread job *current_job;

int32_t bp_rt_thread(void) { return worker_number; }

static void pause_cpu(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int stopped(job *j) {
    return __atomic_load_n(&j->status, __ATOMIC_RELAXED) ||
           __atomic_load_n(&j->ctx->cancelled, __ATOMIC_RELAXED);
}

/* Takes iterations of the job until none is left. Big pieces first, single ones at the end. */
static void run_job(job *j, int32_t slot) {
    job *outer = current_job;
    int64_t share = 8 * (int64_t)j->threads;
    current_job = j;
    while (!stopped(j)) {
        int64_t begin = __atomic_load_n(&j->next, __ATOMIC_RELAXED);
        int64_t size;
        do {
            size = (j->end - begin) / share;
            size = size < 1 ? 1 : size > 64 ? 64 : size;
        } while (begin < j->end &&
                 !__atomic_compare_exchange_n(&j->next, &begin, begin + size, 1, __ATOMIC_RELAXED,
                                              __ATOMIC_RELAXED));
        if (begin >= j->end) break;
        int64_t end = begin + size < j->end ? begin + size : j->end;
        int32_t status = j->task(j->ctx, (int32_t)begin, (int32_t)end, slot, j->closure);
        if (status < 0) {
            int32_t none = 0;
            __atomic_compare_exchange_n(&j->status, &none, status, 0, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED);
        }
    }
    current_job = outer;
}

static int has_work(job *j) {
    return j->wanted > 0 && __atomic_load_n(&j->next, __ATOMIC_RELAXED) < j->end && !stopped(j);
}

/* The lowest free slot: there are as many as threads that may be inside. */
static int32_t take_slot(job *j) {
    int32_t word = 0;
    while (!~j->taken[word]) word++;
    int32_t bit = __builtin_ctzll(~j->taken[word]);
    j->taken[word] |= UINT64_C(1) << bit;
    return 64 * word + bit;
}

/* The newest job that wants a worker, entered; with `ancestor` only one that it waits for. */
static job *enter_job(job *ancestor, int32_t *slot) {
    for (job *j = pool.jobs; j; j = j->below) {
        if (!has_work(j)) continue;
        job *a = j->parent;
        while (ancestor && a && a != ancestor) a = a->parent;
        if (ancestor && !a) continue;
        j->wanted--;
        j->active++;
        *slot = take_slot(j);
        return j;
    }
    return NULL;
}

static void leave_job(job *j, int32_t slot) {
    j->taken[slot / 64] &= ~(UINT64_C(1) << slot % 64);
    j->active--;
    j->wanted++;
    if (pool.waiting) pthread_cond_broadcast(&pool.done);
}

static void *worker_main(void *number) {
    worker_number = (int32_t)(intptr_t)number;
    pthread_mutex_lock(&pool.lock);
    for (;;) {
        uint32_t epoch = pool.epoch;
        int32_t slot;
        job *j = worker_number < pool.threads ? enter_job(NULL, &slot) : NULL;
        if (j) {
            pthread_mutex_unlock(&pool.lock);
            run_job(j, slot);
            pthread_mutex_lock(&pool.lock);
            leave_job(j, slot);
            continue;
        }
        pthread_mutex_unlock(&pool.lock);
        int64_t until = now_ns() + SPIN_NS;
        while (__atomic_load_n(&pool.epoch, __ATOMIC_RELAXED) == epoch && now_ns() < until)
            for (int i = 0; i < 16; i++) pause_cpu();
        pthread_mutex_lock(&pool.lock);
        if (pool.epoch == epoch) {
            pool.sleeping++;
            while (pool.epoch == epoch) pthread_cond_wait(&pool.work, &pool.lock);
            pool.sleeping--;
        }
    }
    return NULL;
}

static void before_fork(void) {
    bp_allocator_lock(1);
    pthread_mutex_lock(&pool.lock);
}

static void after_fork_in_parent(void) {
    pthread_mutex_unlock(&pool.lock);
    bp_allocator_lock(0);
}

/* The workers do not exist in the child: it starts its own at its first loop. */
static void after_fork_in_child(void) {
    pthread_mutex_init(&pool.lock, NULL);
    pthread_cond_init(&pool.work, NULL);
    pthread_cond_init(&pool.done, NULL);
    pool.jobs = NULL;
    pool.started = pool.sleeping = pool.waiting = 0;
    worker_number = 0;
    current_job = NULL;
    bp_allocator_forked();
}

static void watch_forks(void) {
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

void bp_watch_forks(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
}

static int32_t count_processors(void) {
#if defined(__linux__)
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
#endif
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : (int32_t)n;
}

/* The threads of a loop; `pool` is locked. */
static int32_t find_threads(void) {
    if (pool.threads <= 0) __atomic_store_n(&pool.threads, count_processors(), __ATOMIC_RELAXED);
    return pool.threads;
}

/* Sets the number of threads of a parallel loop, caller included; 0: one a processor.
 * Gives the number that was set before. */
int32_t bp_rt_set_num_threads(int32_t threads) {
    pthread_mutex_lock(&pool.lock);
    int32_t before = pool.threads > 0 ? pool.threads : count_processors();
    if (threads <= 0) threads = count_processors();
    if (threads > MAX_WORKERS) threads = MAX_WORKERS;
    __atomic_store_n(&pool.threads, threads, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&pool.lock);
    return before;
}

int32_t bp_rt_num_threads(void) {
    pthread_mutex_lock(&pool.lock);
    int32_t threads = find_threads();
    pthread_mutex_unlock(&pool.lock);
    return threads;
}

/* Workers that run a job at this moment. */
int32_t bp_rt_busy_workers(void) {
    int32_t busy = 0;
    pthread_mutex_lock(&pool.lock);
    for (job *j = pool.jobs; j; j = j->below) busy += j->active;
    pthread_mutex_unlock(&pool.lock);
    return busy;
}

/* Starts the workers that are missing; fewer are fine too, the caller does the rest. */
static void start_workers(void) {
    int32_t threads = find_threads();
    if (pool.started >= threads - 1) return;
    /* Signals belong to the threads of the user. */
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    while (pool.started < threads - 1) {
        pthread_t thread;
        intptr_t number = pool.started + 1;
        if (pthread_create(&thread, &attr, worker_main, (void *)number) != 0) break;
        pool.started++;
    }
    pthread_attr_destroy(&attr);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/* Waits until no worker is inside the job; meanwhile helps with loops inside it. */
static void wait_for_workers(job *j) {
    int64_t until = now_ns() + SPIN_NS;
    while (j->active > 0) {
        int32_t slot;
        job *inner = enter_job(j, &slot);
        if (inner) {
            pthread_mutex_unlock(&pool.lock);
            run_job(inner, slot);
            pthread_mutex_lock(&pool.lock);
            leave_job(inner, slot);
            continue;
        }
        if (now_ns() < until) {
            pthread_mutex_unlock(&pool.lock);
            for (int i = 0; i < 16; i++) pause_cpu();
            pthread_mutex_lock(&pool.lock);
            continue;
        }
        pool.waiting++;
        pthread_cond_wait(&pool.done, &pool.lock);
        pool.waiting--;
    }
}

int32_t bp_rt_parallel_for(bp_context *ctx, bp_task task, int32_t min, int32_t extent,
                           int32_t slots, void *closure) {
    if (extent <= 0) return 0;
    job j = {.ctx = ctx, .task = task, .closure = closure, .next = min,
             .end = (int64_t)min + extent, .threads = 1, .parent = current_job};
    if (slots > extent) slots = extent;
    if (slots <= 1 || __atomic_load_n(&pool.threads, __ATOMIC_RELAXED) == 1) {
        run_job(&j, 0);
        return j.status ? j.status : ctx->cancelled ? BP_CANCELLED : 0;
    }
    bp_watch_forks();
    pthread_mutex_lock(&pool.lock);
    start_workers();
    j.threads = slots < pool.threads ? slots : pool.threads;
    j.wanted = j.threads - 1;
    j.taken[0] = 1;
    j.below = pool.jobs;
    pool.jobs = &j;
    __atomic_add_fetch(&pool.epoch, 1, __ATOMIC_RELAXED);
    if (pool.sleeping > 0) pthread_cond_broadcast(&pool.work);
    /* A loop inside this one may find its caller asleep below. */
    if (pool.waiting > 0) pthread_cond_broadcast(&pool.done);
    pthread_mutex_unlock(&pool.lock);

    run_job(&j, 0);

    pthread_mutex_lock(&pool.lock);
    wait_for_workers(&j);
    job **link = &pool.jobs;
    while (*link != &j) link = &(*link)->below;
    *link = j.below;
    pthread_mutex_unlock(&pool.lock);
    return j.status ? j.status : ctx->cancelled ? BP_CANCELLED : 0;
}
