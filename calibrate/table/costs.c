#include "calibrate/table/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/names.h"
#include "sim/scenario/command.h"
#include "sim/sweep.h"

#define MACHINE "machine "

/* A number that a table may determine. */
typedef struct candidate {
    char *name; /* "dispatch.serial_ns", "machine link nvlink2.bytes_per_s" */
    dl_value *value;
    const dl_key *key;
    double machine_value; /* value in the machine file; 0: none, or replaced by the costs */
} candidate;

/* All numbers that affect times. */
typedef struct candidates {
    candidate *items;
    size_t count;
} candidates;

static candidate *add_candidate(candidates *all, const char *section, const char *name,
                                const dl_key *key, dl_value *value)
{
    candidate *added = &DL_APPEND(all->items, all->count, "costs");
    *added = (candidate){.name = dl_format("%s.%s", section, name), .value = value, .key = key};
    return added;
}

typedef struct machine_candidates {
    candidates *all;
    dl_costs *costs;
} machine_candidates;

static void add_of_machine(void *user, const char *section, const dl_key *key,
                           dl_quantity *quantity)
{
    const machine_candidates *to = user;
    for (size_t i = 0; i < to->costs->machine_value_count; i++) {
        dl_machine_value *of = &to->costs->machine_values[i];
        if (of->key != key || strcmp(of->section, section) != 0) continue;
        DL_AUTOFREE char *full = dl_format(MACHINE "%s", section);
        candidate *added = add_candidate(to->all, full, key->name, key, &of->value);
        if (!of->value.known && quantity->known) added->machine_value = quantity->value;
    }
}

static candidates list_candidates(dl_costs *costs, const dl_scenario *scenario)
{
    candidates all = {0};
    const dl_key *fixed = dl_keys_find(&dl_cost_keys, "op a.forward", "fixed_ns");
    const dl_key *per_sample = dl_keys_find(&dl_cost_keys, "op a.forward", "per_sample_ns");
    for (size_t i = 0; i < costs->op_count; i++) {
        DL_AUTOFREE char *section = dl_format("op %s", costs->ops[i].name);
        (void)add_candidate(&all, section, fixed->name, fixed, &costs->ops[i].fixed_ns);
        (void)add_candidate(&all, section, per_sample->name, per_sample,
                            &costs->ops[i].per_sample_ns);
    }
    for (size_t i = 0; i < dl_cost_keys.count; i++) {
        const dl_key *key = &dl_cost_keys.rows[i];
        dl_value *value = dl_cost_single(costs, key);
        if (value == NULL || key->group == DL_NEED_GPU_MEMORY) continue; /* affects no time */
        (void)add_candidate(&all, key->section, key->name, key, value);
    }
    for (int k = 2; k <= DL_SHARING_MAX; k++) {
        char key[32];
        snprintf(key, sizeof key, "copies_%d", k);
        (void)add_candidate(&all, "sharing", key,
                            dl_keys_find(&dl_cost_keys, "sharing", "copies_2"), &costs->sharing[k]);
    }
    if (scenario->gpu != NULL) {
        machine_candidates to = {&all, costs};
        dl_costs_add_machine(costs, &scenario->gpu->machine);
        dl_machine_each(&scenario->gpu->machine, add_of_machine, &to);
    }
    return all;
}

static void free_candidates(candidates *all)
{
    for (size_t i = 0; i < all->count; i++)
        free(all->items[i].name);
    free(all->items);
}

/* Returns the next item of a comma-separated list, as "section.key" or "key" ("[section] key" is
 * converted); the caller frees it. Advances *rest, which becomes NULL after the last item. */
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

/* Returns whether the names are equal, treating spaces as dots: "link.nvlink2", "link nvlink2". */
static bool same_name(const char *a, const char *b)
{
    for (; *a != '\0' && *b != '\0'; a++, b++) {
        if (*a != *b && !((*a == ' ' || *a == '.') && (*b == ' ' || *b == '.'))) return false;
    }
    return *a == *b;
}

/* Kinds of match, best first: section and key of a cost, or of the machine file; the key alone of a
 * cost, or of the machine file. */
