/* Workers on the GPUs of a machine file: one GPU each, or several that share one; copies and
 * collectives as flows on the machine's links, steps launched by host threads.
 *
 *   compute     fixed + per-sample time of the cost file times noise and slow factor; starts when
 *               its launch has started, and ends no earlier than its launch
 *               (sim/platform/dispatch.h); the operation "dispatch" is host time before both. Each
 *               of k workers that compute on one GPU has the speed 1 / (k copies_k). As on a core
 *               (sim/platform/host.h), copies_k, [sharing] of the costs, is 1 where kernels take
 *               turns, 1 / k where they do not slow each other
 *   push, pull  a flow from the worker's GPU to each shard of the server and back, `bytes / shards`
 *               each; a copy between a GPU and pageable host memory also takes a staging copy with
 *               its own rate, and crosses the host's memory three times
 *   average     server in host memory: each of its threads processes a slice of each shard at the
 *               cost file's rates, (n + 1) x bytes of traffic through the socket's memory, which it
 *               shares with all copies; on a GPU: (n + 1) x bytes over its memory's bandwidth
 *   sum, apply  like average: the server sums and applies all n gradients, or applies one, and goes
 *               on with the next one while served workers pull
 *               With `overlap`, ps works bucket by bucket, one after another on each worker's links
 *               and on the server: a bucket is pushed when its gradients are ready, summed when all
 *               have pushed it, and then pulled; a step ends with its last pull. Messages to a
 *               shard go one after another (sim/platform/gpu_server.c, also for the placement of
 *               tensors, the dependencies of fetches, sums on arrival, sums in a node before the
 *               push, the order of messages)
 *   allreduce   a collective of the workers' GPUs in place of push, average, pull: in buckets, one
 *               after another on one stream; with `overlap` each starts when all workers have its
 *               gradients ready (times of [gradients] of the costs; else evenly over the backward
 *               pass)
 *               With collectives = hosts each worker copies its vectors to host memory when they
 *               are ready, the hosts reduce them, and each copies the result back; the additions on
 *               the hosts take no time
 *               Before each step of allreduce the collectives of sim/step_collectives.h run: a
 *               broadcast of buffers from the first worker's GPU, and those found in a trace
 *   compress    of pushed or reduced data, not of pulled parameters. Messages of topk are gathered,
 *               not reduced. It costs its traffic in the memory of the worker's GPU; a server is
 *               charged as if it summed whole vectors
 *   input       a batch is read from the node's storage, whose rate, if it has one, all workers of
 *               the node share; made by cores of the GPU's node ([op input]), up to `prefetch`
 *               batches ahead (0: when the step asks for it); and copied to the GPU from pinned
 *               memory. With `in_turn` the host thread makes it before it launches the step, which
 *               includes the copy; with `made_at_launch` it is made in host memory once the host
 *               launches the step
 *
 * Where workers divide vectors (dl_sharded), the collectives of a step, on one stream, are
 * reduce-scatters of the buckets, and all-gathers of all parameters after the update, or of each
 * bucket's before either pass of it, or before the forward pass only. A bucket's all-gather is
 * launched when the previous bucket's pass starts, so that at most two buckets are gathered at a
 * time (FSDP's limit on gathers in flight, backward prefetch). Each accumulated micro-batch has all
 * these collectives, and the next one starts when they have ended, like FSDP without no_sync. A
 * worker updates 1 / n of the parameters.
 *
 * Shards in host memory lie on the nodes in turn, then on their sockets; on GPUs, on consecutive
 * ones. A barrier costs [sync] barrier_ns and the lock's hand-over lock_ns where the server is in
 * host memory; between GPUs both are stream order, which costs nothing beyond the launch.
 *
 * GPUs may differ: each worker has the times of its GPU's model and, if the scenario sets it, its
 * own share of the batch (sim/shares.h); waiting for all means waiting for the slowest.
 *
 * Not modelled: the slowdown of kernels by copies and servers except with `overlap`, copies within
 * a GPU to and from a server on it (a framework whose worker reads the server's vectors makes
 * none); in the check of GPU memory, shards of unequal size.
 */
