/* Exchange between GPUs and servers as flows: what copies and sums go over, all-reduce in buckets,
 * and a parameter server that works bucket by bucket. */
#include "sim/platform/gpu_internal.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "common/units.h"

/* --- links and classes of flows ------------------------------------------------------------- */

/* A link after the machine's; -1 if it limits nothing. */
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

static double serving_traffic(const dl_gpus *gpus, dl_serving_kind kind, int64_t vectors)
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

/* The memory of a GPU, as a separate link. */
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

/* Shards that are not on the worker's own GPU. */
static int remote_shards(const dl_gpus *gpus, int worker)
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

static void add_servers(dl_gpus *gpus)
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

static void add_memories(dl_gpus *gpus)
{
    const dl_machine *m = &gpus->config.options->machine;
    const size_t gpu_count = (size_t)m->nodes * (size_t)m->gpu_count;
    gpus->gpu_memory = new_numbers(gpu_count);
    for (size_t g = 0; g < gpu_count; g++)
        gpus->gpu_memory[g] = -1;
    for (int w = 0; w < gpus->config.workers; w++)
        (void)gpu_memory(gpus, gpus->places[w]);
}

static void add_own_classes(dl_gpus *gpus)
{
    const int per_node = gpus->config.options->machine.gpu_count;
    gpus->own_class = new_numbers((size_t)gpus->config.workers);
    for (int w = 0; w < gpus->config.workers; w++) {
        int memory = gpus->gpu_memory[gpus->places[w].node * per_node + gpus->places[w].index];
        gpus->own_class[w] = pair_class(gpus, (link_pair){memory, -1});
    }
}

/* --- copies and sums ------------------------------------------------------------------------ */

static double content_bytes(const dl_gpus *gpus, dl_content content)
{
    const dl_workload *workload = gpus->config.workload;
    return workload->parameter_bytes +
           (content == DL_CONTENT_PARAMETERS_AND_STATE ? workload->state_bytes : 0);
}

static bool is_collective(const dl_gpus *gpus)
{
    return gpus->config.collective;
}

/* What the worker, or its communication thread, was at in exchange has ended. */
static void exchanged(dl_gpus *gpus, int worker)
{
    dl_team_done(gpus->team, dl_team_exchanger(gpus->team, worker));
}

static void on_own_memory_done(void *user, int worker)
{
    dl_gpus *gpus = user;
    exchanged(gpus, worker);
}

/* Reads and writes `traffic_bytes` in the memory of the worker's own GPU. */
static void touch(dl_gpus *gpus, int worker, double traffic_bytes, dl_event_fn done)
{
    dl_network_start(&gpus->network, gpus->own_class[worker], traffic_bytes, 0, done, gpus, worker);
}

static void on_flow_done(void *user, int worker)
{
    dl_gpus *gpus = user;
    if (--gpus->workers[worker].flows == 0) exchanged(gpus, worker);
}

/* Copies between the worker and all shards, in messages of `bytes`; returns how many they are. */
static int start_copies(dl_gpus *gpus, int worker, double bytes, bool push, dl_event_fn done)
{
    const int shards = gpus->config.options->shards;
    const int *classes = push ? gpus->push_class : gpus->pull_class;
    const int64_t *latency_ns = push ? gpus->push_ns : gpus->pull_ns;
    gpus->moved_bytes += bytes * remote_shards(gpus, worker);
    for (int i = worker * shards; i < (worker + 1) * shards; i++)
        dl_network_start(&gpus->network, classes[i], bytes, latency_ns[i], done, gpus, worker);
    return shards;
}

/* --- all-reduce in buckets ------------------------------------------------------------------ */

#define MAX_BUCKETS 65536 /* far more than a model has tensors */

static void try_next(dl_gpus *gpus);

/* The worker has the result, if need be after making vectors of the messages. */
static void leave_reduction(dl_gpus *gpus, int worker)
{
    const dl_gpu_options *options = gpus->config.options;
    gpus->workers[worker].rounds++;
    if (options->compress == DL_COMPRESS_NONE) {
        exchanged(gpus, worker);
        return;
    }
    touch(gpus, worker,
          dl_decompress_traffic(options, gpus->config.content_bytes, gpus->config.workers),
          on_own_memory_done);
}

