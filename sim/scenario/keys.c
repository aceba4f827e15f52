#include "sim/scenario/keys.h"

#include <math.h>
#include <stddef.h>

#include "common/alloc.h"
#include "common/names.h"

#define BATCH_MAX 100000000
#define REPLICATES_MAX 10000
#define SECONDS_MAX 1e6

#define SCENARIO(member) .owner = DL_OF_SCENARIO, .offset = offsetof(dl_scenario, member)
#define OF_GPU(member) .owner = DL_OF_GPU, .offset = offsetof(dl_gpu_options, member)
#define GPU(member) OF_GPU(member), .group = DL_TAKE_GPUS
#define USED(by)                                                          \
    .group = DL_USE_##by == DL_USE_ON_CORES_TOO ? DL_TAKE_USE(DL_USE_ANY) \
                                                : DL_TAKE_GPUS | DL_TAKE_USE(DL_USE_##by)
#define KEY(type, member, key, use, ...) \
    {"exchange", key, OF_GPU(member), USED(use), .sweep = ',', __VA_ARGS__},
#define FABRIC(member) GPU(machine.fabric.member)
#define NETWORK(member) GPU(machine.member)
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
#define SECONDS(l, h) REAL(l, h), .dimension = DL_DIMENSION_S
#define CHOICE(names) .type = DL_KEY_CHOICE, .choices = names
#define FLAG .type = DL_KEY_FLAG
#define EITHER(names) .type = DL_KEY_FLAG, .choices = names

static const char *const slows[] = {"transfers", "exchange", NULL};
static const char *const sharers[] = {"all", "node", NULL};
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
static const char *const arithmetics[] = {"auto", "fp32", "tf32",  "fp16",
                                          "bf16", "fp8",  "nvfp4", NULL};
static const char *const places[] = {"apart", "colocated", NULL};
static const char *const copyings[] = {"at_once", "in_turn", NULL};
static const char *const partials[] = {"yes", "no", NULL};
static const char *const stops[] = {"trainer", "generators", "both", NULL};
const char *const dl_recompute_names[] = {"auto", "none", "selective", "full", "products", NULL};
static const char *const optimizers[] = {"auto", "sgd", "momentum", "adam", "adam8bit", NULL};

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
     .help = "steps of each worker, rounded up to whole intervals; with a lag of averages, more "
             "are run before the counted ones. With [generators]: updates, default 60"},
    {"scenario", "warmup", WHOLE64(0, DL_STEPS_MAX), .fallback = "0", SCENARIO(warmup),
     .sweep = ',',
     .help = "uncounted steps of the fastest worker before; steps is then not rounded up. With "
             "[generators]: default 10"},
    {"scenario", "seed", WHOLE64(0, 9e18), .fallback = "1", SCENARIO(seed), .sweep = ',',
     .help = "seed of all random numbers"},
    {"scenario", "replicates", WHOLE64(1, REPLICATES_MAX), .fallback = "1", SCENARIO(replicates),
     .sweep = ',', .help = "runs of each point, for its 95 % interval"},

    {"scenario", "per_worker", FLAG, .fallback = "no", SCENARIO(per_worker),
     .help = "also write each worker's mean step and staleness"},

    {"machine", "cores", OWN, .form = "integer from 1, workers, measured",
     .group = DL_TAKE_CORES, .sweep = '.',
     .help = "cores; required without file. workers: one each; measured: as in the cost file"},
    {"machine", "workers", OWN, .form = "integer from 1, or all", .low = 1,
     .high = DL_WORKERS_MAX, .sweep = '.',
     .help = "required without placement, layout and [pipeline] gpus. all: one for each GPU"},
    {"machine", "processes", CHOICE(processes), .fallback = "auto", SCENARIO(processes),
     .group = DL_TAKE_CORES, .sweep = ',',
     .help = "workers are processes, which exchange in the times of the cost file's [collective "
             "...], not threads. auto: if it has an allreduce or is not of dlprof train"},
    {"machine", "file", OWN, .form = "file", .sweep = ',', .column = "machine",
     .help = "machine file, whose GPUs are the workers"},
    {"machine", "nodes", WHOLE(1, DL_WORKERS_MAX), .owner = DL_OF_NOBODY, .group = DL_TAKE_GPUS,
     .sweep = ',', .help = "number of nodes, in place of the machine file's"},
    {"machine", "price_usd_per_hour", .type = DL_KEY_QUANTITY, .dimension = DL_DIMENSION_PURE,
     .high = 1e5, GPU(price_usd_per_hour),
     .help = "price of a node, in place of the machine files'"},
    {"machine", "port_bytes_per_s", RATE, GPU(port_bytes_per_s), .sweep = ',',
     .help = "rate of each NIC, each direction, in place of the machine file's"},
    {"machine", "site_bytes_per_s", RATE, GPU(site_bytes_per_s), .sweep = ',',
     .help = "rate between sites, each direction, in place of the machine file's"},
    {"network", "sites", WHOLE(1, DL_WORKERS_MAX), GPU(sites), .sweep = ',',
     .help = "sites with equal parts of the nodes, in place of the machine file's; with [machine] "
             "site_bytes_per_s"},
    {"network", "site_latency_ns", .type = DL_KEY_QUANTITY, .dimension = DL_DIMENSION_NS,
     .high = 1e9, GPU(site_latency_ns), .sweep = ',',
     .help = "latency between two sites, one way, in place of the machine file's"},
    DL_NETWORK_ROWS(NETWORK, ',', NULL),
    DL_FABRIC_ROWS(FABRIC, ','),
    {"machine", "gpus", OWN, .form = "list of numbers", .group = DL_TAKE_GPUS, .sweep = '|',
     .help = "GPUs of workers 0, 1, ..., ascending, over all nodes; further workers share them in "
             "turn. Default: GPU w for worker w"},
    {"machine", "placement", OWN, .form = "digits", .group = DL_TAKE_GPUS, .sweep = ',',
     .help = "workers on each node (431: 4, 3, 1), in place of gpus and workers"},
    {"machine", "layout", OWN, .form = "AXIS=SIZE, ...", .group = DL_TAKE_GPUS, .sweep = '|',
     .help = "axes of a worker's GPUs, innermost first: tp, cp, ep, pp, fsdp; dp, last, is the "
             "number of workers. Default: one GPU"},
    {"machine", "dispatch", CHOICE(dl_dispatch_names), .fallback = "per_gpu", GPU(dispatch),
     .sweep = ',', .help = "one host thread launches the steps of all GPUs, or one each"},
    {"machine", "ahead", WHOLE(0, DL_STEPS_MAX), .fallback = "1", GPU(ahead), .sweep = ',',
     .help = "steps by which the host may be ahead of the GPUs"},
    {"machine", "reads", CHOICE(dl_reads_names), .fallback = "nothing", GPU(reads), .sweep = ',',
     .help = "the host waits for a result of the forward pass (the loss) before the next launch, "
             "or before each micro-batch (with stages: each pass), as Megatron-LM"},
    {"machine", "pageable", FLAG, .fallback = "no", GPU(pageable), .sweep = ',',
     .help = "copies use host memory that is not pinned"},

    {"exchange", "shards", OWN, .form = "integer from 1 to 64, workers or nodes",
     .low = 1, .high = DL_SHARDS_MAX, .fallback = "1", USED(SERVER), .sweep = ',',
     .help = "shards of the server; workers, nodes: one for each"},
    {"exchange", "algorithm", OWN, .choices = algorithms, .fallback = "auto", USED(COLLECTIVES),
     .sweep = ',',
     .help = "of all-reduces; unless auto, other collectives are rings"},
    {"exchange", "nccl", CHOICE(dl_nccl_versions), OF_GPU(machine.nccl), USED(COLLECTIVES),
     .sweep = ',', .form = "default, 2.4 to 2.29",
     .help = "version of NCCL, in place of the machine file's"},
