#include "sim/costs/costs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/ini.h"
#include "common/units.h"
#include "sim/costs/costs_fields.h"

static dl_value *field_value(dl_costs *costs, const dl_cost_field *f)
{
    return (dl_value *)(void *)((char *)costs + f->offset);
}

/* No product or quotient of a few numbers in these ranges overflows. */
#define LARGEST 1e24
#define SMALLEST_POSITIVE 1e-9

typedef struct value_range {
    double low, high;
    const char *text;
} value_range;

static const value_range ranges[] = {
    [DL_COST_ANY] = {-LARGEST, LARGEST, "from -1e24 to 1e24"},
    [DL_COST_NOT_NEGATIVE] = {0, LARGEST, ">= 0, at most 1e24"},
    [DL_COST_POSITIVE] = {SMALLEST_POSITIVE, LARGEST, "> 0, from 1e-9 to 1e24"},
    [DL_COST_ONE_OR_MORE] = {1, LARGEST, ">= 1, at most 1e24"},
    [DL_COST_AT_MOST_ONE] = {0, 1, "from 0 to 1"},
};

static dl_status read_value(const dl_ini *ini, const dl_ini_entry *entry, dl_cost_range allowed,
                            dl_value *value, dl_error *err)
{
    dl_error inner = {0};
    dl_value parsed;
    dl_status status = dl_value_parse(entry->value, &parsed, &inner);
    if (status != DL_OK) return dl_ini_error(ini, entry, status, err, "%s", inner.text);
    const value_range *range = &ranges[allowed];
    if (parsed.value < range->low || parsed.value > range->high) {
        return dl_ini_error(ini, entry, DL_ERR_RANGE, err, "expected a number %s", range->text);
    }
    *value = parsed;
    return DL_OK;
}

dl_status dl_costs_numbered_key(const dl_ini *ini, const dl_ini_entry *entry, const char *prefix,
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
    dl_status status =
        dl_costs_numbered_key(ini, entry, "copies_", 1, DL_SHARING_MAX, &copies, err);
    if (status != DL_OK) return status;
    return read_value(ini, entry, DL_COST_POSITIVE, &costs->sharing[copies], err);
}

/* Batch sizes must come in ascending order: the table is read by interpolation. */
static dl_status read_linearity(dl_costs *costs, const dl_ini *ini, const dl_ini_entry *entry,
                                dl_error *err)
{
    int64_t batch = 0;
    dl_linearity *table = costs->linearity;
    size_t count = costs->linearity_count;
    int64_t above = count > 0 ? table[count - 1].batch : 0;
    dl_status status =
        dl_costs_numbered_key(ini, entry, "batch_", above + 1, INT32_MAX, &batch, err);
    if (status != DL_OK) return status;
    if (count == DL_LINEARITY_MAX) {
        return dl_ini_error(ini, entry, DL_ERR_RANGE, err, "more than %d batch sizes",
                            DL_LINEARITY_MAX);
    }
    table[count].batch = batch;
    status = read_value(ini, entry, DL_COST_POSITIVE, &table[count].factor, err);
    if (status == DL_OK) costs->linearity_count++;
    return status;
}

static bool ends_in(const char *name, const char *phase)
{
    size_t length = strlen(name), tail = strlen(phase);
    return length > tail + 1 && name[length - tail - 1] == '.' &&
           strcmp(name + length - tail, phase) == 0;
}

static bool is_op_name(const char *name)
{
    return strcmp(name, "input") == 0 || strcmp(name, "dispatch") == 0 ||
           ends_in(name, "forward") || ends_in(name, "backward") || ends_in(name, "update");
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
    dl_op_cost *op = &costs->ops[i];
    if (strcmp(entry->key, "flop_per_sample") == 0) {
        return read_value(ini, entry, DL_COST_NOT_NEGATIVE, &op->flop_per_sample, err);
    }
    if (strcmp(entry->key, "bytes_per_sample") == 0) {
        return read_value(ini, entry, DL_COST_NOT_NEGATIVE, &op->bytes_per_sample, err);
    }
    bool is_fixed = strcmp(entry->key, "fixed_ns") == 0;
    return read_value(ini, entry, DL_COST_ANY, is_fixed ? &op->fixed_ns : &op->per_sample_ns, err);
}

