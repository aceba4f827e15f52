/* Rates that programs reach on a GPU, by class of networks and arithmetic. */
#include "sim/workloads/roofline.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* 4 bits, and a scale of 8 bits for 16 numbers (NVIDIA, Pretraining Large Language Models with
 * NVFP4, arXiv 2509.25149, section 2). The scale of the whole tensor needs its maximum, so that it
 * is read twice. */
#define NVFP4_BYTES (0.5 + 1 / 16.0)

/* Fractions of the rates that programs reach, fitted by tests/sim/fit_workloads.c. */
#define FITTED(arithmetic, memory, sd, count)                   \
    {                                                           \
        arithmetic, memory, sd, count, DL_ROOFLINE_KERNEL_NS, 1 \
    }

static const dl_efficiency efficiencies[DL_MODEL_CLASSES][DL_FP16 + 1] = {
    [DL_MODEL_CONVOLUTION] = {FITTED(0.52, 0.56, 0.20, 24), FITTED(0.54, 0.66, 0.13, 8),
                              FITTED(0.87, 0.50, 0.19, 10)},
    /* One memory rate is fitted for fp32 and tf32, as their other kernels are the same. */
    [DL_MODEL_TRANSFORMER] = {FITTED(0.71, 0.48, 0.14, 4), FITTED(0.71, 0.48, 0.09, 12),
                              FITTED(0.98, 0.41, 0.08, 8)},
};
static const dl_efficiency kepler = FITTED(0.19, 0.98, 0.67, 13);
/* Convolutions in fp32 on Volta and Turing: their caches are larger than those of earlier GPUs, and
 * their peak does not count units twice, as that of later GPUs does. */
static const dl_efficiency volta = FITTED(0.77, 0.63, 0.12, 16);
/* Transformers in fp8: values of fp16, whose log_sd is widened by ln(0.78 / 0.6) / 2. */
static const dl_efficiency in_fp8 = FITTED(0.98, 0.41, 0.15, 0);
/* Transformers on GeForce RTX 30 and later. Their tensor cores multiply at half of the rate of
 * professional cards with the same chip (NVIDIA, Ada GPU architecture white paper, appendix A), so
 * that a step waits more for products, and less often reaches the power limit. fp32, whose peak is
 * that of tf32, as tf32, with the other GPUs' spread; fp8 as above. */
static const dl_efficiency geforce[] = {[DL_FP32] = FITTED(0.66, 0.77, 0.14, 0),
                                        [DL_TF32] = FITTED(0.66, 0.77, 0.09, 4),
                                        [DL_FP16] = FITTED(0.68, 0.87, 0.12, 4)};
static const dl_efficiency geforce_in_fp8 = FITTED(0.68, 0.87, 0.18, 0);

/* Transformers in 16 bits and fp8 on GPUs whose kernels were measured one by one: fits of
 * scripts/fit_products.py to tables of their times by shape, forward only (backward kernels were
 * measured with zero gradients, which take less power). A100 and GH200:
 * DebarghaG/estimate-train-time at 1ac4d5e; B200: MooreThreads/SimuMax at 4dcaae5, one of the four
 * sources below. Memory rate: layer norm, GELU, sums and softmax of the same tables, 0.5 to 1.1 of
 * the data sheet's on an A100 (40 GB), 0.56 to 0.95 on a GH200; on an A100 the rate in steps
 * (DL_SUSTAINED_A100), times the sustained factor.
 *
 * Blackwell: geometric means of published fractions of the peak. bf16: SimuMax 0.49; a layer of
 * width 4096 on a B300, forward and both backward passes, 0.65 (Transformer Engine, GEMM Profiling
 * Tutorial); square matrices of 3072 to 8192 rows 0.64 (pytorch/ao pull request 2427); 16384 rows
 * 0.67 (vllm-project/vllm pull request 19566). fp8, without the conversion of the operands: the
 * same layer 0.61 (mean of per-tensor scales, 0.625, and MXFP8, 0.595), the same 16384 rows 0.555.
 * Half of the logarithm of 0.65 / 0.49, 0.14, widens log_sd in bf16 from 0.15 (sum of squares).
 *
 * AMD: the geometric mean of two published rates of large products, over the data sheet's. MI300X:
 * 620 Tflop/s in bf16 and 990 in fp8 for shapes of Llama 70B (SemiAnalysis, MI300X vs H100 vs H200
 * Benchmark Part 1: Training, 2024-12-22); 708 and 1273 at best (AMD, Measuring Max-Achievable
 * FLOPs, part 2, rocm.blogs.amd.com). MI325X: 843 and 1519 at best (same source), and 0.74 to 0.81
 * of these for typical shapes (AMD, Typical Attained FLOPs, same site). Memory rate: 4.1 TB/s of a
 * stream on an MI300X (Azure's AI benchmarking guide, ND MI300X v5). */
