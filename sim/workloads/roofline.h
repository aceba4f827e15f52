/* Times of a network's layers on a GPU that nobody has measured, by the roofline model (Williams,
 * Waterman and Patterson 2009): kernels take
 *
 *   max(flop / (peak x reached part), bytes / (memory rate x reached part))
 *
 * one after the other, each DL_ROOFLINE_KERNEL_NS longer than that; peak and memory rate are the
 * data sheet's. Products with rows of no multiple of 16 bytes, as GPT-2's 50257 words, use kernels
 * that load single numbers. In fp32, 3x3 windows at every pixel count a part of their flop (Lavin
 * and Gray 2016, Winograd's F(2x2, 3x3)). What part of the rates programs reach is fitted for each
 * class of networks and arithmetic, for convolutions in fp32 on Volta and Turing, and for the
 * Kepler generation (K20 to K80) by itself, to published training rates of single GPUs
 * (scenarios/workloads/measured.csv), by least squares of the logarithm of predicted over measured
 * rate. Other GPUs and programs than those that were fitted are off by more: `log_sd` is the root
 * mean square of that logarithm over rows that were not fitted, and fitted ones with all rows of
 * their GPU left out. tests/sim/fit_workloads.c is the fit, and checks that the table in roofline.c
 * is its outcome.
 *
 * Fused attention in 16 bits has a rate of its own, of published benchmarks of it: by its share of
 * the time the spread of an estimate is larger than log_sd.
 *
 * bf16 is as fp16. In fp8 the products of linear layers in a transformer's blocks have a rate of
 * their own, and kernels before them make numbers of 8 bits (dl_eight_bits): a number of 2 bytes is
 * read and written twice as one byte, as products read their factors in one order only. They reach
 * as much of fp8's peak as others of bf16's: in torchao's roofline of an H100 0.78 of both, by large
 * products, which was 0.6 before (pytorch/ao, torchao/testing/training/roofline_utils.py), and half
 * of the logarithm of their ratio widens log_sd, as no training rate in fp8 was fitted. All else,
 * what is kept too, is as in bf16. */
#ifndef DL_SIM_ROOFLINE_H
#define DL_SIM_ROOFLINE_H

#include "common/machine.h"
#include "sim/costs/costs.h"
#include "sim/workloads/architecture.h"

/* Start and end of a kernel and the gap to the next one: assumed. */
#define DL_ROOFLINE_KERNEL_NS 5000
/* A training step of transformers over the sum of its kernels' times, one by one: power, clocks,
 * gaps, and the rest of the program. On A100 the least mean error of published steps (InternEvo,
 * llm-foundry, Megatron-LM of widths 1024 to 25600), together with the rate of memory, as kernels
 * that only move data take 1.7 times their own time in steps and products 1.09; on H100 medians of
 * nanotron 1.36 and llm-foundry 1.40; of our seven steps on an H200
 * (scenarios/workloads/measured.csv) 1.22. B200: assumed as H200. A measured step gives it
 * (--calibrate); without one 1.0 to 1.6 are found. */
#define DL_SUSTAINED_A100 1.09
#define DL_SUSTAINED_H100 1.4
#define DL_SUSTAINED_H200 1.22
#define DL_SUSTAINED_B200 1.2
/* Multiplications of a 3x3 window over those with Winograd's algorithm. */
#define DL_ROOFLINE_WINOGRAD 2.25
/* Of a small gradient's copy to the next kernel, beside its bytes at the memory's rate: 2.0 us on
 * an H200 (PyTorch 2.11, ResNet-50 in fp32: steps with DistributedDataParallel and without), 2.8 us
 * on a V100 (a trace of one rank, HolisticTraceAnalysis' test data); their mean. */
#define DL_ROOFLINE_COPY_NS 2400

/* The arithmetic of a program that says nothing special: bf16 for transformers, tf32 for
 * convolutions (torch.backends.cudnn.allow_tf32) where all GPUs of the machine have it, else fp32.
 * AMD's tf32 is not taken: its library for convolutions has none. */
