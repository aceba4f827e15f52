/* The unmeasured assumptions behind a variant's results, as one list: defaults for values that a
 * run needs and the cost file lacks; numbers of the machine file that have bounds; and open
 * settings of the scenario. Each has its value, its 95 % interval or its alternative, its source,
 * and a way to determine it. Influences (sim/sweep.h), the intervals of results and reports
 * (sim/report/report_assumed.h) treat all of them in the same way.
 *
 * Assumptions with the same cause count as one: they are varied together, and drawn together, by
 * the same number of standard errors.
 *
 * Costs: one table of rules (assume.c). A rule's value follows from the machine file where possible
 * (a GPU's memory rate, its PCIe link), else from cost files measured for this project. Its
 * interval is value / F to value x F, counted from the key's minimum: a slowdown of 1.06 with F = 4
 * has 1.015 to 1.24. The standard error of an assumed value reproduces this interval in draws of
 * the costs (dl_costs_draw), so that the intervals of results include it. Its origin is "assumed".
 * The rates of a core's memory have a common cause, and so do times that include the wake-up of a
 * thread.
 *
 * The machine: each number with bounds ("bytes_per_s = 6GB/s (4GB/s to 9GB/s), assumed") that the
 * cost file does not replace. It becomes one of the costs' machine_values, which scales the
 * machine's number, so that draws of the costs include it: log-normal on either side of the number,
 * with the bounds as 2.5 and 97.5 % quantiles. All rates of a section have one cause, and so do all
 * its latencies; each number of [host] has a separate cause.
 *
 * Nothing is assumed for the operations themselves or for recorded noise; parameter_bytes is
 * assumed only if it follows from [layer] sections or from the time of the optimizer's update. */
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

/* Changes copies of a scenario and its GPU options (NULL: none) to the alternative. */
typedef void (*dl_setting_change_fn)(struct dl_scenario *scenario, struct dl_gpu_options *gpu);

/* Host time per kernel of a step that an architecture counts: 10 us if a program does little but
 * launch; 46 us for ResNet-50 in PyTorch on an H200's host, without recording; 61 and 85 us in
 * public traces of DistributedDataParallel (ResNet-50 on V100, ResNet-18 on MI300X, minus the time
 * of recording), which launch up to three times as many operations as are counted. A factor of 3 in
 * either direction covers all of these. Compiled programs have the same value: Inductor takes 7 to
 * 9 us for a kernel and 43 us for a graph (GB200, meta-pytorch/tritonbench pull request 1017), and
 * a nanoGPT of 4 layers on a slow host 144 us for each of 153 kernels, 1.5 to 2 times faster than
 * its 244 kernels without compilation (karpathy/nanoGPT pull request 392). */
#define DL_LAUNCH_NS 30000
/* Host time per counted kernel of a program with fused kernels that is not compiled; its other
 * launches are not counted: profiles of a layer of GPT of width 1024 in Megatron-LM, one sequence
 * at a time (VIA-Research/vTrain's table of steps has sums of these). All of its 15 host-bound
 * profiles take 50 to 100 us, mean 74. For comparison, the geometric mean of the three PyTorch
 * values above is 62 us, and nanotron's host-bound steps take 98 us. Except with Megatron-LM's own
 * fusions (sums=within), they take no longer than the kernels in plain PyTorch that they replace.
 * Programs that train adapters, whose kernels are many and small, take DL_LAUNCH_NS (Qwen's
 * fine-tuning by PEFT with fused norms and rotation: 31 to 36 us). */
#define DL_LAUNCH_FUSED_NS 77000
/* Host time of each product that one call launches for a single expert: the products of 8 experts
 * with 1024 tokens in all and matrices of 2048 x 2048, too little for a B200, take 267 us in
 * Transformer Engine's loop over cuBLAS (NVIDIA/TransformerEngine pull request 3134, "pure"). */
#define DL_LAUNCH_SINGLE_NS 33000
/* Host time of a CUDA graph, by Inductor on a GB200 (meta-pytorch/tritonbench pull request 1017). */
#define DL_LAUNCH_GRAPH_NS 43000
#define DL_LAUNCH_FACTOR 3 /* times of launches vary by this factor either way */

