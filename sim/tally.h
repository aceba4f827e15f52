/* How often durations came up, without keeping each: bins of a relative width of 2^-10, a
 * thousandth, and of 1 ns below 1024 ns, as in HdrHistogram. 442 KB, however many are added. */
#ifndef DL_SIM_TALLY_H
#define DL_SIM_TALLY_H

#include <stdint.h>

typedef struct dl_tally {
    int64_t *bins; /* NULL: nothing was added */
    int64_t count;
    double mean_ns, squares; /* of the differences from the mean */
} dl_tally;

/* A duration in 0 .. DL_NS_MAX ns. Accepts a zeroed object; O(1). */
void dl_tally_add(dl_tally *tally, int64_t ns);

/* Standard deviation in ns; 0 of fewer than two. */
double dl_tally_sd_ns(const dl_tally *tally);

/* The quantile `share` (0..1) in ns, off by at most the width of a bin; 0 if nothing was added. */
double dl_tally_quantile_ns(const dl_tally *tally, double share);

void dl_tally_free(dl_tally *tally);

#endif