#ifndef DL_SIM_GPU_H
#define DL_SIM_GPU_H

#include "sim/platform/dispatch.h"
#include "sim/platform/exchange_plan.h"
#include "sim/platform/platform.h"
#include "sim/step_collectives.h"

extern const dl_platform dl_platform_gpu;

/* Auto: average and bmuf by all-reduces, like PyTorch's local SGD, where no workers share a GPU;
 * all other modes on the first node's host. */
typedef enum dl_where { DL_WHERE_AUTO, DL_WHERE_CPU, DL_WHERE_GPU, DL_WHERE_ALLREDUCE } dl_where;

#define DL_SHARDS_MAX 64
#define DL_SHARDS_NODES (-1)
#define DL_PREFETCH_MAX 64
#define DL_LOADERS_MAX 64

/* Placement of tensors, which are the buckets of ps, on a server's shards. */
typedef enum dl_tensors {
    DL_TENSORS_SPLIT,        /* each evenly over all shards */
    DL_TENSORS_ROUND_ROBIN,  /* whole, in turn, from the first layer on */
    DL_TENSORS_LEAST_LOADED, /* whole, the largest first, each on the shard with fewest bytes */
    DL_TENSORS_LARGE_SPLIT   /* at least large_bytes: evenly over all shards, the others in turn */
} dl_tensors;

/* When ps fetches a tensor, and the computation that waits for it. */
typedef enum dl_fetch {
    DL_FETCH_SUMMED,    /* once it is summed; the step's end waits for all of them */
    DL_FETCH_AFTER,     /* once all are summed; the step's end waits */
    DL_FETCH_LAYERS,    /* once it is summed; its layer's next forward pass waits */
    DL_FETCH_NEXT_STEP, /* once all are summed, when the next step starts; its layer waits */
    DL_FETCH_PUSHED     /* once it is summed and the sender has pushed its last one; the step's end
                         * waits */
} dl_fetch;

/* Next message to send of those that wait for a connection. */
typedef enum dl_order {
    DL_ORDER_READY,   /* the one that has waited longest */
    DL_ORDER_FORWARD, /* the layer that the forward pass needs first */
    DL_ORDER_TOGETHER /* none waits: all share the links */
} dl_order;

/* Which messages of ps are serialized. */
typedef enum dl_copies {
    DL_COPIES_CONNECTION, /* those of a connection */
    DL_COPIES_GPU         /* all that a GPU sends, and all between it and host memory */
} dl_copies;

/* "split", ...; "summed", ...; "ready", ...; "connection", .... */
extern const char *const dl_tensors_names[], *const dl_fetch_names[], *const dl_order_names[],
                                                                          *const dl_copies_names[];

/* The result that a host thread reads from its GPUs, and so waits for, whatever `ahead` is. */
typedef enum dl_reads {
    DL_READS_NOTHING,
    DL_READS_FORWARD, /* a result of the forward pass, before it launches the next step */
    /* A result of work that follows everything launched so far, before each micro-batch, or with
     * stages before each pass: Megatron-LM broadcasts the sizes of a batch and copies them to the
     * host (broadcast_data), and calls torch.cuda.synchronize after each exchange between stages.
     * While the host launches the forward pass, which the GPU may finish earlier, the backward pass
     * waits: if each takes half of the launches L, and f and b on the GPU, a micro-batch takes
     *
     *   max(L, max(f, L / 2) + b)        and with stages a pass max(f, L / 2) or max(b, L / 2) */
    DL_READS_BATCH
} dl_reads;

extern const char *const dl_reads_names[]; /* "nothing", "forward", "batch", NULL */

/* Data type of sent numbers, by default 4 bytes: param_dtype and reduce_dtype of MixedPrecision. */
typedef enum dl_dtype { DL_DTYPE_AUTO, DL_DTYPE_FP32, DL_DTYPE_BF16 } dl_dtype;

