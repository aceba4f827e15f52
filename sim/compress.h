/* Compressed messages of pushes and reductions. fp16: half of the bytes; int8, fp4: a quarter, an
 * eighth, with negligible scales per block; 1bit: a bit per number and two values per message
 * (Seide et al. 2014); topk: values and indices of the largest. The last two add a message's loss
 * to the next one (error feedback). kernels/quantise.h implements them. */
#ifndef DL_SIM_COMPRESS_H
#define DL_SIM_COMPRESS_H

typedef enum dl_compress {
    DL_COMPRESS_NONE,
    DL_COMPRESS_FP16,
    DL_COMPRESS_1BIT,
    DL_COMPRESS_TOPK,
    DL_COMPRESS_INT8,
    DL_COMPRESS_FP4,
    DL_COMPRESS_KINDS
} dl_compress;

/* "none", "fp16", "1bit", "topk", "int8", "fp4", NULL. */
extern const char *const dl_compress_names[DL_COMPRESS_KINDS + 1];

typedef struct dl_compression {
    dl_compress kind;
    double kept_frac; /* topk: of all parameters */
} dl_compression;

/* Message size of `bytes` in single precision. */
double dl_compress_bytes(const dl_compression *compression, double bytes);

/* Bytes of memory read and written to encode a vector of `bytes` with error feedback; and to decode
 * `messages` such messages and add them up. 0 without compression. */
double dl_compress_traffic(const dl_compression *compression, double bytes);
double dl_decompress_traffic(const dl_compression *compression, double bytes, int messages);

/* The same traffic as bytes at a GPU's full memory rate, i.e. divided by the fraction of that rate
 * that kernels reached on an H200 (4.8 TB/s) with 100 million numbers (docs/local_sgd.md). */
double dl_compress_gpu_bytes(const dl_compression *compression, double bytes);
double dl_decompress_gpu_bytes(const dl_compression *compression, double bytes, int messages);

#endif