typedef enum board { A100, H100, H200, B200, B300, MI300X, MI325X, BOARDS } board;

/* Log standard deviation of estimates for MI300X and MI325X. The errors of nine published rates
 * that were not used for the estimates have a root mean square of 0.27 (docs/studies/estimates.md);
 * two standard deviations of 0.35 cover each of them, and all rates of products with 1 to 1.6 times
 * their time. */
#define MI300_LOG_SD 0.35

static const dl_efficiency by_kernels[BOARDS] = {
    [A100] = {0.82, 0.545, 0.18, 0, 20e3, DL_SUSTAINED_A100},
    [H100] = {0.83, 0.80, 0.13, 0, 10e3, DL_SUSTAINED_H100},
    [H200] = {0.83, 0.80, 0.13, 0, 10e3, DL_SUSTAINED_H200},
    [B200] = {0.61, 0.80, 0.20, 0, DL_ROOFLINE_KERNEL_NS, DL_SUSTAINED_B200},
    [B300] = {0.61, 0.80, 0.20, 0, DL_ROOFLINE_KERNEL_NS, DL_SUSTAINED_B200},
    [MI300X] = {0.51, 0.77, MI300_LOG_SD, 0, DL_ROOFLINE_KERNEL_NS, DL_SUSTAINED_MI300},
    [MI325X] = {0.57, 0.77, MI300_LOG_SD, 0, DL_ROOFLINE_KERNEL_NS, DL_SUSTAINED_MI300},
};
/* On Hopper, products in fp8 are assumed to reach bf16's part of the peak. On Blackwell, log_sd is
 * assumed as on Hopper; the logarithmic errors of 22 published steps in fp8, to which nothing was
 * fitted, have a root mean square of 0.09 (docs/studies/transformer_layouts.md). */
static const dl_efficiency by_kernels_in_fp8[BOARDS] = {
    [H100] = {0.83, 0.80, 0.18, 0, 10e3, DL_SUSTAINED_H100},
    [H200] = {0.83, 0.80, 0.18, 0, 10e3, DL_SUSTAINED_H200},
    [B200] = {0.58, 0.80, 0.18, 0, DL_ROOFLINE_KERNEL_NS, DL_SUSTAINED_B200},
    [B300] = {0.58, 0.80, 0.18, 0, DL_ROOFLINE_KERNEL_NS, DL_SUSTAINED_B200},
    [MI300X] = {0.43, 0.77, MI300_LOG_SD, 0, DL_ROOFLINE_KERNEL_NS, DL_SUSTAINED_MI300},
    [MI325X] = {0.51, 0.77, MI300_LOG_SD, 0, DL_ROOFLINE_KERNEL_NS, DL_SUSTAINED_MI300},
};

/* nvfp4: products alone, as in fp8, of the same layer of width 4096 on a B300 0.388 of the peak
 * (Transformer Engine's tutorial); on a B200 the geometric mean of 0.434 (16384 rows,
 * vllm-project/vllm pull request 20646) and 0.582 (8192 rows, cuBLASLt in MXFP4,
 * deepseek-ai/DeepGEMM pull request 348); half of the logarithm of their ratio, 0.15, widens log_sd
 * of fp8. 18 published steps are off by 0.05. Assumed for other GPUs: B200's. */
static const dl_efficiency b200_in_nvfp4 = {
    0.50, 0.80, 0.23, 0, DL_ROOFLINE_KERNEL_NS, DL_SUSTAINED_B200};
static const dl_efficiency b300_in_nvfp4 = {
    0.388, 0.80, 0.23, 0, DL_ROOFLINE_KERNEL_NS, DL_SUSTAINED_B200};

