/* Exchange between GPUs and a server: copies and sums as flows. */
#include "common/units.h"
#include "sim/platform/platform_gpu.h"

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

void dl_gpus_exchanged(dl_gpus *gpus, int worker)
{
    dl_team_done(gpus->team, dl_team_exchanger(gpus->team, worker));
}

static void on_flow_done(void *user, int worker)
{
    dl_gpus *gpus = user;
    if (--gpus->workers[worker].flows == 0) dl_gpus_exchanged(gpus, worker);
}

/* Copies of a content, in messages of `bytes` to or from each shard. */
static void copy(dl_gpus *gpus, int worker, double bytes, const int *classes,
                 const int64_t *latency_ns)
{
    const int shards = gpus->config.options->shards;
    gpus->workers[worker].flows = shards;
    gpus->moved_bytes += bytes * dl_gpus_remote_shards(gpus, worker);
    for (int i = worker * shards; i < (worker + 1) * shards; i++) {
        dl_network_start(&gpus->network, classes[i], bytes, latency_ns[i], on_flow_done, gpus,
                         worker);
    }
}

static void push_now(void *user, int worker)
{
    dl_gpus *gpus = user;
    const dl_gpu_options *options = gpus->config.options;
    double bytes = content_bytes(gpus, gpus->workers[worker].content) / options->shards;
    copy(gpus, worker, dl_compress_bytes(options, bytes), gpus->push_class, gpus->push_ns);
}

void dl_gpus_push(dl_team *team, int agent, dl_content content)
{
    dl_gpus *gpus = dl_gpus_of(team);
    const int worker = dl_team_worker(team, agent);
    const dl_gpu_options *options = gpus->config.options;
    gpus->workers[worker].content = content;
    if (is_collective(gpus)) {
        dl_gpus_exchanged(gpus, worker);
    } else if (dl_gpus_stream(gpus)) {
        dl_streams_join(gpus, worker);
    } else if (options->compress != DL_COMPRESS_NONE) {
        dl_gpus_touch(gpus, worker, dl_compress_traffic(options, content_bytes(gpus, content)),
                      push_now);
    } else {
        push_now(gpus, worker);
    }
}

void dl_gpus_pull(dl_team *team, int agent, dl_content content)
{
    dl_gpus *gpus = dl_gpus_of(team);
    const int worker = dl_team_worker(team, agent);
    if (is_collective(gpus) || dl_gpus_stream(gpus)) {
        dl_gpus_exchanged(gpus, worker);
    } else {
        copy(gpus, worker, content_bytes(gpus, content) / gpus->config.options->shards,
             gpus->pull_class, gpus->pull_ns);
    }
}

void dl_gpus_touch(dl_gpus *gpus, int worker, double traffic_bytes, dl_event_fn done)
{
    dl_network_start(&gpus->network, gpus->own_class[worker], traffic_bytes, 0, done, gpus, worker);
}

/* Starts a piece of serving: slice `index` of every shard, `bytes` of them in all. */
static void start_serving(dl_gpus *gpus, int worker, dl_serving_kind kind, int index, double bytes,
                          int64_t vectors, double latency_ns)
{
    const int shards = gpus->config.options->shards;
    const bool on_host = gpus->servers[0].kind == DL_PLACE_HOST;
    const int64_t delay_ns = on_host && latency_ns > 0 ? dl_ns_ceil(latency_ns) : 0;
    const double traffic = dl_gpus_serving_traffic(gpus, kind, vectors) * bytes;
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
        dl_gpus_exchanged(gpus, worker);
        return;
    }
    for (int t = worker; t < threads; t += gpus->config.workers)
        start_serving(gpus, worker, kind, t, bytes / threads, 0, latency_ns);
}

static void on_touched(void *user, int worker)
{
    dl_gpus *gpus = user;
    dl_gpus_exchanged(gpus, worker);
}

void dl_gpus_average(dl_team *team, int agent, dl_content content, int parts)
{
    (void)parts; /* the server's threads are the host's, however many workers there are */
    dl_gpus *gpus = dl_gpus_of(team);
    const int worker = dl_team_worker(team, agent);
    if (is_collective(gpus)) {
        dl_reduction_join(gpus, worker);
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
        dl_gpus_exchanged(gpus, worker);
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
    dl_gpus_touch(gpus, worker,
                  dl_gpus_serving_traffic(gpus, DL_SERVING_BLEND, 0) *
                      content_bytes(gpus, DL_CONTENT_PARAMETERS),
                  on_touched);
}

/* Behind a collective, every GPU does it for itself. */
void dl_gpus_filter(dl_team *team, int agent, int parts)
{
    (void)parts;
    dl_gpus *gpus = dl_gpus_of(team);
    const int worker = dl_team_worker(team, agent);
    const double bytes = content_bytes(gpus, DL_CONTENT_PARAMETERS);
    if (is_collective(gpus)) {
        dl_gpus_touch(gpus, worker, dl_gpus_serving_traffic(gpus, DL_SERVING_FILTER, 0) * bytes,
                      on_touched);
    } else {
        serve_slices(gpus, worker, DL_SERVING_FILTER, bytes,
                     2 * gpus->config.workload->average.latency_ns);
    }
}
