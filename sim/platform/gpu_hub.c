#include "sim/platform/gpu_hub.h"

#include <math.h>
#include <stdlib.h>

#include "common/alloc.h"

/* --- links and classes ----------------------------------------------------------------------- */

static const dl_links *links_of(const dl_gpu_hub *hub)
{
    return &hub->gpus->config.options->links;
}

/* The network's link that the machine's is. */
static int link_of(dl_gpu_hub *hub, int link)
{
    int *number = &hub->number[link];
    if (*number == 0)
        *number = dl_network_add_link(&hub->network, dl_links_capacity(links_of(hub), link)) + 1;
    return *number - 1;
}

static void route_of(const dl_gpu_hub *hub, int worker, int way, dl_route *route)
{
    dl_gpu_route(hub->gpus, worker, way == DL_HUB_IN, route);
}

static void make_apart(dl_gpu_hub *hub, int worker, int way)
{
    dl_route route;
    route_of(hub, worker, way, &route);
    hub->apart[worker].latency_ns[way] = dl_gpu_route_latency(hub->gpus, &route);
    for (int i = 0; i < route.count; i++)
        route.links[i] = link_of(hub, route.links[i]);
    hub->apart[worker].classes[way] = dl_network_route_class(&hub->network, &route);
}

/* The link of its own comes first or last, as those that it stands for. */
static int make_crowd(dl_gpu_hub *hub, const dl_gpu_way *v)
{
    int links[DL_WAY_LINKS];
    unsigned char times[DL_WAY_LINKS];
    for (int i = 0; i < v->link_count; i++) {
        links[i] = link_of(hub, v->links[i]);
        times[i] = (unsigned char)v->times[i];
    }
    const int own = dl_network_add_link(&hub->network, v->own_rate);
    return dl_network_crowd(&hub->network, links, times, v->link_count, own,
                            v->starts_alone ? 0 : v->link_count);
}

static int count_on_server(const dl_gpus *gpus)
{
    int count = 0;
    while (count < gpus->config.workers && gpus->places[count].node == gpus->servers[0].node)
        count++;
    return count;
}

void dl_gpu_hub_init(dl_gpu_hub *hub, dl_gpus *gpus, const dl_network_driver *driver,
                     dl_exchange exchange, int threads)
{
    const int workers = gpus->config.workers, on_server = count_on_server(gpus);
    *hub = (dl_gpu_hub){.gpus = gpus, .threads = threads, .exchange = exchange};
    hub->first_thread = exchange.kind == DL_APPLY ? (int)exchange.gradients - 1 : 0;
    gpus->serving_name = dl_gpus_serving_of(gpus, &exchange).name;
    dl_network_init(&hub->network, gpus->config.engine, workers + threads);
    hub->network.driver = driver;
    hub->number = dl_calloc((size_t)links_of(hub)->count, sizeof *hub->number, "links");
    hub->serving = dl_calloc((size_t)threads, sizeof *hub->serving, "threads of the server");
    const bool has_crowd =
        workers > on_server + 2 && dl_gpu_ways_find_apart(gpus, on_server, hub->ways);
    hub->apart_count = has_crowd ? on_server : workers;
    hub->apart = dl_calloc((size_t)hub->apart_count, sizeof *hub->apart, "copies");
    for (int way = 0; way < DL_HUB_WAYS; way++) {
        for (int w = 0; w < hub->apart_count; w++)
            make_apart(hub, w, way);
        if (has_crowd) hub->crowds[way] = make_crowd(hub, &hub->ways[way]);
    }
}

void dl_gpu_hub_free(dl_gpu_hub *hub)
{
    dl_network_free(&hub->network);
    free(hub->apart);
    free(hub->number);
    free(hub->serving);
    free(hub->thread_of);
    free(hub->own_link);
    *hub = (dl_gpu_hub){0};
}

/* --- copies and the server ------------------------------------------------------------------- */

