/* Exchange between GPUs and servers as flows: what copies and sums go over. */
#include "sim/platform/gpu_internal.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/units.h"
#include "sim/sync/members.h"

/* --- links and classes of flows ------------------------------------------------------------- */

int dl_gpus_add_own_link(dl_gpus *gpus, double bytes_per_s, const char *format, ...)
{
    if (!isfinite(bytes_per_s)) return -1;
    const size_t i = (size_t)gpus->own_links++;
    gpus->own_names = dl_grow(gpus->own_names, i, sizeof *gpus->own_names, "link names");
    va_list args;
    va_start(args, format);
    vsnprintf(gpus->own_names[i], sizeof gpus->own_names[i], format, args);
    va_end(args);
    return dl_network_add_link(gpus->network, bytes_per_s);
}

static void add_to_route(dl_route *route, int link)
{
    if (link < 0) return;
    route->links[route->count] = link;
    route->uses[route->count++] = 1;
}

static int memory_link(const dl_links *links, dl_place host)
{
    return host.node * links->per_node + dl_links_node(links, host.node)->memory[host.index];
}

/* What a server does with a byte of its slice: reads and writes, at a cost. An optimizer that
 * passes over its vectors after the sum adds its own ([update] optimizer_reads, optimizer_writes);
 * so does an outer one, which else makes the difference and the momentum in one pass and the
 * parameters in another. */
typedef struct serving {
    const char *name;
    const dl_byte_cost *cost;
    int reads, writes;
} serving;

bool dl_gpus_reduce_gradients(const dl_gpus *gpus)
{
    return gpus->config.exchange == DL_EXCHANGES_GRADIENTS && gpus->config.collective;
}

bool dl_gpus_serve_gradients(const dl_gpus *gpus)
{
    return gpus->config.exchange == DL_EXCHANGES_GRADIENTS && !gpus->config.collective &&
           !gpus->config.lags;
}

int dl_gpus_present(const dl_gpus *gpus)
{
    return gpus->team != NULL ? gpus->team->present : gpus->config.workers;
}

static serving serving_of(const dl_gpus *gpus, dl_exchange_kind kind, int64_t gradients)
{
    const dl_workload *w = gpus->config.workload;
    const int workers = dl_gpus_present(gpus);
    const int reads = w->optimizer_reads, writes = w->optimizer_writes;
    switch (kind) {
    case DL_AVERAGE: return (serving){"averaging thread", &w->average, workers, 1};
    case DL_SUM: return (serving){"update thread", &w->update, gpus->senders + reads, 1 + writes};
    case DL_OUTER_UPDATE:
        return (serving){"filter thread", &w->average, reads > 0 ? reads : 3 + 2,
                         writes > 0 ? writes : 1 + 1};
    case DL_APPLY:
        return (serving){"update of gradients", &w->update, (int)gradients + reads, 1 + writes};
    case DL_ADD: return (serving){"adding thread", &w->update, gradients > 0 ? 2 : 1, 1};
    case DL_UPDATE:
        return (serving){"update of a sum", &w->update, reads > 0 ? reads : 1,
                         writes > 0 ? writes : 1};
    case DL_BLEND:
    case DL_BLEND_OWN:
    case DL_PUSH:
    case DL_REDUCE_INSIDE:
    case DL_GATHER:
    case DL_FETCH:
    case DL_PULL: break;
    }
    return (serving){"blending thread", &w->average, 2, 1};
}

/* Bytes read and written a second by a thread that has no other limit. */
static double thread_rate(const serving *s)
{
    double ns = s->reads * s->cost->read_ns_per_byte + s->writes * s->cost->write_ns_per_byte;
    return ns > 0 ? (s->reads + s->writes) / ns * 1e9 : (double)INFINITY;
}

/* Of flows over two links; -1 = none. */
static int class_over(dl_gpus *gpus, int first, int second)
{
    dl_route route = {0};
    add_to_route(&route, first);
    add_to_route(&route, second);
    return dl_network_route_class(gpus->network, &route);
}

