/* A model split over GPUs, layer by layer: the layers of a stage, and the cost of a micro-batch
 * there.
 *
 * A layer is defined by the operations NAME.forward, NAME.backward and NAME.update of the cost
 * file; layers are in the order of their forward operations, and each passes its output only to the
 * next one. A stage is a run of layers:
 *
 *   forward, backward    sum over its operations of fixed + per_sample x micro-batch: each
 *                        micro-batch pays the fixed part again
 *   update               those of its layers; of operations outside layers ("network.update") by
 *                        its share of the parameters
 *   crossing             the output of the layer before the cut, and an equal gradient back
 *   launch               the stage's share of [dispatch] per_worker_ns, which is for the whole
 *                        model, by its forward and backward operations
 *
 * `balanced` minimizes the longest stage's forward and backward time (exact, dynamic programming);
 * `split = NAME, ...` names the first layer of each stage but the first.
 *
 * Tensor parallelism: costs with tensor_ranks = t are those of one of t GPUs that divide each
 * layer. In each pass of a layer they gather and reduce activations, without computing meanwhile.
 *
 * Context parallelism: costs with context_ranks = c are those of one of c GPUs that have 1 / c of
 * each sequence. Keys and values of attention go around them in a ring, concurrently with the
 * blocks of attention (TransformerEngine's AttnFuncWithCPAndKVP2P; Liu et al. 2023, "Ring
 * attention"). They sum their gradients like shards, and together have the samples of one.
 *
 * Not modelled: connections that skip over a cut (make the layers that they span one layer).
 */
#ifndef DL_SIM_ISLAND_SPLIT_H
#define DL_SIM_ISLAND_SPLIT_H

#include "sim/platform/gpu.h"

#define DL_STAGES_MAX 64
#define DL_STAGE_CHUNKS_MAX 16
#define DL_PIECES_MAX (DL_STAGES_MAX * DL_STAGE_CHUNKS_MAX)

typedef enum dl_schedule {
    DL_SCHEDULE_GPIPE, /* all forwards, then all backwards (Huang et al. 2019) */
    DL_SCHEDULE_1F1B,  /* one forward, one backward as soon as there is one (Narayanan et al. 2019,
                          with a flush at each step's end) */
    DL_SCHEDULE_INTERLEAVED, /* 1f1b of stages that have several runs of layers each, chunks; in
                              * turn, as many micro-batches as stages through each (Narayanan et al.
                              * 2021, "Efficient large-scale language model training", section 2.2)
                              */
    DL_SCHEDULE_PIPEDREAM,   /* without a flush: each stage updates after each batch, and uses the
                              * weights of a batch's forward pass in its backward pass (Narayanan et
                              * al. 2019) */
    DL_SCHEDULE_2BW, /* without a flush: all stages update after the micro-batches of a step, to
                              weights one update older than the newest (Narayanan et al. 2021) */
    DL_SCHEDULES
} dl_schedule;

/* "gpipe", "1f1b", "interleaved", "pipedream", "2bw". */
extern const char *const dl_schedule_names[DL_SCHEDULES + 1];

/* A scenario's options of the split; the others are in its points. */
typedef struct dl_pipeline_options {
    char **cuts; /* [cut_count] first layers of stages 1, 2, ...; none: balanced */
    size_t cut_count;
    double
        *cut_bytes; /* [cut_bytes_count] a sample, replacing the cost file's; one: for all cuts */
    size_t cut_bytes_count;
    bool without_activations;   /* crossing takes no time */
    bool without_micro_batches; /* fixed costs come once a step */
    bool without_imbalance;     /* stages take equally long */
    bool without_bubble;        /* stages do not wait for each other */
} dl_pipeline_options;

void dl_pipeline_options_free(dl_pipeline_options *options); /* a zeroed object is fine */

/* Times in ns of one micro-batch (update: of a step). NaN: not in the costs. */
typedef struct dl_stage {
    int first, count; /* layers */
    double forward_ns, backward_ns, update_ns;
    double launch_forward, launch_backward; /* shares of per_worker_ns */
    double parameter_bytes, state_bytes;
    double crossing_bytes; /* a sample, to the next stage; 0 for the last one */
} dl_stage;

typedef struct dl_model_layer {
    char *name;
    int forward, backward, update; /* operations, -1 = none */
    dl_value output_bytes, parameter_bytes, activation_bytes;
    double working_bytes;
    double tensor_bytes, tensor_calls[2]; /* a sample; of a backward, forward pass */
    double beside_calls, beside_ns;       /* further ones of a backward pass, beside so much of a
                                     * sample */
    double context_bytes, block_ns[2];    /* a sample's keys and values on a GPU; time of attention
                                        * between two of their hops; backward, forward */
    double rings_again;                   /* forward rings of a backward pass */
} dl_model_layer;

typedef struct dl_model_layers {
    dl_model_layer *layers; /* [count] */
    int count;
} dl_model_layers;

void dl_model_layers_init(dl_model_layers *model, const dl_costs *costs);
void dl_model_layers_free(dl_model_layers *model);

