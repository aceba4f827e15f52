/* Arithmetic on vectors of one number type, behind exchange.h (vector.c) and quantise.h
 * (quantise_vector.c), compiled for float and for double. */
#ifndef DL_KERNELS_VECTOR_INTERNAL_H
#define DL_KERNELS_VECTOR_INTERNAL_H

#include "kernels/exchange.h"
#include "kernels/quantise.h"

#define DL_VECTOR_FUNCTIONS(real)                                                                  \
    /* As dl_exchange_sum. */                                                                      \
    void dl_exchange_sum_##real(void *result, const void *const *vectors, int n, int of,           \
                                size_t first, size_t count);                                       \
    /* As dl_exchange_add. */                                                                      \
    void dl_exchange_add_##real(void *result, const void *from, double factor, size_t count);      \
    /* As dl_exchange_outer. */                                                                    \
    void dl_exchange_outer_##real(void *parameters, const void *average, void *velocity,           \
                                  const dl_outer_config *outer, size_t first, size_t count);       \
    /* Convert `count` numbers to and from half precision. */                                      \
    void dl_quantise_halve_##real(uint16_t *message, const void *values, size_t count);            \
    void dl_quantise_widen_##real(void *values, const uint16_t *message, size_t count);            \
    /* As dl_exchange_mix. */                                                                      \
    void dl_exchange_mix_##real(void *parameters, const void *average, double own_frac,            \
                                size_t count);                                                     \
    /* Encode and decode all int8 blocks. */                                                       \
    void dl_quantise_round_##real(dl_quantise_bytes *message, const dl_quantise_block *blocks,     \
                                  size_t block_count, const void *values);                         \
    void dl_quantise_unround_##real(void *values, const dl_quantise_block *blocks,                 \
                                    size_t block_count, const dl_quantise_bytes *message);         \
    /* Encode and decode all fp4 blocks. */                                                        \
    void dl_quantise_nibble_##real(dl_quantise_nibbles *message, const dl_quantise_block *blocks,  \
                                   size_t block_count, const void *values);                        \
    void dl_quantise_unnibble_##real(void *values, const dl_quantise_block *blocks,                \
                                     size_t block_count, const dl_quantise_nibbles *message);      \
    /* Encode all topk blocks; decode `kept` entries to `count` values. */                         \
    void dl_quantise_select_##real(dl_quantise_entry *message, const dl_quantise_plan *plan,       \
                                   const void *values, void *residual);                            \
    void dl_quantise_unselect_##real(void *values, size_t count, const dl_quantise_entry *message, \
                                     size_t kept);                                                 \
    /* Encode and decode all 1bit blocks. */                                                       \
    void dl_quantise_sign_##real(dl_quantise_bits *message, const dl_quantise_block *blocks,       \
                                 size_t block_count, const void *values, void *residual);          \
    void dl_quantise_unsign_##real(void *values, const dl_quantise_block *blocks,                  \
                                   size_t block_count, const dl_quantise_bits *message);

DL_VECTOR_FUNCTIONS(float)
DL_VECTOR_FUNCTIONS(double)

#endif
