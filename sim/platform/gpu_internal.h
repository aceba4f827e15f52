/* The GPUs of a run, for their steps (gpu.c), their exchange (gpu_exchange.c) and their collectives
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
    DL_GPU_WAITS_FOR_PARAMETERS, /* of the current layers of the forward pass */
    DL_GPU_COMPUTES,
    DL_GPU_WAITS_FOR_LAUNCH_END
} dl_gpu_phase;

/* Two cache lines; the first has the members that every step needs. */
typedef struct dl_gpu_worker {
    double work_ns; /* of forward and backward, or with the update */
    double left_ns; /* of the segment, at full speed, as of since_ns */
    double speed;   /* 1, or less while collectives run or others compute on its GPU; 0: held */
    int64_t since_ns;
    int event;   /* its end; none at speed 0 */
    int segment; /* of the work: of the forward pass, if layers wait for their parameters, then of
                  * the backward pass, between ready buckets */
    int pass;    /* of the step */
    int flows;   /* of the current piece of exchange that have not ended */
    int copies;  /* number of its first push, followed by those to other shards, then its pulls */
    int pushes, pulls;             /* started, to each shard */
    uint8_t phase;                 /* dl_gpu_phase */
    bool in_exchange;              /* waits for the end of an exchange */
    bool fetches;                  /* fetches itself, not by its communication thread */
    double backward_ns, update_ns; /* parts of its work; no update: 0 */
    double push_bytes;             /* of the current push, before it is packed */
    int64_t rounds;                /* of collectives whose end it has seen */
    int64_t unused[4];
} dl_gpu_worker;

/* A collective before each step, which all groups of workers run concurrently. */
typedef struct dl_before {
    dl_collective *collectives; /* [group_count] */
    int group_count, group;     /* group: workers of each */
    int64_t calls;
    double moved_bytes; /* of a call, of all groups */
} dl_before;

/* Collectives of a step, run one after another: the sums of all buckets, and the gathers of divided
 * parameters. A worker joins a round: all of them, or, where parameters are gathered after the
 * update, the sums, then the gather. */
typedef struct dl_reduction {
    dl_collective *collectives; /* [collective_count] one of each kind and size */
    int collective_count;
    int count;        /* of the step's, >= buckets */
    int *collective;  /* [count] index in collectives */
    dl_buckets parts; /* whose share, bytes_share and count are */
    const double *share, *bytes_share;
    int buckets, next;
    bool running;
    int64_t started_ns;                 /* of the running one */
    int *ready;                         /* [count] workers that have reached it in this step */
    int gathered;                       /* gathers done in this pass of the step */
    int passes;                         /* of the step that have ended */
    int64_t rounds, ended_ns;           /* ended rounds, and the end of the last one */
    int joined;                         /* workers waiting for the end of the current one */
    double moved_bytes, gathered_bytes; /* of a step, over all workers; after the update */
    double transfers;                   /* of a round that are simulated */
    bool stale;                         /* the present workers are not those of the collectives */
    dl_place *places;                   /* [present] GPUs of the present workers */
    int present;
    int held, flows;      /* transfers of all different collectives, and of the largest one */
    int64_t first_use_ns; /* before the next collective; 0 after the first one */
    dl_before *before;    /* [before_count] collectives before each step */
    int before_count;
    int before_at;      /* the running one, */
    int64_t calls_left; /* its calls not yet ended, */
    int groups_left;    /* and groups that have not ended the current one */
} dl_reduction;

/* Kinds of exchange done by a server: those up to this one. */
#define DL_SERVER_EXCHANGES (DL_BLEND + 1)

/* A copy from one place to another. */
typedef struct dl_gpu_copy {
    int class; /* of its flows */
    int64_t latency_ns;
    int holds[2];   /* GPUs that do not compute meanwhile, over all nodes; -1: none */
    int domain;     /* the one its bytes leave (dl_machine_domain); -1: they stay in one */
    bool is_remote; /* not within one GPU */
    bool is_crowd;  /* shared by a crowd of workers */
} dl_gpu_copy;

/* Workers whose copies differ only in unshared links (gpu_crowds.c). */
typedef struct dl_gpu_crowds dl_gpu_crowds;

/* A GPU that does not compute during staged copies, or while a server works on it. */
typedef struct dl_gpu_held {
    int stops;  /* current number of these */
    int worker; /* on it; -1: none */
} dl_gpu_held;

