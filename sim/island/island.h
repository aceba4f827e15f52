/* Workers of several GPUs that hold a model together: its layers in stages (sim/island/split.h),
 * each stage sharded over `shards` ranks. The GPUs' work in a step is a program
 * (sim/step/program.h); the exchange between workers follows the sync mode, as with one GPU per
 * worker: rank r of each worker exchanges its part with rank r of the others, all ranks
 * concurrently on the machine's links.
 *
 *   gpipe, 2 stages, 3 micro-batches            1f1b
 *   stage 0  F0 F1 F2 .  .  B0 B1 B2              F0 F1 .  B0 F2 B1 .  B2
 *   stage 1     F0 F1 F2 B0 B1 B2                    F0 B0 F1 B1 F2 B2
 *
 * Stages. A stage starts a forward pass when the activations of the previous stage have crossed,
 * and a backward pass when the gradients of the next one have; crossings are flows, in sequence on
 * each route, while the stages continue computing. With s equal stages, m micro-batches of (f, b)
 * and nothing else, a step takes (m + s - 1)(f + b) in either schedule; the bubble is (s - 1) / (m
 * + s - 1).
 *
 * Interleaved. Each stage has v chunks of layers, and activations of the last stage go to the first
 * stage's next chunk: the bubble lasts (s - 1) / v passes of micro-batches.
 *
 * Without a flush (pipedream, 2bw) a stage continues with the next step's passes. The steady state
 * is simulated, in which each stage has its inputs and a step takes as long as the slowest stage or
 * crossing, m (f + b) with equal stages. The first step, which fills the pipeline, is not modelled.
 *
 * Shards. Each rank has a part of its stage's parameters, gradients and optimizer state, and of
 * each micro-batch. As in FSDP, parameters are gathered bucket by bucket before each use (the next
 * bucket's while the current ones are used), and gradients are reduce-scattered after the backward
 * pass of each bucket. With several stages, the stages gather concurrently from the start of a
 * step, and keep the parameters (Megatron-LM's align_param_gather); gradients are reduced in the
 * last backward pass.
 *
 * Divided sequences. GPUs with parts of the same sequence sum their gradients like shards, whether
 * or not parameters are sharded: if not, each rank exchanges its part of the sums with the other
 * workers, and all parameters are gathered in the first forward pass of a step. A ring of keys and
 * values makes a hop concurrently with each block of attention; the part of the hop that exceeds
 * the block is added to the pass.
 *
 * Divided experts. GPUs with different experts sum their gradients like shards, too, but for those
 * of experts, which only the GPUs with the same ones sum. All-to-alls of tokens are part of the
 * passes.
 *
 * Divided layers. A rank is the GPUs (tp) that divide its layers; they gather and reduce
 * activations in each layer and so wait for the slowest of them. The time of a pass's collectives
 * is computed before the run, on links that all ranks of the same nodes use simultaneously, and
 * added to each part of the pass. The GPUs with the same part of the layers exchange parameters,
 * gradients and activations.
 *
 * Parameters that a server sends layer by layer ([exchange] fetch = layers, next_step) are awaited
 * bucket by bucket in a step's first forward pass; shards gather a bucket once all of them have
 * theirs.
 *
 * Gradients that the workers sum are exchanged as soon as a rank has them (through a server only
 * with [exchange] overlap; by hosts once all ranks have theirs): bucket by bucket with overlap and
 * one chunk per stage if they are sharded, or there is one stage, or bucket_bytes is given;
 * otherwise after the rank's last backward pass. The ranks of a worker end a step together, as when
 * the norm of all gradients is clipped.
 *
 * A GPU's time is computing, dispatch (the host has not launched the next task), communication
 * (waiting for a crossing or a collective of the worker's own ranks; the exchange between workers),
 * input, or waiting: for other workers, or for a rank that has not computed yet (the bubble).
 *
 * Host threads (sim/platform/dispatch.h) launch each forward and backward pass: the serial part
 * once per step, then pass by pass; a single thread takes the GPUs in turn. Each rank of the first
 * stage has a batch. Noise is drawn for each GPU and step; a slow worker is slow in all ranks.
 *
 * Not modelled: data-dependent work; labels sent to the last stage; launches of crossing copies and
 * collectives; slowdown of compute by crossings and by the exchange between workers. */
#ifndef DL_SIM_ISLAND_H
#define DL_SIM_ISLAND_H

#include "sim/island/split.h"
#include "sim/platform/buckets.h"
#include "sim/step/program.h"
#include "sim/step/recorded.h"

extern const dl_platform dl_platform_islands;

/* --- the program of a step (island_program.c) ------------------------------------------------- */

