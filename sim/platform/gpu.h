/* Workers on the GPUs of a machine file: one GPU each, or several workers per GPU. Copies and
 * collectives are flows on the machine's links; host threads launch the steps.
 *
 *   compute     fixed + per-sample time of the cost file times noise and slow factor; starts when
 *               its launch has started, and ends no earlier than its launch
 *               (sim/platform/dispatch.h); the operation "dispatch" is host time before both. Each
 *               of k workers that compute on one GPU has the speed 1 / (k copies_k). As on a core
 *               (sim/platform/host.h), copies_k, [sharing] of the costs, is 1 if kernels take
 *               turns, and 1 / k if they do not slow each other down
 *   push, pull  a flow from the worker's GPU to each shard of the server and back, `bytes / shards`
 *               each; a copy between a GPU and pageable host memory also takes a staging copy with
 *               a separate rate, and crosses the host's memory three times
 *   average     server in host memory: each of its threads processes a slice of each shard at the
 *               cost file's rates, with (n + 1) x bytes of traffic through the socket's memory,
 *               which it shares with all copies; on a GPU: (n + 1) x bytes over the bandwidth of
 *               its memory
 *   sum, apply  like average, plus the optimizer's reads and writes: the server sums and applies
 *               all n gradients, or applies those that have arrived (one or more), then the next
 *               ones, while the workers it has served pull
 *               With `overlap`, ps works bucket by bucket, in sequence on each worker's links and
 *               on the server: a bucket is pushed when its gradients are ready, summed when all
 *               workers have pushed it, and then pulled; a step ends with its last pull. Messages
 *               to a shard are sent in sequence (sim/platform/gpu_server.c, also for the placement
 *               of tensors, the dependencies of fetches, sums on arrival, sums in a node before
 *               the push, the order of messages)
 *   allreduce   a collective of the workers' GPUs replaces push, average and pull: in buckets, in
 *               sequence on one stream; with `overlap` each starts when its gradients are ready on
 *               all workers (times of [gradients] of the costs; otherwise evenly over the backward
 *               pass)
 *               With collectives = hosts each worker copies its vectors to host memory when they
 *               are ready, the hosts reduce them, and each copies the result back; the additions on
 *               the hosts take no time
 *               The collectives of sim/step_collectives.h precede each step of allreduce: a
 *               broadcast of buffers from the first worker's GPU, and those found in a trace
 *   compress    applies to pushed or reduced data, not to pulled parameters. Messages of topk are
 *               gathered, not reduced. The cost is the memory traffic on the worker's GPU; a server
 *               has the cost of summing whole vectors
 *   input       a batch is read from the node's storage, whose rate, if it has one, all workers of
 *               the node share; made by cores of the GPU's node ([op input]), up to `prefetch`
 *               batches ahead (0: when the step requests it); and copied to the GPU from pinned
 *               memory. With `in_turn` the host thread makes it before it launches the step, which
 *               includes the copy; with `made_at_launch` it is made in host memory once the host
 *               launches the step
 *
 * With sharded vectors (dl_sharded), the collectives of a step, on one stream, are reduce-scatters
 * of the buckets, and all-gathers of all parameters after the update, or of each bucket's
 * parameters before both passes or before the forward pass only. A bucket's all-gather is launched
 * when the previous bucket's pass starts, so that at most two buckets are gathered at a time
 * (FSDP's limit on gathers in flight, backward prefetch). With sharded gradients or parameters each
 * accumulated micro-batch runs all collectives but the gather after the update, and the next one
 * starts when they have ended, like FSDP without no_sync, and DeepSpeed (engine.py,
 * allreduce_gradients). A worker updates 1 / n of the parameters.
 *
 * Shards in host memory are placed on the nodes in turn, then on their sockets; on GPUs, on
 * consecutive ones. A barrier costs [sync] barrier_ns, and the hand-over of the lock lock_ns, if
 * the server is in host memory; between GPUs both are stream order, which costs nothing beyond the
 * launch.
 *
 * GPUs may differ: each worker has the times of its GPU's model and, if the scenario sets it, a
 * different share of the batch (sim/shares.h); waiting for all means waiting for the slowest.
 *
 * Not modelled: the slowdown of kernels by copies and servers (only collectives that overlap slow
 * them down, and only staged copies and servers on their GPU stop them); copies within a GPU to and
 * from a server on it (a framework whose worker reads the server's vectors makes none); shards of
 * unequal size in the check of GPU memory. */
