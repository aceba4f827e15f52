/* Keys of [exchange] of workers on GPUs, each with its field: KEY(type, field, "name", use, ...).
 * The fields are members of dl_gpu_options (gpu.h). The remaining arguments initialise rows of
 * dl_scenario_keys in sim/scenario/keys.c, which defines the macros and choices used here. A bool
 * field is true for the second of its two choices. `use`: the modes in which the key has an effect
 * (dl_key_use in sim/scenario/keys.h). Each includer defines KEY, so this header has no guard. */
/* clang-format off */
KEY(dl_tensors, tensors, "tensors", SERVER, CHOICE(dl_tensors_names), .fallback = "split",
    .help = "tensors (buckets) on shards. split: each over all; round_robin: whole, in turn; "
            "least_loaded: whole, largest first, on the emptiest; large_split: from large_bytes "
            "on split, others in turn")
KEY(int64_t, large_bytes, "large_bytes", SERVER, BYTES(1), .fallback = "4MB",
    .only = "tensors = large_split",
    .help = "smallest tensor that is split (MXNet's default)")
KEY(int64_t, slice_bytes, "slice_bytes", BY_TENSOR, BYTES(0), .fallback = "0",
    .help = "ps, async, ssp: slices in which tensors are sent, summed and fetched; 0: whole")
KEY(bool, sums_on_arrival, "sum", SUMS, EITHER(sums), .fallback = "at_once",
    .help = "ps, softsync, kasync, kbatchasync: the server sums all gradients at once, or each on "
            "arrival")
KEY(dl_fetch, fetch, "fetch", BY_TENSOR, CHOICE(dl_fetch_names), .fallback = "summed",
    .help = "ps, async, ssp: a tensor is fetched once it is summed (summed, layers), once also "
            "the last is pushed (pushed), or once all are summed (after, next_step; in ssp "
            "summed is after, like layers and pushed in a list with ps or async), and awaited by "
            "the end of the step (summed, pushed, after) or by its layer in the next forward pass "
            "(layers, next_step)")
KEY(dl_order, order, "order", BY_TENSOR, CHOICE(dl_order_names), .fallback = "ready",
    .help = "ps, async, ssp: a connection's messages go as they become ready, as the forward pass "
            "needs them, or all together")
KEY(dl_copies, copies, "copies", BY_TENSOR, CHOICE(dl_copies_names), .fallback = "connection",
    .help = "ps, async, ssp: one message at a time on each connection, or of a GPU (copy_threads "
            "at a time)")
KEY(int, copy_threads, "copy_threads", BY_TENSOR, WHOLE(1, 64), .fallback = "1",
    .only = "copies = gpu", .help = "concurrent copies of a GPU; MXNet: 2")
KEY(bool, staged_stops, "staged", STAGED, EITHER(stagings), .fallback = "beside",
    .help = "ps, async, ssp: copies between GPUs through host memory ([machine] peer) run beside "
            "kernels, or alone")
KEY(bool, node_sum, "node_sum", NODE_SUM, FLAG, .fallback = "no",
    .help = "ps: each node sums its GPUs' gradients, then pushes and fetches once")
KEY(dl_quantity, server_bytes_per_s, "server_bytes_per_s", HOST_SERVER, RATE,
    .help = "rate of a server process, both directions together: about 1 GB/s with gRPC or BytePS "
            "over TCP. Default: the machine's, if it serves several nodes")
KEY(dl_fidelity, fidelity, "fidelity", COLLECTIVES, CHOICE(dl_fidelity_names), .fallback = "phase",
    .help = "a collective is one flow per phase, or per chunk")
KEY(int64_t, bucket_bytes, "bucket_bytes", BUCKETS, BYTES(0), .fallback = "0",
    .limits = DL_LIMITS_BUCKETS,
    .help = "bucket of gradients; 0: one for all. Default: [gradients] of the cost file, else 0")
KEY(bool, overlap, "overlap", OVERLAP, FLAG, .fallback = "no", .limits = DL_LIMITS_OVERLAP,
    .help = "allreduce, ps, async, ssp: exchange during the backward pass. Default: [costs] "
            "overlap; async, ssp: no")
KEY(dl_sharded, sharded, "sharded", ON_CORES_TOO, CHOICE(dl_sharded_names), .fallback = "none",
    .elsewhere = dl_sharded_words,
    .help = "allreduce: workers divide the optimizer's state (ZeRO 1), also gradients (2), also "
            "parameters (3, FSDP; then overlap is the default); with the last two each accumulated "
            "micro-batch exchanges; on cores of processes only")
KEY(bool, shards_by_node, "sharded_among", ANY, EITHER(sharers), .fallback = "all",
    .only = "sharded = optimizer",
    .help = "the state is divided among all workers, or among those of each node, which sum "
            "gradients over all and gather in the node (InternEvo's zero1 = 8; Megatron-LM's "
            "num_distributed_optimizer_instances)")
KEY(bool, keeps_parameters, "reshard_after_forward", ON_CORES_TOO, EITHER(reshards),
    .fallback = "yes",
    .only = "sharded = parameters",
    .help = "parameters are gathered before both passes (yes, FULL_SHARD), or before the forward "
            "pass and kept (SHARD_GRAD_OP)")
KEY(dl_dtype, param_dtype, "param_dtype", ANY, CHOICE(dl_dtype_names), .fallback = "auto",
    .only = "sharded = optimizer, gradients, parameters",
    .help = "of gathered and whole parameters. auto: bf16 for a model in fp16, bf16 or fp8, else "
            "fp32")
KEY(dl_dtype, reduce_dtype, "reduce_dtype", ANY, CHOICE(dl_dtype_names), .fallback = "auto",
    .only = "sharded = optimizer, gradients, parameters",
    .help = "of reduced gradients. auto: param_dtype with sharded = parameters, else fp32")
KEY(bool, on_hosts, "collectives", HOSTS, EITHER(reducers), .fallback = "gpus",
    .help = "gradients are reduced on the GPUs or (gloo, torchft) on the hosts, in a ring, "
            "between copies from and to the GPUs; one worker per node, without overlap")
KEY(bool, slows_throughout, "slows", SLOWS, EITHER(slows), .fallback = "transfers",
    .help = "[overlap] slowdown applies while a bucket is exchanged, or from the first one's "
            "start to the last one's end")
KEY(bool, bucket_views, "buckets", REDUCED, EITHER(bucket_kinds), .fallback = "copies",
    .help = "gradients of an overlapping all-reduce are copied into buckets and back, or are "
            "views of them (gradient_as_bucket_view), which halves that time and saves their "
            "memory")
/* clang-format on */
