/* Generated traces of training with their true steps: launches of a step, averaging every few
 * steps, validation between steps, noisy first steps, lost records. */
#ifndef DL_TESTS_TRACE_TRAINING_TRACE_H
#define DL_TESTS_TRACE_TRAINING_TRACE_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "common/random.h"
#include "trace/activity/activity.h"

/* Names: a block of numbers for each purpose. */
enum {
    TRAINING_FORWARD = 1,
    TRAINING_BACKWARD = 200,
    TRAINING_LOSS = 500,
    TRAINING_UPDATE = 510,
    TRAINING_TUNING = 520, /* only in the first steps */
    TRAINING_ACCURACY = 560,
    TRAINING_NCCL = 570,
    TRAINING_FREE = 600, /* texts added by a test */
    TRAINING_STRINGS = 700
};

typedef struct training {
    int layers, kinds; /* layer i launches the kernels of layer i % kinds */
    bool unfused;      /* update of 3 kernels for each of 2 parameters per layer */
    bool input;        /* two copies from the host at the start of a step */
    bool idle;         /* the device waits for these copies */
    bool nccl;         /* an all-reduce on a separate stream during the backward pass */
    int steps;
    int interval;         /* steps between averagings; 0: never */
    int validate_every;   /* steps between validations; 0: never */
    bool tuning;          /* different kernels in the first two steps */
    bool smaller_last;    /* the last step has different launch shapes */
    double lost;          /* lost share of the device's records */
    uint32_t correlation; /* correlation of the first launch */
    uint64_t seed;
} training;

typedef struct training_trace {
    dl_activity *activities;
    size_t count, capacity;
    char *strings[TRAINING_STRINGS];
    int64_t *starts_ns; /* [steps] starts of the device's work, including lost records */
    int64_t end_ns;
    int steps;
    /* state during generation */
    dl_random random;
    int64_t now_ns;
    uint32_t correlation;
    uint32_t shape;
    double lost;
} training_trace;

static inline dl_activity *training_append(training_trace *trace, dl_activity activity)
{
    if (trace->count == trace->capacity) {
        trace->capacity = trace->capacity == 0 ? 1024 : 2 * trace->capacity;
        trace->activities = dl_realloc(trace->activities, trace->capacity,
                                       sizeof *trace->activities, "generated trace");
    }
    trace->activities[trace->count] = activity;
    return &trace->activities[trace->count++];
}

/* Adds a call 10 us before the work, which takes about 4 to 20 us depending on its name and leaves
 * 1 us idle. */
static inline void training_launch(training_trace *trace, dl_activity work)
{
    double noise = 1 + 0.02 * dl_random_normal(&trace->random);
    work.correlation = ++trace->correlation;
    work.start_ns = trace->now_ns;
    work.duration_ns = (int64_t)((double)(4000 + work.name * 7919 % 16000) * noise);
    if (work.duration_ns < 1) work.duration_ns = 1;
    training_append(trace, (dl_activity){.kind = DL_ACTIVITY_CALL,
                                         .name = TRAINING_FREE,
                                         .thread = 100,
                                         .correlation = work.correlation,
                                         .start_ns = trace->now_ns - 10000,
                                         .duration_ns = 3000});
    if (work.stream != 20) trace->now_ns += work.duration_ns + 1000;
    if (dl_random_uniform(&trace->random) >= trace->lost) training_append(trace, work);
}

static inline void training_kernel(training_trace *trace, int name)
{
    training_launch(trace, (dl_activity){.kind = DL_ACTIVITY_KERNEL,
                                         .name = (uint32_t)name,
                                         .detail = trace->shape,
                                         .stream = name == TRAINING_NCCL ? 20 : 7});
}

static inline void training_copy(training_trace *trace, dl_copy_direction copy, uint64_t bytes)
{
    training_launch(
        trace,
        (dl_activity){.kind = DL_ACTIVITY_MEMCPY, .copy = copy, .bytes = bytes, .stream = 7});
}