/* A parameter server that works tensor by tensor (gpu_server.c). */
typedef struct dl_server dl_server;

/* Workers of a site, or of a node where there are no sites, that reduce their gradients. */
typedef struct dl_inside {
    int first, count; /* workers */
    dl_collective collective;
} dl_inside;

typedef struct dl_gpu_link {
    int number; /* in the network */
    char name[DL_LINK_NAME_BYTES];
} dl_gpu_link;

/* Traffic of other jobs (gpu_traffic.c). */
typedef struct dl_gpu_traffic dl_gpu_traffic;

/* Events of the exchange, for the steps (gpu.c). */
typedef struct dl_gpu_listener {
    /* The worker's compute speed may have changed; -1: of all workers. */
    void (*speed_changed)(dl_gpus *gpus, int worker);
    void (*parameters_came)(dl_gpus *gpus, int worker); /* parameters that its step may wait for
                                                         * have arrived */
    void (*start_steps)(dl_gpus *gpus); /* all collectives before the workers' steps have ended */
} dl_gpu_listener;

struct dl_gpus {
    dl_gpus_config config;
    const dl_gpu_listener *listener;
    dl_team *team;       /* since its init */
    dl_network *network; /* the config's, or its own */
    dl_dispatch dispatch;
    dl_inside *inside; /* [inside_count] NULL: no reductions within sites or nodes */
    int inside_count;
    dl_reduction reduction; /* with a server only its buckets are used */
    dl_server *server;      /* for ps tensor by tensor; NULL: none */
    dl_input input;
    dl_gpu_traffic *traffic; /* NULL: no other jobs */
    int *storage;            /* [nodes] classes of flows from their storage; NULL: no limit */
    dl_gpu_worker *workers;  /* [workers] */
    dl_place *places;        /* [workers] GPUs */
    dl_place *servers;       /* [shards] */
    int *processes;          /* [shards] links of a host's server process, + 1; 0: not yet created;
                             * NULL: no limit */
    double *shard_share;     /* [shards] of all bytes */
    int senders;             /* of gradients to a server: workers, or nodes that sum first */
    dl_gpu_copy *copies;     /* [copy_count] of workers to and from shards */
    size_t copy_count;
    double crowd_bytes[2]; /* of each push and pull of crowds */
    dl_gpu_copy *up,
        *down; /* [workers] from and to host memory, for collectives of the hosts; else NULL */
    int serving_threads; /* as many as workers, and as the server's threads */
    /* [DL_SERVER_EXCHANGES x serving_threads x shards] class of a server's thread, or of its GPU, +
     * 1; 0: not yet created. For DL_APPLY, index = gradients of the update - 1 */
    int *serving_class;
    int *memory_class; /* [all GPUs] of flows over its memory, + 1; 0: not yet created */
    double slowdown;   /* of computing while a collective runs, >= 1 */
    bool slows;        /* GPUs compute while collectives run, at lower speed */
    bool shared;       /* some GPU is shared by workers */
    dl_gpu_held *held; /* [all GPUs] NULL: nothing stops a GPU */
    int *staging;      /* [all GPUs] links of the driver's staged copies from it, + 1; 0: not yet
                     * created */
    int *computing;    /* [all GPUs] workers computing there now; only if shared */
    double *share;     /* [workers + 1] speed of each of k workers computing on a GPU: 1 / (k
                     * copies_k) */
    dl_gpu_link *own_links; /* [own_link_count] added to the machine's */
    int own_link_count;
    double moved_bytes; /* between places, by exchange */
    double *sent_bytes; /* [domains of the machine] of these, to other domains */
};

void dl_gpus_traffic_init(dl_gpus *gpus);
void dl_gpus_traffic_free(dl_gpus *gpus);
int dl_gpus_traffic_flows(const dl_gpus *gpus); /* the most at a time */

static inline dl_gpus *dl_gpus_of(const dl_team *team)
{
    return team->machine;
}

/* Slowdown of an operation of this worker (-1: of none) by the others computing on this GPU. */
double dl_gpus_slowed_by_others(const dl_gpus *gpus, int worker, dl_place gpu);

/* The worker's GPU over all nodes, as in dl_gpus.computing and .held. */
static inline int dl_gpus_number(const dl_gpus *gpus, int worker)
{
    return dl_place_gpu_number(&gpus->config.options->machine, gpus->places[worker]);
}

