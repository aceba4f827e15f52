/* A model split over GPUs, layer by layer: the layers of a stage, and the cost of a micro-batch in
 * it.
 *
 * A layer is defined by the operations NAME.forward, NAME.backward and NAME.update of the cost
 * file; layers are in the order of their forward operations, and each passes its output only to the
 * next one. A stage is a run of layers:
 *
 *   forward, backward    sum over its operations of fixed + per_sample x micro-batch: each
 *                        micro-batch has the fixed part again
 *   update               those of its layers; operations outside layers ("network.update") by
 *                        its share of the parameters
 *   crossing             the output of the layer before the cut, and an equal gradient back
 *   launch               the stage's share of [dispatch] per_worker_ns, which is for the whole
 *                        model, by its forward and backward operations
 *
 * `balanced` minimizes the longest stage's forward and backward time (exactly, by dynamic
 * programming); `split = NAME, ...` gives the first layer of each stage except stage 0.
 *
 * Tensor parallelism: costs with tensor_ranks = t are those of one of t GPUs that divide each
 * layer. In each pass of a layer they gather and reduce activations, without computing meanwhile.
 *
 * Context parallelism: costs with context_ranks = c are those of one of c GPUs that have 1 / c of
 * each sequence. Keys and values of attention circulate in a ring of these GPUs, concurrently with
 * the blocks of attention (TransformerEngine's AttnFuncWithCPAndKVP2P; Liu et al. 2023, "Ring
 * attention"), or before them, or all-to-alls exchange tokens for heads before and after attention
 * (Jacobs et al. 2023, "DeepSpeed Ulysses"). The GPUs sum their gradients like shards, and together
 * have the samples of one shard.
 *
 * Expert parallelism: costs with expert_ranks = e are those of one of e GPUs with 1 / e of the
 * experts of each layer. They have different samples and sum the gradients of everything but
 * experts like shards; those of experts only the GPUs that have the same ones. In all-to-alls each
 * GPU sends tokens to the GPUs with the experts that compute them, and gets the results back
 * (Lepikhin et al. 2020, "GShard"); nothing is computed meanwhile.
 *
 * Not modelled: connections that skip over a cut (define the layers that they span as one
 * layer). */
#ifndef DL_SIM_ISLAND_SPLIT_H
#define DL_SIM_ISLAND_SPLIT_H

#include "sim/island/axes.h"
#include "sim/platform/gpu.h"

#define DL_STAGES_MAX 64
#define DL_STAGE_CHUNKS_MAX 16
#define DL_PIECES_MAX (DL_STAGES_MAX * DL_STAGE_CHUNKS_MAX)

/* A scenario's options for the split; the other settings are part of its points. */
typedef struct dl_pipeline_options {
    char **cuts; /* [cut_count] first layers of stages 1, 2, ...; empty: balanced */
    size_t cut_count;
    bool without_activations;   /* crossings take no time */
    bool without_micro_batches; /* fixed costs count once per step */
    bool without_imbalance;     /* stages take equally long */
    bool without_bubble;        /* stages do not wait for each other */
} dl_pipeline_options;

void dl_pipeline_options_free(dl_pipeline_options *options); /* accepts a zeroed object */

/* Times in ns per micro-batch (update_ns: per step). NaN: not in the costs. */
typedef struct dl_stage {
    int first, count; /* range of layers */
    double forward_ns, backward_ns, update_ns;
    double launch_forward, launch_backward; /* shares of per_worker_ns */
    double parameter_bytes, state_bytes;
    double expert_bytes;   /* part of parameter_bytes: a GPU's own experts */
    double crossing_bytes; /* bytes per sample to the next stage; 0 for the last one */
} dl_stage;

typedef struct dl_model_layer {
    char *name;
    int forward, backward, update; /* indices of operations, -1 = none */
    dl_value output_bytes, parameter_bytes, activation_bytes;
    double working_bytes;
    double cast_bytes, recast_bytes;
    double tensor_bytes, tensor_calls[2]; /* bytes per sample; calls per backward and per forward
                                           * pass */
    double beside_calls, beside_ns;       /* additional calls of a backward pass that overlap
                                           * computation of beside_ns per sample */
    double context_bytes, block_ns[2];    /* keys and values of a sample on a GPU; time of attention
                                           * between two of their hops, backward and forward */
    double rings_again;                   /* forward rings repeated in a backward pass */
    double turns;                         /* all-to-alls of context_bytes in each pass; 0: a ring */
    double expert_bytes;                  /* part of the parameters: the GPU's own experts */
    double exchange_bytes, exchanges[2];  /* bytes of a sample that a GPU distributes in an
                                           * all-to-all; their number per backward and per forward
                                           * pass */
    double copies;                        /* > 0: exchange_bytes has this many copies of a token,
                                           * one for each of its experts, but a GPU or node with
                                           * several of these experts receives only one; 0: it
                                           * receives all */
    double experts;                       /* number of experts of all GPUs, if copies > 0; a token
                                           * uses `copies` different ones */
} dl_model_layer;

typedef struct dl_model_layers {
    dl_model_layer *layers; /* [count] */
    int count;
} dl_model_layers;

void dl_model_layers_init(dl_model_layers *model, const dl_costs *costs);
void dl_model_layers_free(dl_model_layers *model);

