/* Queries of costs: missing values, origins, times. */
#include "sim/costs/costs_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "sim/collective/collective.h"
#include "sim/statistics.h"

static void free_traces(dl_costs *costs)
{
    for (size_t i = 0; i < costs->trace_count; i++) {
        dl_cost_trace *trace = &costs->traces[i];
        for (size_t c = 0; c < trace->collective_count; c++)
            free(trace->collectives[c].name);
        free(trace->collectives);
        free(trace->file);
    }
    for (size_t i = 0; i < costs->note_count; i++)
        free(costs->notes[i]);
    free(costs->traces);
    free(costs->notes);
}

void dl_costs_free(dl_costs *costs)
{
    for (size_t i = 0; i < costs->op_count; i++)
        free(costs->ops[i].name);
    for (size_t l = 0; l < costs->layer_count; l++)
        free(costs->layers[l].name);
    for (size_t i = 0; i < costs->noise_count; i++) {
        for (size_t s = 0; s < costs->noise[i].run_count * costs->noise[i].copies; s++)
            free(costs->noise[i].series[s].factors);
        free(costs->noise[i].series);
    }
    for (size_t i = 0; i < costs->machine_value_count; i++)
        free(costs->machine_values[i].section);
    free(costs->machine_values);
    for (size_t i = 0; i < costs->collective_count; i++) {
        free(costs->collectives[i].times);
        free(costs->collectives[i].starts);
    }
    for (int m = 0; m < costs->model_count; m++) {
        if (costs->models[m].own != NULL) dl_costs_free(costs->models[m].own);
        free(costs->models[m].own);
        free(costs->models[m].factors);
    }
    free_traces(costs);
    free(costs->models);
    free(costs->ops);
    free(costs->layers);
    free(costs->noise);
    free(costs->exchange_runs);
    free(costs->gradients);
    free(costs->work_steps);
    free(costs->collectives);
    free(costs->path);
    free(costs->workload);
    free(costs->precision);
    free(costs->device);
    free(costs->framework);
    *costs = (dl_costs){0};
}

bool dl_costs_is_phase(const char *name, const char *phase)
{
    size_t length = strlen(name), tail = strlen(phase);
    return length > tail + 1 && name[length - tail - 1] == '.' &&
           strcmp(name + length - tail, phase) == 0;
}

bool dl_costs_is_of_parameters(const char *name)
{
    return dl_costs_is_phase(name, "update") || dl_costs_is_phase(name, "bucket");
}

bool dl_costs_is_op_name(const char *name)
{
    return strcmp(name, "input") == 0 || strcmp(name, "dispatch") == 0 ||
           dl_costs_is_phase(name, "forward") || dl_costs_is_phase(name, "backward") ||
           dl_costs_is_of_parameters(name);
}

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
    dl_join_format(names, ", ", format, section, key);
}

bool dl_costs_are_estimated(const dl_costs *costs)
{
    return costs->compute_spread_frac.known;
}

double dl_costs_run_frac(const dl_costs *costs)
{
    return costs->run_spread_frac.known ? costs->run_spread_frac.value : 0;
}

bool dl_costs_have_input(const dl_costs *costs)
{
    for (size_t i = 0; i < costs->op_count; i++) {
        if (strcmp(costs->ops[i].name, "input") == 0) return true;
    }
    return costs->input_bytes_per_sample.known;
}

bool dl_costs_of_other_program(const dl_costs *costs)
{
    for (size_t i = 0; i < costs->op_count; i++)
        if (strncmp(costs->ops[i].name, "step.", 5) == 0) return true;
    return false;
}

bool dl_costs_have_exchanges(const dl_costs *costs)
{
    for (size_t i = 0; i < costs->collective_count; i++) {
        const int kind = costs->collectives[i].kind;
        if (kind == DL_ALLREDUCE || kind == DL_ROUNDTRIP || kind == DL_PUSHPULL) return true;
    }
    return false;
}