#include "sim/platform/exchange_keys.h"
    {"exchange", "compress", CHOICE(dl_compress_names), .fallback = "none",
     .elsewhere = dl_compress_words, SCENARIO(compression.kind), .sweep = ',',
     .help = "of pushed or reduced messages; on cores only with a server"},
    {"exchange", "topk_frac", .type = DL_KEY_REAL, .low = 1e-9, .high = 1,
     SCENARIO(compression.kept_frac), .sweep = ',', .only = "compress = topk",
     .help = "fraction of the parameters that is sent; required"},

    {"input", "cores", WHOLE(1, DL_WORKERS_MAX), .fallback = "1", GPU(input_cores), .sweep = ',',
     .column = "input_cores", .limits = DL_LIMITS_INPUT_CORES,
     .help = "cores of a node that make batches, if the cost file has [op input]"},
    {"input", "loaders", WHOLE(0, DL_LOADERS_MAX), .fallback = "0", SCENARIO(input.loaders),
     .group = DL_TAKE_CORES, .sweep = ',', .limits = DL_LIMITS_LOADERS,
     .help = "processes that make a worker's batches on the same cores (DataLoader's "
             "num_workers); 0: the worker itself"},
    {"input", "prefetch", WHOLE(0, DL_PREFETCH_MAX), .fallback = "1", SCENARIO(input.prefetch),
     .sweep = ',', .limits = DL_LIMITS_PREFETCH,
     .help = "batches made ahead for each worker. Default on cores: 2 for each loader"},
    {"input", "made", EITHER(makings), .fallback = "ahead", GPU(made_at_launch), .sweep = ',',
     .help = "batches are copied to the GPU as early as prefetch allows, or from host memory when "
             "the step begins"},
    {"input", "noise", EITHER(input_noises), .fallback = "none", GPU(input_varies), .sweep = ',',
     .help = "distribution of the time to make a batch"},
    {"input", "storage_bytes_per_s", RATE, SCENARIO(input.storage_bytes_per_s), .sweep = ',',
     .limits = DL_LIMITS_STORAGE,
     .help = "rate of a node's storage, for the cost file's stored_bytes_per_sample. Default: no "
             "limit"},
    {"input", "shared_storage_bytes_per_s", RATE,
     GPU(shared_storage_bytes_per_s), .sweep = ',', .limits = DL_LIMITS_SHARED_STORAGE,
     .help = "rate of a file server for all nodes, besides their own storage; its network is not "
             "simulated"},
    {"input", "storage_ahead_bytes", BYTES(0),
     .fallback = "0", SCENARIO(input.storage_ahead_bytes), .group = DL_TAKE_CORES, .sweep = ',',
     .help = "read ahead while the storage is idle, or the burst of a disk with a limited rate"},
    {"input", "cached_frac", .type = DL_KEY_REAL, .low = 0, .high = 1, .fallback = "0",
     SCENARIO(input.cached_frac), .sweep = ',',
     .help = "fraction of the samples that are cached"},

    {"pipeline", "stages", WHOLE(1, DL_STAGES_MAX), .fallback = "1", PIPELINE(stages),
     .sweep = ',',
     .help = "pipeline stages, one GPU each: pp of [machine] layout"},
    {"pipeline", "micro_batches", WHOLE(1, DL_MICRO_BATCHES_MAX), .fallback = "1",
     PIPELINE(micro_batches), .sweep = ',',
     .help = "micro-batches in a worker's batch. With stages = 1: [sync] accumulate"},
    {"pipeline", "micro_batch", WHOLE(0, INT32_MAX), .fallback = "0", PIPELINE(micro_batch),
     .sweep = ',',
     .help = "samples of a micro-batch on a rank, in place of micro_batches (0)"},
    {"pipeline", "schedule", CHOICE(dl_schedule_names), .fallback = "1f1b", PIPELINE(schedule),
     .sweep = ',', .only = "stages > 1",
     .help = "gpipe keeps the activations of all micro-batches, 1f1b of at most as many as there "
             "are stages; without a flush: pipedream (micro_batches = 1), 2bw (at least as many "
             "micro-batches as stages)"},
    {"pipeline", "chunks", WHOLE(1, DL_STAGE_CHUNKS_MAX), .fallback = "1", PIPELINE(chunks),
     .sweep = ',', .only = "stages > 1",
     .help = "groups of layers on each stage (virtual stages), with schedule = interleaved"},
    {"pipeline", "split", OWN, .form = "balanced, or names of layers", .fallback = "balanced",
     .group = DL_TAKE_GPUS, .sweep = '|', .only = "stages > 1",
     .help = "first layers of stages 1, 2, ...; balanced: equal compute times"},
    {"pipeline", "gpus", WHOLE(1, DL_WORKERS_MAX), .owner = DL_OF_NOBODY, .group = DL_TAKE_GPUS,
     .sweep = '.',
     .help = "GPUs of all workers together, in place of [machine] workers"},

    {"workload", "costs", OWN, .form = "file", .sweep = ',',
     .help = "cost file; this, model or samples_per_s is required. Beside one of these it holds "
             "costs of exchange and input, in place of assumed or simulated ones"},
    {"workload", "gpu_costs", OWN, .form = "GPU:FILE, ...", .group = DL_TAKE_GPUS, .sweep = '|',
     .help = "cost files of GPU models, for their operations and memory. Default: costs, scaled "
             "by data sheets"},
    {"workload", "model", OWN, .form = "NAME or NAME:KEY=VALUE,...", .group = DL_TAKE_GPUS,
     .sweep = '|',
     .help = "a network of dlsim --workloads, estimated for the GPU"},
    {"workload", "arithmetic", CHOICE(arithmetics), .fallback = "auto", SCENARIO(arithmetic),
     .sweep = ',', .only = "model", .elsewhere = dl_arithmetic_words,
     .help = "of matrix products. fp16, bf16: also of activations (autocast); fp8, nvfp4: of "
             "linear layers of a transformer's blocks, the rest in bf16; auto: bf16 for "
             "transformers, tf32 for convolutions, if all GPUs have it, else fp32. Exchange is in "
             "fp32 unless sharded"},
    {"workload", "optimizer", CHOICE(optimizers), .fallback = "auto", SCENARIO(optimizer),
     .sweep = ',', .only = "model", .elsewhere = dl_optimizer_words,
     .help = "auto: momentum for images, adam for transformers; adam8bit: states of 8 bits "
             "(AdamW8bit of torchao and bitsandbytes)"},
    {"workload", "recompute", CHOICE(dl_recompute_names), .fallback = "auto", SCENARIO(recompute),
     .sweep = ',', .only = "model",
     .help = "activations to compute again. selective: the core of attention (Megatron-LM); full: "
             "all but the inputs of blocks; products: all but attention and every second product "
             "(torchtitan's op); auto: the model's key recompute"},
    {"workload", "lora", WHOLE(0, 65536), .owner = DL_OF_NOBODY, .sweep = ',', .only = "model",
     .help = "rank of adapters in place of trained weights; 0: none"},
    {"workload", "lora_targets", OWN, .form = "NAME, ...", .only = "lora",
     .help = "matrices of a block that have adapters, PEFT's names, or linear_qkv, linear_fc1, "
             "all-linear; default: q_proj, v_proj"},
    {"workload", "samples_per_s", .type = DL_KEY_REAL, .low = 1e-6, .high = 1e9,
     SCENARIO(samples_per_s), .sweep = ',',
     .help = "throughput of one worker, in place of a cost file: a third is the forward pass, two "
             "thirds the backward pass; other costs are assumed"},
    {"workload", "device", .type = DL_KEY_TEXT, SCENARIO(device), .form = "text",
     .only = "samples_per_s",
     .help = "GPU on which the throughput was measured; default: the machine's"},
    {"workload", "batch", WHOLE(1, BATCH_MAX), .owner = DL_OF_NOBODY, .sweep = '.',
     .help = "samples of a step of all workers; this or batch_per_worker is required"},
    {"workload", "batch_per_worker", WHOLE(1, BATCH_MAX), .owner = DL_OF_NOBODY, .sweep = '.',
     .help = "samples of a step of one worker"},
    {"workload", "shares", CHOICE(shares), .fallback = "equal", SCENARIO(shares),
     .group = DL_TAKE_GPUS, .sweep = ',',
     .help = "a batch is divided among unequal GPUs equally, or by their speed"},
    {"workload", "samples_per_epoch", WHOLE64(1, 1e18), SCENARIO(samples_per_epoch), .sweep = ',',
     .help = "samples of an epoch, for its time and, on GPUs, its price"},
    {"workload", "parameter_bytes", WHOLE64(1, 1e15), .dimension = DL_DIMENSION_BYTES,
     SCENARIO(parameter_bytes), .sweep = ',', .help = "size of the model, in place of the cost "
                                                      "file's"},
    {"workload", "calibrate", OWN, .form = "STEP, STEP@WORKERS, STEP@WORKERSxSAMPLES, FACTOR, "
                                           "FACTOR/TIME or STEP@WORKERSxSAMPLES=FACTOR",
     .sweep = ',',
     .help = "a measured step, to which compute times are scaled: 212ms@8x32 is of 8 workers with "
             "32 samples each (default: the fewest workers), or a rate of all, 600samples/s or "
             "60000tokens/s. A number without unit is the factor, TIME a limit of assumed "
             "launches. Saved scenarios have the step and its factor. Of several variants the first "
             "was measured"},
    {"workload", "trace", OWN, .form = "file", .group = DL_TAKE_GPUS, .only = "costs",
     .help = "a step of dlcal replay --step, whose launches, gaps and streams replace the costs' "
             "times; batch_per_worker is the recorded one"},
    {"workload", "missing", CHOICE(missings), .fallback = "assume", SCENARIO(missing),
     .help = "assume costs that the file lacks, and list them, or refuse to run"},
    {"workload", "scale", CHOICE(scales), .fallback = "auto", SCENARIO(scale),
     .group = DL_TAKE_GPUS, .sweep = ',',
     .help = "costs of another GPU are scaled by data sheets, or as scale_compute says (auto), or "
             "not"},
    {"workload", "scale_compute", OWN, .form = "file", .group = DL_TAKE_GPUS, .sweep = ',',
     .help = "machine file of the measured GPU"},

    {"sync", "mode", OWN, .choices = dl_mode_names, .fallback = "none", .sweep = '.',
     .limits = DL_LIMITS_MODE, .help = "how the workers exchange; fsdp, zero1 to zero3, diloco, "
                                       "... are a mode with a key"},
    DL_SYNC_SWEPT_ROWS(OPTION)
    {"sync", "average_state", FLAG, .fallback = "no", SCENARIO(average_state),
     .group = DL_TAKE_OPTION(DL_SYNC_AVERAGE_STATE), .sweep = ',',
     .help = "also average the optimizer's state"},
    {"sync", "outer", CHOICE(outers), .fallback = "none", SCENARIO(outer),
     .group = DL_TAKE_OPTION(DL_SYNC_OUTER), .sweep = ',',
     .help = "outer optimizer. nesterov (DiLoCo): on the difference between the average and the "
             "last one; workers keep their optimizer state"},
    {"sync", "inside", CHOICE(insides), .fallback = "none", SCENARIO(inside),
     .group = DL_TAKE_OPTION(DL_SYNC_INSIDE), .sweep = ',',
     .help = "allreduce: workers of a site, or node, average their gradients in each step; on "
             "GPUs"},
    {"sync", "fragments", WHOLE(1, DL_WORKERS_MAX), .fallback = "1", SCENARIO(fragments),
     .group = DL_TAKE_OPTION(DL_SYNC_FRAGMENTS), .sweep = ',',
     .help = "fragments of the parameters, averaged in turn, each every interval steps (Streaming "
             "DiLoCo)"},
    {"sync", "server_threads", WHOLE(1, DL_WORKERS_MAX), .fallback = "1", SCENARIO(server_threads),
     .group = DL_TAKE_OPTION(DL_SYNC_SERVER_THREADS), .sweep = ',', .limits = DL_LIMITS_SERVER,
     .help = "threads of each shard of a server in host memory"},
    {"sync", "where", OWN, .form = "auto, cpu, gpu:K, allreduce", .fallback = "auto",
     .group = DL_TAKE_OPTION(DL_SYNC_WHERE), .sweep = ',', .limits = DL_LIMITS_PLACE,
     .help = "place of the server; averages also allreduce. auto: allreduce for average and bmuf "
             "unless workers share a GPU, server_threads or [exchange] shards are given, or the "
             "costs have [average]; else cpu"},
    {"sync", "interval_by_speed", FLAG, .fallback = "no", SCENARIO(interval_by_speed),
     .group = DL_TAKE_OPTION(DL_SYNC_BY_SPEED), .sweep = ',',
     .help = "the fastest worker does interval local steps, others as many as fit into that time"},

    {"syncer", "quorum", SYNCER(merge.quorum), WHOLE(1, DL_WORKERS_MAX), .fallback = "1",
     .help = "uploads that a merge needs"},
    {"syncer", "quorum_max", SYNCER(merge.quorum_max), WHOLE(1, DL_WORKERS_MAX),
     .help = "maximum of uploads in one merge; default: the number of workers"},
    {"syncer", "grace_s", SYNCER(merge.grace_s), SECONDS(0, SECONDS_MAX),
     .fallback = "0", .help = "seconds to wait for more uploads once there is a quorum"},
    {"syncer", "grace", SYNCER(merge.adaptive), CHOICE(dl_merge_grace_names), .fallback = "fixed",
     .help = "fixed: that wait ends after grace_s; adaptive: earlier, when a learner of the "
             "quorum is expected to upload again"},
    {"syncer", "scan_s", SYNCER(merge.scan_s), SECONDS(0, SECONDS_MAX),
     .fallback = "0", .help = "seconds between scans for uploads; 0: each is seen when it arrives"},
    {"syncer", "weight_power", SYNCER(merge.weight_power), .type = DL_KEY_REAL, .low = 0, .high = 100,
     .fallback = "0",
     .help = "an upload s versions stale has weight (1 + s)^-weight_power"},
    {"syncer", "merge_s", SYNCER(merge_s), SECONDS(1e-9, SECONDS_MAX),
     .help = "seconds of a merge, on a machine of its own. Default: [update] of the cost file; on "
             "cores the work of a thread beside the workers"},
    {"syncer", "adopt", SYNCER(adopt), CHOICE(dl_adopt_names), .fallback = "next",
     .help = "a learner adopts a new version after an upload (next), or also after a local step, "
             "and loses (replace) or keeps (rebase) the steps since the upload; predict: as "
             "rebase, and it uploads only then"},
    {"syncer", "end", SYNCER(each_ends), CHOICE(dl_end_names), .fallback = "first",
     .help = "the run ends at the fastest learner's last step (first), or at the last learner's, "
             "one more grace time and a merge later"},
    {"syncer", "wait_s", SYNCER(merge.wait_s), SECONDS(0, SECONDS_MAX),
     .fallback = "0", .help = "maximum wait of a learner for a new version after an upload, in "
                              "seconds"},

    {"failures", "away", OWN, .form = "worker:from-to, ...", .low = 0, .high = SECONDS_MAX,
     .group = DL_TAKE_OPTION(DL_SYNC_AWAY), .sweep = '|',
     .help = "seconds of absence, 3:100-160; 5:200- is for good; the others continue. Not with "
             "inside, where worker_mtbf_s makes whole sites fail"},
    {"failures", "worker_mtbf_s", ABSENCES(mtbf_s), SECONDS(1e-3, 1e12),
     .help = "mean seconds from a worker's start or return to its next failure (exponential), in "
             "place of away"},
    {"failures", "worker_away_s", ABSENCES(away_s), SECONDS(1e-3, SECONDS_MAX),
     .help = "seconds from such a failure until the worker is back; required with worker_mtbf_s"},
    {"failures", "together", ABSENCES(together), CHOICE(dl_together_names), .fallback = "worker",
     .help = "a worker fails, or all workers of a site (a node, if there are no sites)"},
    {"failures", "mtbf_s", FAILURES(mtbf_s), SECONDS(1e-3, 1e12),
     .help = "mean seconds between failures of one GPU (on cores: one worker); each stops all "
             "workers"},
    {"failures", "node_mtbf_s", FAILURES(node_mtbf_s), SECONDS(1e-3, 1e12),
     .help = "the same of one node (one failure a day: 1d), in addition"},
    {"failures", "at_s", OWN, .form = "list of seconds", .low = 0, .high = 1e12, .sweep = '|',
     .help = "failures of one job, from its start, in place of mtbf_s"},
    {"failures", "restart_s", FAILURES(restart_s), SECONDS(0, SECONDS_MAX), .fallback = "0",
     .help = "seconds from a failure until the job resumes from its checkpoint"},
    {"failures", "checkpoint_steps", FAILURES(checkpoint_steps), WHOLE64(1, 1e12),
     .help = "steps between checkpoints; default: no checkpoints, the job starts over"},
    {"failures", "checkpoint_s", FAILURES(checkpoint_s), SECONDS(0, SECONDS_MAX), .fallback = "0",
     .help = "seconds for which a checkpoint stops the job"},
    {"failures", "job_steps", FAILURES(steps), WHOLE64(1, 1e12),
     .help = "steps of the job; default: those for [target] samples, else [scenario] steps"},

    {"target", "samples", WHOLE64(1, 1e18), SCENARIO(target.samples), .sweep = ',',
     .help = "samples that synchronous training with this batch needs to reach its target, for "
             "time and price to the target"},
    {"target", "factor", OWN, .form = "WHERE:FACTOR, ...", .low = DL_TARGET_FACTOR_MIN,
     .high = DL_TARGET_FACTOR_MAX, .sweep = '|', .only = "samples",
     .help = "factors on these samples; WHERE is interval NUMBER, staleness NUMBER (interpolated; "
             "none beyond the largest) or, overriding both, a mode"},

    {"noise", "kind", CHOICE(dl_noise_names), .fallback = "none", SCENARIO(noise), .sweep = ',',
     .column = "noise", .limits = DL_LIMITS_NOISE,
     .help = "trace: steps vary as profiled; work: by [work] or [spread] work_frac of the costs; "
             "none: not, with the expected effect of these"},
    {"noise", "sigma", .type = DL_KEY_REAL, .low = 1e-6, .high = 100, SCENARIO(sigma), .sweep = ',',
     .only = "kind = lognormal, gamma", .help = "coefficient of variation; required"},
    {"noise", "slow", OWN, .form = "worker:factor, ...", .low = 1e-6, .high = 1e6, .sweep = '|',
     .help = "factors on the passes of some workers"},

    {"generators", "gpus", GENERATORS(gpus), WHOLE(1, DL_WORKERS_MAX), .column = "gpus_of_both",
     .help = "GPUs of both sides; default: all of the machine file"},
    {"generators", "generator_gpus", GENERATORS(generator_gpus), WHOLE(1, DL_WORKERS_MAX),
     .help = "GPUs that generate; the others train. Default: half"},
    {"generators", "replica_gpus", GENERATORS(replica_gpus), WHOLE(1, DL_WORKERS_MAX),
     .fallback = "1", .help = "GPUs of one replica of the generator"},
    {"generators", "place", GENERATORS(colocated), EITHER(places), .fallback = "apart",
     .help = "both sides have their own GPUs, or take turns on all GPUs, on policy"},
    {"generators", "prompts", GENERATORS(prompts), WHOLE(1, 10000000), .required = true,
     .help = "groups of answers, one per prompt, that an update consumes"},
    {"generators", "answers", GENERATORS(answers), WHOLE(1, 100000), .fallback = "8",
     .help = "answers to a prompt, which form a group"},
    {"generators", "copy_every", GENERATORS(copy_every), WHOLE(1, 1000000), .fallback = "1",
     .help = "updates from one copy of the weights to the next"},
    {"generators", "rule", GENERATORS(rule), CHOICE(dl_rule_names), .fallback = "ahead",
     .help = "condition for a group to begin. ahead: fewer than (updates + bound + 1) x prompts "
             "have begun, without the discarded ones; installed: the same by the updates up to "
             "the last copy; window: fewer than (1 + bound) x copy_every x prompts have begun "
             "since the last copy or were outstanding at it; workers: fewer than in_flight groups "
             "are in flight"},
    {"generators", "bound", GENERATORS(bound), REAL(0, 1e6), .fallback = "1",
     .column = "staleness_bound",
     .help = "bound on staleness in updates (rule = window: in windows)"},
    {"generators", "in_flight", GENERATORS(in_flight), WHOLE64(1, 1e9),
     .help = "maximum of groups in flight, all replicas together; default: by the rule only"},
    {"generators", "in_flight_of_replica", GENERATORS(in_flight_of_replica), WHOLE64(1, 1e9),
     .help = "the same per replica (verl: 16), times their number"},
    {"generators", "buffer", GENERATORS(buffer), WHOLE64(1, 1e9), .only = "rule = workers",
     .help = "complete groups at which no more begin; default: no limit"},
    {"generators", "age_max", GENERATORS(age_max), REAL(0, 1e6),
     .help = "age in updates beyond which groups are discarded. Default: none is, and generators "
             "wait as the rule says"},
    {"generators", "requeue", GENERATORS(requeue), FLAG, .fallback = "no",
     .help = "prompts of discarded groups are answered again, before new ones"},
    {"generators", "order", GENERATORS(taking), CHOICE(dl_taking_names), .fallback = "completion",
     .help = "the trainer takes groups as they complete; the complete one that began first; or as "
             "they began, waiting for each"},
    {"generators", "length_mean", GENERATORS(length_mean), REAL(1, 1e9),
     .help = "mean tokens of an answer, cut at the cap; or lengths"},
    {"generators", "length_cv", GENERATORS(length_cv), REAL(0, 10), .fallback = "0.8",
     .help = "coefficient of variation of lengths before the cap (log-normal)"},
    {"generators", "length_cap", GENERATORS(length_cap), REAL(1, 1e9),
     .help = "maximum tokens of an answer; default: no cap"},
    {"generators", "group_share", GENERATORS(group_share), REAL(0, 1), .fallback = "0.5",
     .help = "fraction of the variance of the lengths' logarithm that answers to one prompt share"},
    {"generators", "lengths", .type = DL_KEY_OWN, .owner = DL_OF_NOBODY, .form = "file", .sweep = ',',
     .help = "CSV file with a column tokens: lengths that the groups take in turn, in place of "
             "length_mean"},
    {"generators", "prompt_tokens", GENERATORS(prompt_tokens), REAL(0, 1e9), .fallback = "100",
     .help = "tokens of a prompt, which the trainer processes with each answer"},
    {"generators", "token_s", GENERATORS(token_s), REAL(1e-12, 1e6),
     .help = "a of a replica's speed: each of c requests gets 1 / (a + b c) tokens per second. "
             "Default: [generator] of the cost file, else estimated for [workload] model"},
    {"generators", "request_token_s", GENERATORS(request_token_s), REAL(0, 1e6), .fallback = "0",
     .help = "b of a replica's speed"},
    {"generators", "rates", .type = DL_KEY_OWN, .owner = DL_OF_NOBODY,
     .form = "REQUESTS:TOKENS, ...", .sweep = '|',
     .help = "tokens per second of a replica by its requests in flight, in place of token_s"},
    {"generators", "requests_max", GENERATORS(requests_max), WHOLE(1, 10000000),
     .help = "maximum of requests in flight on a replica. Default: 256, or as many as fit into "
             "its memory"},
    {"generators", "train_fixed_s", GENERATORS(train_fixed_s), REAL(0, 1e9), .fallback = "0",
     .help = "seconds of an update that depend neither on tokens nor on GPUs"},
    {"generators", "train_token_gpu_s", GENERATORS(train_token_gpu_s), REAL(0, 1e6),
     .help = "GPU seconds of an update per token. Default: [trainer] of the cost file, else the "
             "scenario's step is simulated"},
    {"generators", "on_policy_s", GENERATORS(on_policy_s), REAL(1e-9, 1e9),
     .help = "measured seconds of an update on policy, in place of the trainer's keys"},
    {"generators", "on_policy_generation_frac", GENERATORS(on_policy_generation_frac), REAL(0.001, 0.999),
     .help = "fraction of that update, without switch_s, that is generation. Default: from the "
             "replica's speed"},
    {"generators", "on_policy_gpus", GENERATORS(on_policy_gpus), WHOLE(1, 10000000),
     .help = "GPUs of that update. Default: gpus"},
    {"generators", "on_policy_length", GENERATORS(on_policy_length), REAL(1, 1e9),
     .help = "mean tokens of an answer in that update. Default: length_mean"},
    {"generators", "train_fixed_frac", GENERATORS(train_fixed_frac), REAL(0, 1),
     .help = "fraction of the trainer's part of on_policy_s that more GPUs do not shorten. "
             "Default: 0.5 (0.25 to 1)"},
    {"generators", "log_probs", GENERATORS(log_probs), CHOICE(dl_log_probs_names),
     .fallback = "never",
     .help = "when the trainer computes log-probabilities again"},
    {"generators", "log_prob_frac", GENERATORS(log_prob_frac), REAL(0, 100), .fallback = "0.3333",
     .help = "time of that per token over the update's; a forward pass is a third"},
    {"generators", "copy_s", GENERATORS(copy_s), REAL(0, 1e9), .fallback = "0",
     .help = "seconds of a copy of the weights, during which the trainer stops"},
    {"generators", "pause_s", GENERATORS(pause_s), REAL(0, 1e9),
     .help = "seconds for which a replica stops at its copy's end. Default: copy_s; with copies = "
             "in_turn: 0"},
    {"generators", "copies", GENERATORS(in_turn), EITHER(copyings), .fallback = "at_once",
     .help = "to all replicas at once, or one after another"},
    {"generators", "partial", GENERATORS(drains), EITHER(partials), .fallback = "yes",
     .help = "answers in flight continue with the new weights (partial rollouts), or end before "
             "the copy"},
    {"generators", "prefill_token_s", GENERATORS(prefill_token_s), REAL(0, 1e6), .fallback = "0",
     .help = "seconds per token in flight for which a replica stops after a copy, to compute its "
             "KV cache again"},
    {"generators", "switch_s", GENERATORS(switch_s), REAL(0, 1e9), .fallback = "0",
     .help = "seconds of a colocated step for switching to generation and back"},
    {"generators", "tool_s", GENERATORS(tool_s), REAL(0, 1e9), .fallback = "0",
     .help = "mean wait of a group for tools or rewards after its answers, in seconds"},
    {"generators", "tool_cv", GENERATORS(tool_cv), REAL(0, 10), .fallback = "1",
     .help = "coefficient of variation of that wait (log-normal); 0: constant"},
    {"generators", "validation_s", GENERATORS(validation_s), REAL(0, 1e9), .fallback = "0",
     .help = "seconds of a validation"},
    {"generators", "validation_every", GENERATORS(validation_every), WHOLE64(1, 1e9),
     .help = "updates between validations; default: no validation"},
    {"generators", "validation_stops", GENERATORS(validation_stops), CHOICE(stops),
     .fallback = "both", .help = "which side waits for the validation"},
    {"generators", "micro_batch", GENERATORS(micro_batch), WHOLE(1, 100000), .fallback = "1",
     .help = "samples of a pass, if the scenario's step is simulated"},
    {"generators", "usd_per_gpu_hour", GENERATORS(usd_per_gpu_hour), REAL(0, 1e6),
     .help = "price of one GPU. Default: from [machine] price_usd_per_hour"},

    {"measured", "file", OWN, .form = "file", .help = "measured rows to compare with"},
};
/* clang-format on */
const dl_keys dl_scenario_keys = {rows, DL_LENGTH(rows), dl_scenario_words, NULL};
_Static_assert(DL_LENGTH(rows) <= DL_SCENARIO_KEYS_MAX, "more keys than given[] has room for");

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