/* The worker's copies to all shards, and back. */
static inline const dl_gpu_copy *dl_gpus_pushes(const dl_gpus *gpus, int worker)
{
    return &gpus->copies[gpus->workers[worker].copies];
}

static inline const dl_gpu_copy *dl_gpus_pulls(const dl_gpus *gpus, int worker)
{
    return dl_gpus_pushes(gpus, worker) + gpus->config.options->shards;
}

/* Whether layers of the forward pass wait only for their own parameters. */
static inline bool dl_gpus_is_layered(const dl_gpus *gpus)
{
    const dl_fetch fetch = gpus->config.options->fetch;
    if (gpus->config.plan.divides_parameters) return true;
    return gpus->server != NULL && (fetch == DL_FETCH_LAYERS || fetch == DL_FETCH_NEXT_STEP);
}

/* Creates links and classes of flows of the exchange, and its buckets; the network must have the
 * machine's links. dl_gpus_exchange_free accepts an object that was not set up. */
dl_status dl_gpus_exchange_init(dl_gpus *gpus, dl_error *err) DL_MUST_CHECK;
void dl_gpus_exchange_free(dl_gpus *gpus);

/* Adds a named link after the machine's; returns -1 if it limits nothing. */
int dl_gpus_add_own_link(dl_gpus *gpus, double bytes_per_s, const char *format, ...)
    DL_PRINTF(3, 4);

/* Whether gradients are summed in each step: by collectives, or by a server for which the step
 * waits. */
bool dl_gpus_reduce_gradients(const dl_gpus *gpus);
bool dl_gpus_serve_gradients(const dl_gpus *gpus);

/* Number of workers that take part in averages; before the run, all. */
int dl_gpus_present(const dl_gpus *gpus);

/* Creates the buckets, if gradients are exchanged in buckets, and their collectives, those of the
 * model's buffers and those inside sites. DL_ERR_RANGE: too many buckets or transfers. */
dl_status dl_reduction_init(dl_gpus *gpus, dl_error *err) DL_MUST_CHECK;
void dl_reduction_free(dl_gpus *gpus);

/* The worker waits for the all-reduce of all buckets; unless they start as they are ready, all are.
 * dl_gpus_exchanged follows. */
void dl_reduction_join(dl_gpus *gpus, int worker);

/* The worker waits for the reduction of its site's gradients; dl_team_done follows. */
void dl_reduction_inside(dl_gpus *gpus, int worker);

/* The bucket is ready on one more worker. */
void dl_reduction_ready(dl_gpus *gpus, int bucket);

/* The worker, which has updated its part, waits for all parameters; dl_gpus_exchanged follows. */
void dl_reduction_gather(dl_gpus *gpus, int worker);

/* Sharded parameters are used twice a step, bucket by bucket: from the last bucket to the first in
 * the forward pass, back in the backward pass. dl_reduction_has: whether the parameters of use 0 ..
 * 2 buckets - 1 have arrived; the listener is told for all workers when they arrive.
 * dl_reduction_uses: one more worker starts a use, or the step (-1), so that the next use may be
 * gathered. */
bool dl_reduction_has(const dl_gpus *gpus, int use);
void dl_reduction_uses(dl_gpus *gpus, int use);

/* An event: the exchange of the worker, or its communication thread, has ended; of an agent. */
void dl_gpus_exchanged(void *gpus, int worker);
void dl_gpus_ended(dl_gpus *gpus, int agent);

/* Reads and writes `traffic_bytes` in the memory of the worker's GPU; then done(gpus, index). */
void dl_gpus_touch(dl_gpus *gpus, int worker, double traffic_bytes, dl_event_fn done, int index);

/* Makes the worker's message of a vector of `bytes`, if the plan has messages; then done(gpus,
 * worker). */
void dl_gpus_pack(dl_gpus *gpus, int worker, double bytes, dl_event_fn done);

/* A copy between two places, over a staging link where one end is host memory (-1: none).
 * dl_gpus_route gives the route instead of the copy's class. */
dl_gpu_copy dl_gpus_copy_of(dl_gpus *gpus, dl_place from, dl_place to, int staging);
dl_gpu_copy dl_gpus_route(dl_gpus *gpus, dl_place from, dl_place to, int staging, dl_route *route);

