/* Networks by their definition: each layer's arithmetic, memory traffic and saved activations,
 * counted from shapes alone, so that a step's time can be estimated for a GPU without a measurement
 * (sim/workloads/roofline.h).
 *
 * A network is described by a text: a name, and keys of its kind after a colon:
 *
 *   resnet50                                     as published
 *   resnet50:image=160                           smaller images
 *   gpt2:sequence=512                            shorter sequences
 *   llama:layers=32,width=4096,heads=32,kv_heads=8,feed_forward=14336,vocabulary=128256
 *   model/config.json:sequence=4096              a file of Hugging Face's transformers
 *   llama3_70b:tp=8,recompute=full               one of eight GPUs that divide each layer
 *   llama3_70b:cp=4                              one of four that divide each sequence
 *   llama3_70b:lora=16                           adapters of rank 16; all other weights are frozen
 *
 * Counted are
 *
 *   parameters   all that the optimizer updates; weights shared by two layers count once. Frozen
 *                ones, for which adapters are trained, are counted separately, without gradients
 *   flop         2 m n k of matrix products and convolutions; everything else counts 0. The
 *                backward pass has twice the forward's, or the same as the forward's if no earlier
 *                layer needs a gradient or the weights are frozen; 2.5 times with fused attention,
 *                which recomputes its scores. Fused causal attention computes half of the scores
 *   numbers      of activations and their gradients that kernels read and write in memory, each
 *                kernel reading its inputs and writing its outputs once; normalization over a
 *                batch reads its input twice, and both its inputs twice in the backward pass.
 *                In arithmetics below 32 bits, `wide` ones still have 4 bytes and `casts` are
 *                converted: those of operations in float32 under PyTorch's autocast
 *                (norms, softmax, loss), and of the sums of a transformer's blocks, which start
 *                with a norm
 *   weights      parameters read and gradients written, once per step for any batch
 *   kept         numbers saved for the backward pass; rectifiers and sums work in place; for the
 *                loss, one number per score
 *   kernels      launched by the host, one after the other
 *
 * Transformers are counted operation by operation, as plain PyTorch runs them
 * (transformer_layers.c), or, if `fused` is set, without dropout between layers and with one kernel
 * each for norms, rotation and gates. */
#ifndef DL_SIM_ARCHITECTURE_H
#define DL_SIM_ARCHITECTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/machine.h"
#include "common/status.h"

#define DL_PARTS_MAX 128
#define DL_TENSORS_MAX 40

/* Weight traffic in 16 bits under autocast, in 2-byte numbers per weight number counted in
 * dl_layer_part.weights, which has one number per weight in the forward pass and two in the
 * backward pass. A weight has 4 bytes. It is converted to 2 bytes for the forward pass, which reads
 * the copy (8 bytes moved); the backward pass reads the copy (2), writes a gradient of 2 bytes, and
 * converts it to 4 (8): 18 bytes in total, 6 for each of the three. */
#define DL_CAST_WEIGHTS 3
/* Weight traffic of a backward pass with 16-bit weights, which products read directly, in 2-byte
 * numbers per weight: their 2-byte gradients are added to 4-byte sums: 2 bytes written, 2 + 4 read,
 * 4 written. */
#define DL_SUMMED_WEIGHTS 6
/* Products with fewer rows or columns do not reach the rate of large ones
 * (docs/studies/estimates.md). */
#define DL_NARROW 1000

/* Products that run in fp8 or nvfp4: the linear layers of a transformer's blocks. */
typedef struct dl_low_bits {
    double made; /* numbers converted beforehand; 0: the product is not in fp8 or nvfp4 */
    double read; /* numbers of the part that the products read as converted */
    int layouts; /* number of layouts in which each converted number is written, 1 or 2 */
    int kernels; /* number of conversion kernels */
} dl_low_bits;

/* Kind of a part's fused attention: none, FlashAttention-2, cuDNN's kernels for Hopper and later,
 * in 16 or 8 bits, or FlashAttention's first kernel in Triton; FlashAttention-2 on any GPU. */
typedef enum dl_attention {
    DL_ATTENTION_NOT,
    DL_ATTENTION_FUSED,
    DL_ATTENTION_CUDNN,
    DL_ATTENTION_CUDNN_FP8,
    DL_ATTENTION_TRITON,
    DL_ATTENTION_FLASH2,
    DL_ATTENTIONS
} dl_attention;

/* Products with a layer's weights: `rows` vectors per sample of `inputs` numbers are multiplied to
 * vectors of outputs[m], for each matrix m. `gradients` is the number of gradients computed in the
 * backward pass: 2; 1 if the weights are frozen; 0: a product of the forward pass. */
typedef struct dl_layer_product {
    double rows, inputs, outputs[3]; /* rows 0: products are not listed individually */
    int matrices, gradients;
    int experts; /* products of this size with different weights; 0: one */
    int singly;  /* experts whose kernels, products and conversions, one call launches one by one;
                  * 0: the call launches one kernel for all */
} dl_layer_product;