#ifndef DL_SIM_GPU_H
#define DL_SIM_GPU_H

#include "sim/platform/dispatch.h"
#include "sim/platform/exchange_plan.h"
#include "sim/platform/platform.h"
#include "sim/step_collectives.h"

extern const dl_platform dl_platform_gpu;

/* Location of the server. Auto: average and bmuf use all-reduces, like PyTorch's local SGD, unless
 * workers share GPUs, the costs contain averages in host memory, or the scenario gives
 * server_threads or shards; then, and in all other modes with a server, the first node's host has
 * the server. */
typedef enum dl_where { DL_WHERE_AUTO, DL_WHERE_CPU, DL_WHERE_GPU, DL_WHERE_ALLREDUCE } dl_where;

#define DL_SHARDS_MAX 64
#define DL_SHARDS_NODES (-1)
#define DL_PREFETCH_MAX 64
#define DL_LOADERS_MAX 64

/* Placement of tensors (the buckets of ps) on a server's shards. */
typedef enum dl_tensors {
    DL_TENSORS_SPLIT,        /* each tensor evenly over all shards */
    DL_TENSORS_ROUND_ROBIN,  /* whole tensors, in turn, from the first layer on */
    DL_TENSORS_LEAST_LOADED, /* whole tensors, the largest first, each on the shard with the fewest
                              * bytes */
    DL_TENSORS_LARGE_SPLIT   /* tensors of at least large_bytes evenly over all shards, the others
                              * in turn */
} dl_tensors;

/* Choice of the next message among those that wait for a connection. */
typedef enum dl_order {
    DL_ORDER_READY,   /* the message that has waited longest */
    DL_ORDER_FORWARD, /* the message whose layer the forward pass needs first */
    DL_ORDER_TOGETHER /* all messages are sent concurrently and share the links */
} dl_order;

/* Messages of ps that are sent in sequence. */
typedef enum dl_copies {
    DL_COPIES_CONNECTION, /* those of each connection */
    DL_COPIES_GPU         /* those that a GPU sends, and those between it and host memory */
} dl_copies;

extern const char *const dl_tensors_names[], *const dl_fetch_names[], *const dl_order_names[],
                                                                          *const dl_copies_names[];

/* The result that a host thread reads back from its GPUs, and so waits for, regardless of
 * `ahead`. */
typedef enum dl_reads {
    DL_READS_NOTHING,
    DL_READS_FORWARD, /* a result of the forward pass, before the next step is launched */
    /* A result of work that follows everything launched so far, before each micro-batch (with
     * pipeline stages, before each pass): Megatron-LM broadcasts the sizes of a batch and copies
     * them to the host (broadcast_data), and calls torch.cuda.synchronize after each exchange
     * between stages. The backward pass waits until the host has launched the forward pass, which
     * the GPU may finish earlier: if each pass takes half of the launch time L, and f and b on the
     * GPU, a micro-batch takes
     *
     *   max(L, max(f, L / 2) + b)        and with stages a pass max(f, L / 2) or max(b, L / 2) */
    DL_READS_BATCH
} dl_reads;

extern const char *const dl_reads_names[]; /* "nothing", "forward", "batch", NULL */

/* Data type in which parameters or gradients are sent: param_dtype and reduce_dtype of PyTorch's
 * MixedPrecision. */
typedef enum dl_dtype { DL_DTYPE_AUTO, DL_DTYPE_FP32, DL_DTYPE_BF16 } dl_dtype;

extern const char *const dl_dtype_names[]; /* "auto", "fp32", "bf16", NULL */