static board board_of(const char *gpu)
{
    static const struct {
        const char *start; /* prefix of the GPU's name */
        board of;
    } names[] = {
        {"a100", A100},    {"a800", A100}, {"h100", H100}, {"h800", H100},  {"h200", H200},
        {"gh200", H200},   {"b200", B200}, {"b300", B300}, {"gb200", B200}, {"gb300", B300},
        {"mi325", MI325X}, {"mi", MI300X}, /* other AMD GPUs: assumed as MI300X */
    };
    for (size_t n = 0; n < sizeof names / sizeof *names; n++)
        if (strncasecmp(gpu, names[n].start, strlen(names[n].start)) == 0) return names[n].of;
    return BOARDS;
}

/* Standard deviation of the logarithm if no rate of the GPU's architecture was fitted: half of the
 * logarithm of 2.5, the factor by which the fits to NVIDIA's GPUs overestimated the rate of Llama 3
 * on MI300X (torchao's README, 8 GPUs, bf16). */
#define UNFITTED_LOG_SD 0.46

/* Whether the GPU's architecture, Kepler to Hopper, has fitted rows: its name has a prefix of
 * `series` followed by a digit, or a prefix of `starts`. */
static bool is_fitted(const char *gpu)
{
    static const char *const series[] = {"k", "m", "p", "v", "t", "a", "l", "h", "gh", "gtx"};
    static const char *const starts[] = {"titan",      "rtx20",   "rtx30",  "rtx40",
                                         "rtx5000ada", "rtx6000", "rtx8000"};
    bool is = false;
    for (size_t s = 0; s < sizeof series / sizeof *series; s++) {
        const size_t length = strlen(series[s]);
        is =
            is || (strncasecmp(gpu, series[s], length) == 0 && isdigit((unsigned char)gpu[length]));
    }
    for (size_t s = 0; s < sizeof starts / sizeof *starts; s++)
        is = is || strncasecmp(gpu, starts[s], strlen(starts[s])) == 0;
    return is;
}

static const dl_efficiency *measured_kernels(const char *gpu, dl_arithmetic arithmetic)
{
    const board of = board_of(gpu);
    if (arithmetic == DL_NVFP4) return of == B300 ? &b300_in_nvfp4 : &b200_in_nvfp4;
    return of == BOARDS ? NULL : arithmetic == DL_FP8 ? &by_kernels_in_fp8[of] : &by_kernels[of];
}

/* Whether the GPU is a Tesla K20, K20X, K20m, K40 or K80. */
static bool is_kepler(const char *gpu)
{
    return (gpu[0] == 'k' || gpu[0] == 'K') && isdigit((unsigned char)gpu[1]);
}

static bool is_volta(const char *gpu)
{
    static const char *const starts[] = {"v100",  "titanv",  "titanrtx", "t4",
                                         "rtx20", "rtx6000", "rtx8000"};
    bool is = false;
    for (size_t s = 0; s < sizeof starts / sizeof *starts; s++)
        is = is || strncasecmp(gpu, starts[s], strlen(starts[s])) == 0;
    return is && strcasecmp(gpu, "rtx6000ada") != 0;
}

/* Whether the GPU is a GeForce RTX 3050 to 5090. */
static bool is_geforce_30(const char *gpu)
{
    return strncasecmp(gpu, "rtx", 3) == 0 && gpu[3] >= '3' && gpu[3] <= '5' && gpu[4] == '0' &&
           gpu[5] >= '5' && gpu[5] <= '9' && gpu[6] == '0';
}

/* Whether the GPU is a data-center Hopper or Blackwell. */
static bool is_hopper(const char *gpu)
{
    const bool joined = strncasecmp(gpu, "gh", 2) == 0 || strncasecmp(gpu, "gb", 2) == 0;
    return strchr("hHbB", gpu[joined ? 1 : 0]) != NULL;
}

/* Fraction of fp16's peak reached, in fp16 and in tf32, by products on tensor cores that load
 * single numbers: 123 Tflop/s on an H200 (a trace of GPT-2 in PyTorch 2.11), 470 flop per cycle and
 * multiprocessor. An A100's fraction, with the same flop per cycle, is assumed for all GPUs before
 * Hopper. */
static double odd_part(const char *gpu)
{
    return is_hopper(gpu) ? 0.124 : 0.23;
}