/* Of flows over the memory of a GPU, which is a separate link: made when it is asked for first, as
 * most runs never do. */
static int memory_class(dl_gpus *gpus, dl_place gpu)
{
    const dl_machine *m = &gpus->config.options->machine;
    int *number = &gpus->memory_class[dl_place_gpu_number(m, gpu)];
    if (*number > 0) return *number - 1;
    const double rate = dl_machine_model(m, gpu.node, gpu.index)->memory_bytes_per_s.value;
    const int link =
        dl_gpus_add_own_link(gpus, rate, "memory of node%d gpu%d", gpu.node, gpu.index);
    *number = class_over(gpus, link, -1) + 1;
    return *number - 1;
}

/* Of what a thread of a server in host memory goes over: the memory and, in place of a cap, a link
 * of its own; or the memory of the server's GPU. Made when it is asked for first, too. */
static int serving_class(dl_gpus *gpus, dl_exchange_kind kind, int index, int shard)
{
    const int shards = gpus->config.options->shards;
    int *number =
        &gpus->serving_class[((int)kind * gpus->serving_threads + index) * shards + shard];
    const dl_place place = gpus->servers[shard];
    if (place.kind == DL_PLACE_GPU) return memory_class(gpus, place);
    if (*number > 0) return *number - 1;
    const serving s = serving_of(gpus, kind, index + 1);
    const int cap =
        dl_gpus_add_own_link(gpus, thread_rate(&s), "%s %d of shard %d", s.name, index, shard);
    *number = class_over(gpus, memory_link(&gpus->config.options->links, place), cap) + 1;
    return *number - 1;
}

void dl_gpus_add_storage(dl_gpus *gpus)
{
    const dl_gpu_options *options = gpus->config.options;
    const dl_quantity *own = &options->storage_bytes_per_s;
    const dl_quantity *shared = &options->shared_storage_bytes_per_s;
    if (!own->known && !shared->known) return;
    gpus->storage = dl_calloc((size_t)options->machine.nodes, sizeof *gpus->storage, "storage");
    const int server =
        shared->known ? dl_gpus_add_own_link(gpus, shared->value, "shared storage") : -1;
    for (int n = 0; n < options->machine.nodes; n++) {
        const int link =
            own->known ? dl_gpus_add_own_link(gpus, own->value, "storage of node%d", n) : -1;
        gpus->storage[n] = class_over(gpus, link, server);
    }
}

/* What limits the copies that the driver makes through host memory from one GPU; -1: nothing. */
static int driver_link(dl_gpus *gpus, dl_place gpu)
{
    const dl_machine *m = &gpus->config.options->machine;
    const dl_quantity *rate = &dl_machine_node(m, gpu.node)->staged_bytes_per_s;
    if (!rate->known) return -1;
    int *number = &gpus->staging[dl_place_gpu_number(m, gpu)];
    if (*number == 0) {
        const int link = dl_gpus_add_own_link(gpus, rate->value, "staged copies of node%d gpu%d",
                                              gpu.node, gpu.index);
        *number = link + 1;
    }
    return *number - 1;
}

/* What one operation of an exchange on a GPU takes beside itself where a worker's thread launches
 * it and waits for its end, in turn: the launch, and what the thread is late by, as at the end of a
 * step; longer beside workers (other than `worker`; -1: any) that compute there, as their own
 * operations are. */
static double launched_ns(const dl_gpus *gpus, int worker, dl_place gpu)
{
    const dl_workload *w = gpus->config.workload;
    if (!gpus->config.options->in_turn) return 0;
    return (w->launch_ns + w->dispatch_ns) * dl_gpus_slowed_by_others(gpus, worker, gpu);
}

/* A copy from place to place. With a staging link, a pageable one where one end is host memory: it
 * is made twice, by the host thread to or from pinned memory (a read and a write more), and by the
 * GPU. */
