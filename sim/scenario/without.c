#include "sim/scenario/without.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/alloc.h"
#include "common/manual.h"
#include "common/names.h"

typedef enum without {
    WITHOUT_DISPATCH,
    WITHOUT_EXTERNAL,
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
    "dispatch", "external",    "input",         "copy",      "contention", "average", "update",
    "sharing",  "memory",      "overlap",       "noise",     "slow",       "lock",    "barrier",
    "wakeup",   "activations", "micro_batches", "imbalance", "bubble",
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
        DL_AUTOFREE char *name = dl_strndup(rest, bytes);
        status = parse_name(name, &parsed, err);
        rest = end != NULL ? end + 1 : NULL;
    }
    if (status == DL_OK) *set = parsed;
    return status;
}

void dl_without_complete(FILE *out, const char *typed)
{
    const char *comma = strrchr(typed, ',');
    for (size_t i = 0; i < WITHOUT_COUNT; i++)
        dl_complete_word(out, typed, comma != NULL ? (size_t)(comma + 1 - typed) : 0, names[i]);
}

static void set(dl_value *value, double number)
{
    value->known = true;
    value->value = number;
    value->error = 0;
}

/* Multiplies a time by `factor`; 0 sets it to 0, also if it is unknown. */
static void lessen(dl_value *value, double factor)
{
    if (factor == 0) {
        set(value, 0);
    } else if (value->known) {
        value->value *= factor;
        value->error *= factor;
    }
}

/* Divides a rate by `factor`, which multiplies its time by `factor`. */
static void quicken(dl_value *value, double factor)
{
    if (factor == 0) {
        set(value, (double)INFINITY);
    } else if (value->known) {
        value->value /= factor;
        value->error /= factor;
    }
}

/* Reduces a slowdown, a factor on another time, to `factor` of its excess over 1. */
static void weaken(dl_value *value, double factor)
{
    if (factor == 0) {
        set(value, 1);
    } else if (value->known) {
        value->value = 1 + factor * (value->value - 1);
        value->error *= factor;
    }
}

static void lessen_byte_cost(dl_value *latency_ns, dl_value *read, dl_value *write, double factor)
{
    lessen(latency_ns, factor);
    quicken(read, factor);
    quicken(write, factor);
}

static void lessen_operation(dl_costs *costs, const char *name, double factor)
{
    for (size_t i = 0; i < costs->op_count; i++) {
        if (strcmp(costs->ops[i].name, name) != 0) continue;
        lessen(&costs->ops[i].fixed_ns, factor);
        lessen(&costs->ops[i].per_sample_ns, factor);
    }
}

/* Reduces the costs of messages between processes if the costs have them. */
static void lessen_messages(dl_value *latency_ns, dl_value *bytes_per_s, double factor)
{
    if (latency_ns->known) lessen(latency_ns, factor);
    if (bytes_per_s->known) quicken(bytes_per_s, factor);
}

static void lessen_copies(dl_scenario *scenario, dl_costs *costs, double factor)
{
    lessen_byte_cost(&costs->copy.latency_ns, &costs->copy.bandwidth_bytes_per_s,
                     &costs->copy.pageable_bytes_per_s, factor);
    if (factor == 0) {
        costs->network.bytes_per_s = costs->network.pair_bytes_per_s = costs->network.latency_ns =
            costs->network.slice_ns = (dl_value){0};
        costs->message_host_ns = (dl_value){0};
    } else {
        quicken(&costs->network.bytes_per_s, factor);
        quicken(&costs->network.pair_bytes_per_s, factor);
        lessen(&costs->network.latency_ns, factor);
        lessen(&costs->network.slice_ns, factor);
        lessen(&costs->message_host_ns, factor);
    }
    lessen_messages(&costs->gloo.latency_ns, &costs->gloo.bytes_per_s, factor);
    lessen_messages(&costs->rpc.latency_ns, &costs->rpc.bytes_per_s, factor);
    for (size_t i = 0; i < costs->collective_count; i++)
        for (size_t t = 0; t < costs->collectives[i].count; t++)
            lessen(&costs->collectives[i].times[t].time_ns, factor);
    if (scenario->gpu != NULL) dl_gpu_options_scale_copies(scenario->gpu, factor);
}

/* Reduces the slowdown by overlap in the costs, and that of machines whose collectives go through
 * host memory: in the costs if it was assumed, else in the machine. */
