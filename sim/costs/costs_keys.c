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
#define COUNTS(most) .dimension = DL_DIMENSION_PURE, .low = 1, .high = most

static const char *const reshards[] = {"yes", "no", NULL};
const char *const dl_sharded_names[] = {"none", "optimizer", "gradients", "parameters", NULL};

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
#define QUANTISE(name, kind)                                                                \
    SINGLE("quantise " name, "encode_bytes_per_s", RATES, DL_NEED_QUANTISE << kind,         \
           quantise[kind].encode_bytes_per_s, "of the vector that becomes such a message"), \
        SINGLE("quantise " name, "decode_bytes_per_s", RATES, DL_NEED_QUANTISE << kind,     \
               quantise[kind].decode_bytes_per_s, "of the vector that it becomes")
#define SERIES(in, key, unit, least, most, looks, words)                                     \
    {                                                                                        \
        KEY(in, key, DL_KEY_OWN, DL_COST_SERIES, 0, words), .dimension = unit, .low = least, \
                                                            .high = most, .form = looks      \
    }

/* clang-format off */
static const dl_key rows[] = {
    {"costs", "schema", .type = DL_KEY_OWN, COUNTS(1), .form = "1", .required = true,
     .owner = DL_COST_SERIES, .help = "version of this format"},
    TEXT("workload", workload, "the model"),
    TEXT("precision", precision, "of its numbers: float, double, tf32, fp16"),
    TEXT("device", device, "the measured processor or GPU, the latter with its model's name"),
    TEXT("framework", framework,
        "of the program whose trace the costs are from: PyTorch"),
    HEAD("parameter_bytes", SIZES, parameter_bytes, "of the model"),
    HEAD("state_bytes", SIZES, state_bytes, "of the optimizer's state"),
    HEAD("frozen_bytes", SIZES, frozen_bytes,
         "of parameters that are not trained, beside parameter_bytes: adapters' base (LoRA)"),
    HEAD("batch_min", COUNTS(INT32_MAX), batch_min, "smallest batch of a worker that was measured"),
    HEAD("batch_max", COUNTS(INT32_MAX), batch_max, "largest one"),
    HEAD("accumulate", COUNTS(1000000), accumulate,
         "micro-batches that the program accumulates in a step; batches and times are of one of "
         "them, but for updates and [dispatch] external_ns. Default of [sync] accumulate"),
    HEAD("tensor_ranks", COUNTS(1024), tensor_ranks,
         "GPUs that divide each layer: times, parameters and activations are of one of them; tp "
         "in [machine] layout must be as many"),
    HEAD("context_ranks", COUNTS(1024), context_ranks,
         "GPUs that divide each sequence: likewise of one of them; cp in [machine] layout must be "
         "as many"),
    HEAD("cores", COUNTS(1024), cores, "of the machine that was measured"),
    {KEY("costs", "overlap", DL_KEY_FLAG, DL_COST_HEAD, offsetof(dl_costs, overlap),
         "the program exchanges gradients during its backward pass: default of [exchange] overlap"),
         .fallback = "no"},
    {KEY("costs", "sharded", DL_KEY_CHOICE, DL_COST_HEAD, offsetof(dl_costs, sharded),
         "the program's workers divide these: default of [exchange] sharded"),
         .choices = dl_sharded_names,
     .fallback = "none"},
    {KEY("costs", "reshard_after_forward", DL_KEY_FLAG, DL_COST_HEAD,
         offsetof(dl_costs, keeps_parameters), "likewise"), .choices = reshards, .fallback = "yes",
     .only = "sharded = parameters"},
    {KEY("costs", "half_weights", DL_KEY_FLAG, DL_COST_HEAD, offsetof(dl_costs, half_weights),
         "weights have 16 bits, and the optimizer a copy of parameter_bytes (Megatron)"),
         .fallback = "no"},
    {KEY("costs", "waits", DL_KEY_FLAG, DL_COST_HEAD, offsetof(dl_costs, waits),
         "the program makes a batch, launches its step and waits for its end, in turn: so does "
         "dlsim unless [machine] ahead, [input] cores or prefetch are given"),
         .fallback = "no"},
    OP("fixed_ns", INTERCEPT, DL_NEED_OPS, fixed_ns, "of the operation, whatever the batch"),
    OP("per_sample_ns", TIMES, DL_NEED_OPS, per_sample_ns, "and for each sample"),
    OP("flop_per_sample", FLOPS, 0, flop_per_sample,
        "floating-point operations, to scale to another GPU"),
    OP("bytes_per_sample", SIZES, 0, bytes_per_sample,
        "of memory that it reads and writes, likewise"),
    LAYER("output_bytes_per_sample", SIZES, output_bytes_per_sample,
        "handed to the next layer, and its gradient back"),
    LAYER("parameter_bytes", SIZES, parameter_bytes, "of the layer"),
    LAYER("activation_bytes_per_sample", SIZES, activation_bytes_per_sample,
        "kept for the backward pass, in place of its share of [gpu_memory]'s"),
    LAYER("working_bytes_per_sample", SIZES, working_bytes_per_sample,
        "at the busiest moment of its passes, beside the activations kept; unknown: 0"),
    LAYER("tensor_bytes_per_sample", SIZES, tensor_bytes_per_sample,
        "with tensor_ranks: the whole activation that a collective among them carries"),
    LAYER("tensor_collectives_forward", VECTORS, tensor_collectives_forward,
        "with tensor_ranks: all-reduces of it in a forward pass, or pairs of all-gather and "
        "reduce-scatter"),
    LAYER("tensor_collectives_backward", VECTORS, tensor_collectives_backward,
        "and in a backward pass, waited for"),
    LAYER("tensor_collectives_beside", VECTORS, tensor_collectives_beside,
        "more of them in a backward pass, beside products"),
    LAYER("tensor_beside_ns_per_sample", TIMES, tensor_beside_ns_per_sample,
        "of these products; longer collectives are waited for"),
    LAYER("context_bytes_per_sample", SIZES, context_bytes_per_sample,
        "with context_ranks: keys and values of the GPU's part of a sequence, sent to the next GPU"),
    LAYER("context_forward_ns_per_sample", TIMES, context_forward_ns_per_sample,
        "of attention beside each of these hops; a longer hop is waited for"),
    LAYER("context_backward_ns_per_sample", TIMES, context_backward_ns_per_sample,
        "and in a backward pass, where gradients of keys and values go around too"),
    LAYER("context_forward_again", VECTORS, context_forward_again,
        "forward rings of a backward pass, which computes attention again"),
    SINGLE("copy", "latency_ns", INTERCEPT, DL_NEED_COPY, copy.latency_ns,
        "of a copy on the worker's own core"),
    SINGLE("copy", "bandwidth_bytes_per_s", RATES, DL_NEED_COPY, copy.bandwidth_bytes_per_s,
        "of it"),
    SINGLE("copy", "pageable_bytes_per_s", RATES, DL_NEED_PAGEABLE, copy.pageable_bytes_per_s,
        "between a GPU and host memory that is not pinned, each direction"),
    SINGLE("average", "latency_ns", INTERCEPT, DL_NEED_AVERAGE, average.latency_ns,
        "averaging with one thread: latency + bytes (vectors / read + 1 / write)"),
    SINGLE("average", "read_bytes_per_s", RATES, DL_NEED_AVERAGE, average.read_bytes_per_s,
        "of it"),
    SINGLE("average", "write_bytes_per_s", RATES, DL_NEED_AVERAGE, average.write_bytes_per_s,
        "of it"),
    SINGLE("update", "latency_ns", INTERCEPT, DL_NEED_UPDATE, update.latency_ns,
        "the server's update, likewise: gradients summed and applied"),
    SINGLE("update", "read_bytes_per_s", RATES, DL_NEED_UPDATE, update.read_bytes_per_s, "of it"),
    SINGLE("update", "write_bytes_per_s", RATES, DL_NEED_UPDATE, update.write_bytes_per_s, "of it"),
    SINGLE("update", "optimizer_reads", VECTORS, 0, optimizer_reads,
        "vectors that the server's optimizer reads after the sum; default: on a GPU it takes as "
        "long as [op NAME.update], at an assumed rate sum, parameters and [costs] state_bytes "
        "(momentum: 3, Adam: 4), at a given rate, which includes it, 0"),
    SINGLE("update", "optimizer_writes", VECTORS, 0, optimizer_writes,
        "vectors that it writes; default: parameters and state (momentum: 2, Adam: 3)"),
    SINGLE("update", "outer_reads", VECTORS, 0, outer_reads,
        "vectors that an outer optimizer reads (DiLoCo, BMUF); default: 5, in two passes"),
    SINGLE("update", "outer_writes", VECTORS, 0, outer_writes,
        "vectors that it writes; default: 2"),
    QUANTISE("fp16", DL_COMPRESS_FP16),
    QUANTISE("1bit", DL_COMPRESS_1BIT),
    QUANTISE("topk", DL_COMPRESS_TOPK),
    QUANTISE("int8", DL_COMPRESS_INT8),
    QUANTISE("fp4", DL_COMPRESS_FP4),
    SINGLE("quantise", "learned_bytes_per_s", RATES, DL_NEED_LEARNED, learned_bytes_per_s,
        "of parameters that a core copies, to subtract the last average"),
    SINGLE("shared", "push_bytes_per_s", RATES, 0, shared.push_bytes_per_s,
        "extra time of a push onto a vector in another core's cache"),
    SINGLE("shared", "average_bytes_per_s", RATES, 0, shared.average_bytes_per_s,
        "likewise an average, then no part of [average]"),
    SINGLE("shared", "pull_bytes_per_s", RATES, 0, shared.pull_bytes_per_s,
        "likewise a pull of a vector that another core has written"),
    SINGLE("memory", "total_bytes_per_s", RATES, DL_NEED_MEMORY, memory_total_bytes_per_s,
        "traffic, read and written, of all cores at once"),
    SINGLE("sync", "barrier_ns", WAITS, DL_NEED_BARRIER, barrier_ns,
        "spinning barrier: last arrival to release"),
    SINGLE("sync", "wakeup_ns", WAITS, DL_NEED_WAKEUP, wakeup_ns,
        "of a blocked thread, from post to running"),
    SINGLE("sync", "lock_ns", WAITS, DL_NEED_LOCK, lock_ns, "hand-over of a spinning lock"),
    SINGLE("sync", "slice_ns", SLICE, DL_NEED_SLICE, slice_ns,
        "for which a thread keeps a core that others want too"),
    SINGLE("dispatch", "serial_ns", ISSUE, DL_NEED_DISPATCH, dispatch.serial_ns,
        "host time of a step before the first GPU is given anything"),
    SINGLE("dispatch", "per_worker_ns", ISSUE, DL_NEED_DISPATCH, dispatch.per_worker_ns,
        "to issue one GPU's step"),
    SINGLE("dispatch", "contention_frac", SHARE, 0, dispatch.contention_frac,
        "by which each further GPU of a process makes per_worker_ns longer: launches wait for one "
        "lock; unknown: 0. With [machine] dispatch = single"),
    SINGLE("dispatch", "external_ns", ISSUE, 0, dispatch.external_ns,
        "of a step in which a host thread waits for something outside its trace, the same for any "
        "number of GPUs; unknown: 0"),
    SINGLE("dispatch", "launch_ns", WAITS, 0, dispatch.launch_ns,
        "of one operation on an idle stream, where the program waits for each step's end; "
        "unknown: 0"),
    SINGLE("overlap", "slowdown", FACTOR, DL_NEED_OVERLAP, overlap_slowdown,
        "factor on a GPU's compute while collectives run beside it"),
    SINGLE("generator", "token_ns", TIMES, DL_NEED_GENERATOR, generator.token_ns,
        "a of a replica: with c requests each gets a token every a + b c"),
    SINGLE("generator", "request_token_ns", TIMES, DL_NEED_GENERATOR, generator.request_token_ns,
        "b of that"),
    SINGLE("trainer", "fixed_ns", TIMES, 0, trainer.fixed_ns,
        "of an update of reinforcement learning, whatever its tokens and GPUs"),
    SINGLE("trainer", "token_gpu_ns", TIMES, 0, trainer.token_gpu_ns,
        "for each of its tokens, on one GPU, in place of simulating the trainer's step"),
    SINGLE("trainer", "fixed_frac", SHARE, DL_NEED_SPLIT, trainer.fixed_frac,
        "as [generators] train_fixed_frac"),
    SINGLE("network", "bytes_per_s", RATES, 0, network.bytes_per_s,
        "of a node's port, each direction, in place of the machine file's"),
    SINGLE("network", "pair_bytes_per_s", RATES, 0, network.pair_bytes_per_s,
        "between two nodes, both directions together"),
    SINGLE("network", "latency_ns", WAITS, 0, network.latency_ns,
        "of a message between two nodes, beside their own links'"),
    SINGLE("network", "slice_ns", WAITS, 0, network.slice_ns,
        "of each slice (1 MiB) of a collective's message between nodes, its sender's time: "
        "sockets"),
    SINGLE("message", "host_ns", WAITS, 0, message_host_ns,
        "of a message of exchange anywhere, beside the links': staging, MPI"),
    SINGLE("spread", "gpu_frac", SHARE, 0, gpu_spread_frac,
        "standard deviation of the logarithm of compute times of GPUs of one model"),
    SINGLE("spread", "work_frac", SHARE, 0, work_frac,
        "coefficient of variation of a worker's work in a step: unlike samples; not where a model "
        "is split"),
    SINGLE("spread", "work_max", FACTOR, 0, work_max,
        "most work of a step over the mean; unknown: lognormal"),
    SINGLE("spread", "work_samples", COUNTS(1e9), 0, work_samples,
        "samples of these steps: work of b times as many differs by 1/sqrt(b) as much; unknown: "
        "any batch alike"),
    SINGLE("spread", "board_slowdown", FACTOR, 0, gpu_board_slowdown,
        "factor on compute when another GPU below its PCIe switch is used too"),
    SINGLE("spread", "compute_frac", SHARE, 0, compute_spread_frac,
        "standard deviation of the logarithm of a factor on all compute, of estimates"),
    SINGLE("broadcast", "bytes", SIZES, 0, broadcast_bytes,
        "of buffers that DistributedDataParallel broadcasts before each forward pass"),
    SINGLE("broadcast", "calls", FACTOR, 0, broadcast_calls,
        "broadcasts of these, one for each number type; processes on cores; unknown: 1"),
    SINGLE("gloo", "latency_ns", WAITS, DL_NEED_GLOO, gloo.latency_ns,
        "processes on cores, without [collective allreduce N]: an all-reduce of N adds 2 (N - 1) "
        "(latency + bytes / bytes_per_s) to a step, a broadcast log2 N of these"),
    SINGLE("gloo", "bytes_per_s", RATES, DL_NEED_GLOO, gloo.bytes_per_s, "of it"),
    SINGLE("gloo", "beside_frac", SHARE, DL_NEED_GLOO, gloo.beside_frac,
        "share of its time that an all-reduce adds to a backward pass around it"),
    SINGLE("gloo", "ranks_factor", ANY_FACTOR, DL_NEED_OTHER_RANKS, gloo.ranks_factor,
        "on exchanges of N processes, where the file has other numbers only: all-reduces grow "
        "with 2 (N - 1), broadcasts with log2 N, calls with N"),
    SINGLE("rpc", "latency_ns", WAITS, DL_NEED_RPC, rpc.latency_ns,
        "likewise: a call of a parameter server by each of N processes adds "
        "N (latency + bytes / bytes_per_s)"),
    SINGLE("rpc", "bytes_per_s", RATES, DL_NEED_RPC, rpc.bytes_per_s,
        "of it; the bytes of one direction, with as many back"),
    SINGLE("input", "bytes_per_sample", SIZES, DL_NEED_INPUT, input_bytes_per_sample,
        "copied to the GPU; needed if there is an [op input]"),
    SINGLE("input", "copy_ns", WAITS, 0, input_copy_ns,
        "of copying a step's batch to the GPU, beside its bytes; on cores, of taking it from the "
        "process that made it; unknown: 0"),
    SINGLE("input", "stored_bytes_per_sample", SIZES, 0, stored_bytes_per_sample,
        "of a sample in storage, as a compressed image; counts with [input] storage_bytes_per_s of "
        "the scenario"),
    SINGLE("gpu_memory", "activation_bytes_per_sample", SIZES, DL_NEED_GPU_MEMORY,
        gpu_memory.activation_bytes_per_sample, "kept for the backward pass"),
    SINGLE("gpu_memory", "workspace_bytes", SIZES, DL_NEED_GPU_MEMORY, gpu_memory.workspace_bytes,
        "of libraries and the driver"),
    SERIES("sharing", "copies_*", DL_DIMENSION_PURE, 1e-3, 1e3, NULL,
        "copies_K: a step's time with K copies at once over its time alone; of K workers on a "
        "GPU, over their time in turn"),
    SERIES("linearity", "batch_*", DL_DIMENSION_PURE, 1e-3, 1e3, NULL,
        "batch_B: time of all operations at batch B over that of their lines"),
    SERIES("work", "steps", DL_DIMENSION_PURE, 0, 0, "list of factors",
        "a worker's work in a step over the mean, equally likely, in place of [spread] work_frac "
        "(dlcal fit)"),
    SERIES("gradients", "ready_*", DL_DIMENSION_PURE, 0, 0, "SHARE, BYTES",
        "ready_1, ready_2, ...: share of the backward pass, and the bytes of gradients "
        "ready by then"),
    SERIES("collective *", "bytes_*", DL_DIMENSION_NS, 0, DL_COLLECTIVE_TIME_MAX_NS, NULL,
        "bytes_SIZE of [collective KIND RANKS]: its time"),
    SERIES("collective *", "nodes", DL_DIMENSION_PURE, 0, 0, "integer",
        "that the ranks are on"),
    SERIES("roundtrip *", "bytes_*", DL_DIMENSION_NS, 0, DL_COLLECTIVE_TIME_MAX_NS, NULL,
        "bytes_SIZE of [roundtrip CALLERS]: time that a call to a parameter server, with SIZE "
        "bytes each way, adds to a step"),
    SERIES("pushpull *", "bytes_*", DL_DIMENSION_NS, 0, DL_COLLECTIVE_TIME_MAX_NS, NULL,
        "bytes_SIZE of [pushpull RANKS]: time that a push to a synchronous server, its update "
        "and the pull add to a step of processes (ps)"),
    SERIES("allreduce_pair *", "bytes_*", DL_DIMENSION_NS, 0, DL_COLLECTIVE_TIME_MAX_NS, NULL,
        "bytes_SIZE of [allreduce_pair RANKS]: time that two all-reduces at once, of SIZE bytes in "
        "total, add to a step"),
    SERIES("allreduce_beside *", "bytes_*", DL_DIMENSION_NS, 0, DL_COLLECTIVE_TIME_MAX_NS, NULL,
        "bytes_SIZE of [allreduce_beside RANKS]: time that an all-reduce during the backward pass "
        "adds to a step"),
    SERIES("allreduce_late *", "bytes_*", DL_DIMENSION_NS, 0, DL_COLLECTIVE_TIME_MAX_NS, NULL,
        "bytes_SIZE of [allreduce_late RANKS]: an all-reduce from the last process on, where the "
        "others wait"),
    SERIES("collective *", "starts", DL_DIMENSION_PURE, 0, 0, "list of factors",
        "on its times, one for each start of the benchmark's processes"),
    SERIES("roundtrip *", "starts", DL_DIMENSION_PURE, 0, 0, "list of factors",
        "on its times, one for each start of the benchmark's processes"),
    SERIES("pushpull *", "starts", DL_DIMENSION_PURE, 0, 0, "list of factors",
        "on its times, one for each start of the benchmark's processes"),
    SERIES("allreduce_pair *", "starts", DL_DIMENSION_PURE, 0, 0, "list of factors",
        "on its times, one for each start of the benchmark's processes"),
    SERIES("allreduce_beside *", "starts", DL_DIMENSION_PURE, 0, 0, "list of factors",
        "on its times, one for each start of the benchmark's processes"),
    SERIES("allreduce_late *", "starts", DL_DIMENSION_PURE, 0, 0, "list of factors",
        "on its times, one for each start of the benchmark's processes"),
    SERIES("machine *", "bytes_per_s", DL_DIMENSION_BYTES_PER_S, 1e3, 1e15, NULL,
        "in place of the machine file's: [machine link nvlink2] of its [link nvlink2], [machine "
        "host] of its [host], [machine shm] of its [shm], ..."),
    SERIES("machine *", "duplex_bytes_per_s", DL_DIMENSION_BYTES_PER_S, 1e3, 1e15, NULL,
        "likewise: both directions of a link together"),
    SERIES("machine *", "latency_ns", DL_DIMENSION_NS, 0, 3.6e12, NULL, "likewise: of a link"),
    SERIES("machine *", "memory_bytes_per_s", DL_DIMENSION_BYTES_PER_S, 1e3, 1e15, NULL,
        "likewise: of a socket's memory, or [machine gpu_model NAME]: of a GPU's"),
    SERIES("machine *", "root_bytes_per_s", DL_DIMENSION_BYTES_PER_S, 1e3, 1e15, NULL,
        "likewise: all devices of a socket"),
    SERIES("machine *", "server_bytes_per_s", DL_DIMENSION_BYTES_PER_S, 1e3, 1e15, NULL,
        "likewise: of a process that serves several nodes"),
    SERIES("machine *", "sum_frac", DL_DIMENSION_PURE, 0, 1, NULL,
        "[machine nvswitch]: part of the link's rate at which it sums"),
    SERIES("machine *", "launch_ns", DL_DIMENSION_NS, 0, 3.6e12, NULL,
        "[machine protocol NAME]: of a call of the collectives library"),
    SERIES("machine *", "hop_ns", DL_DIMENSION_NS, 0, 3.6e12, NULL,
        "likewise: of a hop inside a node"),
    SERIES("machine *", "network_hop_ns", DL_DIMENSION_NS, 0, 3.6e12, NULL,
        "likewise: of a hop between nodes"),
    SERIES("machine *", "bandwidth_frac", DL_DIMENSION_PURE, 0, 1, NULL,
        "likewise: part of the links' rates that it reaches"),
    SERIES("machine *", "inside_slowdown", DL_DIMENSION_PURE, 1, 1000, NULL,
        "[machine overlap]: of computing beside collectives inside the node"),
    SERIES("machine *", "first_use_ns", DL_DIMENSION_NS, 0, 3.6e12, NULL,
        "[machine network]: of the run's first exchange, besides"),
    SERIES("machine *", "clock_frac", DL_DIMENSION_PURE, 0.001, 1, NULL,
        "[machine gpu_model NAME]: clock under load over that of the peak rates"),
    SERIES("exchange_runs", "run_*", DL_DIMENSION_PURE, 0, 0,
        "COPY, AVERAGE, UPDATE or COPY, AVERAGE, UPDATE, SHARED",
        "run_1, ...: times of exchange in one run over those of the lines"),
    {TRACE("file", DL_KEY_TEXT, file, "[trace 1], [trace 2], ...: a trace that the costs are from"),
         .form = "text"},
    {TRACE("ranks", DL_KEY_INT64, ranks, "of the traced run"), COUNTS(1e6)},
    {TRACE("rank", DL_KEY_INT64, rank, "that was traced"), .dimension = DL_DIMENSION_PURE,
         .low = 0, .high = 1e6},
    {TRACE("batch", DL_KEY_INT64, batch, "samples of a step of that rank"), COUNTS(INT32_MAX),
         .required = true},
    {TRACE("allreduces", DL_KEY_FLAG, allreduces, "its ranks exchange gradients in each step, as "
         "mode allreduce does"),
         .fallback = "no"},
    {TRACE("step_ns", DL_KEY_OWN, step_ns, "its mean step, which dlsim shows beside its "
                                           "prediction"), TIMES},
    {TRACE("recording_ns", DL_KEY_OWN, recording_ns, "that recording added to the host's part, "
         "and the costs are without; unknown: nothing"), TIMES},
    SERIES("trace *", "collective_*", DL_DIMENSION_PURE, 0, 0, "NAME, CALLS, BYTES, NS, RANKS",
        "collective_1, ...: collectives of a step beside the exchange of gradients: calls, bytes "
        "of a rank as NCCL counts them, time on the device with waits, ranks; 0: unknown"),
    SERIES("notes", "note_*", DL_DIMENSION_PURE, 0, 0, "text",
        "note_1, ...: of the program that wrote the file; results repeat it"),
    SERIES("noise", "factors_*", DL_DIMENSION_PURE, 0, 0, "list of factors",
        "factors_RUN_COPY_LINE: step times over the expected ones, in order"),
    SERIES("noise *", "factors_*", DL_DIMENSION_PURE, 0, 0, "list of factors",
        "the same for [noise BATCH] or [noise BATCH copies K]"),
};
/* clang-format on */
const dl_keys dl_cost_keys = {rows, sizeof rows / sizeof *rows, NULL};