dl_gpu_copy dl_gpus_route(dl_gpus *gpus, dl_place from, dl_place to, int staging, dl_route *route)
{
    const dl_gpu_options *options = gpus->config.options;
    const dl_links *links = &options->links;
    const dl_place host = from.kind == DL_PLACE_HOST ? from : to;
    dl_links_route(links, from, to, route);
    const bool is_staged = route->staged && !route->leaves_node && host.kind == DL_PLACE_GPU;
    const bool holds = is_staged && gpus->held != NULL;
    if (is_staged) add_to_route(route, driver_link(gpus, from));
    if (staging >= 0 && host.kind == DL_PLACE_HOST) {
        const int memory = memory_link(links, host);
        for (int l = 0; l < route->count; l++) {
            if (route->links[l] == memory) route->uses[l] = (unsigned char)(route->uses[l] + 2);
        }
        add_to_route(route, staging);
    }
    const dl_machine *m = links->machine;
    const int domain = dl_machine_domain(m, from.node);
    const bool is_local =
        from.kind == to.kind && from.node == to.node && from.index == to.index && staging < 0;
    return (dl_gpu_copy){
        .class = -1,
        .latency_ns = dl_ns_ceil(route->latency_ns + options->message_ns),
        .holds = {holds ? dl_place_gpu_number(m, from) : -1,
                  holds ? dl_place_gpu_number(m, to) : -1},
        .domain = domain != dl_machine_domain(m, to.node) ? domain : -1,
        .is_remote = !is_local,
    };
}

dl_gpu_copy dl_gpus_copy_of(dl_gpus *gpus, dl_place from, dl_place to, int staging)
{
    dl_route route;
    dl_gpu_copy copy = dl_gpus_route(gpus, from, to, staging, &route);
    copy.class = dl_network_route_class(gpus->network, &route);
    return copy;
}

int dl_gpus_add_copy(dl_gpus *gpus, dl_gpu_copy copy)
{
    const size_t i = gpus->copy_count++;
    gpus->copies = dl_grow(gpus->copies, i, sizeof *gpus->copies, "copies");
    gpus->copies[i] = copy;
    return (int)i;
}

static void add_copies(dl_gpus *gpus, int worker)
{
    const dl_gpu_options *options = gpus->config.options;
    const dl_place gpu = gpus->places[worker];
    const double staging =
        options->pageable ? gpus->config.workload->pageable_bytes_per_s : (double)INFINITY;
    const int up = dl_gpus_add_own_link(gpus, staging, "pageable copies of worker %d up", worker);
    const int down =
        dl_gpus_add_own_link(gpus, staging, "pageable copies of worker %d down", worker);
    gpus->workers[worker].copies = (int)gpus->copy_count;
    for (int s = 0; s < options->shards; s++)
        dl_gpus_add_copy(gpus, dl_gpus_copy_of(gpus, gpu, gpus->servers[s], up));
    for (int s = 0; s < options->shards; s++)
        dl_gpus_add_copy(gpus, dl_gpus_copy_of(gpus, gpus->servers[s], gpu, down));
}

static void add_servers(dl_gpus *gpus)
{
    const int threads = gpus->serving_threads, shards = gpus->config.options->shards;
    gpus->serving_class =
        dl_calloc((size_t)DL_SERVER_EXCHANGES * (size_t)(threads * shards), sizeof(int), "servers");
    dl_gpu_crowds *crowds = dl_gpu_crowds_new(gpus);
    for (int w = 0; w < gpus->config.workers; w++) {
        const int copies = crowds != NULL ? dl_gpu_crowds_find(crowds, w) : -1;
        if (copies >= 0) {
            gpus->workers[w].copies = copies;
        } else {
            add_copies(gpus, w);
        }
    }
    dl_gpu_crowds_free(crowds);
}

/* --- copies and sums ------------------------------------------------------------------------ */

void dl_gpus_exchanged(dl_gpus *gpus, int worker)
{
    const bool fetched = gpus->workers[worker].fetches;
    gpus->workers[worker].fetches = false;
    dl_gpus_ended(gpus, fetched ? worker : dl_team_exchanger(gpus->team, worker));
}

