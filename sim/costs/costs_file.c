/* The cost file: its keys, its reader and its writer. */
#include "sim/costs/costs_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/ini.h"
#include "common/names.h"
#include "common/output.h"
#include "common/units.h"
#include "sim/collective/collective.h"

#define SCHEMA 1

/* --- keys ------------------------------------------------------------------------------------ */

/* Plausible values, far beyond what is built or trained. */
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
#define COUNTS(most) .dimension = DL_DIMENSION_PURE, .low = 1, .high = most

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
    TEXT("device", device, "what was measured; on GPUs its model's name is in it"),
    HEAD("parameter_bytes", SIZES, parameter_bytes, "of the model"),
    HEAD("state_bytes", SIZES, state_bytes, "of the optimizer's state"),
    HEAD("batch_min", COUNTS(INT32_MAX), batch_min, "smallest batch of a worker that was measured"),
    HEAD("batch_max", COUNTS(INT32_MAX), batch_max, "largest one"),
    HEAD("cores", COUNTS(1024), cores, "of the machine that was measured"),
    {KEY("costs", "overlap", DL_KEY_FLAG, DL_COST_HEAD, offsetof(dl_costs, overlap),
         "the program exchanges gradients during its backward pass: so does dlsim on GPUs, unless "
         "[exchange] overlap says otherwise"), .fallback = "no"},
    {KEY("costs", "waits", DL_KEY_FLAG, DL_COST_HEAD, offsetof(dl_costs, waits),
         "the program makes a batch, launches its step and waits for its end, in turn: so does dlsim "
         "on GPUs, unless [machine] ahead, [input] cores or prefetch are given"), .fallback = "no"},
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
        "vectors that the server's optimizer reads in passes after the sum (3 with momentum in one "
        "pass: the sum, parameters, momentum); default: the sum is the update; also those of an outer "
        "optimizer (bmuf, [sync] outer), default 5; workers on GPUs"),
    SINGLE("update", "optimizer_writes", VECTORS, 0, optimizer_writes,
        "vectors that it writes (2 with momentum in one pass); an outer one by default 2"),
    SINGLE("memory", "total_bytes_per_s", RATES, DL_NEED_MEMORY, memory_total_bytes_per_s,
        "traffic, read and written, of all cores at once"),
    SINGLE("sync", "barrier_ns", WAITS, DL_NEED_BARRIER, barrier_ns,
        "spinning barrier: last arrival to release"),
    SINGLE("sync", "wakeup_ns", WAITS, DL_NEED_WAKEUP, wakeup_ns,
        "post to running of a blocked thread"),
    SINGLE("sync", "lock_ns", WAITS, DL_NEED_LOCK, lock_ns, "hand-over of a spinning lock"),
    SINGLE("sync", "slice_ns", SLICE, DL_NEED_SLICE, slice_ns,
        "how long a thread keeps a core that others want too"),
    SINGLE("dispatch", "serial_ns", ISSUE, DL_NEED_DISPATCH, dispatch.serial_ns,
        "host time of a step before the first GPU is given anything"),
    SINGLE("dispatch", "per_worker_ns", ISSUE, DL_NEED_DISPATCH, dispatch.per_worker_ns,
        "to issue one GPU's step"),
    SINGLE("dispatch", "contention_frac", SHARE, 0, dispatch.contention_frac,
        "by which each further GPU of a process makes per_worker_ns longer: threads that launch the "
        "GPUs' operations wait for one lock; unknown: 0. With [machine] dispatch = single"),
    SINGLE("overlap", "slowdown", FACTOR, DL_NEED_OVERLAP, overlap_slowdown,
        "factor on a GPU's compute while collectives run beside it"),
    SINGLE("network", "bytes_per_s", RATES, 0, network.bytes_per_s,
        "of a node's port, each direction, in place of the machine file's"),
    SINGLE("network", "pair_bytes_per_s", RATES, 0, network.pair_bytes_per_s,
        "between two nodes, both directions together: where one core or one tunnel serves all packets "
        "of a pair"),
    SINGLE("network", "latency_ns", WAITS, 0, network.latency_ns,
        "of a message between two nodes, beside their own links'"),
    SINGLE("network", "message_ns", WAITS, 0, network.message_ns,
        "of a message between two nodes, while which its sender sends no other: sockets"),
    SINGLE("message", "host_ns", WAITS, 0, message_host_ns,
        "of a message of exchange anywhere, beside the links': staging, MPI"),
    SINGLE("spread", "gpu_frac", SHARE, 0, gpu_spread_frac,
        "standard deviation of the logarithm of the compute times of GPUs of one model"),
    SINGLE("spread", "work_frac", SHARE, 0, work_frac,
        "coefficient of variation of a worker's work in a step, another one in each step: data of "
        "several lengths or sizes; not where a model is split"),
    SINGLE("spread", "work_max", FACTOR, 0, work_max,
        "most that a worker's work in a step is over the mean; unknown: lognormal"),
    SINGLE("spread", "board_slowdown", FACTOR, 0, gpu_board_slowdown,
        "factor on the compute of a GPU when another one below its PCIe switch is used too"),
    SINGLE("spread", "compute_frac", SHARE, 0, compute_spread_frac,
        "standard deviation of the logarithm of the factor on all compute, where it is estimated"),
    SINGLE("broadcast", "bytes", SIZES, 0, broadcast_bytes,
        "of the buffers that DistributedDataParallel broadcasts before each forward pass; processes "
        "on cores or GPUs"),
    SINGLE("broadcast", "calls", FACTOR, 0, broadcast_calls,
        "broadcasts that the buffers take, one for each of their number types; processes on cores "
        "only; unknown: 1"),
    SINGLE("gloo", "latency_ns", WAITS, DL_NEED_GLOO, gloo.latency_ns,
        "processes on cores, where the file has neither [collective allreduce N] nor [roundtrip N]: "
        "an all-reduce of N adds 2 (N - 1) (latency + bytes / bytes_per_s) to a step, a broadcast "
        "log2 N of these"),
    SINGLE("gloo", "bytes_per_s", RATES, DL_NEED_GLOO, gloo.bytes_per_s, "of it"),
    SINGLE("gloo", "beside_frac", SHARE, DL_NEED_GLOO, gloo.beside_frac,
        "share of an all-reduce's time that it adds to a backward pass which it lies within"),
    SINGLE("rpc", "latency_ns", WAITS, DL_NEED_RPC, rpc.latency_ns,
        "likewise: a call of a parameter server by each of N processes adds "
        "N (latency + bytes / bytes_per_s)"),
    SINGLE("rpc", "bytes_per_s", RATES, DL_NEED_RPC, rpc.bytes_per_s,
        "of it; the bytes of one direction, with as many back"),
    SINGLE("input", "bytes_per_sample", SIZES, DL_NEED_INPUT, input_bytes_per_sample,
        "copied to the GPU; needed if there is an [op input]"),
    SINGLE("input", "stored_bytes_per_sample", SIZES, 0, stored_bytes_per_sample,
        "of a sample in storage, as a compressed image; counts with [input] storage_bytes_per_s of "
        "the scenario"),
    SINGLE("gpu_memory", "activation_bytes_per_sample", SIZES, DL_NEED_GPU_MEMORY,
        gpu_memory.activation_bytes_per_sample, "kept for the backward pass"),
    SINGLE("gpu_memory", "workspace_bytes", SIZES, DL_NEED_GPU_MEMORY, gpu_memory.workspace_bytes,
        "of libraries and the driver"),
    SERIES("sharing", "copies_*", DL_DIMENSION_PURE, 1e-3, 1e3, NULL,
        "copies_K: a step's time with K co-running instances over its time alone, per time slice; "
        "of K workers that share a GPU, of its time there: 1 where they take turns"),
    SERIES("linearity", "batch_*", DL_DIMENSION_PURE, 1e-3, 1e3, NULL,
        "batch_B: time of all operations at batch B over that of their lines"),
    SERIES("gradients", "ready_*", DL_DIMENSION_PURE, 0, 0, "SHARE, BYTES",
        "ready_1, ready_2, ...: share of the backward pass, and the bytes of gradients "
        "ready by then"),
    SERIES("collective *", "bytes_*", DL_DIMENSION_NS, 0, DL_COLLECTIVE_TIME_MAX_NS, NULL,
        "bytes_SIZE of [collective KIND RANKS]: its time"),
    SERIES("collective *", "nodes", DL_DIMENSION_PURE, 0, 0, "whole number",
        "that the ranks are on"),
    SERIES("roundtrip *", "bytes_*", DL_DIMENSION_NS, 0, DL_COLLECTIVE_TIME_MAX_NS, NULL,
        "bytes_SIZE of [roundtrip CALLERS]: time that a call to a parameter server, with that many "
        "bytes each way, adds to a step"),
    SERIES("allreduce_pair *", "bytes_*", DL_DIMENSION_NS, 0, DL_COLLECTIVE_TIME_MAX_NS, NULL,
        "bytes_SIZE of [allreduce_pair RANKS]: time that two all-reduces in flight at once, of that "
        "many bytes in total, add to a step of processes"),
    SERIES("allreduce_beside *", "bytes_*", DL_DIMENSION_NS, 0, DL_COLLECTIVE_TIME_MAX_NS, NULL,
        "bytes_SIZE of [allreduce_beside RANKS]: time that an all-reduce during the backward pass adds "
        "to a step of processes"),
    SERIES("allreduce_late *", "bytes_*", DL_DIMENSION_NS, 0, DL_COLLECTIVE_TIME_MAX_NS, NULL,
        "bytes_SIZE of [allreduce_late RANKS]: time that an all-reduce takes from the last process on, "
        "where all others have waited for it"),
    SERIES("collective *", "starts", DL_DIMENSION_PURE, 0, 0, "list of factors",
        "on its times, one for each start of the benchmark's processes"),
    SERIES("roundtrip *", "starts", DL_DIMENSION_PURE, 0, 0, "list of factors",
        "on its times, one for each start of the benchmark's processes"),
    SERIES("allreduce_pair *", "starts", DL_DIMENSION_PURE, 0, 0, "list of factors",
        "on its times, one for each start of the benchmark's processes"),
    SERIES("allreduce_beside *", "starts", DL_DIMENSION_PURE, 0, 0, "list of factors",
        "on its times, one for each start of the benchmark's processes"),
    SERIES("allreduce_late *", "starts", DL_DIMENSION_PURE, 0, 0, "list of factors",
        "on its times, one for each start of the benchmark's processes"),
    SERIES("machine *", "bytes_per_s", DL_DIMENSION_BYTES_PER_S, 1e3, 1e15, NULL,
        "in place of the machine file's: [machine link nvlink2] of its [link nvlink2], [machine host] "
        "of its [host]; each direction of a link, or [machine network]: the network's core"),
    SERIES("machine *", "duplex_bytes_per_s", DL_DIMENSION_BYTES_PER_S, 1e3, 1e15, NULL,
        "likewise: both directions of a link together"),
    SERIES("machine *", "latency_ns", DL_DIMENSION_NS, 0, 3.6e12, NULL, "likewise: of a link"),
    SERIES("machine *", "memory_bytes_per_s", DL_DIMENSION_BYTES_PER_S, 1e3, 1e15, NULL,
        "likewise: of a socket's memory, or [machine gpu_model NAME]: of a GPU's"),
    SERIES("machine *", "root_bytes_per_s", DL_DIMENSION_BYTES_PER_S, 1e3, 1e15, NULL,
        "likewise: all devices of a socket"),
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
    SERIES("exchange_runs", "run_*", DL_DIMENSION_PURE, 0, 0, "COPY, AVERAGE, UPDATE",
        "run_1, ...: times of exchange in one run over those of the lines"),
    SERIES("noise", "factors_*", DL_DIMENSION_PURE, 0, 0, "list of factors",
        "factors_RUN_COPY_LINE: step times over the expected ones, in order"),
    SERIES("noise *", "factors_*", DL_DIMENSION_PURE, 0, 0, "list of factors",
        "the same for [noise BATCH] or [noise BATCH copies K]"),
};
/* clang-format on */
const dl_keys dl_cost_keys = {rows, sizeof rows / sizeof *rows};

