/* The cost file: times of a workload on a device, and of its exchanges on this machine. Written by
 * dlcal or by hand, read by dlsim.
 *
 * Format, with examples: docs/formats.md. Keys, units and ranges: dl_cost_keys (costs_keys.c),
 * docs/keys.md, dlsim --keys. Text of a value: sim/value.h.
 *
 * The name of an operation is "input", "dispatch", or ends in ".forward", ".backward", ".update" or
 * ".bucket"; the last copies gradients into the buckets of an all-reduce and back, on GPUs that
 * exchange during the backward pass. Its fixed_ns, and latency_ns of [copy], [average] and
 * [update], may be negative (the intercept of a line fitted over a range), but not the operation's
 * total time at batch_max (1e6 samples if unknown); a negative total time counts as zero. */
#ifndef DL_SIM_COSTS_H
#define DL_SIM_COSTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/keys.h"
#include "common/machine.h"
#include "sim/collective/collective_cost.h"
#include "sim/compress.h"
#include "sim/value.h"

typedef struct dl_op_cost {
    char *name; /* "conv1.forward", "input", "dispatch" */
    dl_value fixed_ns;
    dl_value per_sample_ns;
    dl_value starts_frac; /* share of fixed_ns in starts of kernels; unknown: 0 */
    /* Work per sample, for sim/scenario/scaling.h; optional. */
    dl_value flop_per_sample, bytes_per_sample;
} dl_op_cost;

/* Costs of a layer. Its name is the part of an operation's name before the phase. */
typedef struct dl_layer_cost {
    char *name;
    dl_value output_bytes_per_sample; /* size of the output sent to the next layer, and of its
                                       * gradient sent back */
    dl_value parameter_bytes;
    dl_value activation_bytes_per_sample; /* stored for the backward pass */
    dl_value working_bytes_per_sample;    /* peak of temporary memory beside the stored activations;
                                           * unknown: 0 */
    /* 16-bit copies of weights that a micro-batch's forward pass makes and its backward pass frees
     * (torch.autocast), and the part of them that is freed at the end of the forward pass and made
     * again in the backward pass (recomputation); unknown: none. */
    dl_value cast_bytes, recast_bytes;
    /* Bytes of the whole activation carried by a collective among the tensor_ranks GPUs of a
     * divided layer, and number of collectives per pass: all-reduces, or pairs of all-gather and
     * reduce-scatter; unknown: none. */
    dl_value tensor_bytes_per_sample, tensor_collectives_forward, tensor_collectives_backward;
    /* Further collectives of the backward pass, concurrent with matrix products of the given time:
     * the longer of the two counts. */
    dl_value tensor_collectives_beside, tensor_beside_ns_per_sample;
    /* Ring attention: bytes of keys and values of the GPU's part of a sequence, sent to the next of
     * context_ranks GPUs (in the backward pass with their gradients); time of attention concurrent
     * with each hop; rings of a forward pass in a backward pass, which recomputes attention;
     * unknown: none. If context_alltoalls is known, each pass has this number of all-to-alls in
     * place of the ring, and a GPU distributes context_bytes_per_sample in each. */
    dl_value context_bytes_per_sample, context_forward_ns_per_sample;
    dl_value context_backward_ns_per_sample, context_forward_again, context_alltoalls;
    /* Experts: bytes of the parameters of the GPU's own experts, a subset of parameter_bytes; bytes
     * that it sends to and receives from the expert_ranks GPUs, itself included, in an all-to-all;
     * number of all-to-alls per pass; unknown: none. */
    dl_value expert_parameter_bytes, expert_bytes_per_sample;
    dl_value expert_exchanges_forward, expert_exchanges_backward;
    /* expert_copies: expert_bytes_per_sample has this many copies of a token, one for each of its
     * experts, but a GPU or node with several of these experts receives only one; unknown: it
     * receives all. expert_count, needed with it: number of experts of all GPUs. */
    dl_value expert_copies, expert_count;
} dl_layer_cost;

#define DL_SHARING_MAX 64
#define DL_LINEARITY_MAX 64