void dl_gpus_ended(dl_gpus *gpus, int agent)
{
    if (gpus->config.exchanged != NULL) {
        gpus->config.exchanged(gpus->config.user, agent);
    } else {
        dl_team_done(gpus->team, agent);
    }
}

static void exchanged(void *user, int worker)
{
    dl_gpus_exchanged(user, worker);
}

void dl_gpus_touch(dl_gpus *gpus, int worker, double traffic_bytes, dl_event_fn done, int index)
{
    dl_network_start(gpus->network, memory_class(gpus, gpus->places[worker]), traffic_bytes, 0,
                     done, gpus, index);
}

static void touch(dl_gpus *gpus, int worker, double traffic_bytes, dl_event_fn done)
{
    dl_gpus_touch(gpus, worker, traffic_bytes, done, worker);
}

static void on_flow_done(void *user, int worker)
{
    dl_gpus *gpus = user;
    if (--gpus->workers[worker].flows == 0) exchanged(gpus, worker);
}

/* What one shard has of `bytes`. */
static double shard_part(const dl_gpus *gpus, int shard, double bytes)
{
    const dl_gpu_options *options = gpus->config.options;
    return options->tensors == DL_TENSORS_SPLIT ? bytes / options->shards
                                                : bytes * gpus->shard_share[shard];
}

/* Copies `bytes` between the worker and all shards; returns how many copies they are. Of what is
 * pushed, messages are made. */
static int start_copies(dl_gpus *gpus, int worker, double bytes, bool push, dl_event_fn done)
{
    const dl_gpu_options *options = gpus->config.options;
    const int shards = options->shards;
    const dl_gpu_copy *copies = push ? dl_gpus_pushes(gpus, worker) : dl_gpus_pulls(gpus, worker);
    const int64_t launched =
        options->in_turn ? dl_ns_ceil(launched_ns(gpus, worker, gpus->places[worker])) : 0;
    int count = 0;
    *(push ? &gpus->workers[worker].pushes : &gpus->workers[worker].pulls) += 1;
    for (int s = 0; s < shards; s++) {
        const double part = shard_part(gpus, s, bytes);
        const double message = push ? dl_compress_bytes(&options->compression, part) : part;
        if (gpus->shard_share[s] <= 0) continue; /* fewer tensors than shards */
        if (copies[s].is_crowd) gpus->crowd_bytes[push ? 0 : 1] = message;
        if (copies[s].is_remote) gpus->moved_bytes += message;
        if (copies[s].domain >= 0) gpus->sent_bytes[copies[s].domain] += message;
        dl_network_start(gpus->network, copies[s].class, message, copies[s].latency_ns + launched,
                         done, gpus, worker);
        count++;
    }
    return count;
}

void dl_gpus_serve(dl_gpus *gpus, const dl_exchange *exchange, int shard, int thread, double bytes,
                   dl_event_fn done, int index)
{
    const serving s = serving_of(gpus, exchange->kind, exchange->gradients);
    const int pieces = exchange->with_state || exchange->kind == DL_OUTER_UPDATE ? 2 : 1;
    const bool on_host = gpus->servers[0].kind == DL_PLACE_HOST;
    const double latency_ns =
        on_host ? pieces * s.cost->latency_ns : launched_ns(gpus, -1, gpus->servers[0]);
    const double traffic = (double)(s.reads + s.writes) * bytes;
    /* The first gradient is copied: a read and a write, at the rate of an update's. */
    const bool is_first = exchange->kind == DL_ADD && exchange->gradients == 0;
    const int class = serving_class(gpus, is_first ? DL_UPDATE : exchange->kind, thread, shard);
    dl_network_start(gpus->network, class, traffic, latency_ns > 0 ? dl_ns_ceil(latency_ns) : 0,
                     done, gpus, index);
}

/* Starts slice `index` of every shard, `bytes` of them in all, on the server; returns how many
 * flows these are. */