/* Speed of fused attention: parts of the peak in 16 bits with very long sequences, half of them
 * with `half_keys` keys. */
typedef struct attention_speed {
    double forward, backward, half_keys;
} attention_speed;

/* FlashAttention-2, PyTorch's choice: at least half of the peak on an A100 (Dao 2023, arXiv
 * 2307.08691); on an H100 298 to 335 Tflop/s of 989 with a causal mask and head dimension 128,
 * forward (Shah et al. 2024, arXiv 2407.08608, figure 5); cuDNN 1.6 times as much in the same
 * figure. On an MI300X 329 Tflop/s of 1307 with head dimension 64 and 8192 words, forward (Azure's
 * guide, as above).
 *
 * FlashAttention's first kernel in Triton (flash_attn_triton.py, of 2022), on A100 only, bf16: with
 * a causal mask, 64 numbers a head and 4096 keys 0.358 of the peak forward and 0.243 backward
 * (Triton 2.0's own kernel, from which it comes: triton-lang/triton,
 * python/test/regression/test_performance.py); with 128 numbers a head and 4096 and 8192 keys 0.213
 * and 0.241 backward with a mask, 0.450 and 0.473 forward without one (facebookresearch/xformers,
 * pull request 479): the number of keys with half of the rate is from the pair with a mask, the
 * rates are geometric means over both sizes of a head. In line with Dao 2023, section 4.1:
 * FlashAttention-2 is 1.3 to 1.5 times as fast forward, 2 backward.
 *
 * aiter's kernels in assembly, AMD's for training since 2025 (ROCm/aiter at 0403bcdf,
 * op_tests/cpp/mha/README.md, bf16, causal, heads of 128, gradients of queries summed in 32 bits),
 * with 1024, 2048, 4096 and 8192 tokens: on an MI300X 325, 425, 513 and 541 Tflop/s forward, 267,
 * 331, 402 and 435 backward; on an MI355X 640, 900, 1175 and 1316, and 475, 620, 722 and 772 of
 * 2517. They are taken on an MI350X and MI355X for all kinds, on MI300X and MI325X as cudnn.
 *
 * Blackwell: FlashAttention-2 352 to 362 Tflop/s of 2250 forward, with heads of 128 and 2048 to 8192
 * tokens, 245 with 512 (meta-pytorch/tritonbench pull request 171), 329 to 334 backward with heads
 * of 64 (Dao-AILab/flash-attention issue 1589), without a mask; cuDNN 9.13, which PyTorch prefers
 * there since 2.11 (sdp_utils.cpp, check_prefer_cudnn_attention): NVIDIA/cudnn-frontend,
 * benchmark/sdpa_benchmark_training/artifacts, causal, 128 heads of 128, forward and backward
 * together, of 4096, 8192 and 16384 tokens: in bf16 0.40, 0.48 and 0.54 of a B200's peak, 0.45,
 * 0.52 and 0.56 of a GB200's, 0.42, 0.51 and 0.57 of a GB300's; in fp8 0.47, 0.57 and 0.64 of
 * bf16's peak (means of B200 and GB200), on a GB300 0.51, 0.66 and 0.75, as Blackwell Ultra has
 * twice the units for exponentials. On Hopper fp8 is assumed as fast as bf16: steps of adapters of
 * Llama 2 70B on an H200 take 3.5 % less (NVIDIA, Accelerating Transformers with cuDNN 9), but
 * cuDNN 9.26's causal backward pass is slower, 342 against 537 Tflop/s
 * (benchmark/attention_training/results/llama3.1/h200). */