static dl_status read_head(dl_costs *costs, const dl_ini *ini, dl_error *err)
{
    static const int64_t unknown = -1, none = 0;
    int64_t schema = 0;
    const char *workload = NULL, *device = NULL;
    dl_status status;
    if ((status = dl_ini_get_int(ini, "costs", "schema", DL_COSTS_SCHEMA, DL_COSTS_SCHEMA, NULL,
                                 &schema, err)) ||
        (status = dl_ini_get_string(ini, "costs", "workload", "", &workload, err)) ||
        (status = dl_ini_get_string(ini, "costs", "device", "", &device, err)) ||
        (status = dl_ini_get_int(ini, "costs", "parameter_bytes", 0, INT64_MAX / 4, &unknown,
                                 &costs->parameter_bytes, err)) ||
        (status = dl_ini_get_int(ini, "costs", "state_bytes", 0, INT64_MAX / 4, &unknown,
                                 &costs->state_bytes, err)) ||
        (status = dl_ini_get_int(ini, "costs", "batch_min", 1, INT32_MAX, &none, &costs->batch_min,
                                 err)) ||
        (status = dl_ini_get_int(ini, "costs", "batch_max", 1, INT32_MAX, &none, &costs->batch_max,
                                 err)) ||
        (status = dl_ini_get_int(ini, "costs", "cores", 1, 1024, &none, &costs->cores, err))) {
        return status;
    }
    costs->workload = workload[0] != '\0' ? dl_strdup(workload) : NULL;
    costs->device = device[0] != '\0' ? dl_strdup(device) : NULL;
    return DL_OK;
}

static dl_status check_names(const dl_ini *ini, dl_error *err)
{
    static const char *const head[] = {"schema",          "workload",    "device",
                                       "parameter_bytes", "state_bytes", "batch_min",
                                       "batch_max",       "cores",       NULL};
    static const char *const op[] = {"fixed_ns", "per_sample_ns", "flop_per_sample",
                                     "bytes_per_sample", NULL};
    static const char *const layer[] = {"output_bytes_per_sample", "parameter_bytes",
                                        "activation_bytes_per_sample", NULL};
    static const char *const copy[] = {"latency_ns", "bandwidth_bytes_per_s",
                                       "pageable_bytes_per_s", NULL};
    static const char *const work[] = {"latency_ns", "read_bytes_per_s", "write_bytes_per_s", NULL};
    static const char *const memory[] = {"total_bytes_per_s", NULL};
    static const char *const sync[] = {"barrier_ns", "wakeup_ns", "lock_ns", "slice_ns", NULL};
    static const char *const dispatch[] = {"serial_ns", "per_worker_ns", NULL};
    static const char *const overlap[] = {"slowdown", NULL};
    static const char *const network[] = {"bytes_per_s", "pair_bytes_per_s", "latency_ns", NULL};
    static const char *const message[] = {"host_ns", NULL};
    static const char *const spread[] = {"gpu_frac", "board_slowdown", NULL};
    static const char *const input[] = {"bytes_per_sample", NULL};
    static const char *const gpu_memory[] = {"activation_bytes_per_sample", "workspace_bytes",
                                             NULL};
    static const char *const any[] = {"*", NULL};
    static const dl_ini_section_schema schema[] = {
        {"costs", head},        {"op *", op},
        {"layer *", layer},     {"copy", copy},
        {"average", work},      {"update", work},
        {"memory", memory},     {"sync", sync},
        {"sharing", any},       {"linearity", any},
        {"noise", any},         {"noise *", any},
        {"exchange_runs", any}, {"dispatch", dispatch},
        {"overlap", overlap},   {"network", network},
        {"message", message},   {"spread", spread},
        {"input", input},       {"gpu_memory", gpu_memory},
        {"gradients", any},     {"collective *", any},
    };
    return dl_ini_check(ini, schema, sizeof schema / sizeof *schema, err);
}