enum { WHOLE, OF_MACHINE_FILE, KEY_OF_COSTS, KEY_OF_MACHINE, FITS };

static int fits(const candidate *c, const char *name)
{
    const bool of_machine = strncmp(c->name, MACHINE, strlen(MACHINE)) == 0;
    if (same_name(c->name, name)) return WHOLE;
    if (of_machine && same_name(c->name + strlen(MACHINE), name)) return OF_MACHINE_FILE;
    if (strcmp(strrchr(c->name, '.') + 1, name) == 0) {
        return of_machine ? KEY_OF_MACHINE : KEY_OF_COSTS;
    }
    return FITS;
}

/* Returns the index of the best-fitting candidate; *matches is the number of equally good ones. */
static size_t find(const candidates *all, const char *name, int *matches)
{
    size_t found = 0;
    int best = FITS;
    *matches = 0;
    for (size_t i = 0; i < all->count; i++) {
        const int fit = fits(&all->items[i], name);
        if (fit == FITS || fit > best) continue;
        if (fit < best) *matches = 0;
        best = fit;
        found = i;
        ++*matches;
    }
    return found;
}

/* Converts "op a.forward.fixed_ns" to "[op a.forward] fixed_ns". */
static char *full_name(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dl_format("[%.*s] %s", (int)(dot - name), name, dot + 1);
}

/* Start of the search for a rate that the machine file does not limit: the rate of a GPU's link,
 * which limits two GPUs. */
static double link_rate(const dl_scenario *scenario)
{
    const dl_machine *m = &scenario->gpu->machine;
    return m->classes[dl_machine_node(m, 0)->gpus[0].link].bytes_per_s.value;
}

/* Costs of one part during listing, the shared ones first. */
typedef struct listing {
    dl_table_part *part;
    size_t number;
    candidates all;
    dl_table_costs costs;
} listing;

static dl_status add(listing *to, size_t index, bool shared, dl_error *err)
{
    const candidate *c = &to->all.items[index];
    dl_table_costs *list = &to->costs;
    for (size_t i = 0; i < list->count; i++) {
        if (list->items[i].value[to->number] != c->value) continue;
        return dl_error_set(err, DL_ERR_USAGE, "--fit: '%s' is given twice", c->name);
    }
    if (list->count == DL_TABLE_COSTS_MAX) {
        return dl_error_set(err, DL_ERR_USAGE, "more than %d costs to fit", DL_TABLE_COSTS_MAX);
    }
    dl_table_cost cost = {.name = full_name(c->name),
                          .part = to->number,
                          .shared = shared,
                          .before = *c->value,
                          .low = c->key->low,
                          .high = c->key->high};
    cost.value[to->number] = c->value;
    if (c->value->known && c->value->value > 0) cost.was = c->value->value;
    if (c->machine_value > 0) cost.was = c->machine_value;
    cost.was_known = cost.was > 0;
    const bool of_machine = strncmp(c->name, MACHINE, strlen(MACHINE)) == 0;
    if (of_machine && !cost.was_known && c->key->dimension == DL_DIMENSION_BYTES_PER_S) {
        cost.start = link_rate(&to->part->scenario);
    }
    list->items[list->count++] = cost;
    return DL_OK;
}

static dl_status add_named(listing *to, const char *name, bool shared, dl_error *err)
{
    const candidates *all = &to->all;
    const char *option = shared ? "--share" : "--fit";
    int matches = 0;
    const size_t index = find(all, name, &matches);
    if (matches == 1) return add(to, index, shared, err);
    if (matches > 1) {
        return dl_error_set(err, DL_ERR_USAGE, "%s: several sections have '%s': say section.%s",
                            option, name, name);
    }
    DL_AUTOFREE char **names = dl_calloc(all->count, sizeof *names, "names of costs");
    for (size_t i = 0; i < all->count; i++) {
        const char *full = all->items[i].name;
        const bool of_machine = strncmp(full, MACHINE, strlen(MACHINE)) == 0;
        names[i] = dl_strdup(of_machine ? full + strlen(MACHINE) : full);
        if (of_machine && strchr(names[i], ' ') != NULL) *strchr(names[i], ' ') = '.';
    }
    const int nearest = dl_names_nearest(name, (const char *const *)names, all->count);
    const dl_status status =
        dl_error_set(err, DL_ERR_USAGE, "%s: no cost '%s'%s%s%s", option, name,
                     nearest >= 0 ? "; did you mean '" : "", nearest >= 0 ? names[nearest] : "",
                     nearest >= 0 ? "'?" : "");
    for (size_t i = 0; i < all->count; i++)
        free(names[i]);
    return status;
}

