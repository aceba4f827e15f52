/* Smaller messages: what is pushed or reduced is sent as fp16: half of the bytes; int8, fp4: a
 * quarter, an eighth, beside which scales of blocks count for nothing; 1bit: a bit a number and two
 * values a message (Seide et al. 2014); topk: values and places of the largest. The last two keep
 * what a message loses for the next one (error feedback). kernels/quantise.h makes them for
 * real. */
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

/* What `bytes` of single precision are sent as. */
double dl_compress_bytes(const dl_compression *compression, double bytes);

/* Bytes of memory read and written to make a message of a vector of `bytes`, with error feedback;
 * and to make a vector of that many messages of that size. None where nothing is compressed. */
double dl_compress_traffic(const dl_compression *compression, double bytes);
double dl_decompress_traffic(const dl_compression *compression, double bytes, int messages);

/* What they take on a GPU, as bytes at the rate of its memory: the traffic above, divided by the
 * share of that rate which kernels reached on an H200 (4.8 TB/s) with 100 million numbers
 * (docs/local_sgd.md). */
double dl_compress_gpu_bytes(const dl_compression *compression, double bytes);
double dl_decompress_gpu_bytes(const dl_compression *compression, double bytes, int messages);

#endif
