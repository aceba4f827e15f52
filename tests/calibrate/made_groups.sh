# shellcheck shell=bash
# Generates a Kineto trace of one rank of a job with several process groups (sourced by tests).
#
#   made_groups KIND [NAME=VALUE...]   to standard output
#
# KIND  fsdp   every layer's parameters are gathered before its forward and its backward pass, one
#              layer ahead, and its gradients reduce-scattered, among shards ranks; with copies > 1
#              (HSDP) the parts are then all-reduced among the ranks that hold the same part
#       stage  tp ranks divide the layers and sum activations twice in each pass of a layer, with
#              sequence = 1 by a gather and a reduce-scatter; pp stages exchange activations of micro micro-batches by 1F1B, with
#              gpipe = 1 by GPipe, all as fast as this one;
#              dp ranks sum gradients after the last backward pass
#
# Fields and names are those that PyTorch 2.7 writes (torch/csrc/profiler/util.cpp,
# ProcessGroupNCCL.cpp); streams wait for one another by events whose identity is not recorded.
# Kernels start when their stream is free, the events that they wait for have occurred, and the host
# has launched them. Variables, times in us: see BEGIN.
made_groups() {
    local kind=$1
    shift
    awk -v kind="$kind" "${@/#/-v}" '
function arg(name, value) { return sprintf(",\"%s\":%s", name, value) }
function text(name, value) { return arg(name, "\"" value "\"") }
function emit(cat, name, start, dur, pid, tid, args) {
    printf "{\"ph\":\"X\",\"cat\":\"%s\",\"name\":\"%s\",\"pid\":%s,\"tid\":%s,\"ts\":%.3f,\"dur\":%.3f,\"args\":{%s}},\n",
        cat, name, pid, tid, start, dur, substr(args, 2)
}
function call(name, dur) { correlation++; emit("cuda_runtime", name, host, dur, 9, 9, arg("correlation", correlation)); host += dur + 0.5 }
# Launches a kernel that may not start before `after`; returns its end.
function launch(name, stream, dur, after,    start) {
    call("cudaLaunchKernel", 4)
    start = host + 3
    if (free[stream] > start) start = free[stream]
    if (after > start) start = after
    emit("kernel", name, start, dur, 0, stream, arg("device", 0) arg("stream", stream) arg("correlation", correlation))
    return free[stream] = start + dur
}
function max(a, b) { return a > b ? a : b }
function waits(stream) { call("cudaEventRecord", 1); call("cudaStreamWaitEvent", 1) } # of the next launch
# Ranks first, first + step, ...; of a call, more than 30 are cut.
function list(first, step, count, whole,    i, l) {
    for (i = 0; i < count; i++) {
        if (!whole && count > 30 && i == 29) { l = l ", ..., " first + (count - 1) * step; break }
        l = l (i > 0 ? ", " : "") first + i * step
    }
    return "[" l "]"
}
function group(number, description, first, step, count) {
    name_of[number] = number; about[number] = description; size[number] = count
    first_of[number] = first; step_of[number] = step
    if (count > 1) config = config sprintf("%s{\"pg_name\": \"%d\", \"pg_desc\": \"%s\", \"pg_size\": %d, \"ranks\": %s}",
        config != "" ? ", " : "", number, description, count, list(first, step, count, 1))
}
function parameters(collective, g, in_numbers, out_numbers, type, place, more) {
    emit("cpu_op", "record_param_comms", host, 3, 9, 9, text("Collective name", collective) text("dtype", type) \
        arg("In msg nelems", in_numbers) arg("Out msg nelems", out_numbers) arg("Group size", size[g]) \
        text("Process Group Name", name_of[g]) text("Process Group Description", about[g]) \
        text("Process Group Ranks", list(first_of[g], step_of[g], size[g], 0)) arg("Rank", place) more)
    host += 0.5
}
function place(g) { return (rank - first_of[g]) / step_of[g] }
# A ring among size[g] ranks: bytes of all parts, rounds over the links.
function ring(bytes, g, rounds) { return size[g] < 2 ? 0 : latency + rounds * (size[g] - 1) / size[g] * bytes / rate[g] }
function gather(g, numbers, stream, after) {
    parameters("_allgather_base", g, numbers / size[g], numbers, weights, place(g), "")
    return launch("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", stream, ring(numbers * bytes_of[weights], g, 1), after)
}
function scatter(g, numbers, type, stream, after) {
    parameters("_reduce_scatter_base", g, numbers, numbers / size[g], type, place(g), "")
    return launch("ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", stream, ring(numbers * bytes_of[type], g, 1), after)
}
function reduce(g, numbers, type, stream, after) {
    parameters("allreduce", g, numbers, numbers, type, place(g), "")
    return launch("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", stream, ring(numbers * bytes_of[type], g, 2), after)
}
function autograd() { emit("cpu_op", "autograd::engine::evaluate_function: MmBackward0", host, 5, 9, 9, "") }
function update(numbers) {
    emit("cpu_op", "Optimizer.step#AdamW.step", host, 20, 9, 9, "")
    launch("multi_tensor_apply_kernel_adam", 7, numbers * update_ns / 1000, 0)
}

function fsdp_step(    l, gathered, done, reduced) {
    for (l = 0; l < layers; l++) {
        waits(); gathered[l] = gather(2, numbers, 20, l > 1 ? done[l - 2] : 0)
        waits(); done[l] = launch("sgemm_forward", 7, forward, gathered[l])
    }
    for (l = layers - 1; l >= 0; l--) {
        if (l == layers - 1) { autograd(); waits(); gathered[l] = gather(2, numbers, 20, done[l]) }
        if (l > 0) { autograd(); waits(); gathered[l - 1] = gather(2, numbers, 20, l < layers - 1 ? done[l + 1] : 0) }
        autograd(); waits()
        done[l] = launch("sgemm_backward", 7, 2 * forward, gathered[l])
        autograd(); waits(); reduced = scatter(2, numbers, sums, 24, done[l])
        if (copies > 1) { autograd(); waits(); reduced = reduce(3, numbers / shards, sums, 28, reduced) }
    }
    waits(); free[7] = max(free[7], reduced)
    update(layers * numbers / shards)
}

# One pass of this stage; collectives of divided layers are on the critical path.
function pass(backward, after,    l, k, end) {
    end = after
    for (l = 0; l < layers; l++) for (k = 0; k < 2; k++) {
        if (sequence) {
            if (backward) autograd()
            waits(); end = gather(2, samples * tokens * width, 20, end); waits(); free[7] = max(free[7], end)
        }
        if (backward) autograd()
        end = launch(backward ? "sgemm_backward" : "sgemm_forward", 7, (backward ? 2 : 1) * forward / 2, end)
        if (tp < 2) continue
        if (backward) autograd()
        waits()
        end = sequence ? scatter(2, samples * tokens * width, weights, 20, end) : reduce(2, samples * tokens * width, weights, 20, end)
        waits(); free[7] = max(free[7], end)
    }
    return end
}
function pass_us(backward) { return layers * ((backward ? 2 : 1) * forward + (tp > 1 ? 2 * ring(samples * tokens * width * bytes_of[weights], 2, 2) : 0)) }
# Ends of the passes of all stages under 1F1B, from 0: end_of[stage, backward, micro-batch].
function schedule(    s, i, n, b, k, t, changed, at) {
    delete end_of
    for (changed = 1; changed;) {
        changed = 0
        for (s = 0; s < pp; s++) {
            at = 0
            for (i = 0; i < 2 * micro; i++) {
                b = is_backward(s, i); k = number_of(s, i)
                t = at
                if (!b && s > 0) t = max(t, end_of[s - 1, 0, k] + crossing)
                if (b && s < pp - 1) t = max(t, end_of[s + 1, 1, k] + crossing)
                at = t + pass_us(b)
                if (end_of[s, b, k] != at) { end_of[s, b, k] = at; changed = 1 }
            }
        }
    }
}
function ahead(s) { return !gpipe && pp - 1 - s < micro ? pp - 1 - s : micro }
function is_backward(s, i) { return i < ahead(s) ? 0 : i < 2 * micro - ahead(s) ? (i - ahead(s)) % 2 : 1 }
function number_of(s, i,    b, n, j) { b = is_backward(s, i); n = -1; for (j = 0; j <= i; j++) n += is_backward(s, j) == b; return n }
function point(collective, peer, start, end,    other) {
    other = first_of[3] + peer * step_of[3]
    parameters(collective, 3, samples * tokens * width, samples * tokens * width, weights, peer, arg(collective == "send" ? "Dst Rank" : "Src Rank", other))
    call("cudaLaunchKernel", 4)
    start = max(max(start, host + 3), free[32 + peer])
    end = max(end, start + 1)
    emit("kernel", "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", start, end - start, 0, 32 + peer,
        arg("device", 0) arg("stream", 32 + peer) arg("correlation", correlation))
    return free[32 + peer] = end
}
function stage_step(    i, b, k, end, from) {
    schedule()
    from = host + 60
    for (i = 0; i < 2 * micro; i++) {
        b = is_backward(stage, i); k = number_of(stage, i); end = from
        if (b) autograd()
        if (!b && stage > 0) end = point("recv", stage - 1, 0, from + end_of[stage - 1, 0, k] + crossing)
        if (b && stage < pp - 1) end = point("recv", stage + 1, 0, from + end_of[stage + 1, 1, k] + crossing)
        waits()
        end = pass(b, end)
        if (b && stage > 0) autograd()
        if (!b && stage < pp - 1) { waits(); point("send", stage + 1, end, end + crossing) }
        if (b && stage > 0) { waits(); point("send", stage - 1, end, end + crossing) }
    }
    autograd(); waits(); end = reduce(4, layers * numbers, sums, 24, end)
    waits(); free[7] = max(free[7], end)
    if (pp > 1) { # the norm of all gradients: waits for the first stage
        parameters("allreduce", 5, 1, 1, "Float", place(5), "")
        end = launch("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 36,
            max(latency, from + end_of[0, 1, micro - 1] + ring(layers * numbers * bytes_of[sums], 4, 2) - free[7]), free[7])
        waits(); free[7] = max(free[7], end)
    }
    update(layers * numbers)
}

BEGIN {
    if (layers == "") layers = 8
    if (numbers == "") numbers = 20e6      # parameters of a layer on this rank, gathered
    if (forward == "") forward = 1500      # of a layer; the backward pass takes twice as long
    if (shards == "") shards = 8
    if (copies == "") copies = 1
    if (tp == "") tp = 1
    if (pp == "") pp = 1
    if (dp == "") dp = 1
    if (stage == "") stage = 0
    if (micro == "") micro = 1
    if (sequence == "") sequence = 0
    if (gpipe == "") gpipe = 0
    if (samples == "") samples = 4         # of a micro-batch
    if (tokens == "") tokens = 2048
    if (width == "") width = 4096
    if (crossing == "") crossing = 700
    if (latency == "") latency = 20
    if (inside == "") inside = 200e3       # bytes/us that a ring moves within a node
    if (outside == "") outside = 40e3      # and between nodes
    if (weights == "") weights = "BFloat16"
    if (sums == "") sums = "Float"
    if (update_ns == "") update_ns = 0.02  # per parameter
    if (steps == "") steps = 3
    if (batch_of == "") batch_of = samples
    bytes_of["BFloat16"] = 2; bytes_of["Float"] = 4
    rank = kind == "fsdp" ? 0 : stage * tp * dp
    world = kind == "fsdp" ? shards * copies : tp * pp * dp
    group(0, "default_pg", 0, 1, world)
    if (kind == "fsdp") {
        group(2, copies > 1 ? "mesh_shard" : "mesh_dp", 0, 1, shards)
        group(3, "mesh_replicate", 0, shards, copies)
        rate[2] = shards <= 8 ? inside : outside; rate[3] = outside
    } else {
        group(2, "TENSOR_MODEL_PARALLEL_GROUP", rank, 1, tp)
        group(3, "PIPELINE_MODEL_PARALLEL_GROUP", 0, tp * dp, pp)
        group(4, "DATA_PARALLEL_GROUP", rank, tp, dp)
        group(5, "MODEL_PARALLEL_GROUP", 0, 1, pp > 1 ? tp * dp * pp : 1)
        rate[2] = inside; rate[4] = outside
    }
    printf "{\"deviceProperties\": [{\"id\": 0, \"name\": \"NVIDIA H100 80GB HBM3\"}],\n"
    printf "\"distributedInfo\": {\"backend\": \"nccl\", \"rank\": %d, \"world_size\": %d, \"pg_config\": [%s]}, \"traceEvents\": [\n", rank, world, config
    host = 1000
    for (step = 1; step <= steps; step++) {
        start = host
        if (kind == "fsdp") fsdp_step(); else stage_step()
        end = free[7]
        emit("cuda_runtime", "cudaDeviceSynchronize", host, max(end - host, 1) + 20, 9, 9, arg("correlation", ++correlation))
        host = max(end, host) + 40
        emit("user_annotation", "ProfilerStep#" step, start, host - start, 9, 9, "")
    }
    print "{\"ph\":\"X\",\"cat\":\"Trace\",\"name\":\"all\",\"ts\":0,\"dur\":900000}], \"traceName\": \"t\"}"
}'
}
