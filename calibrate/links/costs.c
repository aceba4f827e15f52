/* Writes the fits of logs as a cost file: collectives, exchanges of processes, updates, pageable
 * copies. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "calibrate/links/links_internal.h"
#include "common/alloc.h"
#include "common/names.h"
#include "common/units.h"
#include "sim/collective/collective.h"
#include "sim/costs/costs.h"

static bool same_group(const dl_link_series *a, const dl_link_series *b)
{
    return a->collective && b->collective && strcmp(a->name, b->name) == 0 && a->ranks == b->ranks;
}

bool dl_link_is_chosen(const dl_link_results *links, const dl_link_series *series,
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

/* Copies the fit's curve. Each vertex has the number of samples of its regime; its error combines
 * the errors of the line and of the starts. */
static void take_curve(dl_collective_cost *cost, const dl_link_result *result)
{
    const dl_link_fit *fit = &result->fit;
    const double start_error = result->series->start_error_frac;
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
                                 .time_ns = {.known = true,
                                             .value = v->time_ns,
                                             .error = hypot(v->error_ns, v->time_ns * start_error),
                                             .count = fit->regimes[k].latency_ns.count,
                                             .origin = DL_ORIGIN_FITTED}};
    }
    free(cost->starts);
    cost->start_count = result->series->start_count;
    cost->starts = dl_calloc(cost->start_count, sizeof *cost->starts, "factors of starts");
    for (size_t i = 0; i < cost->start_count; i++)
        cost->starts[i] = (float)result->series->starts[i];
}