/* --- values and numbered keys --------------------------------------------------------------- */

static dl_status read_value(const dl_ini *ini, const dl_ini_entry *entry, dl_value *value,
                            dl_error *err)
{
    const dl_key *key = dl_keys_find(&dl_cost_keys, entry->section, entry->key);
    dl_error inner = {0};
    dl_value parsed;
    dl_status status = dl_value_parse(entry->value, key->dimension, &parsed, &inner);
    if (status != DL_OK) return dl_ini_error(ini, entry, status, err, "%s", inner.text);
    status = dl_key_check(key, parsed.value, entry->value, ini, entry, err);
    if (status == DL_OK) *value = parsed;
    return status;
}

/* --- [machine PART] -------------------------------------------------------------------------- */

/* A number of the machine file that is given here; whether the machine has such a part is known
 * later. */
static dl_status read_machine(dl_costs *costs, const dl_ini *ini, const dl_ini_entry *entry,
                              dl_error *err)
{
    const char *section = entry->section + strlen("machine ");
    const dl_key *key = dl_keys_find(&dl_machine_keys, section, entry->key);
    if (key == NULL || key->type != DL_KEY_QUANTITY) {
        return dl_ini_error(ini, entry, DL_ERR_NAME, err,
                            "a machine file has no rate or latency %s in [%s]", entry->key,
                            section);
    }
    dl_value value = {0};
    dl_error inner = {0};
    dl_status status = dl_value_parse(entry->value, key->dimension, &value, &inner);
    if (status != DL_OK) return dl_ini_error(ini, entry, status, err, "%s", inner.text);
    status = dl_key_check(key, value.value, entry->value, ini, entry, err);
    if (status != DL_OK) return status;
    DL_APPEND(costs->machine_values, costs->machine_value_count, "numbers of the machine") =
        (dl_machine_value){.section = dl_strdup(section), .key = key, .value = value};
    return DL_OK;
}