static void end_round(dl_gpus *gpus)
{
    dl_reduction *r = &gpus->reduction;
    for (int b = 0; b < r->buckets; b++)
        r->ready[b] = 0;
    r->rounds++;
    gpus->moved_bytes += r->moved_bytes;
    for (int w = 0; w < gpus->config.workers; w++) {
        if (!gpus->workers[w].in_exchange) continue;
        gpus->workers[w].in_exchange = false;
        leave_reduction(gpus, w);
    }
}

static void on_bucket_done(void *user, int unused)
{
    (void)unused;
    dl_gpus *gpus = user;
    dl_reduction *r = &gpus->reduction;
    r->running = false;
    r->next = (r->next + 1) % r->buckets;
    dl_gpus_change_speed(gpus);
    if (r->next == 0) {
        end_round(gpus);
    } else {
        try_next(gpus);
    }
}

/* Starts the next bucket if all workers have it ready and the stream is free. */
static void try_next(dl_gpus *gpus)
{
    dl_reduction *r = &gpus->reduction;
    if (r->running || r->ready[r->next] < gpus->config.workers) return;
    r->running = true;
    dl_gpus_change_speed(gpus);
    dl_collective *bucket = &r->collectives[r->collective[r->next]];
    for (int w = 0; w < gpus->config.workers; w++)
        dl_collective_arrive(bucket);
}

/* All buckets of a worker are ready. */
static void on_packed(void *user, int unused)
{
    (void)unused;
    dl_gpus *gpus = user;
    for (int b = 0; b < gpus->reduction.buckets; b++)
        gpus->reduction.ready[b]++;
    try_next(gpus);
}

static void reduction_join(dl_gpus *gpus, int worker)
{
    dl_reduction *r = &gpus->reduction;
    dl_gpu_worker *w = &gpus->workers[worker];
    dl_team_change(gpus->team, dl_team_exchanger(gpus->team, worker), DL_STATE_ALLREDUCE);
    if (w->rounds < r->rounds) {
        leave_reduction(gpus, worker);
        return;
    }
    w->in_exchange = true;
    if (gpus->config.overlap) return;
    const dl_gpu_options *options = gpus->config.options;
    if (options->compress == DL_COMPRESS_NONE) {
        on_packed(gpus, worker);
    } else {
        touch(gpus, worker, dl_compress_traffic(options, gpus->config.content_bytes), on_packed);
    }
}

/* Transfers of all different buckets, which are kept at the same time. */
static int transfers_held(const dl_reduction *r)
{
    int sum = 0;
    for (int i = 0; i < r->collective_count; i++)
        sum += r->collectives[i].plan.transfer_count;
    return sum;
}

static dl_status init_bucket(dl_gpus *gpus, dl_collective *collective, double bytes, dl_error *err)
{
    const dl_gpu_options *options = gpus->config.options;
    const bool gathers = options->compress == DL_COMPRESS_TOPK;
    const double message = dl_compress_bytes(options, bytes);
    const dl_collective_config config = {
        .kind = gathers ? DL_ALLGATHER : DL_ALLREDUCE,
        .algorithm = options->algorithm,
        .fidelity = options->fidelity,
        .ranks = gpus->places,
        .rank_count = gpus->config.workers,
        .bytes = gathers ? gpus->config.workers * message : message,
        .chunk_bytes = DL_CHUNK_BYTES,
        .message_ns = options->message_ns,
        .measured = gpus->config.workload->collectives,
        .measured_count = gpus->config.workload->collective_count,
        .transfers_max = DL_TRANSFERS_HELD_MAX - transfers_held(&gpus->reduction),
    };
    dl_status status =
        dl_collective_init(collective, &gpus->network, &options->links, &config, err);
    if (status == DL_OK) dl_collective_on_done(collective, on_bucket_done, gpus, 0);
    return status;
}

/* The share of the backward pass after which `bytes` of all bytes are ready: on the lines between
 * the points of [gradients], or of one line to its end. */
static double ready_share(const dl_gpus *gpus, double bytes)
{
    const dl_workload *w = gpus->config.workload;
    const double all = gpus->config.content_bytes;
    dl_gradients_ready low = {0}, high = {.share = 1, .bytes = all};
    for (size_t i = 0; i < w->gradient_count; i++) {
        high = w->gradients[i];
        high.bytes *= all / w->gradients[w->gradient_count - 1].bytes;
        if (high.bytes >= bytes || i + 1 == w->gradient_count) break;
        low = high;
    }
    if (high.bytes <= low.bytes) return high.share;
    return low.share +
           (high.share - low.share) * fmin(1, (bytes - low.bytes) / (high.bytes - low.bytes));
}

