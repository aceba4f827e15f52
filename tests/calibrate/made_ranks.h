/* Traces of several ranks of a training run, made by a model of the program with the truth beside
 * them: what data-parallel training does call by call and kernel by kernel. Ranks run in lockstep
 * of the program's order; a host thread issues, streams carry out, collectives end on all ranks
 * together, a known time after the last rank has come. */
#ifndef DL_TESTS_CALIBRATE_MADE_RANKS_H
#define DL_TESTS_CALIBRATE_MADE_RANKS_H

#include <stdbool.h>

#include "common/random.h"
#include "trace/dlt/dlt.h"

enum { MADE_RANKS = 8, MADE_STEPS = 64, MADE_LAYERS = 24, MADE_BUCKETS = 8, MADE_SPANS = 64 };

/* Streams of a device, by what they carry. */
enum { MADE_COMPUTE, MADE_SIDE, MADE_COPY, MADE_NCCL, MADE_STREAMS };

typedef struct made_model {
    int ranks, steps, layers; /* of each layer 2 kernels forward, 3 backward */
    double kernel_us;         /* of layer 0; layer i takes 1 + i / layers times that */
    double gap_us;            /* of the host before each launch, whose call takes 4 us */
    double update_us;         /* of each of the optimizer's kernels, one a layer */
    int buckets;              /* all-reduces of a step; 0 = one GPU */
    uint64_t bytes;           /* of all gradients; buckets get them in proportion to their layers */
    double latency_us, ns_per_byte;
    double slowdown; /* of compute beside collectives; 1 = none */
    double jitter;   /* sd of a kernel's and a gap's time */
    double lateness; /* sd of a rank's whole step */
    int accumulate;  /* micro-batches of a step, only the last one exchanges; 0 = 1 */
    bool autograd;   /* the backward pass is issued by a thread of its own */
    bool sync;       /* the host waits for the device at the end of a step */
    bool item;       /* it reads the loss back after the backward pass */
    bool side;       /* each fourth layer has a branch on another stream */
    uint64_t input;  /* bytes copied to the device before the step, by a stream of its own, while
                          the step before runs; 0 = none */
    double load_us;  /* of the host before each step: reading input */
    bool bare;       /* no ranges: names of kernels tell */
    bool marks;      /* a range for each step */
    int warmup;      /* steps that also try algorithms */
    int validate_every, checkpoint_every; /* steps; 0 = never */
    uint64_t seed;
} made_model;

/* What is true of each step, in ns: without jitter, waiting and slowdown. */
typedef struct made_truth {
    double forward_ns, backward_ns, update_ns; /* device */
    double host_ns;                            /* issuing a step; both threads */
    double ready[MADE_BUCKETS];                /* share of the last backward pass */
    double bytes[MADE_BUCKETS];                /* cumulative */
} made_truth;

/* A rank while it is made. */
typedef struct made_rank {
    dl_trace trace;
    size_t room;
    dl_random random;
    double slow;                     /* of this step */
    int64_t host_ns[2];              /* main thread, autograd's */
    int64_t stream_ns[MADE_STREAMS]; /* end of the last work */
    int64_t ready_ns[MADE_STREAMS];  /* what the next work waits for */
    uint32_t correlation;
    int64_t span_start_ns[MADE_SPANS], span_end_ns[MADE_SPANS]; /* latest collectives */
    size_t spans;
    uint32_t first_correlation[MADE_STEPS], last_correlation[MADE_STEPS]; /* of each step's calls */
} made_rank;

typedef struct made_run {
    made_model model;
    made_truth truth;
    made_rank ranks[MADE_RANKS];
} made_run;

/* Makes all ranks of `model`. Release with made_run_free. */
made_run *made_run_new(const made_model *model);
void made_run_free(made_run *run);

#endif