static dl_status take_collective(dl_costs *costs, dl_link_results *links, size_t index,
                                 dl_link_place place, const dl_link_series **taken, dl_error *err)
{
    const dl_link_result *result = &links->results[index];
    const dl_link_series *s = result->series;
    char name[128];
    if (!s->collective || !dl_link_is_chosen(links, s, place)) return DL_OK;
    const int kind = dl_names_find(s->name, dl_collective_kind_names, DL_COLLECTIVE_KINDS);
    dl_link_series_text(name, sizeof name, s);
    if (kind < 0 || s->ranks < 2) {
        dl_notes_add(&links->notes, "%s: not written, %s", name,
                     kind < 0 ? "the simulator has no such collective"
                              : "the log does not give the number of ranks");
        return DL_OK;
    }
    for (size_t i = 0; i < index; i++) {
        if (taken[i] == NULL || !same_group(taken[i], s)) continue;
        return dl_error_set_at(err, DL_ERR_DATA, s->path, 0,
                               "%s: also measured in %.100s; a cost file describes one machine",
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

/* Returns whether the scaling is the one to write for its collective. */
static bool is_chosen_scaling(const dl_link_results *links, const dl_link_scaling *s,
                              dl_link_place place)
{
    if (!s->by_nodes || dl_names_find(s->name, dl_collective_kind_names, DL_COLLECTIVE_KINDS) < 0)
        return false;
    for (size_t i = 0; i < links->scaling_count; i++) {
        const dl_link_scaling *other = &links->scalings[i];
        if (other->by_nodes && strcmp(other->name, s->name) == 0 && other->place == place)
            return s->place == place;
    }
    return true;
}

/* Adds the curve for an unmeasured number of nodes, extrapolated by the scaling over nodes. */
static bool take_scaling(dl_costs *costs, dl_link_results *links, const dl_link_scaling *s,
                         int nodes)
{
    const int kind = dl_names_find(s->name, dl_collective_kind_names, DL_COLLECTIVE_KINDS);
    const int ranks = nodes * s->ranks_per_node, most = (int)s->counts[s->count - 1];
    for (size_t i = 0; i < s->count; i++) {
        if ((int)s->counts[i] == nodes) return true; /* measured */
    }
    dl_collective_cost *cost = find(costs, kind, ranks);
    if (cost == NULL) cost = add(costs);
    free(cost->times);
    free(cost->starts);
    *cost = (dl_collective_cost){.kind = kind, .ranks = ranks, .nodes = nodes, .count = s->sizes};
    cost->times = dl_calloc(s->sizes, sizeof *cost->times, "times by size");
    for (size_t k = 0; k < s->sizes; k++) {
        const dl_link_vertex v = dl_link_scaling_at(s, k, nodes);
        cost->times[k] = (dl_collective_time){.bytes = v.bytes,
                                              .time_ns = {.known = true,
                                                          .value = v.time_ns,
                                                          .error = v.error_ns,
                                                          .count = (int64_t)s->count,
                                                          .origin = DL_ORIGIN_FITTED}};
    }
    if (nodes > most) {
        dl_notes_add(&links->notes,
                     "%s on %d nodes is extrapolated: %.3g times the measured maximum, %d, which a "
                     "fit to the smaller counts misses by %.1f %%",
                     s->name, nodes, (double)nodes / most, most, 100 * s->last_mean);
    } else {
        dl_notes_add(&links->notes, "%s on %d nodes lies %s the counts that were measured", s->name,
                     nodes, nodes < (int)s->counts[0] ? "below" : "between");
    }
    return true;
}

static dl_status take_scalings(dl_costs *costs, dl_link_results *links, dl_link_place place,
                               const int *nodes, size_t node_count, dl_error *err)
{
    bool any = node_count == 0;
    for (size_t i = 0; i < links->scaling_count; i++) {
        if (!is_chosen_scaling(links, &links->scalings[i], place)) continue;
        for (size_t k = 0; k < node_count; k++)
            any = take_scaling(costs, links, &links->scalings[i], nodes[k]) || any;
    }
    if (any) return DL_OK;
    return dl_error_set(err, DL_ERR_DATA,
                        "--nodes: no collective was measured at %d counts of nodes with the same "
                        "number of ranks each",
                        DL_LINK_COUNTS_MIN);
}

/* Takes the rate of pageable copies: that of the slower direction at large sizes. */
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
    *value = (dl_value){.known = true,
                        .value = rate,
                        .error = rate * last->ns_per_byte.error / last->ns_per_byte.value,
                        .count = last->ns_per_byte.count,
                        .origin = DL_ORIGIN_FITTED};
    return true;
}

/* Returns the line that covers the parameters' size, or the line of the largest sizes if that size
 * is unknown. */
static const dl_link_regime *line_for(const dl_link_fit *fit, int64_t parameter_bytes)
{
    size_t k = 0;
    while (k + 1 < fit->regime_count &&
           (parameter_bytes < 0 || (double)parameter_bytes > fit->regimes[k].high_bytes))
        k++;
    return &fit->regimes[k];
}

/* Takes exchanges between processes that are not collectives of the simulator. */
static bool take_exchange(dl_costs *costs, const dl_link_result *result)
{
    static const char *const names[] = {"roundtrip", "allreduce_pair", "allreduce_beside",
                                        "allreduce_late", "pushpull"};
    static const int kinds[] = {DL_ROUNDTRIP, DL_ALLREDUCE_PAIR, DL_ALLREDUCE_BESIDE,
                                DL_ALLREDUCE_LATE, DL_PUSHPULL};
    const dl_link_series *s = result->series;
    const int index = s->collective ? -1 : dl_names_find(s->name, names, DL_LENGTH(names));
    if (index < 0) return false;
    const int kind = kinds[index];
    dl_collective_cost *cost = find(costs, kind, s->ranks);
    if (cost == NULL) cost = add(costs);
    cost->kind = kind;
    cost->ranks = s->ranks;
    take_curve(cost, result);
    return true;
}

/* Takes a server's update, which reads a gradient and writes the parameters and is therefore
 * charged twice the bytes at one rate. Replaces a line with a negative latency by the line through
 * 0 and the time at the parameters' size. */
static bool take_update(dl_costs *costs, const dl_link_result *result)
{
    const dl_link_regime *line = line_for(&result->fit, costs->parameter_bytes);
    const dl_link_series *s = result->series;
    const int64_t count = line->latency_ns.count;
    if (s->collective || strcmp(s->name, "update") != 0 || line->ns_per_byte.value <= 0) {
        return false;
    }
    double latency_ns = line->latency_ns.value, ns_per_byte = line->ns_per_byte.value;
    const double error_frac = hypot(line->ns_per_byte.error / ns_per_byte, s->start_error_frac);
    if (latency_ns < 0) {
        const double bytes = costs->parameter_bytes > 0 ? (double)costs->parameter_bytes
                                                        : s->points[s->count - 1].bytes;
        latency_ns = 0;
        ns_per_byte = dl_link_fit_time_ns(&result->fit, bytes) / bytes;
    }
    const double rate = 2 * DL_NS_PER_S / ns_per_byte;
    const double latency_error_ns =
        latency_ns > 0 ? hypot(line->latency_ns.error, latency_ns * s->start_error_frac) : 0;
    const dl_value bandwidth = {.known = true,
                                .value = rate,
                                .error = rate * error_frac,
                                .count = count,
                                .origin = DL_ORIGIN_FITTED};
    costs->update.latency_ns = (dl_value){.known = true,
                                          .value = latency_ns,
                                          .error = latency_error_ns,
                                          .count = count,
                                          .origin = DL_ORIGIN_FITTED};
    costs->update.read_bytes_per_s = costs->update.write_bytes_per_s = bandwidth;
    return true;
}

/* Returns DL_ERR_DATA with the names of all measurements if a cost file can hold none of them. */
static dl_status refuse_all(const dl_link_results *links, dl_error *err)
{
    char *names = NULL, name[128];
    for (size_t i = 0; i < links->count; i++) {
        const dl_link_series *s = links->results[i].series;
        bool again = false;
        for (size_t k = 0; k < i && !again; k++)
            again = same_group(s, links->results[k].series);
        if (again) continue;
        dl_link_series group = *s;
        group.place = DL_LINK_ANYWHERE;
        dl_join(&names, ", ", dl_link_series_text(name, sizeof name, &group));
    }
    for (size_t i = 0; i < links->data->rate_count && names == NULL; i++)
        names = dl_strdup("single rates");
    const dl_status status =
        dl_error_set(err, DL_ERR_DATA,
                     "nothing in the logs fits into a cost file (%.200s): it has collectives that "
                     "dlsim simulates, with a known number of ranks, round trips and pageable "
                     "copies; rates of links belong in a machine file (dlsim --keys)",
                     names != NULL ? names : "no series");
    free(names);
    return status;
}

static dl_status take_all(dl_costs *costs, dl_link_results *links, dl_link_place place,
                          dl_error *err)
{
    size_t count = 0;
    dl_status status = DL_OK;
    DL_AUTOFREE const dl_link_series **taken = dl_calloc(links->count, sizeof *taken, "series");
    costs->copy.pageable_bytes_per_s.origin = DL_ORIGIN_ASSUMED;
    for (size_t i = 0; i < links->count && status == DL_OK; i++) {
        count += take_pageable(costs, &links->results[i]);
        count += take_exchange(costs, &links->results[i]);
        count += take_update(costs, &links->results[i]);
        status = take_collective(costs, links, i, place, taken, err);
        count += taken[i] != NULL;
    }
    if (status != DL_OK || count > 0) return status;
    return refuse_all(links, err);
}

dl_status dl_link_costs_write(dl_link_results *links, dl_link_place place, const int *nodes,
                              size_t node_count, const char *base, const char *path, dl_error *err)
{
    DL_SCOPED(dl_costs) costs = {.parameter_bytes = -1, .state_bytes = -1};
    dl_status status = base != NULL ? dl_costs_read(&costs, base, err) : DL_OK;
    if (status == DL_OK) status = take_all(&costs, links, place, err);
    if (status == DL_OK) status = take_scalings(&costs, links, place, nodes, node_count, err);
    if (status == DL_OK) {
        status =
            dl_costs_write(&costs, path, "Collectives as a whole, by size: dlcal links. ns", err);
    }
    return status;
}