static dl_status numbered_key(const dl_ini *ini, const dl_ini_entry *entry, const char *prefix,
                              int64_t low, int64_t high, int64_t *number, dl_error *err)
{
    size_t length = strlen(prefix);
    dl_error inner = {0};
    if (strncmp(entry->key, prefix, length) == 0 &&
        dl_parse_int(entry->key + length, low, high, number, &inner) == DL_OK) {
        return DL_OK;
    }
    return dl_ini_error(ini, entry, DL_ERR_NAME, err, "expected the key %s%lld to %s%lld", prefix,
                        (long long)low, prefix, (long long)high);
}

static dl_status read_sharing(dl_costs *costs, const dl_ini *ini, const dl_ini_entry *entry,
                              dl_error *err)
{
    int64_t copies = 0;
    dl_status status = numbered_key(ini, entry, "copies_", 1, DL_SHARING_MAX, &copies, err);
    if (status != DL_OK) return status;
    return read_value(ini, entry, &costs->sharing[copies], err);
}

/* Batch sizes must come in ascending order: the table is read by interpolation. */
static dl_status read_linearity(dl_costs *costs, const dl_ini *ini, const dl_ini_entry *entry,
                                dl_error *err)
{
    int64_t batch = 0;
    dl_linearity *table = costs->linearity;
    size_t count = costs->linearity_count;
    int64_t above = count > 0 ? table[count - 1].batch : 0;
    dl_status status = numbered_key(ini, entry, "batch_", above + 1, INT32_MAX, &batch, err);
    if (status != DL_OK) return status;
    if (count == DL_LINEARITY_MAX) {
        return dl_ini_error(ini, entry, DL_ERR_RANGE, err, "more than %d batch sizes",
                            DL_LINEARITY_MAX);
    }
    table[count].batch = batch;
    status = read_value(ini, entry, &table[count].factor, err);
    if (status == DL_OK) costs->linearity_count++;
    return status;
}

/* --- [layer NAME] --------------------------------------------------------------------------- */

/* Parameters of all layers may miss [costs] parameter_bytes by as much: both may be rounded. */
#define SUM_TOLERANCE 1e-3

static const char *const phases[] = {".forward", ".backward", ".update"};

/* Whether an operation is a layer's forward, backward or update. */
static bool is_of_layer(const dl_op_cost *op, const char *layer)
{
    const size_t length = strlen(layer);
    if (strncmp(op->name, layer, length) != 0) return false;
    for (size_t p = 0; p < sizeof phases / sizeof *phases; p++) {
        if (strcmp(op->name + length, phases[p]) == 0) return true;
    }
    return false;
}

static dl_layer_cost *layer_of(dl_costs *costs, const dl_ini_entry *entry)
{
    const char *name = entry->section + strlen("layer ");
    size_t i = 0;
    while (i < costs->layer_count && strcmp(costs->layers[i].name, name) != 0)
        i++;
    if (i == costs->layer_count) {
        costs->layers = dl_realloc(costs->layers, i + 1, sizeof *costs->layers, "layers");
        costs->layers[i] = (dl_layer_cost){.name = dl_strdup(name)};
        costs->layer_count++;
    }
    return &costs->layers[i];
}

static dl_status check_operations(const dl_costs *costs, const dl_layer_cost *layer, dl_error *err)
{
    for (size_t o = 0; o < costs->op_count; o++) {
        if (is_of_layer(&costs->ops[o], layer->name)) return DL_OK;
    }
    const char **names = dl_calloc(costs->op_count, sizeof *names, "names of operations");
    for (size_t o = 0; o < costs->op_count; o++)
        names[o] = costs->ops[o].name;
    char hint[160];
    dl_names_hint(hint, sizeof hint, layer->name, names, (int)costs->op_count);
    free(names);
    return dl_error_set_at(err, DL_ERR_NAME, costs->path, 0,
                           "[layer %s]: no operation %s.forward, .backward or .update%s",
                           layer->name, layer->name, hint);
}

/* Where all layers say how many parameters they have, it must be those of the model. */
static dl_status check_sum(const dl_costs *costs, dl_error *err)
{
    double sum = 0;
    for (size_t l = 0; l < costs->layer_count; l++)
        sum += costs->layers[l].parameter_bytes.value;
    for (size_t o = 0; o < costs->op_count; o++) {
        bool given =
            strcmp(costs->ops[o].name, "input") == 0 || strcmp(costs->ops[o].name, "dispatch") == 0;
        for (size_t l = 0; l < costs->layer_count && !given; l++) {
            given = is_of_layer(&costs->ops[o], costs->layers[l].name) &&
                    costs->layers[l].parameter_bytes.known;
        }
        if (!given && strstr(costs->ops[o].name, ".update") == NULL) return DL_OK;
    }
    const double all = (double)costs->parameter_bytes;
    if (all < 0 || fabs(sum - all) <= SUM_TOLERANCE * all) return DL_OK;
    return dl_error_set_at(err, DL_ERR_DATA, costs->path, 0,
                           "the layers have %.0f bytes of parameters, but [costs] "
                           "parameter_bytes is %.0f",
                           sum, all);
}

