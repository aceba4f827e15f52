/* Training on a processor's cores: the parts of its steps and its collectives, from the operators
 * of the training thread (operators.h).
 *
 * Operators have the phases of step_phases.h; clearing gradients always counts as forward, because
 * a worker whose parameters a server updates clears them too. The time before an operator, in which
 * the interpreter runs, belongs to that operator's part; the time at a step's end belongs to the
 * last operator's part.
 *
 * Waiting. The training thread waits for a collective from the end of an operator to the end of the
 * last collective that ends before the next operator starts. Calls of collectives count as waiting
 * too, so that the other parts are the cost of a step without exchange. */
#ifndef DL_TRACE_ACTIVITY_CPU_STEPS_H
#define DL_TRACE_ACTIVITY_CPU_STEPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/activity/step_phases.h"
#include "trace/activity/steps.h"
#include "trace/distribution.h"
#include "trace/dlt/dlt.h"

/* Parts of a step; their times add up to its duration. */
typedef enum dl_cpu_part {
    DL_CPU_PART_INPUT,
    DL_CPU_PART_FORWARD,
    DL_CPU_PART_BACKWARD,
    DL_CPU_PART_UPDATE,
    DL_CPU_PART_WAIT,
    DL_CPU_PARTS
} dl_cpu_part;

/* "input", "forward", "backward", "update", "waiting for collectives". */
extern const char *const dl_cpu_part_names[DL_CPU_PARTS];

/* A collective in which the process took part. */
typedef struct dl_cpu_collective {
    const char *name; /* "AllReduce", ...; borrowed from the trace, or constant */
    uint64_t bytes;   /* bytes of one rank as NCCL counts them; 0: unknown */
    uint32_t ranks;   /* 0: unknown */
    bool integers;    /* it sums integers of 32 or 64 bits, as of DDP's map of used parameters,
                       * which are never gradients */
    size_t step;      /* the regular step that calls it; SIZE_MAX: none does */
    /* fraction of the step's backward pass before the call; NaN: not called during it */
    double ready_frac;
    int64_t called_ns, start_ns, end_ns; /* call by the training thread; start and end of
                                          * execution */
} dl_cpu_collective;

/* A parameter's gradient, accumulated by AccumulateGrad. */
typedef struct dl_cpu_gradient {
    double bytes;
    double ready_frac; /* fraction of the step's backward pass before its accumulation ends */
} dl_cpu_gradient;

typedef struct dl_cpu_step {
    dl_step_label label;
    int64_t start_ns, duration_ns;
    int64_t part_ns[DL_CPU_PARTS];
    size_t part_operators[DL_CPU_PARTS]; /* recorded operators in each part, including nested
                                          * ones */
    size_t first, count;                 /* its collectives, called in the step: collectives[first
                                          * .. first + count - 1] */
} dl_cpu_step;

/* All steps of a process. Owns its arrays; release with dl_cpu_training_free. */
typedef struct dl_cpu_training {
    uint32_t thread;
    dl_cpu_step *steps; /* [step_count]; 0: no training on cores */
    size_t step_count, regular_count;
    dl_step_phases phases;          /* of the operators */
    bool waits_for_loaders;         /* INPUT is the wait for data-loader processes */
    dl_cpu_collective *collectives; /* [collective_count] by called_ns */
    size_t collective_count;
    double gradient_bytes; /* bytes of gradients accumulated by AccumulateGrad per pass of a regular
                            * step. If phases.alternates, the sum over its passes, without a pass whose
                            * gradients begin a longer pass (a GAN's discriminator within the
                            * generator's pass). 0: unknown */
    double step_gradient_bytes; /* that sum, over all passes of a regular step; 0: unknown */
    /* [gradient_count] gradients of the last pass of most regular steps, in the order of the
     * backward pass, with mean times; 0: the trace has no shapes */
    dl_cpu_gradient *gradients;
    size_t gradient_count;
} dl_cpu_training;

/* Finds the parts of the steps of the trace's `line`, whose device must be DL_NO_DEVICE; `training`
 * must be zeroed. Finds nothing without operators. O(n log n). */
void dl_cpu_training_find(dl_cpu_training *training, const dl_trace *trace,
                          const dl_step_line *line);
void dl_cpu_training_free(dl_cpu_training *training);

/* Returns the statistics of a part over the regular steps, in ns. */
dl_distribution dl_cpu_training_part(const dl_cpu_training *training, dl_cpu_part part);

/* Returns the statistics of the durations of the regular steps, in ns. */
dl_distribution dl_cpu_training_steps(const dl_cpu_training *training);

/* Collectives of regular steps with equal name, bytes, ranks and `integers` that are all called
 * during backward passes, or all outside of them. */
typedef struct dl_cpu_collectives {
    const char *name;
    uint64_t bytes;
    uint32_t ranks;
    bool integers;
    double per_step;
    double ready_frac;           /* mean; NaN: not called during backward passes */
    dl_distribution duration_ns; /* execution times, including waiting for other ranks */
} dl_cpu_collectives;

/* Returns *count items, by descending total time; the caller frees them. */
dl_cpu_collectives *dl_cpu_training_collectives(const dl_cpu_training *training, size_t *count);

#endif