typedef struct dl_assumption {
    dl_assumed of;
    const dl_key *key; /* row of dl_cost_keys, dl_machine_keys or dl_scenario_keys; copies_2 for all
                        * [sharing] copies_* */
    unsigned cause;    /* number shared by all assumptions with the same cause; 0: none */
    char source[DL_ASSUMPTION_SOURCE_BYTES];
    const char *measure;     /* how to measure it: a command line; for a setting, the text after
                              * "find out first" */
    double value, low, high; /* in the key's base unit; low == high: not varied */
    dl_cost_need need;       /* for costs: group of the value */
    size_t number;           /* for machine numbers: index in the costs' machine_values */
    const char *section;     /* for machine numbers: section in machine_values, "link shm",
                              * borrowed */
    char chosen[DL_ASSUMPTION_CHOICE_BYTES]; /* for settings: the assumed value */
    char other[DL_ASSUMPTION_CHOICE_BYTES];  /* for settings: the simulated alternative; "": none */
    dl_setting_matters_fn matters;           /* NULL: the setting always matters */
    dl_setting_change_fn change;             /* changes to the alternative; NULL: only `costs`
                                              * differ */
    dl_costs *costs;                         /* costs of the alternative, owned; NULL: the variant's
                                              * costs */
} dl_assumption;

/* List of assumptions; empty if zeroed. Release with dl_assumptions_free. */
typedef struct dl_assumptions {
    dl_assumption *items; /* [count] in the order of addition */
    size_t count;
} dl_assumptions;

void dl_assumptions_free(dl_assumptions *made);

/* Sets each unknown value of the groups `needs` (dl_cost_need, or-ed) that has a default to this
 * default, and adds it to *made. `machine`: its GPUs are the workers; NULL: the workers run on
 * `cores` cores, 0: the costs' number. */
void dl_costs_assume(dl_costs *costs, unsigned needs, const dl_machine *machine, int64_t cores,
                     dl_assumptions *made);

/* Sets the unknown SECTION.KEY, one of the costs' single values, of the group `need`, to `value`
 * and adds it to *made, with the interval value / factor to value x factor. `cause` is that of
 * dl_assumption; `measure` is borrowed. */
void dl_costs_assume_value(dl_costs *costs, const char *section, const char *key, double value,
                           double factor, unsigned cause, dl_cost_need need, const char *source,
                           const char *measure, dl_assumptions *made);

/* Adds the machine's numbers that have bounds and that the costs do not replace (clock_frac only if
 * the costs are estimated). */
void dl_machine_assume(dl_costs *costs, dl_machine *machine, dl_assumptions *made);

/* Adds an open setting `key` of the scenario with its default `chosen`. `measure` tells how to find
 * the right value, as text after "find out first". Returns the item, so that the caller can set its
 * alternative: `other` with `change`, `costs` or both, and `matters`. The item is valid until the
 * next one is added. */
dl_assumption *dl_setting_assume(const dl_key *key, const char *chosen, const char *source,
                                 const char *measure, dl_assumptions *made);

/* Derives costs from one measured number, the samples per second > 0 of one worker: the forward
 * pass takes a third of its step and the backward pass two thirds (the gradients of a layer's input
 * and parameters are one matrix product each, as large as the forward one), all of it per sample
 * and including the update. `costs` must be zeroed; release with dl_costs_free. `device`: the GPU;
 * NULL: not given. `batch`: samples of the measured step; 0: unknown. */
void dl_costs_of_throughput(dl_costs *costs, double samples_per_s, const char *device,
                            int64_t batch);

/* Bucket sizes of PyTorch's DistributedDataParallel: reducer.hpp (kDefaultFirstBucketBytes), and
 * the default of bucket_cap_mb. */
#define DL_FIRST_BUCKET_BYTES 0x1p20
#define DL_BUCKET_BYTES (25 * 0x1p20)

/* Sets `overlap`, and [gradients] to the default buckets of PyTorch's DistributedDataParallel: a
 * first bucket of DL_FIRST_BUCKET_BYTES, then buckets of DL_BUCKET_BYTES (larger ones if there
 * would be more than 4096), filled from the last parameter to the first, evenly over the backward
 * pass. Single parameters larger than a bucket, which get a bucket each, are not modelled. The
 * costs must have parameter_bytes > 0 and no gradients. */
void dl_costs_assume_buckets(dl_costs *costs);

/* Sets `overlap`, and [gradients] to default buckets for known gradients ready[count], cumulative,
 * in the order in which they are ready. A bucket is full once it reaches its size. */
void dl_costs_fill_buckets(dl_costs *costs, const dl_gradients_ready *ready, size_t count);

/* Whether the costs still contain the assumed value, which may have been switched off since.
 * Returns true for settings. */
bool dl_assumption_holds(const dl_assumption *assumption, const dl_costs *costs);

/* Whether two assumptions, of the same or different variants, are of the same key and section, and
 * have the same value or setting. */
bool dl_assumption_same(const dl_assumption *a, const dl_assumption *b);

/* Replaces the assumed value of a cost, also its standard error by 0, or of the machine (in the
 * costs' machine_values) by `value`. */
void dl_assumption_set(const dl_assumption *assumption, dl_costs *costs, double value);

/* Return the key and its section as in a file: "copies_2", "latency_ns". */
const char *dl_assumption_name(const dl_assumption *assumption);
const char *dl_assumption_section(const dl_assumption *assumption);

#endif
