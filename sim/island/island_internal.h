/* Workers of several GPUs, for their steps (island.c) and their making (island_make.c). A *plane*
 * is the GPUs with the same number in all workers: they exchange with one another. */
#ifndef DL_SIM_ISLAND_INTERNAL_H
#define DL_SIM_ISLAND_INTERNAL_H

#include "sim/island/island.h"
#include "sim/platform/gpu_input.h"

/* Route from a rank to that of the previous or next stage. */
typedef struct dl_island_way {
    int class;
    int64_t latency_ns;
    int domain; /* domain that the bytes leave; -1: they stay inside */
    int left;   /* only of the first GPU's: unfinished flows of all GPUs of the rank */
} dl_island_way;

typedef struct dl_island_reduction {
    dl_collective *of;  /* [parts] of the GPUs with the same part of the layers */
    int parts;          /* number simulated: the first stands for others on separate links */
    int left;           /* unfinished ones of these */
    double moved_bytes; /* by all parts */
    int64_t arrived_ns; /* arrival of the last rank */
    uint32_t *joined;   /* [shards] tasks */
    int joined_count;
} dl_island_reduction;

typedef struct dl_island {
    dl_program_run run;
    dl_island_way *ways;              /* [ranks x 2 (back, forward) x tensor] */
    dl_island_reduction *collectives; /* [collective_count of its program] */
    dl_noise *noise;                  /* [GPUs] */
    double *factor;                   /* [ranks] this step's noise factor of the slowest GPU */
    int64_t *free_ns;                 /* [ranks] end of its last computation */
    int *stops;    /* [ranks] servers at work on its GPUs; above 0 it stands still */
    double *speed; /* [ranks] otherwise */
    int weight;    /* ranks represented by one with tasks */
    int64_t spent_ns[DL_SPENT_COUNT]; /* of this step so far, all ranks together */
    int64_t bubble_ns;
    int64_t began_ns; /* start of its step; -1: none yet */
    bool works;       /* in a step */
    bool waits;       /* for the rest of a step that was cut to drain */
} dl_island;

/* Start times of a host thread's launches of steps. */
typedef struct dl_island_launches {
    int64_t *start_ns; /* [room] of the step modulo room */
    int room, started;
} dl_island_launches;

/* An agent's exchange on all planes. */
typedef struct dl_island_exchange {
    int left;                    /* planes on which it has not ended */
    int64_t since_ns, waited_ns; /* by all ranks that had exchanged before, up to since_ns */
} dl_island_exchange;

struct dl_islands {
    dl_islands_config config;
    dl_team *team;
    dl_network network;
    dl_island_program *programs; /* [program_count] one for all workers, or one each */
    int program_count, workers;
    int ranks, gpus;    /* of a worker */
    dl_island *islands; /* [workers] */
    dl_gpus **planes;   /* [plane_count] GPUs with the same number in all workers, for their
                         * exchange */
    int plane_count;
    int **plane_gpus; /* [plane_count][workers] */
    dl_workload *plane_workloads;
    dl_gpu_options *plane_options;
    dl_place *places;  /* [workers x gpus] */
    int *rank_of;      /* [all GPUs] worker x ranks + rank; -1: none */
    dl_place *loading; /* [workers x shards] ranks that take batches */
    bool *wants;       /* [workers x shards] they wait for a batch */
    dl_input input;
    const int *storage; /* of its batches: dl_gpus_add_storage */
    dl_dispatch dispatch;
    dl_island_launches *launches; /* [thread_count] */
    double *launch_ns;            /* [thread_count] of a step */
    int64_t *ended;               /* [thread_count] steps ended by all workers of the thread */
    dl_noise_source noise;
    dl_island_exchange *exchanging; /* [agents] */
    double slowdown; /* factor on computing beside the worker's own collectives, >= 1 */
    double crossed_bytes, sharded_bytes;
    double tensor_bytes;         /* between GPUs that divide layers */
    double *sent_bytes;          /* [domains] by crossings and shards */
    int64_t bubble_ns, *busy_ns; /* [stages] since the warm-up */
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

/* Number of workers represented by worker 0, including itself; else 1. */
static inline int dl_islands_copies(const dl_islands *is)
{
    return is->config.lone_worker ? is->workers : 1;
}

static inline int dl_islands_gpu(const dl_islands *is, int worker, int rank, int part)
{
    return worker * is->gpus + dl_split_gpu(dl_islands_split(is), rank, part);
}

/* Runs the tasks of a worker's step. */
extern const dl_program_owner dl_islands_owner;

/* Event handlers: an agent has exchanged on one more plane; a server's work on a GPU starts (1) or
 * ends (-1); a dl_island's collective of this number has ended; a loader has a batch. */
void dl_islands_exchanged(void *islands, int agent);
void dl_islands_stopped(void *islands, int gpu, int change);
void dl_islands_reduced(void *island, int number);
void dl_islands_came(void *islands, int loader);

#endif
