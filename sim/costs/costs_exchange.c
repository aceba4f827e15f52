/* Costs of exchange and input from a separate cost file. */
#include <string.h>

#include "common/alloc.h"
#include "sim/costs/costs_internal.h"

static bool is_exchange(const dl_ini_entry *entry)
{
    static const char *const words[] = {
        "collective",     "roundtrip", "pushpull",      "allreduce_pair", "allreduce_beside",
        "allreduce_late", "machine",   "exchange_runs", "copy",           "average",
        "update",         "shared",    "message",       "network",        "overlap",
        "sync",           "gloo",      "rpc",           "quantise",       "notes",
        "input",
    };
    if (strcmp(entry->section, "op input") == 0) return true;
    const size_t length = strcspn(entry->section, " ");
    for (size_t i = 0; i < DL_LENGTH(words); i++)
        if (strlen(words[i]) == length && strncmp(entry->section, words[i], length) == 0)
            return true;
    return strcmp(entry->section, "costs") == 0 && strcmp(entry->key, "schema") == 0;
}

/* Returns the first value of a cost file that is not of exchange; NULL: there is none. */
static const dl_ini_entry *find_other(const dl_ini *ini)
{
    for (size_t i = 0; i < ini->count; i++)
        if (!is_exchange(&ini->entries[i])) return &ini->entries[i];
    return NULL;
}

bool dl_costs_file_is_exchange(const char *path)
{
    DL_SCOPED(dl_ini) ini = {0};
    return dl_ini_read(&ini, path, NULL) == DL_OK && find_other(&ini) == NULL;
}

static void take_exchange(dl_costs *costs, dl_costs *from)
{
    for (size_t k = 0; k < dl_cost_keys.count; k++) {
        const dl_value *value = dl_cost_single_of(from, &dl_cost_keys.rows[k]);
        if (value != NULL && value->known) *dl_cost_single(costs, &dl_cost_keys.rows[k]) = *value;
    }
    for (size_t i = 0; i < from->machine_value_count; i++)
        DL_APPEND(costs->machine_values, costs->machine_value_count, "values of the machine") =
            from->machine_values[i];
    for (size_t i = 0; i < from->collective_count; i++)
        DL_APPEND(costs->collectives, costs->collective_count, "collectives") =
            from->collectives[i];
    for (size_t i = 0; i < from->exchange_run_count; i++)
        DL_APPEND(costs->exchange_runs, costs->exchange_run_count, "runs of exchange") =
            from->exchange_runs[i];
    costs->ops =
        dl_realloc(costs->ops, costs->op_count + from->op_count, sizeof *costs->ops, "operations");
    for (size_t i = 0; i < from->op_count; i++)
        costs->ops[costs->op_count++] = from->ops[i];
    for (size_t i = 0; i < from->note_count; i++)
        DL_APPEND(costs->notes, costs->note_count, "notes") = from->notes[i];
    /* moved, so not freed */
    from->machine_value_count = from->collective_count = from->note_count = from->op_count = 0;
}

dl_status dl_costs_add_exchange(dl_costs *costs, const char *path, dl_error *err)
{
    DL_SCOPED(dl_ini) ini = {0};
    DL_SCOPED(dl_costs) from = {0};
    dl_status status = dl_ini_read(&ini, path, err);
    const dl_ini_entry *other = find_other(&ini);
    if (status == DL_OK && other != NULL) {
        status = dl_ini_error(
            &ini, other, DL_ERR_DATA, err,
            "with --workload or --samples-per-s, which set all other costs, a cost "
            "file may have costs of exchange, as dlcal links writes them, and of input "
            "only; this one has others: omit it or these options");
    }
    if (status == DL_OK) status = dl_costs_read(&from, path, err);
    if (status == DL_OK) take_exchange(costs, &from);
    return status;
}
