/* Compression of pushed and reduced messages. fp16 halves the bytes; int8 and fp4 leave a quarter
 * and an eighth, plus negligible scales per block; 1bit sends one bit per number and two values per
 * message (Seide et al. 2014); topk sends the largest values with their indices. 1bit and topk add
 * the error of a message to the next one (error feedback). kernels/quantise.h implements them. */
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

extern const char *const dl_compress_names[DL_COMPRESS_KINDS + 1];

typedef struct dl_compression {
    dl_compress kind;
    double kept_frac; /* topk: fraction of all parameters that is sent */
} dl_compression;

/* Message size, in bytes, for a vector of `bytes` in single precision. */
double dl_compress_bytes(const dl_compression *compression, double bytes);

/* Bytes of memory traffic to encode a vector of `bytes`, including error feedback, and to decode
 * and sum `messages` such messages. 0 without compression. */
double dl_compress_traffic(const dl_compression *compression, double bytes);
double dl_decompress_traffic(const dl_compression *compression, double bytes, int messages);

/* dl_compress_traffic and dl_decompress_traffic on a GPU, in equivalent bytes at its full memory
 * rate: divided by the fraction of that rate that the kernels reached on an H200 (4.8 TB/s) on
 * vectors of 100 million parameters (docs/local_sgd.md). */
double dl_compress_gpu_bytes(const dl_compression *compression, double bytes);
double dl_decompress_gpu_bytes(const dl_compression *compression, double bytes, int messages);

#endif