/* Kernels of one kind in a layer's pass. Counts of flop and numbers are per sample; those of
 * weights and kernels are for all samples together. */
typedef struct dl_layer_part {
    double flop, numbers, weights;
    double half_weights; /* moved in arithmetics below 32 bits instead of `weights`, in numbers of 2
                          * bytes */
    int kernels, kernels_in_half; /* kernels_in_half: additional kernels in arithmetics below 32
                                   * bits */
    bool small_windows;           /* convolutions with 3x3 windows and stride 1 */
    dl_attention attention;       /* products, softmax and mask fused in one kernel */
    bool reverse;                 /* attention's backward pass */
    double keys;                  /* of attention: tokens of a sequence, or of the window */
    bool narrow;        /* a product whose weights have fewer than DL_NARROW rows or columns, or an
                  * expert's with fewer rows per sample */
    double wide, casts; /* wide: subset of `numbers` with 4 bytes; casts: further numbers, which are
                         * converted */
    double turned;      /* further numbers, on tensor cores only: converted to another layout */
    double in_half;     /* further numbers, in arithmetics below 32 bits only */
    int odd_columns;    /* a product's number of columns if it need not be a round number, such as
                         * 50257; else 0 */
    /* Weights of experts, of 16 bits or fewer. Their products have so few rows that reading them
     * may take longer than computing; so may adding their gradients to sums within the product. */
    double expert_weights;
    bool expert_sums;
    dl_low_bits low;
    dl_layer_product product;
    dl_move_kind kind; /* of a part without flop */
    /* Fused causal attention over a whole sequence by one GPU: number of heads, and numbers of one;
     * else 0. */
    double heads, head_size;
} dl_layer_part;

typedef struct dl_layer_pass {
    dl_layer_part parts[DL_PARTS_MAX]; /* [count] parts, executed in sequence */
    int count;
} dl_layer_pass;

/* Networks dominated by convolutions, or by matrix products over sequences: they reach different
 * fractions of a GPU's rates. */
typedef enum dl_model_class { DL_MODEL_CONVOLUTION, DL_MODEL_TRANSFORMER } dl_model_class;
#define DL_MODEL_CLASSES 2

/* Equal parameter tensors in PyTorch's sense: weights, a bias, ... */
typedef struct dl_layer_tensor {
    int64_t parameters; /* of each */
    int count;
    int part; /* part of the backward pass at whose end the gradient is ready */
} dl_layer_tensor;

typedef struct dl_architecture_layer {
    char *name;                              /* "conv1", "2a.conv1", "block3" */
    dl_layer_tensor tensors[DL_TENSORS_MAX]; /* [tensor_kinds] in network order */
    int tensor_kinds;
    int64_t idle_parameters;             /* subset of the parameters that a token does not use, on
                                          * average: those of the other experts */
    int64_t frozen_parameters;           /* further parameters, which are not trained */
    int64_t packed_parameters;           /* subset of frozen_parameters that have packed_bits
                                          * each */
    double frozen_flop;                  /* flop of their products in the forward pass, per
                                          * sample */
    double output_numbers, kept_numbers; /* per sample */
    double kept_wide;                    /* subset of kept_numbers with 4 bytes */
    double kept_in_half;                 /* further saved numbers of 2 bytes, in arithmetics below
                                          * 32 bits only */
    /* In fp8 or nvfp4. kept_low_instead: numbers saved in the low precision instead of in 16 bits;
     * kept_low_more: further numbers saved in the low precision; kept_eight_bytes: further saved
     * bytes due to values that both save in 8 bits; negative: fewer bytes. */
    double kept_low_instead, kept_low_more, kept_eight_bytes;
    double working_numbers,
        working_wide; /* peak of temporary numbers of its passes beside the saved ones: gradients,
                       * recomputed numbers */
    bool recasts;     /* the backward pass repeats the forward pass's products */
    /* Numbers per sample carried by a collective of tensor parallelism (the whole stream), and
     * number of collectives per pass: all-reduces, or pairs of all-gather and reduce-scatter; 0:
     * none. */
    double tensor_numbers, tensor_forward, tensor_backward;
    /* Further collectives of the backward pass, concurrent with products of `beside_flop` per
     * sample. */
    double tensor_beside, beside_flop;
    double context_numbers; /* per sample: keys and values that the `context` GPUs exchange, or
                             * numbers of each of DL_CONTEXT_ALLTOALLS all-to-alls of a pass */
    double rings_again;     /* exchanges of the forward pass repeated in the backward pass */
    /* Experts that `expert_ranks` GPUs divide: the parameters of the GPU's own ones, a subset of
     * those of `tensors`; numbers per sample that a GPU distributes among them in an all-to-all;
     * number of these per pass. */
    int64_t expert_parameters;
    double expert_numbers, expert_forward, expert_backward;
    double
        expert_copies; /* > 0: expert_numbers has this many copies of a token, one for each of its
                        * experts, but a GPU or node with several of these experts receives only
                        * one; 0: it receives all */
    dl_layer_pass forward, backward;
} dl_architecture_layer;

