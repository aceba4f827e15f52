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
    {"scenario", "name", OWN, .form = "text", .help = "title of the results; default: the file's "
                                                      "name"},
    {"scenario", "steps", WHOLE64(1, DL_STEPS_MAX), .fallback = "200", SCENARIO(steps),
     .sweep = ',',
     .help = "of a worker, rounded up to whole intervals. With [generators]: updates, 60 by "
             "default. With a lag of averages, uncounted intervals come before them"},
    {"scenario", "warmup", WHOLE64(0, DL_STEPS_MAX), .fallback = "0", SCENARIO(warmup),
     .sweep = ',',
     .help = "first steps of the fastest worker, not counted; steps is then not rounded up. With "
             "[generators]: 10 by default"},
    {"scenario", "seed", WHOLE64(0, 9e18), .fallback = "1", SCENARIO(seed), .sweep = ',',
     .help = "of all random numbers"},
    {"scenario", "replicates", WHOLE64(1, REPLICATES_MAX), .fallback = "1", SCENARIO(replicates),
     .sweep = ',', .help = "runs of each point, for its 95 % interval"},

    {"scenario", "per_worker", FLAG, .fallback = "no", SCENARIO(per_worker),
     .help = "also write each worker's mean step and staleness"},

    {"machine", "cores", OWN, .form = "integer from 1, workers, measured",
     .group = DL_TAKE_CORES, .sweep = '.',
     .help = "required without file. workers: one each; measured: the cost file's"},
    {"machine", "workers", OWN, .form = "integer from 1, or all", .low = 1,
     .high = DL_WORKERS_MAX, .sweep = '.',
     .help = "required without placement, layout and [pipeline] gpus. all: the machine's GPUs"},
    {"machine", "processes", CHOICE(processes), .fallback = "auto", SCENARIO(processes),
     .group = DL_TAKE_CORES, .sweep = ',',
     .help = "workers are processes, which exchange by the cost file's [collective ...]s, not "
             "threads; auto: if it has an allreduce, or is not of dlprof train"},
    {"machine", "file", OWN, .form = "file", .sweep = ',', .column = "machine",
     .help = "machine file: workers are its GPUs"},
    {"machine", "nodes", WHOLE(1, DL_WORKERS_MAX), .owner = DL_OF_NOBODY, .group = DL_TAKE_GPUS,
     .sweep = ',', .help = "of the machine, in place of the machine file's"},
    {"machine", "price_usd_per_hour", .type = DL_KEY_QUANTITY, .dimension = DL_DIMENSION_PURE,
     .high = 1e5, GPU(price_usd_per_hour),
     .help = "of a node, in place of the machine file's"},
    {"machine", "port_bytes_per_s", RATE, GPU(port_bytes_per_s), .sweep = ',',
     .help = "of each NIC, each direction, in place of the machine file's"},
    {"machine", "site_bytes_per_s", RATE, GPU(site_bytes_per_s), .sweep = ',',
     .help = "between sites, each direction, in place of the machine file's rates"},
    DL_FABRIC_ROWS(FABRIC, ','),
    {"machine", "gpus", OWN, .form = "list of numbers", .group = DL_TAKE_GPUS, .sweep = '|',
     .help = "GPUs of workers 0, 1, ..., ascending, counted over all nodes; more workers share "
             "them in turn. Default: worker w has GPU w"},
    {"machine", "placement", OWN, .form = "digits", .group = DL_TAKE_GPUS, .sweep = ',',
     .help = "in place of gpus and workers: workers of each node (431: 4, 3, 1)"},
    {"machine", "layout", OWN, .form = "AXIS=SIZE, ...", .group = DL_TAKE_GPUS, .sweep = '|',
     .help = "GPUs of a worker (one replica), neighbours first: tp=COUNT divide each layer, "
             "cp=COUNT each sequence, pp=COUNT are stages of its layers, fsdp=COUNT share "
             "parameters, gradients and optimizer state; dp=COUNT, last: the workers. Default: one "
             "GPU"},
    {"machine", "dispatch", CHOICE(dl_dispatch_names), .fallback = "per_gpu", GPU(dispatch),
     .sweep = ',', .help = "host threads that launch the steps: one for all GPUs, or one each"},
    {"machine", "ahead", WHOLE(0, DL_STEPS_MAX), .fallback = "1", GPU(ahead), .sweep = ',',
     .help = "steps that the host may be ahead of the GPUs"},
    {"machine", "reads", CHOICE(dl_reads_names), .fallback = "nothing", GPU(reads), .sweep = ',',
     .help = "results that the host waits for. forward: one of the forward pass, as a loss, before "
             "it launches the next step; batch: one before each micro-batch (with stages each "
             "pass), as Megatron-LM does to read a batch's sizes"},
    {"machine", "pageable", FLAG, .fallback = "no", GPU(pageable), .sweep = ',',
     .help = "host memory of copies is not pinned"},

    {"exchange", "shards", OWN, .form = "integer from 1 to 64, workers or nodes",
     .low = 1, .high = DL_SHARDS_MAX, .fallback = "1", USED(SERVER), .sweep = ',',
     .help = "of the server; workers, nodes: one for each"},
    {"exchange", "algorithm", OWN, .choices = algorithms, .fallback = "auto", USED(COLLECTIVES),
     .sweep = ',', .help = "of collectives"},
    {"exchange", "nccl", CHOICE(dl_nccl_versions), OF_GPU(machine.nccl), USED(COLLECTIVES),
     .sweep = ',', .form = "default, 2.4 to 2.29",
     .help = "version of NCCL, in place of the machine file's"},
