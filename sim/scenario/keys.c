#include "sim/scenario/keys.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "common/names.h"
#include "sim/workloads/roofline.h"

#define BATCH_MAX 100000000
#define REPLICATES_MAX 10000
#define SECONDS_MAX 1e6

#define SCENARIO(member) .owner = DL_OF_SCENARIO, .offset = offsetof(dl_scenario, member)
#define OF_GPU(member) .owner = DL_OF_GPU, .offset = offsetof(dl_gpu_options, member)
#define GPU(member) OF_GPU(member), .group = DL_TAKE_GPUS
#define USED(by) .group = DL_TAKE_GPUS | DL_TAKE_USE(DL_USE_##by)
#define KEY(type, member, key, use, ...) \
    {"exchange", key, OF_GPU(member), USED(use), .sweep = ',', __VA_ARGS__},
#define FABRIC(member) GPU(machine.fabric.member)
#define PIPELINE(member) \
    .owner = DL_OF_PIPELINE, .offset = offsetof(dl_scenario_pipeline, member), .group = DL_TAKE_GPUS
#define GENERATORS(member) \
    .owner = DL_OF_GENERATORS, .offset = offsetof(dl_generators, member), .sweep = ','
#define SYNCER(member) \
    SCENARIO(syncer.member), .group = DL_TAKE_OPTION(DL_SYNC_SYNCER), .sweep = ','
#define ABSENCES(member) \
    SCENARIO(absences.member), .group = DL_TAKE_OPTION(DL_SYNC_AWAY), .sweep = ','
#define FAILURES(member) SCENARIO(failures.member), .sweep = ','
#define OWN .type = DL_KEY_OWN, .owner = DL_OF_NOBODY
#define WHOLE(l, h) .type = DL_KEY_INT, .low = l, .high = h
#define WHOLE64(l, h) .type = DL_KEY_INT64, .low = l, .high = h
#define BYTES(l) WHOLE64(l, 1e15), .dimension = DL_DIMENSION_BYTES
#define RATE \
    .type = DL_KEY_QUANTITY, .dimension = DL_DIMENSION_BYTES_PER_S, .low = 1e3, .high = 1e15
#define REAL(l, h) .type = DL_KEY_REAL, .low = l, .high = h
#define CHOICE(names) .type = DL_KEY_CHOICE, .choices = names
#define FLAG .type = DL_KEY_FLAG
#define EITHER(names) .type = DL_KEY_FLAG, .choices = names

static const char *const slows[] = {"transfers", "exchange", NULL};
static const char *const reshards[] = {"yes", "no", NULL};
static const char *const bucket_kinds[] = {"copies", "views", NULL};
static const char *const sums[] = {"at_once", "on_arrival", NULL};
static const char *const stagings[] = {"beside", "alone", NULL};
static const char *const reads[] = {"nothing", "forward", NULL};
static const char *const makings[] = {"ahead", "at_launch", NULL};
static const char *const input_noises[] = {"none", "exponential", NULL};
static const char *const reducers[] = {"gpus", "hosts", NULL};
static const char *const algorithms[] = {"ring", "tree", "node_tree", "hierarchical", "auto", NULL};
static const char *const outers[] = {"none", "nesterov", NULL};
static const char *const insides[] = {"none", "allreduce", NULL};
static const char *const missings[] = {"assume", "refuse", NULL};
static const char *const scales[] = {"auto", "no", NULL};
static const char *const shares[] = {"equal", "speed", NULL};
static const char *const processes[] = {"auto", "no", "yes", NULL};
static const char *const arithmetics[] = {"auto", "fp32", "tf32", "fp16", "bf16", "fp8", NULL};
static const char *const places[] = {"apart", "colocated", NULL};
static const char *const copyings[] = {"at_once", "in_turn", NULL};
static const char *const partials[] = {"yes", "no", NULL};
static const char *const stops[] = {"trainer", "generators", "both", NULL};
const char *const dl_recompute_names[] = {"auto", "none", "selective", "full", "products", NULL};
static const char *const optimizers[] = {"auto", "sgd", "momentum", "adam", NULL};

#define OPTION(number, key, l, h, text, value, whole, words) \
    {"sync",                                                 \
     key,                                                    \
     .type = (whole) ? DL_KEY_INT : DL_KEY_REAL,             \
     .owner = DL_OF_NOBODY,                                  \
     .low = l,                                               \
     .high = h,                                              \
     .fallback = text,                                       \
     .group = DL_TAKE_OPTION(number),                        \
     .sweep = '.',                                           \
     .help = words},