static dl_status finish_layers(const dl_costs *costs, dl_error *err)
{
    if (costs->layer_count == 0) return DL_OK;
    for (size_t l = 0; l < costs->layer_count; l++) {
        dl_status status = check_operations(costs, &costs->layers[l], err);
        if (status != DL_OK) return status;
    }
    return check_sum(costs, err);
}

/* --- [gradients] ---------------------------------------------------------------------------- */

static dl_status parse_ready(const dl_ini *ini, const dl_ini_entry *entry,
                             dl_gradients_ready *ready, dl_error *err)
{
    char **items = NULL;
    size_t count = 0;
    dl_status status = dl_ini_split(ini, entry, &items, &count, err);
    if (status != DL_OK) return status;
    dl_error inner = {0};
    if (count != 2) {
        status = dl_ini_error(ini, entry, DL_ERR_PARSE, err,
                              "expected a share of the backward pass and the bytes so far");
    } else if ((status = dl_parse_double(items[0], 0, 1, &ready->share, &inner)) ||
               (status = dl_parse_double(items[1], 1, 1e18, &ready->bytes, &inner))) {
        dl_ini_error(ini, entry, status, err, "%s", inner.text);
    }
    dl_ini_free_list(items, count);
    return status;
}

static dl_status read_gradients(dl_costs *costs, const dl_ini *ini, const dl_ini_entry *entry,
                                dl_error *err)
{
    const size_t count = costs->gradient_count;
    const int64_t next = (int64_t)count + 1;
    int64_t number = 0;
    dl_gradients_ready ready = {0};
    dl_status status = numbered_key(ini, entry, "ready_", next, next, &number, err);
    if (status == DL_OK) status = parse_ready(ini, entry, &ready, err);
    if (status != DL_OK) return status;
    if (count > 0 && (ready.share < costs->gradients[count - 1].share ||
                      ready.bytes <= costs->gradients[count - 1].bytes)) {
        return dl_ini_error(ini, entry, DL_ERR_DATA, err,
                            "less than in the line before: both numbers are sums");
    }
    costs->gradients =
        dl_realloc(costs->gradients, count + 1, sizeof *costs->gradients, "gradients");
    costs->gradients[count] = ready;
    costs->gradient_count++;
    return DL_OK;
}

/* --- [collective KIND RANKS], [roundtrip CALLERS], [allreduce_pair RANKS] ------------------- */

#define RANKS_MAX 1000000
#define BYTES_MAX 1e18

/* Exchanges among processes other than collectives. */
typedef struct process_exchange {
    const char *name;
    int kind;
    int ranks_min;
} process_exchange;

static const process_exchange process_exchanges[] = {
    {"roundtrip", DL_ROUNDTRIP, 1},
    {"allreduce_pair", DL_ALLREDUCE_PAIR, 2},
    {"allreduce_beside", DL_ALLREDUCE_BESIDE, 2},
    {"allreduce_late", DL_ALLREDUCE_LATE, 2},
};
#define PROCESS_EXCHANGES (sizeof process_exchanges / sizeof *process_exchanges)

/* The one whose section this is, or NULL. */
static const process_exchange *process_exchange_of(const dl_ini_entry *entry)
{
    const size_t length = strcspn(entry->section, " ");
    for (size_t i = 0; i < PROCESS_EXCHANGES && entry->section[length] == ' '; i++) {
        const process_exchange *e = &process_exchanges[i];
        if (strlen(e->name) == length && strncmp(entry->section, e->name, length) == 0) return e;
    }
    return NULL;
}

/* "[collective allreduce 8]", "[roundtrip 4]" into text[bytes]; returns text. */
static const char *section_text(char *text, size_t bytes, const dl_collective_cost *cost)
{
    for (size_t i = 0; i < PROCESS_EXCHANGES; i++) {
        const process_exchange *e = &process_exchanges[i];
        if (e->kind == cost->kind) snprintf(text, bytes, "[%s %d]", e->name, cost->ranks);
    }
    if (cost->kind >= 0) {
        snprintf(text, bytes, "[collective %s %d]", dl_collective_kind_names[cost->kind],
                 cost->ranks);
    }
    return text;
}

/* Kind and ranks from the section's name. */
static dl_status parse_section(const dl_ini *ini, const dl_ini_entry *entry,
                               dl_collective_cost *cost, dl_error *err)
{
    char kind[32] = "", hint[200];
    int64_t ranks = 0;
    const process_exchange *exchange = process_exchange_of(entry);
    if (exchange != NULL) {
        dl_error cause = {0};
        if (dl_parse_int(entry->section + strlen(exchange->name) + 1, exchange->ranks_min,
                         RANKS_MAX, &ranks, &cause)) {
            return dl_ini_error(
                ini, entry, DL_ERR_NAME, err, "expected [%s %s] with %d or more", exchange->name,
                exchange->kind == DL_ROUNDTRIP ? "CALLERS" : "RANKS", exchange->ranks_min);
        }
        *cost = (dl_collective_cost){.kind = exchange->kind, .ranks = (int)ranks};
        return DL_OK;
    }
    const char *name = entry->section + strlen("collective ");
    const size_t length = strcspn(name, " ");
    snprintf(kind, sizeof kind, "%.*s", (int)length, name);
    cost->kind = dl_names_find(kind, dl_collective_kind_names, DL_COLLECTIVE_KINDS);
    if (cost->kind < 0) {
        dl_names_hint(hint, sizeof hint, kind, dl_collective_kind_names, DL_COLLECTIVE_KINDS);
        return dl_ini_error(ini, entry, DL_ERR_NAME, err, "unknown collective '%s'%s", kind, hint);
    }
    dl_error inner = {0};
    if (name[length] == '\0' ||
        dl_parse_int(name + length + 1, 2, RANKS_MAX, &ranks, &inner) != DL_OK) {
        return dl_ini_error(ini, entry, DL_ERR_NAME, err,
                            "expected [collective KIND RANKS] with 2 ranks or more");
    }
    cost->ranks = (int)ranks;
    return DL_OK;
}