static attention_speed attention_speed_of(const char *gpu, dl_attention kind)
{
    const board of = board_of(gpu);
    const bool eight = kind == DL_ATTENTION_CUDNN_FP8;
    if ((of == B200 || of == B300) && kind == DL_ATTENTION_FLASH2)
        return (attention_speed){0.164, 0.147, 180};
    if (of == B200 || of == B300)
        return !eight       ? (attention_speed){0.60, 0.60, 1650}
               : of == B300 ? (attention_speed){0.87, 0.87, 2700}
                            : (attention_speed){0.73, 0.73, 2270};
    if (strncasecmp(gpu, "mi35", 4) == 0) return (attention_speed){0.59, 0.356, 1100};
    if (of == MI300X || of == MI325X)
        return kind == DL_ATTENTION_CUDNN || eight ? (attention_speed){0.456, 0.366, 840}
                                                   : (attention_speed){0.25, 0.25, 0};
    if (is_hopper(gpu))
        return kind == DL_ATTENTION_FUSED || kind == DL_ATTENTION_FLASH2
                   ? (attention_speed){0.32, 0.32, 0}
                   : (attention_speed){0.52, 0.52, 0};
    return kind == DL_ATTENTION_TRITON ? (attention_speed){0.48, 0.296, 1240}
                                       : (attention_speed){0.5, 0.5, 0};
}

const dl_efficiency *dl_efficiency_of(const dl_gpu_model *gpu, dl_model_class class,
                                      dl_arithmetic arithmetic)
{
    const dl_arithmetic products = dl_gpu_model_products(gpu, arithmetic);
    if (is_kepler(gpu->name)) return &kepler;
    /* In tf32 AMD's products are assumed to reach bf16's part of the peak: with NVIDIA's they would
     * be faster than in bf16. */
    const board of = board_of(gpu->name);
    const bool is_mi300 = of == MI300X || of == MI325X;
    if (class == DL_MODEL_TRANSFORMER &&
        (products >= DL_FP16 || (products == DL_TF32 && is_mi300))) {
        const dl_efficiency *measured = measured_kernels(gpu->name, products);
        if (measured != NULL) return measured;
    }
    const bool is_geforce = is_geforce_30(gpu->name);
    if (products >= DL_FP8) return is_geforce ? &geforce_in_fp8 : &in_fp8;
    if (class == DL_MODEL_TRANSFORMER && is_geforce)
        return &geforce[products == DL_BF16 ? DL_FP16 : products];
    if (class == DL_MODEL_CONVOLUTION && products == DL_FP32 && is_volta(gpu->name)) return &volta;
    return &efficiencies[class][products == DL_BF16 ? DL_FP16 : products];
}

/* Whether rates of this GPU's own kernels were published. */
static bool has_own_kernels(const dl_gpu_model *gpu, dl_model_class class, dl_arithmetic arithmetic)
{
    const board of = board_of(gpu->name);
    if (class != DL_MODEL_TRANSFORMER || dl_gpu_model_products(gpu, arithmetic) < DL_FP16)
        return false;
    return of == MI300X ? strncasecmp(gpu->name, "mi300", 5) == 0 : of != BOARDS;
}

const char *dl_efficiency_assumed(const dl_gpu_model *gpu, dl_model_class class,
                                  dl_arithmetic arithmetic)
{
    if (is_fitted(gpu->name)) return NULL;
    if (!has_own_kernels(gpu, class, arithmetic))
        return "assumed, as no training rate of its architecture was fitted";
    switch (board_of(gpu->name)) {
    case MI300X:
        return "assumed from its large products, 620 to 708 Tflop/s in bf16, 990 to 1273 in fp8 "
               "(SemiAnalysis 2024, AMD 2025)";
    case MI325X:
        return "assumed from its large products, 624 to 843 Tflop/s in bf16, 1124 to 1519 in fp8 "
               "(AMD 2025)";
    default: return NULL;
    }
}

double dl_efficiency_log_sd(const dl_gpu_model *gpu, dl_model_class class, dl_arithmetic arithmetic)
{
    const double log_sd = dl_efficiency_of(gpu, class, arithmetic)->log_sd;
    const bool known = is_fitted(gpu->name) || has_own_kernels(gpu, class, arithmetic);
    return known ? log_sd : fmax(log_sd, UNFITTED_LOG_SD);
}

static bool is_amd(const dl_gpu_model *gpu)
{
    return strncasecmp(gpu->name, "mi", 2) == 0;
}

/* Whether the GPU's compute capability is 8.x. If the machine file does not give it: whether
 * the GPU has tf32 and its architecture has fitted rows, but is not Hopper. */
static bool is_ampere(const dl_gpu_model *gpu)
{
    const dl_quantity *capability = &gpu->compute_capability;
    if (capability->known) return floor(capability->value) == 8;
    return gpu->tf32_flop_per_s.known && is_fitted(gpu->name) && !is_hopper(gpu->name);
}

