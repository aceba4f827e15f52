/* Comparison functions for qsort, and binary search. */
#ifndef DL_COMMON_SORT_H
#define DL_COMMON_SORT_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* -1, 0 or 1; evaluates its arguments twice. */
#define DL_COMPARE(a, b) (((a) > (b)) - ((a) < (b)))

/* Defines the static function `name`, a comparison of objects of `type` by one to six terms about
 * const type *a and *b, of which the first non-zero one decides. For instance
 *
 *   DL_ORDER(by_device_and_time, work, DL_BY(device), DL_BY_DESCENDING(time_ns)); */
#define DL_ORDER(name, type, ...)                   \
    static int name(const void *x_, const void *y_) \
    {                                               \
        const type *const a = x_, *const b = y_;    \
        return DL_FIRST_TERM_(__VA_ARGS__);         \
    }                                               \
    _Static_assert(sizeof(type) > 0, #name)

/* Like DL_ORDER, for arrays of pointers to such objects. */
#define DL_ORDER_OF_POINTERS(name, type, ...)           \
    static int name(const void *x_, const void *y_)     \
    {                                                   \
        const type *const a = *(const type *const *)x_; \
        const type *const b = *(const type *const *)y_; \
        return DL_FIRST_TERM_(__VA_ARGS__);             \
    }                                                   \
    _Static_assert(sizeof(type) > 0, #name)

#define DL_TERMS_1_(p) (p)
#define DL_TERMS_2_(p, ...) __extension__((p) ?: DL_TERMS_1_(__VA_ARGS__))
#define DL_TERMS_3_(p, ...) __extension__((p) ?: DL_TERMS_2_(__VA_ARGS__))
#define DL_TERMS_4_(p, ...) __extension__((p) ?: DL_TERMS_3_(__VA_ARGS__))
#define DL_TERMS_5_(p, ...) __extension__((p) ?: DL_TERMS_4_(__VA_ARGS__))
#define DL_TERMS_6_(p, ...) __extension__((p) ?: DL_TERMS_5_(__VA_ARGS__))
#define DL_PICK_(p, q, r, s, t, u, terms, ...) terms
#define DL_FIRST_TERM_(...)                                                                \
    DL_PICK_(__VA_ARGS__, DL_TERMS_6_, DL_TERMS_5_, DL_TERMS_4_, DL_TERMS_3_, DL_TERMS_2_, \
             DL_TERMS_1_, )                                                                \
    (__VA_ARGS__)

#define DL_BY(member) DL_COMPARE(a->member, b->member)
#define DL_BY_DESCENDING(member) DL_COMPARE(b->member, a->member)
#define DL_BY_TEXT(member) strcmp(a->member, b->member)

/* Sets `place`, a size_t, to the first of 0 .. count for which `before`, an expression in `place`,
 * is false. Values for which it is true must come first. O(log count). */
#define DL_BISECT(place, count, before)          \
    do {                                         \
        size_t low_ = 0, high_ = (count);        \
        while (low_ < high_) {                   \
            (place) = low_ + (high_ - low_) / 2; \
            if (before) {                        \
                low_ = (place) + 1;              \
            } else {                             \
                high_ = (place);                 \
            }                                    \
        }                                        \
        (place) = low_;                          \
    } while (0)

/* Loop over groups of consecutive items of 0 .. count - 1; a group is [first, end). `alike`, an
 * expression in `end`, tells whether item `end` belongs to the group of item `first`. */
#define DL_GROUPS(first, end, count, alike)                                          \
    for (size_t first = 0, end; first < (count) && __extension__({                   \
                                    for (end = first + 1; end < (count) && (alike);) \
                                        end++;                                       \
                                    1;                                               \
                                });                                                  \
         first = end)

/* qsort of items[count] of `bytes` each; count may be 0. O(count) if they are already sorted, the
 * usual case. */
static inline void dl_sort(void *items, size_t count, size_t bytes,
                           int (*order)(const void *, const void *))
{
    const char *item = items;
    for (size_t i = 1; i < count; i++, item += bytes) {
        if (order(item, item + bytes) <= 0) continue;
        qsort(items, count, bytes, order);
        return;
    }
}

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

/* The position of NaN is arbitrary. */
static inline int dl_compare_doubles(const void *a, const void *b)
{
    return DL_COMPARE(*(const double *)a, *(const double *)b);
}

#endif
