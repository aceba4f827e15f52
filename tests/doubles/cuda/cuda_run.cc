#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <ucontext.h>

#include <vector>

#include "cuda_runtime.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#else
static void __sanitizer_start_switch_fiber(void **, const void *, size_t) {}
static void __sanitizer_finish_switch_fiber(void *, const void **, size_t *) {}
#endif

#define STACK_BYTES (128u << 10)
#define WARP 32u

cuda_index threadIdx, blockIdx, blockDim, gridDim;

enum stop { BARRIER, BALLOT, SHUFFLE, END };
static const char *const stop_names[] = {"a barrier", "a ballot", "a shuffle", "its end"};

struct cuda_thread {
    ucontext_t context;
    std::vector<char> stack;
    stop at;
    bool vote;
    double value;
};

static std::vector<cuda_thread> threads;
static ucontext_t scheduler;
static const void *scheduler_stack;
static size_t scheduler_stack_bytes;
static const std::function<void()> *running;

/* Switches to the scheduler, until all other threads have stopped too. */
static void stop_at(stop at)
{
    const unsigned self = threadIdx.x;
    threads[self].at = at;
    void *stack = NULL;
    __sanitizer_start_switch_fiber(at == END ? NULL : &stack, scheduler_stack,
                                   scheduler_stack_bytes);
    swapcontext(&threads[self].context, &scheduler);
    __sanitizer_finish_switch_fiber(stack, NULL, NULL);
    threadIdx.x = self;
}

static void thread_main()
{
    __sanitizer_finish_switch_fiber(NULL, &scheduler_stack, &scheduler_stack_bytes);
    (*running)();
    stop_at(END);
}

static void resume(unsigned index)
{
    threadIdx = {index, 0, 0};
    void *stack = NULL;
    __sanitizer_start_switch_fiber(&stack, threads[index].stack.data(), STACK_BYTES);
    swapcontext(&scheduler, &threads[index].context);
    __sanitizer_finish_switch_fiber(stack, NULL, NULL);
}

static void prepare(cuda_thread *thread)
{
    thread->stack.resize(STACK_BYTES);
    getcontext(&thread->context);
    thread->context.uc_stack.ss_sp = thread->stack.data();
    thread->context.uc_stack.ss_size = STACK_BYTES;
    thread->context.uc_link = NULL;
    makecontext(&thread->context, thread_main, 0);
}

static void run_block(unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        prepare(&threads[i]);
    do {
        for (unsigned i = 0; i < count; i++) {
            resume(i);
            if (threads[i].at == threads[0].at) continue;
            fprintf(stderr, "block %u: thread 0 is at %s, thread %u at %s\n", blockIdx.x,
                    stop_names[threads[0].at], i, stop_names[threads[i].at]);
            abort();
        }
    } while (threads[0].at != END);
}

/* The limits are CUDA's. */
void cuda_run(unsigned blocks, unsigned count, const std::function<void()> &kernel)
{
    if (blocks < 1 || blocks > INT_MAX || count < 1 || count > 1024) {
        fprintf(stderr, "a launch of %u blocks of %u threads\n", blocks, count);
        abort();
    }
    if (threads.size() < count) threads.resize(count);
    running = &kernel;
    gridDim = {blocks, 1, 1};
    blockDim = {count, 1, 1};
    for (unsigned block = 0; block < blocks; block++) {
        blockIdx = {block, 0, 0};
        run_block(count);
    }
}

void __syncthreads()
{
    stop_at(BARRIER);
}

/* Stops twice: no thread may overwrite its vote before all have read it. */
unsigned __ballot_sync(unsigned mask, bool vote)
{
    threads[threadIdx.x].vote = vote;
    stop_at(BALLOT);
    const unsigned first = threadIdx.x / WARP * WARP;
    unsigned votes = 0;
    for (unsigned lane = 0; lane < WARP; lane++)
        votes |= (unsigned)threads[first + lane].vote << lane;
    stop_at(BALLOT);
    return votes & mask;
}

double __shfl_down_sync(unsigned, double value, int distance)
{
    threads[threadIdx.x].value = value;
    stop_at(SHUFFLE);
    const unsigned lane = threadIdx.x % WARP, from = lane + (unsigned)distance;
    const double taken = threads[threadIdx.x - lane + (from < WARP ? from : lane)].value;
    stop_at(SHUFFLE);
    return taken;
}

unsigned long long cuda_clock_ns()
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (unsigned long long)now.tv_sec * 1000000000u + (unsigned long long)now.tv_nsec;
}