/* A scenario's options for its machine and exchange. */
typedef struct dl_gpu_options {
    dl_machine machine; /* owned, like links */
    dl_links links;
    dl_links own_links; /* links at a point whose costs replace machine figures; otherwise zeroed */
    bool copies_scaled; /* dl_gpu_options_scale_copies was called; copies_factor is the product of
                         * its factors */
    double copies_factor;
    int *gpus; /* [gpu_count] numbers of the usable GPUs over all nodes, ascending; NULL: all
                * GPUs */
    int gpu_count;
    dl_dispatch_kind dispatch;
    int ahead; /* number of steps the host may launch ahead */
    dl_reads reads;
    bool in_turn; /* one thread makes a batch, launches its step and waits for its end: ahead and
                   * prefetch are then 0 and input_cores is ignored */
    bool pageable;
    dl_where where;
    int where_gpu; /* number of the server's GPU over all nodes */
    int shards;    /* 1 to DL_SHARDS_MAX; 0: number of workers; DL_SHARDS_NODES: number of nodes
                    * with workers; the last two at most DL_SHARDS_MAX */
#define KEY(type, member, ...) type member;
#include "sim/platform/exchange_keys.h"
#undef KEY
    const char *algorithm; /* name of the collectives' algorithm, or "auto" */
    bool own_overlap;      /* overlap is not given, and may be that of the costs */
    bool own_buckets;      /* uses the costs' buckets, if given; bucket_bytes is then 0 */
    int input_cores;       /* cores per node that make batches */
    int prefetch;          /* batches per worker made ahead */
    bool made_at_launch;   /* replaces prefetch: a batch is made in host memory when its step's
                                 * launch starts, and copied when the GPU reaches the step */
    bool input_varies;     /* the time to make a batch is exponentially distributed */
    dl_quantity storage_bytes_per_s;        /* rate per node; unknown: no limit */
    dl_quantity shared_storage_bytes_per_s; /* total rate of all nodes; unknown: no limit */
    double cached_frac;                     /* fraction of the samples that are not read from
                                             * storage */
    dl_quantity price_usd_per_hour;         /* price per node; unknown: the machine's */
    dl_quantity port_bytes_per_s;           /* rate per NIC; unknown: that of the costs or the
                                             * machine */
    dl_quantity site_bytes_per_s;           /* rate of each link between sites; unknown: the
                                             * machine's */
    int sites;                              /* number of sites that replaces the machine's; 0: the
                                             * machine's */
    dl_quantity site_latency_ns;            /* between two sites; unknown: the machine's */
    double message_ns;       /* host's time per message of exchange, from the point's costs; added
                              * to the latency of links */
    double frozen_frac;      /* from the costs: bytes of frozen parameters over bytes of trained
                              * ones */
    bool without_contention; /* each flow has links and memories to itself */
} dl_gpu_options;

/* Frees what the options own; accepts a zeroed object. */
void dl_gpu_options_free(dl_gpu_options *options);

/* Changes the rates and latencies of all links, including those between sites, the times of TCP,
 * and the rates of GPU memories, server processes and copies staged by the driver, so that
 * copies take `factor` >= 0 times as long; 0 also turns TCP off. Storage and message_ns keep
 * their values. */
void dl_gpu_options_scale_copies(dl_gpu_options *options, double factor);

/* Sets *at to the options of one point: with the network and machine figures given by `costs`, the
 * number of shards for `workers` workers, on the GPUs gpus[gpu_count] (NULL: those of the options).
 * *at borrows everything else: release it with dl_gpu_options_free_at_point, while `options` and
 * `gpus` still exist; it must not be moved. */
void dl_gpu_options_at_point(const dl_gpu_options *options, const dl_costs *costs, int workers,
                             const int *gpus, int gpu_count, dl_gpu_options *at);
void dl_gpu_options_free_at_point(dl_gpu_options *at);

/* Multiplies slow[workers] by the spread of `gpus` GPUs, assigned in turn, given by [spread]
 * gpu_frac of the costs: the GPUs have the expected order statistics of the factor, ascending, with
 * mean 1. So a mode that waits for the slowest GPU slows down with more GPUs, and a single GPU is
 * average. */
void dl_gpus_spread(const dl_costs *costs, int workers, int gpus, double *slow);

/* Multiplies slow[w] by [spread] board_slowdown for workers whose PCIe switch also connects the GPU
 * of another worker. */
void dl_gpus_boards(const dl_gpu_options *options, const dl_costs *costs, int workers,
                    double *slow);

/* Divides slow[workers] by [gpu_model] clock_frac if the costs are estimated. */
void dl_gpus_clocks(const dl_gpu_options *options, const dl_costs *costs, int workers,
                    double *slow);

/* Number of GPUs that a scenario may use: those it lists, otherwise those of all nodes. */
int dl_gpu_options_count(const dl_gpu_options *options);

/* The GPU of a worker; workers take the GPUs in turn. */
dl_place dl_gpu_options_place(const dl_gpu_options *options, int worker);

/* Location of a shard of the server. */
dl_place dl_gpu_options_server(const dl_gpu_options *options, int shard);

/* A moment of a step: a pass, and a layer in it. */
typedef struct dl_gpu_moment {
    bool forward, in_loss;
    int micro_batch, chunk;
    int layer; /* number of the layer in the model; -1: the end of the pass */
} dl_gpu_moment;

