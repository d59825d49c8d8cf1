/* CUDA on the host: kernels of CUDA C++ compiled by gcc or clang and run here.
 *
 * For tests and for debugging: the sanitizers see what kernels do. The threads of a block take
 * turns on one thread of the host, each on a stack of its own; a turn ends where a thread has to
 * wait for others. Memory of a block has no values when the block begins (all its bits are set),
 * is a block of the heap of exactly its bytes, and a barrier that some threads of a block never
 * come to, or that they come to in different lines, ends the launch with a message.
 *
 * This file stands before the kernels, which end with the table of their names (BP_KERNELS).
 * Before it may be defined: BP_MODULE_TABLE, the name of that table, and BP_MODULE_KEY, a text.
 */
#ifndef BAYPLAN_EMULATED_CUDA_HPP
#define BAYPLAN_EMULATED_CUDA_HPP

#define BP_EMULATED 1
/* In each file that kernels are compiled in, used or not. */
#define BP_OWN static inline __attribute__((unused))

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <utility>

#if !defined(__x86_64__)
#define BP_EMULATED_UCONTEXT 1
#endif
#ifdef BP_EMULATED_UCONTEXT
#include <ucontext.h>
#endif

#if defined(__SANITIZE_ADDRESS__)
#define BP_EMULATED_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define BP_EMULATED_ASAN 1
#endif
#endif
#ifdef BP_EMULATED_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#include "emulated.h"
extern "C" __attribute__((weak)) int32_t bp_emulated_register(
    const char *key, const bp_emulated_kernel *kernels, int32_t count);

struct uint3 { unsigned int x, y, z; };
struct dim3 { unsigned int x, y, z; };

namespace bp_emulated {

constexpr int warp_lanes = 32;
constexpr uint8_t no_value = 0xff;

enum class state : uint8_t { fresh, ready, at_barrier, in_warp, ended };

/* What calls the kernel with the launch's parameters. */
typedef void (*entry)(const void *const *parameters);

struct thread {
    state now = state::fresh;
    int32_t line = 0;      /* of the text, where it waits */
    uint32_t mask = 0;     /* the lanes that it waits for */
    uint64_t outbox = 0;   /* what it shows to the other lanes */
    uint64_t *inbox = nullptr; /* what the lanes of its warp have shown */
    char *stack = nullptr;
    uint3 id = {0, 0, 0};
#ifdef BP_EMULATED_UCONTEXT
    ucontext_t context;
#else
    void *context = nullptr; /* its stack pointer */
#endif
    void *fake_stack = nullptr; /* of the address sanitizer */
};

/* Stacks that are kept for the threads of later blocks. */
class stacks {
  public:
    static constexpr size_t guard = 4096;
#ifdef BP_EMULATED_ASAN
    static constexpr size_t bytes = 1 << 20;
#else
    static constexpr size_t bytes = 256 << 10;
#endif

    char *take() {
        if (free_count) return kept[--free_count];
        void *memory = mmap(nullptr, bytes + guard, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) return nullptr;
        mprotect(memory, guard, PROT_NONE);
        return static_cast<char *>(memory) + guard;
    }

    void give(char *stack) {
#ifdef BP_EMULATED_ASAN
        __asan_unpoison_memory_region(stack, bytes);
#endif
        if (free_count < most)
            kept[free_count++] = stack;
        else
            munmap(stack - guard, bytes + guard);
    }

    ~stacks() {
        while (free_count) munmap(kept[--free_count] - guard, bytes + guard);
    }

