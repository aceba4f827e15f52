/* Exchange between GPUs and servers as flows. */
#include "sim/platform/gpu_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "common/units.h"
#include "sim/sync/members.h"

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

static void on_flow_done(void *user, int worker)
{
    dl_gpus *gpus = user;
    if (--gpus->workers[worker].flows == 0) dl_gpus_exchanged(gpus, worker);
}

/* A shard's part of `bytes`. */
static double shard_part(const dl_gpus *gpus, int shard, double bytes)
{
    const dl_gpu_options *options = gpus->config.options;
    return options->tensors == DL_TENSORS_SPLIT ? bytes / options->shards
                                                : bytes * gpus->shard_share[shard];
}

/* Starts copies of `bytes` between the worker and all shards that hold data; returns their number.
 * Pushed data are sent compressed. */
static int start_copies(dl_gpus *gpus, int worker, double bytes, bool push, dl_event_fn done)
{
    const dl_gpu_options *options = gpus->config.options;
    const int shards = options->shards;
    const dl_gpu_copy *copies = push ? dl_gpus_pushes(gpus, worker) : dl_gpus_pulls(gpus, worker);
    const int64_t launched =
        options->in_turn ? dl_ns_ceil(dl_gpus_launched_ns(gpus, worker, gpus->places[worker])) : 0;
    int count = 0;
    *(push ? &gpus->workers[worker].pushes : &gpus->workers[worker].pulls) += 1;
    for (int s = 0; s < shards; s++) {
        const double part = shard_part(gpus, s, bytes);
        const double message = push ? dl_compress_bytes(&gpus->config.plan.message, part) : part;
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

static void on_served(void *user, int number)
{
    dl_gpus *gpus = user;
    const int shards = gpus->config.options->shards;
    dl_gpus_hold_server(gpus, number % shards, -1);
    on_flow_done(gpus, number / shards);
}

/* Starts serving slice `index`, of `bytes` over all shards, on every shard that holds data; returns
 * the number of flows. */
static int start_serving(dl_gpus *gpus, int worker, const dl_exchange *exchange, int index,
                         double bytes)
{
    const int shards = gpus->config.options->shards;
    int count = 0;
    for (int s = 0; s < shards; s++) {
        if (gpus->shard_share[s] <= 0) continue;
        dl_gpus_serve(gpus, exchange, s, index, shard_part(gpus, s, bytes), on_served,
                      worker * shards + s);
        count++;
    }
    return count;
}

/* Starts the slices that fall to this worker, every n-th one for n present workers; `bytes` is the
 * size of the whole exchange. */
static void serve_slices(dl_gpus *gpus, int worker, const dl_exchange *exchange, double bytes)
{
    const int slices = dl_gpus_serving_slices(gpus), rank = dl_members_rank(gpus->team, worker);
    for (int t = rank; t < slices; t += dl_gpus_present(gpus)) {
        gpus->workers[worker].flows += start_serving(gpus, worker, exchange, t, bytes / slices);
    }
    if (rank >= slices) dl_gpus_exchanged(gpus, worker);
}

/* --- the platform's requests ------------------------------------------------------------------ */

static void push_messages(void *user, int worker)
{
    dl_gpus *gpus = user;
    gpus->workers[worker].flows =
        start_copies(gpus, worker, gpus->workers[worker].push_bytes, true, on_flow_done);
}

static void push(dl_gpus *gpus, int worker, double bytes)
{
    if (gpus->config.plan.is_collective) {
        dl_gpus_exchanged(gpus, worker);
    } else if (gpus->server != NULL) {
        dl_server_push(gpus, worker);
    } else {
        gpus->workers[worker].push_bytes = bytes;
        dl_gpus_pack(gpus, worker, bytes, push_messages);
    }
}

static void pull(dl_gpus *gpus, int worker, double bytes)
{
    if (gpus->config.plan.is_collective) {
        dl_gpus_exchanged(gpus, worker);
    } else if (gpus->server != NULL) {
        dl_server_pull(gpus, worker);
    } else {
        gpus->workers[worker].flows = start_copies(gpus, worker, bytes, false, on_flow_done);
    }
}

/* Fetches parameters from the server or, with collectives, from the GPU of the first worker that
 * takes part in averages. */
static void fetch(dl_gpus *gpus, int worker, double bytes)
{
    int source = 0;
    while (!dl_members_has(gpus->team, source))
        source++;
    gpus->workers[worker].fetches = true;
    if (!gpus->config.plan.is_collective) {
        pull(gpus, worker, bytes);
        return;
    }
    const dl_gpu_copy copy = dl_gpus_copy_of(gpus, gpus->places[source], gpus->places[worker], -1);
    gpus->moved_bytes += bytes;
    if (copy.domain >= 0) gpus->sent_bytes[copy.domain] += bytes;
    dl_network_start(gpus->network, copy.class, bytes, copy.latency_ns, dl_gpus_exchanged, gpus,
                     worker);
}

/* The server uses the host's threads, regardless of exchange.slices. Applying more gradients than
 * workers costs the same as one per worker. After a collective, every GPU does the outer update
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
        if (gpus->config.plan.is_collective) {
            dl_reduction_join(gpus, worker);
            return;
        }
        break;
    case DL_REDUCE_INSIDE: dl_reduction_inside(gpus, worker); return;
    case DL_GATHER: dl_reduction_gather(gpus, worker); return;
    case DL_SUM:
        if (gpus->server != NULL) {
            dl_gpus_exchanged(gpus, worker);
            return;
        }
        break;
    case DL_OUTER_UPDATE:
        if (gpus->config.plan.is_collective) {
            dl_gpus_serve_itself(gpus, worker, exchange.kind, bytes, dl_gpus_exchanged);
            return;
        }
        break;
    case DL_BLEND_OWN:
        dl_gpus_serve_itself(gpus, worker, exchange.kind, bytes, dl_gpus_exchanged);
        return;
    case DL_ADD:
    case DL_UPDATE:
    case DL_APPLY:
    case DL_BLEND:
        if (exchange.kind == DL_APPLY && gpus->server != NULL) {
            dl_gpus_exchanged(gpus, worker);
            return;
        }
        if (exchange.kind == DL_APPLY) {
            index = (int)(exchange.gradients < most ? exchange.gradients : most) - 1;
        }
        gpus->workers[worker].flows += start_serving(gpus, worker, &exchange, index, bytes);
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

/* Whether the first shard and some worker are on different nodes. */
static bool serves_other_nodes(const dl_gpus *gpus)
{
    bool serves = false;
    for (int w = 0; w < gpus->config.workers; w++)
        serves |= gpus->places[w].node != gpus->servers[0].node;
    return serves;
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
    const bool serves =
        !config->plan.is_collective && config->team->exchanges != DL_EXCHANGES_NOTHING;
    if (serves && (config->options->where == DL_WHERE_GPU ||
                   (config->options->staged_stops && dl_gpus_serve_gradients(gpus))))
        make_held(gpus, gpu_count);
    gpus->senders = config->workers;
    dl_status status = dl_reduction_init(gpus, err);
    if (status != DL_OK || !serves) return status;
    gpus->servers = dl_calloc((size_t)config->options->shards, sizeof *gpus->servers, "shards");
    for (int s = 0; s < config->options->shards; s++)
        gpus->servers[s] = dl_gpu_options_server(config->options, s);
    if (config->options->server_bytes_per_s.known || serves_other_nodes(gpus))
        gpus->processes = dl_calloc((size_t)config->options->shards, sizeof(int), "processes");
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
    free(gpus->processes);
    free(gpus->copies);
    free(gpus->serving_class);
    free(gpus->memory_class);
    free(gpus->sent_bytes);
    free(gpus->own_links);
}