bool dl_costs_exchange_by_messages(const dl_costs *costs)
{
    return !dl_costs_have_exchanges(costs) &&
           (costs->gloo.latency_ns.known || costs->rpc.latency_ns.known ||
            dl_costs_of_other_program(costs));
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
        const dl_key *key = &dl_cost_keys.rows[i];
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
    for (int m = 0; m < costs->model_count && (needs & DL_NEED_OPS); m++) {
        const dl_costs *own = costs->models[m].own;
        const dl_origin of = own != NULL ? dl_costs_worst_origin(own, DL_NEED_OPS)
                             : costs->models[m].factors != NULL ? DL_ORIGIN_ASSUMED
                                                                : origin;
        if (of < origin) origin = of;
    }
    for (size_t i = 0; i < dl_cost_keys.count; i++) {
        const dl_value *value = dl_cost_single_of(costs, &dl_cost_keys.rows[i]);
        if (value != NULL && needs & dl_cost_keys.rows[i].group) worst(&origin, &found, value);
    }
    for (int k = 2; k <= DL_SHARING_MAX && (needs & DL_NEED_SHARING); k++) {
        worst(&origin, &found, &costs->sharing[k]);
    }
    return origin;
}

bool dl_costs_work_differs(const dl_costs *costs)
{
    return costs->work_step_count > 0 || (costs->work_frac.known && costs->work_frac.value > 0);
}

int64_t dl_costs_traced_gpus(const dl_costs *costs, const dl_cost_trace *trace)
{
    const int64_t sizes[] = {trace->stages, trace->shards, costs->tensor_ranks};
    int64_t gpus = 1;
    for (size_t i = 0; i < DL_LENGTH(sizes); i++)
        gpus *= sizes[i] > 1 ? sizes[i] : 1;
    return gpus;
}

/* Interpolates linearly in log(batch) between the table's entries; constant beyond them. */
static double measured_linearity(const dl_costs *costs, double batch)
{
    const dl_linearity *table = costs->linearity;
    size_t count = costs->linearity_count, high = 0;
    if (count == 0) return 1;
    while (high < count && (double)table[high].batch < batch)
        high++;
    if (high == 0) return table[0].factor.value;
    if (high == count) return table[count - 1].factor.value;
    const dl_linearity *low = &table[high - 1];
    double share =
        log(batch / (double)low->batch) / log((double)table[high].batch / (double)low->batch);
    return low->factor.value + share * (table[high].factor.value - low->factor.value);
}

double dl_costs_linearity(const dl_costs *costs, const char *op, double batch)
{
    const double measured = measured_linearity(costs, batch);
    if (!costs->per_doubling.known || dl_costs_is_of_parameters(op)) return measured;
    const double least = (double)costs->batch_min, most = (double)costs->batch_max;
    double doublings = 0;
    if (most > 0 && batch > most) doublings = log2(batch / most);
    if (least > 0 && batch < least && batch > 0) doublings = log2(least / batch);
    return measured * pow(costs->per_doubling.value, doublings);
}

/* factors: [op_count]; NULL: all 1. */
static double step_ns(const dl_costs *costs, const double *factors, double batch, const char *phase)
{
    double sum_ns = 0;
    for (size_t i = 0; i < costs->op_count; i++) {
        const dl_op_cost *op = &costs->ops[i];
        if (phase != NULL && strcmp(op->name, phase) != 0 && !dl_costs_is_phase(op->name, phase))
            continue;
        const double factor = factors != NULL ? factors[i] : 1;
        sum_ns += factor * (op->fixed_ns.value + op->per_sample_ns.value * batch) *
                  dl_costs_linearity(costs, op->name, batch);
    }
    return sum_ns;
}

int64_t dl_costs_step_batch(const dl_costs *costs)
{
    return costs->batch_max * (costs->accumulate > 1 ? costs->accumulate : 1);
}

double dl_costs_step_ns(const dl_costs *costs, double batch, const char *phase)
{
    return step_ns(costs, NULL, batch, phase);
}

double dl_costs_update_parts(const dl_costs *costs, double batch, double sharers)
{
    double starts_ns = 0, all_ns = 0;
    for (size_t i = 0; i < costs->op_count; i++) {
        const dl_op_cost *op = &costs->ops[i];
        if (!dl_costs_is_phase(op->name, "update")) continue;
        all_ns += op->fixed_ns.value + op->per_sample_ns.value * batch;
        if (op->starts_frac.known) starts_ns += fmax(0, op->fixed_ns.value) * op->starts_frac.value;
    }
    if (!(starts_ns > 0 && all_ns > 0)) return sharers;
    const double frac = fmin(1, starts_ns / all_ns);
    return sharers / (1 + frac * (sharers - 1));
}