static bool has_own_buckets(const dl_gpus *gpus)
{
    return gpus->config.options->own_buckets && gpus->config.workload->gradient_count > 0;
}

/* Bytes of all buckets up to this one. */
static double end_of_bucket(const dl_gpus *gpus, int bucket)
{
    const dl_workload *w = gpus->config.workload;
    const double all = gpus->config.content_bytes;
    if (has_own_buckets(gpus)) {
        return all * w->gradients[bucket].bytes / w->gradients[w->gradient_count - 1].bytes;
    }
    const double each = (double)gpus->config.options->bucket_bytes;
    return bucket == gpus->reduction.buckets - 1 ? all : (bucket + 1) * each;
}

/* Whether all exchanges of the run are simulated in a time that somebody waits for. */
static dl_status check_run(const dl_gpus *gpus, dl_error *err)
{
    const dl_reduction *r = &gpus->reduction;
    double transfers = 0;
    for (int b = 0; b < r->buckets; b++) {
        const dl_collective *collective = &r->collectives[r->collective[b]];
        if (!collective->measured) transfers += collective->plan.transfer_count;
    }
    return dl_collective_check_run(gpus->config.options->fidelity, transfers,
                                   gpus->config.exchanges, err);
}

static dl_status count_buckets(dl_gpus *gpus, dl_error *err)
{
    const double all = gpus->config.content_bytes;
    const double each = (double)gpus->config.options->bucket_bytes;
    if (each > 0 && all > each * MAX_BUCKETS) {
        return dl_error_set(err, DL_ERR_RANGE,
                            "[exchange] bucket_bytes = %.0f: %.4g bytes make more than %d buckets",
                            each, all, MAX_BUCKETS);
    }
    gpus->reduction.buckets = each > 0 && all > each ? (int)ceil(all / each) : 1;
    if (has_own_buckets(gpus)) gpus->reduction.buckets = (int)gpus->config.workload->gradient_count;
    return DL_OK;
}

/* The collective of a bucket: an earlier one of its size, or a new one. `sizes` has as many. */
static dl_status add_bucket(dl_gpus *gpus, int bucket, double bytes, double *sizes, dl_error *err)
{
    dl_reduction *r = &gpus->reduction;
    int i = r->collective_count - 1;
    while (i >= 0 && sizes[i] != bytes) /* exactly: all but the last bucket are alike */
        i--;
    if (i < 0) {
        i = r->collective_count;
        dl_status status = init_bucket(gpus, &r->collectives[i], bytes, err);
        if (status != DL_OK) return status;
        sizes[i] = bytes;
        r->collective_count++;
    }
    r->collective[bucket] = i;
    r->moved_bytes += dl_collective_sent_bytes(&r->collectives[i]);
    return DL_OK;
}

/* --- a server bucket by bucket -------------------------------------------------------------- */

static void try_pull(dl_gpus *gpus, int worker);
static void try_push(dl_gpus *gpus, int worker);

static int bucket_of(const dl_gpus *gpus, int64_t count)
{
    return (int)(count % gpus->reduction.buckets);
}

static double bucket_bytes(const dl_gpus *gpus, int64_t count)
{
    return gpus->reduction.bytes_share[bucket_of(gpus, count)] * gpus->config.content_bytes;
}

static void leave_streams(dl_gpus *gpus, int worker)
{
    gpus->workers[worker].rounds++;
    exchanged(gpus, worker);
}

static void on_pulled(void *user, int worker)
{
    dl_gpus *gpus = user;
    dl_streams *s = &gpus->streams;
    if (--s->workers[worker].down > 0) return;
    if (bucket_of(gpus, ++s->workers[worker].pulled) != 0) {
        try_pull(gpus, worker);
    } else if (gpus->workers[worker].in_exchange) {
        gpus->workers[worker].in_exchange = false;
        leave_streams(gpus, worker);
    }
}