/* clang-format off */
static const dl_key rows[] = {
    {"scenario", "name", OWN, .form = "text", .help = "as results call it; default: the file"},
    {"scenario", "steps", WHOLE64(1, DL_STEPS_MAX), .fallback = "200", SCENARIO(steps),
     .sweep = ',',
     .help = "of a worker; rounded up to whole intervals. With [generators] updates, 60 by default"},
    {"scenario", "warmup", WHOLE64(0, DL_STEPS_MAX), .fallback = "0", SCENARIO(warmup),
     .sweep = ',',
     .help = "steps of the fastest worker that are not counted, before those that are; with any, "
             "steps is not rounded up. With [generators] 10 by default"},
    {"scenario", "seed", WHOLE64(0, 9e18), .fallback = "1", SCENARIO(seed), .sweep = ',',
     .help = "of all random numbers"},
    {"scenario", "replicates", WHOLE64(1, REPLICATES_MAX), .fallback = "1", SCENARIO(replicates),
     .sweep = ',', .help = "runs of each point, with costs drawn from their standard errors"},

    {"scenario", "per_worker", FLAG, .fallback = "no", SCENARIO(per_worker),
     .help = "results also have a number for each worker: mean step and staleness"},

    {"machine", "cores", OWN, .form = "whole number from 1 on, workers, measured",
     .group = DL_TAKE_CORES, .sweep = '.',
     .help = "that the workers share; required without file. workers: one each; measured: as many "
             "as the cost file says"},
    {"machine", "workers", OWN, .form = "whole number from 1 on, or all", .low = 1,
     .high = DL_WORKERS_MAX, .sweep = '.',
     .help = "required without placement, layout and [pipeline] gpus. all: every GPU of the machine "
             "file"},
    {"machine", "processes", CHOICE(processes), .fallback = "auto", SCENARIO(processes),
     .group = DL_TAKE_CORES, .sweep = ',',
     .help = "workers on cores are processes, which exchange by the cost file's [collective ...]s, "
             "not threads with one memory; auto: if it has an allreduce, or is of a program other "
             "than dlprof train"},
    {"machine", "file", OWN, .form = "file", .sweep = ',', .column = "machine",
     .help = "machine file: workers are its GPUs"},
    {"machine", "nodes", WHOLE(1, DL_WORKERS_MAX), .owner = DL_OF_NOBODY, .group = DL_TAKE_GPUS,
     .sweep = ',', .help = "of the machine, in place of the machine file's"},
    {"machine", "price_usd_per_hour", .type = DL_KEY_QUANTITY, .dimension = DL_DIMENSION_PURE,
     .high = 1e5, GPU(price_usd_per_hour),
     .help = "of a node, in place of the machine file's"},
    {"machine", "port_bytes_per_s", RATE, GPU(port_bytes_per_s), .sweep = ',',
     .help = "of each NIC to the network, each direction, in place of the machine file's"},
    {"machine", "site_bytes_per_s", RATE, GPU(site_bytes_per_s), .sweep = ',',
     .help = "of each way between sites that the machine file limits, in place of its rates"},
    DL_FABRIC_ROWS(FABRIC, ','),
    {"machine", "gpus", OWN, .form = "list of numbers", .group = DL_TAKE_GPUS, .sweep = '|',
     .help = "GPUs of workers 0, 1, ..., ascending, counted over all nodes; more workers share "
             "them in turn, by [sharing] of the costs. Default: worker w has GPU w"},
    {"machine", "placement", OWN, .form = "digits", .group = DL_TAKE_GPUS, .sweep = ',',
     .help = "in place of gpus and workers: workers of each node (431: 4, 3, 1)"},
    {"machine", "layout", OWN, .form = "AXIS=SIZE, ...", .group = DL_TAKE_GPUS, .sweep = '|',
     .help = "GPUs of a worker, which hold one replica of the model: tp=COUNT that divide each layer, "
             "pp=COUNT stages of its layers, fsdp=COUNT ranks that share parameters, gradients and "
             "optimizer state; the first axis is of neighbours. dp=COUNT, last: the workers. "
             "Default: each worker is one GPU"},
    {"machine", "dispatch", CHOICE(dl_dispatch_names), .fallback = "per_gpu", GPU(dispatch),
     .sweep = ',', .help = "host threads that issue the steps: one for all GPUs, or one each"},
    {"machine", "ahead", WHOLE(0, DL_STEPS_MAX), .fallback = "1", GPU(ahead), .sweep = ',',
     .help = "steps that the host may be ahead of the GPUs"},
    {"machine", "reads", EITHER(reads), .fallback = "nothing", GPU(reads_forward), .sweep = ',',
     .help = "of a step, before the host launches the next one; forward: what the forward passes "
             "of its GPUs made (a loss or a metric), while the backward passes run (MXNet)"},
    {"machine", "pageable", FLAG, .fallback = "no", GPU(pageable), .sweep = ',',
     .help = "host memory of copies is not pinned"},

    {"exchange", "shards", OWN, .form = "whole number from 1 to 64, workers or nodes",
     .low = 1, .high = DL_SHARDS_MAX, .fallback = "1", USED(SERVER), .sweep = ',',
     .help = "shards of the server; workers, nodes: one for each of them (nodes that have "
             "workers), at most 64"},
    {"exchange", "algorithm", OWN, .choices = algorithms, .fallback = "auto", USED(COLLECTIVES),
     .sweep = ',', .help = "of collectives"},
    {"exchange", "nccl", CHOICE(dl_nccl_versions), OF_GPU(machine.nccl), USED(COLLECTIVES),
     .sweep = ',',
     .help = "version of NCCL, in place of the machine file's"},
#include "sim/platform/exchange_keys.h"
    {"exchange", "compress", CHOICE(dl_compress_names), .fallback = "none",
     SCENARIO(compression.kind), .sweep = ',',
     .help = "of what is pushed or reduced; on cores in modes that push to a server"},
    {"exchange", "topk_frac", .type = DL_KEY_REAL, .low = 1e-9, .high = 1,
     SCENARIO(compression.kept_frac), .sweep = ',', .only = "compress = topk",
     .help = "of the parameters; required there"},

    {"input", "cores", WHOLE(1, DL_WORKERS_MAX), .fallback = "1", GPU(input_cores), .sweep = ',',
     .column = "input_cores", .limits = DL_LIMITS_INPUT_CORES,
     .help = "of each node that make batches, if the cost file has [op input]"},
    {"input", "loaders", WHOLE(0, DL_LOADERS_MAX), .fallback = "0", SCENARIO(input.loaders),
     .group = DL_TAKE_CORES, .sweep = ',', .limits = DL_LIMITS_LOADERS,
     .help = "processes of each worker that make its batches ([op input]) beside training, on the "
             "same cores, in turn (num_workers of PyTorch's DataLoader); 0: it makes them itself"},
    {"input", "prefetch", WHOLE(0, DL_PREFETCH_MAX), .fallback = "1", SCENARIO(input.prefetch),
     .sweep = ',', .limits = DL_LIMITS_PREFETCH,
     .help = "batches of a worker made ahead. Default on cores: 2 for each of its loaders"},
    {"input", "made", EITHER(makings), .fallback = "ahead", GPU(made_at_launch), .sweep = ',',
     .help = "when a batch is made: as prefetch says, or in host memory when the host launches its "
             "step, to be copied when the GPU comes to that step"},
    {"input", "noise", EITHER(input_noises), .fallback = "none", GPU(input_varies), .sweep = ',',
     .help = "of the time to make a batch"},
    {"input", "storage_bytes_per_s", RATE, SCENARIO(input.storage_bytes_per_s), .sweep = ',',
     .limits = DL_LIMITS_STORAGE,
     .help = "that a node reads of its storage, all workers together: [input] "
             "stored_bytes_per_sample of the cost file, before a batch is made. Default: no limit. "
             "Not where models are split"},
    {"input", "shared_storage_bytes_per_s", RATE,
     GPU(shared_storage_bytes_per_s), .sweep = ',', .limits = DL_LIMITS_SHARED_STORAGE,
     .help = "that all nodes together read of a file server, as by NFS, in place of or beside each "
             "node's storage_bytes_per_s. What it takes of the network is not simulated"},
    {"input", "storage_ahead_bytes", BYTES(0),
     .fallback = "0", SCENARIO(input.storage_ahead_bytes), .group = DL_TAKE_CORES, .sweep = ',',
     .help = "that storage reads on while nothing is asked of it, then there at once: what the "
             "operating system reads ahead, or what a disk with a limited rate lets through after "
             "a pause (its burst)"},
    {"input", "cached_frac", .type = DL_KEY_REAL, .low = 0, .high = 1, .fallback = "0",
     SCENARIO(input.cached_frac), .sweep = ',',
     .help = "of the samples that are in the host's memory and need not be read"},

    {"pipeline", "stages", WHOLE(1, DL_STAGES_MAX), .fallback = "1", PIPELINE(stages),
     .sweep = ',',
     .help = "GPUs that the model's layers are split over; 1: not split. As pp in [machine] layout"},
    {"pipeline", "micro_batches", WHOLE(1, DL_MICRO_BATCHES_MAX), .fallback = "1",
     PIPELINE(micro_batches), .sweep = ',',
     .help = "of a worker's batch; 1: one stage works at a time. With stages = 1 as [sync] "
             "accumulate"},
    {"pipeline", "micro_batch", WHOLE(0, INT32_MAX), .fallback = "0", PIPELINE(micro_batch),
     .sweep = ',',
     .help = "samples of a rank's micro-batch, in place of micro_batches, which are then as many as "
             "the batch has; 0: as micro_batches says"},
    {"pipeline", "schedule", CHOICE(dl_schedule_names), .fallback = "gpipe", PIPELINE(schedule),
     .sweep = ',', .only = "stages > 1",
     .help = "order of a stage's micro-batches; without a flush at the step's end: pipedream (with "
             "micro_batches = 1), 2bw (with as many as stages, or more)"},
    {"pipeline", "chunks", WHOLE(1, DL_STAGE_CHUNKS_MAX), .fallback = "1", PIPELINE(chunks),
     .sweep = ',', .only = "stages > 1",
     .help = "runs of layers of each stage, with schedule = interleaved: virtual stages"},
    {"pipeline", "split", OWN, .form = "balanced, or names of layers", .fallback = "balanced",
     .group = DL_TAKE_GPUS, .sweep = '|', .only = "stages > 1",
     .help = "first layers of stages 1, 2, ...; balanced: by compute time"},
    {"pipeline", "cut_bytes_per_sample", OWN, .form = "one number, or one for each cut",
     .dimension = DL_DIMENSION_BYTES, .low = 0, .high = 1e15, .group = DL_TAKE_GPUS, .sweep = '|',
     .only = "stages > 1", .help = "that cross each cut; default: of the cost file"},
    {"pipeline", "gpus", WHOLE(1, DL_WORKERS_MAX), .owner = DL_OF_NOBODY, .group = DL_TAKE_GPUS,
     .sweep = '.',
     .help = "of all workers, in place of [machine] workers; those that stages do not divide are "
             "left out"},

    {"workload", "costs", OWN, .form = "file", .sweep = ',',
     .help = "cost file; this, model or samples_per_s is required"},
    {"workload", "gpu_costs", OWN, .form = "GPU:FILE, ...", .group = DL_TAKE_GPUS, .sweep = '|',
     .help = "cost files for some of the machine's GPU models, by name; only their operations and "
             "memory are used. Default: costs, scaled by data-sheet rates"},
    {"workload", "model", OWN, .form = "NAME or NAME:KEY=VALUE,...", .group = DL_TAKE_GPUS,
     .sweep = '|',
     .help = "in place of costs: a network that dlsim --workloads lists, whose times are estimated "
             "from its operations and the GPU's data sheet"},
    {"workload", "arithmetic", CHOICE(arithmetics), .fallback = "auto", SCENARIO(arithmetic),
     .sweep = ',', .only = "model", .elsewhere = dl_arithmetic_words,
     .help = "of its products; fp16, bf16: of its activations too, as under PyTorch's autocast; "
             "fp8: of the products of linear layers in a transformer's blocks, all else in bf16 "
             "(Transformer Engine); auto: bf16 for transformers, tf32 for convolutions where all "
             "GPUs have it (tf32: of NVIDIA), else fp32. Parameters, gradients and what is "
             "exchanged are fp32 in all"},
    {"workload", "optimizer", CHOICE(optimizers), .fallback = "auto", SCENARIO(optimizer),
     .sweep = ',', .only = "model", .help = "auto: momentum for images, adam for transformers"},
    {"workload", "recompute", CHOICE(dl_recompute_names), .fallback = "auto", SCENARIO(recompute),
     .sweep = ',', .only = "model",
     .help = "activations of a transformer that are computed again in the backward pass: none; "
             "selective, the core of attention; full, all but the inputs of blocks; auto: as the "
             "model's own key recompute says, none without it"},
    {"workload", "samples_per_s", .type = DL_KEY_REAL, .low = 1e-6, .high = 1e9,
     SCENARIO(samples_per_s), .sweep = ',',
     .help = "throughput of one worker, in place of a cost file: a third of its step is taken to "
             "be forward, two thirds backward, and everything else is assumed"},
    {"workload", "device", .type = DL_KEY_TEXT, SCENARIO(device), .form = "text",
     .only = "samples_per_s",
     .help = "GPU that it was measured on; default: the machine's"},
    {"workload", "batch", WHOLE(1, BATCH_MAX), .owner = DL_OF_NOBODY, .sweep = '.',
     .help = "all workers together; this or batch_per_worker is required"},
    {"workload", "batch_per_worker", WHOLE(1, BATCH_MAX), .owner = DL_OF_NOBODY, .sweep = '.',
     .help = "for weak scaling"},
    {"workload", "shares", CHOICE(shares), .fallback = "equal", SCENARIO(shares),
     .group = DL_TAKE_GPUS, .sweep = ',',
     .help = "how GPUs of several models divide a batch: the same number of samples each, or so "
             "that all compute for the same time"},
    {"workload", "samples_per_epoch", WHOLE64(1, 1e18), SCENARIO(samples_per_epoch), .sweep = ',',
     .help = "for the time and, on GPUs, the price of an epoch"},
    {"workload", "parameter_bytes", WHOLE64(1, 1e15), .dimension = DL_DIMENSION_BYTES,
     SCENARIO(parameter_bytes), .sweep = ',', .help = "of the model, in place of the cost file's"},
    {"workload", "calibrate", OWN, .form = "STEP, STEP@WORKERS, STEP@WORKERSxSAMPLES or FACTOR",
     .sweep = ',',
     .help = "a measured step, as 212ms@8x32 of 8 workers with 32 samples each: all compute times "
             "one factor, so that this step is predicted; default workers: the fewest of the "
             "scenario. A number without unit is the factor. Of several variants the first was "
             "measured"},
    {"workload", "trace", OWN, .form = "file", .group = DL_TAKE_GPUS, .only = "costs",
     .help = "a recorded step, of dlcal replay --step: workers run its launches, gaps and streams, "
             "in place of the costs' times; batch_per_worker is the recorded one"},
    {"workload", "missing", CHOICE(missings), .fallback = "assume", SCENARIO(missing),
     .help = "costs that a run needs and the cost file does not give: assume a default, which the "
             "results name with its interval and source, or refuse to run"},
    {"workload", "scale", CHOICE(scales), .fallback = "auto", SCENARIO(scale),
     .group = DL_TAKE_GPUS, .sweep = ',',
     .help = "compute of another GPU than the machine's: auto scales it by data-sheet rates where "
             "the costs' device is known, or as scale_compute says; no leaves it"},
    {"workload", "scale_compute", OWN, .form = "file", .group = DL_TAKE_GPUS, .sweep = ',',
     .help = "the costs are of a GPU of this machine file: scale them to the machine's"},
    {"workload", "scale_arithmetic", CHOICE(dl_arithmetic_names), .fallback = "fp32",
     SCENARIO(scale_arithmetic), .sweep = ',', .only = "scale_compute", .help = "by these rates"},

    {"sync", "mode", OWN, .choices = dl_mode_names, .fallback = "none", .sweep = '.',
     .limits = DL_LIMITS_MODE, .help = "how the workers exchange"},
    DL_SYNC_SWEPT_ROWS(OPTION)
    {"sync", "average_state", FLAG, .fallback = "no", SCENARIO(average_state),
     .group = DL_TAKE_OPTION(DL_SYNC_AVERAGE_STATE), .sweep = ',',
     .help = "the optimizer's state too"},
    {"sync", "outer", CHOICE(outers), .fallback = "none", SCENARIO(outer),
     .group = DL_TAKE_OPTION(DL_SYNC_OUTER), .sweep = ',',
     .help = "nesterov: an outer optimizer, whose gradient is the parameters of the last average "
             "minus the new average (DiLoCo); the workers' own optimizers keep their state"},
    {"sync", "inside", CHOICE(insides), .fallback = "none", SCENARIO(inside),
     .group = DL_TAKE_OPTION(DL_SYNC_INSIDE), .sweep = ',',
     .help = "allreduce: the workers of a site of the machine file, or of a node where it has "
             "none, average their gradients in each step; workers on GPUs only"},
    {"sync", "fragments", WHOLE(1, DL_WORKERS_MAX), .fallback = "1", SCENARIO(fragments),
     .group = DL_TAKE_OPTION(DL_SYNC_FRAGMENTS), .sweep = ',',
     .help = "of the parameters: each is averaged every interval steps, one after another "
             "(Streaming DiLoCo); at most interval"},
    {"sync", "server_threads", WHOLE(1, DL_WORKERS_MAX), .fallback = "1", SCENARIO(server_threads),
     .group = DL_TAKE_OPTION(DL_SYNC_SERVER_THREADS), .sweep = ',', .limits = DL_LIMITS_SERVER,
     .help = "of each shard; on cores at most all workers of a point"},
    {"sync", "where", OWN, .form = "auto, cpu, gpu:K, allreduce", .fallback = "auto",
     .group = DL_TAKE_OPTION(DL_SYNC_WHERE), .sweep = ',', .limits = DL_LIMITS_PLACE,
     .help = "of the server; on GPUs also gpu:K (K over all nodes) and, for averages, allreduce; "
             "auto: average and bmuf by allreduce where no workers share a GPU, server_threads and "
             "[exchange] shards are not given, and the costs have no [average] of host memory; else "
             "cpu"},
    {"sync", "interval_by_speed", FLAG, .fallback = "no", SCENARIO(interval_by_speed),
     .group = DL_TAKE_OPTION(DL_SYNC_BY_SPEED), .sweep = ',',
     .help = "the fastest worker does interval local steps, every other one as many as it can in "
             "the same time (dynamic local updates)"},

    {"syncer", "quorum", SYNCER(quorum), WHOLE(1, DL_WORKERS_MAX), .fallback = "1",
     .help = "uploads that a merge needs; at most the number of workers"},
    {"syncer", "quorum_max", SYNCER(quorum_max), WHOLE(1, DL_WORKERS_MAX),
     .help = "most uploads in one merge; default: the number of workers"},
    {"syncer", "grace_s", SYNCER(grace_s), .type = DL_KEY_REAL, .low = 0, .high = SECONDS_MAX,
     .fallback = "0", .help = "seconds to wait for more uploads once there is a quorum"},
    {"syncer", "grace", SYNCER(adaptive), CHOICE(dl_grace_names), .fallback = "fixed",
     .help = "fixed: all of grace_s; adaptive: only until a learner of the quorum is expected to "
             "upload again"},
    {"syncer", "scan_s", SYNCER(scan_s), .type = DL_KEY_REAL, .low = 0, .high = SECONDS_MAX,
     .fallback = "0", .help = "seconds between scans for uploads; 0: each is seen at once"},
    {"syncer", "weight_power", SYNCER(weight_power), .type = DL_KEY_REAL, .low = 0, .high = 100,
     .fallback = "0",
     .help = "a merge weights an upload that is s versions stale by (1 + s)^-weight_power; 0: all "
             "alike"},
    {"syncer", "merge_s", SYNCER(merge_s), .type = DL_KEY_REAL, .low = 1e-9, .high = SECONDS_MAX,
     .help = "seconds to read, merge and publish, on a machine of its own; default: an [update] of "
             "the cost file, on cores the work of a thread beside the workers"},
    {"syncer", "adopt", SYNCER(adopt), CHOICE(dl_adopt_names), .fallback = "next",
     .help = "when a learner takes a new version: next: after an upload; replace: after a local step "
             "too, losing those since the upload; rebase: as replace, but adding what it learned "
             "since the upload; predict: as rebase, and it uploads only then"},
    {"syncer", "end", SYNCER(each_ends), CHOICE(dl_end_names), .fallback = "first",
     .help = "first: the run ends when the fastest learner has done its steps; each: every learner "
             "does its steps, and after one more grace time what is eligible is merged"},
    {"syncer", "wait_s", SYNCER(wait_s), .type = DL_KEY_REAL, .low = 0, .high = SECONDS_MAX,
     .fallback = "0", .help = "longest wait of a learner for a new version after an upload, in "
                              "seconds"},

    {"failures", "away", OWN, .form = "worker:from-to, ...", .low = 0, .high = SECONDS_MAX,
     .group = DL_TAKE_OPTION(DL_SYNC_AWAY), .sweep = '|',
     .help = "seconds in which a worker is absent (it fails, leaves or joins late) while the "
             "others go on, as 3:100-160; 5:200-: it does not return. average: not with inside, "
             "which takes worker_mtbf_s of whole sites"},
    {"failures", "worker_mtbf_s", ABSENCES(mtbf_s), .type = DL_KEY_REAL, .low = 1e-3, .high = 1e12,
     .help = "in place of away: mean time in seconds from a worker's start or return to its next "
             "failure, drawn from an exponential distribution; the others go on"},
    {"failures", "worker_away_s", ABSENCES(away_s), .type = DL_KEY_REAL, .low = 1e-3,
     .high = SECONDS_MAX,
     .help = "seconds from such a failure until the worker is back; required with worker_mtbf_s"},
    {"failures", "together", ABSENCES(together), CHOICE(dl_together_names), .fallback = "worker",
     .help = "what fails at once, and what worker_mtbf_s and worker_away_s are of: a worker, or "
             "all workers of a site (node, where the machine has no sites)"},
    {"failures", "mtbf_s", FAILURES(mtbf_s), .type = DL_KEY_REAL, .low = 1e-3, .high = 1e12,
     .help = "mean time in seconds between failures of one worker, each of which stops all: the "
             "results have the expected goodput, and the best checkpoint_steps"},
    {"failures", "node_mtbf_s", FAILURES(node_mtbf_s), .type = DL_KEY_REAL, .low = 1e-3,
     .high = 1e12,
     .help = "the same of one node, which stops all too (a node that fails once a day: 86400); "
             "beside mtbf_s both fail"},
    {"failures", "at_s", OWN, .form = "list of seconds", .low = 0, .high = 1e12, .sweep = '|',
     .help = "in place of mtbf_s: times of the failures of one job, from its start"},
    {"failures", "restart_s", FAILURES(restart_s), .type = DL_KEY_REAL, .low = 0,
     .high = SECONDS_MAX, .fallback = "0",
     .help = "seconds from a failure until the job resumes from its last checkpoint"},
    {"failures", "checkpoint_steps", FAILURES(checkpoint_steps), WHOLE64(1, 1e12),
     .help = "steps between checkpoints; default: no checkpoints, the job starts over"},
    {"failures", "checkpoint_s", FAILURES(checkpoint_s), .type = DL_KEY_REAL, .low = 0,
     .high = SECONDS_MAX, .fallback = "0", .help = "seconds for which a checkpoint stops the job"},
    {"failures", "job_steps", FAILURES(steps), WHOLE64(1, 1e12),
     .help = "steps of the job; default: [scenario] steps"},

    {"target", "samples", WHOLE64(1, 1e18), SCENARIO(target.samples), .sweep = ',',
     .help = "of the training until its target, in synchronous steps of this batch: results have time "
             "and price of it, and the best row is the first there"},
    {"target", "factor", OWN, .form = "WHERE:FACTOR, ...", .low = DL_TARGET_FACTOR_MIN,
     .high = DL_TARGET_FACTOR_MAX, .sweep = '|', .only = "samples",
     .help = "on these samples, WHERE is interval NUMBER, staleness NUMBER or a mode; a mode's takes "
             "the place of the others. Between numbers it is interpolated (over the logarithm of "
             "the interval); beyond the largest one a row has no time to the target"},

    {"noise", "kind", CHOICE(dl_noise_names), .fallback = "none", SCENARIO(noise), .sweep = ',',
     .column = "noise", .limits = DL_LIMITS_NOISE,
     .help = "how steps vary; trace: as profiled; work: only as the costs' [work] or [spread] "
             "work_frac says; none: nothing is drawn, work counts as expected"},
    {"noise", "sigma", .type = DL_KEY_REAL, .low = 1e-6, .high = 100, SCENARIO(sigma), .sweep = ',',
     .only = "kind = lognormal, gamma", .help = "coefficient of variation; required there"},
    {"noise", "slow", OWN, .form = "worker:factor, ...", .low = 1e-6, .high = 1e6, .sweep = '|',
     .help = "factors on forward and backward"},

    {"generators", "gpus", GENERATORS(gpus), WHOLE(1, DL_WORKERS_MAX), .column = "gpus_of_both",
     .help = "of trainer and generators together; default: all of the machine file"},
    {"generators", "generator_gpus", GENERATORS(generator_gpus), WHOLE(1, DL_WORKERS_MAX),
     .help = "of them, those that generate; the others train. Default: half"},
    {"generators", "replica_gpus", GENERATORS(replica_gpus), WHOLE(1, DL_WORKERS_MAX),
     .fallback = "1", .help = "GPUs of a replica of the generator"},
    {"generators", "place", GENERATORS(colocated), EITHER(places), .fallback = "apart",
     .help = "apart: trainer and generators each have their GPUs; colocated: they take turns on all of them, "
             "on policy"},
    {"generators", "prompts", GENERATORS(prompts), WHOLE(1, 10000000), .required = true,
     .help = "groups of answers that an update takes"},
    {"generators", "answers", GENERATORS(answers), WHOLE(1, 100000), .fallback = "8",
     .help = "to a prompt, which count together: a group"},
    {"generators", "copy_every", GENERATORS(copy_every), WHOLE(1, 1000000), .fallback = "1",
     .help = "updates from one copy of the weights to the next"},
    {"generators", "rule", GENERATORS(rule), CHOICE(dl_rule_names), .fallback = "ahead",
     .help = "which groups may begin. ahead: begun, less discarded, < (updates + bound + 1) x "
             "prompts; installed: the same, counted from the update copied last; window: begun since "
             "the last copy, and outstanding at it, < (1 + bound) x copy_every x prompts; workers: "
             "in_flight groups at a time"},
    {"generators", "bound", GENERATORS(bound), REAL(0, 1e6), .fallback = "1",
     .column = "staleness_bound",
     .help = "on staleness, in updates (in windows for rule = window)"},
    {"generators", "in_flight", GENERATORS(in_flight), WHOLE64(1, 1e9),
     .help = "groups at most, of all replicas; default: no limit but the rule's"},
    {"generators", "in_flight_of_replica", GENERATORS(in_flight_of_replica), WHOLE64(1, 1e9),
     .help = "groups at most, times the replicas (verl: 16)"},
    {"generators", "buffer", GENERATORS(buffer), WHOLE64(1, 1e9), .only = "rule = workers",
     .help = "complete groups with which no more begin; default: no limit"},
    {"generators", "age_max", GENERATORS(age_max), REAL(0, 1e6),
     .help = "groups older than this, in updates, are discarded when the trainer looks for a batch; "
             "default: none is, and the rule makes generators wait"},
    {"generators", "requeue", GENERATORS(requeue), FLAG, .fallback = "no",
     .help = "prompts of discarded groups are answered again, before new ones"},
    {"generators", "order", GENERATORS(taking), CHOICE(dl_taking_names), .fallback = "completion",
     .help = "of the groups that the trainer takes: as they were completed; oldest: of those that are complete, "
             "as they were begun; in_order: as they were begun, and it waits for those that are not complete"},
    {"generators", "length_mean", GENERATORS(length_mean), REAL(1, 1e9),
     .help = "tokens of an answer, cut off at length_cap; this or lengths is required"},
    {"generators", "length_cv", GENERATORS(length_cv), REAL(0, 10), .fallback = "0.8",
     .help = "standard deviation over mean, before the cap; log-normal"},
    {"generators", "length_cap", GENERATORS(length_cap), REAL(1, 1e9),
     .help = "most tokens of an answer; default: no cap"},
    {"generators", "group_share", GENERATORS(group_share), REAL(0, 1), .fallback = "0.5",
     .help = "of the variance of the logarithm of lengths, what answers to one prompt have in "
             "common"},
    {"generators", "lengths", .type = DL_KEY_OWN, .owner = DL_OF_NOBODY, .form = "file", .sweep = ',',
     .help = "CSV file with a column tokens: lengths that groups take in turn, in place of "
             "length_mean"},
    {"generators", "growth", GENERATORS(growth), REAL(-1, 100), .fallback = "0",
     .help = "of the mean length in 100 updates, as a fraction of the first"},
    {"generators", "prompt_tokens", GENERATORS(prompt_tokens), REAL(0, 1e9), .fallback = "100",
     .help = "of a prompt, which the trainer computes with each answer"},
    {"generators", "token_s", GENERATORS(token_s), REAL(1e-12, 1e6),
     .help = "a of a replica's curve: with c requests in flight each gets 1 / (a + b c) tokens a "
             "second. What reading the weights, and latency, take. Default: [generator] of the cost "
             "file, else estimated for [workload] model on the machine's GPU"},
    {"generators", "request_token_s", GENERATORS(request_token_s), REAL(0, 1e6), .fallback = "0",
     .help = "b of that: what a request's own cache and arithmetic take"},
    {"generators", "rates", .type = DL_KEY_OWN, .owner = DL_OF_NOBODY,
     .form = "REQUESTS:TOKENS, ...", .sweep = '|',
     .help = "in place of token_s: tokens a second of a replica by its requests in flight"},
    {"generators", "requests_max", GENERATORS(requests_max), WHOLE(1, 10000000),
     .help = "requests in flight on a replica at most, by the memory of its cache; others wait. Default: 256, "
             "fewer where the memory of a model's GPUs holds fewer"},
    {"generators", "train_fixed_s", GENERATORS(train_fixed_s), REAL(0, 1e9), .fallback = "0",
     .help = "seconds of an update, whatever its tokens and GPUs"},
    {"generators", "train_token_gpu_s", GENERATORS(train_token_gpu_s), REAL(0, 1e6),
     .help = "GPU seconds of an update for each of its tokens, which the trainer's GPUs share. Default: "
             "[trainer] of the cost file, else the scenario's own step is simulated"},
    {"generators", "on_policy_s", GENERATORS(on_policy_s), REAL(1e-9, 1e9),
     .help = "measured seconds of an update on policy, in place of the trainer's keys: what generation leaves "
             "of it is the trainer's"},
    {"generators", "on_policy_generation_frac", GENERATORS(on_policy_generation_frac), REAL(0.001, 0.999),
     .help = "of that update, less switch_s, generation, to which a replica's curve is scaled. Default: as the "
             "curve has it"},
    {"generators", "on_policy_gpus", GENERATORS(on_policy_gpus), WHOLE(1, 10000000),
     .help = "of that update. Default: gpus"},
    {"generators", "on_policy_length", GENERATORS(on_policy_length), REAL(1, 1e9),
     .help = "tokens of an answer in that update. Default: length_mean"},
    {"generators", "train_fixed_frac", GENERATORS(train_fixed_frac), REAL(0, 1),
     .help = "of the trainer's part of on_policy_s, what more GPUs do not make shorter. Default: 0.5, with "
             "0.25 to 1 as its interval"},
    {"generators", "log_probs", GENERATORS(log_probs), CHOICE(dl_log_probs_names),
     .fallback = "never",
     .help = "when the trainer computes log-probabilities again"},
    {"generators", "log_prob_frac", GENERATORS(log_prob_frac), REAL(0, 100), .fallback = "0.3333",
     .help = "what that adds to a token of an update: a forward pass is a third of it"},
    {"generators", "copy_s", GENERATORS(copy_s), REAL(0, 1e9), .fallback = "0",
     .help = "seconds of a copy of the weights, in which the trainer does nothing else"},
    {"generators", "pause_s", GENERATORS(pause_s), REAL(0, 1e9),
     .help = "for which a replica stands still, at the end of its copy. Default: copy_s, 0 with copies = "
             "in_turn"},
    {"generators", "copies", GENERATORS(in_turn), EITHER(copyings), .fallback = "at_once",
     .help = "to all replicas together, or to one after another in equal parts of copy_s"},
    {"generators", "partial", GENERATORS(drains), EITHER(partials), .fallback = "yes",
     .help = "partial rollouts: answers in flight go on with the new weights; no: they end before the "
             "copy"},
    {"generators", "prefill_token_s", GENERATORS(prefill_token_s), REAL(0, 1e6), .fallback = "0",
     .help = "for which a replica stands still after a copy, for each token of what it has in "
             "flight, whose cache it makes again"},
    {"generators", "switch_s", GENERATORS(switch_s), REAL(0, 1e9), .fallback = "0",
     .help = "for both changes of sides of a colocated step: waking, resharding"},
    {"generators", "tool_s", GENERATORS(tool_s), REAL(0, 1e9), .fallback = "0",
     .help = "mean wait of a group for tools or rewards, after its answers, on no replica"},
    {"generators", "tool_cv", GENERATORS(tool_cv), REAL(0, 10), .fallback = "1",
     .help = "its standard deviation over mean; log-normal; 0: all alike"},
    {"generators", "validation_s", GENERATORS(validation_s), REAL(0, 1e9), .fallback = "0",
     .help = "seconds of a validation"},
    {"generators", "validation_every", GENERATORS(validation_every), WHOLE64(1, 1e9),
     .help = "updates; default: there is none"},
    {"generators", "validation_stops", GENERATORS(validation_stops), CHOICE(stops),
     .fallback = "both", .help = "who waits for it"},
    {"generators", "micro_batch", GENERATORS(micro_batch), WHOLE(1, 100000), .fallback = "1",
     .help = "samples of a worker's pass, where the trainer is the scenario's own step: packed "
             "sequences of the model's length"},
    {"generators", "usd_per_gpu_hour", GENERATORS(usd_per_gpu_hour), REAL(0, 1e6),
     .help = "price of one of gpus. Default: by [machine] price_usd_per_hour"},

    {"measured", "file", OWN, .form = "file", .help = "measured rows to compare with"},
};
/* clang-format on */
const dl_keys dl_scenario_keys = {rows, sizeof rows / sizeof *rows, dl_scenario_words};
_Static_assert(sizeof rows / sizeof *rows <= DL_SCENARIO_KEYS_MAX,
               "more keys than given[] has room for");

