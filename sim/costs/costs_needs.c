#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "sim/costs/costs_fields.h"

/* Plausible values, far beyond what is built or trained. */
#define RATES DL_DIMENSION_BYTES_PER_S, 1e3, 1e15
#define SIZES DL_DIMENSION_BYTES, 0, 1e15
#define TIMES DL_DIMENSION_NS, 0, 3.6e12
#define ISSUE DL_DIMENSION_NS, 0, 1e11
#define SLICE DL_DIMENSION_NS, 1, 1e10
#define FLOPS DL_DIMENSION_PURE, 0, 1e18
#define SHARE DL_DIMENSION_PURE, 0, 1
#define WAITS DL_DIMENSION_NS, 0, 1e10
#define INTERCEPT DL_DIMENSION_NS, -1e9, 3.6e12
#define FACTOR DL_DIMENSION_PURE, 1, 100
#define COUNTS(high) DL_DIMENSION_PURE, 1, high

#define ROW(section, name, dimension_and_range, need, owner, offset, words) \
    ROW_(section, name, dimension_and_range, need, owner, offset, words)
#define ROW_(section, name, dimension, low, high, need, owner, offset, words)                    \
    {                                                                                            \
        section, name, DL_KEY_OWN, dimension, low, high, NULL, NULL, NULL, false, owner, offset, \
            need, .help = words                                                                  \
    }

