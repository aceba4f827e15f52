/* Buckets of a gradient vector: the bytes exchanged together, and the times in the backward pass
 * when they are ready, given by [gradients] of the costs, otherwise in proportion to the bytes. */
#ifndef DL_SIM_BUCKETS_H
#define DL_SIM_BUCKETS_H

#include "sim/platform/gpu.h"

typedef struct dl_buckets {
    int count;            /* number of buckets, >= 1 */
    bool differ;          /* buckets are those of the costs; otherwise all buckets but the last are
                          * equal */
    double *bytes;        /* [count] bytes of each bucket */
    double *bytes_share;  /* [count] share of all bytes */
    double *expert_bytes; /* [count] part of bytes: a GPU's own experts; NULL: none. dl_buckets_init
                        * leaves it NULL */
    double *share; /* [count + 1] shares of the backward pass between consecutive ready times,
                          * from its start; the last: after the last bucket is ready */
} dl_buckets;

/* Creates the buckets for a vector of bytes >= 0. DL_ERR_RANGE: bucket_bytes makes more than 65536.
 * dl_buckets_free accepts a zeroed object. */
dl_status dl_buckets_init(dl_buckets *buckets, const dl_gpu_options *options,
                          const dl_workload *workload, double bytes, dl_error *err) DL_MUST_CHECK;
void dl_buckets_free(dl_buckets *buckets);

/* Bytes of a bucket that are those of a GPU's own experts, or the other ones. */
static inline double dl_buckets_part(const dl_buckets *buckets, int bucket, bool experts)
{
    const double own = buckets->expert_bytes != NULL ? buckets->expert_bytes[bucket] : 0;
    return experts ? own : buckets->bytes[bucket] - own;
}

#endif
