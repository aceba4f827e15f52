/* Memory of a GPU during a step, from the order of its passes.
 *
 * Layers keep activations from their forward pass to their backward pass, in which a layer also
 * needs gradients of activations, and recomputed activations. So after a forward pass over layers 1
 * to l and during the backward pass of l,
 *
 *   kept by other passes still awaiting their backward pass + sum over k <= l of kept_k + working_l
 *
 * is in use, in addition to the permanent content:
 *
 *   parameters   4 bytes each; with half_weights of the costs, unless they are sharded, 2, and 4
 *                more in the optimizer; with a sharded optimizer and param_dtype = bf16, 2, and 4
 *                for the GPU's part; frozen ones have frozen_bytes of the costs. Under torch.autocast
 *                each micro-batch also has cast_bytes of its layers, which are in autocast's cache
 *                until the end of the forward pass (aten/src/ATen/autocast_mode.cpp, cached_cast),
 *                and saved for the gradients of inputs until the layer's backward pass
 *   gradients    4 bytes each, or those of the type in which they are reduced; with 16-bit weights
 *                also a buffer for the 16-bit gradients of the largest block, which are added to
 *                these (Transformer Engine's get_dummy_wgrad); twice where plan.bucket_copies = 2:
 *                buckets stay, and gradients beside them grow in the first backward pass
 *                (torch/csrc/distributed/c10d/reducer.cpp), except with 16-bit weights, whose
 *                gradients are views in Megatron-LM. Without buckets, as of one worker, they grow in
 *                the first backward pass, as the optimizer frees them (zero_grad, set_to_none)
 *   optimizer    from the costs; none if a server updates the parameters, which then keeps it
 *
 * A GPU has its part of all divided content, and with FSDP also
 *
 *   gathered     parameters of the layer in use and the next one; gradients of the layer, in the
 *                type of the passes, and of the previous one in that of the reduction
 *                (torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py); its part of the
 *                gradients grows in the first backward pass. With stages all parameters and
 *                gradients of the stage, until its last backward pass
 *
 * Pools of freed memory are not included, see DL_RESERVE_FRAC. */
#ifndef DL_SIM_ISLAND_MEMORY_H
#define DL_SIM_ISLAND_MEMORY_H

#include "sim/island/split.h"

/* PyTorch's allocator reserves more than it allocates: up to this fraction of the allocated bytes,
 * in published rows of runs with and without enough memory
 * (docs/studies/transformer_layouts.md). */
#define DL_RESERVE_FRAC 0.3

typedef struct dl_memory_rank {
    const dl_costs *costs;         /* activations and layers of the model of one GPU */
    const dl_model_layers *model;  /* layers of the costs; NULL: computed when needed */
    const dl_gpu_options *options; /* gives the buckets */
    dl_exchange_plan plan;         /* exchange among the GPUs that share the rank's state */
    dl_split split;                /* its `samples` are those of a micro-batch */
    dl_schedule schedule;
    const int *first; /* [stages x chunks + 1] first layers of the pieces; NULL: no stages */
    int stage;
    double parameter_bytes, state_bytes; /* bytes of the stage; NaN: unknown */
    double expert_frac;                  /* part of parameter_bytes: the rank's own experts */
    bool is_served;                      /* a server keeps the optimizer's state */
    bool has_outer; /* an outer optimizer runs on the GPU, with its momentum and the last average */
} dl_memory_rank;

/* Largest number of bytes during a pass, and bytes held after it. */
typedef struct dl_memory_pass {
    double most_bytes, after_bytes;
} dl_memory_pass;

/* Memory of the rank by content at the step's peak; NaN if the costs are insufficient. Fills
 * `passes`, [2 x micro-batches x chunks], unless NULL. */
dl_gpu_content dl_memory_of_rank(const dl_memory_rank *rank, dl_memory_pass *passes);

/* Memory by content at each layer of each pass of a step, in order: an array of *count entries that
 * the caller frees. */
dl_gpu_content *dl_memory_course(const dl_memory_rank *rank, size_t *count);

/* Describes a moment: "in the loss of micro-batch 1", "in the backward pass of block31, micro-batch
 * 1", "at the end of the forward pass of micro-batch 3". The caller frees the text. */
char *dl_memory_when(const dl_memory_rank *rank, const dl_gpu_moment *at);

#endif
