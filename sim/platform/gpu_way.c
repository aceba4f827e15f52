#include "sim/platform/gpu_way.h"

#include <math.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "common/units.h"

/* --- copies ---------------------------------------------------------------------------------- */

void dl_gpu_way_grow(dl_gpu_way *v)
{
    const uint32_t old = v->room, room = old > 0 ? 2 * old : 64;
    v->copies = dl_realloc(v->copies, room, sizeof *v->copies, "copies");
    for (uint32_t i = 0; old > 0 && i < v->first; i++) /* what wrapped round */
        v->copies[old + i] = v->copies[i];
    v->room = room;
}

void dl_gpu_ended_grow(dl_gpu_ended *ended)
{
    ended->room = ended->room > 0 ? 2 * ended->room : 64;
    ended->items = dl_realloc(ended->items, ended->room, sizeof *ended->items, "ended copies");
}

#define EXACT_MOST 0x1p53 /* whole numbers up to it are exact */

double dl_gpu_way_carried(const dl_gpu_way *way, int link)
{
    const double each = way->bytes * way->times[link], all = each * (double)way->ended;
    if (all <= EXACT_MOST && floor(each) >= each) return all; /* so are all sums up to it */
    double bytes = 0;
    for (int64_t c = 0; c < way->ended; c++)
        bytes += each;
    return bytes;
}

/* --- links ----------------------------------------------------------------------------------- */

/* The copies of which way a route is looked for. */
typedef struct search {
    const dl_gpus *gpus;
    bool inward;
    int first;      /* worker */
    bool may_stage; /* through host memory */
    uint64_t *seen; /* bits of links that routes have come over so far */
} search;

static bool see(search *s, int link)
{
    const uint64_t bit = (uint64_t)1 << (link % 64);
    const bool was_seen = (s->seen[link / 64] & bit) != 0;
    s->seen[link / 64] |= bit;
    return was_seen;
}

void dl_gpu_route(const dl_gpus *gpus, int worker, bool inward, dl_route *route)
{
    const dl_place gpu = gpus->places[worker], server = gpus->servers[0];
    dl_links_route(&gpus->config.options->links, inward ? gpu : server, inward ? server : gpu,
                   route);
}

int64_t dl_gpu_route_latency(const dl_gpus *gpus, const dl_route *route)
{
    return dl_ns_ceil(route->latency_ns + route->message_ns + gpus->config.options->message_ns);
}

static void route_of(const search *s, int worker, dl_route *route)
{
    dl_gpu_route(s->gpus, worker, s->inward, route);
}

static bool has_link(const dl_route *route, int link)
{
    for (int i = 0; i < route->count; i++)
        if (route->links[i] == link) return true;
    return false;
}

/* What the routes of the first two workers have in common is what all must. */
static bool find_common(const search *s, dl_gpu_way *v)
{
    dl_route first, second;
    route_of(s, s->first, &first);
    route_of(s, s->first + 1, &second);
    v->latency_ns = dl_gpu_route_latency(s->gpus, &first);
    v->starts_alone = first.count > 0 && !has_link(&second, first.links[0]);
    for (int i = 0; i < first.count; i++) {
        if (!has_link(&second, first.links[i])) continue;
        if (v->link_count == DL_WAY_LINKS) return false;
        v->links[v->link_count] = first.links[i];
        v->capacity[v->link_count] =
            dl_links_capacity(&s->gpus->config.options->links, first.links[i]);
        v->times[v->link_count++] = first.uses[i];
    }
    return v->link_count > 0;
}

/* Rates of links this close may be each other's lesser one by rounding. */
#define RELATIVE_ROOM 1e-6

/* Finds the links that may be the narrowest; returns the rate of one copy over them. */
static double find_narrow(dl_gpu_way *v)
{
    double least = INFINITY;
    for (int i = 0; i < v->link_count; i++)
        least = fmin(least, v->capacity[i] / v->times[i]);
    v->narrow_count = 0;
    for (int i = 0; i < v->link_count; i++) {
        if (v->capacity[i] / v->times[i] > least * (1 + RELATIVE_ROOM)) continue;
        v->narrow[v->narrow_count] = v->capacity[i];
        v->narrow_times[v->narrow_count++] = v->times[i];
    }
    return least;
}

/* Whether the route has the common links, in their order, and else links that no other one has and
 * that are no narrower, of which *own is the narrowest one's rate. */
static bool is_plain(search *s, const dl_route *route, const dl_gpu_way *v, double narrowest,
                     double *own)
{
    const dl_links *links = &s->gpus->config.options->links;
    int common = 0;
    *own = INFINITY;
    for (int i = 0; i < route->count; i++) {
        const int link = route->links[i];
        if (common < v->link_count && v->links[common] == link) {
            if (route->uses[i] != (unsigned char)v->times[common++]) return false;
            continue;
        }
        if (see(s, link)) return false;
        *own = fmin(*own, dl_links_capacity(links, link) / route->uses[i]);
    }
    return common == v->link_count && *own >= narrowest;
}

static bool find_way(search *s, dl_gpu_way *v)
{
    dl_route route;
    if (!find_common(s, v)) return false;
    for (int i = 0; i < v->link_count; i++)
        if (see(s, v->links[i])) return false;
    const double narrowest = find_narrow(v);
    for (int w = s->first; w < s->gpus->config.workers; w++) {
        double own;
        route_of(s, w, &route);
        if ((route.staged && !s->may_stage) ||
            dl_gpu_route_latency(s->gpus, &route) != v->latency_ns ||
            !is_plain(s, &route, v, narrowest, &own))
            return false;
        if (w == s->first) v->own_rate = own;
        v->own_differs |= own < v->own_rate || own > v->own_rate;
    }
    return true;
}

static uint64_t *new_seen(const dl_gpus *gpus)
{
    return dl_calloc((size_t)gpus->config.options->links.count / 64 + 1, sizeof(uint64_t), "links");
}

bool dl_gpu_ways_find(const dl_gpus *gpus, dl_gpu_way *in, dl_gpu_way *out)
{
    search s = {.gpus = gpus, .inward = true, .seen = new_seen(gpus)};
    bool found = find_way(&s, in);
    s.inward = false;
    found = found && find_way(&s, out);
    free(s.seen);
    return found;
}

bool dl_gpu_ways_find_apart(const dl_gpus *gpus, int first, dl_gpu_way ways[2])
{
    bool found = true;
    for (int i = 0; i < 2 && found; i++) {
        search s = {.gpus = gpus,
                    .inward = i == 0,
                    .first = first,
                    .may_stage = true,
                    .seen = new_seen(gpus)};
        found = find_way(&s, &ways[i]) && isfinite(ways[i].own_rate) && !ways[i].own_differs;
        free(s.seen);
    }
    return found;
}

void dl_gpu_way_set_memory(dl_gpu_way *way, const dl_gpus *gpus)
{
    const dl_place place = gpus->servers[0];
    const dl_machine *m = &gpus->config.options->machine;
    way->link_count = 1;
    way->capacity[0] = dl_machine_model(m, place.node, place.index)->memory_bytes_per_s.value;
    way->times[0] = 1;
    (void)find_narrow(way);
}
