/* Internal interface of workers of several GPUs: steps (island.c) and initialisation
 * (island_make.c). A *plane* is the GPUs with the same number in all workers, which exchange with
 * one another. */
#ifndef DL_SIM_ISLAND_INTERNAL_H
#define DL_SIM_ISLAND_INTERNAL_H

#include "sim/island/island.h"
#include "sim/platform/gpu_input.h"

/* Route from a rank to a rank of the previous or next stage. */
typedef struct dl_island_way {
    int class;
    int64_t latency_ns;
    int domain; /* domain that the bytes leave; -1: they stay in one domain */
    int left;   /* only for the crossing's first route: number of its unfinished flows */
} dl_island_way;

typedef struct dl_island_reduction {
    dl_collective *of;  /* [parts] collectives of the GPUs with the same part of the layers, and
                         * the same experts if these are reduced */
    int parts;          /* number of simulated parts: 1 if the others use separate links in the same
                         * way */
    int left;           /* number of unfinished parts */
    double moved_bytes; /* bytes moved by all parts */
    int64_t arrived_ns; /* arrival of the last rank */
    uint32_t *joined;   /* [ranks of the collective] tasks that have joined */
    int joined_count;
} dl_island_reduction;

typedef struct dl_island {
    dl_program_run run;
    dl_island_way *ways;              /* [ranks x 2 (back, forward) x tensor] */
    dl_island_reduction *collectives; /* [collective_count of its program x dl_islands_groups] */
    dl_noise *noise;                  /* [GPUs] noise */
    double *factor;                   /* [ranks] noise factor of the slowest GPU in this step */
    int64_t *free_ns;                 /* [ranks] end of the last computation */
    uint32_t *awaits; /* [ranks] task that waits for parameters from a server, or DL_TASK_NONE */
    int *stops;    /* [ranks] number of servers' tasks and staged copies that stop the rank's GPUs;
                    * above 0 the rank is stopped */
    double *speed; /* [ranks] speed when not stopped */
    int64_t *stopped_since_ns; /* [ranks] start of the first of the current servers' work */
    int64_t *stopped_ns;       /* [ranks] time of the current task at which servers stopped it */
    int weight;                /* number of ranks that each simulated rank represents */
    int64_t spent_ns[DL_SPENT_COUNT]; /* total over all ranks in this step so far */
    int64_t bubble_ns;
    int64_t began_ns; /* start of the current step; -1: not started */
    bool works;       /* a step is running */
    bool waits;       /* waits for the rest of an aborted step to end */
} dl_island;

/* Start times of a host thread's launches. */
typedef struct dl_island_launches {
    int64_t *start_ns; /* [room] start by step number modulo room */
    int room, started;
} dl_island_launches;

/* An agent's exchange on all planes. */
typedef struct dl_island_exchange {
    int left;                    /* number of planes on which it has not ended */
    int64_t since_ns, waited_ns; /* waited_ns: total waiting time, up to since_ns, of the ranks that
                                  * had finished their exchange */
} dl_island_exchange;

struct dl_islands {
    dl_islands_config config;
    dl_team *team;
    dl_network network;
    dl_island_program *programs; /* [program_count] one for all workers, or one per worker */
    int program_count, workers;
    int ranks, gpus;    /* per worker */
    dl_island *islands; /* [workers] */
    dl_gpus **planes;   /* [plane_count] simulated planes */
    int plane_count;
    int plane_weight;   /* number of planes that each simulated one represents */
    int *plane_numbers; /* [plane_count] numbers of their GPUs */
    int *plane_of;      /* [gpus] index of the simulated plane; -1: represented by another one */
    int **plane_gpus;   /* [plane_count][workers] */
    dl_workload *plane_workloads;
    dl_gpu_options *plane_options;
    dl_place *places;  /* [workers x gpus] GPUs of the workers */
    int *rank_of;      /* [all GPUs] worker x ranks + rank; -1: unused */
    dl_place *loading; /* [workers x shards] GPUs of the ranks that take batches */
    bool *wants;       /* [workers x shards] the rank waits for a batch */
    dl_input input;
    const int *storage; /* flow classes for batches: dl_gpus_add_storage */
    dl_dispatch dispatch;
    dl_island_launches *launches; /* [thread_count] */
    double *launch_ns;            /* [thread_count] time to launch a step */
    int64_t *ended;               /* [thread_count] number of steps ended by all workers of the
                                   * thread */
    dl_noise_source noise;
    dl_island_exchange *exchanging; /* [agents] exchange in progress */
    double slowdown; /* factor on compute that overlaps the worker's own collectives, >= 1 */
    double crossed_bytes, sharded_bytes;
    double tensor_bytes;         /* bytes between GPUs that divide layers or sequences */
    double *sent_bytes;          /* [domains] bytes sent to other domains by crossings and shards */
    int64_t bubble_ns, *busy_ns; /* since the warm-up; busy_ns: [stages] */
    int64_t moved_ns,
        waited_ns; /* likewise: exchange and waiting among a worker's GPUs, summed over
                                  * the workers */
};

static inline dl_islands *dl_islands_of(const dl_team *team)
{
    return team->machine;
}

static inline const dl_island_program *dl_islands_program(const dl_islands *is, int worker)
{
    return &is->programs[is->program_count > 1 ? worker : 0];
}

static inline const dl_split *dl_islands_split(const dl_islands *is)
{
    return &is->config.shape.split;
}

/* Number of simulated groups of shards with the same experts in a stage. */
static inline int dl_islands_groups(const dl_islands *is)
{
    return dl_islands_split(is)->experts / is->config.shape.experts.each;
}

/* Number of collectives that run in parallel for `of`: one for each part of the layers and, for
 * experts, for each group that the simulated one represents. */
static inline int dl_islands_parts(const dl_islands *is, const dl_island_collective *of)
{
    return dl_islands_split(is)->tensor * (of->experts ? is->config.shape.experts.each : 1);
}

/* Number of shards in each of these collectives. */
static inline int dl_islands_shards(const dl_islands *is, const dl_island_collective *of)
{
    const dl_split *split = dl_islands_split(is);
    return of->experts ? dl_split_owners(split) : split->shards;
}

/* Number of workers that worker 0 represents, including itself; 1 if all are simulated. */
static inline int dl_islands_copies(const dl_islands *is)
{
    return is->config.lone_worker ? is->workers : 1;
}

static inline int dl_islands_gpu(const dl_islands *is, int worker, int rank, int part)
{
    return worker * is->gpus + dl_split_gpu(dl_islands_split(is), rank, part);
}

/* Callbacks that run the tasks of a worker's step. */
extern const dl_program_owner dl_islands_owner;

/* Callbacks. dl_islands_exchanged: an agent has exchanged on one more plane. dl_islands_stopped: a
 * server's work on a GPU starts (1) or ends (-1). dl_islands_reduced: one of the parts of a
 * dl_island's collectives[index] has ended. dl_islands_came: a loader has a batch.
 * dl_islands_fetched: parameters of the worker have arrived on a plane. */
void dl_islands_exchanged(void *islands, int agent);
void dl_islands_stopped(void *islands, int gpu, int change);
void dl_islands_reduced(void *island, int index);
void dl_islands_came(void *islands, int loader);
void dl_islands_fetched(void *islands, int worker);

#endif
