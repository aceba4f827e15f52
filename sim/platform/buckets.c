#include "sim/platform/buckets.h"

#include <math.h>
#include <stdlib.h>

#include "common/alloc.h"

#define MAX_BUCKETS 65536 /* far more than a model has tensors */

/* Share of the backward pass after which `bytes` of `all` are ready: interpolated linearly between
 * the points of [gradients], or proportional to `bytes` without them. */
static double ready_share(const dl_workload *w, double bytes, double all)
{
    dl_gradients_ready low = {0}, high = {.share = 1, .bytes = all};
    for (size_t i = 0; i < w->gradient_count; i++) {
        high = w->gradients[i];
        high.bytes *= all / w->gradients[w->gradient_count - 1].bytes;
        if (high.bytes >= bytes || i + 1 == w->gradient_count) break;
        low = high;
    }
    if (high.bytes <= low.bytes) return high.share;
    const double part = (bytes - low.bytes) / (high.bytes - low.bytes);
    /* Rounding may raise the share above that of the segment's end; the next tensor would then be
     * ready earlier. */
    return fmin(high.share, low.share + (high.share - low.share) * part);
}

static dl_status count_buckets(dl_buckets *b, const dl_gpu_options *options,
                               const dl_workload *workload, double all, dl_error *err)
{
    const double each = (double)options->bucket_bytes;
    if (each > 0 && all > each * MAX_BUCKETS) {
        return dl_error_set(err, DL_ERR_RANGE,
                            "[exchange] bucket_bytes = %.0f: %.4g bytes make more than %d buckets",
                            each, all, MAX_BUCKETS);
    }
    b->differ = options->own_buckets && workload->gradient_count > 0;
    b->count = each > 0 && all > each ? (int)ceil(all / each) : 1;
    if (b->differ) b->count = (int)workload->gradient_count;
    return DL_OK;
}

/* Returns the bytes of a bucket, exactly equal for equal buckets; *end: bytes up to its end. */
static double bytes_of(const dl_buckets *b, const dl_gpu_options *options,
                       const dl_workload *workload, double all, int bucket, double *end)
{
    const double each = (double)options->bucket_bytes;
    if (b->differ) {
        const dl_gradients_ready *at = workload->gradients;
        const double before = bucket > 0 ? at[bucket - 1].bytes : 0;
        const double last = at[workload->gradient_count - 1].bytes;
        *end = all * at[bucket].bytes / last;
        return all * (at[bucket].bytes - before) / last;
    }
    *end = bucket == b->count - 1 ? all : (bucket + 1) * each;
    return bucket < b->count - 1 ? each : all - bucket * each;
}

dl_status dl_buckets_init(dl_buckets *b, const dl_gpu_options *options, const dl_workload *workload,
                          double all, dl_error *err)
{
    dl_status status = count_buckets(b, options, workload, all, err);
    if (status != DL_OK) return status;
    const size_t count = (size_t)b->count;
    b->bytes = dl_calloc(count, sizeof *b->bytes, "buckets");
    b->bytes_share = dl_calloc(count, sizeof *b->bytes_share, "buckets");
    b->share = dl_calloc(count + 1, sizeof *b->share, "buckets");
    double share_before = 0, end;
    for (int i = 0; i < b->count; i++) {
        b->bytes[i] = bytes_of(b, options, workload, all, i, &end);
        const double share = ready_share(workload, end, all);
        b->share[i] = share - share_before;
        b->bytes_share[i] = all > 0 ? b->bytes[i] / all : 1.0 / b->count;
        share_before = share;
    }
    b->share[count] = fmax(0, 1 - share_before);
    return DL_OK;
}

void dl_buckets_free(dl_buckets *buckets)
{
    free(buckets->bytes);
    free(buckets->bytes_share);
    free(buckets->expert_bytes);
    free(buckets->share);
    *buckets = (dl_buckets){0};
}