/* The section's cost; a new one at its first entry. */
static dl_collective_cost *find_or_add(dl_costs *costs, const dl_collective_cost *key)
{
    for (size_t i = 0; i < costs->collective_count; i++) {
        dl_collective_cost *c = &costs->collectives[i];
        if (c->kind == key->kind && c->ranks == key->ranks) return c;
    }
    costs->collectives = dl_realloc(costs->collectives, costs->collective_count + 1,
                                    sizeof *costs->collectives, "collectives");
    costs->collectives[costs->collective_count] = *key;
    return &costs->collectives[costs->collective_count++];
}

static dl_status add_time(dl_collective_cost *cost, const dl_ini *ini, const dl_ini_entry *entry,
                          dl_error *err)
{
    dl_error inner = {0};
    dl_collective_time time = {0};
    dl_status status =
        dl_parse_double(entry->key + strlen("bytes_"), 0, BYTES_MAX, &time.bytes, &inner);
    if (status != DL_OK) return dl_ini_error(ini, entry, status, err, "%s", inner.text);
    status = read_value(ini, entry, &time.time_ns, err);
    if (status != DL_OK) return status;
    if (cost->count > 0 && time.bytes <= cost->times[cost->count - 1].bytes) {
        return dl_ini_error(ini, entry, DL_ERR_DATA, err, "sizes must ascend");
    }
    cost->times = dl_realloc(cost->times, cost->count + 1, sizeof *cost->times, "times by size");
    cost->times[cost->count++] = time;
    return DL_OK;
}

static dl_status append_factors(dl_noise_series *series, const dl_ini *ini,
                                const dl_ini_entry *entry, dl_error *err)
{
    char **items = NULL;
    size_t count = 0;
    dl_status status = dl_ini_split(ini, entry, &items, &count, err);
    if (status != DL_OK) return status;
    series->factors =
        dl_realloc(series->factors, series->count + count, sizeof *series->factors, "noise");
    for (size_t i = 0; i < count && status == DL_OK; i++) {
        dl_error inner = {0};
        double factor = 0;
        status = dl_parse_double(items[i], 1e-6, 1e6, &factor, &inner);
        if (status != DL_OK) dl_ini_error(ini, entry, status, err, "%s", inner.text);
        series->factors[series->count++] = (float)factor;
    }
    dl_ini_free_list(items, count);
    return status;
}

static dl_status read_starts(dl_collective_cost *cost, const dl_ini *ini, const dl_ini_entry *entry,
                             dl_error *err)
{
    dl_noise_series factors = {0};
    const dl_status status = append_factors(&factors, ini, entry, err);
    cost->starts = factors.factors;
    cost->start_count = factors.count;
    return status;
}

static dl_status read_collective(dl_costs *costs, const dl_ini *ini, const dl_ini_entry *entry,
                                 dl_error *err)
{
    dl_collective_cost key = {0};
    dl_error inner = {0};
    int64_t nodes = 0;
    dl_status status = parse_section(ini, entry, &key, err);
    if (status != DL_OK) return status;
    dl_collective_cost *cost = find_or_add(costs, &key);
    if (strncmp(entry->key, "bytes_", strlen("bytes_")) == 0) {
        return add_time(cost, ini, entry, err);
    }
    if (strcmp(entry->key, "starts") == 0) return read_starts(cost, ini, entry, err);
    status = dl_parse_int(entry->value, 1, cost->ranks, &nodes, &inner);
    if (status != DL_OK) return dl_ini_error(ini, entry, status, err, "%s", inner.text);
    cost->nodes = (int)nodes;
    return DL_OK;
}

static dl_status check_collectives(const dl_costs *costs, const dl_ini *ini, dl_error *err)
{
    for (size_t i = 0; i < costs->collective_count; i++) {
        char section[64];
        const dl_collective_cost *c = &costs->collectives[i];
        if (c->count >= 2) continue;
        return dl_error_set_at(err, DL_ERR_DATA, ini->path, 0, "%s: want two sizes or more",
                               section_text(section, sizeof section, c));
    }
    return DL_OK;
}

/* --- [noise ...] and [exchange_runs] -------------------------------------------------------- */

/* Where the reading of a noise section stands: the last series and its last line; line 0 = before
 * the first. */
typedef struct noise_reading {
    size_t series;
    int64_t line;
} noise_reading;

static dl_status section_number(const dl_ini *ini, const dl_ini_entry *entry, const char *text,
                                int64_t high, int64_t *number, dl_error *err)
{
    dl_error inner = {0};
    dl_status status = dl_parse_int(text, 1, high, number, &inner);
    if (status == DL_OK) return DL_OK;
    return dl_ini_error(ini, entry, status, err,
                        "a section of noise is called [noise], [noise BATCH] or [noise BATCH "
                        "copies COUNT]: %s",
                        inner.text);
}

/* Batch (0 = any) and copies in the name of the section. */
static dl_status section_kind(const dl_ini *ini, const dl_ini_entry *entry, dl_noise_set *kind,
                              dl_error *err)
{
    static const char word[] = " copies ";
    int64_t copies = 1;
    dl_status status = DL_OK;
    *kind = (dl_noise_set){.copies = 1};
    if (strcmp(entry->section, "noise") == 0) return DL_OK;
    char *name = dl_strdup(entry->section + strlen("noise "));
    char *after = strstr(name, word);
    if (after != NULL) {
        status = section_number(ini, entry, after + strlen(word), DL_SHARING_MAX, &copies, err);
        *after = '\0';
    }
    if (status == DL_OK) status = section_number(ini, entry, name, INT32_MAX, &kind->batch, err);
    free(name);
    kind->copies = (size_t)copies;
    return status;
}

typedef struct key_text {
    char text[80];
} key_text;

static key_text make_key(const dl_noise_set *set, size_t series, int64_t line)
{
    key_text key;
    snprintf(key.text, sizeof key.text, "factors_%zu_%zu_%lld", series / set->copies + 1,
             series % set->copies + 1, (long long)line);
    return key;
}

static dl_noise_set *find_set(const dl_costs *costs, const dl_noise_set *kind)
{
    for (size_t i = 0; i < costs->noise_count; i++) {
        dl_noise_set *set = &costs->noise[i];
        if (set->batch == kind->batch && set->copies == kind->copies) return set;
    }
    return NULL;
}

static size_t series_count(const dl_noise_set *set)
{
    return set->run_count * set->copies;
}

/* The keys come in order, as their numbers say: the next line of the last series, or the first one
 * of the next series; a run's series are made together, empty ones yet to come. */
