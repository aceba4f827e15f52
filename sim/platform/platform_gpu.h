/* Workers on the GPUs of a machine file: one GPU each, copies and collectives as flows on the
 * machine's links, steps issued by host threads.
 *
 *   compute     fixed + per-sample time of the cost file times noise and slow factor; begins when
 *               its issue has begun, and ends no earlier than its issue (sim/platform/dispatch.h)
 *   push, pull  a flow from the worker's GPU to each shard of the server and back, `bytes / shards`
 *               each; a copy between a GPU and pageable host memory also goes through a staging
 *               copy of its own rate, and crosses the host's memory three times
 *   average     server in host memory: each of its threads a slice of each shard, at the cost
 *               file's rates, (n + 1) x bytes of traffic through the socket's memory, which it
 *               shares with all copies; on a GPU: (n + 1) x bytes over its memory's bandwidth
 *   serve       the same: all n gradients summed and applied, or one; the server goes on to the
 *               next gradient while those that it has served pull what it has for them
 *               With `overlap`, ps does all of this bucket by bucket, behind one another on each
 *               worker's ways and on the server: a bucket is pushed when the worker has its gradients
 *               ready, summed when all have pushed it, and then pulled; a step ends with its last
 *               pull
 *   allreduce   a collective of the workers' GPUs in place of push, average, pull: in buckets, one
 *               after another on one stream; with `overlap` each starts when all workers have its
 *               gradients ready (as [gradients] of the costs says; else evenly over the backward
 *               pass)
 *   compress    what is pushed or reduced; pulled parameters are not. fp16: half of the bytes;
 *               1bit: a bit a parameter and two values a message (Seide 2014); topk: values and
 *               indices of the largest, gathered in place of reduced; the last two with error
 *               feedback. Costs what it moves in the memory of the worker's own GPU; a server
 *               is charged as if it summed whole vectors
 *   input       batches are made by cores of the GPU's node ([op input]), `prefetch` of them ahead
 *               (0: when the step asks for one), and copied to the GPU from pinned memory
 *
 * Shards in host memory lie on the nodes in turn, then on their sockets; on GPUs, on consecutive
 * ones. A barrier costs [sync] barrier_ns and the lock's hand-over lock_ns where the server is in
 * host memory; between GPUs both are the order of streams, which is free beside the issue.
 *
 * What it leaves out: several workers on a GPU, GPUs of different speed (but for slow factors),
 * copies that slow kernels down but for `overlap`.
 */
#ifndef DL_SIM_PLATFORM_GPU_H
#define DL_SIM_PLATFORM_GPU_H

#include "sim/collective/collective.h"
#include "sim/platform/dispatch.h"
#include "sim/platform/gpu_input.h"
#include "sim/platform/platform.h"

extern const dl_platform dl_platform_gpu;

typedef enum dl_where { DL_WHERE_CPU, DL_WHERE_GPU, DL_WHERE_ALLREDUCE } dl_where;

#define DL_SHARDS_MAX 64
#define DL_PREFETCH_MAX 64

typedef enum dl_compress {
    DL_COMPRESS_NONE,
    DL_COMPRESS_FP16,
    DL_COMPRESS_1BIT,
    DL_COMPRESS_TOPK,
    DL_COMPRESS_KINDS
} dl_compress;

/* "none", "fp16", "1bit", "topk". */
extern const char *const dl_compress_names[DL_COMPRESS_KINDS + 1];

/* What a scenario says about its machine and its exchange. */
typedef struct dl_gpu_options {
    dl_machine machine; /* owned, as links */
    dl_links links;
    int *gpus; /* [gpu_count] ascending numbers over all nodes; NULL = from 0 on */
    int gpu_count;
    dl_dispatch_kind dispatch;
    int ahead; /* steps */
    bool pageable;
    dl_where where;
    int where_gpu; /* over all nodes */
    int shards;    /* 1 .. DL_SHARDS_MAX; 0 = as many as workers, at most DL_SHARDS_MAX */
    const char *algorithm;
    dl_fidelity fidelity;
    int64_t bucket_bytes; /* 0 = one bucket */
    bool own_buckets;     /* those of the costs, if they tell; then bucket_bytes is 0 */
    bool overlap;
    bool slows_throughout; /* from the first bucket's start to the last one's end, not only while
                              one is on its way */
    dl_compress compress;
    double topk_frac;        /* of all parameters */
    int input_cores;         /* of each node */
    int prefetch;            /* batches of a worker */
    bool input_varies;       /* the making of batches, exponentially */
    double message_ns;       /* of the point's costs: on top of the links' latency */
    bool without_contention; /* links and memories serve each flow as if it were alone */
} dl_gpu_options;

/* Bytes of a message with a vector of `bytes`; what making it, and making a vector of it (of those
 * of all workers for topk), reads and writes in memory. */