/* Exchange of the GPUs that divide each sequence: keys and values circulate in a ring concurrently
 * with attention, or are gathered before it, or GPUs exchange parts of the sequence for heads. */
typedef enum dl_context_way {
    DL_CONTEXT_RING,
    DL_CONTEXT_ALLGATHER,
    DL_CONTEXT_ALLTOALL
} dl_context_way;
/* All-to-alls of a pass: of queries, keys, values and results, or of their gradients. */
enum { DL_CONTEXT_ALLTOALLS = 4 };

typedef struct dl_architecture {
    char *name; /* the description as requested */
    dl_model_class class;
    double input_numbers; /* per sample; 0 for token indices */
    int64_t sequence;     /* tokens per sample; 0: a sample is an image */
    int tensor;           /* GPUs that divide its layers; numbers are per GPU; 1: not divided */
    int context;          /* GPUs that divide each sequence; numbers are per GPU; 1: not divided */
    dl_context_way context_way;
    int expert_ranks; /* GPUs that divide the experts; numbers are per GPU; 1: not divided */
    /* collective calls per unit of tensor_forward: 1 all-reduce, or 2 for the pair; 0: none */
    int tensor_calls;
    int frozen_bits;      /* bits of a frozen weight in memory; 0: those used by products, at least
                           * 16 */
    double packed_bits;   /* bits of a weight of a block's linear layers if lower; 0: none is
                           * packed */
    int experts, active;  /* experts of a block, and those that each token uses; 0: none */
    int blocks, kv_heads; /* of a transformer: its blocks, and their heads of keys and values; 0:
                           * another network */
    bool by_tokens; /* GPUs that divide its layers also divide tokens (sequence parallelism) */
    double cache_numbers;   /* keys and values per token in all layers, of one sequence; 0: none */
    bool unfused;           /* counted operation by operation, although `fused` would be possible */
    bool compiled;          /* fused by torch.compile */
    bool graphs;            /* CUDA graphs replay each micro-batch */
    int plain_kernels[2];   /* kernels of the same network counted operation by operation, in 32 and
                           * in 16 bits; 0: not counted */
    dl_attention attention; /* kind of its fused attention */
    dl_architecture_layer *layers; /* [layer_count] in forward order */
    size_t layer_count;
} dl_architecture;

/* Builds the network described by `text` in *architecture, which must be zeroed; release it with
 * dl_architecture_free. DL_ERR_NAME for an unknown name or key, with the nearest one; DL_ERR_PARSE
 * and DL_ERR_RANGE for a value; DL_ERR_RANGE also for contradictory values; for a file also
 * DL_ERR_IO and, if a size is missing, DL_ERR_DATA. */
dl_status dl_architecture_make(dl_architecture *architecture, const char *text,
                               dl_error *err) DL_MUST_CHECK;
void dl_architecture_free(dl_architecture *architecture);

/* Returns the class of the network described by `text`, which must exist. */
dl_model_class dl_architecture_class(const char *text);

int64_t dl_layer_parameters(const dl_architecture_layer *layer);
int dl_layer_tensors(const dl_architecture_layer *layer);

/* Sums over all layers, per sample where applicable. */
int64_t dl_architecture_parameters(const dl_architecture *architecture);
/* Parameters that a token uses: all but those of the experts that it is not sent to. */
int64_t dl_architecture_active(const dl_architecture *architecture);
/* Parameters including the experts of all expert_ranks GPUs. */
int64_t dl_architecture_whole(const dl_architecture *architecture);
int64_t dl_architecture_frozen(const dl_architecture *architecture); /* frozen parameters */
int64_t dl_architecture_packed(const dl_architecture *architecture); /* packed subset of the frozen
                                                                      * parameters */
int dl_architecture_tensors(const dl_architecture *architecture);
/* Number of kernels in the forward and backward pass; `in_half`: in fp16, bf16, fp8
 * or nvfp4; `in_low`: in fp8 or nvfp4. */
int dl_architecture_kernels(const dl_architecture *architecture, bool in_half, bool in_low);
/* Number of products of single experts that calls launch one by one; dl_architecture_kernels counts
 * the calls. */
int dl_architecture_singles(const dl_architecture *architecture);
double dl_pass_flop(const dl_layer_pass *pass);

/* A product of a training step, in one pass, and the number of times that the step executes it. */
typedef struct dl_step_product {
    dl_product_pass pass;
    int64_t rows, inputs, outputs;
    int64_t count;
} dl_step_product;

/* Returns the number of distinct products with weights in a step of `batch` samples, and the
 * products in *products in network order; release them with free(). Products with less than one
 * whole row, and those of attention, adapters and convolutions, are not included. */
size_t dl_architecture_products(const dl_architecture *architecture, int64_t batch,
                                dl_step_product **products);

/* Prints a table of all names, with parameters, forward flop per sample and a description, then the
 * keys allowed after a colon. */
void dl_architectures_print(FILE *out);

/* Prints the names that complete `typed` after its first `kept` bytes (dl_complete_word). */
void dl_architectures_complete(FILE *out, const char *typed, size_t kept);

#endif
