/* [collective KIND RANKS] of a cost file. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/names.h"
#include "common/units.h"
#include "sim/collective/collective.h"
#include "sim/costs/costs_fields.h"

#define SECTION "collective "
#define RANKS_MAX 1000000
#define BYTES_MAX 1e18

/* Kind and ranks from the section's name. */
static dl_status parse_section(const dl_ini *ini, const dl_ini_entry *entry,
                               dl_collective_cost *cost, dl_error *err)
{
    char kind[32] = "", hint[200];
    const char *name = entry->section + strlen(SECTION);
    const size_t length = strcspn(name, " ");
    int64_t ranks = 0;
    snprintf(kind, sizeof kind, "%.*s", (int)length, name);
    cost->kind = dl_names_find(kind, dl_collective_kind_names, DL_COLLECTIVE_KINDS);
    if (cost->kind < 0) {
        dl_names_hint(hint, sizeof hint, kind, dl_collective_kind_names, DL_COLLECTIVE_KINDS);
        return dl_ini_error(ini, entry, DL_ERR_NAME, err, "unknown collective '%s'%s", kind, hint);
    }
    dl_error inner = {0};
    if (name[length] == '\0' ||
        dl_parse_int(name + length + 1, 2, RANKS_MAX, &ranks, &inner) != DL_OK) {
        return dl_ini_error(ini, entry, DL_ERR_NAME, err,
                            "expected [collective KIND RANKS] with 2 ranks or more");
    }
    cost->ranks = (int)ranks;
    return DL_OK;
}

/* The section's cost; a new one at its first entry. */
static dl_collective_cost *find_or_add(dl_costs *costs, const dl_collective_cost *key)
{
    for (size_t i = 0; i < costs->collective_count; i++) {
        dl_collective_cost *c = &costs->collectives[i];
        if (c->kind == key->kind && c->ranks == key->ranks) return c;
    }
    costs->collectives = dl_realloc(costs->collectives, costs->collective_count + 1,
                                    sizeof *costs->collectives, "collectives");
    costs->collectives[costs->collective_count] = *key;
    return &costs->collectives[costs->collective_count++];
}

static dl_status add_time(dl_collective_cost *cost, const dl_ini *ini, const dl_ini_entry *entry,
                          dl_error *err)
{
    dl_error inner = {0};
    dl_collective_time time = {0};
    dl_status status =
        dl_parse_double(entry->key + strlen("bytes_"), 0, BYTES_MAX, &time.bytes, &inner);
    if (status != DL_OK) return dl_ini_error(ini, entry, status, err, "%s", inner.text);
    status = dl_costs_read_value(ini, entry, &time.time_ns, err);
    if (status != DL_OK) return status;
    if (cost->count > 0 && time.bytes <= cost->times[cost->count - 1].bytes) {
        return dl_ini_error(ini, entry, DL_ERR_DATA, err, "sizes must ascend");
    }
    cost->times = dl_realloc(cost->times, cost->count + 1, sizeof *cost->times, "times by size");
    cost->times[cost->count++] = time;
    return DL_OK;
}

dl_status dl_costs_read_collective(dl_costs *costs, const dl_ini *ini, const dl_ini_entry *entry,
                                   dl_error *err)
{
    dl_collective_cost key = {0};
    dl_error inner = {0};
    int64_t nodes = 0;
    dl_status status = parse_section(ini, entry, &key, err);
    if (status != DL_OK) return status;
    dl_collective_cost *cost = find_or_add(costs, &key);
    if (strncmp(entry->key, "bytes_", strlen("bytes_")) == 0) {
        return add_time(cost, ini, entry, err);
    }
    status = dl_parse_int(entry->value, 1, cost->ranks, &nodes, &inner);
    if (status != DL_OK) return dl_ini_error(ini, entry, status, err, "%s", inner.text);
    cost->nodes = (int)nodes;
    return DL_OK;
}

dl_status dl_costs_check_collectives(const dl_costs *costs, const dl_ini *ini, dl_error *err)
{
    for (size_t i = 0; i < costs->collective_count; i++) {
        const dl_collective_cost *c = &costs->collectives[i];
        if (c->count >= 2) continue;
        return dl_error_set_at(err, DL_ERR_DATA, ini->path, 0,
                               "[collective %s %d]: want two sizes or more",
                               dl_collective_kind_names[c->kind], c->ranks);
    }
    return DL_OK;
}

void dl_costs_write_collectives(FILE *out, const dl_costs *costs)
{
    for (size_t i = 0; i < costs->collective_count; i++) {
        const dl_collective_cost *c = &costs->collectives[i];
        fprintf(out, "\n[collective %s %d]\n", dl_collective_kind_names[c->kind], c->ranks);
        if (c->nodes > 0) fprintf(out, "nodes = %d\n", c->nodes);
        for (size_t t = 0; t < c->count; t++) {
            char bytes[DL_DOUBLE_TEXT_BYTES];
            fprintf(out, "bytes_%s = ", dl_format_double(bytes, c->times[t].bytes));
            dl_value_write(out, &c->times[t].time_ns);
            fputc('\n', out);
        }
    }
}

void dl_costs_free_collectives(dl_costs *costs)
{
    for (size_t i = 0; i < costs->collective_count; i++)
        free(costs->collectives[i].times);
    free(costs->collectives);
}

const dl_collective_cost *dl_collective_cost_find(const dl_collective_cost *costs, size_t count,
                                                  int kind, int ranks, int nodes)
{
    for (size_t i = 0; i < count; i++) {
        const dl_collective_cost *c = &costs[i];
        if (c->kind == kind && c->ranks == ranks && (c->nodes == 0 || c->nodes == nodes)) return c;
    }
    return NULL;
}

double dl_collective_cost_ns(const dl_collective_cost *cost, double bytes)
{
    const dl_collective_time *times = cost->times;
    size_t high = 1;
    while (high + 1 < cost->count && times[high].bytes < bytes)
        high++;
    const dl_collective_time *a = &times[high - 1], *b = &times[high];
    if (bytes <= times[0].bytes) return times[0].time_ns.value;
    const double share = (bytes - a->bytes) / (b->bytes - a->bytes);
    return fmax(0, a->time_ns.value + share * (b->time_ns.value - a->time_ns.value));
}
