/* How much smaller messages are, and what making them so moves in a GPU's memory. */
#include <math.h>

#include "sim/platform/platform_gpu.h"

#define PARAMETER_BYTES 4.0 /* fp32 */
#define INDEX_BYTES 4.0
#define BITS_PER_BYTE 8.0

const char *const dl_compress_names[DL_COMPRESS_KINDS + 1] = {"none", "fp16", "1bit", "topk"};

double dl_compress_bytes(const dl_gpu_options *options, double bytes)
{
    const double parameters = bytes / PARAMETER_BYTES;
    switch (options->compress) {
    case DL_COMPRESS_FP16: return bytes / 2;
    case DL_COMPRESS_1BIT: return parameters / BITS_PER_BYTE + 2 * PARAMETER_BYTES;
    case DL_COMPRESS_TOPK:
        return ceil(options->topk_frac * parameters) * (PARAMETER_BYTES + INDEX_BYTES);
    case DL_COMPRESS_NONE:
    case DL_COMPRESS_KINDS: break;
    }
    return bytes;
}

double dl_compress_traffic(const dl_gpu_options *options, double bytes)
{
    if (options->compress == DL_COMPRESS_NONE) return 0;
    /* Error feedback: what was left out before is read, what is left out now is written. */
    double feedback = options->compress == DL_COMPRESS_FP16 ? 0 : 2 * bytes;
    return bytes + feedback + dl_compress_bytes(options, bytes);
}

double dl_decompress_traffic(const dl_gpu_options *options, double bytes, int workers)
{
    if (options->compress == DL_COMPRESS_NONE) return 0;
    double message = dl_compress_bytes(options, bytes);
    return bytes + (options->compress == DL_COMPRESS_TOPK ? workers * message : message);
}
