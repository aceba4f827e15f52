/* Generated traces of several ranks of a training run with their true costs, from a model of
 * data-parallel training call by call and kernel by kernel. Ranks run in lockstep in program order:
 * a host thread issues, streams execute, and collectives end simultaneously on all ranks, a known
 * time after the last rank arrives. */
#ifndef DL_TESTS_CALIBRATE_MADE_RANKS_H
#define DL_TESTS_CALIBRATE_MADE_RANKS_H

#include <stdbool.h>

#include "common/random.h"
#include "trace/dlt/dlt.h"

enum { MADE_RANKS = 8, MADE_STEPS = 64, MADE_LAYERS = 24, MADE_BUCKETS = 8, MADE_SPANS = 64 };

/* Streams of a device, by purpose. */
enum { MADE_COMPUTE, MADE_SIDE, MADE_COPY, MADE_NCCL, MADE_STREAMS };

typedef struct made_model {
    int ranks, steps, layers; /* 2 forward and 3 backward kernels per layer */
    double kernel_us;         /* time of a kernel of layer 0; layer i takes 1 + i / layers times as
                               * long */
    double gap_us;            /* host gap before each launch, whose call takes 4 us */
    double update_us;         /* time of each optimizer kernel, one per layer */
    int buckets;              /* all-reduces per step; 0: one GPU */
    uint64_t bytes;           /* bytes of all gradients; buckets have shares proportional to their
                               * layers */
    double latency_us, ns_per_byte;
    double slowdown; /* slowdown of computation beside collectives; 1: none */
    double jitter;   /* sd of the times of kernels and gaps */
    double lateness; /* sd of a rank's whole step */
    int accumulate;  /* micro-batches per step, of which only the last exchanges; 0 means 1 */
    bool autograd;   /* a separate thread issues the backward pass */
    bool sync;       /* the host waits for the device at the end of a step */
    bool item;       /* the host reads the loss back after the backward pass */
    bool side;       /* every fourth layer has a branch on another stream */
    uint64_t input;  /* bytes copied to the device before the step, on a separate stream, during the
                      * previous step; 0: none */
    double load_us;  /* host time before each step for reading input */
    bool bare;       /* no ranges: only names of kernels identify phases */
    bool marks;      /* a range per step */
    int warmup;      /* steps that also try algorithms */
    int validate_every, checkpoint_every; /* intervals in steps; 0: never */
    uint64_t seed;
} made_model;

/* True values of each step in ns, without jitter, waits and slowdown. */
typedef struct made_truth {
    double forward_ns, backward_ns, update_ns; /* device time */
    double host_ns;                            /* issue time of a step, sum of both threads */
    double ready[MADE_BUCKETS];                /* fraction of the last backward pass */
    double bytes[MADE_BUCKETS];                /* cumulative */
} made_truth;

/* A rank under construction. */
typedef struct made_rank {
    dl_trace trace;
    size_t room;
    dl_random random;
    double slow;                     /* factor of this step */
    int64_t host_ns[2];              /* main thread, autograd thread */
    int64_t stream_ns[MADE_STREAMS]; /* end of the last work */
    int64_t ready_ns[MADE_STREAMS];  /* earliest start of the next work */
    uint32_t correlation;
    int64_t span_start_ns[MADE_SPANS], span_end_ns[MADE_SPANS]; /* [spans] latest collectives */
    size_t spans;
    /* Correlations of each step's calls. */
    uint32_t first_correlation[MADE_STEPS], last_correlation[MADE_STEPS];
} made_rank;

typedef struct made_run {
    made_model model;
    made_truth truth;
    made_rank ranks[MADE_RANKS];
} made_run;

/* Generates all ranks of `model`. Release with made_run_free. */
made_run *made_run_new(const made_model *model);
void made_run_free(made_run *run);

#endif
