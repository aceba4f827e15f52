/* Keys of [exchange] of workers on GPUs, each with its field: KEY(type, field, "name", use, ...).
 * The fields are members of dl_gpu_options (gpu.h); the rest are rows of dl_scenario_keys, to whose
 * source (sim/scenario/keys.c) the macros and choices belong: a bool is true for the second of two.
 * `use`: the modes that have a use for the key (dl_key_use in sim/scenario/keys.h). Each includer
 * defines KEY, so this header has no guard. */
/* clang-format off */
KEY(dl_tensors, tensors, "tensors", SERVER, CHOICE(dl_tensors_names), .fallback = "split",
    .help = "how tensors are placed on shards: split: each evenly over all; round_robin: whole, "
            "in turn from the first layer on; least_loaded: whole, the largest first, on the "
            "shard with the fewest bytes; large_split: those of large_bytes or more split, the "
            "others in turn. Tensors are the buckets (bucket_bytes)")
KEY(int64_t, large_bytes, "large_bytes", SERVER, BYTES(1), .fallback = "4MB",
    .only = "tensors = large_split",
    .help = "tensors of at least this size are split; the default is MXNet's")
KEY(int64_t, slice_bytes, "slice_bytes", BY_TENSOR, BYTES(0), .fallback = "0",
    .help = "ps: tensors are sent, summed and fetched in slices of at most this size; 0: whole")
KEY(bool, sums_on_arrival, "sum", SUMS, EITHER(sums), .fallback = "at_once",
    .help = "ps, softsync: the server sums once all gradients of an update have arrived, or adds "
            "each as it arrives")
KEY(dl_fetch, fetch, "fetch", BY_TENSOR, CHOICE(dl_fetch_names), .fallback = "summed",
    .help = "ps: when a tensor is fetched: once it is summed (summed, layers), once it is summed "
            "and the last one pushed (pushed) or once all are summed (after, next_step); and what"
            " waits for it: the end of the step (summed, pushed, after) or its layer in the next "
            "forward pass (layers, next_step)")
KEY(dl_order, order, "order", BY_TENSOR, CHOICE(dl_order_names), .fallback = "ready",
    .help = "ps: which message a connection sends next: the one that was ready first, or that of "
            "the layer needed first; together: no order, all share the links")
KEY(dl_copies, copies, "copies", BY_TENSOR, CHOICE(dl_copies_names), .fallback = "connection",
    .help = "ps: messages that are sent one after another: those of a connection; gpu: all that a"
            " GPU sends, and all between it and host memory (copy_threads at once)")
KEY(int, copy_threads, "copy_threads", BY_TENSOR, WHOLE(1, 64), .fallback = "1",
    .help = "with copies = gpu: copies of a GPU at once; MXNet has two threads for each GPU")
KEY(bool, staged_stops, "staged", BY_TENSOR, EITHER(stagings), .fallback = "beside",
    .help = "ps: a copy between GPUs that the driver makes through host memory ([machine] peer): "
            "beside kernels, or alone, while neither of the two GPUs computes")
KEY(bool, node_sum, "node_sum", NODE_SUM, FLAG, .fallback = "no",
    .help = "ps: each node sums the gradients of its GPUs, then pushes and fetches once")
KEY(dl_quantity, server_bytes_per_s, "server_bytes_per_s", HOST_SERVER, RATE,
    .help = "that the server's process on a node sends and receives together, as the host's "
            "copies limit gRPC and BytePS over TCP: 0.3 to 2 GB/s; of shards in host memory. "
            "Default: the machine's [host] server_bytes_per_s where it serves several nodes")
KEY(dl_fidelity, fidelity, "fidelity", COLLECTIVES, CHOICE(dl_fidelity_names), .fallback = "phase",
    .help = "of collectives: flows of a phase, or of each chunk")
KEY(int64_t, bucket_bytes, "bucket_bytes", BUCKETS, BYTES(0), .fallback = "0",
    .limits = DL_LIMITS_BUCKETS,
    .help = "of collectives, and of ps with overlap; 0: all in one, at most 65536 buckets. "
            "Default: those of [gradients] in the cost file, else 0")
KEY(bool, overlap, "overlap", OVERLAP, FLAG, .fallback = "no", .limits = DL_LIMITS_OVERLAP,
    .help = "allreduce, ps: buckets start during the backward pass. Default: as [costs] overlap "
            "of the cost file says")
KEY(dl_sharded, sharded, "sharded", ANY, CHOICE(dl_sharded_names), .fallback = "none",
    .elsewhere = dl_sharded_words,
    .help = "allreduce on GPUs: what workers divide among themselves in place of each having all "
            "of it: the optimizer's state (ZeRO stage 1; gradients are reduce-scattered, each "
            "updates its part, parameters are gathered), gradients too (stage 2), parameters too "
            "(stage 3, FSDP: those of a bucket are gathered before its forward and its backward "
            "pass; overlap is then the default; accumulated micro-batches each exchange)")
KEY(bool, keeps_parameters, "reshard_after_forward", ANY, EITHER(reshards), .fallback = "yes",
    .only = "sharded = parameters",
    .help = "no: parameters are gathered before the forward pass only, and stay whole until the "
            "backward pass has ended (SHARD_GRAD_OP); yes: FULL_SHARD")
KEY(dl_dtype, param_dtype, "param_dtype", ANY, CHOICE(dl_dtype_names), .fallback = "auto",
    .only = "sharded = optimizer, gradients, parameters",
    .help = "what gathers send; whole parameters are then kept as that. auto: bf16 for a network "
            "([workload] model) in fp16, bf16 or fp8, else fp32")
KEY(dl_dtype, reduce_dtype, "reduce_dtype", ANY, CHOICE(dl_dtype_names), .fallback = "auto",
    .only = "sharded = optimizer, gradients, parameters",
    .help = "what reduce-scatters send. auto: as param_dtype with sharded = parameters (FSDP's "
            "MixedPrecision), else fp32")
KEY(bool, on_hosts, "collectives", ANY, EITHER(reducers), .fallback = "gpus",
    .help = "who reduces; hosts (gloo, torchft): GPUs copy to host memory, the hosts reduce in a "
            "ring, GPUs copy back; one worker on each node, not with overlap")
KEY(bool, slows_throughout, "slows", SLOWS, EITHER(slows), .fallback = "transfers",
    .help = "when [overlap] slowdown of the costs holds: while a bucket is on its way, or from "
            "the start of the first one to the end of the last")
KEY(bool, bucket_views, "buckets", REDUCED, EITHER(bucket_kinds), .fallback = "copies",
    .help = "allreduce that overlaps the backward pass: gradients are copied into buckets and "
            "back ([op NAME.bucket] of the costs), or are views of the buckets "
            "(gradient_as_bucket_view): half of that time")
/* clang-format on */