double dl_compress_bytes(const dl_gpu_options *options, double bytes);
double dl_compress_traffic(const dl_gpu_options *options, double bytes);
double dl_decompress_traffic(const dl_gpu_options *options, double bytes, int workers);

/* A zeroed object is fine. */
void dl_gpu_options_free(dl_gpu_options *options);

/* Makes all links and GPU memories so fast that copies take no time. */
void dl_gpu_options_free_copies(dl_gpu_options *options);

/* Of the server of so many workers, >= 1. */
int dl_gpu_options_shards(const dl_gpu_options *options, int workers);

/* Makes *at the options of one point: with the network that `costs` tell, the shards of so many
 * workers, and these on GPUs gpus[] (NULL: as the options say). It borrows everything else: release with
 * dl_gpu_options_free_at_point, while `options` and `gpus` still exist. */
void dl_gpu_options_at_point(const dl_gpu_options *options, const dl_costs *costs, int workers,
                             const int *gpus, dl_gpu_options *at);
void dl_gpu_options_free_at_point(dl_gpu_options *at);

/* Multiplies slow[workers] by what [spread] gpu_frac of the costs makes of so many GPUs: each one
 * has the mean of its rank among them, from fast to slow, and their mean is 1. So a mode that waits
 * for the slowest pays for more GPUs, and one GPU alone is the average one. */
void dl_gpus_spread(const dl_costs *costs, int workers, double *slow);

/* Multiplies slow[workers] of those that share their PCIe switch by [spread] board_slowdown. */
void dl_gpus_boards(const dl_gpu_options *options, const dl_costs *costs, int workers,
                    double *slow);

/* GPUs that a scenario may use; those of all nodes unless it lists them. */
int dl_gpu_options_count(const dl_gpu_options *options);

/* The GPU of a worker. */
dl_place dl_gpu_options_place(const dl_gpu_options *options, int worker);

/* Needs (dl_cost_need) of `workers` of a mode that itself needs `mode_needs`; `collective`: the
 * mode is all-reduce, whatever options->where says; waits: at a barrier, at a lock. */
unsigned dl_gpu_options_needs(const dl_gpu_options *options, unsigned mode_needs, bool collective,
                              bool at_barrier, bool at_lock, int workers);

/* Where a shard of the server is. */
dl_place dl_gpu_options_server(const dl_gpu_options *options, int shard);

/* A point, as far as memory goes. */
typedef struct dl_gpu_point {
    const dl_costs *costs;
    int workers;
    double batch;               /* of a worker */
    bool exchanges, collective; /* its mode */
} dl_gpu_point;

/* Of the fullest GPU: parameters, gradients, optimizer state, activations, workspace, and what a
 * server keeps there. NaN if the costs do not say. */
typedef struct dl_gpu_memory {
    double needs_bytes, has_bytes;
} dl_gpu_memory;

dl_gpu_memory dl_gpu_options_memory(const dl_gpu_options *options, const dl_gpu_point *point);

/* Price of the nodes that the workers are on; NaN if the machine file does not say. */
double dl_gpu_options_usd_per_hour(const dl_gpu_options *options, int workers);

/* The least trustworthy origin among the machine's figures that transfers depend on. */
dl_origin dl_gpu_options_origin(const dl_gpu_options *options);

typedef struct dl_gpus_config {
    const dl_gpu_options *options; /* borrowed, as the next two */
    const dl_workload *workload;
    dl_engine *engine; /* the team's: used when the team runs */
    int workers;
    int server_threads;   /* of each shard in host memory, >= 1 */
    bool collective;      /* as above */
    bool overlap;         /* exchange starts during the backward pass: collectives, else ps */
    bool slows;           /* GPUs compute while collectives run, and then more slowly */
    double content_bytes; /* what collectives reduce */
    double exchanges;     /* that each worker has in the run, at most */
    bool with_input;      /* batches are made and copied */
    double input_bytes;   /* of a worker's batch */
    uint64_t seed;        /* of varying input, as the next */
    uint32_t replicate;
} dl_gpus_config;

/* What a worker's GPU is at. */
typedef enum dl_gpu_phase {
    DL_GPU_IDLE,
    DL_GPU_WAITS_FOR_INPUT,
    DL_GPU_WAITS_FOR_ISSUE,
    DL_GPU_WORKS,
    DL_GPU_WAITS_FOR_ISSUE_END
} dl_gpu_phase;