double dl_costs_model_step_ns(const dl_costs *costs, int model, double batch, const char *phase)
{
    if (costs->model_count == 0) return step_ns(costs, NULL, batch, phase);
    const dl_model_costs *m = &costs->models[model];
    return m->own != NULL ? step_ns(m->own, NULL, batch, phase)
                          : step_ns(costs, m->factors, batch, phase);
}

const dl_costs *dl_costs_of_model(const dl_costs *costs, int model)
{
    const bool has_own = costs->model_count > 0 && costs->models[model].own != NULL;
    return has_own ? costs->models[model].own : costs;
}

static void see(dl_value *value, const char *section, const char *name, dl_cost_visit_fn visit,
                void *user)
{
    const dl_key *key = dl_keys_find(&dl_cost_keys, section, name);
    visit(user, value, key->low, key->high);
}

void dl_costs_each(dl_costs *costs, dl_cost_visit_fn visit, void *user)
{
    for (size_t i = 0; i < costs->op_count; i++) {
        see(&costs->ops[i].fixed_ns, "op a.forward", "fixed_ns", visit, user);
        see(&costs->ops[i].per_sample_ns, "op a.forward", "per_sample_ns", visit, user);
    }
    for (size_t i = 0; i < dl_cost_keys.count; i++) {
        const dl_key *key = &dl_cost_keys.rows[i];
        dl_value *value = dl_cost_single(costs, key);
        if (value != NULL) visit(user, value, key->low, key->high);
    }
    const dl_key *sharing = dl_keys_find(&dl_cost_keys, "sharing", "copies_1");
    for (int k = 1; k <= DL_SHARING_MAX; k++)
        visit(user, &costs->sharing[k], sharing->low, sharing->high);
    for (size_t i = 0; i < costs->linearity_count; i++)
        see(&costs->linearity[i].factor, "linearity", "batch_1", visit, user);
    for (size_t i = 0; i < costs->machine_value_count; i++) {
        dl_machine_value *of = &costs->machine_values[i];
        visit(user, &of->value, of->key->low, of->key->high);
    }
}

void dl_costs_each_bounded(const dl_costs *costs, dl_cost_bounded_fn visit, void *user)
{
    for (size_t i = 0; i < costs->op_count; i++) {
        const dl_op_cost *op = &costs->ops[i];
        DL_AUTOFREE char *section = dl_format("op %s", op->name);
        if (dl_value_is_bounded(&op->fixed_ns)) {
            visit(user, section, "fixed_ns", DL_DIMENSION_NS, &op->fixed_ns);
        }
        if (dl_value_is_bounded(&op->per_sample_ns)) {
            visit(user, section, "per_sample_ns", DL_DIMENSION_NS, &op->per_sample_ns);
        }
    }
    for (size_t i = 0; i < dl_cost_keys.count; i++) {
        const dl_key *key = &dl_cost_keys.rows[i];
        const dl_value *value = dl_cost_single_of(costs, key);
        if (value == NULL || !dl_value_is_bounded(value)) continue;
        visit(user, key->section, key->name, key->dimension, value);
    }
    for (int k = 1; k <= DL_SHARING_MAX; k++) {
        char name[24];
        snprintf(name, sizeof name, "copies_%d", k);
        if (!dl_value_is_bounded(&costs->sharing[k])) continue;
        visit(user, "sharing", name, DL_DIMENSION_PURE, &costs->sharing[k]);
    }
    for (size_t i = 0; i < costs->machine_value_count; i++) {
        const dl_machine_value *of = &costs->machine_values[i];
        if (!dl_value_is_bounded(&of->value)) continue;
        DL_AUTOFREE char *section = dl_format("machine %s", of->section);
        visit(user, section, of->key->name, of->key->dimension, &of->value);
    }
}

/* --- numbers of the machine ------------------------------------------------------------------ */

dl_machine_value *dl_costs_machine_value(const dl_costs *costs, const char *section,
                                         const dl_key *key)
{
    for (size_t i = 0; i < costs->machine_value_count; i++) {
        dl_machine_value *value = &costs->machine_values[i];
        if (value->key == key && strcmp(value->section, section) == 0) return value;
    }
    return NULL;
}

