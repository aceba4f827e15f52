/* All-reduce of the workers' GPUs in buckets, one after another. A round ends when all buckets have
 * been reduced; nobody can be ready for the next one before. */
#include <math.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "sim/platform/platform_gpu.h"

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

/* Bytes that all ranks together send. */
static double sent_bytes(const dl_collective *collective)
{
    double sum = 0, frac = collective->plan.costs.bandwidth_frac;
    for (int t = 0; t < collective->plan.transfer_count; t++)
        sum += collective->plan.transfers[t].bytes * frac;
    return sum;
}

/* The share of the backward pass after which so many of all bytes are ready: on the lines between
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
    r->moved_bytes += sent_bytes(&r->collectives[i]);
    return DL_OK;
}

dl_status dl_reduction_init(dl_gpus *gpus, dl_error *err)
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
    const double all = gpus->config.content_bytes,
                 each = (double)gpus->config.options->bucket_bytes;
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

void dl_reduction_free(dl_reduction *reduction)
{
    for (int i = 0; i < reduction->collective_count; i++)
        dl_collective_free(&reduction->collectives[i]);
    free(reduction->collectives);
    free(reduction->collective);
    free(reduction->share);
    free(reduction->bytes_share);
    free(reduction->ready);
    *reduction = (dl_reduction){0};
}

int dl_reduction_flows(const dl_reduction *reduction)
{
    int most = 0;
    for (int i = 0; i < reduction->collective_count; i++) {
        const int flows = dl_collective_flows(&reduction->collectives[i]);
        if (flows > most) most = flows;
    }
    return most;
}
