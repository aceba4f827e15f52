#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "sim/costs/costs_fields.h"

#define AT(member) offsetof(dl_costs, member)
const dl_cost_field dl_cost_fields[] = {
    {"copy", "latency_ns", AT(copy.latency_ns), DL_COST_ANY, DL_NEED_COPY},
    {"copy", "bandwidth_bytes_per_s", AT(copy.bandwidth_bytes_per_s), DL_COST_POSITIVE,
     DL_NEED_COPY},
    {"copy", "pageable_bytes_per_s", AT(copy.pageable_bytes_per_s), DL_COST_POSITIVE,
     DL_NEED_PAGEABLE},
    {"average", "latency_ns", AT(average.latency_ns), DL_COST_ANY, DL_NEED_AVERAGE},
    {"average", "read_bytes_per_s", AT(average.read_bytes_per_s), DL_COST_POSITIVE,
     DL_NEED_AVERAGE},
    {"average", "write_bytes_per_s", AT(average.write_bytes_per_s), DL_COST_POSITIVE,
     DL_NEED_AVERAGE},
    {"update", "latency_ns", AT(update.latency_ns), DL_COST_ANY, DL_NEED_UPDATE},
    {"update", "read_bytes_per_s", AT(update.read_bytes_per_s), DL_COST_POSITIVE, DL_NEED_UPDATE},
    {"update", "write_bytes_per_s", AT(update.write_bytes_per_s), DL_COST_POSITIVE, DL_NEED_UPDATE},
    {"memory", "total_bytes_per_s", AT(memory_total_bytes_per_s), DL_COST_POSITIVE, DL_NEED_MEMORY},
    {"sync", "barrier_ns", AT(barrier_ns), DL_COST_NOT_NEGATIVE, DL_NEED_BARRIER},
    {"sync", "wakeup_ns", AT(wakeup_ns), DL_COST_NOT_NEGATIVE, DL_NEED_WAKEUP},
    {"sync", "lock_ns", AT(lock_ns), DL_COST_NOT_NEGATIVE, DL_NEED_LOCK},
    {"sync", "slice_ns", AT(slice_ns), DL_COST_POSITIVE, DL_NEED_SLICE},
    {"dispatch", "serial_ns", AT(dispatch.serial_ns), DL_COST_NOT_NEGATIVE, DL_NEED_DISPATCH},
    {"dispatch", "per_worker_ns", AT(dispatch.per_worker_ns), DL_COST_NOT_NEGATIVE,
     DL_NEED_DISPATCH},
    {"overlap", "slowdown", AT(overlap_slowdown), DL_COST_ONE_OR_MORE, DL_NEED_OVERLAP},
    {"network", "bytes_per_s", AT(network.bytes_per_s), DL_COST_POSITIVE, 0},
    {"network", "pair_bytes_per_s", AT(network.pair_bytes_per_s), DL_COST_POSITIVE, 0},
    {"network", "latency_ns", AT(network.latency_ns), DL_COST_NOT_NEGATIVE, 0},
    {"message", "host_ns", AT(message_host_ns), DL_COST_NOT_NEGATIVE, 0},
    {"spread", "gpu_frac", AT(gpu_spread_frac), DL_COST_AT_MOST_ONE, 0},
    {"spread", "board_slowdown", AT(gpu_board_slowdown), DL_COST_ONE_OR_MORE, 0},
    {"input", "bytes_per_sample", AT(input_bytes_per_sample), DL_COST_NOT_NEGATIVE, DL_NEED_INPUT},
    {"gpu_memory", "activation_bytes_per_sample", AT(gpu_memory.activation_bytes_per_sample),
     DL_COST_NOT_NEGATIVE, DL_NEED_GPU_MEMORY},
    {"gpu_memory", "workspace_bytes", AT(gpu_memory.workspace_bytes), DL_COST_NOT_NEGATIVE,
     DL_NEED_GPU_MEMORY},
};
const size_t dl_cost_field_count = sizeof dl_cost_fields / sizeof *dl_cost_fields;

const dl_value *dl_cost_field_value(const dl_costs *costs, const dl_cost_field *f)
{
    return (const dl_value *)(const void *)((const char *)costs + f->offset);
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
    for (size_t i = 0; i < dl_cost_field_count; i++) {
        if ((needs & dl_cost_fields[i].need) &&
            !dl_cost_field_value(costs, &dl_cost_fields[i])->known) {
            list(&names, "[%s] %s", dl_cost_fields[i].section, dl_cost_fields[i].key);
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
    for (size_t i = 0; i < dl_cost_field_count; i++) {
        if (needs & dl_cost_fields[i].need)
            worst(&origin, &found, dl_cost_field_value(costs, &dl_cost_fields[i]));
    }
    for (int k = 2; k <= DL_SHARING_MAX && (needs & DL_NEED_SHARING); k++) {
        worst(&origin, &found, &costs->sharing[k]);
    }
    return origin;
}
