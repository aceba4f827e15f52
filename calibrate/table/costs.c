#include "calibrate/table/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/names.h"
#include "sim/sweep.h"

/* What a table may determine: all numbers that times depend on, by name. */
typedef struct candidates {
    char **names; /* [count] "dispatch.serial_ns" */
    dl_value **values;
    size_t count;
} candidates;

static void add_candidate(candidates *all, const char *section, const char *key, dl_value *value)
{
    all->names = dl_realloc(all->names, all->count + 1, sizeof *all->names, "names of costs");
    all->values = dl_realloc(all->values, all->count + 1, sizeof *all->values, "costs");
    all->names[all->count] = dl_format("%s.%s", section, key);
    all->values[all->count++] = value;
}

static candidates list_candidates(dl_costs *costs)
{
    candidates all = {0};
    for (size_t i = 0; i < costs->op_count; i++) {
        char *section = dl_format("op %s", costs->ops[i].name);
        add_candidate(&all, section, "fixed_ns", &costs->ops[i].fixed_ns);
        add_candidate(&all, section, "per_sample_ns", &costs->ops[i].per_sample_ns);
        free(section);
    }
    for (size_t i = 0; i < dl_cost_keys.count; i++) {
        const dl_key *key = &dl_cost_keys.rows[i];
        dl_value *value = dl_cost_single(costs, key);
        if (value == NULL || key->group == DL_NEED_GPU_MEMORY) continue; /* no time depends on it */
        add_candidate(&all, key->section, key->name, value);
    }
    for (int k = 2; k <= DL_SHARING_MAX; k++) {
        char key[32];
        snprintf(key, sizeof key, "copies_%d", k);
        add_candidate(&all, "sharing", key, &costs->sharing[k]);
    }
    return all;
}

static void free_candidates(candidates *all)
{
    for (size_t i = 0; i < all->count; i++)
        free(all->names[i]);
    free(all->names);
    free(all->values);
}

/* The next item of a list with commas, as "section.key" or "key" of its own; *rest moves on and
 * becomes NULL after the last. "[section] key" is brought into that form. */
static char *next_name(const char **rest)
{
    const char *end = strchrnul(*rest, ',');
    char *name = dl_strndup_trimmed(*rest, (size_t)(end - *rest));
    *rest = *end != '\0' ? end + 1 : NULL;
    const char *close = name[0] == '[' ? strchr(name, ']') : NULL;
    if (close == NULL) return name;
    const char *key = close + 1 + strspn(close + 1, " \t");
    char *joined = dl_format("%.*s.%s", (int)(close - name - 1), name + 1, key);
    free(name);
    return joined;
}

/* Index of the candidate; *matches: how many have this key, where it is given without a section. */
static size_t find(const candidates *all, const char *name, int *matches)
{
    size_t found = 0;
    *matches = 0;
    for (size_t i = 0; i < all->count; i++) {
        const char *key = strrchr(all->names[i], '.') + 1;
        if (strcmp(all->names[i], name) != 0 && strcmp(key, name) != 0) continue;
        found = i;
        ++*matches;
    }
    return found;
}

/* "op a.forward.fixed_ns" as "[op a.forward] fixed_ns". */
static char *full_name(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dl_format("[%.*s] %s", (int)(dot - name), name, dot + 1);
}

static dl_status add(dl_table_costs *list, const candidates *all, size_t index, dl_error *err)
{
    for (size_t i = 0; i < list->count; i++) {
        if (list->items[i].value != all->values[index]) continue;
        return dl_error_set(err, DL_ERR_USAGE, "--fit: '%s' is given twice", all->names[index]);
    }
    if (list->count == DL_TABLE_COSTS_MAX) {
        return dl_error_set(err, DL_ERR_USAGE, "more than %d costs to fit", DL_TABLE_COSTS_MAX);
    }
    dl_value *value = all->values[index];
    list->items[list->count++] = (dl_table_cost){.name = full_name(all->names[index]),
                                                 .value = value,
                                                 .was_known = value->known && value->value > 0,
                                                 .was = value->value};
    return DL_OK;
}

static dl_status add_named(dl_table_costs *list, const candidates *all, const char *name,
                           dl_error *err)
{
    int matches = 0;
    const size_t index = find(all, name, &matches);
    if (matches == 1) return add(list, all, index, err);
    if (matches > 1) {
        return dl_error_set(err, DL_ERR_USAGE, "--fit: several sections have '%s': say section.%s",
                            name, name);
    }
    const int nearest = dl_names_nearest(name, (const char *const *)all->names, all->count);
    return dl_error_set(err, DL_ERR_USAGE, "--fit: no cost '%s'%s%s%s", name,
                        nearest >= 0 ? "; did you mean '" : "",
                        nearest >= 0 ? all->names[nearest] : "", nearest >= 0 ? "'?" : "");
}

