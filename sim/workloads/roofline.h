/* Times of a network's layers on a GPU without measurements, by the roofline model (Williams,
 * Waterman and Patterson 2009): kernels run in sequence, and each takes
 *
 *   max(flop / (peak x arithmetic_frac), bytes / (memory rate x memory_frac))
 *   + bytes of weights / (memory rate x memory_frac)
 *   + DL_ROOFLINE_KERNEL_NS, or product_ns for products
 *
 * Peak and memory rate are those of the data sheet. Products whose rows are not a multiple of 16
 * bytes, such as GPT-2's 50257 words, use kernels that load single numbers. In fp32, 3x3 windows at
 * every pixel count a fraction of their flop (Lavin and Gray 2016, Winograd's F(2x2, 3x3)), and
 * likewise in tf32 on GPUs whose fp32 is then faster, as cuDNN need not use tensor cores. The
 * fractions of the rates that programs reach are fitted for each class of networks and arithmetic,
 * separately for convolutions in fp32 on Volta and Turing, and for the Kepler generation (K20 to
 * K80), to published training rates of single GPUs (scenarios/workloads/measured.csv), by least
 * squares of the logarithm of predicted over measured rate. Errors are larger for GPUs and programs
 * that were not fitted: `log_sd` is the root mean square of that logarithm over rows outside the
 * fit, and over fitted rows with all rows of their GPU left out. tests/sim/fit_workloads.c performs
 * the fit, and checks that it gives the table in roofline_rates.c.
 *
 * Fused attention in 16 bits has its own rate, from published benchmarks; its share of the time
 * widens an estimate's spread beyond log_sd.
 *
 * bf16 equals fp16. In fp8 the products of linear layers in a transformer's blocks have their own
 * rate, and kernels before them convert to 8 bits (dl_low_bits): a number of 2 bytes is read once
 * and written twice as one byte, as products read their factors in one layout only. They reach the
 * same fraction of fp8's peak as other products reach of bf16's: in torchao's roofline of an H100
 * 0.78 of both, for large products, formerly 0.6 (pytorch/ao,
 * torchao/testing/training/roofline_utils.py); half of the logarithm of this ratio widens log_sd,
 * as no training rate in fp8 was fitted. These layers save their inputs in 8 bits. Everything else
 * is as in bf16. nvfp4 is treated like fp8, with its own rate and number of bytes. */
#ifndef DL_SIM_ROOFLINE_H
#define DL_SIM_ROOFLINE_H

#include "common/machine.h"
#include "sim/costs/costs.h"
#include "sim/workloads/architecture.h"

/* Time to start and end a kernel, and gap to the next one: assumed. */
#define DL_ROOFLINE_KERNEL_NS 5000
/* Ratio of a transformer's training step to the sum of its kernels' times measured one by one,
 * caused by power, clocks, gaps, and the rest of the program. A100: least mean error of published
 * steps (InternEvo, llm-foundry, Megatron-LM) and profiles of layers of widths 1024 and 2048
 * (vTrain), fitted together with the memory rate, as kernels that only move data take 1.7 times
 * their own time in steps and products 1.09; H100: medians of nanotron 1.36 and of llm-foundry,
 * without its metrics, 1.40; H200: 1.22 in our seven steps (scenarios/workloads/measured.csv);
 * B200: from products that a GB200 keeps up for long, 1.02 to 1.19 (docs/studies/estimates.md);
 * MI300X, and assumed for MI325X: from the ratio to an H100 of Llama 3 8B in bf16 by the same
 * program on 8 GPUs of each, 5376.5 to 6150 tokens/s per GPU (torchao/float8/README.md, pytorch/ao
 * at 9519bebb). A measured step gives the ratio (--calibrate); the ratios measured so far are 1.0
 * to 1.6. */
#define DL_SUSTAINED_A100 1.09
#define DL_SUSTAINED_H100 1.4
#define DL_SUSTAINED_H200 1.22
#define DL_SUSTAINED_B200 1.11
#define DL_SUSTAINED_MI300 1.5
/* Ratio of a 3x3 window's direct multiplications to those of Winograd's algorithm. */
#define DL_ROOFLINE_WINOGRAD 2.25
/* Time from a small gradient's copy to the next kernel, without the transfer of its bytes: mean of
 * 2.0 us on an H200 (PyTorch 2.11, ResNet-50 in fp32: steps with and without
 * DistributedDataParallel) and 2.8 us on a V100 (a trace of one rank, HolisticTraceAnalysis' test
 * data). */
#define DL_ROOFLINE_COPY_NS 2400

/* Returns the default arithmetic of programs: bf16 for transformers, tf32 for convolutions
 * (torch.backends.cudnn.allow_tf32) if all GPUs of the machine have it, else fp32. AMD's tf32 is
 * not used, as its convolution library lacks it. */
dl_arithmetic dl_arithmetic_usual(const dl_machine *machine, dl_model_class class);

/* Numbers of state and of memory traffic per parameter: sgd 0 and 3, momentum 1 and 5, adam 2 and 7
 * (gradient, parameter and state read, parameter and state written), of 4 bytes each: in fp16,
 * bf16, fp8 and nvfp4 only activations and products have lower precision, not parameters and
 * gradients. adam8bit has two states of 8 bits, with scales. */
typedef enum dl_optimizer_kind { DL_SGD, DL_MOMENTUM, DL_ADAM, DL_ADAM_8BIT } dl_optimizer_kind;