/* Ratio of all operations' total time at one batch size to the sum of their lines (effect of
 * caches). Interpolated linearly in log(batch). */
typedef struct dl_linearity {
    int64_t batch;
    dl_value factor;
} dl_linearity;

/* Step-time factors of one copy in one run. */
typedef struct dl_noise_series {
    float *factors; /* [count] > 0, in the order of the trace */
    size_t count;   /* >= 1 */
    float middle;   /* median of the factors, set by dl_noise_series_finish */
} dl_noise_series;

/* The factors of some runs of one kind. A preemption lasts as long in a short step as in a long
 * one, so the spread depends on the batch size; and one core may be slower than another for a whole
 * run. */
typedef struct dl_noise_set {
    int64_t batch;           /* batch of each copy; 0: any */
    size_t copies;           /* concurrent copies, 1 .. DL_SHARING_MAX */
    size_t run_count;        /* >= 1 */
    dl_noise_series *series; /* [run_count x copies] */
} dl_noise_set;

/* Ratios of a run's exchange times to those of the fitted lines, > 0. */
typedef struct dl_exchange_run {
    float copy, average, update;
    float shared; /* ratio for dl_costs.shared; 1 if not given */
} dl_exchange_run;

/* A number of the machine file that the costs replace, as fitted to this workload on that
 * machine. */
typedef struct dl_machine_value {
    char *section;     /* section of the machine file: "link nvlink2", "host" */
    const dl_key *key; /* row of dl_machine_keys */
    dl_value value;
    double of_machine; /* > 0: the machine's number, which has bounds and is scaled by value /
                        * of_machine instead of replaced. Not in the file */
} dl_machine_value;

/* Bytes of a step's gradients that are ready after a fraction of the backward pass. */
typedef struct dl_gradients_ready {
    double share; /* fraction of the backward pass, 0 .. 1 */
    double bytes; /* > 0, cumulative */
} dl_gradients_ready;

/* Groups of values that a run may need, to be or-ed for dl_costs_missing. */
typedef enum dl_cost_need {
    DL_NEED_OPS = 1 << 0, /* at least one operation, both numbers of each */
    DL_NEED_COPY = 1 << 1,
    DL_NEED_AVERAGE = 1 << 2,
    DL_NEED_UPDATE = 1 << 3, /* [update] of the server */
    DL_NEED_MEMORY = 1 << 4,
    DL_NEED_BARRIER = 1 << 5,
    DL_NEED_WAKEUP = 1 << 6,
    DL_NEED_LOCK = 1 << 7,
    DL_NEED_SLICE = 1 << 8,
    DL_NEED_SHARING = 1 << 9, /* at least one copies_k with k >= 2 */
    DL_NEED_NOISE = 1 << 10,  /* [noise] factors */
    DL_NEED_PARAMETERS = 1 << 11,
    DL_NEED_STATE = 1 << 12,
    DL_NEED_DISPATCH = 1 << 13, /* [dispatch], of GPUs */
    DL_NEED_PAGEABLE = 1 << 14,
    DL_NEED_OVERLAP = 1 << 15,
    DL_NEED_INPUT = 1 << 17,      /* [input], if there is an [op input] */
    DL_NEED_GLOO = 1 << 18,       /* [gloo], for processes whose exchange was not measured */
    DL_NEED_RPC = 1 << 19,        /* [rpc], likewise */
    DL_NEED_GPU_MEMORY = 1 << 16, /* [gpu_memory], which no run needs: without it, fitting into
                                   * memory is not checked */
    DL_NEED_QUANTISE = 1 << 19, /* base bit of [quantise KIND]: shifted left by a dl_compress other
                                 * than none */
    DL_NEED_LEARNED = DL_NEED_QUANTISE << DL_COMPRESS_KINDS,
    DL_NEED_OTHER_RANKS = DL_NEED_LEARNED << 1, /* exchanges of unmeasured numbers of processes */
    DL_NEED_GENERATOR = DL_NEED_OTHER_RANKS << 1,
    DL_NEED_OTHER_BATCH = DL_NEED_GENERATOR
                          << 2,            /* batches beyond those of costs that were measured
                                                   * at a single one */
    DL_NEED_SPLIT = DL_NEED_GENERATOR << 1 /* fixed fraction of a measured update of [generators] */
} dl_cost_need;