static dl_status add_list(listing *to, const char *names, bool shared, dl_error *err)
{
    dl_status status = DL_OK;
    for (const char *rest = names; rest != NULL && status == DL_OK;) {
        DL_AUTOFREE char *name = next_name(&rest);
        status = add_named(to, name, shared, err);
    }
    return status;
}

/* Adds the operation `name` unless it exists or the name is invalid. */
static void add_operation(dl_costs *costs, const char *name)
{
    if (!dl_costs_is_op_name(name)) return;
    for (size_t i = 0; i < costs->op_count; i++) {
        if (strcmp(costs->ops[i].name, name) == 0) return;
    }
    costs->ops = dl_realloc(costs->ops, costs->op_count + 1, sizeof *costs->ops, "operations");
    costs->ops[costs->op_count++] = (dl_op_cost){.name = dl_strdup(name)};
}

/* Adds the operations named in "op NAME.key". */
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
        DL_AUTOFREE char *full = full_name(name);
        const bool same = strcmp(list->items[i].name, full) == 0;
        if (same) return true;
    }
    return false;
}

static dl_status lacks(const dl_costs *costs, const char *name, const char *why, dl_error *err)
{
    const char *path = costs->path != NULL ? costs->path : DL_SCENARIO_FROM_COMMAND;
    return dl_error_set_at(err, DL_ERR_DATA, path, 0, "lacks %s, which %s", name, why);
}

/* Adds the missing costs that are not in the list or, if the list must be `complete`, returns
 * DL_ERR_DATA for the first of them. */
static dl_status add_missing(listing *to, const char *missing, bool complete, dl_error *err)
{
    const dl_costs *costs = &to->part->costs;
    dl_status status = DL_OK;
    for (const char *rest = missing; rest != NULL && status == DL_OK;) {
        DL_AUTOFREE char *name = next_name(&rest);
        int matches = 0;
        const size_t index = find(&to->all, name, &matches);
        if (matches != 1) {
            status = lacks(costs, name, "no table of throughputs determines", err);
        } else if (!listed(&to->costs, name)) {
            status = complete ? lacks(costs, name, "is not to be fitted", err)
                              : add(to, index, false, err);
        }
    }
    return status;
}

/* Merges the costs of the two passes with the same key into one. */
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
                    cost.rest[cost.part] = list->items[j].value[cost.part];
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
    for (size_t p = cost->part; p < DL_TABLE_PARTS_MAX; p++) {
        if (cost->value[p] == NULL) continue;
        *cost->value[p] = *value;
        if (cost->rest[p] == NULL) continue;
        *cost->rest[p] = *value;
        dl_value_scale(cost->value[p], DL_TABLE_FORWARD_FRAC);
        dl_value_scale(cost->rest[p], 1 - DL_TABLE_FORWARD_FRAC);
    }
}

/* Sets dlsim's defaults for costs that the points need and that neither the file nor the list
 * has. */
static void assume(listing *to)
{
    dl_value own[DL_TABLE_COSTS_MAX];
    DL_SCOPED(dl_assumptions) made = {0};
    const dl_table_costs *list = &to->costs;
    for (size_t i = 0; i < list->count; i++)
        own[i] = *list->items[i].value[to->number];
    dl_run_assume(&to->part->scenario, &to->part->costs, NULL, &made);
    for (size_t i = 0; i < list->count; i++)
        *list->items[i].value[to->number] = own[i];
    for (size_t i = 0; i < made.count; i++) {
        const dl_assumption *a = &made.items[i];
        char text[64], *name = dl_format("%s.%s", a->key->section, a->key->name);
        if (!listed(list, name))
            dl_notes_add(&to->part->notes, "assumed [%s] %s = %s, as dlsim does: %s",
                         a->key->section, a->key->name,
                         dl_amount_text(text, sizeof text, a->value, a->key->dimension), a->source);
        free(name);
    }
}