typedef enum dl_island_task {
    DL_ISLAND_FORWARD,
    DL_ISLAND_BACKWARD,
    DL_ISLAND_UPDATE,
    DL_ISLAND_MESSAGE,  /* compresses gradients ([exchange] compress) */
    DL_ISLAND_RECORDED, /* a task of a recorded step */
    DL_ISLAND_LAUNCHED, /* the host has launched a pass; takes no time */
    DL_ISLAND_TENSOR,   /* collectives of the rank's own GPUs, in the pass of the next task */
    DL_ISLAND_INPUT,    /* owned: the rank waits for its batch */
    DL_ISLAND_CROSSING, /* owned; slot: number of the route, rank x 2, + 1 if forward */
    DL_ISLAND_GATHER,   /* owned, like the next one; slot: collective */
    DL_ISLAND_SCATTER,
    DL_ISLAND_READY,     /* owned, takes no time: the rank's gradients of bucket `slot` are ready */
    DL_ISLAND_PARAMETERS /* owned: the rank waits for the parameters of bucket `slot`, -1: for all */
} dl_island_task;

/* Time and bytes of a pass's collectives: among the GPUs that divide a rank's layers, in the rings
 * of GPUs with parts of the same sequence, and in all-to-alls of GPUs that divide the experts. */
typedef struct dl_island_tensor {
    double ns, sent_bytes;
} dl_island_tensor;

/* Items in groups of `each` that are alike: only the first of a group is simulated. */
typedef struct dl_alike {
    int each;     /* 1: every item is simulated */
    int *members; /* [items] group by group */
    int *at;      /* [items] index of the item in `members` */
} dl_alike;

static inline int dl_alike_group(const dl_alike *alike, int item)
{
    return alike->at[item] / alike->each;
}

/* Item `number` of the item's group; 0: the simulated one. */
static inline int dl_alike_member(const dl_alike *alike, int item, int number)
{
    return alike->members[dl_alike_group(alike, item) * alike->each + number];
}

static inline bool dl_alike_is_first(const dl_alike *alike, int item)
{
    return alike->at[item] % alike->each == 0;
}

typedef struct dl_island_shape {
    dl_split split;
    dl_exchange_plan within; /* exchange plan among the shards of a worker */
    dl_schedule schedule;
    const dl_stage *stages;    /* [split.stages] */
    const dl_stage *pieces;    /* [split.stages x split.chunks] pieces, whose sums per stage are in
                                * `stages` */
    const dl_buckets *buckets; /* [split.stages] NULL: all gradients of a rank are ready together */
    const dl_island_tensor
        *tensors;           /* [ranks x chunks x 2 (backward, forward)]; NULL: neither layers nor
                             * sequences nor experts are divided */
    bool exchanges_buckets; /* workers exchange bucket by bucket, not all gradients together */
    bool without_waits;     /* stages do not wait for each other */
    bool free_crossing;     /* crossings take no time */
    bool with_input;
    dl_alike shards;          /* shards of a stage that work in lockstep */
    dl_alike experts;         /* parts of the experts whose shards are alike */
    bool awaits_parameters;   /* in a step's first forward pass, layers wait for their parameters
                               * from a server */
    bool lone_crossings;      /* only the crossings of simulated shards are simulated */
    bool tells_ready;         /* adds DL_ISLAND_READY tasks */
    const double *message_ns; /* [stages] time to compress all gradients of a GPU; 0: none */
    double launch_ns;   /* launch time of all forward and backward passes of the whole model */
    bool reads_batches; /* the host reads batches (DL_READS_BATCH) */
    bool single_thread; /* one thread launches the passes of all workers, in turn */
    int workers;        /* number of workers served by that thread, each with the same program */
    const dl_recorded *recorded; /* recorded step of the only rank, which replaces passes; NULL:
                                  * passes */
} dl_island_shape;

/* A collective of all shards of a stage of a worker, or of those with the same experts. */
typedef struct dl_island_collective {
    int stage, bucket;
    bool gathers, experts;
} dl_island_collective;

typedef struct dl_island_program {
    dl_program program;
    int *rank;              /* [task_count] rank of each task */
    int *pass;              /* [task_count] of a pass: its micro-batch; of a crossing: the task
                             * whose result crosses; of a collective: 1 if it is the last one of
                             * an exchange */
    double *crossing_bytes; /* [task_count] for a crossing: bytes from one GPU */
    dl_island_collective *collectives; /* [collective_count] */
    int collective_count;
    uint32_t *needed; /* [ranks] task of another rank that the first pass needs, or DL_TASK_NONE */
    int ranks;
    double thread_ns; /* time for the single thread to launch a step of all workers */
    double *rank_ns;  /* [ranks] time for the rank's thread to launch a step; NULL: a single
                       * thread */
} dl_island_program;