static dl_status take_line(dl_noise_set *set, const dl_ini *ini, const dl_ini_entry *entry,
                           noise_reading *at, dl_error *err)
{
    key_text next = make_key(set, at->series, at->line + 1);
    if (at->line > 0 && strcmp(entry->key, next.text) == 0) {
        at->line++;
        return append_factors(&set->series[at->series], ini, entry, err);
    }
    const size_t first = at->line > 0 ? at->series + 1 : at->series;
    key_text other = make_key(set, first, 1);
    if (strcmp(entry->key, other.text) != 0) {
        return dl_ini_error(ini, entry, DL_ERR_NAME, err, "expected the key %s%s%s",
                            at->line > 0 ? next.text : "", at->line > 0 ? " or " : "", other.text);
    }
    if (first == series_count(set)) {
        set->series = dl_realloc(set->series, series_count(set) + set->copies, sizeof *set->series,
                                 "noise series");
        for (size_t c = 0; c < set->copies; c++)
            set->series[series_count(set) + c] = (dl_noise_series){0};
        set->run_count++;
    }
    *at = (noise_reading){first, 1};
    return append_factors(&set->series[first], ini, entry, err);
}

static dl_status read_noise(dl_costs *costs, const dl_ini *ini, const dl_ini_entry *entry,
                            noise_reading *at, dl_error *err)
{
    dl_noise_set kind;
    dl_status status = section_kind(ini, entry, &kind, err);
    if (status != DL_OK) return status;
    dl_noise_set *set = find_set(costs, &kind);
    if (set == NULL) {
        costs->noise =
            dl_realloc(costs->noise, costs->noise_count + 1, sizeof *costs->noise, "noise sets");
        set = &costs->noise[costs->noise_count++];
        *set = kind;
        *at = (noise_reading){0};
    } else if (set != &costs->noise[costs->noise_count - 1]) {
        return dl_ini_error(ini, entry, DL_ERR_DATA, err, "the section comes twice");
    }
    return take_line(set, ini, entry, at, err);
}

static dl_status read_exchange_run(dl_costs *costs, const dl_ini *ini, const dl_ini_entry *entry,
                                   dl_error *err)
{
    int64_t number;
    const int64_t next = (int64_t)costs->exchange_run_count + 1;
    dl_status status = numbered_key(ini, entry, "run_", next, next, &number, err);
    dl_noise_series factors = {0};
    if (status == DL_OK) status = append_factors(&factors, ini, entry, err);
    if (status == DL_OK && factors.count != 3) {
        status = dl_ini_error(ini, entry, DL_ERR_DATA, err,
                              "expected three factors: of copies, averages, updates");
    }
    if (status == DL_OK) {
        costs->exchange_runs = dl_realloc(costs->exchange_runs, (size_t)next,
                                          sizeof *costs->exchange_runs, "exchange runs");
        costs->exchange_runs[costs->exchange_run_count++] =
            (dl_exchange_run){factors.factors[0], factors.factors[1], factors.factors[2]};
    }
    free(factors.factors);
    return status;
}

static dl_status finish_noise(dl_costs *costs, const dl_ini *ini, dl_error *err)
{
    for (size_t i = 0; i < costs->noise_count; i++) {
        dl_noise_set *set = &costs->noise[i];
        if (set->run_count > 0 && set->series[series_count(set) - 1].count > 0) {
            for (size_t s = 0; s < series_count(set); s++)
                dl_noise_series_finish(&set->series[s]);
            continue;
        }
        return dl_error_set_at(err, DL_ERR_DATA, ini->path, 0,
                               "[noise %lld copies %zu]: the last run lacks a copy",
                               (long long)set->batch, set->copies);
    }
    return DL_OK;
}

/* --- reading -------------------------------------------------------------------------------- */

static bool is_op_name(const char *name)
{
    return strcmp(name, "input") == 0 || strcmp(name, "dispatch") == 0 ||
           dl_costs_is_phase(name, "forward") || dl_costs_is_phase(name, "backward") ||
           dl_costs_is_phase(name, "update");
}

/* Reads the entry into the part of the costs that its row says. */
static dl_status read_into(void *part, const dl_ini *ini, const dl_ini_entry *entry, dl_error *err)
{
    const dl_key *key = dl_keys_find(&dl_cost_keys, entry->section, entry->key);
    dl_value *value = (dl_value *)(void *)((char *)part + key->offset);
    return read_value(ini, entry, value, err);
}

static dl_status read_op(dl_costs *costs, const dl_ini *ini, const dl_ini_entry *entry,
                         dl_error *err)
{
    const char *name = entry->section + strlen("op ");
    size_t i = 0;
    while (i < costs->op_count && strcmp(costs->ops[i].name, name) != 0)
        i++;
    if (i == costs->op_count) {
        if (!is_op_name(name)) {
            return dl_ini_error(ini, entry, DL_ERR_NAME, err,
                                "an operation is called input, dispatch, or ends in .forward, "
                                ".backward or .update");
        }
        costs->ops = dl_realloc(costs->ops, i + 1, sizeof *costs->ops, "operations");
        costs->ops[i] = (dl_op_cost){.name = dl_strdup(name)};
        costs->op_count++;
    }
    return read_into(&costs->ops[i], ini, entry, err);
}

static void drop_empty(char **text)
{
    if (*text == NULL || **text != '\0') return;
    free(*text);
    *text = NULL;
}

static dl_status read_head(dl_costs *costs, const dl_ini *ini, dl_error *err)
{
    int64_t schema = 0;
    costs->parameter_bytes = costs->state_bytes = -1;
    dl_status status = dl_ini_get_int(ini, "costs", "schema", SCHEMA, SCHEMA, NULL, &schema, err);
    if (status == DL_OK) {
        status = dl_keys_read(&dl_cost_keys, DL_COST_HEAD, ini, NULL, costs, err);
    }
    drop_empty(&costs->workload);
    drop_empty(&costs->precision);
    drop_empty(&costs->device);
    return status;
}