void dl_gpu_hub_copy(dl_gpu_hub *hub, int worker, int way, double bytes, dl_event_fn done,
                     void *user, int index)
{
    const int class =
        worker < hub->apart_count ? hub->apart[worker].classes[way] : hub->crowds[way];
    dl_network_join(&hub->network, class, bytes, done, user, index);
}

static int serving_class(dl_gpu_hub *hub, int thread)
{
    int *number = &hub->serving[thread];
    if (*number > 0) return *number - 1;
    const dl_gpu_serving s = dl_gpus_serving_of(hub->gpus, &hub->exchange);
    int links[2] = {link_of(hub, dl_gpus_memory_link(hub->gpus, hub->gpus->servers[0]))}, count = 1;
    const unsigned char times[2] = {1, 1};
    if (isfinite(s.bytes_per_s)) {
        const size_t at = (size_t)hub->own_count++;
        hub->thread_of = dl_grow(hub->thread_of, at, sizeof *hub->thread_of, "threads");
        hub->own_link = dl_grow(hub->own_link, at, sizeof *hub->own_link, "threads");
        hub->thread_of[at] = thread;
        hub->own_link[at] = links[count++] = dl_network_add_link(&hub->network, s.bytes_per_s);
    }
    *number = dl_network_class(&hub->network, links, times, count) + 1;
    return *number - 1;
}

void dl_gpu_hub_serve(dl_gpu_hub *hub, int thread, double bytes, dl_event_fn done, void *user,
                      int index)
{
    dl_network_join(&hub->network, serving_class(hub, thread), bytes, done, user, index);
}

/* --- what comes out -------------------------------------------------------------------------- */

static void note(dl_gpus *gpus, int link, double bytes_per_s, double bytes)
{
    gpus->carried =
        dl_grow(gpus->carried, (size_t)gpus->carried_count, sizeof *gpus->carried, "busy links");
    gpus->carried[gpus->carried_count++] = (dl_gpu_carried){link, bytes_per_s, bytes};
}

static int by_link(const void *a, const void *b)
{
    const dl_gpu_carried *x = a, *y = b;
    return x->link < y->link ? -1 : x->link > y->link;
}

/* The links that a worker of the crowd has to itself: no other one's are busier. */
static void note_own(dl_gpu_hub *hub, double bytes, int worker, int64_t exchanges)
{
    dl_gpus *gpus = hub->gpus;
    for (int way = 0; way < DL_HUB_WAYS; way++) {
        dl_route route;
        route_of(hub, worker, way, &route);
        for (int i = 0; i < route.count; i++) {
            if (hub->number[route.links[i]] > 0) continue;
            int at = 0;
            while (at < gpus->carried_count && gpus->carried[at].link != route.links[i])
                at++;
            if (at == gpus->carried_count)
                note(gpus, route.links[i], dl_links_capacity(links_of(hub), route.links[i]), 0);
            gpus->carried[at].bytes += (double)exchanges * bytes * route.uses[i];
        }
    }
}

void dl_gpu_hub_note(dl_gpu_hub *hub, double bytes, int most_worker, int64_t exchanges)
{
    dl_gpus *gpus = hub->gpus;
    const dl_network *network = &hub->network;
    if (most_worker >= hub->apart_count) note_own(hub, bytes, most_worker, exchanges);
    for (int l = 0; l < links_of(hub)->count; l++) {
        const int i = hub->number[l] - 1;
        if (i >= 0) note(gpus, l, network->capacity[i], network->bytes[i]);
    }
    qsort(gpus->carried, (size_t)gpus->carried_count, sizeof *gpus->carried, by_link);
    for (int i = 0; i < hub->own_count; i++) {
        const int l = hub->own_link[i];
        note(gpus, DL_CARRIED_BY_THREAD - hub->first_thread - hub->thread_of[i],
             network->capacity[l], network->bytes[l]);
    }
}
