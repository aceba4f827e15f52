#include "sim/compress.h"

#include <math.h>

#define PARAMETER_BYTES 4.0 /* fp32 */
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

bool dl_compress_feeds_back(const dl_compression *compression)
{
    return compression->kind == DL_COMPRESS_1BIT || compression->kind == DL_COMPRESS_TOPK;
}