static inline void training_forward(training_trace *trace, const training *model)
{
    if (model->idle) trace->now_ns += 100000 + (int64_t)dl_random_below(&trace->random, 50000);
    if (model->input) {
        training_copy(trace, DL_COPY_H2D, 600000);
        training_copy(trace, DL_COPY_H2D, 512);
    }
    for (int i = 0; i < model->layers; i++) {
        for (int k = 0; k < 3; k++)
            training_kernel(trace, TRAINING_FORWARD + 3 * (i % model->kinds) + k);
    }
}

static inline void training_step(training_trace *trace, const training *model, int step)
{
    training_forward(trace, model);
    training_kernel(trace, TRAINING_LOSS);
    training_kernel(trace, TRAINING_LOSS + 1);
    for (int i = model->layers; i-- > 0;) {
        for (int k = 0; k < 5; k++)
            training_kernel(trace, TRAINING_BACKWARD + 5 * (i % model->kinds) + k);
        if (model->nccl && i % 4 == 0) training_kernel(trace, TRAINING_NCCL);
        for (int k = 0; model->tuning && step < 2 && k < 4; k++)
            training_kernel(trace, TRAINING_TUNING + (int)dl_random_below(&trace->random, 40));
    }
    for (int i = 0; i < (model->unfused ? 2 * model->layers : 1); i++) {
        for (int k = 0; k < 3; k++)
            training_kernel(trace, TRAINING_UPDATE + k);
    }
}

/* Copies parameters to the host and back, six arrays of different sizes. */
static inline void training_average(training_trace *trace)
{
    for (int i = 0; i < 6; i++)
        training_copy(trace, DL_COPY_D2H, 1000u << i);
    trace->now_ns += 50000;
    for (int i = 0; i < 6; i++)
        training_copy(trace, DL_COPY_H2D, 1000u << i);
}

static inline void training_make(training_trace *trace, const training *model)
{
    *trace = (training_trace){.correlation = model->correlation,
                              .lost = model->lost,
                              .steps = model->steps,
                              .now_ns = 1000000,
                              .shape = TRAINING_FREE + 1};
    dl_random_init(&trace->random, model->seed, 0, 0, 0);
    for (int i = 0; i < TRAINING_STRINGS; i++)
        trace->strings[i] = dl_format("kernel_%d", i);
    free(trace->strings[TRAINING_NCCL]);
    trace->strings[TRAINING_NCCL] = dl_strdup("ncclDevKernel_AllReduce_Sum_f32_RING_LL");
    for (int i = 0; i < 3; i++) {
        free(trace->strings[TRAINING_UPDATE + i]);
        trace->strings[TRAINING_UPDATE + i] = dl_format("multi_tensor_apply_kernel<Adam%d>", i);
    }
    trace->starts_ns = dl_calloc((size_t)model->steps, sizeof(int64_t), "generated trace");
    for (int step = 0; step < model->steps; step++) {
        if (model->smaller_last && step == model->steps - 1) trace->shape++;
        size_t first = trace->count;
        training_step(trace, model, step);
        /* The first call is never lost; its work begins 10 us later. */
        trace->starts_ns[step] = trace->activities[first].start_ns + 10000;
        if (model->interval > 0 && (step + 1) % model->interval == 0) training_average(trace);
        if (model->validate_every == 0 || (step + 1) % model->validate_every != 0) continue;
        for (int batch = 0; batch < 8; batch++) {
            training_forward(trace, model);
            training_kernel(trace, TRAINING_ACCURACY);
        }
    }
    trace->end_ns = trace->now_ns;
}

static inline void training_free(training_trace *trace)
{
    for (int i = 0; i < TRAINING_STRINGS; i++)
        free(trace->strings[i]);
    free(trace->activities);
    free(trace->starts_ns);
}

#endif
