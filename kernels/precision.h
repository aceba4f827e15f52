/* Number type of a model; every layer supports both. */
#ifndef DL_KERNELS_PRECISION_H
#define DL_KERNELS_PRECISION_H

#include <stddef.h>

typedef enum dl_precision { DL_FLOAT, DL_DOUBLE } dl_precision;

/* Size of tables indexed by dl_precision. */
enum { DL_PRECISION_COUNT = 2 };

/* Bytes of one number. */
static inline size_t dl_precision_bytes(dl_precision precision)
{
    return precision == DL_DOUBLE ? sizeof(double) : sizeof(float);
}

#endif