static void weaken_overlap(dl_scenario *scenario, dl_costs *costs, double factor)
{
    bool assumed = false;
    weaken(&costs->overlap_slowdown, factor);
    for (size_t i = 0; i < costs->machine_value_count; i++) {
        dl_machine_value *of = &costs->machine_values[i];
        if (strcmp(of->key->section, "overlap") != 0) continue;
        weaken(&of->value, factor);
        assumed = true;
    }
    for (int k = 0; scenario->gpu != NULL && !assumed && k < scenario->gpu->machine.kind_count;
         k++) {
        dl_quantity *slowdown = &scenario->gpu->machine.kinds[k].overlap_slowdown;
        if (slowdown->known) slowdown->value = 1 + factor * (slowdown->value - 1);
    }
}

/* Weakens known slowdowns; unknown ones remain unknown, except that removal sets the slowdown of
 * two concurrent workers to 1. */
static void lessen_sharing(dl_costs *costs, double factor)
{
    weaken(&costs->sharing[2], factor);
    for (int k = 1; k <= DL_SHARING_MAX; k++) {
        if (k != 2 && costs->sharing[k].known) weaken(&costs->sharing[k], factor);
    }
}

/* Reduces graded costs to `factor` of their time; 0 removes them. */
static void lessen_graded(without what, double factor, dl_scenario *scenario, dl_costs *costs)
{
    switch (what) {
    case WITHOUT_DISPATCH:
        lessen_operation(costs, "dispatch", factor);
        lessen(&costs->dispatch.serial_ns, factor);
        lessen(&costs->dispatch.per_worker_ns, factor);
        break;
    case WITHOUT_EXTERNAL: lessen(&costs->dispatch.external_ns, factor); break;
    case WITHOUT_INPUT:
        lessen_operation(costs, "input", factor);
        lessen(&costs->input_bytes_per_sample, factor);
        lessen(&costs->input_copy_ns, factor);
        lessen(&costs->stored_bytes_per_sample, factor);
        break;
    case WITHOUT_COPY: lessen_copies(scenario, costs, factor); break;
    case WITHOUT_AVERAGE:
        lessen_byte_cost(&costs->average.latency_ns, &costs->average.read_bytes_per_s,
                         &costs->average.write_bytes_per_s, factor);
        break;
    case WITHOUT_UPDATE:
        lessen_byte_cost(&costs->update.latency_ns, &costs->update.read_bytes_per_s,
                         &costs->update.write_bytes_per_s, factor);
        break;
    case WITHOUT_SHARING: lessen_sharing(costs, factor); break;
    case WITHOUT_MEMORY: quicken(&costs->memory_total_bytes_per_s, factor); break;
    case WITHOUT_OVERLAP: weaken_overlap(scenario, costs, factor); break;
    case WITHOUT_LOCK: lessen(&costs->lock_ns, factor); break;
    case WITHOUT_BARRIER: lessen(&costs->barrier_ns, factor); break;
    case WITHOUT_WAKEUP: lessen(&costs->wakeup_ns, factor); break;
    default: break;
    }
}

static void switch_off(without what, dl_scenario *scenario, dl_costs *costs)
{
    dl_pipeline_options *split =
        scenario->pipeline != NULL ? &scenario->pipeline->options : &(dl_pipeline_options){0};
    switch (what) {
    case WITHOUT_CONTENTION:
        if (scenario->gpu != NULL) scenario->gpu->without_contention = true;
        break;
    case WITHOUT_NOISE:
        scenario->noise = DL_NOISE_NONE;
        scenario->sigma = 0;
        set(&costs->work_frac, 0);
        set(&costs->run_spread_frac, 0);
        costs->work_step_count = 0;
        if (scenario->gpu != NULL) scenario->gpu->input_varies = false;
        break;
    case WITHOUT_SLOW:
        scenario->slow_count = 0;
        set(&costs->gpu_spread_frac, 0);
        set(&costs->gpu_board_slowdown, 1);
        break;
    case WITHOUT_ACTIVATIONS: split->without_activations = true; break;
    case WITHOUT_MICRO_BATCHES: split->without_micro_batches = true; break;
    case WITHOUT_IMBALANCE: split->without_imbalance = true; break;
    case WITHOUT_BUBBLE: split->without_bubble = true; break;
    default: lessen_graded(what, 0, scenario, costs); break;
    }
}

unsigned dl_without_graded(unsigned without_set)
{
    return without_set & ~(1u << WITHOUT_CONTENTION | 1u << WITHOUT_NOISE | 1u << WITHOUT_SLOW |
                           1u << WITHOUT_ACTIVATIONS | 1u << WITHOUT_MICRO_BATCHES |
                           1u << WITHOUT_IMBALANCE | 1u << WITHOUT_BUBBLE);
}

void dl_without_lessen(unsigned without_set, double factor, dl_scenario *scenario, dl_costs *costs)
{
    for (int w = 0; w < WITHOUT_COUNT; w++) {
        if (dl_without_graded(without_set) & 1u << w) {
            lessen_graded((without)w, factor, scenario, costs);
        }
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