static dl_status read_entry(dl_costs *costs, const dl_ini *ini, const dl_ini_entry *entry,
                            dl_noise_reading *noise, dl_error *err)
{
    if (strncmp(entry->section, "op ", 3) == 0) return read_op(costs, ini, entry, err);
    if (strncmp(entry->section, "layer ", 6) == 0) {
        return read_value(ini, entry, DL_COST_NOT_NEGATIVE, dl_costs_layer_value(costs, entry),
                          err);
    }
    if (strcmp(entry->section, "sharing") == 0) return read_sharing(costs, ini, entry, err);
    if (strcmp(entry->section, "linearity") == 0) return read_linearity(costs, ini, entry, err);
    if (strcmp(entry->section, "exchange_runs") == 0) {
        return dl_costs_read_exchange_run(costs, ini, entry, err);
    }
    if (strncmp(entry->section, "collective ", strlen("collective ")) == 0) {
        return dl_costs_read_collective(costs, ini, entry, err);
    }
    if (strcmp(entry->section, "gradients") == 0) {
        return dl_costs_read_gradients(costs, ini, entry, err);
    }
    if (strncmp(entry->section, "noise", strlen("noise")) == 0) {
        return dl_costs_read_noise(costs, ini, entry, noise, err);
    }
    for (size_t i = 0; i < dl_cost_field_count; i++) {
        if (strcmp(dl_cost_fields[i].section, entry->section) == 0 &&
            strcmp(dl_cost_fields[i].key, entry->key) == 0) {
            return read_value(ini, entry, dl_cost_fields[i].range,
                              field_value(costs, &dl_cost_fields[i]), err);
        }
    }
    return DL_OK; /* [costs]: read by read_head */
}

static dl_status from_ini(dl_costs *costs, const dl_ini *ini, dl_error *err)
{
    dl_costs parsed = {.path = dl_strdup(ini->path)};
    dl_noise_reading noise = {0};
    dl_status status = check_names(ini, err);
    if (status == DL_OK) status = read_head(&parsed, ini, err);
    for (size_t i = 0; i < ini->count && status == DL_OK; i++) {
        status = read_entry(&parsed, ini, &ini->entries[i], &noise, err);
    }
    if (status == DL_OK) status = dl_costs_finish_noise(&parsed, ini, err);
    if (status == DL_OK) status = dl_costs_check_collectives(&parsed, ini, err);
    if (status == DL_OK) status = dl_costs_finish_layers(&parsed, err);
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

void dl_costs_free(dl_costs *costs)
{
    for (size_t i = 0; i < costs->op_count; i++)
        free(costs->ops[i].name);
    free(costs->ops);
    dl_costs_free_layers(costs);
    for (size_t i = 0; i < costs->noise_count; i++)
        dl_noise_set_free(&costs->noise[i]);
    free(costs->noise);
    free(costs->exchange_runs);
    free(costs->gradients);
    dl_costs_free_collectives(costs);
    free(costs->path);
    free(costs->workload);
    free(costs->device);
    *costs = (dl_costs){0};
}

/* The table at `batch`: linear in log(batch) between its entries, the outermost ones beyond them.
 */
double dl_costs_linearity(const dl_costs *costs, double batch)
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

double dl_costs_step_ns(const dl_costs *costs, double batch, const char *phase)
{
    double sum_ns = 0;
    for (size_t i = 0; i < costs->op_count; i++) {
        const dl_op_cost *op = &costs->ops[i];
        if (phase != NULL && strcmp(op->name, phase) != 0 && !ends_in(op->name, phase)) continue;
        sum_ns += op->fixed_ns.value + op->per_sample_ns.value * batch;
    }
    return sum_ns * dl_costs_linearity(costs, batch);
}

void dl_costs_each(dl_costs *costs, void (*visit)(void *user, dl_value *value), void *user)
{
    for (size_t i = 0; i < costs->op_count; i++) {
        visit(user, &costs->ops[i].fixed_ns);
        visit(user, &costs->ops[i].per_sample_ns);
    }
    for (size_t i = 0; i < dl_cost_field_count; i++)
        visit(user, field_value(costs, &dl_cost_fields[i]));
    for (int k = 1; k <= DL_SHARING_MAX; k++)
        visit(user, &costs->sharing[k]);
    for (size_t i = 0; i < costs->linearity_count; i++)
        visit(user, &costs->linearity[i].factor);
}