/* Adds the operation `name` unless it is there, or cannot be one. */
static void add_operation(dl_costs *costs, const char *name)
{
    if (strcmp(name, "input") != 0 && strcmp(name, "dispatch") != 0 &&
        !dl_ends_with(name, ".forward") && !dl_ends_with(name, ".backward") &&
        !dl_ends_with(name, ".update")) {
        return;
    }
    for (size_t i = 0; i < costs->op_count; i++) {
        if (strcmp(costs->ops[i].name, name) == 0) return;
    }
    costs->ops = dl_realloc(costs->ops, costs->op_count + 1, sizeof *costs->ops, "operations");
    costs->ops[costs->op_count++] = (dl_op_cost){.name = dl_strdup(name)};
}

/* Adds the operations that "op NAME.key" are of. */
static void add_named_operations(dl_costs *costs, const char *names)
{
    for (const char *rest = names; rest != NULL;) {
        char *name = next_name(&rest), *dot = strrchr(name, '.');
        if (strncmp(name, "op ", 3) == 0 && dot != NULL) {
            *dot = '\0';
            add_operation(costs, name + 3);
        }
        free(name);
    }
}

static bool listed(const dl_table_costs *list, const char *name)
{
    for (size_t i = 0; i < list->count; i++) {
        char *full = full_name(name);
        const bool same = strcmp(list->items[i].name, full) == 0;
        free(full);
        if (same) return true;
    }
    return false;
}

static dl_status lacks(const dl_costs *costs, const char *name, const char *why, dl_error *err)
{
    return dl_error_set_at(err, DL_ERR_DATA, costs->path, 0, "lacks %s, which %s", name, why);
}

/* Of the missing costs: those are added that are not in the list, or are an error if `complete`. */
static dl_status add_missing(dl_table_costs *list, const candidates *all, const char *missing,
                             bool complete, const dl_costs *costs, dl_error *err)
{
    dl_status status = DL_OK;
    for (const char *rest = missing; rest != NULL && status == DL_OK;) {
        char *name = next_name(&rest);
        int matches = 0;
        const size_t index = find(all, name, &matches);
        if (matches != 1) {
            status = lacks(costs, name, "no table of throughputs determines", err);
        } else if (!listed(list, name)) {
            status = complete ? lacks(costs, name, "is not to be fitted", err)
                              : add(list, all, index, err);
        }
        free(name);
    }
    return status;
}

/* Makes one of the two passes' costs of the same key. */
static void join_passes(dl_table_costs *list)
{
    const char *forward = "[op network.forward] ", *backward = "[op network.backward] ";
    size_t kept = 0;
    for (size_t i = 0; i < list->count; i++) {
        dl_table_cost cost = list->items[i];
        if (strncmp(cost.name, backward, strlen(backward)) == 0) {
            free(cost.name);
            continue;
        }
        if (strncmp(cost.name, forward, strlen(forward)) == 0) {
            const char *key = cost.name + strlen(forward);
            for (size_t j = 0; j < list->count; j++) {
                const char *other = list->items[j].name;
                if (j > i && strncmp(other, backward, strlen(backward)) == 0 &&
                    strcmp(other + strlen(backward), key) == 0) {
                    cost.rest = list->items[j].value;
                }
            }
            char *joined = dl_format("[op network.*] %s", key);
            free(cost.name);
            cost.name = joined;
        }
        list->items[kept++] = cost;
    }
    list->count = kept;
}

void dl_table_cost_set(const dl_table_cost *cost, const dl_value *value)
{
    *cost->value = *value;
    if (cost->rest == NULL) return;
    *cost->rest = *value;
    cost->value->value *= DL_TABLE_FORWARD_FRAC;
    cost->value->error *= DL_TABLE_FORWARD_FRAC;
    cost->rest->value *= 1 - DL_TABLE_FORWARD_FRAC;
    cost->rest->error *= 1 - DL_TABLE_FORWARD_FRAC;
}

dl_status dl_table_costs_missing(dl_table_costs *list, const dl_scenario *scenario, dl_costs *costs,
                                 dl_error *err)
{
    const bool without_operations = costs->op_count == 0;
    if (without_operations) {
        add_operation(costs, "network.forward");
        add_operation(costs, "network.backward");
    }
    char *missing = dl_sweep_missing(scenario, costs);
    if (missing == NULL) {
        return dl_error_set_at(err, DL_ERR_DATA, costs->path, 0,
                               "lacks no cost; --fit names those that are to be fitted");
    }
    candidates all = list_candidates(costs);
    const dl_status status = add_missing(list, &all, missing, false, costs, err);
    if (without_operations) join_passes(list);
    free_candidates(&all);
    free(missing);
    return status;
}

dl_status dl_table_costs_named(dl_table_costs *list, const char *names, const dl_scenario *scenario,
                               dl_costs *costs, dl_error *err)
{
    add_named_operations(costs, names);
    candidates all = list_candidates(costs);
    dl_status status = DL_OK;
    for (const char *rest = names; rest != NULL && status == DL_OK;) {
        char *name = next_name(&rest);
        status = add_named(list, &all, name, err);
        free(name);
    }
    char *missing = dl_sweep_missing(scenario, costs);
    if (status == DL_OK) status = add_missing(list, &all, missing, true, costs, err);
    free(missing);
    free_candidates(&all);
    return status;
}

void dl_table_costs_free(dl_table_costs *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->items[i].name);
    *list = (dl_table_costs){0};
}