extern const char *const dl_dtype_names[]; /* "auto", "fp32", "bf16", NULL */

/* A scenario's options of its machine and exchange. */
typedef struct dl_gpu_options {
    dl_machine machine; /* owned, as links */
    dl_links links;
    dl_links own_links; /* at a point whose costs replace machine figures; else zero */
    bool copies_scaled; /* dl_gpu_options_scale_copies was called, with */
    double copies_factor;
    int *gpus; /* [gpu_count] ascending numbers over all nodes; NULL = from 0 on */
    int gpu_count;
    dl_dispatch_kind dispatch;
    int ahead; /* steps */
    dl_reads reads;
    bool in_turn; /* a thread makes a batch, launches its step, waits for its end: then ahead and
                   * prefetch are 0 and input_cores is ignored */
    bool pageable;
    dl_where where;
    int where_gpu; /* over all nodes */
    int shards;    /* 1 .. DL_SHARDS_MAX; 0 = as many as workers, DL_SHARDS_NODES = as many as nodes
                      with workers, both at most DL_SHARDS_MAX */
#define KEY(type, member, ...) type member;
#include "sim/platform/exchange_keys.h"
#undef KEY
    const char *algorithm;      /* of collectives */
    bool own_buckets;           /* the costs' buckets, if given; then bucket_bytes is 0 */
    dl_compression compression; /* the scenario's */
    int input_cores;            /* of each node */
    int prefetch;               /* batches of a worker */
    bool made_at_launch;        /* in place of prefetch: a batch is made in host memory when its
                                 * step's launch starts, copied when the GPU gets to the step */
    bool input_varies;          /* the time to make a batch varies, exponentially */
    dl_quantity storage_bytes_per_s;        /* of each node; unknown: no limit */
    dl_quantity shared_storage_bytes_per_s; /* of all nodes together, likewise */
    double cached_frac;                     /* fraction of the samples that need no read */
    dl_quantity price_usd_per_hour;         /* of a node; unknown: the machine's */
    dl_quantity port_bytes_per_s;           /* of each NIC; unknown: that of the costs or machine */
    dl_quantity site_bytes_per_s;           /* of each link between sites; unknown: the machine's */
    double message_ns;       /* from the point's costs, added to the links' latency */
    double frozen_frac;      /* from the costs: bytes of frozen parameters over those of others */
    bool without_contention; /* links and memories serve each flow as if alone */
} dl_gpu_options;

/* Accepts a zeroed object. */
void dl_gpu_options_free(dl_gpu_options *options);

/* Speeds up all links, their TCP and GPU memories so that copies take `factor` of their time, 0 <=
 * factor. */
void dl_gpu_options_scale_copies(dl_gpu_options *options, double factor);

/* Makes *at the options of one point: with the network and machine figures given by `costs`, the
 * shards for `workers` workers, and these on GPUs gpus[gpu_count] (NULL: those of the options). It borrows
 * everything else: release with dl_gpu_options_free_at_point, while `options` and `gpus` still
 * exist; it must stay where it is. */
void dl_gpu_options_at_point(const dl_gpu_options *options, const dl_costs *costs, int workers,
                             const int *gpus, int gpu_count, dl_gpu_options *at);
void dl_gpu_options_free_at_point(dl_gpu_options *at);

/* Multiplies slow[workers] by the spread of `gpus` GPUs, assigned in turn, that [spread] gpu_frac
 * of the costs gives: each GPU has the expected factor of its rank, from fast to slow, and their
 * mean is 1. So a mode that waits for the slowest gets slower with more GPUs, and a single GPU is
 * average. */
void dl_gpus_spread(const dl_costs *costs, int workers, int gpus, double *slow);

/* Multiplies slow[workers] of workers that share their PCIe switch by [spread] board_slowdown. */
void dl_gpus_boards(const dl_gpu_options *options, const dl_costs *costs, int workers,
                    double *slow);

/* Divides slow[workers] by [gpu_model] clock_frac if the costs are estimated. */
void dl_gpus_clocks(const dl_gpu_options *options, const dl_costs *costs, int workers,
                    double *slow);

