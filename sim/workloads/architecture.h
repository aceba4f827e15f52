/* Networks by their definition: each layer's arithmetic, memory traffic and kept activations,
 * counted from shapes alone, so that a step's time can be estimated for a GPU without a measurement
 * (sim/workloads/roofline.h).
 *
 * A network is named by a text, with keys of its own after a colon:
 *
 *   resnet50                                     as published
 *   resnet50:image=160                           smaller images
 *   gpt2:sequence=512                            shorter sequences
 *   llama:layers=32,width=4096,heads=32,kv_heads=8,feed_forward=14336,vocabulary=128256
 *   model/config.json:sequence=4096              of Hugging Face's transformers
 *   llama3_70b:tp=8,recompute=full               one of eight GPUs that divide each layer
 *   llama3_70b:cp=4                              one of four that divide each sequence
 *   llama3_70b:lora=16                           adapters of rank 16, all else is frozen
 *
 * Counted are
 *
 *   parameters   all that the optimizer updates; weights that two layers share count once. Frozen
 *                ones, in whose place adapters are trained, are separate, without gradients
 *   flop         2 m n k of matrix products and convolutions; everything else counts 0. The
 *                backward pass has twice the forward's, or the same as the forward's where nothing
 *                before needs a gradient; 2.5 times with fused attention, which computes its scores
 *                again. Fused causal attention computes half of the scores
 *   numbers      of activations and their gradients that kernels read and write in memory, each
 *                kernel reading its inputs and writing its outputs once; normalization over a
 *                batch reads its input twice, and both its inputs twice in the backward pass.
 *                `wide` ones of them have 4 bytes in fp16 too, and `casts` are converted there:
 *                operations in float32 under PyTorch's autocast (norms, softmax, loss), and the
 *                sums of a transformer's blocks, which start with a norm
 *   weights      parameters read and gradients written, once a step whatever the batch
 *   kept         numbers kept for the backward pass; rectifiers and sums work in place; for the
 *                loss, one number per score
 *   kernels      that the host launches, one after the other
 *
 * Transformers are counted operation by operation, as plain PyTorch runs them
 * (transformer_layers.c), or with norms, rotation, gates and dropout of one kernel each, where
 * `fused` says so.
 */
#ifndef DL_SIM_ARCHITECTURE_H
#define DL_SIM_ARCHITECTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/machine.h"
#include "common/status.h"

#define DL_PARTS_MAX 64
#define DL_TENSORS_MAX 24

/* In fp16 under autocast a weight has 4 bytes. It is converted to 2 bytes for the forward pass,
 * which reads the copy (8 bytes moved); the backward pass reads the copy (2), writes a gradient of
 * 2, and converts it to 4 (8): 18 bytes, a third of them for each of the three counted numbers of 2
 * bytes. */
#define DL_CAST_WEIGHTS 3
/* Products read 16-bit weights directly; their gradients of 2 bytes are added to sums of 4: 2
 * written, 2 + 4 read, 4 written. */
#define DL_SUMMED_WEIGHTS 6
/* Smaller products do not reach the rate of large ones (docs/studies/estimates.md). */
#define DL_NARROW 1000

/* Products that run in fp8: those of the linear layers of a transformer's blocks. */
typedef struct dl_eight_bits {
    double made; /* numbers converted to 8 bits before, in both layouts; 0: not in fp8 */
    double read; /* the part's numbers that the products read in 8 bits */
    int kernels; /* that convert */
} dl_eight_bits;

/* Kinds of fused attention: FlashAttention-2; kernels made for Hopper and later. */
typedef enum dl_attention { DL_ATTENTION_NOT, DL_ATTENTION_FUSED, DL_ATTENTION_CUDNN } dl_attention;

/* Products with a layer's weights: `rows` vectors a sample of `inputs` numbers become as many of
 * outputs[m], for each matrix m. In the backward pass `gradients` of them are computed: 2; 1 if the
 * weights are frozen; 0: it is a product of the forward pass. */
typedef struct dl_layer_product {
    double rows, inputs, outputs[3]; /* rows 0: not counted one by one */
    int matrices, gradients;
} dl_layer_product;

/* Kernels of one kind in a layer's pass; per sample, but for `weights`. */
typedef struct dl_layer_part {
    double flop, numbers, weights;
    double half_weights; /* 16-bit weights moved instead of `weights` in fp16, by all samples */
    int kernels, kernels_in_half; /* the latter are additional, in fp16 only */
    bool small_windows;           /* convolutions with 3x3 windows at every pixel */
    dl_attention attention;       /* fused: products, softmax and mask in one kernel */
    bool narrow;        /* a product with less than DL_NARROW rows or columns of weights */
    double wide, casts; /* wide: part of the numbers; casts: further ones */
    double turned;      /* further numbers, on tensor cores only: to another layout */
    double in_half;     /* further numbers, in fp16 only */
    int odd_columns;    /* a product's columns, where they may be any number: 50257; else 0 */
    dl_eight_bits eight;
    dl_layer_product product;
} dl_layer_part;

typedef struct dl_layer_pass {
    dl_layer_part parts[DL_PARTS_MAX]; /* [count], one after the other */
    int count;
} dl_layer_pass;

