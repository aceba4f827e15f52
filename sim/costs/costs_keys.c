/* The keys of cost files. */
#include "sim/costs/costs_internal.h"

#include <math.h>
#include <stddef.h>

/* Ranges of plausible values, far beyond what is built or trained. */
#define RATES .dimension = DL_DIMENSION_BYTES_PER_S, .low = 1e3, .high = 1e15
#define SIZES .dimension = DL_DIMENSION_BYTES, .low = 0, .high = 1e15
#define TIMES .dimension = DL_DIMENSION_NS, .low = 0, .high = 3.6e12
#define ISSUE .dimension = DL_DIMENSION_NS, .low = 0, .high = 1e11
#define SLICE .dimension = DL_DIMENSION_NS, .low = 1, .high = 1e10
#define FLOPS .dimension = DL_DIMENSION_PURE, .low = 0, .high = 1e18
#define SHARE .dimension = DL_DIMENSION_PURE, .low = 0, .high = 1
#define WAITS .dimension = DL_DIMENSION_NS, .low = 0, .high = 1e10
#define INTERCEPT .dimension = DL_DIMENSION_NS, .low = -1e9, .high = 3.6e12
#define VECTORS .dimension = DL_DIMENSION_PURE, .low = 0, .high = 100
#define FACTOR .dimension = DL_DIMENSION_PURE, .low = 1, .high = 100
#define ANY_FACTOR .dimension = DL_DIMENSION_PURE, .low = 0, .high = 100
#define PER_DOUBLING .dimension = DL_DIMENSION_PURE, .low = 0.1, .high = 10
#define COUNTS(most) .dimension = DL_DIMENSION_PURE, .low = 1, .high = most

static const char *const reshards[] = {"yes", "no", NULL};
static const char *const gathered_types[] = {"fp32", "bf16", NULL};
const char *const dl_sharded_names[] = {"none", "optimizer", "gradients", "parameters", NULL};
const char *const dl_schedule_names[DL_SCHEDULES + 1] = {"gpipe", "1f1b", "interleaved",
                                                         "pipedream", "2bw"};

#define KEY(in, key, kind, kept, member, words) \
    .section = in, .name = key, .type = kind, .owner = kept, .offset = member, .help = words
#define TEXT(key, member, words)                                                         \
    {                                                                                    \
        KEY("costs", key, DL_KEY_TEXT, DL_COST_HEAD, offsetof(dl_costs, member), words), \
            .form = "text"                                                               \
    }
#define HEAD(key, range, member, words)                                                         \
    {                                                                                           \
        KEY("costs", key, DL_KEY_INT64, DL_COST_HEAD, offsetof(dl_costs, member), words), range \
    }
#define OP(key, range, need, member, words)                                                   \
    {                                                                                         \
        KEY("op *", key, DL_KEY_OWN, DL_COST_OP, offsetof(dl_op_cost, member), words), range, \
            .group = need                                                                     \
    }
#define LAYER(key, range, member, words)                                                        \
    {                                                                                           \
        KEY("layer *", key, DL_KEY_OWN, DL_COST_LAYER, offsetof(dl_layer_cost, member), words), \
            range                                                                               \
    }
#define SINGLE(in, key, range, need, member, words)                                         \
    {                                                                                       \
        KEY(in, key, DL_KEY_OWN, DL_COST_SINGLE, offsetof(dl_costs, member), words), range, \
            .group = need                                                                   \
    }
#define TRACE(key, kind, member, words) \
    KEY("trace *", key, kind, DL_COST_TRACE, offsetof(dl_cost_trace, member), words)
#define QUANTISE(name, kind)                                                                       \
    SINGLE("quantise " name, "encode_bytes_per_s", RATES, DL_NEED_QUANTISE << kind,                \
           quantise[kind].encode_bytes_per_s, "of encoding, in bytes of the uncompressed vector"), \
        SINGLE("quantise " name, "decode_bytes_per_s", RATES, DL_NEED_QUANTISE << kind,            \
               quantise[kind].decode_bytes_per_s, "of decoding")
