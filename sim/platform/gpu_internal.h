/* Internal interface of the GPUs of a run: steps (gpu.c), exchange (gpu_exchange.c) and collectives
 * (gpu_reduction.c). */
#ifndef DL_SIM_GPU_INTERNAL_H
#define DL_SIM_GPU_INTERNAL_H

#include <stdio.h>

#include "sim/platform/buckets.h"
#include "sim/platform/gpu.h"
#include "sim/platform/gpu_input.h"

/* Current activity of a worker's GPU. */
typedef enum dl_gpu_phase {
    DL_GPU_IDLE,
    DL_GPU_WAITS_FOR_COLLECTIVES,
    DL_GPU_WAITS_FOR_INPUT,
    DL_GPU_WAITS_FOR_LAUNCH,
    DL_GPU_WAITS_FOR_PARAMETERS, /* waits for the parameters of the current layers of the forward
                                  * pass */
    DL_GPU_COMPUTES,
    DL_GPU_WAITS_FOR_LAUNCH_END
} dl_gpu_phase;

/* Two cache lines; the first one holds the members that every step needs. */
typedef struct dl_gpu_worker {
    double work_ns; /* work of one pass (forward and backward), possibly including the update */
    double left_ns; /* full-speed work left in the segment at since_ns */
    double speed;   /* 1, or less while collectives run or other workers compute on its GPU; 0:
                     * stopped */
    int64_t since_ns;
    int event;   /* event of the segment's end; none at speed 0 */
    int segment; /* index of the current segment of the work: first those of the forward pass
                  * (forward_segments of gpu.c), then those of the backward pass, each up to the
                  * next ready bucket */
    int pass;    /* current pass of the step, from 0 */
    int flows;   /* number of flows in flight of its current exchange operation */
    int copies;  /* index in gpus->copies of its first push; the pushes to other shards and then its
                  * pulls follow */
    int pushes, pulls;             /* numbers of pushes and of pulls started, each to or from all
                                    * shards */
    uint8_t phase;                 /* a dl_gpu_phase */
    bool in_exchange;              /* waits for the end of an exchange */
    bool fetches;                  /* the worker itself fetches, not its communication thread */
    bool serves;                   /* at speed 0: a server stops it, not a copy */
    double backward_ns, update_ns; /* parts of its work; update_ns 0: no update */
    double push_bytes;             /* bytes of the current push before compression */
    int64_t rounds;                /* number of collective rounds (or pushes to a server that works
                                    * tensor by tensor) whose end it has seen */
    int64_t unused[4];
} dl_gpu_worker;

/* A collective that precedes each step; all groups of workers run it concurrently. */
typedef struct dl_before {
    dl_collective *collectives; /* [group_count] one per group */
    int group_count, group;     /* group: workers per group */
    int64_t calls;
    double moved_bytes; /* bytes moved per call, over all groups */
} dl_before;

/* Collectives of a step, run in sequence in each of its passes: the sums of all buckets, and the
 * gathers of sharded parameters. A round consists of all of them in all passes; but if parameters
 * are gathered after the update, each step has two rounds, one of the sums and one of that gather.
 * A worker joins a round when it starts to wait for its end. */
