/* The GPUs of a run, for their step (gpu.c) and their exchange (gpu_exchange.c). */
#ifndef DL_SIM_GPU_INTERNAL_H
#define DL_SIM_GPU_INTERNAL_H

#include "sim/platform/gpu.h"
#include "sim/platform/gpu_input.h"

/* What a worker's GPU is at. */
typedef enum dl_gpu_phase {
    DL_GPU_IDLE,
    DL_GPU_WAITS_FOR_INPUT,
    DL_GPU_WAITS_FOR_LAUNCH,
    DL_GPU_COMPUTES,
    DL_GPU_WAITS_FOR_LAUNCH_END
} dl_gpu_phase;

typedef struct dl_gpu_worker {
    dl_gpu_phase phase;
    double work_ns; /* of forward and backward, or with the update */
    double backward_ns;
    double compress_ns; /* to make messages of all that a step exchanges */
    int segment;        /* of the work, between buckets that are ready; 0 without overlap */
    int gpu;            /* in dl_gpus.computing */
    double left_ns;     /* of the segment, at full speed */
    double speed;       /* 1, or less while collectives run or others compute on its GPU */
    int64_t since_ns;   /* left_ns is of this time */
    int event;          /* its end */
    double push_bytes;  /* of each message of the push at hand */
    int flows;          /* of the piece of exchange at hand that have not ended */
    int64_t rounds;     /* of collectives that it has seen the end of */
    bool in_exchange;   /* waits for the end of one */
    int remote_shards;  /* of the server: not on the worker's own GPU */
    int memory_class;   /* of flows over its own memory */
} dl_gpu_worker;

/* Buckets of one all-reduce, run one after another. */
typedef struct dl_reduction {
    dl_collective *collectives; /* [collective_count] of different sizes */
    int collective_count;
    int *collective;     /* [buckets] which one it is */
    double *share;       /* [buckets + 1] of the backward pass from one to the next, and the rest */
    double *bytes_share; /* [buckets] */
    int buckets, next;
    bool running;
    int *ready; /* [buckets] workers that have got so far in this round */
    int64_t rounds;
    double moved_bytes; /* of a round, over all workers */
    double transfers;   /* of a round, that are simulated */
    int held, flows;    /* transfers of all different collectives, and of the largest one */
} dl_reduction;

/* What a worker has done of a parameter server's buckets since the start. */
typedef struct dl_stream {
    int64_t ready, pushed, pulled;
    int up, down; /* flows of the bucket on its way; 0 = none is */
} dl_stream;

/* Of ps with overlap. */
typedef struct dl_streams {
    dl_stream *workers; /* [workers] */
    int64_t summed;
    int summing; /* flows of the bucket at hand; 0 = none is */
} dl_streams;

/* Kinds of exchange that a server does: those up to this one. */
#define DL_SERVER_EXCHANGES (DL_BLEND + 1)

/* From one place to another. */
typedef struct dl_gpu_copy {
    int class; /* of its flows */
    int64_t latency_ns;
} dl_gpu_copy;

struct dl_gpus {
    dl_gpus_config config;
    dl_team *team; /* since its init */
    dl_network network;
    dl_dispatch dispatch;
    dl_reduction reduction; /* with ps and overlap only its buckets */
    dl_streams streams;
    dl_input input;
    dl_gpu_worker *workers;   /* [workers] */
    dl_place *places;         /* [workers] GPUs */
    dl_place *servers;        /* [shards] */
    dl_gpu_copy *push, *pull; /* [workers x shards] */
    int serving_threads;      /* as many as workers, and as the server's threads */
    /* [DL_SERVER_EXCHANGES x serving_threads x shards] of a server's thread, or of its GPU; of
     * DL_APPLY: index = gradients of the update - 1 */
    int *serving_class;
    int *memory_class; /* [all GPUs] of flows over its memory, -1 = nobody uses it */
    bool shared;       /* some GPU is several workers' */
    int *computing;    /* [all GPUs] workers that compute there at this moment; only if shared */
    double *share; /* [workers + 1] speed of each of k that compute on a GPU: 1 / (k copies_k) */
    char (*own_names)[DL_LINK_NAME_BYTES]; /* of links after the machine's */
    int own_links;
    double moved_bytes; /* from place to place by exchange */
};

static inline dl_gpus *dl_gpus_of(const dl_team *team)
{
    return team->machine;
}

/* ps with overlap. */
static inline bool dl_gpus_stream(const dl_gpus *gpus)
{
    return gpus->config.overlap && !gpus->config.collective;
}

/* Bytes of a message with a vector of `bytes`; what making it, and making a vector of it (of those
 * of all workers for topk), reads and writes in memory. */
double dl_compress_bytes(const dl_gpu_options *options, double bytes);
double dl_compress_traffic(const dl_gpu_options *options, double bytes);
double dl_decompress_traffic(const dl_gpu_options *options, double bytes, int workers);

/* Links and classes of flows of all exchange, and its buckets; the network has the machine's links.
 * dl_gpus_exchange_free accepts what has not been set up. */
dl_status dl_gpus_exchange_init(dl_gpus *gpus, dl_error *err) DL_MUST_CHECK;
void dl_gpus_exchange_free(dl_gpus *gpus);

/* The worker has the gradients of its next bucket ready, with overlap. */
void dl_gpus_bucket_ready(dl_gpus *gpus, int worker, int bucket);

/* As dl_team_exchange. */
void dl_gpus_exchange(dl_team *team, int agent, dl_exchange exchange);

/* Sets the speed of all that computes: a collective has started or ended, or a worker's part. */
void dl_gpus_change_speed(dl_gpus *gpus);

#endif