/* Model state that the workers of mode allreduce shard instead of replicating: the optimizer's
 * state (ZeRO stage 1), also the gradients (stage 2), also the parameters (stage 3, FSDP). */
typedef enum dl_sharded {
    DL_SHARDED_NONE,
    DL_SHARDED_OPTIMIZER,
    DL_SHARDED_GRADIENTS,
    DL_SHARDED_PARAMETERS
} dl_sharded;

/* "none", "optimizer", "gradients", "parameters", NULL at the end. */
extern const char *const dl_sharded_names[];

/* Order of a pipeline's micro-batches. */
typedef enum dl_schedule {
    DL_SCHEDULE_GPIPE,       /* all forward passes, then all backward passes (Huang et al. 2019) */
    DL_SCHEDULE_1F1B,        /* one forward pass, then one backward pass as soon as one is possible
                        * (Narayanan et al. 2019, with a flush at the end of each step) */
    DL_SCHEDULE_INTERLEAVED, /* 1f1b with stages that have several runs of layers (chunks) each; as
                              * many micro-batches as there are stages pass through each chunk in
                              * turn (Narayanan et al. 2021, "Efficient large-scale language model
                              * training", section 2.2) */
    DL_SCHEDULE_PIPEDREAM,   /* no flush: each stage updates after each batch, and uses the weights
                              * of a batch's forward pass in its backward pass (Narayanan et al.
                              * 2019) */
    DL_SCHEDULE_2BW,         /* no flush: all stages update after the micro-batches of a step, using
                      * gradients that are one update older than the newest weights (Narayanan et
                      * al. 2021) */
    DL_SCHEDULES
} dl_schedule;

extern const char *const dl_schedule_names[DL_SCHEDULES + 1];

/* Collectives of a traced step, of one kind and group size, other than those of gradients, of
 * sharded state and of the layout's axes. */
typedef struct dl_traced_collective {
    char *name;    /* name in the trace: "AlltoAll" */
    double calls;  /* calls per step */
    double bytes;  /* total of all calls, per rank, as counted by NCCL; 0: unknown */
    double ns;     /* device time, including waits for other ranks */
    int64_t ranks; /* size of the group; 0: unknown */
} dl_traced_collective;

/* The step of the trace from which the costs were derived. */
typedef struct dl_cost_trace {
    char *file;            /* without its folder; NULL: not given */
    int64_t ranks, rank;   /* number of ranks, and the traced rank; 0 and -1: unknown */
    int64_t batch;         /* samples of the traced rank */
    int64_t stages;        /* pipeline stages of the traced job; < 2: none */
    dl_schedule schedule;  /* schedule of these stages */
    int64_t shards;        /* ranks that share sharded parameters, if other ranks hold copies of
                            * them, divide layers or are stages; < 2: all ranks do, or none */
    bool allreduces;       /* the program exchanges gradients in each step, like dlsim's mode
                            * allreduce */
    dl_value step_ns;      /* mean step time */
    dl_value recording_ns; /* estimated time that recording added to the host's part of a step,
                            * already subtracted from the costs; unknown: none */
    dl_traced_collective *collectives; /* [collective_count] */
    size_t collective_count;
} dl_cost_trace;

/* Compute costs on one of the machine's GPU models, if it has several. */
typedef struct dl_model_costs {
    struct dl_costs *own; /* costs from another cost file, used for operations, linearity, batches
                           * and memory; owned; NULL: the operations of the parent costs */
    double *factors;      /* [op_count] factors on the operations' times; NULL: 1 */
    double spread_log;    /* uncertainty as the logarithm of a factor in either direction, if scaled
                           * or estimated; 0: measured */
} dl_model_costs;