typedef struct dl_reduction {
    dl_collective *collectives; /* [collective_count] one per kind and size */
    int collective_count;
    int count;        /* number of collectives per pass, >= buckets */
    int *collective;  /* [count] index in `collectives`, in the order of the pass */
    dl_buckets parts; /* owns share and bytes_share */
    const double *share, *bytes_share;
    int buckets, next;
    bool running;
    int64_t started_ns;                 /* start of the running collective */
    int *ready;                         /* [count] number of workers that have reached the
                                         * collective in this pass */
    int gathered;                       /* number of gathers done in this pass of the step */
    int passes;                         /* number of passes of the step that have ended */
    int64_t rounds;                     /* number of rounds that have ended */
    int joined;                         /* number of workers that wait for the end of the current
                                         * round */
    double moved_bytes, gathered_bytes; /* bytes per pass over all workers, of all collectives
                                         * except the gather after the update, and of that gather */
    double transfers;                   /* number of transfers per pass, without collectives that
                                         * have measured times */
    bool stale;                         /* the present workers are not those that the collectives
                                         * were planned for */
    dl_place *places;                   /* [present] ranks of the collectives: GPUs of the present
                                         * workers, or their hosts */
    int present;
    int held, flows; /* numbers of transfers: of all planned collectives, and the largest of those
                      * that run concurrently */
    int64_t first_use_ns; /* delay before the first collective; 0 after it */
    dl_before *before;    /* [before_count] collectives that precede each step */
    int before_count;
    int before_at;      /* index in `before` of the running collective */
    int64_t calls_left; /* number of its calls that have not ended */
    int groups_left;    /* number of groups that have not ended its current call */
} dl_reduction;

/* Number of exchange kinds that a server performs; DL_BLEND is the last of them. */
#define DL_SERVER_EXCHANGES (DL_BLEND + 1)

/* A copy from one place to another. */
typedef struct dl_gpu_copy {
    int class; /* flow class */
    int64_t latency_ns;
    int holds[2]; /* GPUs (numbers over all nodes) that do not compute during the copy; -1: none */
    int domain;   /* domain that its bytes leave (dl_machine_domain); -1: they stay in one domain */
    bool is_remote; /* its ends are different places, or it is staged; its bytes count as moved */
    bool is_crowd;  /* the copy's class is shared by a crowd of workers */
} dl_gpu_copy;

/* Groups of workers whose copies differ only in unshared links (gpu_crowds.c). */
typedef struct dl_gpu_crowds dl_gpu_crowds;

/* A GPU that stops computing during staged copies and while a server works on it. */
typedef struct dl_gpu_held {
    int stops;         /* number of copies and servers that currently stop it */
    int servers;       /* number of servers among them */
    int worker;        /* worker on the GPU; -1: none */
    int64_t since_ns;  /* start of the first of the current servers' work */
    int64_t served_ns; /* time of servers' work that has ended */
} dl_gpu_held;

/* A parameter server that works tensor by tensor (gpu_server.c). */
typedef struct dl_server dl_server;

/* Workers of a site (or of a node, without sites) that reduce their gradients. */
typedef struct dl_inside {
    int first, count; /* range of workers */
    dl_collective collective;
} dl_inside;

typedef struct dl_gpu_link {
    int number; /* link number in the network */
    char name[DL_LINK_NAME_BYTES];
} dl_gpu_link;

/* Traffic of other jobs (gpu_traffic.c). */
typedef struct dl_gpu_traffic dl_gpu_traffic;

/* Callbacks from the exchange to the steps (gpu.c). */
typedef struct dl_gpu_listener {
    /* The compute speed of the worker (-1: of all workers) may have changed. */
    void (*speed_changed)(dl_gpus *gpus, int worker);
    void (*parameters_came)(dl_gpus *gpus, int worker); /* parameters that the worker's step may
                                                         * wait for have arrived */
    void (*start_steps)(dl_gpus *gpus); /* all collectives that precede the workers' steps have
                                         * ended */
} dl_gpu_listener;

