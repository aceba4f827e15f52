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

#include "trace/activity/added_gradients.h"
#include "trace/activity/collectives.h"
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

typedef struct dl_cpu_step {
    int64_t part_ns[DL_CPU_PARTS];
    size_t part_operators[DL_CPU_PARTS]; /* recorded operators in each part, including nested
                                          * ones */
    size_t first, count;                 /* its collectives, called in the step: collectives[first
                                          * .. first + count - 1] */
} dl_cpu_step;

/* All steps of a process. Owns its arrays, borrows the trace's texts; release with
 * dl_cpu_training_free. */
typedef struct dl_cpu_training {
    uint32_t thread;
    dl_cpu_step *steps; /* [step_count] those of the line; 0: no training on cores */
    size_t step_count;
    dl_distribution step_ns, part_ns[DL_CPU_PARTS]; /* of the regular steps */
    dl_step_phases phases;                          /* of the operators */
    bool waits_for_loaders;            /* INPUT is the wait for data-loader processes */
    dl_collective_kernel *collectives; /* [collective_count] by called_ns */
    size_t collective_count;
    dl_collectives groups; /* of the regular steps, with execution times that include waiting for
                            * other ranks */
    dl_added_gradients added;
} dl_cpu_training;

/* Finds the parts of the steps of the trace's `line`, whose device must be DL_NO_DEVICE; `training`
 * must be zeroed. Finds nothing without operators. O(n log n). */
void dl_cpu_training_find(dl_cpu_training *training, const dl_trace *trace,
                          const dl_step_line *line);
void dl_cpu_training_free(dl_cpu_training *training);

#endif
