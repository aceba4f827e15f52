#include "sim/costs/costs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/ini.h"
#include "common/units.h"
#include "sim/costs/costs_fields.h"

dl_status dl_costs_read_value(const dl_ini *ini, const dl_ini_entry *entry, dl_value *value,
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
    return dl_costs_read_value(ini, entry, &costs->sharing[copies], err);
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
    status = dl_costs_read_value(ini, entry, &table[count].factor, err);
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

/* Reads the entry into the part of the costs that its row says. */
static dl_status read_into(void *part, const dl_ini *ini, const dl_ini_entry *entry, dl_error *err)
{
    const dl_key *key = dl_keys_find(&dl_cost_keys, entry->section, entry->key);
    dl_value *value = (dl_value *)(void *)((char *)part + key->offset);
    return dl_costs_read_value(ini, entry, value, err);
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
    dl_status status = dl_ini_get_int(ini, "costs", "schema", DL_COSTS_SCHEMA, DL_COSTS_SCHEMA,
                                      NULL, &schema, err);
    if (status == DL_OK) {
        status = dl_keys_read(&dl_cost_keys, DL_COST_HEAD, ini, NULL, costs, err);
    }
    drop_empty(&costs->workload);
    drop_empty(&costs->device);
    return status;
}

static dl_status read_entry(dl_costs *costs, const dl_ini *ini, const dl_ini_entry *entry,
                            dl_noise_reading *noise, dl_error *err)
{
    if (strncmp(entry->section, "op ", 3) == 0) return read_op(costs, ini, entry, err);
    if (strncmp(entry->section, "layer ", 6) == 0) {
        return read_into(dl_costs_layer(costs, entry), ini, entry, err);
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
    dl_noise_reading noise = {0};
    dl_status status = dl_keys_check(&dl_cost_keys, ini, err);
    if (status == DL_OK) status = read_head(&parsed, ini, err);
    for (size_t i = 0; i < ini->count && status == DL_OK; i++) {
        status = read_entry(&parsed, ini, &ini->entries[i], &noise, err);
    }
    if (status == DL_OK) status = check_ops(&parsed, ini, err);
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
    for (int k = 1; k <= DL_SHARING_MAX; k++)
        see(&costs->sharing[k], "sharing", "copies_1", visit, user);
    for (size_t i = 0; i < costs->linearity_count; i++)
        see(&costs->linearity[i].factor, "linearity", "batch_1", visit, user);
}