dl_arithmetic dl_arithmetic_usual(const dl_machine *machine, dl_model_class class);

/* Numbers of state and of memory traffic a parameter: sgd 0 and 3, momentum 1 and 5, adam 2 and 7,
 * gradient, parameter and state read, parameter and state written. All of 4 bytes: fp16, bf16 and
 * fp8 mean that activations and products are in half precision or less, parameters and gradients
 * not. */
typedef enum dl_optimizer_kind { DL_SGD, DL_MOMENTUM, DL_ADAM } dl_optimizer_kind;
extern const char *const dl_optimizer_kind_names[]; /* "sgd", "momentum", "adam", NULL */

typedef struct dl_efficiency {
    double arithmetic_frac, memory_frac; /* of the data sheet's rates */
    double log_sd;                       /* of predicted over measured rates, as above */
    int rows;                            /* that were fitted */
    double product_ns; /* of a matrix product or convolution, beside its roofline */
    double sustained;  /* all times over those of kernels that were measured one by one, >= 1 */
} dl_efficiency;

/* `gpu`: name of its model, "k80". */
const dl_efficiency *dl_efficiency_of(const char *gpu, dl_model_class class,
                                      dl_arithmetic arithmetic);

/* The rates that kernels reach. */
typedef struct dl_roofline {
    double flop_per_s, bytes_per_s, bytes_per_number, kernel_ns, product_ns;
    double fp8_flop_per_s; /* of dl_eight_bits; 0: not in fp8 */
    bool tensor_cores;
    double odd_flop_per_s;           /* of products whose rows are no multiple of 16 bytes */
    double small_windows_flop_per_s; /* of 3x3 windows at every pixel */
    double attention_flop_per_s[3];  /* of fused attention, by dl_attention */
} dl_roofline;

/* DL_ERR_DATA if a rate of the GPU is not known, with those that are. */
dl_status dl_roofline_of(const dl_gpu_model *gpu, dl_arithmetic arithmetic,
                         const dl_efficiency *efficiency, dl_roofline *roofline,
                         dl_error *err) DL_MUST_CHECK;

/* Time of a pass: fixed + per_sample batch. */
typedef struct dl_pass_time {
    double fixed_ns, per_sample_ns;
} dl_pass_time;
dl_pass_time dl_roofline_pass(const dl_roofline *roofline, const dl_layer_pass *pass);

double dl_roofline_update_ns(const dl_roofline *roofline, double parameters,
                             dl_optimizer_kind optimizer);

/* Copying the gradients of that many tensors into the buckets of DistributedDataParallel and back:
 * two copies of each, at the rate that memory reaches. */
double dl_roofline_bucket_ns(const dl_roofline *roofline, double parameters, int tensors);

/* Forward, backward and update of `batch` samples, one after the other. */
double dl_roofline_step_ns(const dl_roofline *roofline, const dl_architecture *architecture,
                           dl_optimizer_kind optimizer, double batch);

/* Costs of training the network on the GPU, all of them assumed: operations LAYER.forward and
 * LAYER.backward with flop and bytes, layers, an update, copies to and from buckets, the number of
 * kernels that the host launches, input copied to the GPU, memory, gradients in the buckets of PyTorch's
 * DistributedDataParallel, exchanged during the backward pass as that does, or in units of whole
 * layers, which FSDP gathers (a block of a transformer, as its auto_wrap_policy usually has it),
 * and the spread. Everything else is left unknown. DL_ERR_DATA too for convolutions in fp8. Zero
 * `costs` before; release with dl_costs_free. */
dl_status dl_roofline_costs(dl_costs *costs, const dl_architecture *architecture,
                            const dl_gpu_model *gpu, dl_arithmetic arithmetic,
                            dl_optimizer_kind optimizer, bool units, dl_error *err) DL_MUST_CHECK;

#endif