/* Axes of a worker's GPUs: those that divide each layer, each sequence, stages, those that shard a
 * stage. */
typedef enum dl_axis { DL_AXIS_TP, DL_AXIS_CP, DL_AXIS_PP, DL_AXIS_FSDP, DL_AXES } dl_axis;

/* A point's split. A *rank* is the GPUs with the same stage and shard: one, or `tensor` of them,
 * which divide its layers and work in lockstep. */
typedef struct dl_split {
    int stages;            /* >= 1 */
    int shards;            /* ranks of a stage, >= 1, which reduce gradients together */
    int context;           /* of the shards, those with parts of the same sequences, >= 1 */
    int tensor;            /* GPUs of a rank, >= 1 */
    dl_axis axes[DL_AXES]; /* from neighbours outwards */
    int chunks;        /* runs of layers of a stage, >= 1; piece c stages + s is stage s's run c */
    int micro_batches; /* of a step, >= 1 */
    double samples;    /* of a micro-batch of a rank; with context of the ranks that share it */
} dl_split;

/* Shards of a stage that have different samples. */
static inline int dl_split_batches(const dl_split *split)
{
    return split->shards / split->context;
}

/* Whether shards have a part of the parameters each (FSDP): else only sequences are divided. */
static inline bool dl_split_is_sharded(const dl_split *split)
{
    return split->shards > split->context;
}

static inline int dl_split_ranks(const dl_split *split)
{
    return split->stages * split->shards;
}

static inline int dl_split_gpus(const dl_split *split)
{
    return dl_split_ranks(split) * split->tensor;
}

/* Whether the shards of a stage are nearer to each other than the stages of a shard. */
static inline bool dl_split_shards_first(const dl_split *split)
{
    int a = 0;
    while (split->axes[a] != DL_AXIS_FSDP && split->axes[a] != DL_AXIS_PP)
        a++;
    return split->axes[a] == DL_AXIS_FSDP;
}

static inline int dl_split_rank(const dl_split *split, int stage, int shard)
{
    return dl_split_shards_first(split) ? stage * split->shards + shard
                                        : shard * split->stages + stage;
}

static inline int dl_split_stage(const dl_split *split, int rank)
{
    return dl_split_shards_first(split) ? rank / split->shards : rank % split->stages;
}

static inline int dl_split_shard(const dl_split *split, int rank)
{
    return dl_split_shards_first(split) ? rank % split->shards : rank / split->stages;
}

/* The split with its pieces as stages. */
static inline dl_split dl_split_of_pieces(const dl_split *split)
{
    dl_split pieces = *split;
    pieces.stages *= split->chunks;
    pieces.chunks = 1;
    return pieces;
}

/* Number within the worker of the rank's GPU that has part `part` of its layers; rank of a GPU. */
int dl_split_gpu(const dl_split *split, int rank, int part);
int dl_split_rank_of(const dl_split *split, int gpu);

/* Writes the first layer of each stage, and after them the number of layers, to
 * first[stages + 1]. DL_ERR_RANGE: fewer layers than stages, or an explicit split into another
 * number of stages; DL_ERR_NAME: no such layer, or not in their order. */
dl_status dl_pipeline_cut(const dl_pipeline_options *options, const dl_costs *costs,
                          const dl_split *split, int *first, dl_error *err) DL_MUST_CHECK;

/* Writes the stages between these cuts, with these costs, to stage[stages]. */
void dl_pipeline_stages(const dl_pipeline_options *options, const dl_costs *costs,
                        const dl_split *split, const int *first, dl_stage *stage);

/* The bytes missing in the costs for the cuts and, with `exchanges`, for the parameters, as "[layer
 * NAME] KEY, ..." in a string that the caller frees; NULL if none. */
char *dl_pipeline_missing(const dl_pipeline_options *options, const dl_costs *costs,
                          const dl_split *split, const int *first, bool exchanges);

/* The least trustworthy origin of the bytes that the split depends on. */
dl_origin dl_pipeline_origin(const dl_pipeline_options *options, const dl_costs *costs,
                             dl_origin others);

/* Whether a step ends with all of its passes done: else stages continue with the next step, and in
 * the steady state no stage waits for another. */
bool dl_schedule_flushes(dl_schedule schedule);

/* Age of the weights of a stage's gradient in updates, and the number of versions of them that it
 * keeps. */
int dl_pipeline_staleness(dl_schedule schedule, const dl_split *split, int stage);
int dl_pipeline_versions(dl_schedule schedule, const dl_split *split, int stage);

/* Whether pass `pass` of a stage's step is a forward one, of 2 x micro-batches x chunks. Without
 * stages each micro-batch's backward pass follows its forward pass. */
bool dl_pipeline_is_forward(dl_schedule schedule, const dl_split *split, int stage, int pass);

typedef struct dl_pass_of {
    int chunk, micro_batch;
} dl_pass_of;

/* The number-th pass of a direction: as many micro-batches as stages through each chunk in turn,
 * backward from the last chunk. */
dl_pass_of dl_pipeline_find_pass(const dl_split *split, bool forward, int number);

#endif