/* Number of GPUs that a scenario may use: all nodes' unless it lists them. */
int dl_gpu_options_count(const dl_gpu_options *options);

/* The GPU of a worker: workers take the GPUs in turn. */
dl_place dl_gpu_options_place(const dl_gpu_options *options, int worker);

/* Place of a shard of the server. */
dl_place dl_gpu_options_server(const dl_gpu_options *options, int shard);

/* A moment of a step: in a pass, at a layer. */
typedef struct dl_gpu_moment {
    bool forward, in_loss;
    int micro_batch, chunk;
    int layer; /* of the model's; -1: the end of the pass */
} dl_gpu_moment;

/* Bytes of a GPU's memory by content, at the moment of largest use. */
typedef struct dl_gpu_content {
    double parameters, gradients, optimizer;
    double gathered;    /* other ranks' parameters, and gradients not yet reduced */
    double activations; /* kept for backward passes */
    double working;     /* of one layer: gradients, recomputed activations */
    double logits;      /* activations and gradients of the model's last layer */
    double workspace;   /* context of the driver, libraries, communicators */
    double others;      /* a server's vectors, workers that share the GPU */
    dl_gpu_moment at;
} dl_gpu_content;

static inline double dl_gpu_content_bytes(const dl_gpu_content *content)
{
    return content->parameters + content->gradients + content->optimizer + content->gathered +
           content->activations + content->working + content->logits + content->workspace +
           content->others;
}

/* A point as needed to check memory. */
typedef struct dl_gpu_point {
    int workers;
    int first, stride;         /* worker w is on GPU first + w x stride of the options' GPUs */
    const dl_gpu_content *own; /* [workers] needs of each; NaN: unknown */
    double served_bytes; /* size of a vector; a server keeps one per worker and the result; 0: no
                       * server */
} dl_gpu_point;

/* Memory of the fullest GPU. NaN if its needs are unknown. */
typedef struct dl_gpu_memory {
    double needs_bytes, has_bytes;
    dl_gpu_content content; /* of the needs */
} dl_gpu_memory;

dl_gpu_memory dl_gpu_options_memory(const dl_gpu_options *options, const dl_gpu_point *point);

/* Config of a collective among ranks[count]: by the options' algorithm where it supports this kind,
 * else by a ring; between GPUs, by measured times where the workload has them. The caller adds
 * further members (equal ranks, a pause, the most transfers); `ranks` is borrowed. */
dl_collective_config dl_gpu_options_collective(const dl_gpu_options *options,
                                               const dl_workload *workload, dl_collective_kind kind,
                                               const dl_place *ranks, int count, double bytes);

/* Price of the nodes that `gpus` GPUs are on; NaN if not in the machine file. */
double dl_gpu_options_usd_per_hour(const dl_gpu_options *options, int gpus);

/* The least trustworthy origin among the machine's figures that transfers depend on. */
dl_origin dl_gpu_options_origin(const dl_gpu_options *options);

/* Costs of a step of one worker. */
typedef struct dl_gpu_step {
    double compute_ns, backward_ns, update_ns; /* like those of a dl_workload */
    double input_ns, input_bytes;              /* of its batch */
    double input_copy_ns;                      /* of its copy to the GPU, beside the bytes */
    double stored_bytes;                       /* read for the batch */
} dl_gpu_step;

/* Steps that the host launches before the GPU has ended the one before them. */
static inline int dl_gpu_options_ahead(const dl_gpu_options *options)
{
    return options->reads == DL_READS_NOTHING ? options->ahead : 0;
}

/* Steps of all workers. */
typedef struct dl_gpu_steps {
    const dl_gpu_step *of; /* [workers] if their GPUs or shares of the batch differ, else one */
    bool differ;
} dl_gpu_steps;

static inline const dl_gpu_step *dl_gpu_step_of(dl_gpu_steps steps, int worker)
{
    return &steps.of[steps.differ ? worker : 0];
}