static int start_serving(dl_gpus *gpus, int worker, const dl_exchange *exchange, int index,
                         double bytes, dl_event_fn done)
{
    const int shards = gpus->config.options->shards;
    int count = 0;
    for (int s = 0; s < shards; s++) {
        if (gpus->shard_share[s] <= 0) continue;
        dl_gpus_serve(gpus, exchange, s, index, shard_part(gpus, s, bytes), done, worker);
        count++;
    }
    return count;
}

int dl_gpus_serving_slices(const dl_gpus *gpus)
{
    return gpus->servers[0].kind == DL_PLACE_GPU ? 1 : gpus->config.server_threads;
}

/* The server's part of an exchange of `bytes` in slices, of which each worker starts its share. */
static void serve_slices(dl_gpus *gpus, int worker, const dl_exchange *exchange, double bytes)
{
    const int slices = dl_gpus_serving_slices(gpus), rank = dl_members_rank(gpus->team, worker);
    for (int t = rank; t < slices; t += dl_gpus_present(gpus)) {
        gpus->workers[worker].flows +=
            start_serving(gpus, worker, exchange, t, bytes / slices, on_flow_done);
    }
    if (rank >= slices) exchanged(gpus, worker);
}

/* --- what the platform asks for ------------------------------------------------------------- */

static void push_bytes(dl_gpus *gpus, int worker, double bytes)
{
    gpus->workers[worker].flows = start_copies(gpus, worker, bytes, true, on_flow_done);
}

static void push_messages(void *user, int worker)
{
    dl_gpus *gpus = user;
    push_bytes(gpus, worker, gpus->workers[worker].push_bytes);
}

static void push(dl_gpus *gpus, int worker, double bytes)
{
    const dl_gpu_options *options = gpus->config.options;
    if (gpus->config.collective) {
        exchanged(gpus, worker);
    } else if (gpus->server != NULL) {
        dl_server_push(gpus, worker);
    } else if (options->compression.kind != DL_COMPRESS_NONE) {
        gpus->workers[worker].push_bytes = bytes;
        touch(gpus, worker, dl_compress_gpu_bytes(&options->compression, bytes), push_messages);
    } else {
        push_bytes(gpus, worker, bytes);
    }
}

static void pull(dl_gpus *gpus, int worker, double bytes)
{
    if (gpus->config.collective) {
        exchanged(gpus, worker);
    } else if (gpus->server != NULL) {
        dl_server_pull(gpus, worker);
    } else {
        gpus->workers[worker].flows = start_copies(gpus, worker, bytes, false, on_flow_done);
    }
}

/* From the server, or from the first GPU that has the parameters. */
static void fetch(dl_gpus *gpus, int worker, double bytes)
{
    int source = 0;
    while (!dl_members_has(gpus->team, source))
        source++;
    gpus->workers[worker].fetches = true;
    if (!gpus->config.collective) {
        pull(gpus, worker, bytes);
        return;
    }
    const dl_gpu_copy copy = dl_gpus_copy_of(gpus, gpus->places[source], gpus->places[worker], -1);
    gpus->moved_bytes += bytes;
    if (copy.domain >= 0) gpus->sent_bytes[copy.domain] += bytes;
    dl_network_start(gpus->network, copy.class, bytes, copy.latency_ns, exchanged, gpus, worker);
}

/* What a worker does in its own memory. */
static void serve_itself(dl_gpus *gpus, int worker, const dl_exchange *exchange, double bytes)
{
    const serving s = serving_of(gpus, exchange->kind, 0);
    touch(gpus, worker, (double)(s.reads + s.writes) * bytes, exchanged);
}

/* The server's threads are the host's, however many slices there are. More gradients than workers
 * cost what as many as workers do. After a collective, every GPU makes the outer update for
 * itself. */