/* The next bucket's parameters, to the worker, if they are there and its way is free. */
static void try_pull(dl_gpus *gpus, int worker)
{
    dl_stream *stream = &gpus->streams.workers[worker];
    if (stream->down > 0 || stream->pulled == gpus->streams.summed) return;
    const double bytes = bucket_bytes(gpus, stream->pulled) / gpus->config.options->shards;
    stream->down = start_copies(gpus, worker, bytes, false, on_pulled);
}

static void try_sum(dl_gpus *gpus);

static void on_summed(void *user, int unused)
{
    (void)unused;
    dl_gpus *gpus = user;
    if (--gpus->streams.summing > 0) return;
    gpus->streams.summed++;
    for (int w = 0; w < gpus->config.workers; w++)
        try_pull(gpus, w);
    try_sum(gpus);
}

/* The server's threads sum the next bucket if all workers have pushed it and they are free. */
static void try_sum(dl_gpus *gpus)
{
    dl_streams *s = &gpus->streams;
    int *pushed = &gpus->reduction.ready[bucket_of(gpus, s->summed)];
    if (s->summing > 0 || *pushed < gpus->config.workers) return;
    *pushed = 0;
    const int shards = gpus->config.options->shards;
    const bool on_host = gpus->servers[0].kind == DL_PLACE_HOST;
    const int threads = on_host ? gpus->config.server_threads : 1;
    const double latency_ns = on_host ? gpus->config.workload->update.latency_ns : 0;
    const double traffic =
        serving_traffic(gpus, DL_SERVING_SUM, 0) * bucket_bytes(gpus, s->summed) / threads / shards;
    s->summing = threads * shards;
    for (int i = 0; i < threads * shards; i++) {
        const int class = gpus->serving_class[DL_SERVING_SUM * gpus->serving_threads * shards + i];
        dl_network_start(&gpus->network, class, traffic,
                         latency_ns > 0 ? dl_ns_ceil(latency_ns) : 0, on_summed, gpus, 0);
    }
}

static void on_pushed(void *user, int worker)
{
    dl_gpus *gpus = user;
    dl_stream *stream = &gpus->streams.workers[worker];
    if (--stream->up > 0) return;
    gpus->reduction.ready[bucket_of(gpus, stream->pushed++)]++;
    try_sum(gpus);
    try_push(gpus, worker);
}

static void try_push(dl_gpus *gpus, int worker)
{
    const dl_gpu_options *options = gpus->config.options;
    dl_stream *stream = &gpus->streams.workers[worker];
    if (stream->up > 0 || stream->pushed == stream->ready) return;
    const double bytes =
        dl_compress_bytes(options, bucket_bytes(gpus, stream->pushed) / options->shards);
    stream->up = start_copies(gpus, worker, bytes, true, on_pushed);
}

static void streams_join(dl_gpus *gpus, int worker)
{
    const int64_t wanted = (gpus->workers[worker].rounds + 1) * gpus->reduction.buckets;
    if (gpus->streams.workers[worker].pulled == wanted) {
        leave_streams(gpus, worker);
    } else {
        gpus->workers[worker].in_exchange = true;
    }
}

/* --- what the platform asks for ------------------------------------------------------------- */

static void push_now(void *user, int worker)
{
    dl_gpus *gpus = user;
    const dl_gpu_options *options = gpus->config.options;
    double bytes = content_bytes(gpus, gpus->workers[worker].content) / options->shards;
    gpus->workers[worker].flows =
        start_copies(gpus, worker, dl_compress_bytes(options, bytes), true, on_flow_done);
}

void dl_gpus_push(dl_team *team, int agent, dl_content content)
{
    dl_gpus *gpus = dl_gpus_of(team);
    const int worker = dl_team_worker(team, agent);
    const dl_gpu_options *options = gpus->config.options;
    gpus->workers[worker].content = content;
    if (is_collective(gpus)) {
        exchanged(gpus, worker);
    } else if (dl_gpus_stream(gpus)) {
        streams_join(gpus, worker);
    } else if (options->compress != DL_COMPRESS_NONE) {
        touch(gpus, worker, dl_compress_traffic(options, content_bytes(gpus, content)), push_now);
    } else {
        push_now(gpus, worker);
    }
}

void dl_gpus_pull(dl_team *team, int agent, dl_content content)
{
    dl_gpus *gpus = dl_gpus_of(team);
    const int worker = dl_team_worker(team, agent);
    if (is_collective(gpus) || dl_gpus_stream(gpus)) {
        exchanged(gpus, worker);
    } else {
        const double bytes = content_bytes(gpus, content) / gpus->config.options->shards;
        gpus->workers[worker].flows = start_copies(gpus, worker, bytes, false, on_flow_done);
    }
}