static dl_status read_entry(dl_costs *costs, const dl_ini *ini, const dl_ini_entry *entry,
                            noise_reading *noise, dl_error *err)
{
    if (strncmp(entry->section, "op ", 3) == 0) return read_op(costs, ini, entry, err);
    if (strncmp(entry->section, "layer ", 6) == 0) {
        return read_into(layer_of(costs, entry), ini, entry, err);
    }
    if (strcmp(entry->section, "sharing") == 0) return read_sharing(costs, ini, entry, err);
    if (strcmp(entry->section, "linearity") == 0) return read_linearity(costs, ini, entry, err);
    if (strncmp(entry->section, "machine ", strlen("machine ")) == 0) {
        return read_machine(costs, ini, entry, err);
    }
    if (strcmp(entry->section, "exchange_runs") == 0) {
        return read_exchange_run(costs, ini, entry, err);
    }
    if (strncmp(entry->section, "collective ", strlen("collective ")) == 0 ||
        process_exchange_of(entry) != NULL) {
        return read_collective(costs, ini, entry, err);
    }
    if (strcmp(entry->section, "gradients") == 0) {
        return read_gradients(costs, ini, entry, err);
    }
    if (strncmp(entry->section, "noise", strlen("noise")) == 0) {
        return read_noise(costs, ini, entry, noise, err);
    }
    const dl_key *key = dl_keys_find(&dl_cost_keys, entry->section, entry->key);
    return key->owner == DL_COST_SINGLE ? read_into(costs, ini, entry, err) : DL_OK;
}

/* An operation that takes less than no time where it was measured is a slip of the pen. */
static dl_status check_ops(const dl_costs *costs, const dl_ini *ini, dl_error *err)
{
    for (size_t i = 0; i < costs->op_count; i++) {
        const dl_op_cost *op = &costs->ops[i];
        const double batch = costs->batch_max > 0 ? (double)costs->batch_max : 1e6;
        if (!op->fixed_ns.known || !op->per_sample_ns.known ||
            op->fixed_ns.value + op->per_sample_ns.value * batch >= 0) {
            continue;
        }
        char *section = dl_format("op %s", op->name);
        const dl_ini_entry *entry = dl_ini_find(ini, section, "fixed_ns");
        free(section);
        return dl_ini_error(ini, entry, DL_ERR_RANGE, err,
                            "with per_sample_ns = %g the operation takes less than no time at "
                            "batch %.0f",
                            op->per_sample_ns.value, batch);
    }
    return DL_OK;
}

static dl_status from_ini(dl_costs *costs, const dl_ini *ini, dl_error *err)
{
    dl_costs parsed = {.path = dl_strdup(ini->path)};
    noise_reading noise = {0};
    dl_status status = dl_keys_check(&dl_cost_keys, ini, err);
    if (status == DL_OK) status = read_head(&parsed, ini, err);
    for (size_t i = 0; i < ini->count && status == DL_OK; i++) {
        status = read_entry(&parsed, ini, &ini->entries[i], &noise, err);
    }
    if (status == DL_OK) status = check_ops(&parsed, ini, err);
    if (status == DL_OK) status = finish_noise(&parsed, ini, err);
    if (status == DL_OK) status = check_collectives(&parsed, ini, err);
    if (status == DL_OK) status = finish_layers(&parsed, err);
    if (status == DL_OK && parsed.batch_min > 0 && parsed.batch_max > 0 &&
        parsed.batch_min > parsed.batch_max) {
        status = dl_ini_error(ini, dl_ini_find(ini, "costs", "batch_min"), DL_ERR_RANGE, err,
                              "above batch_max");
    }
    if (status == DL_OK) {
        *costs = parsed;
    } else {
        dl_costs_free(&parsed);
    }
    return status;
}

dl_status dl_costs_read(dl_costs *costs, const char *path, dl_error *err)
{
    dl_ini ini = {0};
    dl_status status = dl_ini_read(&ini, path, err);
    if (status != DL_OK) return status;
    status = from_ini(costs, &ini, err);
    dl_ini_free(&ini);
    return status;
}

dl_status dl_costs_read_text(dl_costs *costs, const char *name, const char *text, size_t bytes,
                             dl_error *err)
{
    dl_ini ini = {0};
    dl_status status = dl_ini_read_text(&ini, name, text, bytes, err);
    if (status != DL_OK) return status;
    status = from_ini(costs, &ini, err);
    dl_ini_free(&ini);
    return status;
}

/* --- writing -------------------------------------------------------------------------------- */

#define NOISE_PER_LINE 12
#define TEXT_BYTES 180

static void write_line(FILE *out, const char *key, const dl_value *value)
{
    if (!value->known) return;
    fprintf(out, "%s = ", key);
    dl_value_write(out, value);
    fputc('\n', out);
}

/* Each line of `comment` after "; ". */
static void write_comment(FILE *out, const char *comment)
{
    while (comment != NULL && *comment != '\0') {
        size_t length = strcspn(comment, "\n");
        fprintf(out, "; %.*s\n", (int)length, comment);
        comment += length;
        if (*comment == '\n') comment++;
    }
}

static void write_head(FILE *out, const dl_costs *costs)
{
    fprintf(out, "[costs]\nschema = %d\n", SCHEMA);
    if (costs->workload != NULL) fprintf(out, "workload = %s\n", costs->workload);
    if (costs->precision != NULL) fprintf(out, "precision = %s\n", costs->precision);
    if (costs->device != NULL) fprintf(out, "device = %s\n", costs->device);
    const struct {
        const char *key;
        int64_t value, low;
    } numbers[] = {
        {"parameter_bytes", costs->parameter_bytes, 0},
        {"state_bytes", costs->state_bytes, 0},
        {"batch_min", costs->batch_min, 1},
        {"batch_max", costs->batch_max, 1},
        {"cores", costs->cores, 1},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (numbers[i].value < numbers[i].low) continue;
        fprintf(out, "%s = %lld\n", numbers[i].key, (long long)numbers[i].value);
    }
    if (costs->overlap) fprintf(out, "overlap = yes\n");
    if (costs->waits) fprintf(out, "waits = yes\n");
}

/* Six digits where they are enough for the same float, else the nine that always are. */
static void write_factor(FILE *out, float factor)
{
    char text[32];
    snprintf(text, sizeof text, "%.6g", (double)factor);
    bool same = strtof(text, NULL) == factor;
    fprintf(out, same ? "%.6g" : "%.9g", (double)factor);
}

static void write_series(FILE *out, const dl_noise_series *series, size_t run, size_t copy)
{
    for (size_t i = 0; i < series->count; i++) {
        if (i % NOISE_PER_LINE == 0) {
            fprintf(out, "\nfactors_%zu_%zu_%zu = ", run + 1, copy + 1, i / NOISE_PER_LINE + 1);
        } else {
            fprintf(out, ", ");
        }
        write_factor(out, series->factors[i]);
    }
}