typedef struct dl_costs {
    char *path;
    char *workload, *device, *precision, *framework; /* NULL: not given */
    int64_t parameter_bytes, state_bytes;            /* -1: not given */
    int64_t frozen_bytes; /* bytes of further parameters, which are not trained; 0: none */
    double parameter_error_bytes, state_error_bytes; /* standard errors of assumed values; not in
                                                      * the file */
    int64_t batch_min, batch_max, cores;             /* 0: not given */
    bool keeps_parameters; /* sharded parameters are gathered once and kept until the end of the
                            * backward pass */
    dl_sharded sharded;    /* sharding of the measured program */
    int64_t tensor_ranks;  /* GPUs that divide each layer (tensor parallelism); costs are per GPU; <
                            * 2: not divided */
    int64_t context_ranks; /* GPUs that divide each sequence (context parallelism); costs are per
                            * GPU; < 2: not divided */
    int64_t expert_ranks;  /* GPUs that divide the experts (expert parallelism); costs are per GPU;
                            * < 2: not divided */
    int64_t accumulate;    /* micro-batches per step of the program; costs are per micro-batch; < 2:
                            * no accumulation */
    bool overlap;          /* the measured program exchanges during its backward pass */
    bool half_gathers;     /* sharded parameters are gathered in 16 bits, half of their gradients'
                            * bytes */
    bool half_weights;     /* weights have 16 bits; the optimizer keeps a copy of parameter_bytes */
    bool waits;            /* the measured program makes a batch, launches its step and waits for
                            * its end in sequence */
    dl_op_cost *ops;
    size_t op_count;
    dl_layer_cost *layers; /* [layer_count] layers of the file; each has an operation */
    size_t layer_count;
    struct {
        dl_value latency_ns, bandwidth_bytes_per_s, pageable_bytes_per_s;
    } copy;
    struct dl_average_cost {
        dl_value latency_ns, read_bytes_per_s, write_bytes_per_s;
    } average, update;
    dl_value optimizer_reads, optimizer_writes; /* vectors that the server reads and writes after
                                                 * the sum; each, if unknown, is derived from
                                                 * state_bytes if the update's rate is assumed, else
                                                 * 0; if both are unknown, a server on a GPU takes
                                                 * the time of the worker's update instead */
    dl_value outer_reads, outer_writes;         /* vectors that an outer optimizer reads and writes;
                                                 * unknown: 5 and 2 */
    /* Rates at which a core encodes a vector into a message and decodes it, by dl_compress. */
    struct {
        dl_value encode_bytes_per_s, decode_bytes_per_s;
    } quantise[DL_COMPRESS_KINDS];
    dl_value learned_bytes_per_s; /* rate at which a core copies parameters and subtracts the last
                                   * average */
    /* Extra time, as a rate, of accesses to a vector in another core's cache: to push onto it, to
     * write an average onto it, and to pull it after another core has written it. Unknown: none, or
     * part of [average]. */
    struct {
        dl_value push_bytes_per_s, average_bytes_per_s, pull_bytes_per_s;
    } shared;
    dl_value memory_total_bytes_per_s;
    dl_value barrier_ns, wakeup_ns, lock_ns, slice_ns;
    struct {
        dl_value serial_ns, per_worker_ns, contention_frac;
        dl_value external_ns; /* waits per step with no cause in the trace; unknown: 0 */
        dl_value launch_ns;   /* time to launch one operation; unknown: 0 */
        double kernels;       /* kernels per step, if counted; else 0; not in the file */
        double singles;       /* further launches per step, of products of single experts within
                               * calls that are counted as kernels; not in the file */
        bool few;             /* fused kernels in a program that is not compiled */
        bool graphs;          /* a CUDA graph is launched in place of all kernels */
        double plain;         /* with few: kernels without fusion, if counted; else 0 */
        double least_ns; /* measured host time of a launch alone; 0: unknown; not in the file */
        double most_ns;  /* largest time of a step's launches that a measured step permits; 0:
                          * unknown; not in the file */
    } dispatch;
    dl_value overlap_slowdown;
    /* For [generators]: coefficients a and b of a replica's curve (sim/generate/rollout.h); fixed
     * time of an update and time per token on one GPU, instead of the costs' own step; fraction of
     * a measured update, without generation, that does not scale with the number of GPUs. */
    struct {
        dl_value token_ns, request_token_ns;
    } generator;
    struct {
        dl_value fixed_ns, token_gpu_ns, fixed_frac;
    } trainer;
    struct {
        dl_value bytes_per_s, pair_bytes_per_s, latency_ns, slice_ns;
    } network;
    dl_value message_host_ns;
    /* Standard deviation of the logarithm of the compute times of GPUs of one model; factor on a
     * GPU's compute time while another GPU below its PCIe switch is in use. */
    dl_value gpu_spread_frac, gpu_board_slowdown;
    /* Parameters of dl_work_spread (sim/noise.h); unknown: 0, no maximum, equal for all batches. */
    dl_value work_frac, work_max, work_samples;
    float *work_steps; /* [work_step_count] equally likely work of a worker's step, ascending, with
                        * mean 1; none: work_frac applies */
    size_t work_step_count;
    /* Standard deviation of the logarithm of the factor on all compute, if estimated instead of
     * measured; the interval of results uses twice that. */
    dl_value compute_spread_frac;
    /* Standard deviation of the logarithm of the steps of repeated runs; included in the interval
     * of results. */
    dl_value run_spread_frac;
    struct {
        dl_value activation_bytes_per_sample, workspace_bytes;
    } gpu_memory;
    dl_value input_bytes_per_sample, input_copy_ns; /* input_copy_ns: time of a copy apart from that
                                                     * of its bytes; unknown: 0 */
    dl_value stored_bytes_per_sample;               /* bytes read from storage; unknown: 0 */
    /* Broadcast of buffers before each forward pass of mode allreduce, by processes on cores and by
     * GPUs; number of collectives (unknown: one), which matters on cores. */
    dl_value broadcast_bytes, broadcast_calls;
    /* Exchange of processes on cores, modelled by messages and bytes (dl_costs_draw_processes) if
     * `collectives` has no measured times for it; and a factor on times derived from other numbers
     * of processes (dl_costs_draw_other_ranks). */
    struct {
        dl_value latency_ns, bytes_per_s, beside_frac, ranks_factor;
    } gloo;
    struct {
        dl_value latency_ns, bytes_per_s;
    } rpc;
    /* [k], 1 <= k <= DL_SHARING_MAX: a step's time with k concurrent instances over its time alone,
     * per time slice: time(k) / (time(1) max(1, k / cores)); with k instances on one GPU, time(k) /
     * (k time(1)). */
    dl_value sharing[DL_SHARING_MAX + 1];
    dl_linearity linearity[DL_LINEARITY_MAX]; /* [linearity_count] in ascending order of batch */
    size_t linearity_count;
    dl_value per_doubling; /* factor on the time of all operations, except update and bucket, for
                            * each doubling or halving of the batch beyond batch_min and batch_max;
                            * unknown: 1 */
    dl_machine_value *machine_values; /* [machine_value_count] with distinct sections and keys */
    size_t machine_value_count;
    dl_exchange_run *exchange_runs; /* [exchange_run_count]; none: exchange times do not vary */
    size_t exchange_run_count;
    dl_collective_cost *collectives; /* [collective_count] with distinct kinds and ranks */
    size_t collective_count;
    dl_gradients_ready *gradients; /* [gradient_count] both members ascending; none: gradients
                                    * become ready evenly */
    size_t gradient_count;
    dl_noise_set *noise; /* [noise_count] with distinct batches and copies */
    size_t noise_count;
    dl_cost_trace *traces; /* [trace_count] */
    size_t trace_count;
    char **notes; /* [note_count] notes of the file's author, one per line */
    size_t note_count;
    dl_model_costs
        *models; /* [model_count] indexed by the machine's model, set by sim/scenario/scaling.h;
                  * none: all GPUs have one model. Not in the file */
    int model_count;
} dl_costs;

