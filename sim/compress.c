#include "sim/compress.h"

#include <math.h>
#include <stdbool.h>

#define PARAMETER_BYTES 4.0 /* single precision */
#define INDEX_BYTES 4.0
#define BITS_PER_BYTE 8.0

const char *const dl_compress_names[DL_COMPRESS_KINDS + 1] = {"none", "fp16", "1bit",
                                                              "topk", "int8", "fp4"};

double dl_compress_bytes(const dl_compression *compression, double bytes)
{
    const double parameters = bytes / PARAMETER_BYTES;
    switch (compression->kind) {
    case DL_COMPRESS_FP16: return bytes / 2;
    case DL_COMPRESS_1BIT: return parameters / BITS_PER_BYTE + 2 * PARAMETER_BYTES;
    case DL_COMPRESS_TOPK:
        return ceil(compression->kept_frac * parameters) * (PARAMETER_BYTES + INDEX_BYTES);
    case DL_COMPRESS_INT8: return parameters;
    case DL_COMPRESS_FP4: return parameters / 2;
    case DL_COMPRESS_NONE:
    case DL_COMPRESS_KINDS: break;
    }
    return bytes;
}

/* Traffic of error feedback: reads the previous remainder and writes the new one. */
static double feedback_bytes(const dl_compression *compression, double bytes)
{
    const bool feeds_back =
        compression->kind == DL_COMPRESS_1BIT || compression->kind == DL_COMPRESS_TOPK;
    return feeds_back ? 2 * bytes : 0;
}

double dl_compress_traffic(const dl_compression *compression, double bytes)
{
    if (compression->kind == DL_COMPRESS_NONE) return 0;
    return bytes + feedback_bytes(compression, bytes) + dl_compress_bytes(compression, bytes);
}

double dl_decompress_traffic(const dl_compression *compression, double bytes, int messages)
{
    if (compression->kind == DL_COMPRESS_NONE) return 0;
    return bytes + messages * dl_compress_bytes(compression, bytes);
}

/* Fractions of a GPU's memory rate reached on an H200 with PyTorch 2.11: fp16 conversions,
 * torch.topk of 1 % with error feedback, fused Triton kernels (int8, fp4), dlprof's kernels
 * (1bit). */
static const struct {
    double make, read;
} gpu_share[DL_COMPRESS_KINDS] = {
    [DL_COMPRESS_NONE] = {1, 1},       [DL_COMPRESS_FP16] = {0.85, 0.43},
    [DL_COMPRESS_1BIT] = {0.63, 0.43}, [DL_COMPRESS_TOPK] = {0.09, 0.57},
    [DL_COMPRESS_INT8] = {0.78, 0.75}, [DL_COMPRESS_FP4] = {0.45, 0.41},
};

double dl_compress_gpu_bytes(const dl_compression *compression, double bytes)
{
    return dl_compress_traffic(compression, bytes) / gpu_share[compression->kind].make;
}

double dl_decompress_gpu_bytes(const dl_compression *compression, double bytes, int messages)
{
    return dl_decompress_traffic(compression, bytes, messages) / gpu_share[compression->kind].read;
}