typedef struct dl_gpus_config {
    const dl_team_config *team; /* borrowed until free, as the next three */
    const dl_gpu_options *options;
    const dl_workload *workload;
    dl_gpu_steps steps;
    dl_engine *engine; /* the team's: used when the team runs */
    int workers;
    int server_threads; /* of each shard in host memory, >= 1 */
    dl_exchange_plan plan;
    double content_bytes; /* reduced by collectives */
    double inside_bytes;  /* > 0: bytes of gradients reduced within each site, or node, after each
                       * step */
    const dl_step_collective *before; /* [before_count] collectives before each step */
    int before_count;
    double pause_ns; /* silence on the links before an exchange by collectives starts */
    bool with_input; /* batches are made and copied */
    /* For GPUs that only exchange, sharing the network with others, in workers of several GPUs
     * (sim/island/island.h); else NULL. */
    dl_network *network;                      /* with the machine's links; borrowed */
    void (*exchanged)(void *user, int agent); /* replaces dl_team_done */
    /* A server's work on a GPU, of all nodes, has started (1) or ended (-1), and stops it meanwhile. */
    void (*stopped)(void *user, int gpu, int change);
    void *user;
} dl_gpus_config;

/* Notes the busiest link over span_s seconds, and the share of that time in which collectives ran
 * that were measured as a whole. Returns the link's number, or -1 if it is one of the machine's,
 * which have names. */
int dl_usage_note_links(dl_usage *usage, const dl_network *network, const dl_links *links,
                        double span_s);

/* The GPUs of a run's workers, with their exchange. */
typedef struct dl_gpus dl_gpus;

/* Creates the GPUs of a team of config->workers in *gpus, to be set as the team's config.machine.
 * DL_ERR_* of dl_collective_init; then *gpus is NULL. dl_gpus_free accepts NULL. */
dl_status dl_gpus_create(dl_gpus **gpus, const dl_gpus_config *config, dl_error *err) DL_MUST_CHECK;
void dl_gpus_free(dl_gpus *gpus);

/* The platform's functions for GPUs that only exchange: join this team; run an agent's exchange; a
 * worker comes or goes; start other jobs' traffic; most flows at a time; the worker's site, or
 * node. */
void dl_gpus_join(dl_gpus *gpus, dl_team *team);
void dl_gpus_exchange(dl_gpus *gpus, int agent, dl_exchange exchange);
void dl_gpus_members_changed(dl_gpus *gpus, int worker);
void dl_gpus_traffic_start(dl_gpus *gpus);
int dl_gpus_flows(const dl_gpus *gpus);
int dl_gpus_domain(const dl_gpus *gpus, int worker);

/* Adds the links of [input] storage_bytes_per_s and shared_storage_bytes_per_s. Returns the classes
 * of flows from the nodes' storage, [nodes of the machine], owned by `gpus`; NULL: no limit. */
const int *dl_gpus_add_storage(dl_gpus *gpus);

/* Where buckets are exchanged as they become ready: notes that the worker's gradients of this
 * bucket are ready. Number of buckets. */
void dl_gpus_bucket_ready(dl_gpus *gpus, int worker, int bucket);
int dl_gpus_buckets(const dl_gpus *gpus);

/* Bytes moved between places; bytes sent to other domains, [domains of the machine]. */
double dl_gpus_moved_bytes(const dl_gpus *gpus);
const double *dl_gpus_sent_bytes(const dl_gpus *gpus);

/* Slowdown of computing during collectives of the GPUs places[count]: that of the
 * costs, or the machine's if it is larger and some of them share a node. A collective over several
 * nodes is limited by their ports and takes longer, so it takes as much computing per byte as one
 * inside the node, spread over a longer time. */
double dl_gpus_slowdown(const dl_gpu_options *options, const dl_workload *workload,
                        const dl_place *places, int count);

/* Name of the network's link of this number, if it was added for these GPUs; else NULL. */
const char *dl_gpus_link_name(const dl_gpus *gpus, int number);

#endif
