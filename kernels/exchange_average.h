/* The arithmetic of dl_exchange_average for one number type: compiled for float and for double. */
#ifndef DL_KERNELS_EXCHANGE_AVERAGE_H
#define DL_KERNELS_EXCHANGE_AVERAGE_H

#include <stddef.h>

/* As dl_exchange_average (exchange.h), of vectors of float and of double. */
void dl_exchange_average_float(void *result, const void *const *vectors, int n, size_t first,
                               size_t count);
void dl_exchange_average_double(void *result, const void *const *vectors, int n, size_t first,
                                size_t count);

#endif
