/* What a step costs, from one rank's trace of any program: the line from a trace to a cost file.
 *
 *   device     the step when the host takes no time and collectives take none: the operations of
 *              a step one after another as their edges and spacings have it, split as their
 *              durations are over operations: what operations of one class do in one phase
 *              (step_phases.h), as "convolution.forward". What is charged by itself is taken out
 *              before: the slowdown beside collectives, and copies of input
 *   host       the step when devices take no time: what issuing a step costs the host's threads,
 *              each wait for the device but for its latency taken out
 *   gradients  what is all-reduced when (step_phases.h)
 *   input      bytes copied to the device in a step; copies from and to pageable memory, bytes over
 *              time of those of 64 KiB and more
 *   slowdown   of compute beside collectives (step_phases.h)
 *
 * Only regular steps count, and for times of whole steps only those that another regular one
 * follows: the last one of a trace ends with its work, and one before a validation without the
 * host's part that comes between steps. */
#ifndef DL_CALIBRATE_REPLAY_STEP_COSTS_H
#define DL_CALIBRATE_REPLAY_STEP_COSTS_H

#include "calibrate/notes.h"
#include "calibrate/replay/step_phases.h"
#include "sim/costs/costs.h"

/* A mean over steps with its standard error. */
typedef struct dl_step_mean {
    double value, error;
} dl_step_mean;

/* What the operations of one class take in one phase of a step. */
typedef struct dl_step_op {
    char name[40]; /* "convolution.forward" */
    dl_step_mean ns;
} dl_step_op;

/* Owns its arrays; release with dl_step_costs_free. */
typedef struct dl_step_costs {
    int64_t batch; /* samples of a step, as the caller says */
    size_t steps;  /* whose times are known: step_ns, device_ns, host_ns are their means */
    double step_ns, device_ns;
    double host_ns;                                  /* NaN = no launches are in the trace */
    dl_step_mean forward_ns, backward_ns, update_ns; /* of device_ns */
    dl_step_op *ops; /* [op_count] those that take time, by phase; their sum is device_ns */
    size_t op_count;
    dl_step_mean input_bytes;
    double pageable_bytes_per_s; /* 0 = no such copies */
    size_t pageable_copies;
    dl_gradients_ready *gradients; /* [gradient_count] */
    size_t gradient_count;
    dl_overlap_slowdown slowdown;
    float *factors;           /* [steps] step times over their mean */
    char *device, *framework; /* names; NULL = unknown */
} dl_step_costs;

/* Takes the costs of the line with most work of one rank's trace; zero `costs` before. `slowdown`
 * beside collectives is taken from elsewhere; NULL = from the trace. What the trace does not give
 * is a note. DL_ERR_DATA without two regular steps. */
dl_status dl_step_costs_take(dl_step_costs *costs, const dl_trace *trace, int64_t batch,
                             const dl_step_hints *hints, const dl_overlap_slowdown *slowdown,
                             dl_notes *notes, dl_error *err) DL_MUST_CHECK;
void dl_step_costs_free(dl_step_costs *costs);

/* Makes the cost file of steps[count] of one workload, count >= 1: for each operation a line over
 * the batch sizes, or of one batch size all per sample (updates: fixed). Gradients, noise and
 * slowdown are those of the first that has any. Zero `costs` before; dl_costs_free. DL_ERR_DATA if
 * traces do not fit together. */
dl_status dl_step_costs_combine(dl_costs *costs, const dl_step_costs *steps, size_t count,
                                dl_notes *notes, dl_error *err) DL_MUST_CHECK;

#endif
