/* Orders for qsort. */
#ifndef DL_COMMON_SORT_H
#define DL_COMMON_SORT_H

#include <stddef.h>
#include <stdint.h>

/* -1, 0 or 1; evaluates its arguments twice. */
#define DL_COMPARE(a, b) (((a) > (b)) - ((a) < (b)))

static inline int dl_compare_ints(const void *a, const void *b)
{
    return DL_COMPARE(*(const int *)a, *(const int *)b);
}

static inline int dl_compare_int64s(const void *a, const void *b)
{
    return DL_COMPARE(*(const int64_t *)a, *(const int64_t *)b);
}

static inline int dl_compare_sizes(const void *a, const void *b)
{
    return DL_COMPARE(*(const size_t *)a, *(const size_t *)b);
}

/* NaN sorts anywhere. */
static inline int dl_compare_doubles(const void *a, const void *b)
{
    return DL_COMPARE(*(const double *)a, *(const double *)b);
}

#endif