dl_arithmetic dl_arithmetic_usual(const dl_machine *machine, dl_model_class class)
{
    const dl_arithmetic usual = class == DL_MODEL_TRANSFORMER ? DL_BF16 : DL_TF32;
    bool all = true;
    for (int m = 0; m < machine->model_count; m++) {
        const dl_gpu_model *gpu = &machine->models[m];
        all =
            all && dl_gpu_model_flop_per_s(gpu, usual)->known && !(usual == DL_TF32 && is_amd(gpu));
    }
    return all ? usual : DL_FP32;
}

static dl_status refuse_rate(const dl_gpu_model *gpu, dl_arithmetic arithmetic, dl_error *err)
{
    char known[100] = "";
    size_t used = 0;
    for (int a = 0; a < DL_ARITHMETICS; a++) {
        if (!dl_gpu_model_flop_per_s(gpu, (dl_arithmetic)a)->known) continue;
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s",
                                 used > 0 ? ", " : ": it may have no such arithmetic; known are ",
                                 dl_arithmetic_names[a]);
    }
    return dl_error_set(err, DL_ERR_DATA, "the rate %s_flop_per_s of %s is not known%s",
                        dl_arithmetic_names[arithmetic], gpu->name, known);
}

/* Rate of transformers' products in fp32, which cuBLAS may choose if tf32 is allowed: its compute
 * type permits tensor cores but does not require them (NVIDIA, cuBLAS documentation,
 * CUBLAS_COMPUTE_32F_FAST_TF32). */
static double transformers_fp32_flop_per_s(const dl_gpu_model *gpu)
{
    const double rate = gpu->fp32_flop_per_s.known ? gpu->fp32_flop_per_s.value : 0;
    return rate * efficiencies[DL_MODEL_TRANSFORMER][DL_FP32].arithmetic_frac;
}

/* Rate of 3x3 windows at every pixel. cuDNN's default math permits tensor cores in tf32, but does
 * not require them (NVIDIA, cuDNN documentation, cudnnMathType_t): where fp32's peak equals tf32's,
 * as on GeForce RTX 30 and later, Winograd's algorithm in fp32 is the faster one. */
static double small_windows_flop_per_s(const dl_gpu_model *gpu, dl_arithmetic arithmetic,
                                       double flop_per_s)
{
    const double fp32 = gpu->fp32_flop_per_s.known ? gpu->fp32_flop_per_s.value : 0;
    if (arithmetic == DL_FP32) return flop_per_s * DL_ROOFLINE_WINOGRAD;
    if (arithmetic != DL_TF32) return flop_per_s;
    return fmax(flop_per_s,
                fp32 * DL_ROOFLINE_WINOGRAD *
                    dl_efficiency_of(gpu, DL_MODEL_CONVOLUTION, DL_FP32)->arithmetic_frac);
}

