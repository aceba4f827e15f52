
#include "kernels/real.h"
#include "kernels/vector_internal.h"

/* Maximum number of vectors summed in registers in one sweep. A sweep over n + 1 streams has the
 * speed of a copy; adding one vector after another to a running sum in the cache took up to 3.5
 * times as long (4 vectors of 1.7 MB, AMD EPYC 9005, 2025). */
#define GROUP 8

/* For more than GROUP vectors, a running sum of this many numbers stays in the first-level
 * cache. */
#define BLOCK 1024

/* Promises that no iteration reads what another writes: `out` is one of the vectors, or does not
 * overlap them. */
#if defined(__GNUC__) && !defined(__clang__)
#define INDEPENDENT _Pragma("GCC ivdep")
#elif defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT
#endif

/* out[i] = share * sum of v[0..n-1][i], added in that order. n is a constant in every call, so the
 * conditions vanish. */
static inline __attribute__((always_inline)) void sweep(dl_real *out, const dl_real *const *v,
                                                        int n, size_t count, dl_real share)
{
    const dl_real *a = v[0], *b = n > 1 ? v[1] : a, *c = n > 2 ? v[2] : a, *d = n > 3 ? v[3] : a;
    const dl_real *e = n > 4 ? v[4] : a, *f = n > 5 ? v[5] : a, *g = n > 6 ? v[6] : a;
    const dl_real *h = n > 7 ? v[7] : a;
    INDEPENDENT
    for (size_t i = 0; i < count; i++) {
        dl_real sum = a[i];
        if (n > 1) sum += b[i];
        if (n > 2) sum += c[i];
        if (n > 3) sum += d[i];
        if (n > 4) sum += e[i];
        if (n > 5) sum += f[i];
        if (n > 6) sum += g[i];
        if (n > 7) sum += h[i];
        out[i] = sum * share;
    }
}

/* sweep for any 1 <= n <= GROUP. */
static inline __attribute__((always_inline)) void sum_group(dl_real *out, const dl_real *const *v,
                                                            int n, size_t count, dl_real share)
{
    switch (n) {
    case 1: sweep(out, v, 1, count, share); break;
    case 2: sweep(out, v, 2, count, share); break;
    case 3: sweep(out, v, 3, count, share); break;
    case 4: sweep(out, v, 4, count, share); break;
    case 5: sweep(out, v, 5, count, share); break;
    case 6: sweep(out, v, 6, count, share); break;
    case 7: sweep(out, v, 7, count, share); break;
    default: sweep(out, v, GROUP, count, share); break;
    }
}

/* Averages more than GROUP vectors: the running sum is the first vector of every further group. The
 * last group writes `out`, after the block's numbers of all vectors have been read. */
DL_HOT static void average_many(dl_real *out, const void *const *vectors, int n, size_t first,
                                size_t count, dl_real share)
{
    _Alignas(64) dl_real running[BLOCK];
    for (size_t done = 0; done < count; done += BLOCK) {
        const size_t block = count - done < BLOCK ? count - done : BLOCK;
        const dl_real *group[GROUP] = {running};
        for (int next = 0; next < n;) {
            int members = next > 0; /* the running sum */
            while (members < GROUP && next < n) {
                group[members++] = (const dl_real *)vectors[next++] + first + done;
            }
            if (next < n) {
                sum_group(running, group, members, block, 1);
            } else {
                sum_group(out + done, group, members, block, share);
            }
            group[0] = running;
        }
    }
}

DL_HOT static void average_few(dl_real *out, const void *const *vectors, int n, size_t first,
                               size_t count, dl_real share)
{
    const dl_real *group[GROUP] = {NULL};
    for (int v = 0; v < n; v++)
        group[v] = (const dl_real *)vectors[v] + first;
    sum_group(out, group, n, count, share);
}

void DL_TYPED(dl_exchange_sum)(void *result, const void *const *vectors, int n, int of,
                               size_t first, size_t count)
{
    dl_real *out = (dl_real *)result + first;
    const dl_real share = (dl_real)1 / (dl_real)of;
    if (n <= GROUP) {
        average_few(out, vectors, n, first, count, share);
    } else {
        average_many(out, vectors, n, first, count, share);
    }
}

DL_HOT void DL_TYPED(dl_exchange_add)(void *result, const void *from, double factor, size_t count)
{
    dl_real *restrict to = result;
    const dl_real *restrict added = from;
    const dl_real share = (dl_real)factor;
    for (size_t i = 0; i < count; i++)
        to[i] += share * added[i];
}

DL_HOT void DL_TYPED(dl_exchange_mix)(void *parameters, const void *average, double own_frac,
                                      size_t count)
{
    dl_real *restrict own = parameters;
    const dl_real *restrict other = average;
    const dl_real kept = (dl_real)own_frac, taken = 1 - kept;
    for (size_t i = 0; i < count; i++)
        own[i] = kept * own[i] + taken * other[i];
}

DL_HOT static void outer_nesterov(dl_real *restrict parameters, const dl_real *restrict average,
                                  dl_real *restrict velocity, size_t count, dl_real rate,
                                  dl_real momentum)
{
    for (size_t i = 0; i < count; i++) {
        const dl_real d = parameters[i] - average[i];
        velocity[i] = momentum * velocity[i] + d;
        parameters[i] = average[i] - (rate * (d + momentum * velocity[i]) - d);
    }
}

DL_HOT static void outer_sgd(dl_real *restrict parameters, const dl_real *restrict average,
                             dl_real *restrict velocity, size_t count, dl_real rate,
                             dl_real momentum)
{
    for (size_t i = 0; i < count; i++) {
        const dl_real d = parameters[i] - average[i];
        velocity[i] = momentum * velocity[i] + d;
        parameters[i] = average[i] - (rate * velocity[i] - d);
    }
}

void DL_TYPED(dl_exchange_outer)(void *parameters, const void *average, void *velocity,
                                 const dl_outer_config *outer, size_t first, size_t count)
{
    (outer->kind == DL_OUTER_NESTEROV ? outer_nesterov : outer_sgd)(
        (dl_real *)parameters + first, (const dl_real *)average + first,
        (dl_real *)velocity + first, count, (dl_real)outer->rate, (dl_real)outer->momentum);
}