static void add_machine_value(void *user, const char *section, const dl_key *key,
                              dl_quantity *quantity DL_UNUSED)
{
    dl_costs *costs = user;
    dl_machine_value *given = dl_costs_machine_value(costs, section, key);
    if (given != NULL && given->of_machine > 0) {
        given->value = (dl_value){0};
        given->of_machine = 0;
    }
    if (given != NULL) return;
    DL_APPEND(costs->machine_values, costs->machine_value_count, "numbers of the machine") =
        (dl_machine_value){.section = dl_strdup(section), .key = key};
}

void dl_costs_add_machine(dl_costs *costs, dl_machine *machine)
{
    dl_machine_each(machine, add_machine_value, costs);
}

size_t dl_costs_assume_machine_value(dl_costs *costs, const char *section, const dl_key *key,
                                     const dl_quantity *quantity, unsigned cause)
{
    add_machine_value(costs, section, key, NULL);
    dl_machine_value *of = dl_costs_machine_value(costs, section, key);
    of->of_machine = quantity->value;
    of->value = (dl_value){.known = true,
                           .value = quantity->value,
                           .origin = quantity->origin,
                           .low = quantity->low,
                           .high = quantity->high,
                           .is_assumed = true,
                           .cause = cause};
    return (size_t)(of - costs->machine_values);
}

typedef struct machine_check {
    const dl_machine_value *value;
    bool found;
} machine_check;

static void look_for(void *user, const char *section, const dl_key *key, dl_quantity *quantity)
{
    machine_check *check = user;
    (void)quantity;
    check->found |= key == check->value->key && strcmp(section, check->value->section) == 0;
}

dl_status dl_costs_check_machine(const dl_costs *costs, dl_machine *machine, dl_error *err)
{
    const bool all_ports = costs->network.bytes_per_s.known || costs->network.latency_ns.known;
    if (machine != NULL && all_ports && dl_machine_has_unlike_ports(machine)) {
        return dl_error_set_at(
            err, DL_ERR_UNSUPPORTED, costs->path, 0,
            "[network] bytes_per_s and latency_ns apply to all ports, but those of %s differ: "
            "[machine link NAME] gives a class of links its rate and latency",
            machine->path);
    }
    for (size_t i = 0; i < costs->machine_value_count; i++) {
        machine_check check = {.value = &costs->machine_values[i]};
        if (machine != NULL) dl_machine_each(machine, look_for, &check);
        if (check.found) continue;
        return dl_error_set_at(err, DL_ERR_NAME, costs->path, 0, "[machine %s] %s: %s has no [%s]",
                               check.value->section, check.value->key->name,
                               machine != NULL ? machine->path : "a machine of cores",
                               check.value->section);
    }
    return DL_OK;
}

static void set_quantity(void *user, const char *section, const dl_key *key, dl_quantity *quantity)
{
    const dl_machine_value *given = dl_costs_machine_value(user, section, key);
    if (given == NULL || !given->value.known) return;
    if (given->of_machine > 0) {
        quantity->value *= given->value.value / given->of_machine;
        return;
    }
    *quantity =
        (dl_quantity){.known = true, .value = given->value.value, .origin = given->value.origin};
}

void dl_costs_set_machine(const dl_costs *costs, dl_machine *machine)
{
    dl_costs looked_at = *costs;
    dl_machine_each(machine, set_quantity, &looked_at);
}

void dl_noise_series_finish(dl_noise_series *series)
{
    DL_AUTOFREE float *sorted = dl_calloc(series->count, sizeof *sorted, "noise");
    memcpy(sorted, series->factors, series->count * sizeof *sorted);
    series->middle = dl_median_float(sorted, series->count);
}

/* Distance of a set from the requested one; the difference in copies dominates. */
static double distance(const dl_noise_set *set, double batch, size_t at_once)
{
    const double far = 1e6; /* far exceeds the log ratio of any batch sizes; sets for any batch size
                             * have far / 2 */
    double copies = set->copies <= at_once ? (double)(at_once - set->copies)
                                           : (double)at_once + (double)set->copies;
    double ratio = set->batch > 0 ? fabs(log((double)set->batch / batch)) : far / 2;
    return copies * far + ratio;
}

const dl_noise_set *dl_costs_noise(const dl_costs *costs, double batch, size_t at_once)
{
    const dl_noise_set *best = NULL;
    for (size_t i = 0; i < costs->noise_count; i++) {
        const dl_noise_set *set = &costs->noise[i];
        if (best == NULL || distance(set, batch, at_once) < distance(best, batch, at_once)) {
            best = set;
        }
    }
    return best;
}