/* Returns an error that no cost is missing; it suggests fitting an assumed number of the machine,
 * if there is one. */
static dl_status nothing_missing(const dl_scenario *scenario, dl_costs *costs, dl_error *err)
{
    DL_SCOPED(dl_assumptions) made = {0};
    DL_AUTOFREE char *name = NULL;
    if (scenario->gpu != NULL) dl_machine_assume(costs, &scenario->gpu->machine, &made);
    if (made.count > 0) name = dl_format("%s.%s", made.items[0].section, made.items[0].key->name);
    return dl_error_set_at(err, DL_ERR_DATA, costs->path != NULL ? costs->path : scenario->path, 0,
                           "has all costs: --fit must name those to fit%s%s%s",
                           name != NULL ? ", as --fit '" : "", name != NULL ? name : "",
                           name != NULL ? "'" : "");
}

/* Lists the costs that the part's points need and its cost file lacks. */
static dl_status list_missing(listing *to, const char *share, dl_error *err)
{
    dl_costs *costs = &to->part->costs;
    const bool without_operations = costs->op_count == 0;
    if (without_operations) {
        add_operation(costs, "network.forward");
        add_operation(costs, "network.backward");
    }
    DL_AUTOFREE char *missing = dl_sweep_missing(&to->part->scenario, costs);
    if (missing == NULL && share == NULL) {
        return nothing_missing(&to->part->scenario, costs, err);
    }
    to->all = list_candidates(costs, &to->part->scenario);
    dl_status status = add_list(to, share, true, err);
    if (status == DL_OK) status = add_missing(to, missing, false, err);
    if (without_operations) join_passes(&to->costs);
    return status;
}

static dl_status list_named(listing *to, const char *share, const char *names, dl_error *err)
{
    dl_costs *costs = &to->part->costs;
    add_named_operations(costs, share);
    add_named_operations(costs, names);
    to->all = list_candidates(costs, &to->part->scenario);
    dl_status status = add_list(to, share, true, err);
    if (status == DL_OK) status = add_list(to, names, false, err);
    if (status == DL_OK) assume(to);
    DL_AUTOFREE char *missing = dl_sweep_missing(&to->part->scenario, costs);
    if (status == DL_OK) status = add_missing(to, missing, true, err);
    return status;
}

/* Appends the part's own costs, and joins its shared costs to those that the first part added. */
static dl_status merge(dl_table_costs *list, listing *from, dl_error *err)
{
    const size_t part = from->number;
    for (size_t i = 0; i < from->costs.count; i++) {
        dl_table_cost *cost = &from->costs.items[i];
        if (cost->shared && part > 0) {
            list->items[i].value[part] = cost->value[part];
        } else if (list->count < DL_TABLE_COSTS_MAX) {
            list->items[list->count++] = *cost;
            cost->name = NULL;
        } else {
            return dl_error_set(err, DL_ERR_USAGE, "more than %d costs to fit", DL_TABLE_COSTS_MAX);
        }
    }
    return DL_OK;
}

dl_status dl_table_costs_add(dl_table_costs *list, dl_table_part *part, size_t number,
                             const char *share, const char *names, dl_error *err)
{
    listing own = {.part = part, .number = number};
    dl_status status =
        names != NULL ? list_named(&own, share, names, err) : list_missing(&own, share, err);
    if (status == DL_OK) status = merge(list, &own, err);
    free_candidates(&own.all);
    dl_table_costs_free(&own.costs);
    return status;
}

void dl_table_costs_free(dl_table_costs *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->items[i].name);
    *list = (dl_table_costs){0};
}
