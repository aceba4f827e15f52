/* Defaults for what a cost file does not give and a run needs: one table of rules (assume.c), each
 * with the value, its 95 % interval, where it comes from, and how to measure it.
 *
 * A rule's value follows from the machine file where that says something (a GPU's memory rate, its
 * PCIe link), else from cost files measured for this project. Its interval is value / F to
 * value x F, counted from the least value that the key may have: a slowdown of 1.06 with F = 4 is
 * 1.015 to 1.24. The standard error of an assumed value has just this interval in draws of the
 * costs (dl_costs_draw), so that the intervals of results show it. Its origin is assumed.
 *
 * Nothing is assumed for the operations themselves nor for recorded noise; parameter_bytes only
 * where they follow from [layer] sections or from the time of the optimizer's update. */
#ifndef DL_SIM_ASSUME_H
#define DL_SIM_ASSUME_H

#include "common/machine.h"
#include "sim/costs/costs.h"

#define DL_ASSUMPTIONS_MAX 48
#define DL_ASSUMPTION_SOURCE_BYTES 200

/* One value that was assumed. */
typedef struct dl_assumption {
    const dl_key *key; /* of dl_cost_keys; [sharing] copies_* is copies_2 */
    dl_cost_need need;
    double value, low, high; /* in the key's base unit; low == high: nothing to vary */
    char source[DL_ASSUMPTION_SOURCE_BYTES];
    const char *measure; /* how to measure it: a command line */
} dl_assumption;

/* Those of one cost file; nothing to release. */
typedef struct dl_assumptions {
    dl_assumption items[DL_ASSUMPTIONS_MAX]; /* [count] in the order of the rules */
    size_t count;
} dl_assumptions;

/* Puts a default in for each value of the groups `needs` (dl_cost_need, or-ed) that is unknown and
 * has one, and lists these in *made. `machine`: whose GPUs are the workers; NULL: `cores` cores, 0:
 * as many as the costs say. */
void dl_costs_assume(dl_costs *costs, unsigned needs, const dl_machine *machine, int64_t cores,
                     dl_assumptions *made);

/* Makes the costs of one measured number, the samples per second > 0 of one worker: a third of its
 * step is the forward pass and two thirds the backward pass (a layer's gradients with respect to
 * input and parameters are a matrix product each, as large as the forward one), all of it per
 * sample; the update is in them. Zero `costs` before; dl_costs_free. `device`: the GPU, NULL: not
 * given. `batch`: samples of a step that was measured, 0: not known. */
void dl_costs_of_throughput(dl_costs *costs, double samples_per_s, const char *device,
                            int64_t batch);

/* Buckets of PyTorch's DistributedDataParallel: reducer.hpp (kDefaultFirstBucketBytes), and its
 * default of bucket_cap_mb. */
#define DL_FIRST_BUCKET_BYTES 0x1p20
#define DL_BUCKET_BYTES (25 * 0x1p20)

/* Puts [gradients] in as PyTorch's DistributedDataParallel sends them by default, and `overlap`: a
 * first bucket of DL_FIRST_BUCKET_BYTES, then buckets of DL_BUCKET_BYTES (larger ones where they
 * were more than 4096), filled from the last parameter to the first, evenly over the backward pass.
 * A parameter larger than a bucket, which makes one alone, is not known of. The costs must have
 * parameter_bytes > 0 and no gradients. */
void dl_costs_assume_buckets(dl_costs *costs);

/* The same where ready[count], cumulative, are the gradients in the order in which they are ready:
 * a bucket is full with the one that makes it as large as that or larger. */
void dl_costs_fill_buckets(dl_costs *costs, const dl_gradients_ready *ready, size_t count);

/* Whether the costs still have the assumed value: not if it was switched off since. */
bool dl_assumption_holds(const dl_assumption *assumption, const dl_costs *costs);

/* Puts `value` in place of the assumed one. */
void dl_assumption_set(const dl_assumption *assumption, dl_costs *costs, double value);

/* "copies_2", "latency_ns": the key as a cost file has it. */
const char *dl_assumption_name(const dl_assumption *assumption);

#endif