  private:
    static constexpr int most = 1024;
    char *kept[most];
    int free_count = 0;
};

/* The block that runs on a thread of the host. */
struct block {
    const bp_emulated_launch *launch;
    entry kernel;
    thread *threads;
    int64_t count;
    thread *current;
    uint3 id;
    dim3 sizes, grid;
    char *shared;
    bool shared_is_fresh;
    char *why;
    uint64_t room;
    bool failed;
    const void *host_bottom; /* of the host's stack */
    size_t host_size;
    void *host_fake_stack;
#ifdef BP_EMULATED_UCONTEXT
    ucontext_t host;
#else
    void *host;
#endif
};

static thread_local block *here;
static thread_local stacks kept_stacks;

/* Puts this stack aside and goes on with another one. */
#ifdef BP_EMULATED_UCONTEXT
BP_OWN void change(ucontext_t *from, ucontext_t *to) { swapcontext(from, to); }
#else
__attribute__((noinline, unused)) static void change(void **from, void **to) {
    void *target = *to;
    __asm__ volatile(
        "subq $128, %%rsp\n\t" /* what a leaf function may have below its stack pointer */
        "pushq %%rbp\n\t"
        "pushq %%rbx\n\t"
        "leaq 1f(%%rip), %%rax\n\t"
        "pushq %%rax\n\t"
        "movq %%rsp, (%%rdi)\n\t"
        "movq %%rsi, %%rsp\n\t"
        "popq %%rax\n\t"
        "jmpq *%%rax\n"
        "1:\n\t"
        "popq %%rbx\n\t"
        "popq %%rbp\n\t"
        "addq $128, %%rsp\n\t"
        : "+D"(from), "+S"(target)
        :
        : "rax", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "xmm0",
          "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",
          "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "cc", "memory");
}
#endif

/* Back to the host's stack, where it is decided who is next. */
BP_OWN void leave(bool for_good) {
    block *b = here;
    thread *t = b->current;
#ifdef BP_EMULATED_ASAN
    __sanitizer_start_switch_fiber(for_good ? nullptr : &t->fake_stack, b->host_bottom,
                                   b->host_size);
#endif
    (void)for_good;
    change(&t->context, &b->host);
#ifdef BP_EMULATED_ASAN
    __sanitizer_finish_switch_fiber(t->fake_stack, nullptr, nullptr);
#endif
}

BP_OWN void begin_thread() {
#ifdef BP_EMULATED_ASAN
    __sanitizer_finish_switch_fiber(nullptr, &here->host_bottom, &here->host_size);
#endif
    here->kernel(here->launch->parameters);
    here->current->now = state::ended;
    leave(true);
    abort();
}

/* Lets a thread run until it waits or ends; false where there is no stack for it. */
BP_OWN bool resume(block *b, thread *t) {
    if (t->now == state::fresh) {
        t->stack = kept_stacks.take();
        if (!t->stack) return false;
#ifdef BP_EMULATED_UCONTEXT
        getcontext(&t->context);
        t->context.uc_stack.ss_sp = t->stack;
        t->context.uc_stack.ss_size = stacks::bytes;
        t->context.uc_link = nullptr;
        makecontext(&t->context, begin_thread, 0);
#else
        void **top = reinterpret_cast<void **>(t->stack + stacks::bytes - 16);
        top[0] = reinterpret_cast<void *>(begin_thread);
        top[1] = nullptr; /* nobody to return to */
        t->context = top;
#endif
    }
    t->now = state::ready;
    b->current = t;
#ifdef BP_EMULATED_ASAN
    __sanitizer_start_switch_fiber(&b->host_fake_stack, t->stack, stacks::bytes);
#endif
    change(&b->host, &t->context);
#ifdef BP_EMULATED_ASAN
    __sanitizer_finish_switch_fiber(b->host_fake_stack, nullptr, nullptr);
#endif
    if (t->now == state::ended) {
        kept_stacks.give(t->stack);
        t->stack = nullptr;
    }
    return true;
}

BP_OWN void wait(state how, int32_t line) {
    here->current->now = how;
    here->current->line = line;
    leave(false);
}

/* Whether all lanes that a thread waits for wait at the same place; then they go on. */
BP_OWN bool release_warp(block *b, int64_t i) {
    thread *t = &b->threads[i];
    const int64_t first = i / warp_lanes * warp_lanes;
    uint64_t shown[warp_lanes] = {0};
    for (int lane = 0; lane < warp_lanes; lane++) {
        if (!(t->mask >> lane & 1) || first + lane >= b->count) continue;
        const thread *other = &b->threads[first + lane];
        if (other->now != state::in_warp || other->line != t->line || other->mask != t->mask)
            return false;
        shown[lane] = other->outbox;
    }
    for (int lane = 0; lane < warp_lanes; lane++) {
        if (!(t->mask >> lane & 1) || first + lane >= b->count) continue;
        thread *other = &b->threads[first + lane];
        if (!other->inbox)
            other->inbox = static_cast<uint64_t *>(malloc(warp_lanes * sizeof(uint64_t)));
        memcpy(other->inbox, shown, sizeof shown);
        other->now = state::ready;
    }
    return true;
}

BP_OWN void describe(const thread *t, char *out, size_t room) {
    if (t->now == state::ended)
        snprintf(out, room, "thread (%u, %u, %u) has ended", t->id.x, t->id.y, t->id.z);
    else
        snprintf(out, room, "thread (%u, %u, %u) waits in line %d", t->id.x, t->id.y, t->id.z,
                 t->line);
}

/* Whether all threads of the block wait at one barrier; then they go on. */
BP_OWN bool release_barrier(block *b) {
    const thread *first = &b->threads[0];
    for (int64_t i = 0; i < b->count; i++) {
        const thread *t = &b->threads[i];
        if (t->now == first->now && t->line == first->line && t->now == state::at_barrier)
            continue;
        if (i == 0) {
            /* Who waits, for the message. */
            while (i < b->count && b->threads[i].now == state::ended) i++;
            t = &b->threads[i < b->count ? i : 0];
        }
        char one[80], other[80];
        describe(first, one, sizeof one);
        describe(t, other, sizeof other);
        snprintf(b->why, b->room, "divergent barrier in block (%u, %u, %u): %s, %s", b->id.x,
                 b->id.y, b->id.z, one, other);
        return false;
    }
    for (int64_t i = 0; i < b->count; i++) b->threads[i].now = state::ready;
    return true;
}

/* All turns of the threads of one block. */
BP_OWN bool run_block(block *b) {
    b->shared_is_fresh = true;
    for (int64_t i = 0; i < b->count; i++) b->threads[i].now = state::fresh;
    int64_t ended = 0;
    /* Every second time the last thread is the first: none may count on the order. */
    for (int64_t turn = 0; ended < b->count; turn++) {
        bool moved = false;
        for (int64_t k = 0; k < b->count; k++) {
            const int64_t i = turn % 2 ? b->count - 1 - k : k;
            thread *t = &b->threads[i];
            if (t->now == state::in_warp) release_warp(b, i);
            if (t->now != state::fresh && t->now != state::ready) continue;
            moved = true;
            if (!resume(b, t)) {
                snprintf(b->why, b->room, "no memory for the stack of a thread");
                return false;
            }
            ended += t->now == state::ended;
        }
        if (!moved && ended < b->count && !release_barrier(b)) return false;
    }
    return true;
}

BP_OWN void drop_stacks(block *b) {
    for (int64_t i = 0; i < b->count; i++) {
        if (b->threads[i].stack) kept_stacks.give(b->threads[i].stack);
        free(b->threads[i].inbox);
    }
}

BP_OWN int32_t run_blocks(const bp_emulated_launch *launch, entry kernel, char *why,
                          uint64_t room) {
    block b = {};
    b.launch = launch, b.kernel = kernel, b.why = why, b.room = room;
    const int64_t *n = launch->threads, *blocks = launch->blocks;
    b.count = n[0] * n[1] * n[2];
    b.sizes = {(unsigned)n[0], (unsigned)n[1], (unsigned)n[2]};
    b.grid = {(unsigned)blocks[0], (unsigned)blocks[1], (unsigned)blocks[2]};
    if (b.count <= 0) return 0;
    b.threads = new thread[static_cast<size_t>(b.count)];
    for (int64_t i = 0; i < b.count; i++)
        b.threads[i].id = {(unsigned)(i % n[0]), (unsigned)(i / n[0] % n[1]),
                           (unsigned)(i / n[0] / n[1])};
    bool fine = true;
    block *const before = here;
    here = &b;
    for (int64_t z = 0; fine && z < blocks[2]; z++)
        for (int64_t y = 0; fine && y < blocks[1]; y++)
            for (int64_t x = 0; fine && x < blocks[0]; x++) {
                b.id = {(unsigned)x, (unsigned)y, (unsigned)z};
                fine = run_block(&b);
            }
    here = before;
    drop_stacks(&b);
    delete[] b.threads;
    free(b.shared);
    return fine ? 0 : -1;
}

/* Memory of the block; the first thread that comes here makes it. */
BP_OWN char *shared(uint64_t bytes) {
    block *b = here;
    if (b->shared_is_fresh) {
        void *memory = b->shared;
        if (!memory && posix_memalign(&memory, 128, bytes ? bytes : 1)) abort();
        b->shared = static_cast<char *>(memory);
        memset(b->shared, no_value, bytes);
        b->shared_is_fresh = false;
    }
    return b->shared;
}

template <class... P, size_t... I>
void call(void (*kernel)(P...), const void *const *given, std::index_sequence<I...>) {
    (void)given;
    kernel(*static_cast<const P *>(given[I])...);
}

template <class... P>
constexpr int32_t count_parameters(void (*)(P...)) {
    return sizeof...(P);
}

template <class... P>
std::index_sequence_for<P...> numbers(void (*)(P...));

template <class K, K kernel>
void enter(const void *const *given) {
    call(kernel, given, decltype(numbers(kernel))());
}

template <class K, K kernel>
int32_t run(const bp_emulated_launch *launch, char *why, uint64_t room) {
    return run_blocks(launch, enter<K, kernel>, why, room);
}

/* Warps: the lanes show each other values, as 64 bits. */
template <class T>
uint64_t to_bits(T value) {
    uint64_t bits = 0;
    static_assert(sizeof value <= sizeof bits, "a value of at most 64 bits");
    memcpy(&bits, &value, sizeof value);
    return bits;
}

BP_OWN int lane() { return static_cast<int>((here->current - here->threads) % warp_lanes); }

BP_OWN void show(uint32_t mask, uint64_t bits, int32_t line) {
    here->current->mask = mask;
    here->current->outbox = bits;
    wait(state::in_warp, line);
}

template <class T>
T exchange(uint32_t mask, T value, int source, int width, int32_t line) {
    show(mask, to_bits(value), line);
    const int me = lane(), first = me / width * width;
    if (source < first || source >= first + width) return value;
    T result;
    memcpy(&result, &here->current->inbox[source], sizeof result);
    return result;
}

BP_OWN uint32_t ballot(uint32_t mask, bool mine, int32_t line) {
    show(mask, mine, line);
    uint32_t result = 0;
    for (int k = 0; k < warp_lanes; k++)
        result |= (mask >> k & 1 && here->current->inbox[k]) ? 1u << k : 0;
    return result;
}

/* Reads and writes in one step. */
template <class T>
struct same { typedef T type; };

template <class T, class F>
T update(T *p, F make) {
    T before, after;
    __atomic_load(p, &before, __ATOMIC_RELAXED);
    do {
        after = make(before);
    } while (!__atomic_compare_exchange(p, &before, &after, false, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED));
    return before;
}

}  // namespace bp_emulated

#define BP_EMULATED_ATOMIC(name, expression)                                       \
    template <class T>                                                             \
    T name(T *p, typename bp_emulated::same<T>::type x) {                          \
        return bp_emulated::update(p, [x](T old) -> T { return expression; });     \
    }
BP_EMULATED_ATOMIC(atomicAdd, static_cast<T>(old + x))
BP_EMULATED_ATOMIC(atomicSub, static_cast<T>(old - x))
BP_EMULATED_ATOMIC(atomicMin, old < x ? old : x)
BP_EMULATED_ATOMIC(atomicMax, old > x ? old : x)
BP_EMULATED_ATOMIC(atomicAnd, static_cast<T>(old & x))
BP_EMULATED_ATOMIC(atomicOr, static_cast<T>(old | x))
BP_EMULATED_ATOMIC(atomicXor, static_cast<T>(old ^ x))
BP_EMULATED_ATOMIC(atomicExch, ((void)old, x))
#undef BP_EMULATED_ATOMIC

template <class T>
T atomicCAS(T *p, typename bp_emulated::same<T>::type before,
            typename bp_emulated::same<T>::type after) {
    __atomic_compare_exchange(p, &before, &after, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return before;
}

#define threadIdx (bp_emulated::here->current->id)
#define blockIdx (bp_emulated::here->id)
#define blockDim (bp_emulated::here->sizes)
#define gridDim (bp_emulated::here->grid)
#define warpSize (bp_emulated::warp_lanes)

#define __global__ __attribute__((visibility("hidden")))
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define BP_INLINE BP_OWN

#define __syncthreads() bp_emulated::wait(bp_emulated::state::at_barrier, __LINE__)
#define __threadfence_block() __atomic_thread_fence(__ATOMIC_SEQ_CST)
#define __threadfence() __atomic_thread_fence(__ATOMIC_SEQ_CST)
#define __syncwarp(...) bp_emulated::show(bp_emulated::mask_of(__VA_ARGS__), 0, __LINE__)
#define __shfl_sync(mask, value, ...) \
    bp_emulated::from_lane(mask, value, __LINE__, __VA_ARGS__)
#define __shfl_up_sync(mask, value, ...) \
    bp_emulated::from_below(mask, value, __LINE__, __VA_ARGS__)
#define __shfl_down_sync(mask, value, ...) \
    bp_emulated::from_above(mask, value, __LINE__, __VA_ARGS__)
#define __shfl_xor_sync(mask, value, ...) \
    bp_emulated::from_other(mask, value, __LINE__, __VA_ARGS__)
#define __ballot_sync(mask, mine) bp_emulated::ballot(mask, (mine) != 0, __LINE__)
#define __any_sync(mask, mine) (bp_emulated::ballot(mask, (mine) != 0, __LINE__) != 0)
#define __all_sync(mask, mine) (bp_emulated::ballot(mask, (mine) == 0, __LINE__) == 0)

namespace bp_emulated {

BP_OWN uint32_t mask_of(uint32_t mask = 0xffffffffu) { return mask; }

template <class T>
T from_lane(uint32_t mask, T value, int32_t line, int source, int width = warp_lanes) {
    return exchange(mask, value, lane() / width * width + source % width, width, line);
}

template <class T>
T from_below(uint32_t mask, T value, int32_t line, unsigned delta, int width = warp_lanes) {
    return exchange(mask, value, lane() - static_cast<int>(delta), width, line);
}

template <class T>
T from_above(uint32_t mask, T value, int32_t line, unsigned delta, int width = warp_lanes) {
    return exchange(mask, value, lane() + static_cast<int>(delta), width, line);
}

template <class T>
T from_other(uint32_t mask, T value, int32_t line, int lanes, int width = warp_lanes) {
    return exchange(mask, value, lane() ^ lanes, width, line);
}

}  // namespace bp_emulated

/* Bits and floats. */
BP_OWN int __popc(unsigned int x) { return __builtin_popcount(x); }
BP_OWN int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
BP_OWN int __clz(int x) { return x ? __builtin_clz(static_cast<unsigned int>(x)) : 32; }
BP_OWN int __clzll(long long x) {
    return x ? __builtin_clzll(static_cast<unsigned long long>(x)) : 64;
}
BP_OWN int __ffs(int x) { return __builtin_ffs(x); }
BP_OWN int __ffsll(long long x) { return __builtin_ffsll(x); }
template <class T, class F>
T bp_emulated_bits(F from) {
    static_assert(sizeof(T) == sizeof(F), "bits of one size");
    T to;
    memcpy(&to, &from, sizeof to);
    return to;
}
BP_OWN float __int_as_float(int x) { return bp_emulated_bits<float>(x); }
BP_OWN int __float_as_int(float x) { return bp_emulated_bits<int>(x); }
BP_OWN float __uint_as_float(unsigned x) { return bp_emulated_bits<float>(x); }
BP_OWN unsigned __float_as_uint(float x) { return bp_emulated_bits<unsigned>(x); }
BP_OWN double __longlong_as_double(long long x) { return bp_emulated_bits<double>(x); }
BP_OWN long long __double_as_longlong(double x) { return bp_emulated_bits<long long>(x); }
/* Not fused into a sum. */
BP_OWN float __fmul_rn(float a, float b) {
    volatile float product = a * b;
    return product;
}
BP_OWN double __dmul_rn(double a, double b) {
    volatile double product = a * b;
    return product;
}

#define BP_SHARED(type, name, count, alignment) \
    type *const name = (type *)bp_emulated::shared(sizeof(type) * (count))
#define BP_SHARED_OF_LAUNCH(type, name) \
    type *const name = (type *)bp_emulated::shared(bp_emulated::here->launch->shared_bytes)

template <class T>
T bp_swap(T *p, typename bp_emulated::same<T>::type before,
          typename bp_emulated::same<T>::type after) {
    return atomicCAS(p, before, after);
}

/* The table of a program's kernels, BP_MODULE_TABLE. In a program that the runtime is linked with
 * they make themselves known as those of the module BP_MODULE_KEY. */
#ifndef BP_MODULE_TABLE
#define BP_MODULE_TABLE bp_kernels
#endif
#define BP_KERNEL(kernel)                                      \
    {                                                          \
        #kernel, bp_emulated::run<decltype(&kernel), &kernel>, \
            bp_emulated::count_parameters(&kernel)             \
    }
#define BP_KERNELS(count)                                                      \
    extern "C" __attribute__((visibility("default"))) const bp_emulated_kernel \
        BP_MODULE_TABLE[count];                                                \
    BP_KERNELS_REGISTER(count)                                                 \
    extern "C" const bp_emulated_kernel BP_MODULE_TABLE[count]
#ifdef BP_MODULE_KEY
#define BP_KERNELS_REGISTER(count)                                                           \
    namespace {                                                                              \
    struct bp_registration {                                                                 \
        bp_registration() {                                                                  \
            if (&bp_emulated_register != nullptr)                                            \
                bp_emulated_register(BP_MODULE_KEY, BP_MODULE_TABLE, count);                 \
        }                                                                                    \
    } bp_this_registration;                                                                  \
    }
#else
#define BP_KERNELS_REGISTER(count)
#endif

#endif
