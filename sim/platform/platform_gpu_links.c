/* Where servers are, and what a worker's copies and a server's sums go over. */
#include "sim/platform/platform_gpu.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "common/units.h"

/* A link behind the machine's own; -1 if it limits nothing. */
static int add_own_link(dl_gpus *gpus, double bytes_per_s, const char *format, ...) DL_PRINTF(3, 4);
static int add_own_link(dl_gpus *gpus, double bytes_per_s, const char *format, ...)
{
    if (!isfinite(bytes_per_s)) return -1;
    size_t i = (size_t)gpus->own_links++;
    gpus->own_names = dl_realloc(gpus->own_names, i + 1, sizeof *gpus->own_names, "link names");
    va_list args;
    va_start(args, format);
    vsnprintf(gpus->own_names[i], sizeof gpus->own_names[i], format, args);
    va_end(args);
    return dl_network_add_link(&gpus->network, bytes_per_s);
}

static void add_to_route(dl_route *route, int link)
{
    if (link < 0) return;
    route->links[route->count] = link;
    route->uses[route->count++] = 1;
}

static int memory_link(const dl_links *links, dl_place host)
{
    return host.node * links->per_node + links->memory[host.index];
}

/* A pageable copy is made twice: by the host thread to or from pinned memory (a read and a write
 * more), and by the GPU. */
static void make_pageable(const dl_links *links, dl_place host, int staging, dl_route *route)
{
    int memory = memory_link(links, host);
    for (int l = 0; l < route->count; l++) {
        if (route->links[l] == memory) route->uses[l] = (unsigned char)(route->uses[l] + 2);
    }
    add_to_route(route, staging);
}

/* Reads and writes of a piece of serving, by byte of the slice. */
typedef struct serving {
    const char *name;
    const dl_byte_cost *cost;
    int reads, writes;
} serving;

static serving serving_of(const dl_gpus *gpus, dl_serving_kind kind, int index)
{
    const dl_workload *w = gpus->config.workload;
    switch (kind) {
    case DL_SERVING_AVERAGE:
        return (serving){"averaging thread", &w->average, gpus->config.workers, 1};
    case DL_SERVING_SUM: return (serving){"update thread", &w->update, gpus->config.workers, 1};
    case DL_SERVING_FILTER: return (serving){"filter thread", &w->average, 5, 2};
    case DL_SERVING_APPLY: return (serving){"update of gradients", &w->update, index + 1, 1};
    case DL_SERVING_BLEND:
    case DL_SERVING_KINDS: break;
    }
    return (serving){"blending thread", &w->average, 2, 1};
}

double dl_gpus_serving_traffic(const dl_gpus *gpus, dl_serving_kind kind, int64_t vectors)
{
    if (kind == DL_SERVING_APPLY) return (double)vectors + 1;
    serving s = serving_of(gpus, kind, 0);
    return s.reads + s.writes;
}

/* Bytes read and written a second by a thread that has no other limit. */
static double thread_rate(const serving *s)
{
    double ns = s->reads * s->cost->read_ns_per_byte + s->writes * s->cost->write_ns_per_byte;
    return ns > 0 ? (s->reads + s->writes) / ns * 1e9 : (double)INFINITY;
}

/* The memory of a GPU, as a link of its own. */
static int gpu_memory(dl_gpus *gpus, dl_place gpu)
{
    const dl_machine *m = &gpus->config.options->machine;
    int *link = &gpus->gpu_memory[gpu.node * m->gpu_count + gpu.index];
    if (*link >= 0) return *link;
    double rate = m->models[m->gpus[gpu.index].model].memory_bytes_per_s.value;
    *link = add_own_link(gpus, rate, "memory of node%d gpu%d", gpu.node, gpu.index);
    return *link;
}

static int route_class(dl_gpus *gpus, dl_place from, dl_place to, int staging, int64_t *latency_ns)
{
    const dl_links *links = &gpus->config.options->links;
    const dl_place host = from.kind == DL_PLACE_HOST ? from : to;
    dl_route route;
    dl_links_route(links, from, to, &route);
    if (staging >= 0 && host.kind == DL_PLACE_HOST) make_pageable(links, host, staging, &route);
    *latency_ns = dl_ns_ceil(route.latency_ns + gpus->config.options->message_ns);
    return dl_network_route_class(&gpus->network, &route);
}

typedef struct link_pair {
    int first, second; /* -1 = none */
} link_pair;

/* What a thread of a server in host memory goes over: the memory and, in place of a cap, a link of
 * its own; or the memory of the server's GPU. */
static link_pair serving_links(dl_gpus *gpus, dl_serving_kind kind, int index, int shard)
{
    const dl_place place = gpus->servers[shard];
    if (place.kind == DL_PLACE_GPU) return (link_pair){gpu_memory(gpus, place), -1};
    const serving s = serving_of(gpus, kind, index);
    return (link_pair){
        memory_link(&gpus->config.options->links, place),
        add_own_link(gpus, thread_rate(&s), "%s %d of shard %d", s.name, index, shard)};
}