static const dl_key rows[] = {
    {"costs", "schema", DL_KEY_OWN, COUNTS(1), NULL, "1", NULL, true, DL_COST_SERIES, 0, 0,
     .help = "version of this format"},
    {"costs", "workload", DL_KEY_TEXT, DL_DIMENSION_PURE, 0, 0, NULL, "text", NULL, false,
     DL_COST_HEAD, offsetof(dl_costs, workload), 0, .help = "the model"},
    {"costs", "device", DL_KEY_TEXT, DL_DIMENSION_PURE, 0, 0, NULL, "text", NULL, false,
     DL_COST_HEAD, offsetof(dl_costs, device), 0,
     .help = "what was measured; on GPUs its model's name is in it"},
    {"costs", "parameter_bytes", DL_KEY_INT64, SIZES, NULL, NULL, NULL, false, DL_COST_HEAD,
     offsetof(dl_costs, parameter_bytes), 0, .help = "of the model"},
    {"costs", "state_bytes", DL_KEY_INT64, SIZES, NULL, NULL, NULL, false, DL_COST_HEAD,
     offsetof(dl_costs, state_bytes), 0, .help = "of the optimizer's state"},
    {"costs", "batch_min", DL_KEY_INT64, COUNTS(INT32_MAX), NULL, NULL, NULL, false, DL_COST_HEAD,
     offsetof(dl_costs, batch_min), 0, .help = "smallest batch of a worker that was measured"},
    {"costs", "batch_max", DL_KEY_INT64, COUNTS(INT32_MAX), NULL, NULL, NULL, false, DL_COST_HEAD,
     offsetof(dl_costs, batch_max), 0, .help = "largest one"},
    {"costs", "cores", DL_KEY_INT64, COUNTS(1024), NULL, NULL, NULL, false, DL_COST_HEAD,
     offsetof(dl_costs, cores), 0, .help = "of the machine that was measured"},
    ROW("op *", "fixed_ns", INTERCEPT, DL_NEED_OPS, DL_COST_OP, offsetof(dl_op_cost, fixed_ns),
        "of the operation, whatever the batch"),
    ROW("op *", "per_sample_ns", TIMES, DL_NEED_OPS, DL_COST_OP,
        offsetof(dl_op_cost, per_sample_ns), "and for each sample"),
    ROW("op *", "flop_per_sample", FLOPS, 0, DL_COST_OP, offsetof(dl_op_cost, flop_per_sample),
        "floating-point operations, to scale to another GPU"),
    ROW("op *", "bytes_per_sample", SIZES, 0, DL_COST_OP, offsetof(dl_op_cost, bytes_per_sample),
        "of memory that it reads and writes, likewise"),
    ROW("layer *", "output_bytes_per_sample", SIZES, 0, DL_COST_LAYER,
        offsetof(dl_layer_cost, output_bytes_per_sample),
        "handed to the next layer, and its gradient back"),
    ROW("layer *", "parameter_bytes", SIZES, 0, DL_COST_LAYER,
        offsetof(dl_layer_cost, parameter_bytes), "of the layer"),
    ROW("layer *", "activation_bytes_per_sample", SIZES, 0, DL_COST_LAYER,
        offsetof(dl_layer_cost, activation_bytes_per_sample),
        "kept for the backward pass, in place of its share of [gpu_memory]'s"),
    ROW("copy", "latency_ns", INTERCEPT, DL_NEED_COPY, DL_COST_SINGLE,
        offsetof(dl_costs, copy.latency_ns), "of a copy on the worker's own core"),
    ROW("copy", "bandwidth_bytes_per_s", RATES, DL_NEED_COPY, DL_COST_SINGLE,
        offsetof(dl_costs, copy.bandwidth_bytes_per_s), "of it"),
    ROW("copy", "pageable_bytes_per_s", RATES, DL_NEED_PAGEABLE, DL_COST_SINGLE,
        offsetof(dl_costs, copy.pageable_bytes_per_s),
        "between a GPU and host memory that is not pinned, each direction"),
    ROW("average", "latency_ns", INTERCEPT, DL_NEED_AVERAGE, DL_COST_SINGLE,
        offsetof(dl_costs, average.latency_ns),
        "averaging with one thread: latency + bytes (vectors / read + 1 / write)"),
    ROW("average", "read_bytes_per_s", RATES, DL_NEED_AVERAGE, DL_COST_SINGLE,
        offsetof(dl_costs, average.read_bytes_per_s), "of it"),
    ROW("average", "write_bytes_per_s", RATES, DL_NEED_AVERAGE, DL_COST_SINGLE,
        offsetof(dl_costs, average.write_bytes_per_s), "of it"),
    ROW("update", "latency_ns", INTERCEPT, DL_NEED_UPDATE, DL_COST_SINGLE,
        offsetof(dl_costs, update.latency_ns),
        "the server's update, likewise: gradients summed and applied"),
    ROW("update", "read_bytes_per_s", RATES, DL_NEED_UPDATE, DL_COST_SINGLE,
        offsetof(dl_costs, update.read_bytes_per_s), "of it"),
    ROW("update", "write_bytes_per_s", RATES, DL_NEED_UPDATE, DL_COST_SINGLE,
        offsetof(dl_costs, update.write_bytes_per_s), "of it"),
    ROW("memory", "total_bytes_per_s", RATES, DL_NEED_MEMORY, DL_COST_SINGLE,
        offsetof(dl_costs, memory_total_bytes_per_s),
        "traffic, read and written, of all cores at once"),
    ROW("sync", "barrier_ns", WAITS, DL_NEED_BARRIER, DL_COST_SINGLE,
        offsetof(dl_costs, barrier_ns), "spinning barrier: last arrival to release"),
    ROW("sync", "wakeup_ns", WAITS, DL_NEED_WAKEUP, DL_COST_SINGLE, offsetof(dl_costs, wakeup_ns),
        "post to running of a blocked thread"),
    ROW("sync", "lock_ns", WAITS, DL_NEED_LOCK, DL_COST_SINGLE, offsetof(dl_costs, lock_ns),
        "hand-over of a spinning lock"),
    ROW("sync", "slice_ns", SLICE, DL_NEED_SLICE, DL_COST_SINGLE, offsetof(dl_costs, slice_ns),
        "how long a thread keeps a core that others want too"),
    ROW("dispatch", "serial_ns", ISSUE, DL_NEED_DISPATCH, DL_COST_SINGLE,
        offsetof(dl_costs, dispatch.serial_ns),
        "host time of a step before the first GPU is given anything"),
    ROW("dispatch", "per_worker_ns", ISSUE, DL_NEED_DISPATCH, DL_COST_SINGLE,
        offsetof(dl_costs, dispatch.per_worker_ns), "to issue one GPU's step"),
    ROW("overlap", "slowdown", FACTOR, DL_NEED_OVERLAP, DL_COST_SINGLE,
        offsetof(dl_costs, overlap_slowdown),
        "factor on a GPU's compute while collectives run beside it"),
    ROW("network", "bytes_per_s", RATES, 0, DL_COST_SINGLE, offsetof(dl_costs, network.bytes_per_s),
        "of a node's port, each direction, in place of the machine file's"),
    ROW("network", "pair_bytes_per_s", RATES, 0, DL_COST_SINGLE,
        offsetof(dl_costs, network.pair_bytes_per_s),
        "between two nodes, both directions together"),
    ROW("network", "latency_ns", WAITS, 0, DL_COST_SINGLE, offsetof(dl_costs, network.latency_ns),
        "of a message between two nodes, beside their own links'"),
    ROW("message", "host_ns", WAITS, 0, DL_COST_SINGLE, offsetof(dl_costs, message_host_ns),
        "of a message of exchange anywhere, beside the links': staging, MPI"),
    ROW("spread", "gpu_frac", SHARE, 0, DL_COST_SINGLE, offsetof(dl_costs, gpu_spread_frac),
        "standard deviation of the logarithm of the compute times of GPUs of one model"),
    ROW("spread", "board_slowdown", FACTOR, 0, DL_COST_SINGLE,
        offsetof(dl_costs, gpu_board_slowdown),
        "factor on the compute of a GPU when another one below its PCIe switch is used too"),
    ROW("input", "bytes_per_sample", SIZES, DL_NEED_INPUT, DL_COST_SINGLE,
        offsetof(dl_costs, input_bytes_per_sample),
        "copied to the GPU; needed if there is an [op input]"),
    ROW("gpu_memory", "activation_bytes_per_sample", SIZES, DL_NEED_GPU_MEMORY, DL_COST_SINGLE,
        offsetof(dl_costs, gpu_memory.activation_bytes_per_sample), "kept for the backward pass"),
    ROW("gpu_memory", "workspace_bytes", SIZES, DL_NEED_GPU_MEMORY, DL_COST_SINGLE,
        offsetof(dl_costs, gpu_memory.workspace_bytes), "of libraries and the driver"),
    {"sharing", "copies_*", DL_KEY_OWN, DL_DIMENSION_PURE, 1e-3, 1e3, NULL, NULL, NULL, false,
     DL_COST_SERIES, 0, 0,
     .help = "copies_K: a step's time with K copies at once over its time alone, per core turn"},
    {"linearity", "batch_*", DL_KEY_OWN, DL_DIMENSION_PURE, 1e-3, 1e3, NULL, NULL, NULL, false,
     DL_COST_SERIES, 0, 0,
     .help = "batch_B: time of all operations at batch B over that of their lines"},
    {"gradients", "ready_*", DL_KEY_OWN, DL_DIMENSION_PURE, 0, 0, NULL, "SHARE, BYTES", NULL, false,
     DL_COST_SERIES, 0, 0,
     .help = "ready_1, ready_2, ...: share of the backward pass, and the bytes of gradients ready "
             "by then"},
    {"collective *", "bytes_*", DL_KEY_OWN, DL_DIMENSION_NS, 0, 3.6e12, NULL, NULL, NULL, false,
     DL_COST_SERIES, 0, 0, .help = "bytes_SIZE of [collective KIND RANKS]: its time"},
    {"collective *", "nodes", DL_KEY_OWN, DL_DIMENSION_PURE, 0, 0, NULL, "whole number", NULL,
     false, DL_COST_SERIES, 0, 0, .help = "that the ranks are on"},
    {"exchange_runs", "run_*", DL_KEY_OWN, DL_DIMENSION_PURE, 0, 0, NULL, "COPY, AVERAGE, UPDATE",
     NULL, false, DL_COST_SERIES, 0, 0,
     .help = "run_1, ...: times of exchange in one run over those of the lines"},
    {"noise", "factors_*", DL_KEY_OWN, DL_DIMENSION_PURE, 0, 0, NULL, "list of factors", NULL,
     false, DL_COST_SERIES, 0, 0,
     .help = "factors_RUN_COPY_LINE: step times over the expected ones, in order"},
    {"noise *", "factors_*", DL_KEY_OWN, DL_DIMENSION_PURE, 0, 0, NULL, "list of factors", NULL,
     false, DL_COST_SERIES, 0, 0, .help = "the same for [noise BATCH] or [noise BATCH copies K]"},
};
const dl_keys dl_cost_keys = {rows, sizeof rows / sizeof *rows};