struct dl_gpus {
    dl_gpus_config config;
    const dl_gpu_listener *listener;
    dl_team *team;       /* set by dl_gpus_join */
    dl_network *network; /* borrowed from the configuration, or owned */
    dl_dispatch dispatch;
    dl_inside *inside; /* [inside_count] NULL: no reductions within sites or nodes */
    int inside_count;
    dl_reduction reduction; /* with a server only its buckets are used */
    dl_server *server;      /* NULL: the server does not work tensor by tensor */
    dl_input input;
    dl_gpu_traffic *traffic; /* NULL: no traffic of other jobs */
    int *storage;            /* [nodes] flow classes of their storage; NULL: no limit */
    dl_gpu_worker *workers;  /* [workers] */
    dl_place *places;        /* [workers] their GPUs */
    dl_place *servers;       /* [shards] their locations */
    int *processes;          /* [shards] link of a host's server process, + 1; 0: not yet created;
                              * NULL: no limit */
    double *shard_share;     /* [shards] share of all bytes */
    int senders;             /* number of senders of gradients to a server: workers, or nodes that
                              * sum first */
    dl_gpu_copy *copies;     /* [copy_count] copies between workers and shards */
    size_t copy_count;
    double crowd_bytes[2]; /* bytes of a push, and of a pull, by each worker of a crowd */
    dl_gpu_copy *up,
        *down; /* [workers] copies from and to host memory, for collectives of the hosts; otherwise
                * NULL */
    int serving_threads; /* the larger of the numbers of workers and of server threads */
    /* [DL_SERVER_EXCHANGES x serving_threads x shards] flow class of a server's thread in host
     * memory, + 1; 0: not yet created. For DL_APPLY, the second index is the number of gradients of
     * the update - 1. */
    int *serving_class;
    int *memory_class; /* [all GPUs] class of flows over its memory, + 1; 0: not yet created */
    double slowdown;   /* slowdown of compute while a collective runs, >= 1 */
    bool slows;        /* GPUs compute at lower speed while collectives run */
    bool shared;       /* workers share at least one GPU */
    dl_gpu_held *held; /* [all GPUs] NULL: no GPU is ever stopped */
    int *staging;      /* [all GPUs] link of the driver's staged copies from the GPU, + 1; 0: not
                        * yet created */
    int *computing;    /* [all GPUs] number of workers that are computing on the GPU; only if
                        * shared */
    double *share;     /* [workers + 1] speed of each of k workers computing on one GPU: 1 / (k
                        * copies_k) */
    dl_gpu_link *own_links; /* [own_link_count] links added to the machine's */
    int own_link_count;
    double moved_bytes; /* bytes moved between places by the exchange */
    double *sent_bytes; /* [domains of the machine] part of moved_bytes that was sent to other
                         * domains */
};

void dl_gpus_traffic_init(dl_gpus *gpus);
void dl_gpus_traffic_free(dl_gpus *gpus);
int dl_gpus_traffic_flows(const dl_gpus *gpus); /* largest number of concurrent flows */

static inline dl_gpus *dl_gpus_of(const dl_team *team)
{
    return team->machine;
}

/* Factor >= 1 on the time of an operation of this worker (-1: of no worker) on the GPU, due to
 * other workers that compute there. */
double dl_gpus_slowed_by_others(const dl_gpus *gpus, int worker, dl_place gpu);

/* Number of the worker's GPU over all nodes, the index in dl_gpus.computing and .held. */
static inline int dl_gpus_number(const dl_gpus *gpus, int worker)
{
    return dl_place_gpu_number(&gpus->config.options->machine, gpus->places[worker]);
}

/* dl_gpus_pushes: the worker's copies to all shards. dl_gpus_pulls: the copies back. */
static inline const dl_gpu_copy *dl_gpus_pushes(const dl_gpus *gpus, int worker)
{
    return &gpus->copies[gpus->workers[worker].copies];
}

static inline const dl_gpu_copy *dl_gpus_pulls(const dl_gpus *gpus, int worker)
{
    return dl_gpus_pushes(gpus, worker) + gpus->config.options->shards;
}

/* Whether each layer of the forward pass waits only for its parameters. */
static inline bool dl_gpus_is_layered(const dl_gpus *gpus)
{
    const dl_fetch fetch = gpus->config.plan.fetch;
    if (gpus->config.plan.divides_parameters) return true;
    return gpus->server != NULL && (fetch == DL_FETCH_LAYERS || fetch == DL_FETCH_NEXT_STEP);
}

/* Creates links and flow classes of the exchange, and its buckets; the network must already have
 * the machine's links. dl_gpus_exchange_free accepts an object that was not initialised. */