typedef struct dl_gpu_worker {
    dl_gpu_phase phase;
    bool with_update;
    double work_ns; /* of forward and backward, or with the update */
    double backward_ns, compress_ns;
    int segment;        /* of the work, between buckets that are ready; 0 without overlap */
    double left_ns;     /* of the segment, at full speed */
    double speed;       /* 1, or less while collectives run */
    int64_t since_ns;   /* left_ns is of this time */
    int event;          /* its end */
    dl_content content; /* of the push at hand */
    int flows;          /* of the piece of exchange at hand that have not ended */
    int64_t rounds;     /* of collectives that it has seen the end of */
    bool in_exchange;   /* waits for the end of one */
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

/* What a server does, with how many vectors read + written. */
typedef enum dl_serving_kind {
    DL_SERVING_AVERAGE, /* workers + 1 */
    DL_SERVING_SUM,     /* workers + 1 */
    DL_SERVING_FILTER,  /* 3 + 1 and 2 + 1 */
    DL_SERVING_APPLY,   /* gradients + 1 */
    DL_SERVING_BLEND,   /* 2 + 1 */
    DL_SERVING_KINDS
} dl_serving_kind;

typedef struct dl_gpus {
    dl_gpus_config config;
    dl_team *team; /* since its init */
    dl_network network;
    dl_dispatch dispatch;
    dl_reduction reduction; /* with ps and overlap only its buckets */
    dl_streams streams;
    dl_input input;
    dl_gpu_worker *workers;      /* [workers] */
    dl_place *places;            /* [workers] GPUs */
    double *memory_bytes_per_ns; /* [workers] of these */
    dl_place *servers;           /* [shards] */
    int *push_class;             /* [workers x shards] */
    int *pull_class;
    int64_t *push_ns, *pull_ns; /* latencies */
    int serving_threads;        /* as many as workers, and as the server's threads */
    int *serving_class; /* [kinds x serving_threads x shards] of a server's thread, or of its GPU;
                          APPLY: of an update of so many gradients, less 1 */
    int *own_class;     /* [workers] the memory of the worker's own GPU */
    int *gpu_memory;    /* [all GPUs] link, -1 = nobody uses it */
    char (*own_names)[DL_LINK_NAME_BYTES]; /* of links behind the machine's */
    int own_links;
    double moved_bytes; /* from place to place by exchange */
} dl_gpus;

/* Makes the machine ready for a team of config->workers, whose config.machine it then is. DL_ERR_*
 * of dl_collective_init; then nothing is to be freed. dl_gpus_free accepts a zeroed object. */
dl_status dl_gpus_init(dl_gpus *gpus, const dl_gpus_config *config, dl_error *err) DL_MUST_CHECK;
void dl_gpus_free(dl_gpus *gpus);

/* What the worker, or its helper, was at in exchange has ended. */
void dl_gpus_exchanged(dl_gpus *gpus, int worker);

/* Parts of the platform, in files of their own. The links of servers, copies and memories come
 * before all classes of flows. */
dl_gpus *dl_gpus_of(const dl_team *team);
void dl_gpus_add_memories(dl_gpus *gpus);
void dl_gpus_add_servers(dl_gpus *gpus);
void dl_gpus_add_own_classes(dl_gpus *gpus);
double dl_gpus_serving_traffic(const dl_gpus *gpus, dl_serving_kind kind, int64_t vectors);

/* Shards that are not on the worker's own GPU. */
int dl_gpus_remote_shards(const dl_gpus *gpus, int worker);

/* How busy the GPUs, the host's threads and the links were, over the run. */
void dl_gpus_measure(const dl_team *team, dl_usage *usage);

void dl_gpus_push(dl_team *team, int worker, dl_content content);
void dl_gpus_pull(dl_team *team, int worker, dl_content content);
void dl_gpus_average(dl_team *team, int worker, dl_content content, int parts);
void dl_gpus_serve_all(dl_team *team, int worker, int parts);
void dl_gpus_serve(dl_team *team, int worker, int64_t gradients);
void dl_gpus_blend(dl_team *team, int worker);
void dl_gpus_blend_own(dl_team *team, int worker);
void dl_gpus_filter(dl_team *team, int worker, int parts);

/* Reads and writes so many bytes in the memory of the worker's own GPU. */
void dl_gpus_touch(dl_gpus *gpus, int worker, double traffic_bytes, dl_event_fn done);

/* Of the buckets. dl_reduction_flows: at a time at most. dl_reduction_ready: the worker has done its
 * part of the next bucket. dl_reduction_join: the worker waits for all of them; without overlap it
 * has them ready now. dl_streams_*: the same of a server. */
dl_status dl_reduction_init(dl_gpus *gpus, dl_error *err) DL_MUST_CHECK;
void dl_reduction_free(dl_reduction *reduction);
int dl_reduction_flows(const dl_reduction *reduction);
void dl_reduction_ready(dl_gpus *gpus, int bucket);
void dl_reduction_join(dl_gpus *gpus, int worker);
void dl_streams_init(dl_gpus *gpus);
void dl_streams_free(dl_streams *streams);
void dl_streams_ready(dl_gpus *gpus, int worker);
void dl_streams_join(dl_gpus *gpus, int worker);

/* ps with overlap. */
bool dl_gpus_stream(const dl_gpus *gpus);

/* Sets the speed of all GPUs that compute: a collective has started or ended. */
void dl_gpus_change_speed(dl_gpus *gpus);

#endif