#define SERIES(in, key, unit, least, most, looks, words)                                     \
    {                                                                                        \
        KEY(in, key, DL_KEY_OWN, DL_COST_SERIES, 0, words), .dimension = unit, .low = least, \
                                                            .high = most, .form = looks      \
    }

/* clang-format off */
static const dl_key rows[] = {
    {"costs", "schema", .type = DL_KEY_OWN, COUNTS(1), .form = "1", .required = true,
     .owner = DL_COST_SERIES, .help = "version of this format"},
    TEXT("workload", workload, "name of the model"),
    TEXT("precision", precision, "type of the model's numbers: float, double, tf32, fp16"),
    TEXT("device", device, "processor or GPU that was measured; a GPU with its model's name"),
    TEXT("framework", framework,
        "framework of the traced program: PyTorch"),
    HEAD("parameter_bytes", SIZES, parameter_bytes, "size of the trained parameters"),
    HEAD("state_bytes", SIZES, state_bytes, "size of the optimizer's state"),
    HEAD("frozen_bytes", SIZES, frozen_bytes,
         "parameters that are not trained (the base of LoRA), besides parameter_bytes"),
    HEAD("batch_min", COUNTS(INT32_MAX), batch_min, "smallest measured batch of a worker"),
    HEAD("batch_max", COUNTS(INT32_MAX), batch_max, "largest measured batch of a worker"),
    HEAD("accumulate", COUNTS(1000000), accumulate,
         "micro-batches of a step. Batches and times are of one, except updates and [dispatch] "
         "external_ns. Default of [sync] accumulate and [pipeline] micro_batches"),
    HEAD("tensor_ranks", COUNTS(1024), tensor_ranks,
         "GPUs that divide each layer, as tp in [machine] layout: times, parameters and "
         "activations are of one of them"),
    HEAD("context_ranks", COUNTS(1024), context_ranks,
         "the same for each sequence, as cp"),
    HEAD("expert_ranks", COUNTS(4096), expert_ranks,
         "the same for the experts, as ep"),
    HEAD("cores", COUNTS(1024), cores, "cores of the measured machine"),
    {KEY("costs", "overlap", DL_KEY_FLAG, DL_COST_HEAD, offsetof(dl_costs, overlap),
         "gradients are exchanged during the backward pass. Default of [exchange] overlap"),
         .fallback = "no"},
    {KEY("costs", "sharded", DL_KEY_CHOICE, DL_COST_HEAD, offsetof(dl_costs, sharded),
         "what the program's workers divide. Default of [exchange] sharded"),
         .choices = dl_sharded_names,
     .fallback = "none"},
    {KEY("costs", "reshard_after_forward", DL_KEY_FLAG, DL_COST_HEAD,
         offsetof(dl_costs, keeps_parameters), "default of [exchange] reshard_after_forward"),
         .choices = reshards, .fallback = "yes",
     .only = "sharded = parameters"},
    {KEY("costs", "param_dtype", DL_KEY_FLAG, DL_COST_HEAD, offsetof(dl_costs, half_gathers),
         "type in which the program gathers parameters. Default of [exchange] param_dtype"),
         .choices = gathered_types, .fallback = "fp32", .only = "sharded = optimizer, gradients, parameters"},
    {KEY("costs", "half_weights", DL_KEY_FLAG, DL_COST_HEAD, offsetof(dl_costs, half_weights),
         "weights have 16 bits, and the optimizer a copy of parameter_bytes (Megatron)"),
         .fallback = "no"},
    {KEY("costs", "waits", DL_KEY_FLAG, DL_COST_HEAD, offsetof(dl_costs, waits),
         "the program makes a batch, launches its step and waits for its end, as is simulated "
         "unless [machine] ahead, [input] cores or prefetch are given"),
         .fallback = "no"},
    OP("fixed_ns", INTERCEPT, DL_NEED_OPS, fixed_ns, "time of the operation for any batch"),
    OP("per_sample_ns", TIMES, DL_NEED_OPS, per_sample_ns, "additional time per sample"),
    OP("starts_frac", SHARE, 0, starts_frac,
        "share of fixed_ns in starts, ends and gaps of kernels: what each rank's update takes, "
        "however few parameters it updates"),
    OP("flop_per_sample", FLOPS, 0, flop_per_sample,
        "flop per sample, to scale to another GPU"),
    OP("bytes_per_sample", SIZES, 0, bytes_per_sample,
        "memory traffic per sample, to scale to another GPU"),
    LAYER("output_bytes_per_sample", SIZES, output_bytes_per_sample,
        "output to the next layer, and its gradient"),
    LAYER("parameter_bytes", SIZES, parameter_bytes, "the layer's parameters"),
    LAYER("activation_bytes_per_sample", SIZES, activation_bytes_per_sample,
        "activations kept for the backward pass, in place of a part of [gpu_memory]'s"),
    LAYER("working_bytes_per_sample", SIZES, working_bytes_per_sample,
        "peak of temporary data during the layer's passes, besides kept activations; unknown: 0"),
    LAYER("cast_bytes", SIZES, cast_bytes,
        "16-bit copies of weights, from forward to backward pass (autocast)"),
    LAYER("recast_bytes", SIZES, recast_bytes,
        "part of them freed after the forward pass and made again"),
    LAYER("tensor_bytes_per_sample", SIZES, tensor_bytes_per_sample,
        "with tensor_ranks: whole activation that a collective exchanges"),
    LAYER("tensor_collectives_forward", VECTORS, tensor_collectives_forward,
        "the all-reduces of it in a forward pass, or pairs of all-gather and reduce-scatter"),
    LAYER("tensor_collectives_backward", VECTORS, tensor_collectives_backward,
        "those in a backward pass for which the GPU waits"),
    LAYER("tensor_collectives_beside", VECTORS, tensor_collectives_beside,
        "further ones in a backward pass, beside products"),
    LAYER("tensor_beside_ns_per_sample", TIMES, tensor_beside_ns_per_sample,
        "time of these products; the GPU waits for the rest"),
    LAYER("context_bytes_per_sample", SIZES, context_bytes_per_sample,
        "with context_ranks: keys and values of the GPU's part of a sequence, sent to the next "
        "GPU"),
    LAYER("context_forward_ns_per_sample", TIMES, context_forward_ns_per_sample,
        "time of attention beside each of these transfers in a forward pass; the GPU waits for "
        "the rest"),
    LAYER("context_backward_ns_per_sample", TIMES, context_backward_ns_per_sample,
        "the same in a backward pass, where their gradients are sent, too"),
    LAYER("context_forward_again", VECTORS, context_forward_again,
        "forward rings that a recomputing backward pass repeats"),
    LAYER("context_alltoalls", VECTORS, context_alltoalls,
        "all-to-alls of context_bytes_per_sample in a pass, in place of the ring; the GPU waits"),
    LAYER("expert_parameter_bytes", SIZES, expert_parameter_bytes,
        "with expert_ranks: parameters of the GPU's own experts, a part of parameter_bytes"),
    LAYER("expert_bytes_per_sample", SIZES, expert_bytes_per_sample,
        "activations that the GPU distributes in an all-to-all, itself included"),
    LAYER("expert_exchanges_forward", VECTORS, expert_exchanges_forward,
        "these all-to-alls in a forward pass"),
    LAYER("expert_exchanges_backward", VECTORS, expert_exchanges_backward,
        "the same in a backward pass"),
    LAYER("expert_copies", VECTORS, expert_copies,
        "copies of a token in expert_bytes_per_sample, if a GPU or node with several of its "
        "experts gets only one (DeepEP); default: all"),
    LAYER("expert_count", COUNTS(4096), expert_count,
        "with expert_copies: experts of all expert_ranks GPUs"),
    SINGLE("copy", "latency_ns", INTERCEPT, DL_NEED_COPY, copy.latency_ns,
        "latency of a copy by the worker's own core"),
    SINGLE("copy", "bandwidth_bytes_per_s", RATES, DL_NEED_COPY, copy.bandwidth_bytes_per_s,
        "bandwidth of a copy by the worker's own core"),
    SINGLE("copy", "pageable_bytes_per_s", RATES, DL_NEED_PAGEABLE, copy.pageable_bytes_per_s,
        "rate between a GPU and host memory that is not pinned, in each direction"),
    SINGLE("average", "latency_ns", INTERCEPT, DL_NEED_AVERAGE, average.latency_ns,
        "latency with one thread; the time is latency + bytes (vectors / read + 1 / write)"),
    SINGLE("average", "read_bytes_per_s", RATES, DL_NEED_AVERAGE, average.read_bytes_per_s,
        "rate of reading"),
    SINGLE("average", "write_bytes_per_s", RATES, DL_NEED_AVERAGE, average.write_bytes_per_s,
        "rate of writing"),
    SINGLE("update", "latency_ns", INTERCEPT, DL_NEED_UPDATE, update.latency_ns,
        "latency of the server's update, which sums gradients and applies them; the time is as in "
        "[average]"),
    SINGLE("update", "read_bytes_per_s", RATES, DL_NEED_UPDATE, update.read_bytes_per_s, 
            "rate of reading"),
    SINGLE("update", "write_bytes_per_s", RATES, DL_NEED_UPDATE, update.write_bytes_per_s, 
            "rate of writing"),
    SINGLE("update", "optimizer_reads", VECTORS, 0, optimizer_reads,
        "vectors that the server's optimizer reads besides the sum. Default: on a GPU the time of "
        "[op NAME.update]; with an assumed rate 3 (momentum), 4 (Adam); with a given rate, which "
        "includes it, 0"),
    SINGLE("update", "optimizer_writes", VECTORS, 0, optimizer_writes,
        "vectors that the server's optimizer writes; default: parameters and state (momentum: 2, "
        "Adam: 3)"),
    SINGLE("update", "outer_reads", VECTORS, 0, outer_reads,
        "vectors that an outer optimizer reads (DiLoCo, BMUF); default: 5, in two passes"),
    SINGLE("update", "outer_writes", VECTORS, 0, outer_writes,
        "vectors that an outer optimizer writes; default: 2"),
    QUANTISE("fp16", DL_COMPRESS_FP16),
    QUANTISE("1bit", DL_COMPRESS_1BIT),
    QUANTISE("topk", DL_COMPRESS_TOPK),
    QUANTISE("int8", DL_COMPRESS_INT8),
    QUANTISE("fp4", DL_COMPRESS_FP4),
    SINGLE("quantise", "learned_bytes_per_s", RATES, DL_NEED_LEARNED, learned_bytes_per_s,
        "rate at which a core copies parameters, to subtract the last average"),
    SINGLE("shared", "push_bytes_per_s", RATES, 0, shared.push_bytes_per_s,
        "rate of the additional time of a push onto a vector in another core's cache"),
    SINGLE("shared", "average_bytes_per_s", RATES, 0, shared.average_bytes_per_s,
        "the same of an average of such vectors, which [average] then excludes"),
    SINGLE("shared", "pull_bytes_per_s", RATES, 0, shared.pull_bytes_per_s,
        "the same of a pull of a vector that another core has written"),
    SINGLE("memory", "total_bytes_per_s", RATES, DL_NEED_MEMORY, memory_total_bytes_per_s,
        "memory bandwidth of all cores together, reads and writes"),
    SINGLE("sync", "barrier_ns", WAITS, DL_NEED_BARRIER, barrier_ns,
        "spinning barrier, from the last arrival to the release"),
    SINGLE("sync", "wakeup_ns", WAITS, DL_NEED_WAKEUP, wakeup_ns,
        "waking a blocked thread, from the post until it runs"),
    SINGLE("sync", "lock_ns", WAITS, DL_NEED_LOCK, lock_ns, "handing over a spinning lock"),
    SINGLE("sync", "slice_ns", SLICE, DL_NEED_SLICE, slice_ns,
        "time slice of a thread on a core that other threads wait for"),
    SINGLE("dispatch", "serial_ns", ISSUE, DL_NEED_DISPATCH, dispatch.serial_ns,
        "host time of a step before it launches on the first GPU"),
    SINGLE("dispatch", "per_worker_ns", ISSUE, DL_NEED_DISPATCH, dispatch.per_worker_ns,
        "host time to launch the step of one GPU"),
    SINGLE("dispatch", "contention_frac", SHARE, 0, dispatch.contention_frac,
        "fraction by which each further GPU of a process lengthens launches, which wait for one "
        "lock; unknown: 0. With [machine] dispatch = single"),
    SINGLE("dispatch", "external_ns", ISSUE, 0, dispatch.external_ns,
        "time of a step in which a host thread waits for something outside its trace; unknown: 0"),
    SINGLE("dispatch", "launch_ns", WAITS, 0, dispatch.launch_ns,
        "launch on an idle stream, if the program waits for each step's end; unknown: 0"),
    SINGLE("overlap", "slowdown", FACTOR, DL_NEED_OVERLAP, overlap_slowdown,
        "factor on a GPU's compute times while collectives run"),
    SINGLE("generator", "token_ns", TIMES, DL_NEED_GENERATOR, generator.token_ns,
        "a of a replica's speed: each of c requests gets a token every a + b c"),
    SINGLE("generator", "request_token_ns", TIMES, DL_NEED_GENERATOR, generator.request_token_ns,
        "b of a replica's speed"),
    SINGLE("trainer", "fixed_ns", TIMES, 0, trainer.fixed_ns,
        "time of an update that depends neither on tokens nor on GPUs"),
    SINGLE("trainer", "token_gpu_ns", TIMES, 0, trainer.token_gpu_ns,
        "the same per token on one GPU, in place of simulating the trainer's step"),
    SINGLE("trainer", "fixed_frac", SHARE, DL_NEED_SPLIT, trainer.fixed_frac,
        "fraction that more GPUs do not shorten ([generators] train_fixed_frac)"),
    SINGLE("network", "bytes_per_s", RATES, 0, network.bytes_per_s,
        "rate of a node's port, each direction, in place of the machine file's"),
    SINGLE("network", "pair_bytes_per_s", RATES, 0, network.pair_bytes_per_s,
        "maximum rate between two nodes, both directions together"),
    SINGLE("network", "latency_ns", WAITS, 0, network.latency_ns,
        "latency of a message between two nodes, besides their links'"),
    SINGLE("network", "slice_ns", WAITS, 0, network.slice_ns,
        "sender's time for each slice (1 MiB) of a collective's message between nodes: sockets"),
    SINGLE("message", "host_ns", WAITS, 0, message_host_ns,
        "host time of every message of exchange, besides the links' latency: staging, MPI"),
    SINGLE("spread", "gpu_frac", SHARE, 0, gpu_spread_frac,
        "standard deviation of the logarithm of compute times of GPUs of one model"),
    SINGLE("spread", "work_frac", SHARE, 0, work_frac,
        "coefficient of variation of a worker's work in a step; not for split models"),
    SINGLE("spread", "work_max", FACTOR, 0, work_max,
        "maximum of a step's work over the mean; unknown: log-normal"),
    SINGLE("spread", "work_samples", COUNTS(1e9), 0, work_samples,
        "samples of these steps: with b times as many, work_frac is divided by sqrt(b); unknown: "
        "it is for any batch"),
    SINGLE("spread", "board_slowdown", FACTOR, 0, gpu_board_slowdown,
        "factor on compute times when another GPU below the same PCIe switch is in use"),
    SINGLE("spread", "compute_frac", SHARE, 0, compute_spread_frac,
        "as gpu_frac, of a common factor on all compute times, for estimates"),
    SINGLE("spread", "run_frac", SHARE, 0, run_spread_frac,
        "as gpu_frac, of the steps of equal runs; only in intervals"),
    SINGLE("broadcast", "bytes", SIZES, 0, broadcast_bytes,
        "buffers that DistributedDataParallel broadcasts before each forward pass"),
    SINGLE("broadcast", "calls", FACTOR, 0, broadcast_calls,
        "broadcasts, one per number type; for processes on cores; unknown: 1"),
    SINGLE("gloo", "latency_ns", WAITS, DL_NEED_GLOO, gloo.latency_ns,
        "of N processes on cores without [collective allreduce N]: an all-reduce takes 2 (N - 1) "
        "(latency + bytes / bytes_per_s), a broadcast log2 N of these"),
    SINGLE("gloo", "bytes_per_s", RATES, DL_NEED_GLOO, gloo.bytes_per_s, 
            "bandwidth of the same exchange"),
    SINGLE("gloo", "beside_frac", SHARE, DL_NEED_GLOO, gloo.beside_frac,
        "fraction of an all-reduce's time by which a concurrent backward pass is longer"),
    SINGLE("gloo", "ranks_factor", ANY_FACTOR, DL_NEED_OTHER_RANKS, gloo.ranks_factor,
        "factor on exchanges of N processes, if the file has other numbers only: all-reduces grow "
        "with 2 (N - 1), broadcasts with log2 N, calls with N"),
    SINGLE("rpc", "latency_ns", WAITS, DL_NEED_RPC, rpc.latency_ns,
        "of a call of a parameter server; calls by N processes add N (latency + bytes / "
        "bytes_per_s) to a step"),
    SINGLE("rpc", "bytes_per_s", RATES, DL_NEED_RPC, rpc.bytes_per_s,
        "bandwidth of such a call, in bytes of one direction if the other has as many"),
    SINGLE("input", "bytes_per_sample", SIZES, DL_NEED_INPUT, input_bytes_per_sample,
        "size copied to the GPU; required with [op input]"),
    SINGLE("input", "copy_ns", WAITS, 0, input_copy_ns,
        "time to copy a batch to the GPU, besides its bytes' time; on cores, to take it from the "
        "process that made it; unknown: 0"),
    SINGLE("input", "stored_bytes_per_sample", SIZES, 0, stored_bytes_per_sample,
        "in storage, as of a compressed image, for storage_bytes_per_s of the scenario"),
    SINGLE("gpu_memory", "activation_bytes_per_sample", SIZES, DL_NEED_GPU_MEMORY,
        gpu_memory.activation_bytes_per_sample, "activations kept for the backward pass"),
    SINGLE("gpu_memory", "workspace_bytes", SIZES, DL_NEED_GPU_MEMORY, gpu_memory.workspace_bytes,
        "memory of libraries and the driver"),
    SERIES("sharing", "copies_*", DL_DIMENSION_PURE, 1e-3, 1e3, NULL,
        "copies_K: a step with K concurrent copies over one alone; for K workers on a GPU, over K "
        "times one"),
    SINGLE("batch", "per_doubling", PER_DOUBLING, DL_NEED_OTHER_BATCH, per_doubling,
        "factor on all operations but update and bucket for each doubling or halving of the batch "
        "beyond batch_min and batch_max"),
    SERIES("linearity", "batch_*", DL_DIMENSION_PURE, 1e-3, 1e3, NULL,
        "batch_B: time at batch B over that from fixed_ns and per_sample_ns"),
    SERIES("work", "steps", DL_DIMENSION_PURE, 0, 0, "list of factors",
        "work of a step over the mean, equally likely values, in place of [spread] work_frac"),
    SERIES("gradients", "ready_*", DL_DIMENSION_PURE, 0, 0, "SHARE, BYTES",
        "ready_1, ...: fraction of the backward pass, and the bytes of gradients ready by then"),
    SERIES("collective *", "bytes_*", DL_DIMENSION_NS, 0, DL_COLLECTIVE_TIME_MAX_NS, NULL,
        "bytes_SIZE of [collective KIND RANKS]: time of the collective"),
    SERIES("collective *", "nodes", DL_DIMENSION_PURE, 0, 0, "integer",
        "number of nodes of the ranks"),
    SERIES("roundtrip *", "bytes_*", DL_DIMENSION_NS, 0, DL_COLLECTIVE_TIME_MAX_NS, NULL,
        "bytes_SIZE of [roundtrip CALLERS]: time that a call of a parameter server, SIZE each "
        "way, adds to a step"),
    SERIES("pushpull *", "bytes_*", DL_DIMENSION_NS, 0, DL_COLLECTIVE_TIME_MAX_NS, NULL,
        "bytes_SIZE of [pushpull RANKS]: time that a synchronous push, update and pull add to a "
        "step of processes (ps)"),
    SERIES("allreduce_pair *", "bytes_*", DL_DIMENSION_NS, 0, DL_COLLECTIVE_TIME_MAX_NS, NULL,
        "bytes_SIZE of [allreduce_pair RANKS]: of two concurrent all-reduces, SIZE in total"),
    SERIES("allreduce_beside *", "bytes_*", DL_DIMENSION_NS, 0, DL_COLLECTIVE_TIME_MAX_NS, NULL,
        "bytes_SIZE of [allreduce_beside RANKS]: of an all-reduce during the backward pass"),
    SERIES("allreduce_late *", "bytes_*", DL_DIMENSION_NS, 0, DL_COLLECTIVE_TIME_MAX_NS, NULL,
        "bytes_SIZE of [allreduce_late RANKS]: time from the last process's arrival, while the "
        "others wait"),
    SERIES("collective *", "starts", DL_DIMENSION_PURE, 0, 0, "list of factors",
        "factors on the section's times, one per start of the benchmark"),
    SERIES("roundtrip *", "starts", DL_DIMENSION_PURE, 0, 0, "list of factors",
        "factors on the section's times, one per start of the benchmark"),
    SERIES("pushpull *", "starts", DL_DIMENSION_PURE, 0, 0, "list of factors",
        "factors on the section's times, one per start of the benchmark"),
    SERIES("allreduce_pair *", "starts", DL_DIMENSION_PURE, 0, 0, "list of factors",
        "factors on the section's times, one per start of the benchmark"),
    SERIES("allreduce_beside *", "starts", DL_DIMENSION_PURE, 0, 0, "list of factors",
        "factors on the section's times, one per start of the benchmark"),
    SERIES("allreduce_late *", "starts", DL_DIMENSION_PURE, 0, 0, "list of factors",
        "factors on the section's times, one per start of the benchmark"),
    SERIES("machine *", "bytes_per_s", DL_DIMENSION_BYTES_PER_S, 1e3, 1e15, NULL,
        "rate in place of the machine file's: [machine link nvlink2] for its [link nvlink2], "
        "[machine host] for its [host], [machine shm] for its [shm], ..."),
    SERIES("machine *", "duplex_bytes_per_s", DL_DIMENSION_BYTES_PER_S, 1e3, 1e15, NULL,
        "maximum rate of both directions of a link together"),
    SERIES("machine *", "latency_ns", DL_DIMENSION_NS, 0, 3.6e12, NULL, 
            "latency of a link"),
    SERIES("machine *", "memory_bytes_per_s", DL_DIMENSION_BYTES_PER_S, 1e3, 1e15, NULL,
        "memory bandwidth of a socket, or of a GPU ([machine gpu_model NAME])"),
    SERIES("machine *", "root_bytes_per_s", DL_DIMENSION_BYTES_PER_S, 1e3, 1e15, NULL,
        "maximum rate of all devices of a socket together"),
    SERIES("machine *", "server_bytes_per_s", DL_DIMENSION_BYTES_PER_S, 1e3, 1e15, NULL,
        "rate of a server process that serves workers on several nodes, both directions together; "
        "default: no limit"),
    SERIES("machine *", "sum_frac", DL_DIMENSION_PURE, 0, 1, NULL,
        "[machine nvswitch]: fraction of the link's rate at which the crossbar reduces"),
    SERIES("machine *", "launch_ns", DL_DIMENSION_NS, 0, 3.6e12, NULL,
        "[machine protocol NAME]: time to launch a collective"),
    SERIES("machine *", "hop_ns", DL_DIMENSION_NS, 0, 3.6e12, NULL,
        "[machine protocol NAME]: latency of a hop inside a node"),
    SERIES("machine *", "network_hop_ns", DL_DIMENSION_NS, 0, 3.6e12, NULL,
        "[machine protocol NAME]: latency of a hop between nodes"),
    SERIES("machine *", "bandwidth_frac", DL_DIMENSION_PURE, 0, 1, NULL,
        "[machine protocol NAME]: fraction of the links' rates that it reaches"),
    SERIES("machine *", "inside_slowdown", DL_DIMENSION_PURE, 1, 1000, NULL,
        "[machine overlap]: minimum slowdown of computing during collectives inside a node"),
    SERIES("machine *", "first_use_ns", DL_DIMENSION_NS, 0, 3.6e12, NULL,
        "[machine network]: additional time of the run's first exchange"),
    SERIES("machine *", "clock_frac", DL_DIMENSION_PURE, 0.001, 1, NULL,
        "[machine gpu_model NAME]: ratio of the clock under load to the clock of the peak rates"),
    SERIES("exchange_runs", "run_*", DL_DIMENSION_PURE, 0, 0,
        "COPY, AVERAGE, UPDATE or COPY, AVERAGE, UPDATE, SHARED",
        "run_1, ...: times of exchange in one run over the times from latencies and rates"),
    {TRACE("file", DL_KEY_TEXT, file,
       "[trace 1], [trace 2], ...: file name of a trace from which the costs are derived"),
         .form = "text"},
    {TRACE("ranks", DL_KEY_INT64, ranks, "ranks of the traced run"), COUNTS(1e6)},
    {TRACE("rank", DL_KEY_INT64, rank, "rank that was traced, from 0"),
        .dimension = DL_DIMENSION_PURE,
         .low = 0, .high = 1e6},
    {TRACE("batch", DL_KEY_INT64, batch, "samples of a step of the traced rank"), COUNTS(INT32_MAX),
         .required = true},
    {TRACE("stages", DL_KEY_INT64, stages, "its pipeline stages"), COUNTS(1024)},
    {TRACE("schedule", DL_KEY_CHOICE, schedule, "order of the stages' micro-batches"),
         .choices = dl_schedule_names,
     .fallback = "1f1b"},
    {TRACE("shards", DL_KEY_INT64, shards,
       "ranks that share the parameters (fsdp), if others hold copies or divide layers"),
        COUNTS(1e6)},
    {TRACE("allreduces", DL_KEY_FLAG, allreduces,
       "the traced ranks exchange gradients in each step, as in mode allreduce"),
         .fallback = "no"},
    {TRACE("step_ns", DL_KEY_OWN, step_ns, "mean step, shown beside the prediction"), TIMES},
    {TRACE("recording_ns", DL_KEY_OWN, recording_ns,
       "time that recording added to the host's part of the step, which the costs exclude; "
       "unknown: 0"), TIMES},
    SERIES("trace *", "collective_*", DL_DIMENSION_PURE, 0, 0, "NAME, CALLS, BYTES, NS, RANKS",
        "collective_1, ...: collectives that do not exchange gradients: calls, bytes per rank as "
        "NCCL counts them, time on the device with waits, ranks; 0: unknown"),
    SERIES("notes", "note_*", DL_DIMENSION_PURE, 0, 0, "text",
        "note_1, ...: notes of the program that wrote the file, which results repeat"),
    SERIES("noise", "factors_*", DL_DIMENSION_PURE, 0, 0, "list of factors",
        "factors_RUN_COPY_LINE: step times over the expected times, in order"),
    SERIES("noise *", "factors_*", DL_DIMENSION_PURE, 0, 0, "list of factors",
        "factors_RUN_COPY_LINE of [noise BATCH] or [noise BATCH copies K]: step times over the "
        "expected times"),
};
/* clang-format on */
static const char *const made[] = {"collective *",
                                   "roundtrip *",
                                   "pushpull *",
                                   "allreduce_pair *",
                                   "allreduce_beside *",
                                   "allreduce_late *",
                                   "machine *",
                                   "exchange_runs",
                                   "trace *",
                                   "notes",
                                   "noise",
                                   "noise *",
                                   "shared",
                                   NULL};

const dl_keys dl_cost_keys = {rows, sizeof rows / sizeof *rows, NULL, made};
