/* A transformer's sizes, computed from its keys (transformers.c), and its layers
 * (transformer_layers.c). */
#ifndef DL_SIM_TRANSFORMER_H
#define DL_SIM_TRANSFORMER_H

#include "sim/workloads/workloads_internal.h"

enum { LOSS_PLAIN, LOSS_MEGATRON, LOSS_FUSED };
/* Matrices of a block by PEFT's names; LINEAR_QKV and LINEAR_FC1 are Megatron-LM's names of the
 * preceding ones joined into one. */
enum {
    Q_PROJ,
    K_PROJ,
    V_PROJ,
    LINEAR_QKV,
    O_PROJ,
    GATE_PROJ,
    UP_PROJ,
    LINEAR_FC1,
    DOWN_PROJ,
    ALL_LINEAR
};
enum { RECOMPUTE_NONE, RECOMPUTE_SELECTIVE, RECOMPUTE_FULL, RECOMPUTE_PRODUCTS };
enum { NORM_COPIES_NO, NORM_COPIES_YES, NORM_COPIES_AGAIN };

/* Matrix products of a block that have biases; the pooler has one if any has. */
enum { DL_BIAS_QKV = 1, DL_BIAS_OUT = 2, DL_BIAS_FEED_FORWARD = 4 };

/* Norms of queries and keys: none, of each head, or of all heads together. */
enum { DL_NORMS_NOT, DL_NORMS_HEAD, DL_NORMS_ALL };

/* All numbers are per sample and per GPU. `context` GPUs divide the tokens, and `tensor` GPUs
 * divide the layers as in Megatron-LM (Shoeybi et al. 2019; Korthikanti et al. 2022): the products
 * before attention and activation by their outputs, those after them by their inputs, so that
 * heads, `inside` and vocabulary are the GPU's part. Norms and sums between them cover all
 * `tokens`, or with sequence parallelism `own_tokens`. */
typedef struct dl_transformer {
    double tokens, own_tokens, width, query_width, kv_width, inside, vocabulary, heads;
    /* Latent attention: widths of the latent queries (0: none) and of the latent keys and values (0:
     * no latent attention), and of a head's rotated part and values. query_width and kv_width are
     * then means of keys' and values' widths, head_width is that without the rotated part. */
    double query_rank, latent_rank, rotated_width, value_width, head_width;
    double positions, segments; /* numbers of learned embeddings; 0 positions: rotary embedding */
    double context;             /* number of GPUs with `tokens` each */
    dl_context_way context_way;
    double seen; /* fraction of the scores that fused attention computes */
    double norm_parameters;
    double tensor;
    double rank;        /* rank of adapters; 0: all weights are trained */
    int64_t targets;    /* bit set of the matrices with an adapter */
    double packed_bits; /* bits of a frozen weight of a block's linear layers; 0: not packed */
    int recompute, loss, metrics, blocks, norm_copies;
    int full_every; /* blocks n, 2 n, .. have no window; 0: all have it */
    /* Experts of a block, those that each token uses, and the width inside one; experts 0: none, as
     * in the first `dense_blocks` blocks. shared_inside: of all those that every token uses. */
    double experts, active, expert_inside, shared_inside;
    double expert_ranks; /* number of GPUs with experts / expert_ranks each */
    bool sends_once;     /* a token is sent once to a GPU or node with several of its experts */
    int dense_blocks;
    double copies;          /* sets of weights that divide `tokens` among them: 1, or the experts */
    bool joined;            /* queries, keys and values are one product, as in GPT-2 */
    bool plain;             /* attention is not fused */
    dl_attention attention; /* kind of fused attention */
    double keys;            /* tokens of a sequence, or of the window */
    bool fused;             /* norms, rotation and gates are one kernel each */
    bool compiled;          /* by torch.compile: products with odd columns are padded */
    bool halves;            /* no autocast: weights and stream have 16 bits */
    bool by_tokens;         /* sequence parallelism */
    bool singly;            /* fused: each expert's product is a kernel of its own */
    bool within;            /* products accumulate into the sums of gradients themselves */
    bool eight_inside;      /* the activation saves its inputs in 8 bits in fp8 */
    int head_norms;         /* DL_NORMS_HEAD, .. */
    bool parallel;          /* attention and feed-forward read the result of one norm */
    bool post_norms;        /* norms of the results of attention and feed-forward too */
    bool softcap;           /* a tanh on the scores of words */
    int biases;             /* of matrix products: DL_BIAS_QKV, .. */
    bool gated, causal, tied, rms, dropout;
} dl_transformer;

/* Adds the embedding, the blocks, and the head (without a causal mask, the pooler) to the
 * network. */
void dl_transformer_add(dl_architecture *architecture, const dl_transformer *s);

/* --- parts of a block, shared by its layers and its experts -------------------------------- */

/* Kernels that only move data. In fp16 `narrow` numbers have 2 bytes and `wide` ones 4, and `casts`
 * numbers are converted between them by kernels_in_half. A dropout mask has one byte per number: a
 * quarter of a wide number. */
typedef struct dl_moves {
    double narrow, wide, casts;
    int kernels, kernels_in_half;
} dl_moves;

/* Adds kernels that move data to a pass. */
void dl_layer_add_moves(dl_layer_pass *pass, dl_moves m);

/* Adds sums and norms of the stream between blocks, which is wide under autocast. Without it, as in
 * programs with fused kernels, parameters and stream have 16 bits. */
void dl_layer_add_stream(dl_layer_pass *pass, const dl_transformer *s, double numbers, double casts,
                         double weights);

/* Adds a product of `rows` vectors with a matrix of `inputs` x `outputs`, whose weights are
 * `matrices` tensors; 0: tensors of another layer. Without fusion each tensor has its own product,
 * and in fp16 its weights and their gradients are converted. For frozen weights the backward pass
 * has only the input's gradient; they have 16 bits when products read them. Each of `copies`
 * experts has such weights and a part of the rows: with fusion in one tensor and one kernel for all
 * (torch._grouped_mm, CUTLASS' grouped GEMM), without it each expert in its own. */
void dl_layer_add_product(dl_architecture_layer *layer, const dl_transformer *s, double rows,
                          double inputs, double outputs, int matrices, bool bias);

/* Adds `kernels` that move `forward` numbers in the forward pass, and as many kernels that move
 * `backward` in the backward pass. */
void dl_layer_add_elementwise(dl_architecture_layer *layer, double forward, double backward,
                              int kernels);

/* Adds a feed-forward layer of `inside` numbers per token, without its norm. With
 * fp8 the converted input is saved instead of the `kept` numbers or, if 0, in addition. */
void dl_layer_add_feed_forward(dl_architecture_layer *layer, const dl_transformer *s, double kept);

/* Adds a layer of experts: router, the experts' feed-forward for the `active` copies of each token,
 * and a feed-forward for all tokens (shared_inside), whose gate, if any, is not counted. All
 * experts get equally many tokens. With tensor parallelism each GPU has a part of every expert.
 * With expert parallelism it has 1 / expert_ranks of them, and gets as many copies of tokens as it
 * sends: one all-to-all distributes these, one returns the results (Lepikhin et al. 2020,
 * "GShard"). */
void dl_layer_add_experts(dl_architecture_layer *layer, const dl_transformer *s);

#endif