/* Bytes of a GPU's memory by content, at the moment of peak use. */
typedef struct dl_gpu_content {
    double parameters, gradients, optimizer;
    double gathered;    /* parameters of other ranks, and gradients not yet reduced */
    double activations; /* kept for backward passes */
    double working;     /* gradients and recomputed activations of the current layer */
    double logits;      /* activations and gradients of the model's last layer */
    double workspace;   /* driver context, libraries, communicators */
    double others;      /* a server's vectors, and workers that share the GPU */
    dl_gpu_moment at;
} dl_gpu_content;

/* The members of dl_gpu_content by name. */
#define DL_GPU_CONTENTS 9
extern const char *const dl_gpu_content_names[DL_GPU_CONTENTS];
double dl_gpu_content_of(const dl_gpu_content *content, int kind);

static inline double dl_gpu_content_bytes(const dl_gpu_content *content)
{
    return content->parameters + content->gradients + content->optimizer + content->gathered +
           content->activations + content->working + content->logits + content->workspace +
           content->others;
}

/* The part of a point that the memory check needs. */
typedef struct dl_gpu_point {
    int workers;
    int first, stride;         /* worker w uses GPU first + w x stride of the options' GPUs */
    const dl_gpu_content *own; /* [workers] memory content of each worker; NaN: unknown */
    double served_bytes;       /* size of a vector on the server, which keeps one per worker and the
                          * result; 0: no server */
    double state_bytes;        /* bytes of the state of the server's optimizer */
    int more_vectors;          /* number of further vectors that the server keeps for an outer
                          * optimizer */
} dl_gpu_point;

/* Needed and available memory of the fullest GPU. needs_bytes is NaN if any GPU's needs are
 * unknown; has_bytes is NaN if there is no GPU yet. */
typedef struct dl_gpu_memory {
    double needs_bytes, has_bytes;
    dl_gpu_content content; /* content of needs_bytes */
} dl_gpu_memory;

/* Replaces *most if the other memory is fuller, or if its needs are unknown. */
void dl_gpu_memory_most(dl_gpu_memory *most, const dl_gpu_memory *other);

dl_gpu_memory dl_gpu_options_memory(const dl_gpu_options *options, const dl_gpu_point *point);

/* Configuration of a collective among ranks[count]: an all-to-all is pairwise; a broadcast, and any
 * collective of hosts, a ring; a reduce-scatter or an all-gather a ring unless the options'
 * algorithm is "auto"; all others use that algorithm. Between GPUs, times measured for the workload
 * take precedence. The caller sets the remaining members (equal ranks, pause, transfer limit);
 * `ranks` is borrowed. */
dl_collective_config dl_gpu_options_collective(const dl_gpu_options *options,
                                               const dl_workload *workload, dl_collective_kind kind,
                                               const dl_place *ranks, int count, double bytes);

/* Price in USD per hour of the nodes that contain the first `gpus` GPUs or, if only the machine
 * file gives prices and these are per GPU, of these GPUs alone; NaN if neither the scenario nor the
 * machine file gives it. */
double dl_gpu_options_usd_per_hour(const dl_gpu_options *options, int gpus);

/* The least reliable origin of the machine file's figures for link classes, host memories, the
 * memory of GPUs (if a server is on one), the network's core and NCCL's protocols. */
dl_origin dl_gpu_options_origin(const dl_gpu_options *options);

/* Costs of one worker's step. */
typedef struct dl_gpu_step {
    double compute_ns, backward_ns, update_ns; /* as in dl_workload */
    double input_ns, input_bytes; /* time to make its batch, and the size of the batch */
    double input_copy_ns;         /* fixed time of the batch's copy to the GPU */
    double stored_bytes;          /* bytes read from storage for the batch */
} dl_gpu_step;

/* Number of steps that the host may launch ahead of the GPU; 0 if it reads back results. */
static inline int dl_gpu_options_ahead(const dl_gpu_options *options)
{
    return options->reads == DL_READS_NOTHING ? options->ahead : 0;
}

/* Steps of all workers. */
typedef struct dl_gpu_steps {
    const dl_gpu_step *of; /* [workers] if GPUs or shares of the batch differ, else [1] */
    bool differ;
} dl_gpu_steps;

static inline const dl_gpu_step *dl_gpu_step_of(dl_gpu_steps steps, int worker)
{
    return &steps.of[steps.differ ? worker : 0];
}