/* Starts a piece of serving: slice `index` of every shard, `bytes` of them in all. */
static void start_serving(dl_gpus *gpus, int worker, dl_serving_kind kind, int index, double bytes,
                          int64_t vectors, double latency_ns)
{
    const int shards = gpus->config.options->shards;
    const bool on_host = gpus->servers[0].kind == DL_PLACE_HOST;
    const int64_t delay_ns = on_host && latency_ns > 0 ? dl_ns_ceil(latency_ns) : 0;
    const double traffic = serving_traffic(gpus, kind, vectors) * bytes;
    const int *classes = gpus->serving_class + ((int)kind * gpus->serving_threads + index) * shards;
    gpus->workers[worker].flows += shards;
    for (int s = 0; s < shards; s++) {
        dl_network_start(&gpus->network, classes[s], traffic / shards, delay_ns, on_flow_done, gpus,
                         worker);
    }
}

/* The same by all of the server's threads, of which each worker starts its share; a GPU does it all
 * at once. */
static void serve_slices(dl_gpus *gpus, int worker, dl_serving_kind kind, double bytes,
                         double latency_ns)
{
    const bool on_gpu = gpus->servers[0].kind == DL_PLACE_GPU;
    const int threads = on_gpu ? 1 : gpus->config.server_threads;
    if (worker >= threads) {
        exchanged(gpus, worker);
        return;
    }
    for (int t = worker; t < threads; t += gpus->config.workers)
        start_serving(gpus, worker, kind, t, bytes / threads, 0, latency_ns);
}

void dl_gpus_average(dl_team *team, int agent, dl_content content, int parts)
{
    (void)parts; /* the server's threads are the host's, however many workers there are */
    dl_gpus *gpus = dl_gpus_of(team);
    const int worker = dl_team_worker(team, agent);
    if (is_collective(gpus)) {
        reduction_join(gpus, worker);
        return;
    }
    const int pieces = content == DL_CONTENT_PARAMETERS_AND_STATE ? 2 : 1;
    serve_slices(gpus, worker, DL_SERVING_AVERAGE, content_bytes(gpus, content),
                 pieces * gpus->config.workload->average.latency_ns);
}

void dl_gpus_serve_all(dl_team *team, int agent, int parts)
{
    (void)parts;
    dl_gpus *gpus = dl_gpus_of(team);
    const int worker = dl_team_worker(team, agent);
    if (dl_gpus_stream(gpus)) {
        exchanged(gpus, worker);
        return;
    }
    serve_slices(gpus, worker, DL_SERVING_SUM, content_bytes(gpus, DL_CONTENT_GRADIENTS),
                 gpus->config.workload->update.latency_ns);
}

/* More gradients than workers are charged at the rate of as many as workers. */
void dl_gpus_serve(dl_team *team, int agent, int64_t gradients)
{
    dl_gpus *gpus = dl_gpus_of(team);
    const int worker = dl_team_worker(team, agent);
    const int most = gpus->config.workers;
    const int index = (int)(gradients < most ? gradients : most) - 1;
    start_serving(gpus, worker, DL_SERVING_APPLY, index, content_bytes(gpus, DL_CONTENT_GRADIENTS),
                  gradients, gpus->config.workload->update.latency_ns);
}

void dl_gpus_blend(dl_team *team, int agent)
{
    dl_gpus *gpus = dl_gpus_of(team);
    const int worker = dl_team_worker(team, agent);
    start_serving(gpus, worker, DL_SERVING_BLEND, 0, content_bytes(gpus, DL_CONTENT_PARAMETERS), 0,
                  gpus->config.workload->average.latency_ns);
}

void dl_gpus_blend_own(dl_team *team, int agent)
{
    dl_gpus *gpus = dl_gpus_of(team);
    const int worker = dl_team_worker(team, agent);
    touch(gpus, worker,
          serving_traffic(gpus, DL_SERVING_BLEND, 0) * content_bytes(gpus, DL_CONTENT_PARAMETERS),
          on_own_memory_done);
}

