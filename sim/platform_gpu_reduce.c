/* All-reduce of the workers' GPUs in buckets, one after another. A round ends when all buckets have
 * been reduced; nobody can be ready for the next one before. */
#include <math.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "sim/platform_gpu.h"

#define MAX_BUCKETS 65536 /* far more than a model has tensors */

static void try_next(dl_gpus *gpus);

static void on_unpacked(void *user, int worker)
{
    dl_gpus *gpus = user;
    dl_gpus_exchanged(gpus, worker);
}

/* The worker has the result, if need be after making vectors of the messages. */
static void leave(dl_gpus *gpus, int worker)
{
    const dl_gpu_options *options = gpus->config.options;
    gpus->workers[worker].rounds++;
    if (options->compress == DL_COMPRESS_NONE) {
        dl_gpus_exchanged(gpus, worker);
        return;
    }
    dl_gpus_touch(gpus, worker,
                  dl_decompress_traffic(options, gpus->config.content_bytes, gpus->config.workers),
                  on_unpacked);
}

static void end_round(dl_gpus *gpus)
{
    dl_reduction *r = &gpus->reduction;
    for (int b = 0; b < r->buckets; b++)
        r->ready[b] = 0;
    r->next = 0;
    r->rounds++;
    gpus->moved_bytes += r->moved_bytes;
    for (int w = 0; w < gpus->config.workers; w++) {
        if (!gpus->workers[w].in_exchange) continue;
        gpus->workers[w].in_exchange = false;
        leave(gpus, w);
    }
}

static void on_bucket_done(void *user, int unused)
{
    (void)unused;
    dl_gpus *gpus = user;
    gpus->reduction.running = false;
    dl_gpus_change_speed(gpus);
    if (++gpus->reduction.next == gpus->reduction.buckets) {
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
    dl_collective *bucket = r->next == r->buckets - 1 ? &r->last : &r->full;
    for (int w = 0; w < gpus->config.workers; w++)
        dl_collective_arrive(bucket);
}

double dl_reduction_share(const dl_gpus *gpus, int bucket)
{
    const dl_reduction *r = &gpus->reduction;
    if (gpus->config.content_bytes <= 0) return 1.0 / r->buckets;
    const double before = bucket * (double)gpus->config.options->bucket_bytes;
    const double bytes = bucket == r->buckets - 1 ? gpus->config.content_bytes - before
                                                  : (double)gpus->config.options->bucket_bytes;
    return bytes / gpus->config.content_bytes;
}

void dl_reduction_ready(dl_gpus *gpus, int bucket)
{
    gpus->reduction.ready[bucket]++;
    try_next(gpus);
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

void dl_reduction_join(dl_gpus *gpus, int worker)
{
    dl_reduction *r = &gpus->reduction;
    dl_gpu_worker *w = &gpus->workers[worker];
    dl_team_change(gpus->team, dl_team_exchanger(gpus->team, worker), DL_STATE_ALLREDUCE);
    if (w->rounds < r->rounds) {
        leave(gpus, worker);
        return;
    }
    w->in_exchange = true;
    if (gpus->config.overlap) return;
    const dl_gpu_options *options = gpus->config.options;
    if (options->compress == DL_COMPRESS_NONE) {
        on_packed(gpus, worker);
    } else {
        dl_gpus_touch(gpus, worker, dl_compress_traffic(options, gpus->config.content_bytes),
                      on_packed);
    }
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
    };
    dl_status status =
        dl_collective_init(collective, &gpus->network, &options->links, &config, err);
    if (status == DL_OK) dl_collective_on_done(collective, on_bucket_done, gpus, 0);
    return status;
}

/* Bytes that all ranks together send. */
static double sent_bytes(const dl_collective *collective)
{
    double sum = 0, frac = collective->plan.costs.bandwidth_frac;
    for (int t = 0; t < collective->plan.transfer_count; t++)
        sum += collective->plan.transfers[t].bytes * frac;
    return sum;
}

dl_status dl_reduction_init(dl_gpus *gpus, dl_error *err)
{
    dl_reduction *r = &gpus->reduction;
    const double all = gpus->config.content_bytes;
    const double bucket = (double)gpus->config.options->bucket_bytes;
    if (bucket > 0 && all > bucket * MAX_BUCKETS) {
        return dl_error_set(err, DL_ERR_RANGE,
                            "[exchange] bucket_bytes = %.0f: %.4g bytes make more than %d buckets",
                            bucket, all, MAX_BUCKETS);
    }
    r->buckets = bucket > 0 && all > bucket ? (int)ceil(all / bucket) : 1;
    const double last = all - (r->buckets - 1) * bucket;
    dl_status status = init_bucket(gpus, &r->last, last, err);
    if (status == DL_OK && r->buckets > 1) status = init_bucket(gpus, &r->full, bucket, err);
    if (status != DL_OK) return status;
    r->moved_bytes = sent_bytes(&r->last) + (r->buckets - 1) * sent_bytes(&r->full);
    r->ready = dl_calloc((size_t)r->buckets, sizeof *r->ready, "buckets");
    return DL_OK;
}

void dl_reduction_free(dl_reduction *reduction)
{
    dl_collective_free(&reduction->full);
    dl_collective_free(&reduction->last);
    free(reduction->ready);
    *reduction = (dl_reduction){0};
}

int dl_reduction_flows(const dl_reduction *reduction)
{
    int full = dl_collective_flows(&reduction->full), last = dl_collective_flows(&reduction->last);
    return full > last ? full : last;
}