const dl_value *dl_cost_single_of(const dl_costs *costs, const dl_key *key)
{
    if (key->owner != DL_COST_SINGLE) return NULL;
    return (const dl_value *)(const void *)((const char *)costs + key->offset);
}

dl_value *dl_cost_single(dl_costs *costs, const dl_key *key)
{
    if (key->owner != DL_COST_SINGLE) return NULL;
    return (dl_value *)(void *)((char *)costs + key->offset);
}

static void list(char **names, const char *format, const char *section, const char *key)
{
    char *name = dl_format(format, section, key);
    char *grown = *names != NULL ? dl_format("%s, %s", *names, name) : dl_strdup(name);
    free(name);
    free(*names);
    *names = grown;
}

bool dl_costs_have_input(const dl_costs *costs)
{
    for (size_t i = 0; i < costs->op_count; i++) {
        if (strcmp(costs->ops[i].name, "input") == 0) return true;
    }
    return costs->input_bytes_per_sample.known;
}

char *dl_costs_missing(const dl_costs *costs, unsigned needs)
{
    char *names = NULL;
    if (!dl_costs_have_input(costs)) needs &= ~(unsigned)DL_NEED_INPUT;
    if ((needs & DL_NEED_PARAMETERS) && costs->parameter_bytes < 0) {
        list(&names, "[%s] %s", "costs", "parameter_bytes");
    }
    if ((needs & DL_NEED_STATE) && costs->state_bytes < 0) {
        list(&names, "[%s] %s", "costs", "state_bytes");
    }
    if ((needs & DL_NEED_OPS) && costs->op_count == 0) list(&names, "[%s%s]", "op ", "NAME");
    for (size_t i = 0; i < costs->op_count && (needs & DL_NEED_OPS); i++) {
        const dl_op_cost *op = &costs->ops[i];
        if (!op->fixed_ns.known) list(&names, "[op %s] %s", op->name, "fixed_ns");
        if (!op->per_sample_ns.known) list(&names, "[op %s] %s", op->name, "per_sample_ns");
    }
    for (size_t i = 0; i < dl_cost_keys.count; i++) {
        const dl_key *key = &rows[i];
        const dl_value *value = dl_cost_single_of(costs, key);
        if (value != NULL && (needs & key->group) && !value->known) {
            list(&names, "[%s] %s", key->section, key->name);
        }
    }
    bool shared = false;
    for (int k = 2; k <= DL_SHARING_MAX; k++)
        shared |= costs->sharing[k].known;
    if ((needs & DL_NEED_SHARING) && !shared) list(&names, "[%s] %s", "sharing", "copies_2");
    if ((needs & DL_NEED_NOISE) && costs->noise_count == 0) {
        list(&names, "[%s] %s", "noise", "factors_1_1_1");
    }
    return names;
}

static void worst(dl_origin *origin, bool *found, const dl_value *value)
{
    if (!value->known) return;
    if (!*found || value->origin < *origin) *origin = value->origin;
    *found = true;
}

dl_origin dl_costs_worst_origin(const dl_costs *costs, unsigned needs)
{
    dl_origin origin = DL_ORIGIN_ASSUMED;
    bool found = false;
    for (size_t i = 0; i < costs->op_count && (needs & DL_NEED_OPS); i++) {
        worst(&origin, &found, &costs->ops[i].fixed_ns);
        worst(&origin, &found, &costs->ops[i].per_sample_ns);
    }
    for (size_t i = 0; i < costs->linearity_count && (needs & DL_NEED_OPS); i++) {
        worst(&origin, &found, &costs->linearity[i].factor);
    }
    for (size_t i = 0; i < dl_cost_keys.count; i++) {
        const dl_value *value = dl_cost_single_of(costs, &rows[i]);
        if (value != NULL && needs & rows[i].group) worst(&origin, &found, value);
    }
    for (int k = 2; k <= DL_SHARING_MAX && (needs & DL_NEED_SHARING); k++) {
        worst(&origin, &found, &costs->sharing[k]);
    }
    return origin;
}