/* All keys of a cost file; single numbers in the order in which they are written and drawn. The
 * group of a row is its dl_cost_need. */
extern const dl_keys dl_cost_keys;

/* Returns the value of a row of dl_cost_keys; NULL if it is not a single number. */
dl_value *dl_cost_single(dl_costs *costs, const dl_key *key);

/* Reads and checks a cost file into *costs, which must be zeroed. Unknown sections, keys and
 * origins are errors with file:line. Values that the file lacks remain unknown; dl_costs_missing
 * lists those that a run needs. */
dl_status dl_costs_read(dl_costs *costs, const char *path, dl_error *err) DL_MUST_CHECK;

/* Reads a cost file from memory; `name` appears in error texts. `text` may hold any bytes. */
dl_status dl_costs_read_text(dl_costs *costs, const char *name, const char *text, size_t bytes,
                             dl_error *err) DL_MUST_CHECK;

/* Whether the file can be read and has only costs of exchange and input: no times of other
 * operations, and no values of the model, the program or the host. */
bool dl_costs_file_is_exchange(const char *path);

/* Adds the costs of such a file to *costs; its single numbers replace those of *costs.
 * DL_ERR_DATA with file:line of the first value of another kind; errors of
 * dl_costs_read. */
dl_status dl_costs_add_exchange(dl_costs *costs, const char *path, dl_error *err) DL_MUST_CHECK;