/* All links come before all classes. */
static link_pair *all_serving_links(dl_gpus *gpus)
{
    const int shards = gpus->config.options->shards, threads = gpus->serving_threads;
    link_pair *pairs = dl_calloc((size_t)DL_SERVING_KINDS * (size_t)threads * (size_t)shards,
                                 sizeof *pairs, "servers");
    size_t p = 0;
    for (int kind = 0; kind < DL_SERVING_KINDS; kind++) {
        for (int i = 0; i < threads * shards; i++, p++) {
            pairs[p] = serving_links(gpus, (dl_serving_kind)kind, i / shards, i % shards);
        }
    }
    return pairs;
}

static int pair_class(dl_gpus *gpus, link_pair pair)
{
    dl_route route = {0};
    add_to_route(&route, pair.first);
    add_to_route(&route, pair.second);
    return dl_network_route_class(&gpus->network, &route);
}

int dl_gpus_remote_shards(const dl_gpus *gpus, int worker)
{
    const dl_place *gpu = &gpus->places[worker];
    int remote = 0;
    for (int s = 0; s < gpus->config.options->shards; s++) {
        const dl_place *server = &gpus->servers[s];
        remote += server->kind != DL_PLACE_GPU || server->node != gpu->node ||
                  server->index != gpu->index;
    }
    return remote;
}

static void add_copy_classes(dl_gpus *gpus, const int *up, const int *down)
{
    const int shards = gpus->config.options->shards;
    for (int w = 0; w < gpus->config.workers; w++) {
        for (int s = 0; s < shards; s++) {
            int i = w * shards + s;
            dl_place gpu = gpus->places[w], server = gpus->servers[s];
            gpus->push_class[i] = route_class(gpus, gpu, server, up[w], &gpus->push_ns[i]);
            gpus->pull_class[i] = route_class(gpus, server, gpu, down[w], &gpus->pull_ns[i]);
        }
    }
}

static int *new_numbers(size_t count)
{
    return dl_calloc(count, sizeof(int), "links of workers");
}

static void add_staging(dl_gpus *gpus, int *up, int *down)
{
    const dl_gpus_config *config = &gpus->config;
    double rate =
        config->options->pageable ? config->workload->pageable_bytes_per_s : (double)INFINITY;
    for (int w = 0; w < config->workers; w++) {
        up[w] = add_own_link(gpus, rate, "pageable copies of worker %d up", w);
        down[w] = add_own_link(gpus, rate, "pageable copies of worker %d down", w);
    }
}

void dl_gpus_add_servers(dl_gpus *gpus)
{
    const dl_gpu_options *options = gpus->config.options;
    const size_t workers = (size_t)gpus->config.workers, shards = (size_t)options->shards;
    const size_t pairs = workers * shards;
    gpus->servers = dl_calloc(shards, sizeof *gpus->servers, "shards");
    for (size_t s = 0; s < shards; s++)
        gpus->servers[s] = dl_gpu_options_server(options, (int)s);
    gpus->push_class = new_numbers(pairs);
    gpus->pull_class = new_numbers(pairs);
    gpus->push_ns = dl_calloc(pairs, sizeof(int64_t), "latencies");
    gpus->pull_ns = dl_calloc(pairs, sizeof(int64_t), "latencies");
    int *up = new_numbers(workers), *down = new_numbers(workers);
    add_staging(gpus, up, down);
    link_pair *pairs_of = all_serving_links(gpus);
    add_copy_classes(gpus, up, down);
    const size_t servings = DL_SERVING_KINDS * (size_t)gpus->serving_threads * shards;
    gpus->serving_class = new_numbers(servings);
    for (size_t r = 0; r < servings; r++)
        gpus->serving_class[r] = pair_class(gpus, pairs_of[r]);
    free(pairs_of);
    free(up);
    free(down);
}

void dl_gpus_add_memories(dl_gpus *gpus)
{
    const dl_machine *m = &gpus->config.options->machine;
    const size_t gpu_count = (size_t)m->nodes * (size_t)m->gpu_count;
    gpus->gpu_memory = new_numbers(gpu_count);
    for (size_t g = 0; g < gpu_count; g++)
        gpus->gpu_memory[g] = -1;
    for (int w = 0; w < gpus->config.workers; w++)
        (void)gpu_memory(gpus, gpus->places[w]);
}

void dl_gpus_add_own_classes(dl_gpus *gpus)
{
    const int per_node = gpus->config.options->machine.gpu_count;
    gpus->own_class = new_numbers((size_t)gpus->config.workers);
    for (int w = 0; w < gpus->config.workers; w++) {
        int memory = gpus->gpu_memory[gpus->places[w].node * per_node + gpus->places[w].index];
        gpus->own_class[w] = pair_class(gpus, (link_pair){memory, -1});
    }
}
