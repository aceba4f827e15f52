/* Resources of the exchange of GPUs and servers: links, flow classes, copies, serving threads and
 * memories. */
#include "sim/platform/gpu_internal.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "common/units.h"

double dl_gpus_slowed_by_others(const dl_gpus *gpus, int worker, dl_place gpu)
{
    if (!gpus->shared || gpu.kind != DL_PLACE_GPU) return 1;
    const int number = dl_place_gpu_number(&gpus->config.options->machine, gpu);
    const int most = gpus->config.workers;
    int others = gpus->computing[number];
    if (worker >= 0 && gpus->workers[worker].phase == DL_GPU_COMPUTES &&
        dl_gpus_number(gpus, worker) == number)
        others--;
    return 1 / gpus->share[others < most ? others + 1 : most];
}

/* --- links and classes of flows ------------------------------------------------------------- */

int dl_gpus_add_own_link(dl_gpus *gpus, double bytes_per_s, const char *format, ...)
{
    if (!isfinite(bytes_per_s)) return -1;
    dl_gpu_link *own = &DL_APPEND(gpus->own_links, gpus->own_link_count, "links");
    va_list args;
    va_start(args, format);
    vsnprintf(own->name, sizeof own->name, format, args);
    va_end(args);
    return own->number = dl_network_add_link(gpus->network, bytes_per_s);
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

/* Bytes that a server reads and writes per byte of its slice, and the cost of these bytes. */
typedef struct serving {
    const char *name;
    const dl_byte_cost *cost;
    double reads, writes;
} serving;

bool dl_gpus_reduce_gradients(const dl_gpus *gpus)
{
    return gpus->config.team->exchanges == DL_EXCHANGES_GRADIENTS &&
           gpus->config.plan.is_collective;
}

bool dl_gpus_serve_gradients(const dl_gpus *gpus)
{
    const dl_exchange_plan *plan = &gpus->config.plan;
    return (gpus->config.team->exchanges == DL_EXCHANGES_GRADIENTS || plan->each) &&
           !plan->is_collective;
}

int dl_gpus_present(const dl_gpus *gpus)
{
    return gpus->team != NULL ? gpus->team->present : gpus->config.workers;
}

/* A server makes the update instead of the workers. Returns the bytes, per byte of parameters, that
 * its GPU can read and write in the time of a worker's update; 0 if that time or the parameters'
 * size is unknown. */
static double own_update(const dl_gpus *gpus)
{
    const dl_workload *w = gpus->config.workload;
    const dl_place at = gpus->servers[0];
    const dl_gpu_model *model = dl_machine_model(&gpus->config.options->machine, at.node, at.index);
    return w->update_ns > 0 && w->parameter_bytes > 0
               ? w->update_ns * 1e-9 * model->memory_bytes_per_s.value / w->parameter_bytes
               : 0;
}

/* Reads and writes of an update with `gradients` gradients: one pass reads them and writes the
 * parameters. The optimizer's passes follow a sum; a single gradient needs no sum. */
static serving update_of(const dl_gpus *gpus, const char *name, int gradients)
{
    const dl_workload *w = gpus->config.workload;
    const bool as_worker = gpus->servers[0].kind == DL_PLACE_GPU && !w->passes_are_given;
    const double reads = as_worker ? own_update(gpus) : w->optimizer_reads;
    const double writes = as_worker ? 0 : w->optimizer_writes;
    const bool sums = gradients > 1 || reads + writes <= 0;
    return (serving){name, &w->update, (sums ? gradients : 0) + reads, (sums ? 1 : 0) + writes};
}

static serving serving_of(const dl_gpus *gpus, dl_exchange_kind kind, int64_t gradients)
{
    const dl_workload *w = gpus->config.workload;
    const int workers = dl_gpus_present(gpus);
    switch (kind) {
    case DL_AVERAGE: return (serving){"averaging thread", &w->average, workers, 1};
    case DL_SUM: return update_of(gpus, "update thread", gpus->senders);
    case DL_OUTER_UPDATE:
        return (serving){"filter thread", &w->average, w->outer_reads, w->outer_writes};
    case DL_APPLY: return update_of(gpus, "update of gradients", (int)gradients);
    case DL_ADD: return (serving){"adding thread", &w->update, gradients > 0 ? 2 : 1, 1};
    case DL_UPDATE: return update_of(gpus, "update of a sum", 1);
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

/* Bytes per second that an otherwise unlimited thread reads and writes. */
static double thread_rate(const serving *s)
{
    double ns = s->reads * s->cost->read_ns_per_byte + s->writes * s->cost->write_ns_per_byte;
    return ns > 0 ? (s->reads + s->writes) / ns * 1e9 : (double)INFINITY;
}

/* Class of flows over two links; -1: none. */
static int class_over(dl_gpus *gpus, int first, int second)
{
    dl_route route = {0};
    add_to_route(&route, first);
    add_to_route(&route, second);
    return dl_network_route_class(gpus->network, &route);
}

/* Class of flows over the memory of a GPU, a separate link that is created on first use, as most
 * runs never need it. */
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

/* Class of flows of a server's thread, created on first use: in host memory, over the memory and a
 * link with the thread's rate; on a GPU, over the GPU's memory. */
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

const int *dl_gpus_add_storage(dl_gpus *gpus)
{
    const dl_gpu_options *options = gpus->config.options;
    const dl_quantity *own = &options->storage_bytes_per_s;
    const dl_quantity *shared = &options->shared_storage_bytes_per_s;
    if (!own->known && !shared->known) return NULL;
    gpus->storage = dl_calloc((size_t)options->machine.nodes, sizeof *gpus->storage, "storage");
    const int server =
        shared->known ? dl_gpus_add_own_link(gpus, shared->value, "shared storage") : -1;
    for (int n = 0; n < options->machine.nodes; n++) {
        const int link =
            own->known ? dl_gpus_add_own_link(gpus, own->value, "storage of node%d", n) : -1;
        gpus->storage[n] = class_over(gpus, link, server);
    }
    return gpus->storage;
}

/* The link that limits the driver's copies through host memory from one GPU; -1: none. */
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

/* The link that limits the total traffic of the server's process on the host's node, which serves
 * all shards there; by the scenario's rate or otherwise the machine's; -1: none. */
static int process_link(dl_gpus *gpus, dl_place host)
{
    if (gpus->processes == NULL || host.kind != DL_PLACE_HOST) return -1;
    const dl_gpu_options *options = gpus->config.options;
    const dl_quantity *rate = &options->server_bytes_per_s;
    if (!rate->known) rate = &dl_machine_node(&options->machine, host.node)->server_bytes_per_s;
    if (!rate->known) return -1;
    int shard = 0;
    while (shard < options->shards && gpus->servers[shard].node != host.node)
        shard++;
    if (shard == options->shards) return -1;
    if (gpus->processes[shard] == 0) {
        gpus->processes[shard] =
            1 + dl_gpus_add_own_link(gpus, rate->value, "server's process on node%d", host.node);
    }
    return gpus->processes[shard] - 1;
}

double dl_gpus_launched_ns(const dl_gpus *gpus, int worker, dl_place gpu)
{
    const dl_workload *w = gpus->config.workload;
    if (!gpus->config.options->in_turn) return 0;
    return (w->launch_ns + w->dispatch_ns) * dl_gpus_slowed_by_others(gpus, worker, gpu);
}

/* With a staging link, a copy to or from host memory is pageable: the host thread copies to or from
 * pinned memory (one more read and write), and the GPU copies. */
dl_gpu_copy dl_gpus_route(dl_gpus *gpus, dl_place from, dl_place to, int staging, dl_route *route)
{
    const dl_gpu_options *options = gpus->config.options;
    const dl_links *links = &options->links;
    const dl_place host = from.kind == DL_PLACE_HOST ? from : to;
    dl_links_route(links, from, to, route);
    const bool is_staged = route->staged && !route->leaves_node && host.kind == DL_PLACE_GPU;
    const bool holds = is_staged && options->staged_stops && gpus->held != NULL;
    if (is_staged) add_to_route(route, driver_link(gpus, from));
    add_to_route(route, process_link(gpus, host));
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

/* --- copies and sums ------------------------------------------------------------------------ */

void dl_gpus_exchanged(void *user, int worker)
{
    dl_gpus *gpus = user;
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

void dl_gpus_touch(dl_gpus *gpus, int worker, double traffic_bytes, dl_event_fn done, int index)
{
    dl_network_start(gpus->network, memory_class(gpus, gpus->places[worker]), traffic_bytes, 0,
                     done, gpus, index);
}

void dl_gpus_pack(dl_gpus *gpus, int worker, double bytes, dl_event_fn done)
{
    const dl_exchange_plan *plan = &gpus->config.plan;
    if (plan->packs) {
        dl_gpus_touch(gpus, worker, dl_compress_gpu_bytes(&plan->message, bytes), done, worker);
    } else {
        done(gpus, worker);
    }
}

static void hold(dl_gpus *gpus, int gpu, int change)
{
    dl_gpu_held *held = &gpus->held[gpu];
    held->stops += change;
    if (gpus->config.stopped != NULL) {
        gpus->config.stopped(gpus->config.user, gpu, change);
    } else if (held->worker >= 0) {
        gpus->listener->speed_changed(gpus, held->worker);
    }
}

void dl_gpus_hold(dl_gpus *gpus, dl_gpu_copy copy, int change)
{
    for (int i = 0; i < 2; i++)
        if (copy.holds[i] >= 0) hold(gpus, copy.holds[i], change);
}

/* Whether the work of the shard stops the GPU that it is on. */
static bool holds_for_server(const dl_gpus *gpus, int shard)
{
    return gpus->held != NULL && !gpus->shared && gpus->servers[shard].kind == DL_PLACE_GPU;
}

void dl_gpus_hold_server(dl_gpus *gpus, int shard, int change)
{
    if (!holds_for_server(gpus, shard)) return;
    const int gpu = dl_place_gpu_number(&gpus->config.options->machine, gpus->servers[shard]);
    dl_gpu_held *held = &gpus->held[gpu];
    const int64_t now_ns = gpus->config.engine->now_ns;
    if (held->servers == 0) held->since_ns = now_ns;
    held->servers += change;
    if (held->servers == 0) held->served_ns += now_ns - held->since_ns;
    hold(gpus, gpu, change);
}

static void on_launched(void *user, int shard)
{
    dl_gpus_hold_server(user, shard, 1);
}

void dl_gpus_serve(dl_gpus *gpus, const dl_exchange *exchange, int shard, int thread, double bytes,
                   dl_event_fn done, int index)
{
    const serving s = serving_of(gpus, exchange->kind, exchange->gradients);
    const int pieces = exchange->with_state || exchange->kind == DL_OUTER_UPDATE ? 2 : 1;
    const bool on_host = gpus->servers[0].kind == DL_PLACE_HOST;
    const double latency_ns =
        on_host ? pieces * s.cost->latency_ns : dl_gpus_launched_ns(gpus, -1, gpus->servers[0]);
    const double traffic = (s.reads + s.writes) * bytes;
    /* The first gradient is copied, with one read and one write, at the rate of an update. */
    const bool is_first = exchange->kind == DL_ADD && exchange->gradients == 0;
    const int class = serving_class(gpus, is_first ? DL_UPDATE : exchange->kind, thread, shard);
    const int64_t delay_ns = latency_ns > 0 ? dl_ns_ceil(latency_ns) : 0;
    if (delay_ns > 0 && holds_for_server(gpus, shard)) {
        dl_engine_after(gpus->config.engine, delay_ns, on_launched, gpus, shard);
    } else {
        dl_gpus_hold_server(gpus, shard, 1);
    }
    dl_network_start(gpus->network, class, traffic, delay_ns, done, gpus, index);
}

void dl_gpus_serve_itself(dl_gpus *gpus, int worker, dl_exchange_kind kind, double bytes,
                          dl_event_fn done)
{
    const serving s = serving_of(gpus, kind, 0);
    dl_gpus_touch(gpus, worker, (s.reads + s.writes) * bytes, done, worker);
}

int dl_gpus_serving_slices(const dl_gpus *gpus)
{
    return gpus->servers[0].kind == DL_PLACE_GPU ? 1 : gpus->config.server_threads;
}