dl_status dl_gpus_exchange_init(dl_gpus *gpus, dl_error *err) DL_MUST_CHECK;
void dl_gpus_exchange_free(dl_gpus *gpus);

/* Adds a named link after the machine's and returns its number; -1 if its rate is infinite. */
int dl_gpus_add_own_link(dl_gpus *gpus, double bytes_per_s, const char *format, ...)
    DL_PRINTF(3, 4);

/* Whether gradients are exchanged in each step: dl_gpus_reduce_gradients by collectives,
 * dl_gpus_serve_gradients by a server that can take them tensor by tensor. */
bool dl_gpus_reduce_gradients(const dl_gpus *gpus);
bool dl_gpus_serve_gradients(const dl_gpus *gpus);

/* Number of workers that take part in averages; before the run, all workers. */
int dl_gpus_present(const dl_gpus *gpus);

/* Creates the buckets, if gradients are exchanged in buckets, and the collectives: those of the
 * buckets, those that precede each step, and those inside sites. DL_ERR_RANGE: too many buckets or
 * transfers. */
dl_status dl_reduction_init(dl_gpus *gpus, dl_error *err) DL_MUST_CHECK;
void dl_reduction_free(dl_gpus *gpus);

/* The worker has ended a pass. Unless buckets are exchanged as they become ready, its gradients are
 * compressed, if the plan compresses, and copied to the host, for collectives of the hosts; all
 * buckets are then ready. */
void dl_reduction_pass_done(dl_gpus *gpus, int worker);

/* The worker has ended the step's last pass and starts to wait for the all-reduce of all buckets.
 * Calls dl_gpus_exchanged at the end. */
void dl_reduction_join(dl_gpus *gpus, int worker);

/* The worker starts to wait for the reduction of its site's gradients. Calls dl_gpus_ended at the
 * end. */
void dl_reduction_inside(dl_gpus *gpus, int worker);

/* Records that the bucket is ready on one more worker. */
void dl_reduction_ready(dl_gpus *gpus, int bucket);

/* The worker has updated its part and waits for all parameters. Calls dl_gpus_exchanged at the
 * end. */
void dl_reduction_gather(dl_gpus *gpus, int worker);

/* Sharded parameters are used twice per pass of the step, bucket by bucket: from the last bucket to
 * the first in the forward pass, in reverse order in the backward pass. dl_reduction_has: whether
 * the parameters of a use, 0 to 2 x buckets - 1, have arrived; the listener is called for all
 * workers when they arrive. dl_reduction_uses: one more worker starts a use, or the pass (-1), so
 * that the next use may be gathered. */
bool dl_reduction_has(const dl_gpus *gpus, int use);
void dl_reduction_uses(dl_gpus *gpus, int use);

/* dl_gpus_exchanged, an event handler: the exchange of a worker, or of its communication thread,
 * has ended. dl_gpus_ended: that of an agent has ended. */
void dl_gpus_exchanged(void *gpus, int worker);
void dl_gpus_ended(dl_gpus *gpus, int agent);

/* Reads and writes `traffic_bytes` in the memory of the worker's GPU, then calls done(gpus,
 * index). */
void dl_gpus_touch(dl_gpus *gpus, int worker, double traffic_bytes, dl_event_fn done, int index);

/* Compresses a vector of `bytes` of the worker, if the plan compresses, then calls done(gpus,
 * worker). */
void dl_gpus_pack(dl_gpus *gpus, int worker, double bytes, dl_event_fn done);

/* Sets up a copy between two places, over a staging link (-1: none) if one end is host memory.
 * dl_gpus_route leaves the class unset and returns the route. */
dl_gpu_copy dl_gpus_copy_of(dl_gpus *gpus, dl_place from, dl_place to, int staging);
dl_gpu_copy dl_gpus_route(dl_gpus *gpus, dl_place from, dl_place to, int staging, dl_route *route);