/* Returns the needed values (dl_cost_need, or-ed) that the file lacks, as "[copy] latency_ns,
 * [sync] lock_ns, ...", freed by the caller; NULL if none is missing. */
char *dl_costs_missing(const dl_costs *costs, unsigned needs);

/* Whether the times of operations are estimated, not measured: [spread] compute_frac is known. */
bool dl_costs_are_estimated(const dl_costs *costs);

/* [spread] run_frac; 0 if it is unknown. */
double dl_costs_run_frac(const dl_costs *costs);

/* Whether workers take batches: the costs have an [op input], or the bytes of a sample's copy to a
 * GPU. */
bool dl_costs_have_input(const dl_costs *costs);

/* Returns the least trustworthy origin among the needed known values; ASSUMED if there are none. */
dl_origin dl_costs_worst_origin(const dl_costs *costs, unsigned needs);

/* Whether the costs describe training on cores by a program other than dlprof train, whose step
 * dlcal costs records as a whole (step.forward, ...). */
bool dl_costs_of_other_program(const dl_costs *costs);

/* Whether the costs have measured exchanges of processes: all-reduces, round trips to a server, or
 * a push to a synchronous server with the pull. */
bool dl_costs_have_exchanges(const dl_costs *costs);

/* Whether processes exchange by [gloo] and [rpc]: exchanges were not measured, and either these
 * sections are given or the program would use them. */
bool dl_costs_exchange_by_messages(const dl_costs *costs);

/* Calls visit(user, value, low, high) for the times of operations, all single numbers, and the
 * values of [sharing], [linearity] and [machine], in a fixed order; [low, high] is the range of the
 * value's key. */
typedef void (*dl_cost_visit_fn)(void *user, dl_value *value, double low, double high);
void dl_costs_each(dl_costs *costs, dl_cost_visit_fn visit, void *user);

/* Calls visit(user, section, key, dimension, value), such as "dispatch" and "serial_ns", for the
 * times of operations, single numbers and values of [sharing] and [machine] that have only bounds
 * because the data they were fitted to do not determine them. */
typedef void (*dl_cost_bounded_fn)(void *user, const char *section, const char *key,
                                   dl_dimension dimension, const dl_value *value);
void dl_costs_each_bounded(const dl_costs *costs, dl_cost_bounded_fn visit, void *user);

/* Adds an unknown entry for each of the machine's numbers that the costs lack, and makes assumed
 * ones unknown, so that nothing is assumed for them. */
void dl_costs_add_machine(dl_costs *costs, dl_machine *machine);

/* Returns the costs' entry, known or not, for the machine's section and key; NULL: none. */
dl_machine_value *dl_costs_machine_value(const dl_costs *costs, const char *section,
                                         const dl_key *key);