typedef struct dl_efficiency {
    double arithmetic_frac, memory_frac; /* fractions of the data sheet's rates */
    double log_sd;                       /* root mean square of the logarithm of predicted over
                                          * measured rate, as above */
    int rows;                            /* number of fitted rows */
    double product_ns; /* time per matrix product or convolution, in addition to its roofline */
    double sustained;  /* factor on the sum of kernels' times measured one by one, >= 1 */
} dl_efficiency;

/* Returns the efficiency of the products that programs make in `arithmetic`
 * (dl_gpu_model_products). */
const dl_efficiency *dl_efficiency_of(const dl_gpu_model *gpu, dl_model_class class,
                                      dl_arithmetic arithmetic);

/* Returns the basis of the fractions, as the end of a sentence, if no training rate of the GPU's
 * architecture was fitted, so that estimates have a wide spread. NULL: one was fitted, or the GPU's
 * kernels were measured one by one. */
const char *dl_efficiency_assumed(const dl_gpu_model *gpu, dl_model_class class,
                                  dl_arithmetic arithmetic);

/* Returns the standard deviation of the logarithm of an estimate's rate: `log_sd` of the
 * efficiency, or more if no training rate of the GPU's architecture was fitted. */
double dl_efficiency_log_sd(const dl_gpu_model *gpu, dl_model_class class,
                            dl_arithmetic arithmetic);

/* The rates that kernels reach. */
typedef struct dl_roofline {
    const dl_gpu_kernels *kernels; /* measured kernels; borrowed; NULL: not measured */
    double longer; /* sustained factor of the measured kernels, which the rates below include */
    double flop_per_s, bytes_per_s, bytes_per_number, kernel_ns, product_ns;
    double low_flop_per_s; /* rate of products in fp8 or nvfp4 (dl_low_bits); 0: in neither */
    double low_bytes;      /* bytes of a number in fp8 or nvfp4 */
    double low_read_bytes; /* bytes read of a number to convert it */
    bool tensor_cores;
    double odd_flop_per_s;           /* rate of products whose rows are not a multiple of 16
                                      * bytes */
    double small_windows_flop_per_s; /* rate of 3x3 windows at every pixel */
    /* Rates of fused attention with very long sequences, forward and backward, and the number of
     * keys with half of them, indexed by dl_attention. */
    double attention_flop_per_s[DL_ATTENTIONS][2], attention_half_keys[DL_ATTENTIONS];
} dl_roofline;

/* Computes the rates. DL_ERR_DATA, listing the known rates, if the GPU's peak rate in this
 * arithmetic is unknown. */
dl_status dl_roofline_of(const dl_gpu_model *gpu, dl_arithmetic arithmetic,
                         const dl_efficiency *efficiency, dl_roofline *roofline,
                         dl_error *err) DL_MUST_CHECK;

/* Refuses an arithmetic in which the network is not trained, and an attention whose rate is unknown
 * in it or on the GPU: DL_ERR_DATA. */
dl_status dl_roofline_check(const dl_architecture *architecture, const dl_gpu_model *gpu,
                            dl_arithmetic arithmetic, dl_error *err) DL_MUST_CHECK;

/* Returns the GPU's measured kernels, used to estimate transformers; NULL: not measured. They were
 * timed one by one, so a step takes longer by the sustained factor, if it was measured. */
const dl_gpu_kernels *dl_roofline_kernels(const dl_gpu_model *gpu, dl_model_class class,
                                          dl_arithmetic arithmetic);

/* Replaces the estimated rates by the measured kernels, except those of products in fp8 or nvfp4
 * and, unless it was measured or numbers have 32 bits, that of fused attention. */
void dl_roofline_take(dl_roofline *roofline, const dl_gpu_kernels *kernels);

/* Time of a product, in ns, from the three rates of its pass. */
double dl_roofline_product_ns(const dl_product_rates *rates, double flop, double weight_bytes,
                              double other_bytes);

/* Time of a pass: fixed + per_sample batch. */
typedef struct dl_pass_time {
    double fixed_ns, per_sample_ns;
} dl_pass_time;
dl_pass_time dl_roofline_pass(const dl_roofline *roofline, const dl_layer_pass *pass);

double dl_roofline_update_ns(const dl_roofline *roofline, double parameters,
                             dl_optimizer_kind optimizer);

/* Estimates the costs of training the network on the GPU, all assumed: operations LAYER.forward
 * and LAYER.backward with flop and bytes, layers, an update, copies to and from buckets, the
 * number of kernels that the host launches, input copied to the GPU, memory, the spread, and
 * gradients exchanged during the backward pass, in the buckets of PyTorch's
 * DistributedDataParallel or (`units`) in whole layers, which FSDP gathers (a block of a
 * transformer, its auto_wrap_policy's usual unit). Everything else remains unknown. Errors of
 * dl_roofline_of; DL_ERR_DATA also for convolutions in fp8 or nvfp4, for attention in 8 bits
 * with another arithmetic, and for attention = triton on GPUs whose rate of it is unknown.
 * `costs` must be zeroed; release with dl_costs_free. */
dl_status dl_roofline_costs(dl_costs *costs, const dl_architecture *architecture,
                            const dl_gpu_model *gpu, dl_arithmetic arithmetic,
                            dl_optimizer_kind optimizer, bool units, dl_error *err) DL_MUST_CHECK;

#endif
