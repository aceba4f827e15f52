/* The arithmetic of dl_exchange_sum for one number type: compiled for float and for double. */
#ifndef DL_KERNELS_EXCHANGE_AVERAGE_H
#define DL_KERNELS_EXCHANGE_AVERAGE_H

#include <stddef.h>

/* As dl_exchange_sum (exchange.h), of vectors of float and of double. */
void dl_exchange_sum_float(void *result, const void *const *vectors, int n, int of, size_t first,
                           size_t count);
void dl_exchange_sum_double(void *result, const void *const *vectors, int n, int of, size_t first,
                            size_t count);

#endif