#include "sim/platform/exchange_keys.h"
    {"exchange", "compress", CHOICE(dl_compress_names), .fallback = "none",
     SCENARIO(compression.kind), .sweep = ',',
     .help = "of pushed or reduced messages; on cores only with a server"},
    {"exchange", "topk_frac", .type = DL_KEY_REAL, .low = 1e-9, .high = 1,
     SCENARIO(compression.kept_frac), .sweep = ',', .only = "compress = topk",
     .help = "of the parameters; required there"},

    {"input", "cores", WHOLE(1, DL_WORKERS_MAX), .fallback = "1", GPU(input_cores), .sweep = ',',
     .column = "input_cores", .limits = DL_LIMITS_INPUT_CORES,
     .help = "of a node, to make batches if the cost file has [op input]"},
    {"input", "loaders", WHOLE(0, DL_LOADERS_MAX), .fallback = "0", SCENARIO(input.loaders),
     .group = DL_TAKE_CORES, .sweep = ',', .limits = DL_LIMITS_LOADERS,
     .help = "processes of a worker that make its batches, on the same cores (num_workers of "
             "PyTorch's DataLoader); 0: it makes them itself"},
    {"input", "prefetch", WHOLE(0, DL_PREFETCH_MAX), .fallback = "1", SCENARIO(input.prefetch),
     .sweep = ',', .limits = DL_LIMITS_PREFETCH,
     .help = "batches of a worker made ahead. Default on cores: 2 for each of its loaders"},
    {"input", "made", EITHER(makings), .fallback = "ahead", GPU(made_at_launch), .sweep = ',',
     .help = "as prefetch says; at_launch: in host memory when the step is launched, copied when "
             "it begins"},
    {"input", "noise", EITHER(input_noises), .fallback = "none", GPU(input_varies), .sweep = ',',
     .help = "of the time to make a batch"},
    {"input", "storage_bytes_per_s", RATE, SCENARIO(input.storage_bytes_per_s), .sweep = ',',
     .limits = DL_LIMITS_STORAGE,
     .help = "of a node's storage, for [input] stored_bytes_per_sample of the costs. Default: no "
             "limit"},
    {"input", "shared_storage_bytes_per_s", RATE,
     GPU(shared_storage_bytes_per_s), .sweep = ',', .limits = DL_LIMITS_SHARED_STORAGE,
     .help = "of a file server for all nodes, beside their own storage; its share of the network "
             "is not simulated"},
    {"input", "storage_ahead_bytes", BYTES(0),
     .fallback = "0", SCENARIO(input.storage_ahead_bytes), .group = DL_TAKE_CORES, .sweep = ',',
     .help = "that storage reads ahead while idle, or the burst of a disk with a limited rate"},
    {"input", "cached_frac", .type = DL_KEY_REAL, .low = 0, .high = 1, .fallback = "0",
     SCENARIO(input.cached_frac), .sweep = ',',
     .help = "share of the samples that need not be read"},

    {"pipeline", "stages", WHOLE(1, DL_STAGES_MAX), .fallback = "1", PIPELINE(stages),
     .sweep = ',',
     .help = "GPUs that share the model's layers: pp of [machine] layout"},
    {"pipeline", "micro_batches", WHOLE(1, DL_MICRO_BATCHES_MAX), .fallback = "1",
     PIPELINE(micro_batches), .sweep = ',',
     .help = "of a worker's batch. With stages = 1: [sync] accumulate"},
    {"pipeline", "micro_batch", WHOLE(0, INT32_MAX), .fallback = "0", PIPELINE(micro_batch),
     .sweep = ',',
     .help = "samples of a rank's micro-batch, in place of their number; 0: as micro_batches says"},
    {"pipeline", "schedule", CHOICE(dl_schedule_names), .fallback = "1f1b", PIPELINE(schedule),
     .sweep = ',', .only = "stages > 1",
     .help = "order of micro-batches; gpipe keeps the activations of all, 1f1b (the default of "
             "Megatron-LM, DeepSpeed, nanotron and torchtitan) of as many as stages; without a "
             "flush: pipedream (micro_batches = 1), 2bw (as many as stages, or more)"},
    {"pipeline", "chunks", WHOLE(1, DL_STAGE_CHUNKS_MAX), .fallback = "1", PIPELINE(chunks),
     .sweep = ',', .only = "stages > 1",
     .help = "runs of layers of a stage (virtual stages), with schedule = interleaved"},
    {"pipeline", "split", OWN, .form = "balanced, or names of layers", .fallback = "balanced",
     .group = DL_TAKE_GPUS, .sweep = '|', .only = "stages > 1",
     .help = "first layers of stages 1, 2, ...; balanced: by compute time"},
    {"pipeline", "cut_bytes_per_sample", OWN, .form = "one number, or one for each cut",
     .dimension = DL_DIMENSION_BYTES, .low = 0, .high = 1e15, .group = DL_TAKE_GPUS, .sweep = '|',
     .only = "stages > 1", .help = "that cross each cut; default: of the cost file"},
    {"pipeline", "gpus", WHOLE(1, DL_WORKERS_MAX), .owner = DL_OF_NOBODY, .group = DL_TAKE_GPUS,
     .sweep = '.',
     .help = "of all workers, in place of [machine] workers"},

    {"workload", "costs", OWN, .form = "file", .sweep = ',',
     .help = "cost file; this, model or samples_per_s is required. Beside one of these it may have "
             "costs of exchange only, which take the place of assumed or simulated ones"},
    {"workload", "gpu_costs", OWN, .form = "GPU:FILE, ...", .group = DL_TAKE_GPUS, .sweep = '|',
     .help = "cost files of some GPU models of the machine: their operations and memory. Default: "
             "costs, scaled by data sheets"},
    {"workload", "model", OWN, .form = "NAME or NAME:KEY=VALUE,...", .group = DL_TAKE_GPUS,
     .sweep = '|',
     .help = "a network of dlsim --workloads, estimated from its operations "
             "and the GPU's data sheet"},
    {"workload", "arithmetic", CHOICE(arithmetics), .fallback = "auto", SCENARIO(arithmetic),
     .sweep = ',', .only = "model", .elsewhere = dl_arithmetic_words,
     .help = "of products; with fp16, bf16 of activations too (autocast); fp8: of linear layers in "
             "a transformer's blocks, the rest in bf16 (Transformer Engine); auto: bf16 for "
             "transformers, tf32 for convolutions, where all GPUs have it, else fp32. Exchange is "
             "in fp32 unless sharded"},
    {"workload", "optimizer", CHOICE(optimizers), .fallback = "auto", SCENARIO(optimizer),
     .sweep = ',', .only = "model", .help = "auto: momentum for images, adam for transformers"},
    {"workload", "recompute", CHOICE(dl_recompute_names), .fallback = "auto", SCENARIO(recompute),
     .sweep = ',', .only = "model",
     .help = "activations of a transformer computed again in the backward pass: selective: the "
             "core of attention (Megatron-LM's); full: all but the inputs of blocks; products: all "
             "but attention and every second product (torchtitan's selective, op); auto: the "
             "model's own key recompute"},
    {"workload", "lora", WHOLE(0, 65536), .owner = DL_OF_NOBODY, .sweep = ',', .only = "model",
     .help = "rank of adapters that are trained in place of a transformer's weights; 0: none"},
    {"workload", "lora_targets", OWN, .form = "NAME, ...", .only = "lora",
     .help = "matrices of a block that have them, by PEFT's names, or linear_qkv, linear_fc1, "
             "all-linear; default: q_proj, v_proj"},
    {"workload", "samples_per_s", .type = DL_KEY_REAL, .low = 1e-6, .high = 1e9,
     SCENARIO(samples_per_s), .sweep = ',',
     .help = "throughput of one worker, in place of a cost file: a third of its step is forward, "
             "two thirds backward, all else assumed"},
    {"workload", "device", .type = DL_KEY_TEXT, SCENARIO(device), .form = "text",
     .only = "samples_per_s",
     .help = "GPU that it was measured on; default: the machine's"},
    {"workload", "batch", WHOLE(1, BATCH_MAX), .owner = DL_OF_NOBODY, .sweep = '.',
     .help = "all workers together; this or batch_per_worker is required"},
    {"workload", "batch_per_worker", WHOLE(1, BATCH_MAX), .owner = DL_OF_NOBODY, .sweep = '.',
     .help = "for weak scaling"},
    {"workload", "shares", CHOICE(shares), .fallback = "equal", SCENARIO(shares),
     .group = DL_TAKE_GPUS, .sweep = ',',
     .help = "of a batch over unlike GPUs: equal, or so that all compute for the same time"},
    {"workload", "samples_per_epoch", WHOLE64(1, 1e18), SCENARIO(samples_per_epoch), .sweep = ',',
     .help = "for the time and, on GPUs, the price of an epoch"},
    {"workload", "parameter_bytes", WHOLE64(1, 1e15), .dimension = DL_DIMENSION_BYTES,
     SCENARIO(parameter_bytes), .sweep = ',', .help = "of the model, in place of the cost file's"},
    {"workload", "calibrate", OWN, .form = "STEP, STEP@WORKERS, STEP@WORKERSxSAMPLES or FACTOR",
     .sweep = ',',
     .help = "a measured step, to which all compute is scaled: 212ms@8x32 is of 8 workers with 32 "
             "samples each. Default: of the fewest workers. A number without unit is the factor. "
             "Of several variants the first was measured"},
    {"workload", "trace", OWN, .form = "file", .group = DL_TAKE_GPUS, .only = "costs",
     .help = "a step of dlcal replay --step: workers run its launches, gaps and streams in place "
             "of the costs' times; batch_per_worker is the recorded one"},
    {"workload", "missing", CHOICE(missings), .fallback = "assume", SCENARIO(missing),
     .help = "costs that the cost file lacks: assume defaults, named with interval and source, or "
             "refuse to run"},
    {"workload", "scale", CHOICE(scales), .fallback = "auto", SCENARIO(scale),
     .group = DL_TAKE_GPUS, .sweep = ',',
     .help = "costs of another GPU: auto scales them by data sheets, or as scale_compute says"},
    {"workload", "scale_compute", OWN, .form = "file", .group = DL_TAKE_GPUS, .sweep = ',',
     .help = "machine file of the GPU that the costs are of"},
    {"workload", "scale_arithmetic", CHOICE(dl_arithmetic_names), .fallback = "fp32",
     SCENARIO(scale_arithmetic), .sweep = ',', .only = "scale_compute", .help = "arithmetic whose "
                                                                                "peak rates are "
                                                                                "compared"},

    {"sync", "mode", OWN, .choices = dl_mode_names, .fallback = "none", .sweep = '.',
     .limits = DL_LIMITS_MODE, .help = "how the workers exchange; fsdp, zero1 to zero3, diloco, dp, ... stand for "
                                        "a mode and a key"},
    DL_SYNC_SWEPT_ROWS(OPTION)
    {"sync", "average_state", FLAG, .fallback = "no", SCENARIO(average_state),
     .group = DL_TAKE_OPTION(DL_SYNC_AVERAGE_STATE), .sweep = ',',
     .help = "the optimizer's state too"},
    {"sync", "outer", CHOICE(outers), .fallback = "none", SCENARIO(outer),
     .group = DL_TAKE_OPTION(DL_SYNC_OUTER), .sweep = ',',
     .help = "nesterov: an outer optimizer, whose gradient is the average's movement (DiLoCo); the "
             "workers keep their state"},
    {"sync", "inside", CHOICE(insides), .fallback = "none", SCENARIO(inside),
     .group = DL_TAKE_OPTION(DL_SYNC_INSIDE), .sweep = ',',
     .help = "allreduce: the workers of a site, or of a node, average their gradients in each "
             "step; on GPUs"},
    {"sync", "fragments", WHOLE(1, DL_WORKERS_MAX), .fallback = "1", SCENARIO(fragments),
     .group = DL_TAKE_OPTION(DL_SYNC_FRAGMENTS), .sweep = ',',
     .help = "of the parameters, averaged in turn, each every interval steps (Streaming DiLoCo)"},
    {"sync", "server_threads", WHOLE(1, DL_WORKERS_MAX), .fallback = "1", SCENARIO(server_threads),
     .group = DL_TAKE_OPTION(DL_SYNC_SERVER_THREADS), .sweep = ',', .limits = DL_LIMITS_SERVER,
     .help = "of each shard"},
    {"sync", "where", OWN, .form = "auto, cpu, gpu:K, allreduce", .fallback = "auto",
     .group = DL_TAKE_OPTION(DL_SYNC_WHERE), .sweep = ',', .limits = DL_LIMITS_PLACE,
     .help = "of the server: cpu, or GPU K of all; of averages also allreduce. auto: allreduce "
             "for average and bmuf unless workers share a GPU, server_threads or [exchange] "
             "shards are given, or the costs have [average]; else cpu"},
    {"sync", "interval_by_speed", FLAG, .fallback = "no", SCENARIO(interval_by_speed),
     .group = DL_TAKE_OPTION(DL_SYNC_BY_SPEED), .sweep = ',',
     .help = "the fastest worker does interval local steps, the others as many as fit into that "
             "time"},

    {"syncer", "quorum", SYNCER(quorum), WHOLE(1, DL_WORKERS_MAX), .fallback = "1",
     .help = "uploads that a merge needs"},
    {"syncer", "quorum_max", SYNCER(quorum_max), WHOLE(1, DL_WORKERS_MAX),
     .help = "most uploads in one merge; default: the number of workers"},
    {"syncer", "grace_s", SYNCER(grace_s), .type = DL_KEY_REAL, .low = 0, .high = SECONDS_MAX,
     .fallback = "0", .help = "seconds to wait for more uploads once there is a quorum"},
    {"syncer", "grace", SYNCER(adaptive), CHOICE(dl_grace_names), .fallback = "fixed",
     .help = "fixed: all of grace_s; adaptive: until a learner of the quorum is expected to "
             "upload again"},
    {"syncer", "scan_s", SYNCER(scan_s), .type = DL_KEY_REAL, .low = 0, .high = SECONDS_MAX,
     .fallback = "0", .help = "seconds between scans for uploads; 0: each is seen at once"},
    {"syncer", "weight_power", SYNCER(weight_power), .type = DL_KEY_REAL, .low = 0, .high = 100,
     .fallback = "0",
     .help = "an upload that is s versions stale weighs (1 + s)^-weight_power"},
    {"syncer", "merge_s", SYNCER(merge_s), .type = DL_KEY_REAL, .low = 1e-9, .high = SECONDS_MAX,
     .help = "seconds to read, merge and publish, on a machine of its own. Default: [update] of "
             "the cost file; on cores the work of a thread beside the workers"},
    {"syncer", "adopt", SYNCER(adopt), CHOICE(dl_adopt_names), .fallback = "next",
     .help = "when a learner takes a new version: next: after an upload; replace: after a local "
             "step too, losing those since the upload; rebase: keeping them; predict: as rebase, "
             "and it uploads only then"},
    {"syncer", "end", SYNCER(each_ends), CHOICE(dl_end_names), .fallback = "first",
     .help = "first: the run ends with the fastest learner's last step; each: with the last "
             "learner's, and after one more grace time a last merge"},
    {"syncer", "wait_s", SYNCER(wait_s), .type = DL_KEY_REAL, .low = 0, .high = SECONDS_MAX,
     .fallback = "0", .help = "longest wait of a learner for a new version after an upload, in "
                              "seconds"},

    {"failures", "away", OWN, .form = "worker:from-to, ...", .low = 0, .high = SECONDS_MAX,
     .group = DL_TAKE_OPTION(DL_SYNC_AWAY), .sweep = '|',
     .help = "seconds in which a worker is absent while others go on, as 3:100-160; 5:200-: for "
             "good. Not with inside, which takes worker_mtbf_s of whole sites"},
    {"failures", "worker_mtbf_s", ABSENCES(mtbf_s), .type = DL_KEY_REAL, .low = 1e-3, .high = 1e12,
     .help = "in place of away: mean seconds from a worker's start or return to its next failure "
             "(exponential); the others go on"},
    {"failures", "worker_away_s", ABSENCES(away_s), .type = DL_KEY_REAL, .low = 1e-3,
     .high = SECONDS_MAX,
     .help = "seconds from such a failure until the worker is back; required with worker_mtbf_s"},
    {"failures", "together", ABSENCES(together), CHOICE(dl_together_names), .fallback = "worker",
     .help = "fails at once: a worker, or all of a site (a node, where the machine has no sites)"},
    {"failures", "mtbf_s", FAILURES(mtbf_s), .type = DL_KEY_REAL, .low = 1e-3, .high = 1e12,
     .help = "mean seconds between failures of one GPU, or worker on cores, each of which stops all: "
             "results have goodput and the best checkpoint_steps"},
    {"failures", "node_mtbf_s", FAILURES(node_mtbf_s), .type = DL_KEY_REAL, .low = 1e-3,
     .high = 1e12,
     .help = "the same of one node (one failure a day: 86400); beside mtbf_s both fail"},
    {"failures", "at_s", OWN, .form = "list of seconds", .low = 0, .high = 1e12, .sweep = '|',
     .help = "in place of mtbf_s: times of the failures of one job, from its start"},
    {"failures", "restart_s", FAILURES(restart_s), .type = DL_KEY_REAL, .low = 0,
     .high = SECONDS_MAX, .fallback = "0",
     .help = "seconds from a failure until the job resumes from its checkpoint"},
    {"failures", "checkpoint_steps", FAILURES(checkpoint_steps), WHOLE64(1, 1e12),
     .help = "steps between checkpoints; default: no checkpoints, the job starts over"},
    {"failures", "checkpoint_s", FAILURES(checkpoint_s), .type = DL_KEY_REAL, .low = 0,
     .high = SECONDS_MAX, .fallback = "0", .help = "seconds for which a checkpoint stops the job"},
    {"failures", "job_steps", FAILURES(steps), WHOLE64(1, 1e12),
     .help = "steps of the job; default: those for [target] samples, else [scenario] steps"},

    {"target", "samples", WHOLE64(1, 1e18), SCENARIO(target.samples), .sweep = ',',
     .help = "of synchronous training with this batch until its target: results have its time and "
             "price"},
    {"target", "factor", OWN, .form = "WHERE:FACTOR, ...", .low = DL_TARGET_FACTOR_MIN,
     .high = DL_TARGET_FACTOR_MAX, .sweep = '|', .only = "samples",
     .help = "on these samples; WHERE is interval NUMBER, staleness NUMBER or a mode, in place of "
             "the others. Between numbers it is interpolated (logarithm of the interval), beyond "
             "the largest a row has no time"},

    {"noise", "kind", CHOICE(dl_noise_names), .fallback = "none", SCENARIO(noise), .sweep = ',',
     .column = "noise", .limits = DL_LIMITS_NOISE,
     .help = "how steps vary; trace: as profiled; work: by [work] or [spread] work_frac of the "
             "costs; none: these count as expected"},
    {"noise", "sigma", .type = DL_KEY_REAL, .low = 1e-6, .high = 100, SCENARIO(sigma), .sweep = ',',
     .only = "kind = lognormal, gamma", .help = "coefficient of variation; required there"},
    {"noise", "slow", OWN, .form = "worker:factor, ...", .low = 1e-6, .high = 1e6, .sweep = '|',
     .help = "factors on forward and backward"},

    {"generators", "gpus", GENERATORS(gpus), WHOLE(1, DL_WORKERS_MAX), .column = "gpus_of_both",
     .help = "of trainer and generators together; default: all of the machine file"},
    {"generators", "generator_gpus", GENERATORS(generator_gpus), WHOLE(1, DL_WORKERS_MAX),
     .help = "of these that generate; the others train. Default: half"},
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
             "prompts; installed: the same, from the update copied last; window: begun since the "
             "last copy, and outstanding at it, < (1 + bound) x copy_every x prompts; workers: "
             "in_flight groups"},
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
     .help = "groups older than this, in updates, are discarded. Default: none is, generators "
             "wait by the rule"},
    {"generators", "requeue", GENERATORS(requeue), FLAG, .fallback = "no",
     .help = "prompts of discarded groups are answered again, before new ones"},
    {"generators", "order", GENERATORS(taking), CHOICE(dl_taking_names), .fallback = "completion",
     .help = "of the groups that the trainer takes: as completed; oldest: of the complete ones the "
             "first begun; in_order: as begun, waiting for the complete ones"},
    {"generators", "length_mean", GENERATORS(length_mean), REAL(1, 1e9),
     .help = "tokens of an answer, cut off at length_cap; this or lengths is required"},
    {"generators", "length_cv", GENERATORS(length_cv), REAL(0, 10), .fallback = "0.8",
     .help = "standard deviation over mean, before the cap; log-normal"},
    {"generators", "length_cap", GENERATORS(length_cap), REAL(1, 1e9),
     .help = "most tokens of an answer; default: no cap"},
    {"generators", "group_share", GENERATORS(group_share), REAL(0, 1), .fallback = "0.5",
     .help = "of the variance of the logarithm of lengths, the share that answers to one prompt "
             "have in common"},
    {"generators", "lengths", .type = DL_KEY_OWN, .owner = DL_OF_NOBODY, .form = "file", .sweep = ',',
     .help = "CSV file with a column tokens: lengths that groups take in turn, in place of "
             "length_mean"},
    {"generators", "growth", GENERATORS(growth), REAL(-1, 100), .fallback = "0",
     .help = "of the mean length in 100 updates, as a fraction of the first"},
    {"generators", "prompt_tokens", GENERATORS(prompt_tokens), REAL(0, 1e9), .fallback = "100",
     .help = "of a prompt, which the trainer computes with each answer"},
    {"generators", "token_s", GENERATORS(token_s), REAL(1e-12, 1e6),
     .help = "a of a replica's curve: with c requests each gets 1 / (a + b c) tokens a second. "
             "Default: [generator] of the cost file, else estimated for [workload] model"},
    {"generators", "request_token_s", GENERATORS(request_token_s), REAL(0, 1e6), .fallback = "0",
     .help = "b of that"},
    {"generators", "rates", .type = DL_KEY_OWN, .owner = DL_OF_NOBODY,
     .form = "REQUESTS:TOKENS, ...", .sweep = '|',
     .help = "in place of token_s: tokens a second of a replica by its requests in flight"},
    {"generators", "requests_max", GENERATORS(requests_max), WHOLE(1, 10000000),
     .help = "requests in flight on a replica at most. Default: 256, or what fits into its memory"},
    {"generators", "train_fixed_s", GENERATORS(train_fixed_s), REAL(0, 1e9), .fallback = "0",
     .help = "seconds of an update, whatever its tokens and GPUs"},
    {"generators", "train_token_gpu_s", GENERATORS(train_token_gpu_s), REAL(0, 1e6),
     .help = "GPU seconds of an update for each of its tokens. Default: [trainer] of the cost "
             "file, else the scenario's step is simulated"},
    {"generators", "on_policy_s", GENERATORS(on_policy_s), REAL(1e-9, 1e9),
     .help = "measured seconds of an update on policy, in place of the trainer's keys"},
    {"generators", "on_policy_generation_frac", GENERATORS(on_policy_generation_frac), REAL(0.001, 0.999),
     .help = "generation's share of that update without switch_s. Default: by the replica's curve"},
    {"generators", "on_policy_gpus", GENERATORS(on_policy_gpus), WHOLE(1, 10000000),
     .help = "of that update. Default: gpus"},
    {"generators", "on_policy_length", GENERATORS(on_policy_length), REAL(1, 1e9),
     .help = "tokens of an answer in that update. Default: length_mean"},
    {"generators", "train_fixed_frac", GENERATORS(train_fixed_frac), REAL(0, 1),
     .help = "of the trainer's part of on_policy_s, the share that its GPUs do not divide. "
             "Default: 0.5 (0.25 to 1)"},
    {"generators", "log_probs", GENERATORS(log_probs), CHOICE(dl_log_probs_names),
     .fallback = "never",
     .help = "when the trainer computes log-probabilities again"},
    {"generators", "log_prob_frac", GENERATORS(log_prob_frac), REAL(0, 100), .fallback = "0.3333",
     .help = "added by that to a token of an update: a forward pass is a third of it"},
    {"generators", "copy_s", GENERATORS(copy_s), REAL(0, 1e9), .fallback = "0",
     .help = "seconds of a copy of the weights, which stops the trainer"},
    {"generators", "pause_s", GENERATORS(pause_s), REAL(0, 1e9),
     .help = "for which a replica stops at the end of its copy. Default: copy_s, 0 with copies = "
             "in_turn"},
    {"generators", "copies", GENERATORS(in_turn), EITHER(copyings), .fallback = "at_once",
     .help = "to all replicas together, or one after another"},
    {"generators", "partial", GENERATORS(drains), EITHER(partials), .fallback = "yes",
     .help = "answers in flight go on with the new weights (partial rollouts); no: they end "
             "before the copy"},
    {"generators", "prefill_token_s", GENERATORS(prefill_token_s), REAL(0, 1e6), .fallback = "0",
     .help = "stop of a replica after a copy, for each token in flight, whose cache it makes "
             "again"},
    {"generators", "switch_s", GENERATORS(switch_s), REAL(0, 1e9), .fallback = "0",
     .help = "for both changes of sides of a colocated step"},
    {"generators", "tool_s", GENERATORS(tool_s), REAL(0, 1e9), .fallback = "0",
     .help = "mean wait of a group for tools or rewards, after its answers"},
    {"generators", "tool_cv", GENERATORS(tool_cv), REAL(0, 10), .fallback = "1",
     .help = "its standard deviation over mean; log-normal; 0: all alike"},
    {"generators", "validation_s", GENERATORS(validation_s), REAL(0, 1e9), .fallback = "0",
     .help = "seconds of a validation"},
    {"generators", "validation_every", GENERATORS(validation_every), WHOLE64(1, 1e9),
     .help = "updates; default: there is none"},
    {"generators", "validation_stops", GENERATORS(validation_stops), CHOICE(stops),
     .fallback = "both", .help = "the sides that wait for it"},
    {"generators", "micro_batch", GENERATORS(micro_batch), WHOLE(1, 100000), .fallback = "1",
     .help = "samples of a worker's pass, where the scenario's own step is simulated"},
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
                                   platforms == DL_TAKE_CORES  ? "on cores"
                                   : platforms == DL_TAKE_GPUS ? "on GPUs"
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
            "# Keys of all files\n\n"
            "The keys of a [scenario](formats.md#scenario), a [machine "
            "file](formats.md#machine-file) and a\n"
            "[cost file](formats.md#cost-file), with their defaults. Made by `dlsim --keys "
            "--markdown`.\n\n"
            "*size*: B, kB, MB, GB, TB, KiB, MiB, GiB; *time*: ns, us, ms, s; *rate*: sizes, bits "
            "(b) or flop per\n"
            "second. Without a unit numbers are in B, ns, B/s and flop/s. *bounds*: `(LOW to "
            "HIGH)` may follow. A\n"
            "key of a scenario may have several values with commas between them, each of which "
            "makes points;\n"
            "*bars*: with `|` between them; *no list*: one value only.\n",
            out);
    }
    for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
        char *text = NULL;
        size_t bytes = 0;
        FILE *of_file = dl_text_stream(&text, &bytes);
        const bool has = dl_keys_print(of_file, files[f].keys, section,
                                       markdown ? DL_KEYS_MARKDOWN : DL_KEYS_TERMINAL,
                                       files[f].takes, f > 0 ? files[0].keys : NULL);
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
