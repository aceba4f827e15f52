/* What a variant's results rest on without a measurement, as one list: defaults for what a cost
 * file does not give and a run needs; numbers of the machine file that have bounds; and settings
 * that the scenario leaves open. Each has its value, its 95 % interval or its alternative, where it
 * comes from, and how to find it out. Influences (sim/sweep.h), the intervals of results and
 * reports (sim/report/report_assumed.h) treat all of them alike.
 *
 * Assumptions of one cause are one: they are drawn together, as many standard errors away, and are
 * tried together.
 *
 * Costs: one table of rules (assume.c). A rule's value follows from the machine file where that
 * says something (a GPU's memory rate, its PCIe link), else from cost files measured for this
 * project. Its interval is value / F to value x F, counted from the least value that the key may
 * have: a slowdown of 1.06 with F = 4 is 1.015 to 1.24. The standard error of an assumed value has
 * just this interval in draws of the costs (dl_costs_draw), so that the intervals of results show
 * it. Its origin is assumed. Values of one cause (rates of one core's memory, waking one thread)
 * share it.
 *
 * The machine: each number with bounds ("bytes_per_s = 6GB/s (4GB/s to 9GB/s), assumed") that the
 * cost file does not give. It becomes one of the costs' machine_values, which scales the machine's
 * number, so that draws of the costs draw it too: log-normal on either side of the number, with
 * the bounds as 2.5 and 97.5 % quantiles. All rates of a section are of one cause, and all its
 * latencies.
 *
 * Nothing is assumed for the operations themselves nor for recorded noise; parameter_bytes only
 * where they follow from [layer] sections or from the time of the optimizer's update. */
#ifndef DL_SIM_ASSUME_H
#define DL_SIM_ASSUME_H

#include "common/machine.h"
#include "sim/costs/costs.h"

#define DL_ASSUMPTION_SOURCE_BYTES 200
#define DL_ASSUMPTION_CHOICE_BYTES 32

struct dl_scenario;
struct dl_gpu_options;
struct dl_point;

typedef enum dl_assumed { DL_ASSUMED_COST, DL_ASSUMED_MACHINE, DL_ASSUMED_SETTING } dl_assumed;

/* Whether a point's run depends on a setting. */
typedef bool (*dl_setting_matters_fn)(const struct dl_scenario *scenario,
                                      const struct dl_point *point);

/* Makes copies of a scenario and of its GPU options (NULL: none) those of the alternative. */
typedef void (*dl_setting_change_fn)(struct dl_scenario *scenario, struct dl_gpu_options *gpu);

/* Host time of a step for each kernel that an architecture counts: 10 us where a program does little
 * else than launch; 46 us of ResNet-50 in PyTorch on an H200's host, not recorded; 61 and 85 us in
 * public traces of DistributedDataParallel (ResNet-50 on V100, ResNet-18 on MI300X, recording taken
 * off), which launch up to three times as many operations as are counted. A factor of 3 either way
 * holds all of these. */
#define DL_LAUNCH_NS 30000
/* Host time for each kernel of several operations that a program in Python launches: Megatron-LM's
 * steps of narrow models that the host limits (VIA-Research/vTrain, width 1024, one sequence at a
 * time); of the last three the geometric mean is 62 us, and nanotron's such steps take 98 us. */
#define DL_LAUNCH_FUSED_NS 77000

/* One value that was assumed. */
typedef struct dl_assumption {
    dl_assumed of;
    const dl_key *key; /* of dl_cost_keys, dl_machine_keys or dl_scenario_keys; [sharing] copies_*
                          is copies_2 */
    unsigned cause;    /* of one with all others of this number; 0: alone */
    char source[DL_ASSUMPTION_SOURCE_BYTES];
    const char *measure; /* how to measure it: a command line; of a setting, what goes after "find
                            out first" */
    double value, low, high; /* in the key's base unit; low == high: nothing to vary */
    dl_cost_need need;       /* of a cost */
    size_t number;           /* of a machine's: among the costs' machine_values, */
    const char *section;     /* and its section, "link shm", borrowed from there */
    char chosen[DL_ASSUMPTION_CHOICE_BYTES]; /* of a setting: its value, */
    char other[DL_ASSUMPTION_CHOICE_BYTES];  /* and the alternative, which is simulated; "": none */
    dl_setting_matters_fn matters;           /* NULL: always */
    dl_setting_change_fn change;             /* NULL: it changes nothing but */
    dl_costs *costs; /* those of the alternative, owned; NULL: the variant's */
} dl_assumption;

/* Zeroed it is empty; release with dl_assumptions_free. */
typedef struct dl_assumptions {
    dl_assumption *items; /* [count] in the order in which they were added */
    size_t count;
} dl_assumptions;

void dl_assumptions_free(dl_assumptions *made);

/* Puts a default in for each value of the groups `needs` (dl_cost_need, or-ed) that is unknown and
 * has one, and adds these to *made. `machine`: whose GPUs are the workers; NULL: `cores` cores, 0:
 * as many as the costs say. */
void dl_costs_assume(dl_costs *costs, unsigned needs, const dl_machine *machine, int64_t cores,
                     dl_assumptions *made);

/* Puts `value` in for the unknown SECTION.KEY, one of the costs' single values, of the group `need`, and adds
 * it to *made, with the interval value / factor to value x factor. `cause`: as dl_assumption's;
 * `measure` is borrowed. */
void dl_costs_assume_value(dl_costs *costs, const char *section, const char *key, double value,
                           double factor, unsigned cause, dl_cost_need need, const char *source,
                           const char *measure, dl_assumptions *made);

/* Adds the machine's numbers with bounds that the costs do not give. */
void dl_machine_assume(dl_costs *costs, dl_machine *machine, dl_assumptions *made);

/* Adds a setting of the scenario, `key`, that it leaves open: `chosen` was taken. `measure`: what
 * tells the right value, after "find out first". The item is returned, for its alternative: `other`
 * with `change`, `costs` or both, and `matters`; it is valid until the next one is added. */
dl_assumption *dl_setting_assume(const dl_key *key, const char *chosen, const char *source,
                                 const char *measure, dl_assumptions *made);

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

/* Whether the costs still have the assumed value: not if it was switched off since. Settings
 * hold. */
bool dl_assumption_holds(const dl_assumption *assumption, const dl_costs *costs);

/* Whether two are the same assumption, of one variant or of two. */
bool dl_assumption_same(const dl_assumption *a, const dl_assumption *b);

/* Puts `value` in place of the assumed one, of a cost or of the machine, whose costs'
 * machine_values it changes. */
void dl_assumption_set(const dl_assumption *assumption, dl_costs *costs, double value);

/* "copies_2", "latency_ns": the key as a file has it; and its section there. */
const char *dl_assumption_name(const dl_assumption *assumption);
const char *dl_assumption_section(const dl_assumption *assumption);

#endif