static void write_noise(FILE *out, const dl_noise_set *set)
{
    fprintf(out, "\n[noise");
    if (set->batch > 0) fprintf(out, " %lld", (long long)set->batch);
    if (set->copies > 1) fprintf(out, " copies %zu", set->copies);
    fprintf(out, "]");
    for (size_t run = 0; run < set->run_count; run++) {
        for (size_t copy = 0; copy < set->copies; copy++) {
            write_series(out, &set->series[run * set->copies + copy], run, copy);
        }
    }
    fprintf(out, "\n");
}

static void write_exchange_runs(FILE *out, const dl_costs *costs)
{
    if (costs->exchange_run_count > 0) fprintf(out, "\n[exchange_runs]\n");
    for (size_t i = 0; i < costs->exchange_run_count; i++) {
        const dl_exchange_run *run = &costs->exchange_runs[i];
        fprintf(out, "run_%zu = ", i + 1);
        write_factor(out, run->copy);
        fprintf(out, ", ");
        write_factor(out, run->average);
        fprintf(out, ", ");
        write_factor(out, run->update);
        fprintf(out, "\n");
    }
}

static void write_gradients(FILE *out, const dl_costs *costs)
{
    if (costs->gradient_count > 0) fprintf(out, "\n[gradients]\n");
    for (size_t i = 0; i < costs->gradient_count; i++) {
        fprintf(out, "ready_%zu = %.9g, %.12g\n", i + 1, costs->gradients[i].share,
                costs->gradients[i].bytes);
    }
}

static void write_collectives(FILE *out, const dl_costs *costs)
{
    for (size_t i = 0; i < costs->collective_count; i++) {
        const dl_collective_cost *c = &costs->collectives[i];
        char section[64];
        fprintf(out, "\n%s\n", section_text(section, sizeof section, c));
        if (c->nodes > 0) fprintf(out, "nodes = %d\n", c->nodes);
        for (size_t k = 0; k < c->start_count; k++) {
            fputs(k == 0 ? "starts = " : ", ", out);
            write_factor(out, c->starts[k]);
        }
        if (c->start_count > 0) fputc('\n', out);
        for (size_t t = 0; t < c->count; t++) {
            char bytes[DL_DOUBLE_TEXT_BYTES];
            fprintf(out, "bytes_%s = ", dl_format_double(bytes, c->times[t].bytes));
            dl_value_write(out, &c->times[t].time_ns);
            fputc('\n', out);
        }
    }
}

static void write_machine(FILE *out, const dl_costs *costs)
{
    const char *section = "";
    for (size_t i = 0; i < costs->machine_value_count; i++) {
        const dl_machine_value *value = &costs->machine_values[i];
        if (!value->value.known) continue;
        if (strcmp(section, value->section) != 0) fprintf(out, "\n[machine %s]\n", value->section);
        section = value->section;
        write_line(out, value->key->name, &value->value);
    }
}

static void write_all(FILE *out, const dl_costs *costs, const char *comment)
{
    write_comment(out, comment);
    write_head(out, costs);
    for (size_t i = 0; i < costs->op_count; i++) {
        fprintf(out, "\n[op %s]\n", costs->ops[i].name);
        write_line(out, "fixed_ns", &costs->ops[i].fixed_ns);
        write_line(out, "per_sample_ns", &costs->ops[i].per_sample_ns);
        write_line(out, "flop_per_sample", &costs->ops[i].flop_per_sample);
        write_line(out, "bytes_per_sample", &costs->ops[i].bytes_per_sample);
    }
    for (size_t i = 0; i < costs->layer_count; i++) {
        const dl_layer_cost *layer = &costs->layers[i];
        fprintf(out, "\n[layer %s]\n", layer->name);
        write_line(out, "output_bytes_per_sample", &layer->output_bytes_per_sample);
        write_line(out, "parameter_bytes", &layer->parameter_bytes);
        write_line(out, "activation_bytes_per_sample", &layer->activation_bytes_per_sample);
    }
    const char *section = "";
    for (size_t i = 0; i < dl_cost_keys.count; i++) {
        const dl_key *key = &dl_cost_keys.rows[i];
        const dl_value *value = dl_cost_single_of(costs, key);
        if (value == NULL || !value->known) continue;
        if (strcmp(section, key->section) != 0) fprintf(out, "\n[%s]\n", key->section);
        section = key->section;
        write_line(out, key->name, value);
    }
    write_machine(out, costs);
    bool shared = false;
    for (int k = 1; k <= DL_SHARING_MAX; k++) {
        char key[24];
        if (costs->sharing[k].known && !shared) fprintf(out, "\n[sharing]\n");
        shared = shared || costs->sharing[k].known;
        snprintf(key, sizeof key, "copies_%d", k);
        write_line(out, key, &costs->sharing[k]);
    }
    if (costs->linearity_count > 0) fprintf(out, "\n[linearity]\n");
    for (size_t i = 0; i < costs->linearity_count; i++) {
        char key[32];
        snprintf(key, sizeof key, "batch_%lld", (long long)costs->linearity[i].batch);
        write_line(out, key, &costs->linearity[i].factor);
    }
    write_gradients(out, costs);
    write_collectives(out, costs);
    write_exchange_runs(out, costs);
    for (size_t i = 0; i < costs->noise_count; i++)
        write_noise(out, &costs->noise[i]);
}

static dl_status check_text(const char *path, const char *text, dl_error *err)
{
    if (text == NULL || (strlen(text) <= TEXT_BYTES && strpbrk(text, "\r\n;]") == NULL)) {
        return DL_OK;
    }
    return dl_error_set_at(err, DL_ERR_DATA, path, 0,
                           "'%.60s' cannot stand in an INI file: over %d bytes, a line break, a "
                           "semicolon or a bracket",
                           text, TEXT_BYTES);
}

dl_status dl_costs_write(const dl_costs *costs, const char *path, const char *comment,
                         dl_error *err)
{
    dl_status status = check_text(path, costs->workload, err);
    if (status == DL_OK) status = check_text(path, costs->precision, err);
    if (status == DL_OK) status = check_text(path, costs->device, err);
    for (size_t i = 0; i < costs->op_count && status == DL_OK; i++) {
        status = check_text(path, costs->ops[i].name, err);
    }
    if (status != DL_OK) return status;
    dl_output output = {0};
    status = dl_output_open(&output, path, err);
    if (status != DL_OK) return status;
    write_all(output.out, costs, comment);
    return dl_output_close(&output, err);
}