/* The split of a point. A *rank* is the GPUs with the same stage and shard: a single one, or
 * `tensor` GPUs that divide its layers and work in lockstep. */
typedef struct dl_split {
    int stages;            /* >= 1 */
    int shards;            /* ranks per stage, >= 1, which reduce gradients together */
    int context;           /* number of shards that divide each sequence, >= 1 */
    int experts;           /* number of shards that divide the experts, >= 1 */
    int tensor;            /* GPUs per rank, >= 1 */
    dl_axis axes[DL_AXES]; /* axes of neighbouring GPUs first */
    int chunks;        /* runs of layers per stage, >= 1; piece c stages + s is run c of stage s */
    int micro_batches; /* micro-batches per step, >= 1 */
    double samples;    /* samples of a micro-batch per rank; with context, of the ranks that share
                        * them */
} dl_split;

/* Number of shards of a stage that have different samples. */
static inline int dl_split_batches(const dl_split *split)
{
    return split->shards / split->context;
}

/* Whether each shard has a part of the parameters (FSDP); otherwise only sequences or experts are
 * divided. */
static inline bool dl_split_is_sharded(const dl_split *split)
{
    return split->shards > split->context * split->experts;
}

/* Number of shards that have the same experts. */
static inline int dl_split_owners(const dl_split *split)
{
    return split->shards / split->experts;
}

/* dl_split_expert: which of the parts of the experts a shard has. dl_split_owner: shard `number` of
 * those that have part `expert`. */
static inline int dl_split_expert(const dl_split *split, int shard)
{
    return shard / split->context % split->experts;
}

static inline int dl_split_owner(const dl_split *split, int expert, int number)
{
    return (number / split->context * split->experts + expert) * split->context +
           number % split->context;
}

/* Ratio of the bytes of all distinct parameters of the shards to those of one shard, of which the
 * fraction expert_frac is its own experts. */
static inline double dl_split_spread(const dl_split *split, double expert_frac)
{
    return 1 + (split->experts - 1) * expert_frac;
}

static inline double dl_stage_spread(const dl_split *split, const dl_stage *stage)
{
    const double experts = stage->expert_bytes;
    return dl_split_spread(split, experts > 0 ? experts / stage->parameter_bytes : 0);
}

static inline int dl_split_ranks(const dl_split *split)
{
    return split->stages * split->shards;
}

static inline int dl_split_gpus(const dl_split *split)
{
    return dl_split_ranks(split) * split->tensor;
}

/* Whether the shards of a stage are closer to each other than the stages of a shard. */
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

/* Number of GPUs of a stage. */
static inline int dl_split_lines(const dl_split *split)
{
    return split->shards * split->tensor;
}

/* dl_split_gpu: number within the worker of the rank's GPU that has part `part` of its layers.
 * dl_split_rank_of: the rank of a GPU. dl_split_line: GPU number `line` of a stage, in the order of
 * their numbers. */
int dl_split_gpu(const dl_split *split, int rank, int part);
int dl_split_rank_of(const dl_split *split, int gpu);
int dl_split_line(const dl_split *split, int stage, int line);

/* Writes the first layer of each stage, followed by the number of layers, to first[stages + 1].
 * DL_ERR_RANGE: fewer layers than stages, or an explicit split into another number of stages;
 * DL_ERR_NAME: an unknown layer, or layers out of order. */
dl_status dl_pipeline_cut(const dl_pipeline_options *options, const dl_costs *costs,
                          const dl_split *split, int *first, dl_error *err) DL_MUST_CHECK;

/* Writes the stages between these cuts, with the times of `costs`, to stage[stages]. */
void dl_pipeline_stages(const dl_pipeline_options *options, const dl_costs *costs,
                        const dl_split *split, const int *first, dl_stage *stage);

/* Lists bytes missing in the costs for the cuts and, with `exchanges` or updates outside layers,
 * for the parameters, as "[layer NAME] KEY, ..."; the caller frees the text; NULL if none are
 * missing. */
char *dl_pipeline_missing(const dl_pipeline_options *options, const dl_costs *costs,
                          const dl_split *split, const int *first, bool exchanges);

/* The less reliable of `others` and the origins of the bytes that the split depends on. */
dl_origin dl_pipeline_origin(const dl_costs *costs, dl_origin others);

/* Whether all passes of a step are done at its end. Otherwise stages continue with the next step,
 * and in the steady state no stage waits for another. */
bool dl_schedule_flushes(dl_schedule schedule);

/* dl_pipeline_staleness: age, in updates, of the weights that a stage's gradient is based on.
 * dl_pipeline_versions: number of weight versions that it keeps. */
int dl_pipeline_staleness(dl_schedule schedule, const dl_split *split, int stage);
int dl_pipeline_versions(dl_schedule schedule, const dl_split *split, int stage);

/* Whether pass `pass` of a stage's step is a forward pass. A step has 2 x micro-batches x chunks
 * passes, numbered from 0. Without stages each micro-batch's backward pass follows its forward
 * pass. */
bool dl_pipeline_is_forward(dl_schedule schedule, const dl_split *split, int stage, int pass);

typedef struct dl_pass_of {
    int chunk, micro_batch;
} dl_pass_of;

/* Pass `number` of a direction: as many micro-batches as there are stages pass through each chunk
 * in turn, backward starting with the last chunk. */
dl_pass_of dl_pipeline_find_pass(const dl_split *split, bool forward, int number);

#endif
