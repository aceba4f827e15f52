/* Traces of ranks for tests: a host thread launches far ahead of one stream, whose kernels run back
 * to back; collectives have their calls. */
#ifndef DL_TESTS_CALIBRATE_RANK_TRACE_H
#define DL_TESTS_CALIBRATE_RANK_TRACE_H

#include <string.h>

#include "tests/check.h"
#include "trace/dlt/dlt.h"

enum {
    RT_LAUNCH = 1,
    RT_COMPUTE,
    RT_REDUCE,
    RT_REDUCE_KERNEL,
    RT_GATHER,
    RT_GATHER_KERNEL,
    RT_BACKWARD,
    RT_OPTIMIZER,
    RT_STEP,
    RT_INTEGERS,
    RT_SYNCHRONIZE,
    RT_CHECKPOINT,
    RT_TEXTS
};

#define RT_ROOM 256
#define RT_AHEAD_NS 1000000 /* delay of the first work after the thread's start */

typedef struct rank_trace {
    dl_trace trace;
    char *strings[RT_TEXTS];
    dl_activity activities[RT_ROOM];
    int64_t host_ns, device_ns;
    uint32_t correlation;
} rank_trace;

static inline void rank_trace_init(rank_trace *t, int64_t start_ns)
{
    static char texts[RT_TEXTS][48] = {"",
                                       "cudaLaunchKernel",
                                       "sgemm",
                                       "AllReduce",
                                       "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
                                       "AllGather",
                                       "ncclDevKernel_AllGather_RING_LL",
                                       "ConvolutionBackward0",
                                       "Optimizer.step#SGD.step",
                                       "ProfilerStep#1",
                                       DL_COLLECTIVE_OF_INTEGERS,
                                       "cudaDeviceSynchronize",
                                       "save_checkpoint"};
    memset(t, 0, sizeof *t);
    for (int i = 0; i < RT_TEXTS; i++)
        t->strings[i] = texts[i];
    t->host_ns = start_ns;
    t->device_ns = start_ns + RT_AHEAD_NS;
    static char path[] = "rank.dlt";
    t->trace = (dl_trace){
        .path = path, .activities = t->activities, .strings = t->strings, .string_count = RT_TEXTS};
    t->activities[t->trace.activity_count++] =
        (dl_activity){.kind = DL_ACTIVITY_COMM, .object = 7, .count = 2, .start_ns = start_ns};
}

static inline void rank_trace_add(rank_trace *t, dl_activity activity)
{
    assert_true(t->trace.activity_count < RT_ROOM);
    t->activities[t->trace.activity_count++] = activity;
}

/* Adds a work directly after the previous one on the stream, and advances the host by 1 us per
 * launch. Returns its activity. */
static inline uint32_t rank_trace_work(rank_trace *t, uint32_t kernel, int64_t duration_ns)
{
    rank_trace_add(t, (dl_activity){.kind = DL_ACTIVITY_CALL,
                                    .name = RT_LAUNCH,
                                    .thread = 1,
                                    .correlation = ++t->correlation,
                                    .start_ns = t->host_ns,
                                    .duration_ns = 500});
    t->host_ns += 1000;
    const uint32_t number = (uint32_t)t->trace.activity_count;
    rank_trace_add(t, (dl_activity){.kind = DL_ACTIVITY_KERNEL,
                                    .name = kernel,
                                    .correlation = t->correlation,
                                    .start_ns = t->device_ns,
                                    .duration_ns = duration_ns});
    t->device_ns += duration_ns;
    return number;
}

/* Adds a collective: its call, and its kernel of `duration_ns`. */
static inline uint32_t rank_trace_collective(rank_trace *t, uint32_t name, uint32_t kernel,
                                             uint64_t bytes, int64_t duration_ns)
{
    rank_trace_add(t, (dl_activity){.kind = DL_ACTIVITY_COLLECTIVE,
                                    .name = name,
                                    .thread = 1,
                                    .bytes = bytes,
                                    .object = 7,
                                    .start_ns = t->host_ns});
    t->host_ns += 100;
    return rank_trace_work(t, kernel, duration_ns);
}

/* Adds a range of the thread from `start_ns` until now. */
static inline void rank_trace_range(rank_trace *t, uint32_t name, int64_t start_ns)
{
    rank_trace_add(t, (dl_activity){.kind = DL_ACTIVITY_RANGE,
                                    .name = name,
                                    .thread = 1,
                                    .start_ns = start_ns,
                                    .duration_ns = t->host_ns - start_ns});
}

/* Adds a kernel that computes, launched within a range. */
static inline void rank_trace_work_in(rank_trace *t, uint32_t range, int64_t duration_ns)
{
    const int64_t start_ns = t->host_ns;
    rank_trace_work(t, RT_COMPUTE, duration_ns);
    rank_trace_range(t, range, start_ns);
}

#endif