/* Lanes of a rank: compute stream, update, batch, stream of its collectives, crossings backward and
 * forward. */
enum {
    DL_ISLAND_COMPUTES,
    DL_ISLAND_UPDATES,
    DL_ISLAND_LOADS,
    DL_ISLAND_COMMUNICATES,
    DL_ISLAND_SENDS, /* crossings backward; + 1: crossings forward */
    DL_ISLAND_LANES = DL_ISLAND_SENDS + 2
};

static inline uint32_t dl_island_lane(int rank, int lane)
{
    return (uint32_t)(rank * DL_ISLAND_LANES + lane);
}

/* Builds the program of a step. Its tasks include the host's launch times; with a single thread,
 * those of worker `worker`. */
void dl_island_program_make(dl_island_program *made, const dl_island_shape *shape, int worker);
void dl_island_program_free(dl_island_program *made);

/* --- collectives within layers (island_tensor.c) --------------------------------------------- */

/* Computes the times of the collectives in each rank's passes over these pieces, in the worker
 * where they take longest. *made: [ranks x chunks x 2], which the caller frees; NULL if neither
 * layers nor sequences nor experts are divided. Returns the errors of dl_collective_init. */
dl_status dl_island_price_tensors(const dl_gpu_options *options, const dl_workload *workload,
                                  const dl_costs *costs, const dl_split *split,
                                  const dl_stage *pieces, int workers, dl_island_tensor **made,
                                  dl_error *err) DL_MUST_CHECK;

/* --- the platform (island.c) ------------------------------------------------------------------ */

typedef struct dl_islands_config {
    dl_island_shape shape;    /* its arrays are borrowed until dl_islands_free, like all pointers
                               * here */
    dl_gpus_config gpus;      /* exchange between workers: bytes are those of the whole model, of
                               * which each plane takes its share */
    const double *held_share; /* [stages] share of the exchanged bytes that a stage holds, over all
                               * its shards */
    const double *slow;       /* [GPUs] factor on the times of passes */
    const dl_noise_config *noise;
    dl_gpu_step batch; /* of a rank; only its input is used */
    bool exchanges;    /* workers exchange, or the only one uses a server; otherwise only one plane
                        * is simulated */
    bool lone_worker;  /* workers run in lockstep: only the first one's steps are simulated. If they
                      * do not start simultaneously, the team is undecided. */
    int lines;         /* number of GPUs of a stage (dl_split_line) whose exchange between workers
                        * is simulated; the others' is equal */
} dl_islands_config;

typedef struct dl_islands dl_islands;

/* Creates workers of several GPUs; parameters and errors as for dl_gpus_create. */
dl_status dl_islands_create(dl_islands **islands, const dl_islands_config *config,
                            dl_error *err) DL_MUST_CHECK;
void dl_islands_free(dl_islands *islands);

/* Sets the shape's groups of shards and experts that are alike; with `folds`, several may be. The
 * shards of a stage work in lockstep if each rank has its own host thread, and none is slower or
 * waits for a batch being made or read. All are alike if none has slower collectives within layers
 * or different routes to the next stage or to those with the same experts; otherwise those with the
 * same place on different nodes may be. */
void dl_island_find_alike(dl_islands_config *config, bool folds);
void dl_alike_free(dl_alike *alike);

/* Whether the steps of all workers are equal: there are several workers, without a common host
 * thread or traffic of other jobs, and none is slower, waits for batches, has different routes
 * between its GPUs, or shares a link of these routes with another worker. The different places of
 * the workers in the trees of an exchange are neglected, which makes steps up to 0.3 % shorter
 * (tp=4,fsdp=8,dp=16 of llama3_8b on 64 DGX H100). */
bool dl_island_workers_are_alike(const dl_islands_config *config);

/* The number of GPUs of a stage that represent all of its GPUs in the exchange between equivalent
 * workers: those on one node, if all nodes correspond and their exchanges share no link. */
int dl_island_lines_apart(const dl_islands_config *config);

/* After the run. bubble_frac: fraction of all GPUs' time spent waiting for other ranks of their
 * worker. busy_frac: [stages] fraction of each stage's time spent computing. crossed_bytes: sent
 * between stages; sharded_bytes: gathered and reduced within workers; exchanged_bytes: exchanged
 * between workers. */
typedef struct dl_islands_figures {
    double bubble_frac, *busy_frac;
    double moved_frac, waited_frac; /* fractions of the workers' time that their steps spend on
                                     * communication among their GPUs, and on waiting */
    double crossed_bytes, sharded_bytes, exchanged_bytes;
} dl_islands_figures;

void dl_islands_measure(const dl_team *team, dl_islands_figures *figures);

#endif