void dl_gpus_exchange(dl_gpus *gpus, int agent, dl_exchange exchange)
{
    const int worker = dl_team_worker(gpus->team, agent), most = gpus->config.workers;
    const dl_workload *w = gpus->config.workload;
    const double bytes = w->parameter_bytes + (exchange.with_state ? w->state_bytes : 0);
    int index = 0;
    switch (exchange.kind) {
    case DL_PUSH: push(gpus, worker, bytes); return;
    case DL_FETCH: fetch(gpus, worker, bytes * gpus->team->config.fragments); return;
    case DL_PULL: pull(gpus, worker, bytes); return;
    case DL_AVERAGE:
        if (gpus->config.collective) {
            dl_reduction_join(gpus, worker);
            return;
        }
        break;
    case DL_REDUCE_INSIDE: dl_reduction_inside(gpus, worker); return;
    case DL_GATHER: dl_reduction_gather(gpus, worker); return;
    case DL_SUM:
        if (gpus->server != NULL) {
            exchanged(gpus, worker);
            return;
        }
        break;
    case DL_OUTER_UPDATE:
        if (gpus->config.collective) {
            serve_itself(gpus, worker, &exchange, bytes);
            return;
        }
        break;
    case DL_BLEND_OWN: serve_itself(gpus, worker, &exchange, bytes); return;
    case DL_ADD:
    case DL_UPDATE:
    case DL_APPLY:
    case DL_BLEND:
        if (exchange.kind == DL_APPLY) {
            index = (int)(exchange.gradients < most ? exchange.gradients : most) - 1;
        }
        gpus->workers[worker].flows +=
            start_serving(gpus, worker, &exchange, index, bytes, on_flow_done);
        return;
    }
    serve_slices(gpus, worker, &exchange, bytes);
}

void dl_gpus_bucket_ready(dl_gpus *gpus, int worker, int bucket)
{
    if (gpus->server != NULL) {
        dl_server_ready(gpus, worker, bucket);
    } else {
        dl_reduction_ready(gpus, bucket);
    }
}

/* --- setting up ----------------------------------------------------------------------------- */

static void make_held(dl_gpus *gpus, size_t gpu_count)
{
    gpus->held = dl_calloc(gpu_count, sizeof *gpus->held, "GPUs");
    for (size_t i = 0; i < gpu_count; i++)
        gpus->held[i].worker = -1;
    for (int w = 0; w < gpus->config.workers; w++)
        gpus->held[dl_gpus_number(gpus, w)].worker = w;
}

dl_status dl_gpus_exchange_init(dl_gpus *gpus, dl_error *err)
{
    const dl_gpus_config *config = &gpus->config;
    const dl_machine *m = &config->options->machine;
    const size_t gpu_count = (size_t)dl_machine_gpus(m);
    gpus->sent_bytes =
        dl_calloc((size_t)dl_machine_domains(m), sizeof *gpus->sent_bytes, "bytes of sites");
    gpus->memory_class = dl_calloc(gpu_count, sizeof(int), "memories of GPUs");
    gpus->staging = dl_calloc(gpu_count, sizeof(int), "GPUs");
    if (config->options->staged_stops && dl_gpus_serve_gradients(gpus)) make_held(gpus, gpu_count);
    gpus->senders = config->workers;
    dl_status status = dl_reduction_init(gpus, err);
    if (status != DL_OK || config->collective || config->exchange == DL_EXCHANGES_NOTHING)
        return status;
    gpus->servers = dl_calloc((size_t)config->options->shards, sizeof *gpus->servers, "shards");
    for (int s = 0; s < config->options->shards; s++)
        gpus->servers[s] = dl_gpu_options_server(config->options, s);
    status = dl_server_create(gpus, err);
    if (status == DL_OK) add_servers(gpus);
    return status;
}

void dl_gpus_exchange_free(dl_gpus *gpus)
{
    dl_reduction_free(gpus);
    dl_server_free(gpus);
    free(gpus->shard_share);
    free(gpus->servers);
    free(gpus->copies);
    free(gpus->serving_class);
    free(gpus->memory_class);
    free(gpus->sent_bytes);
    free(gpus->own_names);
}
