#include "sim/scenario/without.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/names.h"

typedef enum without {
    WITHOUT_DISPATCH,
    WITHOUT_INPUT,
    WITHOUT_COPY,
    WITHOUT_CONTENTION,
    WITHOUT_AVERAGE,
    WITHOUT_UPDATE,
    WITHOUT_SHARING,
    WITHOUT_MEMORY,
    WITHOUT_OVERLAP,
    WITHOUT_NOISE,
    WITHOUT_SLOW,
    WITHOUT_LOCK,
    WITHOUT_BARRIER,
    WITHOUT_WAKEUP,
    WITHOUT_ACTIVATIONS,
    WITHOUT_MICRO_BATCHES,
    WITHOUT_IMBALANCE,
    WITHOUT_BUBBLE,
    WITHOUT_COUNT
} without;

static const char *const names[WITHOUT_COUNT] = {
    "dispatch", "input",  "copy",        "contention",    "average",   "update",
    "sharing",  "memory", "overlap",     "noise",         "slow",      "lock",
    "barrier",  "wakeup", "activations", "micro_batches", "imbalance", "bubble",
};

static dl_status parse_name(const char *name, unsigned *set, dl_error *err)
{
    int index = dl_names_find(name, names, WITHOUT_COUNT);
    if (index < 0) {
        char hint[256];
        dl_names_hint(hint, sizeof hint, name, names, WITHOUT_COUNT);
        return dl_error_set(err, DL_ERR_USAGE, "--without: unknown cost '%s'%s", name, hint);
    }
    if (*set & 1u << index) {
        return dl_error_set(err, DL_ERR_USAGE, "--without: '%s' is given twice", name);
    }
    *set |= 1u << index;
    return DL_OK;
}

dl_status dl_without_parse(const char *list, unsigned *set, dl_error *err)
{
    unsigned parsed = 0;
    dl_status status = DL_OK;
    for (const char *rest = list; rest != NULL && status == DL_OK;) {
        const char *end = strchr(rest, ',');
        size_t bytes = end != NULL ? (size_t)(end - rest) : strlen(rest);
        for (; bytes > 0 && isspace((unsigned char)*rest); bytes--)
            rest++;
        while (bytes > 0 && isspace((unsigned char)rest[bytes - 1]))
            bytes--;
        char *name = dl_strndup(rest, bytes);
        status = parse_name(name, &parsed, err);
        free(name);
        rest = end != NULL ? end + 1 : NULL;
    }
    if (status == DL_OK) *set = parsed;
    return status;
}

static void set(dl_value *value, double number)
{
    value->known = true;
    value->value = number;
    value->error = 0;
}

static void set_byte_cost(dl_value *latency_ns, dl_value *read, dl_value *write)
{
    set(latency_ns, 0);
    set(read, (double)INFINITY);
    set(write, (double)INFINITY);
}

static void clear_operation(dl_costs *costs, const char *name)
{
    for (size_t i = 0; i < costs->op_count; i++) {
        if (strcmp(costs->ops[i].name, name) != 0) continue;
        set(&costs->ops[i].fixed_ns, 0);
        set(&costs->ops[i].per_sample_ns, 0);
    }
}

/* Keeps how many copies were measured. */
static void clear_sharing(dl_costs *costs)
{
    set(&costs->sharing[2], 1);
    for (int k = 1; k <= DL_SHARING_MAX; k++) {
        if (costs->sharing[k].known) set(&costs->sharing[k], 1);
    }
}

static void switch_off_split(without what, dl_pipeline_options *options)
{
    if (what == WITHOUT_ACTIVATIONS) options->without_activations = true;
    if (what == WITHOUT_MICRO_BATCHES) options->without_micro_batches = true;
    if (what == WITHOUT_IMBALANCE) options->without_imbalance = true;
    if (what == WITHOUT_BUBBLE) options->without_bubble = true;
}

static void switch_off(without what, dl_scenario *scenario, dl_costs *costs)
{
    switch (what) {
    case WITHOUT_DISPATCH:
        clear_operation(costs, "dispatch");
        set(&costs->dispatch.serial_ns, 0);
        set(&costs->dispatch.per_worker_ns, 0);
        break;
    case WITHOUT_INPUT:
        clear_operation(costs, "input");
        set(&costs->input_bytes_per_sample, 0);
        break;
    case WITHOUT_COPY:
        set_byte_cost(&costs->copy.latency_ns, &costs->copy.bandwidth_bytes_per_s,
                      &costs->copy.pageable_bytes_per_s);
        costs->network.bytes_per_s = costs->network.pair_bytes_per_s = costs->network.latency_ns =
            (dl_value){0};
        costs->message_host_ns = (dl_value){0};
        if (scenario->gpu != NULL) dl_gpu_options_free_copies(scenario->gpu);
        break;
    case WITHOUT_CONTENTION:
        if (scenario->gpu != NULL) scenario->gpu->without_contention = true;
        break;
    case WITHOUT_AVERAGE:
        set_byte_cost(&costs->average.latency_ns, &costs->average.read_bytes_per_s,
                      &costs->average.write_bytes_per_s);
        break;
    case WITHOUT_UPDATE:
        set_byte_cost(&costs->update.latency_ns, &costs->update.read_bytes_per_s,
                      &costs->update.write_bytes_per_s);
        break;
    case WITHOUT_SHARING: clear_sharing(costs); break;
    case WITHOUT_MEMORY: set(&costs->memory_total_bytes_per_s, (double)INFINITY); break;
    case WITHOUT_OVERLAP: set(&costs->overlap_slowdown, 1); break;
    case WITHOUT_NOISE:
        scenario->noise = DL_NOISE_NONE;
        scenario->sigma = 0;
        if (scenario->gpu != NULL) scenario->gpu->input_varies = false;
        break;
    case WITHOUT_SLOW:
        scenario->slow_count = 0;
        set(&costs->gpu_spread_frac, 0);
        set(&costs->gpu_board_slowdown, 1);
        break;
    case WITHOUT_LOCK: set(&costs->lock_ns, 0); break;
    case WITHOUT_BARRIER: set(&costs->barrier_ns, 0); break;
    case WITHOUT_WAKEUP: set(&costs->wakeup_ns, 0); break;
    case WITHOUT_ACTIVATIONS:
    case WITHOUT_MICRO_BATCHES:
    case WITHOUT_IMBALANCE:
    case WITHOUT_BUBBLE:
        if (scenario->pipeline != NULL) switch_off_split(what, &scenario->pipeline->options);
        break;
    case WITHOUT_COUNT: break;
    }
}

void dl_without_apply(unsigned without_set, dl_scenario *scenario, dl_costs *costs)
{
    scenario->without = without_set;
    for (int w = 0; w < WITHOUT_COUNT; w++) {
        if (without_set & 1u << w) switch_off((without)w, scenario, costs);
    }
}

const char *dl_without_text(char *text, unsigned without_set)
{
    size_t used = 0;
    text[0] = '\0';
    for (int w = 0; w < WITHOUT_COUNT; w++) {
        if (!(without_set & 1u << w)) continue;
        used += (size_t)snprintf(text + used, DL_WITHOUT_TEXT_BYTES - used, "%s%s",
                                 used > 0 ? "+" : "", names[w]);
    }
    return text;
}
