/* Memory of a GPU over a step, from the order of its passes.
 *
 * Layers keep activations from their forward pass to their backward pass; in the latter a layer needs
 * others besides: gradients of activations, and what it computes again. So after a forward pass over
 * layers 1 to l and during the backward pass of l,
 *
 *   kept in flight + sum over k <= l of kept_k + working_l
 *
 * is there, beside what is there all the time:
 *
 *   parameters   4 bytes each; with half_weights of the costs 2, and 4 of the optimizer
 *   gradients    4 bytes each; where weights have 16 bits those of a block's products as well, which
 *                are added to these (Transformer Engine keeps that buffer, get_dummy_wgrad)
 *   optimizer    as the costs say
 *
 * Of what is divided (dl_sharded) a GPU has its part, and of FSDP's
 *
 *   gathered     parameters of the layer in use and the next one; gradients of the layer, as the
 *                passes have them, and of the one before as they are reduced
 *                (torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py); its part of the gradients
 *                grows in the first backward pass. With stages all parameters and gradients of the
 *                stage, until its last backward pass
 *
 * Pools of freed memory are not part of it, DL_RESERVE_FRAC. */
#ifndef DL_SIM_ISLAND_MEMORY_H
#define DL_SIM_ISLAND_MEMORY_H

#include "sim/island/split.h"

/* PyTorch's allocator keeps more than is allocated: from next to nothing to this part of it, in
 * published rows of runs that had, or lacked, memory (docs/studies/transformer_layouts.md). */
#define DL_RESERVE_FRAC 0.3

typedef struct dl_memory_rank {
    const dl_costs *costs;         /* activations and layers are those of one GPU's model */
    const dl_model_layers *model;  /* of the costs; NULL: found anew */
    const dl_gpu_options *options; /* sharded, types, buckets */
    dl_split split;                /* its `samples`: of a micro-batch */
    dl_schedule schedule;
    const int *first; /* [stages x chunks + 1] layers of the pieces; NULL: there are no stages */
    int stage;
    int sharers;                         /* GPUs that what is sharded is divided among */
    double parameter_bytes, state_bytes; /* of the stage; NaN: not known */
} dl_memory_rank;

/* The most bytes during a pass, and the bytes held after it. */
typedef struct dl_memory_pass {
    double most_bytes, after_bytes;
} dl_memory_pass;

/* Memory of the rank by content at the step's fullest moment; NaN if the costs do not say. Fills `passes`,
 * [2 x micro-batches x chunks], where it is not NULL. */
dl_gpu_content dl_memory_of_rank(const dl_memory_rank *rank, dl_memory_pass *passes);

/* Memory by content at each layer of each pass of a step, in their order; the caller's to free. Fills *count. */
dl_gpu_content *dl_memory_course(const dl_memory_rank *rank, size_t *count);

/* "in the loss of micro-batch 1", "in the backward pass of block31, micro-batch 1", "at the end of the
 * forward pass of micro-batch 3": the caller's to free. */
char *dl_memory_when(const dl_memory_rank *rank, const dl_gpu_moment *at);

#endif