/* Behind a collective, every GPU does it for itself. */
void dl_gpus_filter(dl_team *team, int agent, int parts)
{
    (void)parts;
    dl_gpus *gpus = dl_gpus_of(team);
    const int worker = dl_team_worker(team, agent);
    const double bytes = content_bytes(gpus, DL_CONTENT_PARAMETERS);
    if (is_collective(gpus)) {
        touch(gpus, worker, serving_traffic(gpus, DL_SERVING_FILTER, 0) * bytes,
              on_own_memory_done);
    } else {
        serve_slices(gpus, worker, DL_SERVING_FILTER, bytes,
                     2 * gpus->config.workload->average.latency_ns);
    }
}

void dl_gpus_bucket_ready(dl_gpus *gpus, int worker, int bucket)
{
    if (dl_gpus_stream(gpus)) {
        gpus->streams.workers[worker].ready++;
        try_push(gpus, worker);
    } else {
        gpus->reduction.ready[bucket]++;
        try_next(gpus);
    }
}

/* --- setting up ----------------------------------------------------------------------------- */

static dl_status reduction_init(dl_gpus *gpus, dl_error *err)
{
    dl_reduction *r = &gpus->reduction;
    dl_status status = count_buckets(gpus, err);
    if (status != DL_OK) return status;
    const size_t buckets = (size_t)r->buckets;
    const size_t different = has_own_buckets(gpus) || buckets < 2 ? buckets : 2;
    r->collectives = dl_calloc(different, sizeof *r->collectives, "buckets");
    r->collective = dl_calloc(buckets, sizeof *r->collective, "buckets");
    r->share = dl_calloc(buckets + 1, sizeof *r->share, "buckets");
    r->bytes_share = dl_calloc(buckets, sizeof *r->bytes_share, "buckets");
    r->ready = dl_calloc(buckets, sizeof *r->ready, "buckets");
    double *sizes = dl_calloc(different, sizeof *sizes, "buckets");
    const double all = gpus->config.content_bytes;
    const double each = (double)gpus->config.options->bucket_bytes;
    double before = 0, share_before = 0;
    for (int b = 0; b < r->buckets && status == DL_OK; b++) {
        const double end = end_of_bucket(gpus, b);
        const bool is_full = !has_own_buckets(gpus) && b < r->buckets - 1;
        const double bytes = is_full ? each : end - before;
        const double share = ready_share(gpus, end);
        r->share[b] = share - share_before;
        r->bytes_share[b] = all > 0 ? bytes / all : 1.0 / r->buckets;
        if (gpus->config.collective) status = add_bucket(gpus, b, bytes, sizes, err);
        before = end;
        share_before = share;
    }
    r->share[buckets] = fmax(0, 1 - share_before);
    free(sizes);
    if (status == DL_OK && gpus->config.collective) status = check_run(gpus, err);
    return status;
}

dl_status dl_gpus_exchange_init(dl_gpus *gpus, dl_error *err)
{
    const dl_gpus_config *config = &gpus->config;
    dl_status status = DL_OK;
    add_memories(gpus);
    if (!config->collective) add_servers(gpus);
    if (config->collective || config->overlap) status = reduction_init(gpus, err);
    if (status != DL_OK) return status;
    if (dl_gpus_stream(gpus)) {
        gpus->streams.workers =
            dl_calloc((size_t)config->workers, sizeof *gpus->streams.workers, "streams");
    }
    add_own_classes(gpus);
    return DL_OK;
}

void dl_gpus_exchange_free(dl_gpus *gpus)
{
    dl_reduction *r = &gpus->reduction;
    for (int i = 0; i < r->collective_count; i++)
        dl_collective_free(&r->collectives[i]);
    free(r->collectives);
    free(r->collective);
    free(r->share);
    free(r->bytes_share);
    free(r->ready);
    free(gpus->streams.workers);
    free(gpus->servers);
    free(gpus->push_class);
    free(gpus->pull_class);
    free(gpus->push_ns);
    free(gpus->pull_ns);
    free(gpus->serving_class);
    free(gpus->own_class);
    free(gpus->gpu_memory);
    free(gpus->own_names);
}

int dl_gpus_collective_flows(const dl_gpus *gpus)
{
    int most = 0;
    for (int i = 0; i < gpus->reduction.collective_count; i++) {
        const int flows = dl_collective_flows(&gpus->reduction.collectives[i]);
        if (flows > most) most = flows;
    }
    return most;
}