/* Adds a machine number that has bounds to the values drawn with the costs, together with the other
 * numbers of the same `cause`; returns its index in machine_values. */
size_t dl_costs_assume_machine_value(dl_costs *costs, const char *section, const dl_key *key,
                                     const dl_quantity *quantity, unsigned cause);

/* Returns DL_ERR_NAME if the costs set a number of a part that the machine lacks (`machine` NULL:
 * it lacks all parts); DL_ERR_UNSUPPORTED if they set one rate or latency for all ports, and the
 * machine's ports differ. */
dl_status dl_costs_check_machine(const dl_costs *costs, dl_machine *machine,
                                 dl_error *err) DL_MUST_CHECK;

/* Sets the machine's numbers to the costs' known ones; scales those with bounds. */
void dl_costs_set_machine(const dl_costs *costs, dl_machine *machine);

/* Writes a file from which dl_costs_read reads the same values. The lines of `comment` (may be
 * NULL) come first, each after "; ". Unknown values, and numbers of the machine that are assumed,
 * are left out. DL_ERR_DATA if a text is invalid in an INI file (a line break, a ';' or ']', over
 * 180 bytes), DL_ERR_IO if writing fails. */
dl_status dl_costs_write(const dl_costs *costs, const char *path, const char *comment,
                         dl_error *err) DL_MUST_CHECK;

void dl_costs_free(dl_costs *costs);

/* Sets the series' median. Call when its factors are complete. */
void dl_noise_series_finish(dl_noise_series *series);

/* Returns the noise for `at_once` >= 1 concurrent workers with `batch` samples each: the set with
 * that many copies, else the next smaller number, else the smallest; among equals the nearest batch
 * size (by ratio; ties: the first), and sets for any batch size last. NULL if there are no sets.
 * Borrowed. */
const dl_noise_set *dl_costs_noise(const dl_costs *costs, double batch, size_t at_once);

/* Whether a worker's work varies from step to step. */
bool dl_costs_work_differs(const dl_costs *costs);

/* Returns the number of GPUs of a worker of the traced job: the product of stages, shards and
 * tensor_ranks. The number of the job's ranks, if known, is a multiple of it. */
int64_t dl_costs_traced_gpus(const dl_costs *costs, const dl_cost_trace *trace);

/* Whether an operation's name ends in ".phase". */
bool dl_costs_is_phase(const char *name, const char *phase);

/* Whether an operation is on vectors of parameters or gradients: its time does not depend on the
 * batch, and it has no matrix products. */
bool dl_costs_is_of_parameters(const char *name);

/* Whether an operation can have that name. */
bool dl_costs_is_op_name(const char *name);

/* Ratio of the time of operation `op` at `batch` to its line: linearity[], and beyond the measured
 * batches per_doubling, except for updates and buckets; 1 if neither is given. */
double dl_costs_linearity(const dl_costs *costs, const char *op, double batch);

/* Step time, in ns, of one worker without exchange for `batch` samples: the sum of fixed +
 * per_sample batch over all operations (phase == NULL) or over those with this name or a name
 * ending in ".phase", each times its linearity at `batch`. Unknown numbers count as zero: check
 * dl_costs_missing first. */
double dl_costs_step_ns(const dl_costs *costs, double batch, const char *phase);

/* Largest measured number of samples of a GPU's step, in all its micro-batches; 0: not given. */
int64_t dl_costs_step_batch(const dl_costs *costs);

/* Returns the number that divides the time of an update if each of `sharers` ranks updates its part
 * of the parameters: `sharers` for the bytes, but 1 for the starts of kernels, which every rank
 * launches (starts_frac). */
double dl_costs_update_parts(const dl_costs *costs, double batch, double sharers);

/* Step time, in ns, on a GPU of the machine's model with this index. */
double dl_costs_model_step_ns(const dl_costs *costs, int model, double batch, const char *phase);

/* Returns the costs whose batches and memory apply to GPUs of that model. Borrowed. */
const dl_costs *dl_costs_of_model(const dl_costs *costs, int model);

#endif