/* Adds a copy; returns its index in gpus->copies. */
int dl_gpus_add_copy(dl_gpus *gpus, dl_gpu_copy copy);

/* dl_gpu_crowds_new creates the crowds; NULL if none are possible. dl_gpu_crowds_find returns the
 * index of the push, followed by the pull, that the worker shares with its crowd; -1: the worker
 * needs separate copies. */
dl_gpu_crowds *dl_gpu_crowds_new(dl_gpus *gpus);
void dl_gpu_crowds_free(dl_gpu_crowds *crowds); /* accepts NULL */
int dl_gpu_crowds_find(dl_gpu_crowds *crowds, int worker);

/* After the run: adds the bytes that workers of crowds have pushed out of their sites, and those on
 * their unshared links. */
void dl_gpu_crowds_note_bytes(dl_gpus *gpus);

/* A copy that may stop GPUs (dl_gpus_hold), or the work of a shard, which stops the shard's GPU
 * (dl_gpus_hold_server), has started (change 1) or ended (-1). On GPUs that workers share, kernels
 * of several workers run concurrently, and shards stop nothing. */
void dl_gpus_hold(dl_gpus *gpus, dl_gpu_copy copy, int change);
void dl_gpus_hold_server(dl_gpus *gpus, int shard, int change);

/* Overhead in ns of an exchange operation on a GPU that a worker's thread launches and waits for:
 * the launch, and the thread's delay, as at the end of a step; 0 without in_turn. Workers that
 * compute on the GPU, except `worker` (-1: no exception), increase it as they do for their own
 * operations. */
double dl_gpus_launched_ns(const dl_gpus *gpus, int worker, dl_place gpu);

/* Does a worker's part of an exchange in the memory of its GPU, then calls done(gpus, worker). */
void dl_gpus_serve_itself(dl_gpus *gpus, int worker, dl_exchange_kind kind, double bytes,
                          dl_event_fn done);

/* Number of slices of a shard, one per thread; 1 on a GPU. */
int dl_gpus_serving_slices(const dl_gpus *gpus);

/* Starts to serve `bytes` by a thread of the shard; after its launch (dl_gpus_launched_ns) the
 * shard's GPU stops computing. At the end, calls done(gpus, index), which must call
 * dl_gpus_hold_server(gpus, shard, -1). */
void dl_gpus_serve(dl_gpus *gpus, const dl_exchange *exchange, int shard, int thread, double bytes,
                   dl_event_fn done, int index);

/* Whether some key requires ps to work tensor by tensor. */
bool dl_server_is_wanted(const dl_gpus *gpus);

/* Splits the buckets into messages and places them: creates gpus->shard_share, and gpus->server if
 * wanted. DL_ERR_RANGE: too many messages. */
dl_status dl_server_create(dl_gpus *gpus, dl_error *err) DL_MUST_CHECK;
void dl_server_free(dl_gpus *gpus);

/* Whether the server's senders, not the workers, compress tensors: the sums of nodes. */
bool dl_server_packs(const dl_gpus *gpus);

/* Largest number of concurrent flows of the server; 0 without one. */
int dl_server_most_flows(const dl_gpus *gpus);

/* dl_server_ready: the worker's gradients of a bucket are ready. dl_server_push, dl_server_pull:
 * the worker has reached the push, or the pull, of all buckets. */
void dl_server_ready(dl_gpus *gpus, int worker, int bucket);
void dl_server_push(dl_gpus *gpus, int worker);
void dl_server_pull(dl_gpus *gpus, int worker);

/* Whether the host launches the next step once it has the output of the forward pass. */
static inline bool dl_gpus_reads_forward(const dl_gpus *gpus)
{
    return gpus->config.options->reads == DL_READS_FORWARD && gpus->config.options->ahead > 0;
}

/* The worker has reached the first collective that precedes its step. */
void dl_reduction_before(dl_gpus *gpus, int worker);

#endif
