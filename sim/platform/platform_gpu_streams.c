/* A parameter server that works bucket by bucket while the backward pass still runs: what
 * TensorFlow's graph and MXNet's engine do variable by variable. */
#include <stdlib.h>

#include "common/alloc.h"
#include "common/units.h"
#include "sim/platform/platform_gpu.h"

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

static void leave(dl_gpus *gpus, int worker)
{
    gpus->workers[worker].rounds++;
    dl_gpus_exchanged(gpus, worker);
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
        leave(gpus, worker);
    }
}

/* The next bucket's parameters, to the worker, if they are there and its way is free. */
static void try_pull(dl_gpus *gpus, int worker)
{
    dl_stream *stream = &gpus->streams.workers[worker];
    const int shards = gpus->config.options->shards;
    if (stream->down > 0 || stream->pulled == gpus->streams.summed) return;
    const double bytes = bucket_bytes(gpus, stream->pulled) / shards;
    stream->down = shards;
    gpus->moved_bytes += bytes * dl_gpus_remote_shards(gpus, worker);
    for (int i = worker * shards; i < (worker + 1) * shards; i++) {
        dl_network_start(&gpus->network, gpus->pull_class[i], bytes, gpus->pull_ns[i], on_pulled,
                         gpus, worker);
    }
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
    const double traffic = dl_gpus_serving_traffic(gpus, DL_SERVING_SUM, 0) *
                           bucket_bytes(gpus, s->summed) / threads / shards;
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
    stream->up = options->shards;
    gpus->moved_bytes += bytes * dl_gpus_remote_shards(gpus, worker);
    for (int i = worker * options->shards; i < (worker + 1) * options->shards; i++) {
        dl_network_start(&gpus->network, gpus->push_class[i], bytes, gpus->push_ns[i], on_pushed,
                         gpus, worker);
    }
}

void dl_streams_ready(dl_gpus *gpus, int worker)
{
    gpus->streams.workers[worker].ready++;
    try_push(gpus, worker);
}

void dl_streams_join(dl_gpus *gpus, int worker)
{
    const int64_t wanted = (gpus->workers[worker].rounds + 1) * gpus->reduction.buckets;
    if (gpus->streams.workers[worker].pulled == wanted) {
        leave(gpus, worker);
    } else {
        gpus->workers[worker].in_exchange = true;
    }
}

void dl_streams_init(dl_gpus *gpus)
{
    gpus->streams.workers =
        dl_calloc((size_t)gpus->config.workers, sizeof *gpus->streams.workers, "streams");
}

void dl_streams_free(dl_streams *streams)
{
    free(streams->workers);
    *streams = (dl_streams){0};
}