typedef struct dl_gpus_config {
    const dl_team_config *team; /* borrowed until dl_gpus_free, like the next three */
    const dl_gpu_options *options;
    const dl_workload *workload;
    dl_gpu_steps steps;
    dl_engine *engine; /* the team's engine, used when the team runs */
    int workers;
    int server_threads; /* threads per shard in host memory, >= 1 */
    dl_exchange_plan plan;
    double content_bytes; /* bytes of the exchanged vector */
    double inside_bytes;  /* > 0: bytes of gradients reduced within each site (or node) after each
                           * step */
    const dl_step_collective *before; /* [before_count] collectives that precede each step */
    int before_count;
    double pause_ns; /* idle time of the links before a collective exchange starts */
    bool with_input; /* batches are made and copied */
    /* For GPUs of multi-GPU workers (sim/island/island.h), which only exchange and share the
     * network with others; otherwise NULL. */
    dl_network *network;                      /* contains the machine's links; borrowed */
    void (*exchanged)(void *user, int agent); /* called instead of dl_team_done */
    /* Work that stops a GPU (number over all nodes), of a server on it or a staged copy, has
     * started (change 1) or ended (-1). */
    void (*stopped)(void *user, int gpu, int change);
    void (*fetched)(void *user, int worker); /* parameters of the worker have arrived from a server
                                              * that works tensor by tensor */
    void *user;
} dl_gpus_config;

/* Records the busiest link over span_s seconds, and the fraction of that time in which collectives
 * ran whose times were measured as a whole. Returns the link's number; -1 if no link was used, or
 * if it is a link of the machine, whose name is recorded. */
int dl_usage_note_links(dl_usage *usage, const dl_network *network, const dl_links *links,
                        double span_s);

/* The GPUs of a run's workers, with their exchange. */
typedef struct dl_gpus dl_gpus;

/* Creates the GPUs of a team of config->workers in *gpus, to be set as the team's config.machine.
 * DL_ERR_RANGE: too many buckets, messages or transfers; otherwise returns the errors of
 * dl_collective_init. *gpus is NULL after an error. dl_gpus_free accepts NULL. */
dl_status dl_gpus_create(dl_gpus **gpus, const dl_gpus_config *config, dl_error *err) DL_MUST_CHECK;
void dl_gpus_free(dl_gpus *gpus);

/* Platform functions for GPUs that only exchange. In this order: join the team; run an agent's
 * exchange; a worker joins or leaves; start the traffic of other jobs; largest number of concurrent
 * flows; the worker's site (or node). */
void dl_gpus_join(dl_gpus *gpus, dl_team *team);
void dl_gpus_exchange(dl_gpus *gpus, int agent, dl_exchange exchange);
void dl_gpus_members_changed(dl_gpus *gpus, int worker);
void dl_gpus_traffic_start(dl_gpus *gpus);
int dl_gpus_flows(const dl_gpus *gpus);
int dl_gpus_domain(const dl_gpus *gpus, int worker);

/* Adds the links of [input] storage_bytes_per_s and shared_storage_bytes_per_s. Returns the flow
 * classes of the nodes' storage, [nodes of the machine], owned by `gpus`; NULL: no limit. */
const int *dl_gpus_add_storage(dl_gpus *gpus);

/* For buckets that are exchanged as they become ready. dl_gpus_bucket_ready: records that the
 * worker's gradients of this bucket are ready. dl_gpus_buckets: number of buckets. */
void dl_gpus_bucket_ready(dl_gpus *gpus, int worker, int bucket);
int dl_gpus_buckets(const dl_gpus *gpus);

/* Whether the worker has the bucket's parameters, from a server that works tensor by tensor, for its
 * current step. */
bool dl_server_has(const dl_gpus *gpus, int worker, int bucket);

/* dl_gpus_moved_bytes: bytes moved between places. dl_gpus_sent_bytes: bytes sent to other domains,
 * [domains of the machine]. */
double dl_gpus_moved_bytes(const dl_gpus *gpus);
const double *dl_gpus_sent_bytes(const dl_gpus *gpus);

/* Slowdown of compute during collectives of the GPUs places[count]: that of the costs, or the
 * machine's if it is larger and another of the GPUs is on the first one's node. A collective over
 * several nodes, whose ports limit it, takes as much compute per byte as a ring inside the node,
 * spread over a longer time. */
double dl_gpus_slowdown(const dl_gpu_options *options, const dl_workload *workload,
                        const dl_place *places, int count);

/* Name of the network's link of this number if it was added for these GPUs; otherwise NULL. */
const char *dl_gpus_link_name(const dl_gpus *gpus, int number);

#endif
