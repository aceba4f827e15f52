/* Training with the model split over GPUs (sim/pipeline/pipeline_split.h) and the split model
 * replicated: replica r has its stage s on GPU r x stages + s of those that the scenario lists.
 *
 *   gpipe, 2 stages, 3 micro-batches            1f1b
 *   stage 0  F0 F1 F2 .  .  B0 B1 B2 U            F0 F1 .  B0 F2 B1 .  B2 U
 *   stage 1     F0 F1 F2 B0 B1 B2 U                  F0 B0 F1 B1 F2 B2 U
 *
 * A step is the micro-batches of a replica, and a flush: all are through before the update. A stage
 * starts with a forward pass when the one before has computed it and its activations have crossed,
 * with a backward pass when the gradients of the next one have; crossings are flows over the
 * machine's links, one after another on each way, while the stages compute on. Behind its last
 * backward pass a stage's gradients are all-reduced among the replicas, and it updates; the others
 * may still be at their backward passes. With s equal stages, m micro-batches of (f, b) and nothing
 * else, a step takes (m + s - 1)(f + b) in either schedule, the bubble is (s - 1) / (m + s - 1).
 *
 * Time of a GPU is computing, dispatch (the host has not launched what comes next), communication
 * (an all-reduce; what it needs is on its way from another stage), input, or waiting: for other
 * replicas, or for a stage that has not computed yet (the bubble).
 *
 * Host threads (sim/platform/dispatch.h) launch each forward and backward pass: the serial part
 * once per step, then pass by pass, one thread for all taking the GPUs in turn. A replica's input
 * is one batch a step, for its first stage. Noise is drawn for each GPU and step; a slow worker is
 * slow in all stages.
 *
 * What it leaves out: labels sent to the last stage; launches of crossing copies; computing slowed
 * by crossings.
 */
#ifndef DL_SIM_PIPELINE_H
#define DL_SIM_PIPELINE_H

#include "sim/pipeline/pipeline_split.h"
#include "sim/platform/gpu_input.h"
#include "sim/team.h"

typedef struct dl_pipeline_config {
    const dl_gpu_options *options; /* borrowed, as all pointers here, until free */
    const dl_workload *workload;   /* of a micro-batch; input_ns: of a replica's step */
    const dl_stage *stages;
    dl_split split;
    dl_schedule schedule;
    int replicas;
    int64_t steps;
    bool reduces;       /* gradients among the replicas */
    bool without_waits; /* stages do not wait for each other */
    bool free_crossing; /* crossings take no time */
    bool with_input;
    double input_bytes; /* of a replica's step */
    const dl_noise_config *noise;
    uint64_t seed;
    uint32_t replicate;
    const double *slow;               /* [GPUs] factor on passes; NULL = none */
    const dl_team_observer *observer; /* NULL = none; its workers are GPUs */
} dl_pipeline_config;

/* One way between two stages: crossings in the order of computing. */
typedef struct dl_crossing {
    int class;
    int64_t latency_ns;
    int queued; /* that have not arrived */
    bool busy;
} dl_crossing;

typedef struct dl_pipeline_gpu {
    int64_t step;        /* at hand */
    int pass;            /* of the step, 0 .. 2 x micro-batches */
    int done[2];         /* passes of the step: backward, forward */
    int64_t arrived[2];  /* results of these from other stages since the start */
    bool works;          /* computes, or an event will start it */
    bool has_batch;      /* of this step */
    double factor;       /* of this step's noise */
    int64_t work_end_ns; /* of the pass at hand, before its launch's end */
    dl_worker_state state;
    int64_t state_start_ns, step_start_ns;
    int64_t state_ns[DL_STATE_COUNT];
    dl_noise noise;
    dl_crossing crossing[2]; /* back to the stage before, and on to the one after */
} dl_pipeline_gpu;

/* A host thread. */
typedef struct dl_pipeline_host {
    int first, count;  /* its GPUs */
    int64_t started;   /* steps */
    int64_t *start_ns; /* [started] */
    int64_t free_ns;   /* it has launched those */
    int64_t step_ns;   /* to launch a step */
} dl_pipeline_host;

/* The all-reduce of a stage. */
typedef struct dl_stage_reduction {
    dl_collective collective;
    double sent_bytes; /* by all replicas */
    int arrived;
} dl_stage_reduction;

typedef struct dl_pipeline {
    dl_pipeline_config config;
    dl_engine engine;
    dl_network network;
    dl_input input;
    dl_noise_source noise;
    dl_pipeline_gpu *gpus; /* [gpu_count] */
    int gpu_count;
    dl_place *places;        /* [gpu_count] */
    dl_place *first_places;  /* [replicas] of the first stages */
    dl_pipeline_host *hosts; /* [host_count] */
    int host_count;
    int64_t *launch_ns;             /* [gpu_count x passes] from the step's start to the pass's */
    dl_stage_reduction *reductions; /* [stages]; NULL: none */
    int64_t *step_end_ns;           /* [replicas x steps] when its last stage has updated */
    double crossed_bytes, reduced_bytes;
} dl_pipeline;

/* Sets up at time 0. DL_ERR_* of dl_collective_init; then nothing is to be freed.
 * dl_pipeline_free accepts a zeroed object. */
dl_status dl_pipeline_init(dl_pipeline *pipeline, const dl_pipeline_config *config,
                           dl_error *err) DL_MUST_CHECK;
void dl_pipeline_free(dl_pipeline *pipeline);

/* Runs to the end. */
void dl_pipeline_run(dl_pipeline *pipeline);

/* The stage of a GPU. */
int dl_pipeline_stage(const dl_pipeline *pipeline, int gpu);

#endif