dl_status dl_roofline_of(const dl_gpu_model *gpu, dl_arithmetic arithmetic,
                         const dl_efficiency *efficiency, dl_roofline *roofline, dl_error *err)
{
    const bool in_low = arithmetic >= DL_FP8, halves = arithmetic >= DL_FP16;
    const dl_arithmetic products = dl_gpu_model_products(gpu, arithmetic);
    const dl_quantity *rate = dl_gpu_model_flop_per_s(gpu, in_low ? DL_BF16 : arithmetic);
    const dl_quantity *low = dl_gpu_model_flop_per_s(gpu, arithmetic);
    if (!rate->known || !low->known) return refuse_rate(gpu, arithmetic, err);
    const double longer = efficiency->sustained;
    const dl_efficiency *usual =
        arithmetic == DL_NVFP4 ? dl_efficiency_of(gpu, DL_MODEL_TRANSFORMER, DL_BF16) : efficiency;
    *roofline = (dl_roofline){
        .longer = 1,
        .flop_per_s = rate->value * usual->arithmetic_frac / longer,
        .low_flop_per_s = in_low ? low->value * efficiency->arithmetic_frac / longer : 0,
        .low_bytes = arithmetic == DL_NVFP4 ? NVFP4_BYTES : 1,
        .low_read_bytes = arithmetic == DL_NVFP4 ? 4 : 2,
        .bytes_per_s = gpu->memory_bytes_per_s.value * efficiency->memory_frac / longer,
        .tensor_cores = products != DL_FP32,
        .bytes_per_number = halves ? 2 : 4,
        .kernel_ns = DL_ROOFLINE_KERNEL_NS * longer,
        .product_ns = efficiency->product_ns * longer,
    };
    roofline->odd_flop_per_s = roofline->flop_per_s;
    if (products != DL_FP32 && gpu->fp16_flop_per_s.known) {
        roofline->odd_flop_per_s =
            fmin(roofline->flop_per_s, gpu->fp16_flop_per_s.value * odd_part(gpu->name));
    }
    if (arithmetic == DL_TF32)
        roofline->odd_flop_per_s =
            fmax(roofline->odd_flop_per_s,
                 fmin(roofline->flop_per_s, transformers_fp32_flop_per_s(gpu)));
    for (int k = DL_ATTENTION_FUSED; k < DL_ATTENTIONS; k++) {
        const attention_speed speed = attention_speed_of(gpu->name, (dl_attention)k);
        if (halves) roofline->attention_half_keys[k] = speed.half_keys;
        for (int p = 0; p < 2; p++) {
            double *to = &roofline->attention_flop_per_s[k][p];
            *to = roofline->flop_per_s;
            if (!halves) continue;
            const double own = rate->value * (p == 0 ? speed.forward : speed.backward) / longer;
            *to = k == DL_ATTENTION_CUDNN_FP8 ? own : fmin(*to, own);
        }
    }
    roofline->small_windows_flop_per_s =
        small_windows_flop_per_s(gpu, products, roofline->flop_per_s);
    return DL_OK;
}

const dl_gpu_kernels *dl_roofline_kernels(const dl_gpu_model *gpu, dl_model_class class,
                                          dl_arithmetic arithmetic)
{
    const dl_gpu_kernels *kernels = &gpu->kernels[arithmetic];
    return class == DL_MODEL_TRANSFORMER && kernels->known ? kernels : NULL;
}

void dl_roofline_take(dl_roofline *roofline, const dl_gpu_kernels *kernels)
{
    const double longer = kernels->sustained.known ? kernels->sustained.value : 1;
    const double flop_per_s = kernels->products[DL_PRODUCT_FORWARD].flop_per_s.value / longer;
    if (roofline->bytes_per_number == 4) { /* fused attention in 16 bits keeps its own rate */
        for (int k = DL_ATTENTION_FUSED; k < DL_ATTENTIONS; k++)
            roofline->attention_flop_per_s[k][0] = roofline->attention_flop_per_s[k][1] =
                flop_per_s;
    }
    roofline->kernels = kernels;
    roofline->longer = longer;
    roofline->flop_per_s = roofline->odd_flop_per_s = flop_per_s;
    roofline->bytes_per_s = kernels->moves[DL_MOVE_PLAIN].bytes_per_s.value / longer;
    roofline->kernel_ns = kernels->moves[DL_MOVE_PLAIN].fixed_ns.value * longer;
}

dl_status dl_roofline_check(const dl_architecture *architecture, const dl_gpu_model *gpu,
                            dl_arithmetic arithmetic, dl_error *err)
{
    if (arithmetic >= DL_FP8 && architecture->class != DL_MODEL_TRANSFORMER) {
        return dl_error_set(err, DL_ERR_DATA,
                            "%s has convolutions, which frameworks do not train in %s: bf16 or "
                            "tf32",
                            architecture->name, dl_arithmetic_names[arithmetic]);
    }
    if (architecture->attention == DL_ATTENTION_TRITON && !is_ampere(gpu)) {
        return dl_error_set(err, DL_ERR_DATA,
                            "attention = triton: its rate is known with compute capability 8.x "
                            "only, not on %s%s: take attention = fused",
                            gpu->name,
                            gpu->compute_capability.known || is_amd(gpu)
                                ? ""
                                : ", which has no compute_capability");
    }
    if (architecture->attention == DL_ATTENTION_CUDNN_FP8 && arithmetic < DL_FP8) {
        return dl_error_set(err, DL_ERR_DATA,
                            "attention = cudnn_fp8: this needs arithmetic = fp8 or nvfp4, not %s",
                            dl_arithmetic_names[arithmetic]);
    }
    return DL_OK;
}