/* Adds a copy; returns its number in gpus->copies. */
int dl_gpus_add_copy(dl_gpus *gpus, dl_gpu_copy copy);

/* Creates crowds; NULL where there can be none. dl_gpu_crowds_find returns the number of the push,
 * followed by its pull, that the worker shares with its crowd; -1: the worker needs copies of its
 * own. */
dl_gpu_crowds *dl_gpu_crowds_new(dl_gpus *gpus);
void dl_gpu_crowds_free(dl_gpu_crowds *crowds); /* NULL is fine */
int dl_gpu_crowds_find(dl_gpu_crowds *crowds, int worker);

/* After the run: adds the bytes that workers of crowds have pushed from their sites, and those on
 * their unshared links. */
void dl_gpu_crowds_note_bytes(dl_gpus *gpus);

/* A copy that may stop GPUs, or the work of a shard, which stops the one that it is on, has started
 * (1) or ended (-1). On GPUs that workers share, kernels of several run at the same time, and
 * nothing stops for a shard. */
void dl_gpus_hold(dl_gpus *gpus, dl_gpu_copy copy, int change);
void dl_gpus_hold_server(dl_gpus *gpus, int shard, int change);

/* Overhead in ns of an operation of an exchange on a GPU that a worker's thread launches and waits
 * for: the launch, and the thread's delay, as at the end of a step. Workers that compute on the
 * GPU, except `worker` (-1: none is excepted), increase it like that of their own operations. */
double dl_gpus_launched_ns(const dl_gpus *gpus, int worker, dl_place gpu);

/* Does a worker's exchange work in its own memory; then done(gpus, worker). */
void dl_gpus_serve_itself(dl_gpus *gpus, int worker, dl_exchange_kind kind, double bytes,
                          dl_event_fn done);

/* Number of a shard's threads, each of which serves a slice; 1 on a GPU, which serves all. */
int dl_gpus_serving_slices(const dl_gpus *gpus);

/* A thread of the shard starts to serve `bytes`, and the shard's GPU stops computing. When served,
 * calls done(gpus, index), which must call dl_gpus_hold_server(gpus, shard, -1). */
void dl_gpus_serve(dl_gpus *gpus, const dl_exchange *exchange, int shard, int thread, double bytes,
                   dl_event_fn done, int index);

/* Whether ps works tensor by tensor, as requested by some key. */
bool dl_server_is_wanted(const dl_gpus *gpus);

/* Splits the buckets into messages and places them: creates gpus->shard_share, and gpus->server if
 * wanted. DL_ERR_RANGE: too many messages. */
dl_status dl_server_create(dl_gpus *gpus, dl_error *err) DL_MUST_CHECK;
void dl_server_free(dl_gpus *gpus);

/* Most flows at a time. */
int dl_server_most_flows(const dl_gpus *gpus);

/* dl_server_ready: the worker's gradients of a bucket are ready. dl_server_push, dl_server_pull: it
 * has reached the push, or the pull, of all buckets. */
void dl_server_ready(dl_gpus *gpus, int worker, int bucket);
void dl_server_push(dl_gpus *gpus, int worker);
void dl_server_pull(dl_gpus *gpus, int worker);

/* Whether the worker has the bucket's parameters for its current step; the listener is told when
 * that may have changed. */
bool dl_server_has(const dl_gpus *gpus, int worker, int bucket);

/* run_directly of the platform (gpu_direct.c). */
bool dl_gpus_run_directly(dl_team *team);

/* Work of a worker's step in ns at full speed, without the noise. */
static inline double dl_gpus_work_ns(const dl_gpu_step *step, double slow, bool with_update)
{
    return slow * step->compute_ns + (with_update ? step->update_ns : 0);
}

/* Whether the host starts the next step once it has the forward pass's output. */
static inline bool dl_gpus_reads_forward(const dl_gpus *gpus)
{
    return gpus->config.options->reads == DL_READS_FORWARD && gpus->config.options->ahead > 0;
}

/* Event handler: all workers have reached a collective of all buckets, which starts now. Its end is
 * gpus->reduction.ended_ns. */
void dl_gpus_reduce_all(void *gpus, int unused);

/* The worker has reached the first collective before its step. */
void dl_reduction_before(dl_gpus *gpus, int worker);

#endif