/* Networks mostly of convolutions, or of matrix products over sequences: they reach different
 * fractions of a GPU's rates. */
typedef enum dl_model_class { DL_MODEL_CONVOLUTION, DL_MODEL_TRANSFORMER } dl_model_class;
#define DL_MODEL_CLASSES 2
extern const char *const dl_model_class_names[]; /* "convolution", "transformer", NULL */

/* A parameter in PyTorch's sense: weights, a bias, ... */
typedef struct dl_layer_tensor {
    int64_t parameters;
    int part; /* part of the backward pass at whose end the gradient is ready */
} dl_layer_tensor;

typedef struct dl_architecture_layer {
    char *name;                              /* "conv1", "2a.conv1", "block3" */
    dl_layer_tensor tensors[DL_TENSORS_MAX]; /* [tensor_count] in the order of the network */
    int tensor_count;
    int64_t frozen_parameters;           /* further ones, not trained */
    int64_t packed_parameters;           /* of these, with packed_bits each */
    double frozen_flop;                  /* of their products in the forward pass, of one sample */
    double output_numbers, kept_numbers; /* of one sample */
    double kept_wide;                    /* of the latter */
    double kept_in_half;                 /* further ones, of 2 bytes, in fp16 only */
    double kept_eight_bytes;             /* further bytes in fp8, or fewer if below zero */
    double working_numbers,
        working_wide; /* peak of its passes beside the kept ones: gradients, recomputed numbers */
    /* Numbers per sample carried by a collective of tensor parallelism (the whole stream), and
     * number of collectives per pass: all-reduces, or pairs of all-gather and reduce-scatter; 0:
     * none */
    double tensor_numbers, tensor_forward, tensor_backward;
    /* Further collectives of the backward pass, concurrent with products of `beside_flop` per
     * sample */
    double tensor_beside, beside_flop;
    double context_numbers; /* per sample, of keys and values that go around the `context` GPUs */
    double rings_again;     /* forward rings of the backward pass */
    dl_layer_pass forward, backward;
} dl_architecture_layer;

typedef struct dl_architecture {
    char *name; /* as it was asked for */
    dl_model_class class;
    double input_numbers; /* per sample; 0 for indices of tokens */
    int64_t sequence;     /* tokens of a sample; 0: a sample is an image */
    int tensor;           /* GPUs that divide its layers; numbers are per GPU; 1: none do */
    int context;          /* GPUs that divide each sequence; likewise */
    /* collectives that one of tensor_forward stands for: 1 all-reduce, or 2 of the pair; 0: none */
    int tensor_calls;
    int frozen_bits;      /* of a frozen weight in memory; 0: those of products, not below 16 */
    double packed_bits;   /* of one of a block's linear layers, if fewer; 0: none has */
    double cache_numbers; /* keys and values of a token in all layers, of one sequence; 0: none */
    bool unfused;         /* counted operation by operation, although `fused` is possible */
    dl_architecture_layer *layers; /* [layer_count] in forward order */
    size_t layer_count;
} dl_architecture;

/* Makes the network that `text` names in zeroed `architecture`; release it with
 * dl_architecture_free. DL_ERR_NAME for an unknown name or key, with the nearest one; DL_ERR_PARSE
 * and DL_ERR_RANGE for a value; DL_ERR_RANGE also for values that contradict each other. */
dl_status dl_architecture_make(dl_architecture *architecture, const char *text,
                               dl_error *err) DL_MUST_CHECK;
void dl_architecture_free(dl_architecture *architecture);

/* Class of the network that `text` names, which must exist. */
dl_model_class dl_architecture_class(const char *text);

int64_t dl_layer_parameters(const dl_architecture_layer *layer);

/* Sums over all layers; per sample where applicable. */
int64_t dl_architecture_parameters(const dl_architecture *architecture);
int64_t dl_architecture_frozen(const dl_architecture *architecture); /* parameters */
int64_t dl_architecture_packed(const dl_architecture *architecture); /* of these */
int dl_architecture_tensors(const dl_architecture *architecture);
/* Forward and backward; `in_half`: in fp16, bf16 or fp8; `in_eight`: in fp8. */
int dl_architecture_kernels(const dl_architecture *architecture, bool in_half, bool in_eight);
double dl_pass_flop(const dl_layer_pass *pass);

/* A product of a training step: of one pass, with the number of times that the step has it. */
typedef struct dl_step_product {
    dl_product_pass pass;
    int64_t rows, inputs, outputs;
    int64_t count;
} dl_step_product;

/* The different products with weights of a step of `batch` samples, in the order of the network;
 * free(*products). Products with fewer than one whole row, and those of attention, adapters and
 * convolutions, are not among them. */
size_t dl_architecture_products(const dl_architecture *architecture, int64_t batch,
                                dl_step_product **products);

/* Prints a table of all names, with parameters, forward flop of a sample and a description; then
 * the keys that may follow a colon. */
void dl_architectures_print(FILE *out);

/* Prints the names that complete `typed` after its first `kept` bytes (dl_complete_word). */
void dl_architectures_complete(FILE *out, const char *typed, size_t kept);

#endif
