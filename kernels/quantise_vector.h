/* The arithmetic of dl_quantise_encode and dl_quantise_decode for one number type: compiled for
 * float and for double. */
#ifndef DL_KERNELS_QUANTISE_VECTOR_H
#define DL_KERNELS_QUANTISE_VECTOR_H

#include "kernels/quantise.h"

/* The first `count` numbers to and from half precision. */
void dl_quantise_halve_float(uint16_t *message, const void *values, size_t count);
void dl_quantise_halve_double(uint16_t *message, const void *values, size_t count);
void dl_quantise_widen_float(void *values, const uint16_t *message, size_t count);
void dl_quantise_widen_double(void *values, const uint16_t *message, size_t count);

/* All blocks to and from bits. */
void dl_quantise_sign_float(dl_quantise_bits *message, const dl_quantise_block *blocks,
                            size_t block_count, const void *values, void *residual);
void dl_quantise_sign_double(dl_quantise_bits *message, const dl_quantise_block *blocks,
                             size_t block_count, const void *values, void *residual);
void dl_quantise_unsign_float(void *values, const dl_quantise_block *blocks, size_t block_count,
                              const dl_quantise_bits *message);
void dl_quantise_unsign_double(void *values, const dl_quantise_block *blocks, size_t block_count,
                               const dl_quantise_bits *message);

#endif