int dl_key_option(const dl_key *key)
{
    return (int)(key->group >> 8) - 1;
}

const dl_key *dl_option_key(int option)
{
    size_t i = 0;
    while (dl_key_option(&rows[i]) != option)
        i++;
    return &rows[i];
}

void dl_scenario_key_takes(const dl_key *key, char *text, size_t bytes)
{
    const int option = dl_key_option(key);
    const unsigned platforms = key->group & (DL_TAKE_CORES | DL_TAKE_GPUS);
    size_t used = (size_t)snprintf(text, bytes, "%s",
                                   platforms == DL_TAKE_CORES  ? "workers on cores"
                                   : platforms == DL_TAKE_GPUS ? "workers on GPUs"
                                                               : "");
    if (option < 0 || DL_SYNC_ANY & 1u << option) return;
    used += (size_t)snprintf(text + used, bytes - used, "modes");
    for (int m = 0; m < DL_MODES && used < bytes; m++) {
        if (!dl_mode_takes(dl_modes[m], option)) continue;
        used += (size_t)snprintf(text + used, bytes - used, " %s", dl_mode_names[m]);
    }
}

dl_status dl_keys_reference(FILE *out, const char *section, bool markdown, dl_error *err)
{
    const struct {
        const char *title;
        const dl_keys *keys;
        dl_key_takes_fn takes;
    } files[] = {
        {"Scenario", &dl_scenario_keys, dl_scenario_key_takes},
        {"Machine file", &dl_machine_keys, NULL},
        {"Cost file", &dl_cost_keys, NULL},
    };
    bool found = false;
    if (markdown) {
        fputs(
            "# Keys of all files\n\nMade by `dlsim --keys --markdown`. Numbers take the units that "
            "are named; without one they are in\nthe first. Values outside of the range are "
            "refused.\n",
            out);
    }
    for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
        char *text = NULL;
        size_t bytes = 0;
        FILE *of_file = dl_text_stream(&text, &bytes);
        const bool has =
            dl_keys_print(of_file, files[f].keys, section,
                          markdown ? DL_KEYS_MARKDOWN : DL_KEYS_TERMINAL, files[f].takes);
        fclose(of_file);
        if (has) fprintf(out, markdown ? "\n## %s\n%s" : "--- %s\n%s\n", files[f].title, text);
        free(text);
        found |= has;
    }
    if (found) return DL_OK;
    char hint[300];
    const char *names[DL_SCENARIO_KEYS_MAX];
    size_t count = 0;
    for (size_t i = 0; i < dl_scenario_keys.count; i++) {
        const char *name = dl_scenario_keys.rows[i].section;
        if (dl_names_find(name, names, count) < 0) names[count++] = name;
    }
    dl_names_hint(hint, sizeof hint, section, names, count);
    return dl_error_set(err, DL_ERR_USAGE, "no file has a section [%s]%s", section, hint);
}