#define SECTIONS_MAX 200 /* of the three files */

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
            "Keys of a [scenario](formats.md#scenario), a [machine file](formats.md#machine-file) "
            "and a [cost\n"
            "file](formats.md#cost-file), with their defaults. Made by `dlsim --keys "
            "--markdown`.\n\n"
            "Keys in `_bytes`, `_ns` and `_per_s` are sizes (B, kB, MB, GB, TB, KiB, MiB, GiB), "
            "times (ns, us,\n"
            "ms, s) and rates (sizes, bits b, or flop per second); without a unit they are in B, "
            "ns, B/s, flop/s.\n"
            "Numbers without a range are from 0 or 1 on. *bounds*: `(LOW to HIGH)` may follow, "
            "with their reason\n"
            "in the section's key `source`. A key of a scenario may have several values with "
            "commas between them,\n"
            "each of which makes points; *bars*: with `|` between them; *no list*: one value only. "
            "Sections that\n"
            "only programs write are in `dlsim --keys SECTION`: `kernels`, `collective`, `trace`, "
            "...\n",
            out);
    }
    for (size_t f = 0; f < DL_LENGTH(files); f++) {
        DL_AUTOFREE char *text = NULL;
        size_t bytes = 0;
        FILE *of_file = dl_text_stream(&text, &bytes);
        const bool has = dl_keys_print(of_file, files[f].keys, section,
                                       markdown ? DL_KEYS_MARKDOWN : DL_KEYS_TERMINAL,
                                       files[f].takes, f > 0 ? files[0].keys : NULL);
        fclose(of_file);
        if (has) fprintf(out, markdown ? "\n## %s\n%s" : "--- %s\n%s\n", files[f].title, text);
        found |= has;
    }
    if (found) return DL_OK;
    char hint[300];
    const char *names[SECTIONS_MAX];
    size_t count = 0, of_scenario = 0;
    for (size_t f = 0; f < DL_LENGTH(files); f++) {
        for (size_t i = 0; i < files[f].keys->count && count < SECTIONS_MAX; i++) {
            const char *name = files[f].keys->rows[i].section;
            if (dl_names_find(name, names, count) < 0) names[count++] = name;
        }
        if (f == 0) of_scenario = count;
    }
    if (dl_names_nearest(section, names, count) < 0) count = of_scenario;
    dl_names_hint(hint, sizeof hint, section, names, count);
    return dl_error_set(err, DL_ERR_USAGE, "no file has a section [%s]%s", section, hint);
}

bool dl_scenario_gives(const dl_scenario *scenario, const char *section, const char *name)
{
    const dl_key *key = dl_keys_find(&dl_scenario_keys, section, name);
    return scenario->given[key - dl_scenario_keys.rows];
}
