#include "calibrate/links/links_costs.h"

#include <stdlib.h>
#include <string.h>

#include "calibrate/dataset.h"
#include "common/alloc.h"
#include "common/names.h"
#include "common/units.h"
#include "sim/collective/collective.h"
#include "sim/costs/costs.h"

static int kind_of(const dl_link_series *s)
{
    return s->collective ? dl_names_find(s->name, dl_collective_kind_names, DL_COLLECTIVE_KINDS)
                         : -1;
}

static bool same_group(const dl_link_series *a, const dl_link_series *b)
{
    return a->collective && b->collective && strcmp(a->name, b->name) == 0 && a->ranks == b->ranks;
}

/* Whether the series is the one of its group that is written. */
static bool is_chosen(const dl_link_results *links, const dl_link_series *series,
                      dl_link_place place)
{
    if (series->place == place) return true;
    for (size_t i = 0; i < links->count; i++) {
        const dl_link_series *other = links->results[i].series;
        if (same_group(series, other) && other->place == place) return false;
    }
    return true;
}

static dl_collective_cost *find(dl_costs *costs, int kind, int ranks)
{
    for (size_t i = 0; i < costs->collective_count; i++) {
        if (costs->collectives[i].kind == kind && costs->collectives[i].ranks == ranks)
            return &costs->collectives[i];
    }
    return NULL;
}

static dl_collective_cost *add(dl_costs *costs)
{
    costs->collectives = dl_realloc(costs->collectives, costs->collective_count + 1,
                                    sizeof *costs->collectives, "collectives");
    dl_collective_cost *cost = &costs->collectives[costs->collective_count++];
    *cost = (dl_collective_cost){0};
    return cost;
}

/* The curve, of which each corner rests on the sizes of its regime. */
static void take_curve(dl_collective_cost *cost, const dl_link_result *result)
{
    const dl_link_fit *fit = &result->fit;
    size_t k = 0;
    free(cost->times);
    cost->count = fit->vertex_count;
    cost->times = dl_calloc(cost->count, sizeof *cost->times, "times by size");
    for (size_t i = 0; i < cost->count; i++) {
        const dl_link_vertex *v = &fit->vertices[i];
        while (k + 1 < fit->regime_count && v->bytes > fit->regimes[k].high_bytes)
            k++;
        cost->times[i] =
            (dl_collective_time){.bytes = v->bytes,
                                 .time_ns = {true, v->time_ns, v->error_ns,
                                             fit->regimes[k].latency_ns.count, DL_ORIGIN_FITTED}};
    }
}

static dl_status take_collective(dl_costs *costs, dl_link_results *links, size_t index,
                                 dl_link_place place, const dl_link_series **taken, dl_error *err)
{
    const dl_link_result *result = &links->results[index];
    const dl_link_series *s = result->series;
    const int kind = kind_of(s);
    char name[128];
    if (!s->collective || !is_chosen(links, s, place)) return DL_OK;
    dl_link_series_text(name, sizeof name, s);
    if (kind < 0 || s->ranks < 2) {
        dl_notes_add(&links->notes, "%s: not written, %s", name,
                     kind < 0 ? "the simulator has no such collective"
                              : "the log does not say how many ranks");
        return DL_OK;
    }
    for (size_t i = 0; i < index; i++) {
        if (taken[i] == NULL || !same_group(taken[i], s)) continue;
        return dl_error_set_at(err, DL_ERR_DATA, s->path, 0,
                               "%s: %.100s has measured it too; a cost file is of one machine",
                               name, dl_base_name(taken[i]->path));
    }
    dl_collective_cost *cost = find(costs, kind, s->ranks);
    if (cost == NULL) cost = add(costs);
    cost->kind = kind;
    cost->ranks = s->ranks;
    cost->nodes = s->nodes;
    take_curve(cost, result);
    taken[index] = s;
    return DL_OK;
}

/* Pageable copies: the slower direction's rate at large sizes. */
static bool take_pageable(dl_costs *costs, const dl_link_result *result)
{
    const dl_link_regime *last = &result->fit.regimes[result->fit.regime_count - 1];
    const dl_link_series *s = result->series;
    if (s->collective || s->ranks > 1 || strstr(s->name, "pageable") == NULL ||
        !last->bandwidth_determined) {
        return false;
    }
    const double rate = DL_NS_PER_S / last->ns_per_byte.value;
    dl_value *value = &costs->copy.pageable_bytes_per_s;
    if (value->known && value->origin == DL_ORIGIN_FITTED && value->value <= rate) return true;
    *value = (dl_value){true, rate, rate * last->ns_per_byte.error / last->ns_per_byte.value,
                        last->ns_per_byte.count, DL_ORIGIN_FITTED};
    return true;
}

static dl_status take_all(dl_costs *costs, dl_link_results *links, dl_link_place place,
                          dl_error *err)
{
    size_t count = 0;
    dl_status status = DL_OK;
    const dl_link_series **taken = dl_calloc(links->count, sizeof *taken, "series");
    costs->copy.pageable_bytes_per_s.origin = DL_ORIGIN_ASSUMED;
    for (size_t i = 0; i < links->count && status == DL_OK; i++) {
        count += take_pageable(costs, &links->results[i]);
        status = take_collective(costs, links, i, place, taken, err);
        count += taken[i] != NULL;
    }
    free(taken);
    if (status != DL_OK || count > 0) return status;
    return dl_error_set(err, DL_ERR_DATA,
                        "the logs hold no collective and no pageable copy for a cost file");
}

dl_status dl_link_costs_write(dl_link_results *links, dl_link_place place, const char *base,
                              const char *path, dl_error *err)
{
    dl_costs costs = {.parameter_bytes = -1, .state_bytes = -1};
    dl_status status = base != NULL ? dl_costs_read(&costs, base, err) : DL_OK;
    if (status == DL_OK) status = take_all(&costs, links, place, err);
    if (status == DL_OK) {
        status =
            dl_costs_write(&costs, path, "Collectives as a whole, by size: dlcal links. ns", err);
    }
    dl_costs_free(&costs);
    return status;
}
